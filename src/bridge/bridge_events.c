/* SPDX-License-Identifier: Apache-2.0 */

/* Events to exchanges. They come as a stream of server-sent events, whose ids are their cursors,
 * and are published in their order, several at a time. The place is the newest event of which
 * everything up to it is confirmed; it is kept in the journal, as
 * {"is":"events","after":NUMBER,"history":"ID"}, shortly after it has moved. So after a crash some
 * events are published again, and none is left out. Before anything is published for the first
 * time, the place where it begins is kept.
 *
 * If the broker is slower than events come, the stream is ended, and begun again where it was once
 * half of what waits is confirmed. A message that the broker refuses is published again until it
 * takes it; nothing is published past it meanwhile. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/log.h"
#include "base/must.h"
#include "bridge/bridge_event.h"
#include "bridge/bridge_internal.h"
#include "client/client.h"
#include "client/view.h"
#include "base/event_cursor.h"

#define EVENTS_MAX     ((size_t)1000)     /* that are not confirmed */
#define BYTES_MAX      ((size_t)8 << 20)  /* of their texts */
#define LINE_BYTES_MAX ((size_t)64 << 20) /* of one event: more than any has */
#define PAUSE          ((span){60000})    /* the server's heartbeats are more frequent */
#define SAVE_MS        100
#define AGAIN_MS       1000 /* a message that was refused */

struct note {
    struct event *of;
    bool refused;
    struct bridge_note is;
};

struct event {
    struct list node;
    struct bridge_events *owner;
    struct event_cursor at;
    size_t bytes;
    size_t count, published, left; /* notes; those given to the link; those not confirmed */
    struct note *notes;            /* in one block of memory with their texts */
};

struct bridge_events {
    struct bridge *b;
    struct bridge_link link;
    struct remote_call *stream;
    uv_timer_t again, save, refused;
    uint32_t tries;
    bool stopping, known, kept; /* kept: the place where it began is on disk */
    bool full;                  /* the stream was ended for want of room */
    struct buf line;
    struct arena arena;           /* while an event is read */
    struct event_cursor block;    /* the id of the block */
    struct event_cursor received; /* the newest that came */
    struct event_cursor place;
    struct journal_record *record;
    struct event_cursor recorded;
    struct list events; /* that are not confirmed, in order */
    size_t count, bytes, refusals;
};

static void begin_stream(struct bridge_events *e);
static void publish_more(struct bridge_events *e);

/* --- the place --- */

static bool is_same(struct event_cursor a, struct event_cursor b)
{
    return a.history == b.history && a.number == b.number;
}

static bool is_newer(struct event_cursor c, struct event_cursor than)
{
    return c.history != than.history || c.number > than.number;
}

static void save(struct bridge_events *e)
{
    struct journal_record *old = e->record;
    struct buf b = {0};
    if (!e->known || (old && is_same(e->recorded, e->place)))
        return;
    buf_print(&b, "{\"is\":\"events\",\"after\":%" PRIu64, e->place.number);
    if (e->place.history)
        buf_print(&b, ",\"history\":\"%016" PRIx64 "\"", e->place.history);
    buf_byte(&b, '}');
    e->record = journal_add(e->b->journal, buf_view(&b));
    e->recorded = e->place;
    if (old)
        journal_remove(e->b->journal, old);
    buf_fini(&b);
}

static void on_save(uv_timer_t *t)
{
    save(t->data);
}

static void set_place(struct bridge_events *e, struct event_cursor at)
{
    bool first = !e->known;
    e->known = true;
    e->place = at;
    if (first)
        save(e);
    else if (!uv_is_active((uv_handle_t *)&e->save))
        uv_timer_start(&e->save, on_save, SAVE_MS, 0);
}

void bridge_events_kept(struct bridge_events *e)
{
    if (e->kept || !e->record || !e->record->kept)
        return;
    e->kept = true;
    publish_more(e);
}

/* A record of an older bridge has no history. */
static bool read_place(struct str record, struct event_cursor *at)
{
    struct arena a = {0};
    struct buf text = {0};
    int64_t after;
    bool good = view_int(record, "after", &after) && after >= 0;
    struct str history = view_text(&a, record, "history");
    if (good) {
        buf_print(&text, "%.*s%s%" PRId64, STR_ARG(history), history.len ? "-" : "", after);
        good = event_cursor_read(buf_view(&text), at);
    }
    buf_fini(&text);
    arena_fini(&a);
    return good;
}

/* After a crash there may be two records, of which the newer counts. */
static void load_place(struct bridge_events *e)
{
    struct list *records = journal_records(e->b->journal);
    for (struct list *n = records->next, *next; n != records; n = next) {
        struct journal_record *r = LIST_OF(n, struct journal_record, node);
        struct event_cursor after;
        next = n->next;
        if (!read_place(journal_text(r), &after) || (e->record && !is_newer(after, e->recorded))) {
            journal_remove(e->b->journal, r);
            continue;
        }
        if (e->record)
            journal_remove(e->b->journal, e->record);
        e->record = r;
        e->recorded = after;
    }
    if (e->record) {
        e->known = e->kept = true;
        e->place = e->received = e->recorded;
    } else if (e->b->settings->since) {
        e->received = *e->b->settings->since;
        set_place(e, e->received);
    }
}

/* --- events that are confirmed --- */

static void free_event(struct event *ev)
{
    ev->owner->count--;
    ev->owner->bytes -= ev->bytes;
    list_unlink(&ev->node);
    free(ev->notes);
    free(ev);
}

static void advance(struct bridge_events *e)
{
    while (!list_is_empty(&e->events)) {
        struct event *ev = LIST_OF(e->events.next, struct event, node);
        if (ev->left)
            break;
        set_place(e, ev->at);
        free_event(ev);
    }
    if (e->full && e->count <= EVENTS_MAX / 2 && e->bytes <= BYTES_MAX / 2) {
        e->full = false;
        begin_stream(e);
    }
    bridge_idle(e->b);
}

/* --- publishing --- */

static void publish(struct bridge_events *e, struct note *n)
{
    amqp_table_t headers = {0};
    amqp_table_entry_t cc = {.key = amqp_cstring_bytes("CC"),
                             .value = {.kind = AMQP_FIELD_KIND_ARRAY, .value.array = n->is.cc}};
    amqp_basic_properties_t p = {
        ._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                  AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_TYPE_FLAG,
        .content_type = amqp_cstring_bytes("application/json"),
        .delivery_mode = AMQP_DELIVERY_PERSISTENT,
        .message_id = amqp_session_bytes(n->is.message_id),
        .app_id = amqp_cstring_bytes("tenax"),
        .type = amqp_session_bytes(n->is.type),
    };
    if (n->is.cc.num_entries) {
        headers = (amqp_table_t){.num_entries = 1, .entries = &cc};
        p.headers = headers;
        p._flags |= AMQP_BASIC_HEADERS_FLAG;
    }
    amqp_publish(e->link.amqp, &(struct amqp_message){.exchange = n->is.exchange,
                                                      .routing_key = n->is.routing_key,
                                                      .body = n->is.body,
                                                      .properties = &p,
                                                      .id = (uint64_t)(uintptr_t)n,
                                                      .optional = true});
}

static void publish_more(struct bridge_events *e)
{
    if (!e->kept || e->refusals)
        return;
    LIST_EACH (node, &e->events) {
        struct event *ev = LIST_OF(node, struct event, node);
        for (; ev->published < ev->count; ev->published++)
            publish(e, &ev->notes[ev->published]);
    }
    advance(e);
}

static void on_refused_again(uv_timer_t *t)
{
    struct bridge_events *e = t->data;
    LIST_EACH (node, &e->events) {
        struct event *ev = LIST_OF(node, struct event, node);
        for (size_t i = 0; i < ev->published; i++)
            if (ev->notes[i].refused)
                publish(e, &ev->notes[i]);
    }
}

static void refused(struct bridge_events *e, struct note *n)
{
    e->b->counters.events_refused++;
    if (!n->refused) {
        e->refusals++;
        log_warn("RabbitMQ has refused event %" PRIu64 " for the exchange '%.*s', as it does when "
                 "a queue is full; it is published again until it is taken",
                 n->of->at.number, STR_ARG(n->is.exchange));
    }
    n->refused = true;
    if (!uv_is_active((uv_handle_t *)&e->refused))
        uv_timer_start(&e->refused, on_refused_again, AGAIN_MS, 0);
}

static void published(void *ctx, uint64_t id, enum amqp_published result)
{
    struct bridge_events *e = ctx;
    struct note *n = (struct note *)(uintptr_t)id;
    if (result == AMQP_REFUSED) {
        refused(e, n);
        return;
    }
    e->b->counters.events_published++;
    bool again = n->refused && --e->refusals == 0;
    n->refused = false;
    n->of->left--;
    if (again)
        publish_more(e);
    else if (n->of->left == 0)
        advance(e);
}

/* --- what comes --- */

static void say_if_gap(struct bridge_events *e, struct str event)
{
    int64_t from, to;
    if (!str_eq(view_get(event, "event"), STR("\"gap\"")))
        return;
    if (!view_int(event, "from", &from) || !view_int(event, "to", &to)) {
        struct str why = view_text(&e->arena, event, "reason");
        log_error("events may be missing, or come again: %.*s", STR_ARG(why));
        return;
    }
    log_error("events %" PRId64 " to %" PRId64 " are no longer kept by the server: they are not "
              "published",
              from, to);
    e->b->counters.events_missed += (uint64_t)(to - from + 1);
}

static size_t bytes_of(const struct bridge_note *n)
{
    size_t bytes = n->exchange.len + n->routing_key.len + n->body.len + n->message_id.len +
                   n->type.len + (size_t)n->cc.num_entries * sizeof *n->cc.entries;
    for (int i = 0; i < n->cc.num_entries; i++)
        bytes += n->cc.entries[i].value.bytes.len;
    return bytes;
}

static void keep_text(char **at, struct str *s)
{
    if (s->len)
        memcpy(*at, s->at, s->len);
    s->at = *at;
    *at += s->len;
}

/* Moves what a note has to a block of memory. */
static void keep_note(char **texts, amqp_field_value_t **routes, struct bridge_note *n)
{
    struct str *const all[] = {&n->exchange, &n->routing_key, &n->body, &n->message_id, &n->type};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        keep_text(texts, all[i]);
    for (int i = 0; i < n->cc.num_entries; i++) {
        struct str route = amqp_session_str(n->cc.entries[i].value.bytes);
        keep_text(texts, &route);
        (*routes)[i] = n->cc.entries[i];
        (*routes)[i].value.bytes = amqp_session_bytes(route);
    }
    n->cc.entries = *routes;
    *routes += n->cc.num_entries;
}

/* As small as they can be, for a thousand of them may wait. */
static void keep_notes(struct event *ev, const struct bridge_notes *notes)
{
    size_t bytes = notes->count * sizeof *ev->notes, routes = 0;
    for (size_t i = 0; i < notes->count; i++) {
        bytes += bytes_of(&notes->at[i]);
        routes += (size_t)notes->at[i].cc.num_entries;
    }
    ev->count = ev->left = notes->count;
    ev->bytes += bytes;
    ev->notes = alloc_get(bytes);
    amqp_field_value_t *route = (amqp_field_value_t *)(void *)(ev->notes + notes->count);
    char *text = (char *)(route + routes);
    for (size_t i = 0; i < notes->count; i++) {
        ev->notes[i] = (struct note){.of = ev, .is = notes->at[i]};
        keep_note(&text, &route, &ev->notes[i].is);
    }
}

/* An event, or, if the text is empty, only how far the stream is. */
static void add_event(struct bridge_events *e, struct str text)
{
    const struct bridge_settings *s = e->b->settings;
    struct event *ev = ALLOC(struct event);
    struct bridge_notes notes = {0};
    *ev = (struct event){.owner = e, .at = e->block, .bytes = sizeof *ev};
    if (text.len) {
        struct bridge_topics topics = {s->events_exchange, s->taskcluster};
        struct err err = bridge_event_read(text, e->block, &topics, &e->arena, &notes);
        if (err.code != ERR_OK)
            log_error("event %" PRIu64 " cannot be published: %s", e->block.number, err.msg);
        say_if_gap(e, text);
    }
    keep_notes(ev, &notes);
    arena_reset(&e->arena);
    list_init(&ev->node);
    list_append(&e->events, &ev->node);
    e->count++;
    e->bytes += ev->bytes;
    e->received = e->block;
}

/* The first id of a stream without a beginning says where it begins. */
static void end_block(struct bridge_events *e)
{
    if (!e->known) {
        e->received = e->block;
        set_place(e, e->block);
        log_info("events are published from %" PRIu64 " on", e->block.number + 1);
    } else if (is_newer(e->block, e->received)) {
        add_event(e, (struct str){0});
    }
}

static void take_line(struct bridge_events *e, struct str line)
{
    if (line.len > 4 && memcmp(line.at, "id: ", 4) == 0) {
        e->tries = 0;
        if (!event_cursor_read((struct str){line.at + 4, line.len - 4}, &e->block))
            log_error("an event has the id %.*s, which is none", (int)(line.len - 4), line.at + 4);
    } else if (line.len > 6 && memcmp(line.at, "data: ", 6) == 0) {
        if (e->known && is_newer(e->block, e->received))
            add_event(e, (struct str){line.at + 6, line.len - 6});
    } else if (line.len == 0) {
        end_block(e);
    }
}

/* Ends the stream while too much waits for the broker. */
static void check_room(struct bridge_events *e)
{
    e->full = e->count >= EVENTS_MAX || e->bytes >= BYTES_MAX || e->line.len > LINE_BYTES_MAX;
    if (!e->full)
        return;
    remote_abort(e->stream);
    e->stream = NULL;
}

static void on_data(void *ctx, struct str bytes)
{
    struct bridge_events *e = ctx;
    size_t taken = 0;
    const char *end;
    bridge_note_server(e->b, BRIDGE_EVENTS, &(struct remote_answer){.result = CALL_DONE});
    buf_str(&e->line, bytes);
    while ((end = memchr(e->line.at + taken, '\n', e->line.len - taken))) {
        struct str line = {e->line.at + taken, (size_t)(end - e->line.at) - taken};
        take_line(e, line);
        taken += line.len + 1;
    }
    buf_drop(&e->line, taken);
    check_room(e);
    publish_more(e);
}

/* --- the stream --- */

static void on_again(uv_timer_t *t)
{
    begin_stream(t->data);
}

static void on_end(void *ctx, const struct remote_answer *a)
{
    struct bridge_events *e = ctx;
    e->stream = NULL;
    bridge_note_server(e->b, BRIDGE_EVENTS, a);
    if (e->stopping)
        return;
    if (a->status == 400 || a->status == 404 || a->status == 422) {
        bridge_give_up(e->b,
                       "%.*s; events were published up to %" PRIu64
                       ". If the server was set up anew, remove %s to begin again",
                       STR_ARG(a->why), e->place.number, e->b->settings->state_dir);
        return;
    }
    uv_update_time(e->b->loop);
    uv_timer_start(&e->again, on_again, (uint64_t)bridge_backoff(e->b, e->tries++).ms, 0);
}

static void begin_stream(struct bridge_events *e)
{
    const struct bridge_settings *s = e->b->settings;
    struct buf path = {0};
    struct buf since = {0};
    if (e->stream || e->stopping)
        return;
    event_cursor_write(&since, e->received);
    buf_byte(&since, '\0');
    e->line.len = 0;
    e->block = e->received;
    buf_lit(&path, "/events");
    client_query(&path, "since", e->known ? since.at : NULL);
    client_query(&path, "queue", s->queues);
    client_query(&path, "type", s->types);
    client_query(&path, "event", s->kinds);
    client_query(&path, "messages", s->taskcluster ? "taskcluster" : NULL);
    e->stream = remote_stream(e->b->remote, client_path(&path), "text/event-stream", PAUSE, on_data,
                              on_end, e);
    buf_fini(&path);
    buf_fini(&since);
}

/* --- beginning and end --- */

static void connected(void *ctx)
{
    bridge_link_is_up(&((struct bridge_events *)ctx)->link);
}

static void disconnected(void *ctx, const char *why)
{
    bridge_link_is_down(&((struct bridge_events *)ctx)->link, why);
}

static void timer(struct bridge_events *e, uv_timer_t *t)
{
    must(uv_timer_init(e->b->loop, t) == 0);
    t->data = e;
}

void bridge_events_start(struct bridge *b)
{
    static const struct amqp_link_user user = {connected, disconnected, NULL, published};
    struct bridge_events *e = b->events = ALLOC(struct bridge_events);
    e->b = b;
    list_init(&e->events);
    timer(e, &e->again);
    timer(e, &e->save);
    timer(e, &e->refused);
    bridge_link_open(&e->link, b, "events to RabbitMQ", NULL, &user, e);
    load_place(e);
    if (e->known)
        log_info("events are published from %" PRIu64 " on", e->place.number + 1);
    begin_stream(e);
}

void bridge_events_stop(struct bridge_events *e)
{
    e->stopping = true;
    uv_timer_stop(&e->again);
    if (e->stream)
        remote_abort(e->stream);
    e->stream = NULL;
}

/* What was refused, or is not published yet, is published after the next start. */
bool bridge_events_is_idle(const struct bridge_events *e)
{
    return e->count == 0 || e->refusals || !e->kept;
}

bool bridge_events_is_well(const struct bridge_events *e)
{
    return bridge_link_takes(&e->link) && !e->refusals;
}

int64_t bridge_events_place(const struct bridge_events *e)
{
    return e->known ? (int64_t)e->place.number : -1;
}

static void free_events(uv_handle_t *h)
{
    free(h->data);
}

static void close_save(uv_handle_t *h)
{
    uv_close((uv_handle_t *)&((struct bridge_events *)h->data)->save, free_events);
}

static void close_refused(uv_handle_t *h)
{
    uv_close((uv_handle_t *)&((struct bridge_events *)h->data)->refused, close_save);
}

void bridge_events_free(struct bridge_events *e)
{
    save(e);
    bridge_link_close(&e->link);
    while (!list_is_empty(&e->events))
        free_event(LIST_OF(e->events.next, struct event, node));
    buf_fini(&e->line);
    arena_fini(&e->arena);
    uv_timer_stop(&e->save);
    uv_timer_stop(&e->refused);
    uv_close((uv_handle_t *)&e->again, close_refused);
}
