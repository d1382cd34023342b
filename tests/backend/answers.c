/* SPDX-License-Identifier: Apache-2.0 */
#include "answers.h"

/* --- replies --- */

static void copy_text(char *to, struct str text)
{
    assert_true(text.len < ANSWER_TEXT_MAX);
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

static void copy_runs(struct answer *a, const struct reply *r, size_t count)
{
    for (size_t i = 0; i < count && i < ANSWER_LIST_MAX; i++) {
        a->runs[i] = r->runs[i];
        snprintf(a->reason, sizeof a->reason, "%.*s", STR_ARG(r->runs[i].reason));
        a->runs[i].reason = a->runs[i].worker = (struct str){0};
        a->runs[i].failure = (struct failure){0};
    }
}

static void copy_jobs(struct answer *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count && i < ANSWER_LIST_MAX; i++)
        a->ids[i] = r->jobs[i].id;
    if (r->count == 0)
        return;
    a->status = r->jobs[0].state.status;
    a->attempts = r->jobs[0].state.attempts;
    if (r->jobs[0].payload.len < ANSWER_TEXT_MAX)
        copy_text(a->payload, r->jobs[0].payload);
}

static void copy_handouts(struct answer *a, const struct reply *r)
{
    for (size_t i = 0; i < r->count && i < ANSWER_LIST_MAX; i++) {
        a->ids[i] = r->handouts[i].job.id;
        a->tokens[i] = r->handouts[i].token;
    }
    if (r->count > 0 && r->handouts[0].job.payload.len < ANSWER_TEXT_MAX)
        copy_text(a->payload, r->handouts[0].job.payload);
}

void answers_on_reply(void *ctx, const struct reply *r)
{
    struct answer *a = ctx;
    assert_int_equal(a->came, 0);
    a->came++;
    a->err = r->err;
    a->count = r->count;
    a->more = r->more;
    a->has_live = r->has_live;
    a->events_since = r->events_since;
    a->events_gap = r->events_gap;
    a->token = r->token;
    a->lease_end = r->lease_end;
    a->place = r->place;
    a->writable = r->status.writable;
    a->committing = r->status.committing;
    memcpy(a->jobs, r->status.jobs, sizeof a->jobs);
    a->run_count = r->run_count;
    if (r->jobs && r->runs)
        copy_runs(a, r, r->run_count);
    if (r->err.code == ERR_OK && r->jobs && !r->ids)
        copy_jobs(a, r);
    else if (r->err.code == ERR_OK && r->enqueued)
        for (size_t i = 0; i < r->count && i < ANSWER_LIST_MAX; i++) {
            a->ids[i] = r->enqueued[i].job.id;
            a->folded[i] = r->enqueued[i].folded;
            a->status = r->enqueued[0].job.state.status;
        }
    else if (r->err.code == ERR_OK && r->handouts)
        copy_handouts(a, r);
    else if (r->runs)
        copy_runs(a, r, r->count);
    else if (r->names)
        copy_names(a, r);
    else if (r->ids)
        for (size_t i = 0; i < r->count && i < ANSWER_LIST_MAX; i++)
            a->ids[i] = r->ids[i];
    else if (r->renewed)
        for (size_t i = 0; i < r->count && i < ANSWER_LIST_MAX; i++)
            a->ids[i] = r->renewed[i].id;
    if (a->then)
        a->then(a->ctx);
}

/* --- commands --- */

void answers_send(struct backend *b, struct command c, struct answer *to)
{
    c.done = answers_on_reply;
    c.ctx = to;
    backend_submit(b, &c);
    assert_int_equal(to->came, 0); /* never from inside the call */
}

enum status answers_status(const struct answer *a)
{
    if (a->err.code == ERR_NOT_FOUND)
        return STATUS_GONE;
    assert_int_equal(a->err.code, ERR_OK);
    return a->status;
}

struct enqueue answers_spec(const char *queue)
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

/* --- takers --- */

static void on_opened(void *ctx, const struct err *err)
{
    struct stream *s = ctx;
    assert_int_equal(s->opened, 0);
    assert_int_equal(s->closed, 0);
    s->opened++;
    s->refused = *err;
}

static void on_deliver(void *ctx, const struct handout *h)
{
    struct stream *s = ctx;
    assert_int_equal(s->opened, 1);
    assert_ok(s->refused);
    assert_true(s->count < ANSWER_LIST_MAX);
    assert_int_equal(s->closed, 0);
    if (h->job.payload.len < ANSWER_TEXT_MAX)
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

void answers_stream(struct backend *b, const char *queue, uint32_t prefetch, struct stream *to)
{
    struct str names[] = {str_from(queue)};
    struct stream_spec spec = {.queues = names,
                               .queue_count = queue ? 1 : 0,
                               .prefetch = prefetch,
                               .worker = STR("w"),
                               .opened = on_opened,
                               .deliver = on_deliver,
                               .closed = on_closed,
                               .ctx = to};
    to->handle = backend_stream_open(b, &spec);
    assert_int_equal(to->opened, 0); /* never from inside the call */
}

struct backend_claim *answers_claim(struct backend *b, const char *queue, uint32_t count, span wait,
                                    struct answer *to)
{
    struct str names[] = {str_from(queue)};
    struct claim_spec spec = {.queues = names,
                              .queue_count = 1,
                              .count = count,
                              .worker = STR("w"),
                              .lease = ANSWERS_LEASE,
                              .wait = wait,
                              .done = answers_on_reply,
                              .ctx = to};
    return backend_claim(b, &spec);
}
