/* SPDX-License-Identifier: Apache-2.0 */

/* GET /events: what happens to jobs, as a stream.
 *
 * A consumer is a place in the log of events. It asks the backend for the page after its place,
 * writes it, and asks again when its peer has taken most of it: a slow one costs no more memory
 * than a page, and reads later from the log what it could not take now. Consumers at the same
 * place, as all are that keep up, share a page and what it looks like on the wire.
 *
 * Jobs take precedence over events: after each page consumers wait for a multiple of the time that
 * it took. Under load they fall behind, and catch up afterwards. */

#include <stdio.h>
#include <stdlib.h>

#include "api/api_routes.h"
#include "base/alloc.h"
#include "base/must.h"

#define PAGE_EVENTS 1024
#define EVENT_BYTES 300 /* until it is known */
#define MEMBERS_MAX 256 /* that a page is written to at once */
/* A page's time is this part of the time that may go to pages. */
#define PAGE_SHARE   8
#define PAUSE_MAX_NS ((uint64_t)100 * 1000 * 1000)
#define GATHER_NS    ((uint64_t)20 * 1000) /* for each event that came */

struct consumer {
    struct list node; /* in api_events.consumers */
    struct list link; /* in api_events.wanting or look.members, while it asks */
    struct api_events *hub;
    struct http_exchange *x;
    enum stream_format format;
    uint64_t since;     /* the newest event that was written or passed over */
    uint64_t announced; /* the newest whose number the peer knows */
    bool follow, asking;
    /* What it wants to see; in the exchange's arena. */
    bool filtered;
    struct job_filter jobs; /* ids, queues, types */
    struct str kinds;       /* "a,b" */
};

/* A question to the backend, for all consumers at that place that may get so much. */
struct look {
    struct list node; /* in api_events.looks */
    struct api_events *hub;
    uint64_t since;
    uint32_t limit;
    bool wait;
    uint32_t count; /* of members */
    struct event_read *read;
    struct list members;
};

struct api_events {
    struct api *api;
    struct list consumers, wanting, looks;
    bool writing; /* a page; no consumer asks until all have it */
    uv_timer_t pause;
    uint64_t free_at;           /* when the next page may be read; nanoseconds of uv_hrtime */
    struct buf shared[FORMATS]; /* the page for consumers without filters */
    struct buf line;
    uint64_t event_bytes; /* about, of one that is written */
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
        buf_int(out, (int64_t)number);
        buf_lit(out, "\nevent: ");
        buf_str(out, str_from(kind));
        buf_lit(out, "\ndata: ");
    }
    buf_str(out, json);
    buf_byte(out, '\n');
    if (f == FORMAT_SSE)
        buf_byte(out, '\n');
}

static void add_event(struct api_events *h, enum stream_format f, const struct job_event *ev,
                      struct buf *out)
{
    h->line.len = 0;
    shape_write(&h->line, &api_event_shape, ev, SHAPE_AS_IT_IS);
    add_message(h, f, ev->number, lifecycle_event_kind(ev->event), buf_view(&h->line), out);
}

/* An id without data is no event; a client that reconnects sends it back. */
static void write_place(struct consumer *c)
{
    char text[32];
    int n = snprintf(text, sizeof text, "id: %llu\n\n", (unsigned long long)c->since);
    http_stream_write(c->x, (struct str){text, (size_t)n});
    c->announced = c->since;
}

static void write_kind_of_gap(struct buf *b, const void *page)
{
    (void)page;
    buf_lit(b, "\"gap\"");
}

static void write_start_of_gap(struct buf *b, const void *since)
{
    buf_int(b, *(const int64_t *)since + 1);
}

static const struct shape_member gap_members[] = {
    {MEMBER_MADE("event", ALWAYS, "string (gap)", write_kind_of_gap, NULL)},
    {MEMBER_OTHER(struct event_page, since, "from", ALWAYS, "integer 1..", write_start_of_gap,
                  "the number of the first")},
    {MEMBER(struct event_page, missed_to, "to", ALWAYS, "of the last", .type = "integer 1..")},
};
const struct shape api_gap_shape = {
    .name = "Gap", SHAPE_MEMBERS(gap_members), .doc = "events that are not kept any more"};

static void write_gap(struct consumer *c, const struct event_page *p)
{
    struct api_events *h = c->hub;
    struct buf *out = &h->api->scratch;
    h->line.len = out->len = 0;
    shape_write(&h->line, &api_gap_shape, p, SHAPE_AS_IT_IS);
    add_message(h, c->format, p->missed_to, "gap", buf_view(&h->line), out);
    http_stream_write(c->x, buf_view(out));
    c->announced = p->missed_to;
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
        !is_named(f->types, f->type_count, ev->type))
        return false;
    while (query_item(&kinds, &item))
        if (str_eq(item, str_from(lifecycle_event_kind(ev->event))))
            return true;
    return c->kinds.len == 0;
}

static void write_wanted(struct consumer *c, const struct event_page *p)
{
    struct buf *out = &c->hub->api->scratch;
    out->len = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (!is_wanted(c, &p->events[i]))
            continue;
        add_event(c->hub, c->format, &p->events[i], out);
        c->announced = p->events[i].number;
    }
    if (out->len)
        http_stream_write(c->x, buf_view(out));
}

static void write_all(struct consumer *c, const struct event_page *p)
{
    struct buf *page = &c->hub->shared[c->format];
    bool made = page->len > 0;
    for (size_t i = 0; i < p->count && !made; i++)
        add_event(c->hub, c->format, &p->events[i], page);
    if (p->count && !made)
        c->hub->event_bytes = page->len / p->count;
    http_stream_write(c->x, buf_view(page));
    c->announced = p->last;
}

/* --- reading --- */

static void want(struct consumer *c);
static void ask_soon(struct api_events *h);

static void write_page(struct consumer *c, const struct event_page *p)
{
    if (p->err.code != ERR_OK) {
        if (p->err.code == ERR_STOPPING)
            http_stream_end(c->x);
        else
            http_stream_abort(c->x);
        return;
    }
    if (p->missed_to)
        write_gap(c, p);
    if (c->filtered)
        write_wanted(c, p);
    else if (p->count)
        write_all(c, p);
    c->since = p->last;
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
    uint64_t each = c->hub->event_bytes ? c->hub->event_bytes : EVENT_BYTES;
    uint64_t room = http_stream_share(c->x) / each;
    uint32_t limit = PAGE_EVENTS;
    while (limit > 1 && limit > room)
        limit /= 2;
    return limit;
}

static void on_page(void *ctx, const struct event_page *p)
{
    struct look *look = ctx;
    struct api_events *h = look->hub;
    uint64_t began = uv_hrtime();
    h->writing = true;
    list_unlink(&look->node);
    while (!list_is_empty(&look->members)) {
        struct consumer *c = LIST_OF(look->members.next, struct consumer, link);
        list_unlink(&c->link);
        c->asking = false;
        bool failed = p->err.code != ERR_OK;
        if (!failed && http_must_wait(c->x))
            continue; /* on_drained asks again */
        if (!failed && p->count > limit_of(c))
            want(c); /* for less: others have left much unread meanwhile */
        else
            write_page(c, p);
    }
    free(look);
    for (int f = 0; f < FORMATS; f++)
        h->shared[f].len = 0;
    h->free_at = uv_hrtime() + pause_after(p, uv_hrtime() - began);
    h->writing = false;
    ask_soon(h);
}

static struct look *look_at(struct api_events *h, uint64_t since, uint32_t limit, bool wait)
{
    LIST_EACH (n, &h->looks) {
        struct look *l = LIST_OF(n, struct look, node);
        if (l->since == since && l->limit == limit && l->wait == wait && l->count < MEMBERS_MAX)
            return l;
    }
    struct look *l = ALLOC(struct look);
    *l = (struct look){.hub = h, .since = since, .limit = limit, .wait = wait};
    list_init(&l->node);
    list_init(&l->members);
    struct event_read_spec spec = {
        .since = since, .limit = limit, .wait = wait, .done = on_page, .ctx = l};
    l->read = backend_events(h->api->backend, &spec);
    list_append(&h->looks, &l->node);
    return l;
}

static void ask(struct consumer *c)
{
    struct look *l = look_at(c->hub, c->since, limit_of(c), c->follow);
    list_unlink(&c->link);
    list_append(&l->members, &c->link);
    l->count++;
}

static void ask_all(struct api_events *h)
{
    while (!list_is_empty(&h->wanting))
        ask(LIST_OF(h->wanting.next, struct consumer, link));
}

static void on_pause_over(uv_timer_t *t)
{
    ask_all(t->data);
}

/* At once if it is not too soon; a timer knows only milliseconds. */
static void ask_soon(struct api_events *h)
{
    uint64_t now = uv_hrtime();
    uint64_t ms = h->free_at > now ? (h->free_at - now) / 1000000 : 0;
    if (h->writing || uv_is_active((uv_handle_t *)&h->pause))
        return;
    if (ms == 0) {
        ask_all(h);
        return;
    }
    uv_update_time(h->api->settings.loop);
    uv_timer_start(&h->pause, on_pause_over, ms, 0);
}

static void want(struct consumer *c)
{
    if (c->asking)
        return;
    c->asking = true;
    list_append(&c->hub->wanting, &c->link);
    ask_soon(c->hub);
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

static struct err read_param(struct str name, struct str value, struct arena *arena,
                             struct consumer *c, bool *known)
{
    int64_t since;
    *known = true;
    if (value.len == 0)
        return err_make(ERR_BAD_VALUE, "%.*s is given without a value",
                        (int)(name.len < 32 ? name.len : 32), name.at);
    if (str_eq(name, STR("since"))) {
        TRY(api_read_number(value, "since", 0, INT64_MAX, &since));
        c->since = (uint64_t)since;
        return err_none();
    }
    if (str_eq(name, STR("follow")))
        return read_follow(value, &c->follow);
    c->filtered = true;
    if (str_eq(name, STR("queue")))
        return api_decode_names(value, "queue", arena, &c->jobs.queues, &c->jobs.queue_count);
    if (str_eq(name, STR("type")))
        return api_decode_names(value, "type", arena, &c->jobs.types, &c->jobs.type_count);
    if (str_eq(name, STR("job")))
        return api_param_ids(value, arena, &c->jobs.ids, &c->jobs.id_count);
    if (str_eq(name, STR("event"))) {
        c->kinds = value;
        return read_kinds(value);
    }
    *known = c->filtered = false;
    return err_none();
}

/* A client that reconnects continues where it was, whatever its URL says. */
static struct err read_last_id(const struct http_request *req, struct consumer *c)
{
    int64_t since;
    if (req->last_event_id.len == 0)
        return err_none();
    TRY(api_read_number(req->last_event_id, "Last-Event-ID", 0, INT64_MAX, &since));
    c->since = (uint64_t)since;
    return err_none();
}

const struct api_param api_events_params[] = {
    {"since", "integer 0..: begin after the event with this number; 0: with the oldest"},
    {"follow", "boolean: false: end with the newest"},
    {"queue", "string: one, or a list a,b"},
    {"type", "string: one, or a list a,b"},
    {"job", "string: ids, a,b"},
    {"event", "string: names of events, a,b"},
    {"Last-Event-ID", "integer 0..: overrides since", .header = true},
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
    TRY(api_stream_format(r->x, r->http, &c->format));
    return read_params(r->http, c);
}

/* It is known where it begins. */
static void on_place(void *ctx, const struct reply *r)
{
    struct consumer *c = ctx;
    bool refused = r->err.code != ERR_OK;
    if (refused || http_is_gone(c->x)) {
        if (refused)
            api_reply_error(c->x, &r->err, NULL);
        else
            http_reply(c->x, 200, api_stream_type(c->format), (struct str){0}, NULL);
        free(c);
        return;
    }
    c->since = c->announced = r->events_since;
    list_append(&c->hub->consumers, &c->node);
    http_stream_begin(c->x, 200, api_stream_type(c->format), on_peer_closed, c);
    http_stream_on_drain(c->x, on_drained);
    if (c->format == FORMAT_SSE)
        write_place(c);
    want(c);
}

void api_events(struct api *a, const struct api_request *r)
{
    if (r->http->method == HTTP_HEAD) {
        struct err err = err_make(ERR_BAD_METHOD, "this path has no such method, only GET");
        api_reply_error(r->x, &err, "Allow: GET\r\n");
        return;
    }
    struct consumer *c = ALLOC(struct consumer);
    *c = (struct consumer){.hub = a->events, .x = r->x, .since = EVENTS_NEWEST, .follow = true};
    list_init(&c->node);
    list_init(&c->link);
    struct err err = read_request(r, c);
    if (err.code != ERR_OK) {
        free(c);
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct command place = {
        .kind = CMD_EVENTS_PLACE, .events_since = c->since, .done = on_place, .ctx = c};
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

/* --- beginning and end --- */

struct api_events *api_events_new(struct api *a)
{
    struct api_events *h = ALLOC(struct api_events);
    h->api = a;
    list_init(&h->consumers);
    list_init(&h->wanting);
    list_init(&h->looks);
    must(uv_timer_init(a->settings.loop, &h->pause) == 0);
    h->pause.data = h;
    /* A consumer has a connection, which keeps the loop alive. */
    uv_unref((uv_handle_t *)&h->pause);
    return h;
}

void api_events_free(struct api_events *h)
{
    must(list_is_empty(&h->consumers));
    while (!list_is_empty(&h->looks)) {
        struct look *l = LIST_OF(h->looks.next, struct look, node);
        list_unlink(&l->node);
        free(l);
    }
    for (int f = 0; f < FORMATS; f++)
        buf_fini(&h->shared[f]);
    buf_fini(&h->line);
    free(h);
}
