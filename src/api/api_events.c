/* SPDX-License-Identifier: Apache-2.0 */

/* GET /events: what happens to jobs, as a stream.
 *
 * A consumer is a place in the log of events. It asks the backend for the page after its place,
 * writes it, and asks again when its peer has taken most of it: a slow one costs no more memory
 * than a page, and reads later from the log what it could not take now. Consumers at the same
 * place, as all are that keep up, share a page and what it looks like on the wire.
 *
 * A consumer may ask for what another front end says of the events. Its pages are smaller, and pass
 * through api_messages.c first. They are a lane of their own, so that nobody else waits for them.
 *
 * Jobs take precedence over events: after each page consumers wait for a multiple of the time that
 * it took. Under load they fall behind, and catch up afterwards. */

#include <stdio.h>
#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_messages.h"
#include "api/api_routes.h"
#include "base/alloc.h"
#include "base/must.h"
#include "base/event_cursor.h"

#define PAGE_EVENTS 1024
#define PAGE_TOLD   64   /* with messages */
#define EVENT_BYTES 300  /* until it is known */
#define TOLD_BYTES  3000 /* likewise */
#define MEMBERS_MAX 256  /* that a page is written to at once */
#define BEHIND_MAX  4    /* pages with messages that are made at a time for who is behind */
/* A page's time is this part of the time that may go to pages. */
#define PAGE_SHARE   8
#define PAUSE_MAX_NS ((uint64_t)100 * 1000 * 1000)
#define GATHER_NS    ((uint64_t)20 * 1000) /* for each event that came */

struct consumer {
    struct list node; /* in api_events.consumers */
    struct list link; /* in lane.wanting or look.members, while it asks */
    struct lane *lane;
    struct http_exchange *x;
    enum stream_format format;
    uint64_t since;     /* the newest event that was written or passed over */
    uint64_t history;   /* of the place that was asked for; 0: it is a plain number */
    uint64_t announced; /* the newest whose number the peer knows */
    bool follow, asking;
    bool at_end; /* the newest page had all there was */
    /* What it wants to see; in the exchange's arena. */
    bool filtered;
    struct job_filter jobs; /* ids, queues, types; and reach, what it may see */
    bool limited;           /* to some queues */
    struct token *token;    /* of who asks; or NULL */
    struct str kinds;       /* "a,b" */
};

/* A question to the backend, for all consumers at that place that may get so much. */
struct look {
    struct list node; /* in api_events.looks; while its page is being told of, in .telling */
    struct lane *lane;
    uint64_t since;
    uint32_t limit;
    bool wait;
    bool behind;    /* it counts in lane.behind */
    uint32_t count; /* of members */
    struct event_read *read;
    struct api_telling *telling; /* of its page */
    struct list members;
};

/* Consumers that get the same of each event. */
struct lane {
    struct api_events *hub;
    bool told; /* with messages */
    struct list wanting;
    bool writing; /* a page; no consumer asks until all have it */
    uv_timer_t pause;
    uv_async_t round;           /* of I/O, after which the backend has its turn */
    uint64_t free_at;           /* when the next page may be read; nanoseconds of uv_hrtime */
    struct buf shared[FORMATS]; /* the page for consumers without filters */
    uint64_t event_bytes;       /* about, of one that is written */
    uint32_t behind;            /* looks of those that are not at the end; of `told` only */
};

struct api_events {
    struct api *api;
    struct list consumers, looks, telling;
    struct lane plain, told;
    struct buf line;
    uint64_t history; /* of all events, since a consumer asked */
};

/* What is delivered: a page, and what is said of each of its events; NULL: nothing is. */
struct delivery {
    const struct event_page *page;
    const struct str *messages;
};

/* --- writing --- */

static void add_packed(struct api *a, struct buf *out, struct str json)
{
    struct str packed = api_pack(a, json);
    uint32_t n = (uint32_t)packed.len;
    char length[4] = {(char)(n >> 24), (char)(n >> 16), (char)(n >> 8), (char)n};
    buf_add(out, length, sizeof length);
    buf_str(out, packed);
}

/* One message, as its format has it. */
static void add_message(struct api_events *h, enum stream_format f, uint64_t number,
                        const char *kind, struct str json, struct buf *out)
{
    if (f == FORMAT_PACKED) {
        add_packed(h->api, out, json);
        return;
    }
    if (f == FORMAT_SSE) {
        buf_lit(out, "id: ");
        event_cursor_write(out, (struct event_cursor){h->history, number});
        buf_lit(out, "\nevent: ");
        buf_str(out, str_from(kind));
        buf_lit(out, "\ndata: ");
    }
    buf_str(out, json);
    buf_byte(out, '\n');
    if (f == FORMAT_SSE)
        buf_byte(out, '\n');
}

static void add_event(struct api_events *h, enum stream_format f, const struct delivery *d,
                      size_t i, const struct job_event *ev, struct buf *out)
{
    const struct event_line line = {ev, h->history, d->messages ? d->messages[i] : (struct str){0}};
    h->line.len = 0;
    shape_write(&h->line, &api_event_shape, &line, SHAPE_AS_IT_IS);
    add_message(h, f, ev->number, lifecycle_event_kind(ev->event), buf_view(&h->line), out);
}

/* An id without data is no event; a client that reconnects sends it back. */
static void write_place(struct consumer *c)
{
    struct buf *out = &c->lane->hub->api->scratch;
    out->len = 0;
    buf_lit(out, "id: ");
    event_cursor_write(out, (struct event_cursor){c->lane->hub->history, c->since});
    buf_lit(out, "\n\n");
    http_stream_write(c->x, buf_view(out));
    c->announced = c->since;
}

static void write_gap(struct consumer *c, const struct api_gap *gap)
{
    struct api_events *h = c->lane->hub;
    struct buf *out = &h->api->scratch;
    h->line.len = out->len = 0;
    shape_write(&h->line, &api_gap_shape, gap, SHAPE_AS_IT_IS);
    add_message(h, c->format, gap->place, "gap", buf_view(&h->line), out);
    http_stream_write(c->x, buf_view(out));
    c->announced = gap->place;
}

static bool is_named(const struct str *names, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(names[i], name))
            return true;
    return count == 0;
}

static bool is_wanted(const struct consumer *c, const struct job_event *ev)
{
    const struct job_filter *f = &c->jobs;
    struct str kinds = c->kinds, item;
    bool found = f->id_count == 0;
    for (size_t i = 0; i < f->id_count && !found; i++)
        found = id_eq(f->ids[i], ev->id);
    if (!found || !is_named(f->queues, f->queue_count, ev->queue) ||
        !is_named(f->types, f->type_count, ev->type) || !glob_list_matches(f->reach, ev->queue))
        return false;
    while (query_item(&kinds, &item))
        if (str_eq(item, str_from(lifecycle_event_kind(ev->event))))
            return true;
    return c->kinds.len == 0;
}

/* Words may name a job of another queue. */
static void add_shown(struct consumer *c, const struct delivery *d, size_t i, struct buf *out)
{
    struct job_event ev = d->page->events[i];
    struct buf words = {0};
    if (c->limited && ev.reason.len)
        ev.reason = api_own_words(ev.reason, ev.id, &words);
    add_event(c->lane->hub, c->format, d, i, &ev, out);
    buf_fini(&words);
}

static void write_wanted(struct consumer *c, const struct delivery *d)
{
    struct api_events *h = c->lane->hub;
    struct buf *out = &h->api->scratch;
    out->len = 0;
    for (size_t i = 0; i < d->page->count; i++) {
        if (!is_wanted(c, &d->page->events[i]))
            continue;
        add_shown(c, d, i, out);
        c->announced = d->page->events[i].number;
    }
    if (out->len)
        http_stream_write(c->x, buf_view(out));
}

static void write_all(struct consumer *c, const struct delivery *d)
{
    struct lane *lane = c->lane;
    struct buf *page = &lane->shared[c->format];
    size_t count = d->page->count;
    bool made = page->len > 0;
    for (size_t i = 0; i < count && !made; i++)
        add_event(lane->hub, c->format, d, i, &d->page->events[i], page);
    if (count && !made)
        lane->event_bytes = page->len / count;
    http_stream_write(c->x, buf_view(page));
    c->announced = d->page->last;
}

/* --- reading --- */

static void want(struct consumer *c);
static void ask_soon(struct lane *lane);

static void write_page(struct consumer *c, const struct delivery *d)
{
    const struct event_page *p = d->page;
    if (p->err.code != ERR_OK) {
        if (p->err.code == ERR_STOPPING)
            http_stream_end(c->x);
        else
            http_stream_abort(c->x);
        return;
    }
    if (p->missed_to)
        write_gap(c, &(struct api_gap){.from = p->since + 1,
                                       .to = p->missed_to,
                                       .place = p->missed_to,
                                       .history = c->lane->hub->history});
    if (c->filtered)
        write_wanted(c, d);
    else if (p->count)
        write_all(c, d);
    c->since = p->last;
    c->at_end = !p->more;
    if (!c->follow && !p->more)
        http_stream_end(c->x);
    else if (!http_must_wait(c->x))
        want(c);
}

/* At the newest event it is also the longer the more came at once: a busy server then sends one
 * large page in the place of many small ones, which cost each consumer a system call. */
static uint64_t pause_after(const struct event_page *p, uint64_t spent)
{
    uint64_t pause = spent * (PAGE_SHARE - 1);
    uint64_t gather = p->more ? 0 : p->count * GATHER_NS;
    if (pause < gather)
        pause = gather;
    return pause < PAUSE_MAX_NS ? pause : PAUSE_MAX_NS;
}

/* Events of a page for this consumer; few different numbers, so that pages can be shared. */
static uint32_t limit_of(const struct consumer *c)
{
    const struct lane *lane = c->lane;
    uint64_t each = lane->event_bytes ? lane->event_bytes : lane->told ? TOLD_BYTES : EVENT_BYTES;
    uint64_t room = http_stream_share(c->x) / each;
    uint32_t limit = lane->told ? PAGE_TOLD : PAGE_EVENTS;
    while (limit > 1 && limit > room)
        limit /= 2;
    return limit;
}

/* Gives the page to those that asked for it; `spent` is what it has taken so far. */
static void deliver(struct look *look, const struct delivery *d, uint64_t spent)
{
    struct lane *lane = look->lane;
    uint64_t began = uv_hrtime();
    bool failed = d->page->err.code != ERR_OK;
    lane->writing = true;
    lane->behind -= look->behind;
    list_unlink(&look->node);
    while (!list_is_empty(&look->members)) {
        struct consumer *c = LIST_OF(look->members.next, struct consumer, link);
        list_unlink(&c->link);
        c->asking = false;
        if (!failed && http_must_wait(c->x))
            continue; /* on_drained asks again */
        if (!failed && d->page->count > limit_of(c))
            want(c); /* for less: others have left much unread meanwhile */
        else
            write_page(c, d);
    }
    free(look);
    for (int f = 0; f < FORMATS; f++)
        lane->shared[f].len = 0;
    lane->free_at = uv_hrtime() + pause_after(d->page, spent + uv_hrtime() - began);
    lane->writing = false;
    ask_soon(lane);
}

static bool any_wants(void *ctx, const struct job_event *ev)
{
    const struct look *look = ctx;
    LIST_EACH (n, &look->members) {
        const struct consumer *c = LIST_OF(n, struct consumer, link);
        if (!c->filtered || is_wanted(c, ev))
            return true;
    }
    return false;
}

static void on_told(void *ctx, const struct api_told *told)
{
    const struct delivery d = {&told->page, told->messages};
    deliver(ctx, &d, told->spent);
}

static void on_page(void *ctx, const struct event_page *p)
{
    struct look *look = ctx;
    struct api_events *h = look->lane->hub;
    const struct delivery d = {p, NULL};
    list_unlink(&look->node);
    if (!look->lane->told || p->err.code != ERR_OK || p->count == 0) {
        deliver(look, &d, 0);
        return;
    }
    list_append(&h->telling, &look->node);
    const struct api_tell tell = {&h->api->messages, h->api->backend, any_wants, on_told, look};
    api_tell(&tell, p, &look->telling);
}

static struct look *look_at(struct lane *lane, uint64_t since, uint32_t limit, bool wait)
{
    struct api_events *h = lane->hub;
    LIST_EACH (n, &h->looks) {
        struct look *l = LIST_OF(n, struct look, node);
        if (l->lane == lane && l->since == since && l->limit == limit && l->wait == wait &&
            l->count < MEMBERS_MAX)
            return l;
    }
    struct look *l = ALLOC(struct look);
    *l = (struct look){.lane = lane, .since = since, .limit = limit, .wait = wait};
    list_init(&l->node);
    list_init(&l->members);
    struct event_read_spec spec = {
        .since = since, .limit = limit, .wait = wait, .done = on_page, .ctx = l};
    l->read = backend_events(h->api->backend, &spec);
    list_append(&h->looks, &l->node);
    l->behind = lane->told && !wait;
    lane->behind += l->behind;
    return l;
}

static void ask(struct consumer *c)
{
    bool wait = c->follow && (c->at_end || !c->lane->told);
    struct look *l = look_at(c->lane, c->since, limit_of(c), wait);
    list_unlink(&c->link);
    list_append(&l->members, &c->link);
    l->count++;
}

static void ask_all(struct lane *lane)
{
    while (!list_is_empty(&lane->wanting)) {
        struct consumer *c = LIST_OF(lane->wanting.next, struct consumer, link);
        if (lane->behind >= BEHIND_MAX && !c->at_end)
            return; /* until one of their pages is delivered */
        ask(c);
    }
}

/* Timers fire before the loop waits for I/O, which must not keep it now. */
static void on_pause_over(uv_timer_t *t)
{
    struct lane *lane = t->data;
    ask_all(lane);
    uv_async_send(&lane->round);
}

static void on_round(uv_async_t *a)
{
    (void)a;
}

/* At once if it is not too soon; a timer knows only milliseconds. */
static void ask_soon(struct lane *lane)
{
    uint64_t now = uv_hrtime();
    uint64_t ms = lane->free_at > now ? (lane->free_at - now) / 1000000 : 0;
    if (lane->writing || uv_is_active((uv_handle_t *)&lane->pause))
        return;
    if (ms == 0) {
        ask_all(lane);
        return;
    }
    uv_update_time(lane->hub->api->settings.loop);
    uv_timer_start(&lane->pause, on_pause_over, ms, 0);
}

static void want(struct consumer *c)
{
    if (c->asking)
        return;
    c->asking = true;
    list_append(&c->lane->wanting, &c->link);
    ask_soon(c->lane);
}

/* --- the exchange --- */

static void on_drained(void *ctx)
{
    want(ctx);
}

static void on_peer_closed(void *ctx)
{
    struct consumer *c = ctx;
    list_unlink(&c->node);
    list_unlink(&c->link);
    free(c);
}

static struct err read_kinds(struct str list)
{
    struct str item;
    while (query_item(&list, &item))
        if (!lifecycle_event_kind_is_known(item))
            return err_make(ERR_BAD_VALUE,
                            "event: there is no event '%.*s'; docs/lifecycle.md "
                            "names them",
                            (int)(item.len < 32 ? item.len : 32), item.at);
    return err_none();
}

static struct err read_follow(struct str value, bool *follow)
{
    *follow = !str_eq(value, STR("false"));
    if (*follow && !str_eq(value, STR("true")))
        return err_make(ERR_BAD_VALUE, "follow is true or false, not '%.*s'",
                        (int)(value.len < 32 ? value.len : 32), value.at);
    return err_none();
}

/* Whose messages it wants. */
static struct err read_messages(struct str value, struct consumer *c)
{
    struct api_events *h = c->lane->hub;
    const char *name = h->api->messages.name;
    if (!name || !str_eq(value, str_from(name)))
        return err_make(ERR_BAD_VALUE, "messages: there are none of '%.*s', only of taskcluster",
                        (int)(value.len < 32 ? value.len : 32), value.at);
    c->lane = &h->told;
    return err_none();
}

static struct err read_place(struct str value, const char *what, struct consumer *c)
{
    struct event_cursor at;
    if (!event_cursor_read(value, &at))
        return err_make(ERR_BAD_VALUE,
                        "%s: expected the cursor of an event, or its number, not '%.*s'", what,
                        (int)(value.len < 48 ? value.len : 48), value.at);
    c->since = at.number;
    c->history = at.history;
    return err_none();
}

static struct err read_param(struct str name, struct str value, struct arena *arena,
                             struct consumer *c, bool *known)
{
    *known = true;
    if (value.len == 0)
        return err_make(ERR_BAD_VALUE, "%.*s is given without a value",
                        (int)(name.len < 32 ? name.len : 32), name.at);
    if (str_eq(name, STR("since"))) {
        return read_place(value, "since", c);
    }
    if (str_eq(name, STR("follow")))
        return read_follow(value, &c->follow);
    if (str_eq(name, STR("messages")))
        return read_messages(value, c);
    c->filtered = true;
    if (str_eq(name, STR("queue")))
        return api_decode_names(value, "queue", arena, &c->jobs.queues, &c->jobs.queue_count);
    if (str_eq(name, STR("type")))
        return api_decode_names(value, "type", arena, &c->jobs.types, &c->jobs.type_count);
    if (str_eq(name, STR("job")))
        return api_param_ids(value, arena, &c->jobs.ids, &c->jobs.id_count);
    if (str_eq(name, STR("event"))) {
        struct str rest = value, item;
        if (query_item(&rest, &item)) /* "," is no list */
            c->kinds = value;
        return read_kinds(value);
    }
    *known = c->filtered = false;
    return err_none();
}

/* A client that reconnects continues where it was, whatever its URL says. */
static struct err read_last_id(const struct http_request *req, struct consumer *c)
{
    if (req->last_event_id.len == 0)
        return err_none();
    return read_place(req->last_event_id, "Last-Event-ID", c);
}

const struct api_param api_events_params[] = {
    {"since", "string: begin after the event with this cursor, or number; 0: with the oldest"},
    {"follow", "boolean: false: end with the newest"},
    {"queue", "names: one, or a list a,b"},
    {"type", "names: one, or a list a,b"},
    {"job", "ids: ids, a,b"},
    {"event", "string @event-names: names of events, a,b"},
    {"messages", "string (taskcluster): with the messages of Taskcluster that tell of each event"},
    {"Last-Event-ID", "string: overrides since", .header = true},
    {NULL, NULL}};

static struct err read_params(const struct http_request *req, struct consumer *c)
{
    struct query_cursor q = query_open(arena_copy(req->arena, req->query), req->arena);
    struct str name, value;
    bool more, known, filtered = false;
    unsigned seen = 0;
    for (;;) {
        TRY(query_next(&q, &more, &name, &value));
        if (!more)
            break;
        TRY(api_param_once(name, api_events_params, &seen));
        TRY(read_param(name, value, req->arena, c, &known));
        filtered |= c->filtered;
        if (!known)
            return api_unknown_param(name);
    }
    c->filtered = filtered;
    return read_last_id(req, c);
}

static struct err read_request(const struct api_request *r, struct consumer *c)
{
    struct glob_list reach = r->rights->queues;
    TRY(api_stream_format(r->x, r->http, &c->format));
    TRY(read_params(r->http, c));
    TRY(api_may_filter(r, &c->jobs));
    if (c->lane->told && (reach.count || !api_may_see(r)))
        return err_make(ERR_NO_RIGHT, "messages: these credentials do not reach to all queues, "
                                      "with what their jobs carry");
    /* The token may be forgotten before the stream has ended. */
    struct str *own = arena_get(r->http->arena, reach.count * sizeof *own + 1);
    for (size_t i = 0; i < c->jobs.reach.count; i++)
        own[i] = arena_copy(r->http->arena, reach.at[i]);
    c->jobs.reach.at = own;
    c->limited = reach.count > 0;
    c->filtered |= c->limited;
    c->token = r->token;
    return err_none();
}

/* It is known where it begins. */
static void on_place(void *ctx, const struct reply *r)
{
    struct consumer *c = ctx;
    bool refused = r->err.code != ERR_OK;
    if (refused || http_is_gone(c->x) || api_is_over(c->lane->hub->api, c->token, NULL)) {
        if (refused)
            api_reply_error(c->x, &r->err, NULL);
        else
            http_reply(c->x, 200, api_stream_type(c->format), (struct str){0}, NULL);
        free(c);
        return;
    }
    const struct api_gap gap = {
        .after = {c->history, c->since}, .place = r->events_since, .history = r->events_history};
    c->since = c->announced = r->events_since;
    c->lane->hub->history = r->events_history;
    list_append(&c->lane->hub->consumers, &c->node);
    http_stream_begin(c->x, 200, api_stream_type(c->format), on_peer_closed, c);
    http_stream_on_drain(c->x, on_drained);
    if (c->format == FORMAT_SSE && !r->events_gap)
        write_place(c);
    if (r->events_gap)
        write_gap(c, &gap);
    want(c);
}

void api_events(struct api *a, const struct api_request *r)
{
    struct consumer *c = ALLOC(struct consumer);
    *c = (struct consumer){
        .lane = &a->events->plain, .x = r->x, .since = EVENTS_NEWEST, .follow = true};
    list_init(&c->node);
    list_init(&c->link);
    struct err err = read_request(r, c);
    if (err.code != ERR_OK) {
        free(c);
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct command place = {.kind = CMD_EVENTS_PLACE,
                            .events_since = c->since,
                            .events_history = c->history,
                            .done = on_place,
                            .ctx = c};
    backend_submit(a->backend, &place);
}

void api_events_heartbeat(struct api_events *h)
{
    LIST_EACH (n, &h->consumers) {
        struct consumer *c = LIST_OF(n, struct consumer, node);
        if (http_backlogged(c->x))
            continue;
        if (c->format == FORMAT_SSE && c->announced != c->since)
            write_place(c);
        else if (c->format == FORMAT_SSE)
            http_stream_write(c->x, STR(":\n\n"));
        else
            http_stream_write(c->x, c->format == FORMAT_PACKED ? STR("\0\0\0\0") : STR("\n"));
    }
}

static struct consumer *consumer_to_end(struct api_events *h, const struct token *of)
{
    LIST_EACH (n, &h->consumers) {
        struct consumer *c = LIST_OF(n, struct consumer, node);
        if (api_is_over(h->api, c->token, of))
            return c;
    }
    return NULL;
}

void api_events_end(struct api_events *h, const struct token *of)
{
    for (struct consumer *c; (c = consumer_to_end(h, of));)
        http_stream_end(c->x);
}

/* --- beginning and end --- */

static void lane_init(struct lane *lane, struct api_events *h, bool told)
{
    lane->hub = h;
    lane->told = told;
    list_init(&lane->wanting);
    must(uv_timer_init(h->api->settings.loop, &lane->pause) == 0);
    lane->pause.data = lane;
    must(uv_async_init(h->api->settings.loop, &lane->round, on_round) == 0);
    /* A consumer has a connection, which keeps the loop alive. */
    uv_unref((uv_handle_t *)&lane->pause);
    uv_unref((uv_handle_t *)&lane->round);
}

static void lane_fini(struct lane *lane)
{
    for (int f = 0; f < FORMATS; f++)
        buf_fini(&lane->shared[f]);
}

struct api_events *api_events_new(struct api *a)
{
    struct api_events *h = ALLOC(struct api_events);
    h->api = a;
    list_init(&h->consumers);
    list_init(&h->looks);
    list_init(&h->telling);
    lane_init(&h->plain, h, false);
    lane_init(&h->told, h, true);
    return h;
}

static void free_looks(struct list *looks)
{
    while (!list_is_empty(looks)) {
        struct look *l = LIST_OF(looks->next, struct look, node);
        list_unlink(&l->node);
        api_telling_free(l->telling);
        free(l);
    }
}

void api_events_free(struct api_events *h)
{
    must(list_is_empty(&h->consumers));
    free_looks(&h->looks);
    free_looks(&h->telling);
    lane_fini(&h->plain);
    lane_fini(&h->told);
    buf_fini(&h->line);
    free(h);
}
