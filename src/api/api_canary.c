/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_canary_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/alloc.h"
#include "base/log.h"

#define SPACE   STR("api.canary")
#define KEPT_MS ((int64_t)7 * 24 * 3600 * 1000) /* after the end */
#define PAGE    256                             /* events */
#define COUNTED 4096                            /* where they are only counted */

/* --- life --- */

static struct canary *canary_new(struct api_canaries *h)
{
    struct canary *c = ALLOC(struct canary);
    c->hub = h;
    c->ended = INSTANT_NONE;
    list_init(&c->node);
    return c;
}

static void canary_free(struct canary *c)
{
    list_unlink(&c->node);
    free(c->query);
    free(c->by);
    free(c->jobs);
    free(c);
}

static bool is_active(const struct canary *c)
{
    return c->state == STATE_CANARY || c->state == STATE_REST;
}

/* The oldest that is over, if there are too many. */
static void make_room(struct api_canaries *h)
{
    size_t count = 0;
    struct canary *oldest = NULL;
    LIST_EACH (n, &h->all) {
        struct canary *c = LIST_OF(n, struct canary, node);
        if (!oldest && c->known && !is_active(c) && c->next == c->state && !c->busy)
            oldest = c;
        count++;
    }
    if (count > CANARY_KEPT_MAX && oldest)
        canary_free(oldest);
}

static void on_kept(void *ctx, const struct reply *r);

/* Makes the next state durable, which somebody asks for (struct command, trail) or nobody; on_kept
 * goes on from there. */
static void keep(struct canary *c, struct str trail)
{
    struct buf value = {0};
    char key[24];
    snprintf(key, sizeof key, "%020llu", (unsigned long long)c->number);
    api_canary_write(c, &value);
    const struct kv_change change = {
        .entry = {.space = SPACE,
                  .key = str_from(key),
                  .value = buf_view(&value),
                  .expires = instant_is_set(c->ended) ? instant_add(c->ended, (span){KEPT_MS})
                                                      : INSTANT_NONE}};
    struct command put = {.kind = CMD_KV_PUT, .trail = trail, .done = on_kept, .ctx = c};
    put.kv_put = (struct kv_put){.changes = &change, .count = 1};
    backend_submit(c->hub->api->backend, &put);
    buf_fini(&value);
}

static void move_for(struct canary *c, enum canary_state next, const char *reason, struct str trail)
{
    c->next = next;
    snprintf(c->next_reason, sizeof c->next_reason, "%s", reason);
    for (char *at = c->next_reason; *at; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at; /* it is a line of the entry */
    if (next != STATE_CANARY && next != STATE_REST)
        c->ended = api_now(c->hub->api);
    keep(c, trail);
}

static void move_to(struct canary *c, enum canary_state next, const char *reason)
{
    move_for(c, next, reason, (struct str){0});
}

static void give_up(struct canary *c, const struct err *err)
{
    if (c->call)
        api_reply_error(c->call->x, err, NULL);
    canary_free(c);
}

/* --- what is retried --- */

struct err api_retry_filter(struct job_filter *f)
{
    unsigned dead = 1u << STATUS_DEAD;
    if (f->statuses && f->statuses != dead)
        return err_make(ERR_UNPROCESSABLE, "only dead jobs can be retried: status=dead");
    f->statuses = dead;
    /* Canceled jobs were ended on purpose. */
    if (!f->resolutions && !f->id_count)
        f->resolutions = ~(1u << RESOLUTION_CANCELED);
    return err_none();
}

/* The filter once more, as it was asked for; its texts live in the arena. */
static struct err read_filter(const struct canary *c, struct arena *a, struct list_params *p)
{
    const struct http_request req = {.query = str_from(c->query), .arena = a};
    struct err err = api_read_params(&req, PARAMS_RETRY, p);
    buf_fini(&p->echo);
    return err.code == ERR_OK ? api_retry_filter(&p->list.filter) : err;
}

static void submit_list(struct canary *c, enum command_kind kind, uint32_t limit, reply_fn done)
{
    struct arena a = {0};
    struct list_params p;
    struct err err = read_filter(c, &a, &p);
    struct command list = {.kind = kind, .done = done, .ctx = c};
    list.list = p.list;
    list.list.limit = limit;
    list.list.no_payload = true;
    list.list.per_second = c->rate;
    list.list.may_rerun = true;
    if (kind == CMD_RERUN_WHERE)
        list.trail = str_from(c->by);
    if (err.code == ERR_OK)
        backend_submit(c->hub->api->backend, &list);
    else
        done(c, &(struct reply){.err = err});
    arena_fini(&a);
}

/* The command is about these; ids: room for them. */
static struct list_command of_canaries(const struct canary *c, struct id *ids)
{
    for (size_t i = 0; i < c->count; i++)
        ids[i] = c->jobs[i].id;
    return (struct list_command){
        .filter = {.ids = ids, .id_count = c->count}, .limit = CANARY_JOBS_MAX, .no_payload = true};
}

/* --- what becomes of them --- */

static void watch(struct canary *c);
static void retry_canaries(struct canary *c);

static struct canary_job *find_job(struct canary *c, struct id id)
{
    for (size_t i = 0; i < c->count; i++)
        if (id_eq(c->jobs[i].id, id))
            return &c->jobs[i];
    return NULL;
}

/* Whether the event is one after which the canary will not have succeeded. */
static bool is_bad(enum event e)
{
    switch ((int)e) {
    case EVENT_RETRY:
    case EVENT_RETRY_NOW:
    case EVENT_EXHAUST:
    case EVENT_POISON:
    case EVENT_CANCEL:
    case EVENT_ABANDON:
    case EVENT_OVERRUN:
    case EVENT_REMOVE:
    case EVENT_PURGE:
    case EVENT_UNRETRY:
        return true;
    default:
        return false;
    }
}

/* Up to `most` bytes of it, and no part of a character. */
static struct str cut(struct str text, size_t most)
{
    if (text.len <= most)
        return text;
    while (most && ((unsigned char)text.at[most] & 0xc0) == 0x80)
        most--;
    return (struct str){text.at, most};
}

/* False if the canary has failed by it. */
static bool look_at(struct canary *c, const struct job_event *ev)
{
    struct canary_job *job = find_job(c, ev->id);
    char id[ID_TEXT_LEN + 1] = "", why[CANARY_TEXT_MAX];
    c->since = ev->number;
    if (!job || job->succeeded)
        return true;
    if (ev->event == EVENT_SUCCEED) {
        job->succeeded = true;
        c->succeeded++;
    }
    if (!is_bad(ev->event))
        return true;
    id_format(job->id, id);
    struct str reason = cut(ev->reason, 80);
    snprintf(why, sizeof why, "canary %.25s: %s%s%.*s", id, lifecycle_event_kind(ev->event),
             reason.len ? ": " : "", (int)reason.len, reason.len ? reason.at : "");
    move_to(c, STATE_FAILED, why);
    return false;
}

/* One that could not be retried, by its deadline for example, or is gone without an event since. */
static void fail_idle(struct canary *c)
{
    char id[ID_TEXT_LEN + 1] = "", why[CANARY_TEXT_MAX];
    size_t i = 0;
    while (i + 1 < c->count && !c->jobs[i].idle)
        i++;
    id_format(c->jobs[i].id, id);
    snprintf(why, sizeof why, "canary %.25s %s", id,
             c->jobs[i].gone
                 ? "was deleted before it was retried"
                 : "could not be retried: its deadline is over, or a budget of it gone");
    move_to(c, STATE_FAILED, why);
}

static void go_on_in_canary(struct canary *c)
{
    if (c->idle) {
        fail_idle(c);
    } else if (!c->caught_up) {
        c->caught_up = true;
        retry_canaries(c);
    } else {
        watch(c);
    }
}

static void on_events(void *ctx, const struct event_page *p)
{
    struct canary *c = ctx;
    c->read = NULL;
    if (c->next != STATE_CANARY || p->err.code == ERR_STOPPING)
        return;
    c->again = p->err.code != ERR_OK;
    if (c->again) {
        c->caught_up = false;
        return;
    }
    if (p->missed_to) {
        move_to(c, STATE_FAILED, "the events that say what became of the canaries are not kept");
        return;
    }
    for (size_t i = 0; i < p->count; i++)
        if (!look_at(c, &p->events[i]))
            return;
    c->since = p->last;
    if (c->succeeded == c->count)
        move_to(c, STATE_REST, "");
    else if (p->more)
        watch(c);
    else
        go_on_in_canary(c);
}

/* Waits for news only of canaries that somebody may still run. */
static void watch(struct canary *c)
{
    const struct event_read_spec spec = {.since = c->since,
                                         .limit = PAGE,
                                         .wait = c->caught_up && !c->idle,
                                         .done = on_events,
                                         .ctx = c};
    c->read = backend_events(c->hub->api->backend, &spec);
}

/* Nobody runs those that are dead or gone. If their events do not say why, they were not retried:
 * then nothing would ever be heard of them. */
static void on_looked(void *ctx, const struct reply *r)
{
    struct canary *c = ctx;
    c->busy = false;
    c->again = r->err.code != ERR_OK;
    if (c->again || c->next != STATE_CANARY)
        return;
    for (size_t i = 0; i < c->count; i++)
        c->jobs[i].idle = c->jobs[i].gone = true;
    for (size_t i = 0; i < r->count; i++) {
        struct canary_job *job = find_job(c, r->jobs[i].id);
        if (!job)
            continue;
        job->gone = false;
        job->idle = r->jobs[i].state.status == STATUS_DEAD;
    }
    c->idle = false;
    for (size_t i = 0; i < c->count; i++)
        c->idle |= c->jobs[i].idle && !c->jobs[i].succeeded;
    watch(c);
}

static void look_for_idle(struct canary *c)
{
    struct id ids[CANARY_JOBS_MAX];
    struct command list = {.kind = CMD_LIST, .done = on_looked, .ctx = c};
    list.list = of_canaries(c, ids);
    c->busy = true;
    backend_submit(c->hub->api->backend, &list);
}

/* The canaries are ready again, if they could be. What has become of them since they were chosen is
 * looked at, too: somebody else may have retried one. */
static void on_begun(void *ctx, const struct reply *r)
{
    struct canary *c = ctx;
    c->busy = false;
    c->again = r->err.code != ERR_OK;
    if (c->call) {
        api_canary_answer(c->call->x, 202, c->hub->api, c);
        c->call = NULL;
    }
    c->caught_up &= !c->again;
    if (!c->again && c->next == STATE_CANARY)
        look_for_idle(c);
}

/* Of the canaries those that are dead still. */
static void retry_canaries(struct canary *c)
{
    struct id ids[CANARY_JOBS_MAX];
    struct command rerun = {.kind = CMD_RERUN_WHERE, .done = on_begun, .ctx = c};
    rerun.list = of_canaries(c, ids);
    rerun.list.filter.statuses = 1u << STATUS_DEAD;
    rerun.trail = str_from(c->by);
    c->busy = true;
    backend_submit(c->hub->api->backend, &rerun);
}

static void on_rest(void *ctx, const struct reply *r)
{
    struct canary *c = ctx;
    c->busy = false;
    c->again = r->err.code != ERR_OK;
    c->uncounted = c->again;
    if (r->err.code == ERR_STORE || r->err.code == ERR_DISK_FULL || r->err.code == ERR_STOPPING)
        return;
    c->retried += r->count;
    if (c->again)
        move_to(c, STATE_FAILED, r->err.msg);
    else
        move_to(c, r->stopped ? STATE_STOPPED : STATE_DONE, "");
    c->again = false;
}

static void retry_rest(struct canary *c)
{
    c->busy = true;
    submit_list(c, CMD_RERUN_WHERE, 1, on_rest);
}

static void count_rest(struct canary *c);

static void on_counted(void *ctx, const struct event_page *p)
{
    struct canary *c = ctx;
    c->read = NULL;
    if (p->err.code == ERR_STOPPING)
        return;
    c->again = p->err.code != ERR_OK;
    if (c->again)
        return;
    for (size_t i = 0; i < p->count; i++)
        c->retried += p->events[i].event == EVENT_RERUN && !find_job(c, p->events[i].id);
    c->since = p->last;
    c->uncounted = p->more;
    if (p->more)
        count_rest(c);
    else
        retry_rest(c);
}

/* Some of the rest may have been retried when the server stopped, or its disk failed, before that
 * was told: the events say how many. Their number goes on from what the canaries were last seen to
 * do. */
static void count_rest(struct canary *c)
{
    const struct event_read_spec spec = {
        .since = c->since, .limit = COUNTED, .done = on_counted, .ctx = c};
    c->read = backend_events(c->hub->api->backend, &spec);
}

static void go_on(struct canary *c)
{
    c->again = false;
    if (c->next != c->state)
        keep(c, (struct str){0});
    else if (c->state == STATE_CANARY && c->caught_up)
        retry_canaries(c);
    else if (c->state == STATE_CANARY)
        watch(c);
    else if (c->state == STATE_REST && c->uncounted)
        count_rest(c);
    else if (c->state == STATE_REST)
        retry_rest(c);
}

static void tell(const struct canary *c)
{
    if (c->state == STATE_FAILED)
        log_warn("canary retry %llu: the rest is not retried: %s", (unsigned long long)c->number,
                 c->reason);
    else
        log_info("canary retry %llu: %s", (unsigned long long)c->number,
                 api_canary_state_name(c->state));
}

static void on_kept(void *ctx, const struct reply *r)
{
    struct canary *c = ctx;
    if (r->err.code != ERR_OK && !c->known) {
        give_up(c, &r->err);
        return;
    }
    c->again = r->err.code != ERR_OK;
    if (c->again)
        return;
    c->known = true;
    c->state = c->next;
    memcpy(c->reason, c->next_reason, sizeof c->reason);
    tell(c);
    make_room(c->hub);
    if (is_active(c))
        go_on(c);
}

/* --- the request --- */

static void on_place(void *ctx, const struct reply *r)
{
    struct canary *c = ctx;
    if (r->err.code != ERR_OK) {
        give_up(c, &r->err);
        return;
    }
    c->since = r->events_since;
    c->caught_up = true;
    c->number = ++c->hub->newest;
    list_append(&c->hub->all, &c->node);
    keep(c, (struct str){0});
}

static void on_chosen(void *ctx, const struct reply *r)
{
    struct canary *c = ctx;
    struct err err = r->err;
    if (err.code == ERR_OK && r->count == 0)
        err = err_make(ERR_UNPROCESSABLE, "no dead job is like that");
    if (err.code != ERR_OK) {
        give_up(c, &err);
        return;
    }
    for (size_t i = 0; i < r->count && i < CANARY_JOBS_MAX; i++)
        c->jobs[c->count++] = (struct canary_job){.id = r->jobs[i].id};
    struct command place = {
        .kind = CMD_EVENTS_PLACE, .events_since = EVENTS_NEWEST, .done = on_place, .ctx = c};
    backend_submit(c->hub->api->backend, &place);
}

struct err api_canary_param(struct str name, struct str value, struct list_params *p, bool *known)
{
    int64_t jobs;
    if (!str_eq(name, STR("canary")))
        return err_none();
    *known = true;
    TRY(api_read_number(value, "canary", 1, CANARY_JOBS_MAX, &jobs));
    p->canary = (uint32_t)jobs;
    return err_none();
}

static struct err check(const struct api *a, const struct api_request *r,
                        const struct list_params *p)
{
    size_t active = 0;
    LIST_EACH (n, &a->canaries->all)
        active += is_active(LIST_OF(n, struct canary, node));
    if (r->rights->queues.count)
        return err_make(ERR_NO_RIGHT, "a retry with canaries is for those that are limited to no "
                                      "queues");
    if (p->list.undo.ms)
        return err_make(ERR_UNPROCESSABLE, "a retry with canaries cannot be undone: not both "
                                           "canary and undo");
    if (active >= CANARY_ACTIVE_MAX)
        return err_make(ERR_CONFLICT, "%d retries with canaries are under way; stop one",
                        CANARY_ACTIVE_MAX);
    return p->echo.len + r->trail.len < KV_VALUE_MAX / 2
               ? err_none()
               : err_make(ERR_TOO_LARGE, "such a long filter cannot be kept for the rest");
}

void api_canary_begin(struct api *a, const struct api_request *r, const struct list_params *p,
                      uint32_t jobs)
{
    struct err err = check(a, r, p);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct canary *c = canary_new(a->canaries);
    struct str query = buf_view(&p->echo);
    if (query.len)
        query = (struct str){query.at + 1, query.len - 1}; /* without the first '&' */
    c->query = api_canary_text(query);
    c->by = api_canary_text(r->trail);
    c->rate = p->list.per_second;
    c->began = api_now(a);
    c->jobs = alloc_get(CANARY_JOBS_MAX * sizeof *c->jobs);
    c->call = api_call(a, r);
    submit_list(c, CMD_LIST, jobs, on_chosen);
}

static struct err find(struct api *a, const struct api_request *r, struct canary **out)
{
    int64_t number = 0;
    TRY(api_check_media(r->http));
    bool ok = api_read_number(r->params->at[0], "id", 1, INT64_MAX, &number).code == ERR_OK;
    LIST_EACH (n, &a->canaries->all) {
        *out = LIST_OF(n, struct canary, node);
        if (ok && (*out)->known && (*out)->number == (uint64_t)number)
            return err_none();
    }
    return err_make(ERR_NOT_FOUND, "there is no such retry with canaries, or no longer");
}

void api_canary_read(struct api *a, const struct api_request *r)
{
    struct canary *c = NULL;
    struct err err = find(a, r, &c);
    if (err.code == ERR_OK)
        api_canary_answer(r->x, 200, a, c);
    else
        api_reply_error(r->x, &err, NULL);
}

struct stop_call {
    struct call call; /* must be first */
    uint64_t number;
};

static void on_stopped(void *ctx, const struct reply *r)
{
    const struct stop_call *call = ctx;
    const struct canary *c = NULL;
    if (api_reply_failed(call->call.x, r))
        return;
    LIST_EACH (n, &call->call.api->canaries->all)
        if (LIST_OF(n, struct canary, node)->number == call->number)
            c = LIST_OF(n, struct canary, node);
    if (c) {
        api_canary_answer(call->call.x, 200, call->call.api, c);
        return;
    }
    struct err gone = err_make(ERR_NOT_FOUND, "so many have ended since that it is forgotten");
    api_reply_error(call->call.x, &gone, NULL);
}

/* It is stopped when that is durable, which the answer waits for: a read behind the write. */
void api_canary_stop(struct api *a, const struct api_request *r)
{
    struct canary *c = NULL;
    struct err err = find(a, r, &c);
    if (err.code == ERR_OK && (c->state != STATE_CANARY || c->next != STATE_CANARY))
        err = err_make(ERR_CONFLICT, "it is not among its canaries any more: it is %s",
                       api_canary_state_name(c->next));
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    if (c->read)
        backend_events_cancel(a->backend, c->read);
    c->read = NULL;
    move_for(c, STATE_STOPPED, "", r->trail);
    struct stop_call *call = ARENA_NEW(r->http->arena, struct stop_call);
    *call = (struct stop_call){{a, r->x}, c->number};
    struct command after = {
        .kind = CMD_EVENTS_PLACE, .events_since = EVENTS_NEWEST, .done = on_stopped, .ctx = call};
    backend_submit(a->backend, &after);
}

/* --- at the start, and later --- */

static void on_entries(void *ctx, const struct reply *r);

static void load(struct api_canaries *h, struct str after)
{
    struct command c = {.kind = CMD_KV_LIST, .done = on_entries, .ctx = h};
    c.kv = (struct kv_query){.space = SPACE, .after = after, .limit = KV_PAGE_MAX};
    backend_submit(h->api->backend, &c);
}

static void add(struct api_canaries *h, const struct kv_entry *e)
{
    struct canary *c = canary_new(h);
    if (!api_canary_load(c, e)) {
        log_error("the entry of canary retry %.*s cannot be read; it does not go on",
                  STR_ARG(e->key));
        canary_free(c);
        return;
    }
    h->newest = c->number > h->newest ? c->number : h->newest;
    list_append(&h->all, &c->node);
    make_room(h);
    if (is_active(c))
        go_on(c);
}

static void on_entries(void *ctx, const struct reply *r)
{
    struct api_canaries *h = ctx;
    if (r->err.code != ERR_OK) {
        log_error("retries with canaries do not go on: %s", r->err.msg);
        return;
    }
    for (size_t i = 0; i < r->count; i++)
        add(h, &r->kv[i]);
    if (r->more)
        load(h, r->kv_after);
}

struct api_canaries *api_canaries_new(struct api *a)
{
    struct api_canaries *h = ALLOC(struct api_canaries);
    h->api = a;
    list_init(&h->all);
    load(h, (struct str){0});
    return h;
}

void api_canaries_heartbeat(struct api_canaries *h)
{
    LIST_EACH (n, &h->all) {
        struct canary *c = LIST_OF(n, struct canary, node);
        if (c->again)
            go_on(c);
    }
}

void api_canaries_free(struct api_canaries *h)
{
    while (!list_is_empty(&h->all))
        canary_free(LIST_OF(h->all.next, struct canary, node));
    free(h);
}
