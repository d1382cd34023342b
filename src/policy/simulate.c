/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/simulate.h"

#include "base/json.h"
#include "base/must.h"

#define MESSAGE_SHOWN_MAX 200
/* Of searches for one job, which the server's other requests have to wait for. */
#define STEPS_MAX (2 * MATCHER_STEPS_MAX)

/* One side while the failures go by. */
struct side {
    const struct verdict_rules *rules;
    const struct simulate_job *what;
    struct arena *arena;
    struct rng rng;  /* delays with jitter are one draw; the same each time one asks */
    struct job job;  /* as this side would have made it */
    bool over;       /* dead: nothing more is asked */
    uint64_t *steps; /* that the searches of both sides took */
    struct simulate_side out;
};

/* As the engine decides, without what a worker may say. */
static struct verdict judge(struct side *s, const struct run *run)
{
    const instant now = {0};
    bool expired = run->outcome == OUTCOME_EXPIRED;
    struct failure failure = run->failure;
    if (expired)
        failure.condition = CONDITION_LEASE_EXPIRED; /* older runs do not say so */
    const struct verdict_request request = {
        .job = &s->job, .outcome = run->outcome, .failure = &failure, .retry_at = INSTANT_NONE};
    struct verdict v = verdict_decide(&request, s->rules, now, &s->rng, s->arena);
    *s->steps += v.steps;
    s->job.state.extras = v.extras;
    s->job.state.attempts++;
    s->over = !v.retry;
    if (v.retry) {
        s->out.retries++;
        s->out.window.ms += instant_diff(v.at, now).ms;
    }
    return v;
}

/* --- what is told --- */

static void add_text(struct buf *b, const char *name, struct str text)
{
    if (!text.len)
        return;
    size_t n = text.len < MESSAGE_SHOWN_MAX ? text.len : MESSAGE_SHOWN_MAX;
    while (n && n < text.len && ((unsigned char)text.at[n] & 0xc0) == 0x80)
        n--; /* not inside a character */
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, (struct str){text.at, n});
}

static void add_failure(struct buf *b, const struct run *run, size_t index, bool stored)
{
    const struct failure *f = &run->failure;
    buf_print(b, "{\"failure\":%zu", index + 1);
    if (stored)
        buf_print(b, ",\"run\":%u,\"ended_at\":%lld", run->index, (long long)run->ended_at.ms);
    add_text(b, "message", f->message);
    add_text(b, "error_type", f->error_type);
    if (f->exit_code)
        buf_print(b, ",\"exit_code\":%d", f->exit_code);
    if (f->signal)
        buf_print(b, ",\"signal\":%d", f->signal);
    if (f->condition != CONDITION_NONE)
        add_text(b, "condition", str_from(job_condition_name(f->condition)));
    add_text(b, "category", f->category);
    add_text(b, "termination_message", f->termination_message);
    if (stored)
        add_text(b, "recorded", run->reason);
}

static void add_answer(struct buf *b, const char *name, const struct verdict *v)
{
    const struct ruling *by = &v->ruling;
    buf_print(b, ",\"%s\":{\"action\":\"%s\"", name, v->retry ? "Retry" : "Fail");
    if (by->policy.len) {
        buf_lit(b, ",\"policy\":");
        json_write_string(b, by->policy);
        if (by->rule >= 0)
            buf_print(b, ",\"rule\":%d", by->rule + 1);
        buf_print(b, ",\"count\":%u,\"limit\":%lld", by->count, (long long)by->limit);
    }
    if (v->retry)
        buf_print(b, ",\"delay_ms\":%lld", (long long)v->at.ms);
    buf_lit(b, ",\"reason\":");
    json_write_string(b, str_from(v->reason));
    buf_byte(b, '}');
}

/* The verdict of one side, or null where the job would not have come so far. */
static void add_side(struct buf *b, const char *name, struct side *s, const struct run *run)
{
    if (s->over) {
        buf_print(b, ",\"%s\":null", name);
        return;
    }
    struct verdict v = judge(s, run);
    add_answer(b, name, &v);
}

/* The job goes on failing as it did the last time. */
static void go_on(struct side *s)
{
    s->out.died_early = s->over;
    if (!s->over && !s->what->completed) {
        const struct run *last = &s->what->failed[s->what->failures - 1];
        for (int i = 0; i < SIMULATE_MORE_MAX && !s->over && *s->steps < STEPS_MAX; i++)
            (void)judge(s, last);
        s->out.more = !s->over;
    }
    s->out.dead = s->over;
}

static void add_outcome(struct buf *b, const char *name, const struct simulate_side *o)
{
    buf_print(b, ",\"%s\":{\"retries\":%u,\"more\":%s,\"dead\":%s,\"window_ms\":%lld}", name,
              o->retries, o->more ? "true" : "false", o->dead ? "true" : "false",
              (long long)o->window.ms);
}

static void add_job(struct buf *b, const struct simulate_job *what)
{
    buf_byte(b, '{');
    if (what->stored) {
        char id[ID_TEXT_LEN];
        id_format(what->job->id, id);
        buf_print(b, "\"job\":\"%.*s\",\"completed\":%s,", ID_TEXT_LEN, id,
                  what->completed ? "true" : "false");
        if (what->deleted)
            buf_lit(b, "\"deleted\":true,");
    }
    buf_lit(b, "\"queue\":");
    json_write_string(b, what->job->queue);
    if (what->job->type.len) {
        buf_lit(b, ",\"type\":");
        json_write_string(b, what->job->type);
    }
    buf_lit(b, ",\"failures\":[");
}

static struct side side_of(const struct simulate_job *what, const struct verdict_rules *rules,
                           struct arena *a, uint64_t *steps)
{
    struct side s = {rules, what, a, rng_from_seed(1), *what->job, .steps = steps};
    s.job.state = (struct job_state){.ready_at = INSTANT_NONE};
    return s;
}

void simulate_run(const struct simulate_job *what, const struct verdict_rules *draft,
                  const struct verdict_rules *today, struct arena *a, struct simulate_result *out)
{
    must(what->failures > 0);
    uint64_t steps = 0;
    struct side d = side_of(what, draft, a, &steps), t = side_of(what, today, a, &steps);
    struct buf b = {0};
    size_t i = 0;
    add_job(&b, what);
    for (; i < what->failures && steps < STEPS_MAX; i++) {
        if (i)
            buf_byte(&b, ',');
        add_failure(&b, &what->failed[i], i, what->stored);
        add_side(&b, "draft", &d, &what->failed[i]);
        add_side(&b, "today", &t, &what->failed[i]);
        buf_byte(&b, '}');
    }
    buf_byte(&b, ']');
    go_on(&d);
    go_on(&t);
    add_outcome(&b, "draft", &d.out);
    add_outcome(&b, "today", &t.out);
    buf_print(&b, ",\"extra_attempts\":%lld}", (long long)d.out.retries - t.out.retries);
    *out = (struct simulate_result){d.out, t.out, i < what->failures, arena_copy(a, buf_view(&b))};
    buf_fini(&b);
}
