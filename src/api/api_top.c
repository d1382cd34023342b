/* SPDX-License-Identifier: Apache-2.0 */

/* GET /events on the admin listener as a WebSocket: what `zizq top` shows.
 *
 * One reader of events serves all connections: what happens anywhere makes their windows stale. A
 * stale window is read again from the backend's indexes, a few connections at a time and each at
 * most a few times a second, however many jobs change; what differs from what the client has is
 * sent. So a connection costs about the same on a busy server as on a quiet one. */

#include "api/api_top.h"

#include <stdlib.h>
#include <uv.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/alloc.h"
#include "base/event_cursor.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/must.h"

#define TICK_MS       100
#define BEAT_TICKS    5   /* between heartbeats */
#define REFRESH_TICKS 2   /* between looks at one client's windows */
#define AT_ONCE       4   /* connections whose windows are read in a tick */
#define LIMIT         200 /* of a window, until the client says another */
#define CHANGES_MAX   50  /* that are told one by one; with more a snapshot is shorter */
#define EVENTS_MAX    256 /* of a page */
#define WAITING_MAX   16  /* requests of a client that wait for their answers */

struct view {
    struct top *top;
    enum top_list list;
    struct window_command ask;
};

struct top {
    struct list node; /* in api_top.all; none once the connection is gone */
    struct api_top *hub;
    struct websocket *ws; /* NULL: it is gone */
    struct token *token;
    struct route_params params;
    struct str address;
    struct glob_list reach;
    struct arena memory; /* of reach and address */
    bool blind;          /* its sender sees no payloads */
    bool detail, stale, snapshot;
    unsigned reading, waiting; /* windows, and other requests, that are being answered */
    uint64_t refreshed_at;     /* tick */
    struct view views[TOP_LISTS];
    struct top_window shown[TOP_LISTS], fresh[TOP_LISTS];
};

struct api_top {
    struct api *api;
    struct list all;
    uint64_t began; /* nanoseconds of uv_hrtime */
    uv_timer_t timer;
    uv_async_t round; /* after a timer the backend must have its turn, too */
    uint64_t ticks;
    struct event_read *read;
    bool placing; /* it is being asked where the newest event is */
    uint64_t since;
    struct buf out;
};

/* --- what is sent --- */

static struct top_server server_of(const struct top *t)
{
    struct top_server s = {.uptime_ms = (uv_hrtime() - t->hub->began) / 1000000};
    for (unsigned i = 0; i < TOP_LISTS; i++)
        s.totals[i] = t->shown[i].total;
    return s;
}

static void send_out(struct top *t)
{
    websocket_send(t->ws, buf_view(&t->hub->out));
}

static void send_snapshot(struct top *t)
{
    const struct top_server s = server_of(t);
    api_top_write_snapshot(&t->hub->out, &s, t->shown);
    send_out(t);
    t->snapshot = false;
}

static void send_change(struct top *t, struct id id, const char *status, const struct top_window *w,
                        const struct top_item *item)
{
    const struct top_server s = server_of(t);
    api_top_write_change(&t->hub->out, &s, id, status, w, item);
    send_out(t);
}

/* --- what differs --- */

static const struct top_item *find_item(const struct top_window *w, struct id id)
{
    for (size_t i = 0; i < w->count; i++)
        if (id_eq(w->items[i].id, id))
            return &w->items[i];
    return NULL;
}

/* Items of one list that the other does not have. Sets *altered if it has one otherwise. */
static unsigned count_others(const struct top_window *w, const struct top_window *other,
                             bool *altered)
{
    unsigned n = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct top_item *mine = &w->items[i], *theirs = find_item(other, mine->id);
        n += !theirs;
        if (theirs && (theirs->len != mine->len ||
                       memcmp(other->text.at + theirs->at, w->text.at + mine->at, mine->len) != 0))
            *altered = true;
    }
    return n;
}

/* `was` and `is` are what the client has and what there is now. */
static void send_left(struct top *t, enum top_list list, const struct top_window *was,
                      const struct top_window *is)
{
    static const char *const words[] = {"ready_removed", "in_flight_removed", "scheduled_removed"};
    for (size_t i = 0; i < was->count; i++)
        if (!find_item(is, was->items[i].id))
            send_change(t, was->items[i].id, words[list], NULL, NULL);
}

static void send_come(struct top *t, enum top_list list, const struct top_window *was,
                      const struct top_window *is)
{
    for (size_t i = 0; i < is->count; i++)
        if (!find_item(was, is->items[i].id))
            send_change(t, is->items[i].id, api_top_name(list), is, &is->items[i]);
}

/* All windows are there: tells what differs, and keeps them. */
static void show(struct top *t)
{
    struct top_window was[TOP_LISTS];
    unsigned changes = 0;
    bool altered = t->snapshot;
    for (unsigned i = 0; i < TOP_LISTS; i++) {
        changes += count_others(&t->shown[i], &t->fresh[i], &altered) +
                   count_others(&t->fresh[i], &t->shown[i], &altered);
        was[i] = t->shown[i];
        t->shown[i] = t->fresh[i];
        t->fresh[i] = (struct top_window){0};
    }
    if (altered || changes > CHANGES_MAX)
        send_snapshot(t);
    else
        for (unsigned i = 0; i < TOP_LISTS; i++)
            send_left(t, i, &was[i], &t->shown[i]);
    for (unsigned i = 0; i < TOP_LISTS; i++) {
        if (!altered && changes <= CHANGES_MAX)
            send_come(t, i, &was[i], &t->shown[i]);
        api_top_window_fini(&was[i]);
    }
}

/* --- reading --- */

/* The connection is gone, and nothing is asked on its behalf any more. */
static void settle(struct top *t)
{
    if (t->ws || t->reading || t->waiting)
        return;
    for (unsigned i = 0; i < TOP_LISTS; i++) {
        api_top_window_fini(&t->shown[i]);
        api_top_window_fini(&t->fresh[i]);
    }
    arena_fini(&t->memory);
    free(t);
}

static void on_window(void *ctx, const struct reply *r)
{
    struct view *v = ctx;
    struct top *t = v->top;
    t->reading--;
    if (r->err.code == ERR_OK && t->ws)
        api_top_window_read(&t->fresh[v->list], r, t->detail);
    else if (t->ws)
        websocket_end(t->ws, WEBSOCKET_FAILED, r->err.msg);
    if (!t->reading && t->ws && r->err.code == ERR_OK)
        show(t);
    settle(t);
}

static void refresh(struct top *t)
{
    struct api *a = t->hub->api;
    t->stale = false;
    t->refreshed_at = t->hub->ticks;
    t->reading = TOP_LISTS;
    for (unsigned i = 0; i < TOP_LISTS; i++) {
        struct command c = {.kind = CMD_WINDOW,
                            .window = t->views[i].ask,
                            .reach = t->reach,
                            .done = on_window,
                            .ctx = &t->views[i]};
        c.window.with_payload = t->detail && !t->blind;
        api_top_window_fini(&t->fresh[i]);
        backend_submit(a->backend, &c);
    }
}

static bool may_refresh(const struct top *t)
{
    return t->stale && !t->reading && t->hub->ticks - t->refreshed_at >= REFRESH_TICKS &&
           !websocket_is_congested(t->ws);
}

/* Those that were served go to the end, so that all have their turn. */
static void refresh_some(struct api_top *h)
{
    for (unsigned n = 0; n < AT_ONCE; n++) {
        struct top *next = NULL;
        LIST_EACH (node, &h->all) {
            struct top *t = LIST_OF(node, struct top, node);
            if (may_refresh(t)) {
                next = t;
                break;
            }
        }
        if (!next)
            return;
        list_unlink(&next->node);
        list_append(&h->all, &next->node);
        refresh(next);
    }
}

/* --- events --- */

static const char *ended_word(const struct job_event *ev)
{
    return ev->to == STATUS_COMPLETED && ev->from != STATUS_COMPLETED ? "completed"
           : ev->to == STATUS_DEAD && ev->from != STATUS_DEAD         ? "dead"
                                                                      : NULL;
}

static void tell_end(struct api_top *h, const struct job_event *ev, const char *word)
{
    LIST_EACH (node, &h->all) {
        struct top *t = LIST_OF(node, struct top, node);
        bool reached = !t->reach.count || glob_list_matches(t->reach, ev->queue);
        if (reached && t->shown[TOP_READY].items && !websocket_is_congested(t->ws))
            send_change(t, ev->id, word, NULL, NULL);
    }
}

static struct top *first_of(const struct api_top *h)
{
    return list_is_empty(&h->all) ? NULL : LIST_OF(h->all.next, struct top, node);
}

static void end_all(struct api_top *h, enum websocket_code code, const char *why)
{
    LIST_EACH (node, &h->all)
        websocket_end(LIST_OF(node, struct top, node)->ws, code, why);
}

/* Of very many events the rest is passed over: they are all in the windows. */
static void on_page(void *ctx, const struct event_page *p)
{
    struct api_top *h = ctx;
    h->read = NULL;
    if (p->err.code != ERR_OK) {
        bool stopping = p->err.code == ERR_STOPPING;
        end_all(h, stopping ? WEBSOCKET_AWAY : WEBSOCKET_FAILED, p->err.msg);
        return;
    }
    for (size_t i = 0; i < p->count; i++) {
        const char *word = ended_word(&p->events[i]);
        if (word)
            tell_end(h, &p->events[i], word);
    }
    h->since = p->more ? EVENTS_NEWEST : p->last;
    LIST_EACH (node, &h->all)
        LIST_OF(node, struct top, node)->stale = true;
}

static void on_place(void *ctx, const struct reply *r)
{
    struct api_top *h = ctx;
    h->placing = false;
    if (r->err.code == ERR_OK)
        h->since = r->events_since;
    else
        end_all(h, r->err.code == ERR_STOPPING ? WEBSOCKET_AWAY : WEBSOCKET_FAILED, r->err.msg);
}

static void watch(struct api_top *h)
{
    struct backend *b = h->api->backend;
    if (h->read || h->placing || !first_of(h))
        return;
    if (h->since == EVENTS_NEWEST) {
        h->placing = true;
        const struct command place = {
            .kind = CMD_EVENTS_PLACE, .events_since = EVENTS_NEWEST, .done = on_place, .ctx = h};
        backend_submit(b, &place);
        return;
    }
    const struct event_read_spec spec = {
        .since = h->since, .limit = EVENTS_MAX, .wait = true, .done = on_page, .ctx = h};
    h->read = backend_events(b, &spec);
}

static void beat(struct api_top *h)
{
    if (h->ticks % BEAT_TICKS)
        return;
    LIST_EACH (node, &h->all) {
        struct top *t = LIST_OF(node, struct top, node);
        const struct top_server s = server_of(t);
        if (!t->shown[TOP_READY].items || websocket_is_congested(t->ws))
            continue; /* the snapshot comes first */
        api_top_write_heartbeat(&h->out, &s);
        send_out(t);
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct api_top *h = timer->data;
    h->ticks++;
    watch(h);
    refresh_some(h);
    beat(h);
    uv_async_send(&h->round);
}

static void on_round(uv_async_t *a)
{
    (void)a;
}

/* --- what the client asks for --- */

struct request {
    struct top *top;
    enum top_list list;
};

static void on_found(void *ctx, const struct reply *r)
{
    struct request *q = ctx;
    struct top *t = q->top;
    const struct top_server s = server_of(t);
    t->waiting--;
    if (t->ws && r->err.code == ERR_OK) {
        api_top_write_found(&t->hub->out, &s, q->list, r);
        send_out(t);
    }
    free(q);
    settle(t);
}

/* Nobody is told: that the job is gone is seen in the list. */
static void on_removed(void *ctx, const struct reply *r)
{
    struct request *q = ctx;
    struct top *t = q->top;
    t->waiting--;
    if (r->err.code != ERR_OK)
        log_info("a job is not deleted for zizq top: %s", r->err.msg);
    free(q);
    settle(t);
}

static void submit(struct top *t, struct command *c, enum top_list list)
{
    struct request *q = ALLOC(struct request);
    *q = (struct request){t, list};
    t->waiting++;
    c->ctx = q;
    c->reach = t->reach;
    backend_submit(t->hub->api->backend, c);
}

static const struct endpoint *endpoint_of(const char *id)
{
    size_t i = 0;
    while (strcmp(api_endpoints[i].id, id) != 0)
        must(++i < api_endpoint_count);
    return &api_endpoints[i];
}

static void delete_job(struct top *t, struct id id, struct arena *scratch)
{
    char path[6 + ID_TEXT_LEN] = "/jobs/";
    struct api *a = t->hub->api;
    const struct endpoint *e = endpoint_of("deleteJob");
    const struct api_request r = {.token = t->token, .params = &t->params};
    struct err err = api_check_right(a, e, &r);
    if (err.code != ERR_OK) {
        log_info("a job is not deleted for zizq top: %s", err.msg);
        return;
    }
    id_format(id, path + 6);
    const struct api_doer doer = {t->token, t->address};
    struct command c = {.kind = CMD_REMOVE, .id = id, .done = on_removed};
    c.trail = api_note_apart(&doer, "deleteJob", (struct str){path, sizeof path}, scratch);
    submit(t, &c, TOP_READY);
}

static void find_job(struct top *t, const struct top_message *m)
{
    struct command c = {.kind = CMD_WINDOW, .window = m->window, .done = on_found};
    c.window.status = api_top_status(m->list);
    submit(t, &c, m->list);
}

/* The answer is a snapshot, at once: a person waits for it. */
static void show_anew(struct top *t)
{
    t->stale = t->snapshot = true;
    if (!t->reading && !websocket_is_congested(t->ws))
        refresh(t);
}

static void obey(struct top *t, const struct top_message *m, struct arena *scratch)
{
    switch (m->kind) {
    case TOP_SUBSCRIBE:
        t->views[m->list].ask = m->window;
        t->views[m->list].ask.status = api_top_status(m->list);
        show_anew(t);
        break;
    case TOP_SET_DETAIL:
        t->detail = m->detail;
        show_anew(t);
        break;
    case TOP_DELETE:
        delete_job(t, m->id, scratch);
        break;
    case TOP_FIND:
        find_job(t, m);
    }
}

/* What is not understood is passed over, as by Zizq's servers: a newer client may say more. */
static void on_text(void *ctx, struct str text)
{
    struct top *t = ctx;
    struct arena scratch = {0};
    struct top_message m;
    struct err err = api_top_read(text, &scratch, &m);
    if (err.code != ERR_OK)
        log_debug("a message of zizq top is not understood: %s", err.msg);
    else if (t->waiting >= WAITING_MAX)
        websocket_end(t->ws, WEBSOCKET_REFUSED, "too many requests wait for their answers");
    else
        obey(t, &m, &scratch);
    arena_fini(&scratch);
}

/* --- beginning and end --- */

static void on_drained(void *ctx)
{
    ((struct top *)ctx)->stale = true;
}

static void on_closed(void *ctx)
{
    struct top *t = ctx;
    struct api_top *h = t->hub;
    t->ws = NULL;
    list_unlink(&t->node);
    if (!first_of(h)) {
        uv_timer_stop(&h->timer);
        if (h->read)
            backend_events_cancel(h->api->backend, h->read);
        h->read = NULL;
        h->since = EVENTS_NEWEST;
    }
    settle(t);
}

/* The token may be forgotten before the connection has ended. */
static void copy_rights(struct top *t, const struct api_request *r)
{
    struct glob_list reach = r->rights->queues;
    struct str *own = arena_get(&t->memory, reach.count * sizeof *own + 1);
    for (size_t i = 0; i < reach.count; i++)
        own[i] = arena_copy(&t->memory, reach.at[i]);
    t->reach = (struct glob_list){own, reach.count};
    t->address = arena_copy(&t->memory, str_from(http_peer(r->x)->address));
    t->blind = !api_may_see(r);
    t->token = r->token;
    t->params.admin = r->params->admin;
}

static struct top *top_new(struct api *a, const struct api_request *r)
{
    struct top *t = ALLOC(struct top);
    *t = (struct top){.hub = a->top, .stale = true, .snapshot = true};
    list_init(&t->node);
    copy_rights(t, r);
    for (unsigned i = 0; i < TOP_LISTS; i++)
        t->views[i] = (struct view){t, i, {.status = api_top_status(i), .limit = LIMIT}};
    return t;
}

static void open_socket(struct api *a, const struct api_request *r)
{
    static const struct websocket_owner owner = {on_text, on_drained, on_closed};
    struct api_top *h = a->top;
    struct err err = r->http->query.len
                         ? err_make(ERR_BAD_VALUE, "this WebSocket has no parameters")
                         : websocket_check(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, WEBSOCKET_VERSIONS);
        return;
    }
    struct top *t = top_new(a, r);
    err = websocket_accept(r->x, r->http, &owner, t, &t->ws);
    if (err.code != ERR_OK) {
        arena_fini(&t->memory);
        free(t);
        api_reply_error(r->x, &err, NULL);
        return;
    }
    list_append(&h->all, &t->node);
    if (!uv_is_active((uv_handle_t *)&h->timer))
        uv_timer_start(&h->timer, on_tick, TICK_MS, TICK_MS);
    watch(h);
    refresh(t);
}

void api_top_or_events(struct api *a, const struct api_request *r)
{
    if (r->http->websocket && r->params->admin)
        open_socket(a, r);
    else
        api_events(a, r);
}

void api_top_end(struct api_top *h, const struct token *of)
{
    LIST_EACH (node, &h->all) {
        struct top *t = LIST_OF(node, struct top, node);
        if (api_is_over(h->api, t->token, of))
            websocket_end(t->ws, WEBSOCKET_REFUSED, "the credentials count no more");
    }
}

struct api_top *api_top_new(struct api *a)
{
    struct api_top *h = ALLOC(struct api_top);
    *h = (struct api_top){.api = a, .began = uv_hrtime(), .since = EVENTS_NEWEST};
    list_init(&h->all);
    must(uv_timer_init(a->settings.loop, &h->timer) == 0);
    must(uv_async_init(a->settings.loop, &h->round, on_round) == 0);
    h->timer.data = h;
    /* A connection keeps the loop alive. */
    uv_unref((uv_handle_t *)&h->timer);
    uv_unref((uv_handle_t *)&h->round);
    return h;
}

void api_top_free(struct api_top *h)
{
    must(list_is_empty(&h->all));
    buf_fini(&h->out);
    free(h);
}
