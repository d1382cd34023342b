/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#define START ((instant){1700000000000})

/* The store under test has no place for a pointer of ours, and a test program
 * has one yard at a time. */
static struct yard *the_yard;

static int64_t free_space(struct store *s)
{
    (void)s;
    return the_yard->free_space;
}

static void commit(struct store *s, const struct batch *b, bool sync)
{
    the_yard->commits++;
    the_yard->syncs += sync;
    the_yard->below->commit(s, b, sync);
}

static void no_wait(struct store *s)
{
    (void)s;
}

static instant now(void *ctx)
{
    const struct yard *y = ctx;
    return y->now;
}

static int64_t ticks(void *ctx)
{
    return *((const struct yard *)ctx)->ticks;
}

struct env yard_env(struct yard *y)
{
    return (struct env){.now = now,
                        .ctx = y,
                        .ticks = y->ticks ? ticks : NULL,
                        .rng = rng_from_seed(y->seed++),
                        .store = y->store,
                        .evaluator = y->evaluator};
}

static void open_backend(struct yard *y)
{
    struct env env = yard_env(y);
    assert_ok(embedded_new(&y->settings, &env, &y->b));
    engine_check(embedded_engine(y->b));
}

int yard_setup(void **state)
{
    struct yard *y = test_calloc(1, sizeof *y);
    the_yard = y;
    y->store = memory_new();
    y->below = y->store->vt;
    y->vt = *y->below;
    y->vt.free_space = free_space;
    y->vt.commit = commit;
    y->store->vt = &y->vt;
    y->free_space = INT64_MAX;
    y->now = START;
    y->seed = 1;
    y->settings = (struct backend_settings){.engine = {.retry = retry_defaults(),
                                                       .completed_retention = {0},
                                                       .dead_retention = {7 * 24 * 3600 * 1000LL}},
                                            .sync = true,
                                            .event_retention = {24 * 3600 * 1000},
                                            .event_max_bytes = 1 << 20,
                                            .min_free_space = 1000};
    open_backend(y);
    *state = y;
    return 0;
}

int yard_teardown(void **state)
{
    struct yard *y = *state;
    backend_free(y->b);
    store_close(y->store);
    test_free(y);
    return 0;
}

void yard_restart(struct yard *y)
{
    backend_free(y->b);
    assert_ok(store_reopen(y->store));
    open_backend(y);
}

void yard_restart_full(struct yard *y)
{
    backend_free(y->b);
    assert_ok(store_reopen(y->store));
    memory_break(y->store, ERR_DISK_FULL);
    open_backend(y);
}

void yard_crash(struct yard *y)
{
    struct backend *old = y->b;
    memory_crash(y->store, false, true);
    memory_set_faults(y->store, (struct memory_faults){0});
    open_backend(y);
    /* Only its memory is freed: it has nothing under way that it could wait for. */
    y->vt.wait = no_wait;
    backend_free(old);
    y->vt.wait = y->below->wait;
}

void yard_turn(struct yard *y)
{
    assert_ok(backend_turn(y->b));
    engine_check(embedded_engine(y->b));
}

void yard_turn_after(struct yard *y, int64_t ms)
{
    y->now.ms += ms;
    yard_turn(y);
}

/* Long enough for what was stepped to become durable and to be answered. */
#define TURNS_TO_ANSWER 4

static bool waits_for_evaluator(const struct yard *y)
{
    instant at;
    bool due = backend_next_due(y->b, &at) && at.ms <= y->now.ms;
    return !due && y->questions && *y->questions > 0;
}

void yard_settle(struct yard *y)
{
    int waited = 0;
    yard_turn(y);
    for (int i = 0; !backend_is_idle(y->b) && waited < TURNS_TO_ANSWER; i++) {
        assert_true(i < 1000);
        yard_turn(y);
        waited = waits_for_evaluator(y) ? waited + 1 : 0;
    }
}

void yard_faults(struct yard *y, struct memory_faults f)
{
    memory_set_faults(y->store, f);
}

/* --- replies --- */

static void copy_text(char *to, struct str text)
{
    assert_true(text.len < YARD_TEXT_MAX);
    if (text.len)
        memcpy(to, text.at, text.len);
    to[text.len] = '\0';
}

static void copy_names(struct answer *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count; i++) {
        size_t used = strlen(a->names);
        snprintf(a->names + used, sizeof a->names - used, "%.*s ", STR_ARG(r->names[i]));
    }
}

static void copy_runs(struct answer *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count && i < YARD_LIST_MAX; i++) {
        a->runs[i] = r->runs[i];
        snprintf(a->reason, sizeof a->reason, "%.*s", STR_ARG(r->runs[i].reason));
        a->runs[i].reason = a->runs[i].worker = (struct str){0};
        a->runs[i].failure = (struct failure){0};
    }
}

static void copy_jobs(struct answer *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count && i < YARD_LIST_MAX; i++)
        a->ids[i] = r->jobs[i].id;
    if (r->count == 0)
        return;
    a->status = r->jobs[0].state.status;
    a->attempts = r->jobs[0].state.attempts;
    if (r->jobs[0].payload.len < YARD_TEXT_MAX)
        copy_text(a->payload, r->jobs[0].payload);
}

static void copy_handouts(struct answer *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count && i < YARD_LIST_MAX; i++) {
        a->ids[i] = r->handouts[i].job.id;
        a->tokens[i] = r->handouts[i].token;
    }
    if (r->count > 0 && r->handouts[0].job.payload.len < YARD_TEXT_MAX)
        copy_text(a->payload, r->handouts[0].job.payload);
}

static void on_reply(void *ctx, const struct reply *r)
{
    struct answer *a = ctx;
    assert_int_equal(a->came, 0);
    a->came++;
    a->err = r->err;
    a->count = r->count;
    a->more = r->more;
    a->has_live = r->has_live;
    a->token = r->token;
    a->lease_end = r->lease_end;
    a->writable = r->status.writable;
    memcpy(a->jobs, r->status.jobs, sizeof a->jobs);
    if (r->err.code == ERR_OK && r->jobs)
        copy_jobs(a, r);
    else if (r->err.code == ERR_OK && r->enqueued)
        for (size_t i = 0; i < r->count && i < YARD_LIST_MAX; i++) {
            a->ids[i] = r->enqueued[i].job.id;
            a->folded[i] = r->enqueued[i].folded;
        }
    else if (r->err.code == ERR_OK && r->handouts)
        copy_handouts(a, r);
    else if (r->runs)
        copy_runs(a, r);
    else if (r->names)
        copy_names(a, r);
    else if (r->ids)
        for (size_t i = 0; i < r->count && i < YARD_LIST_MAX; i++)
            a->ids[i] = r->ids[i];
    if (a->then)
        a->then(a->ctx);
}

/* --- commands --- */

void yard_send(struct yard *y, struct command c, struct answer *to)
{
    c.done = on_reply;
    c.ctx = to;
    backend_submit(y->b, &c);
    assert_int_equal(to->came, 0); /* never from inside the call */
}

void yard_ask(struct yard *y, struct command c, struct answer *to)
{
    *to = (struct answer){0};
    yard_send(y, c, to);
    yard_settle(y);
    assert_int_equal(to->came, 1);
}

struct enqueue yard_spec(const char *queue)
{
    return (struct enqueue){.queue = str_from(queue),
                            .type = STR("t"),
                            .payload = STR("{\"n\":1}"),
                            .priority = JOB_PRIORITY_DEFAULT,
                            .ready_at = INSTANT_NONE,
                            .retry_limit = RETRY_LIMIT_DEFAULT,
                            .completed_retention = RETENTION_DEFAULT,
                            .dead_retention = RETENTION_DEFAULT};
}

void yard_enqueue(struct yard *y, const char *queue, struct answer *to)
{
    struct enqueue spec = yard_spec(queue);
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, to);
}

struct id yard_add(struct yard *y, const char *queue)
{
    struct answer a;
    struct enqueue spec = yard_spec(queue);
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_ok(a.err);
    return a.ids[0];
}

void yard_read(struct yard *y, struct id id, struct answer *to)
{
    yard_ask(y, (struct command){.kind = CMD_READ, .id = id}, to);
}

enum status yard_status(struct yard *y, struct id id)
{
    struct answer a;
    yard_read(y, id, &a);
    if (a.err.code == ERR_NOT_FOUND)
        return STATUS_GONE;
    assert_ok(a.err);
    return a.status;
}

/* --- takers --- */

static void on_deliver(void *ctx, const struct handout *h)
{
    struct stream *s = ctx;
    assert_true(s->count < YARD_LIST_MAX);
    assert_int_equal(s->closed, 0);
    if (h->job.payload.len < YARD_TEXT_MAX)
        assert_true(str_eq(h->job.payload, STR("{\"n\":1}")));
    s->ids[s->count++] = h->job.id;
}

static void on_closed(void *ctx)
{
    struct stream *s = ctx;
    s->closed++;
    if (s->on_closed)
        s->on_closed(s->ctx);
}

struct err yard_try_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to)
{
    struct str names[] = {str_from(queue)};
    struct stream_spec spec = {.queues = names,
                               .queue_count = queue ? 1 : 0,
                               .prefetch = prefetch,
                               .worker = STR("w"),
                               .deliver = on_deliver,
                               .closed = on_closed,
                               .ctx = to};
    return backend_stream_open(y->b, &spec, &to->handle);
}

void yard_stream(struct yard *y, const char *queue, uint32_t prefetch, struct stream *to)
{
    assert_ok(yard_try_stream(y, queue, prefetch, to));
}

struct backend_claim *yard_claim(struct yard *y, const char *queue, uint32_t count, span wait,
                                 struct answer *to)
{
    struct str names[] = {str_from(queue)};
    struct claim_spec spec = {.queues = names,
                              .queue_count = 1,
                              .count = count,
                              .worker = STR("w"),
                              .lease = YARD_LEASE,
                              .wait = wait,
                              .done = on_reply,
                              .ctx = to};
    return backend_claim(y->b, &spec);
}
