/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/simulate.h"

#include "base/json.h"
#include "base/must.h"

#define MESSAGE_SHOWN_MAX 200
/* Of searches for one job, which the server's other requests have to wait for. */
#define STEPS_MAX (2 * MATCHER_STEPS_MAX)

/* One side while the failures go by. */
struct side {
    const struct simulate_rules *rules;
    const struct retry_defaults *defaults;
    const struct simulate_job *what;
    struct arena *arena;
    struct rng rng; /* delays with jitter are one draw; the same each time one asks */
    struct policy_count *counts;
    size_t used, room;
    uint32_t attempts;
    bool over;       /* dead: nothing more is asked */
    uint64_t *steps; /* that the searches of both sides took */
    struct simulate_side out;
};

struct answer {
    bool retry;
    span delay;
    const struct policy_verdict *by; /* NULL: no policy */
    const char *reason;
    struct policy_verdict policy;
    struct verdict plain;
};

static void keep_count(struct side *s, struct policy_count slot)
{
    for (size_t i = 0; i < s->used; i++)
        if (s->counts[i].policy == slot.policy && s->counts[i].rule == slot.rule) {
            s->counts[i] = slot;
            return;
        }
    if (s->used == s->room) {
        struct policy_count *old = s->counts;
        s->room = s->room ? s->room * 2 : 8;
        s->counts = arena_get(s->arena, s->room * sizeof *s->counts);
        if (s->used)
            memcpy(s->counts, old, s->used * sizeof *old);
    }
    s->counts[s->used++] = slot;
}

static void judge_by_policies(struct side *s, const struct run *run, struct answer *v)
{
    const struct simulate_rules *r = s->rules;
    v->policy =
        policy_evaluate(r->list, r->count, r->settings, &run->failure, s->counts, s->used, &s->rng);
    v->by = &v->policy;
    v->retry = v->policy.retry;
    v->delay = v->policy.delay;
    v->reason = v->policy.reason;
    *s->steps += v->policy.steps;
    if (v->retry)
        keep_count(s, v->policy.slot);
}

static void judge_by_limits(struct side *s, const struct run *run, struct answer *v)
{
    struct job job = *s->what->job;
    job.state.attempts = s->attempts;
    job.state.forgiven = 0;
    const struct retry_request request = {
        .job = &job,
        .outcome = run->outcome == OUTCOME_EXPIRED ? OUTCOME_EXPIRED : OUTCOME_FAILED,
        .retry_at = INSTANT_NONE,
        .by_policies = policy_total(s->counts, s->used)};
    instant now = {0};
    v->plain = retry_decide(&request, s->defaults, now, &s->rng);
    v->retry = v->plain.retry;
    v->delay = v->retry ? instant_diff(v->plain.at, now) : (span){0};
    v->reason = v->plain.reason;
}

/* As engine_report.c decides, without what a worker may say. */
static void judge(struct side *s, const struct run *run, struct answer *v)
{
    *v = (struct answer){0};
    if (s->rules->count && run->outcome != OUTCOME_EXPIRED)
        judge_by_policies(s, run, v);
    else
        judge_by_limits(s, run, v);
    s->attempts++;
    s->over = !v->retry;
    if (v->retry) {
        s->out.retries++;
        s->out.window.ms += v->delay.ms;
    }
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

static void add_answer(struct buf *b, const char *name, const struct side *s,
                       const struct answer *v)
{
    buf_print(b, ",\"%s\":{\"action\":\"%s\"", name, v->retry ? "Retry" : "Fail");
    if (v->by && v->by->policy >= 0) {
        buf_lit(b, ",\"policy\":");
        json_write_string(b, s->rules->list[v->by->policy]->name);
        if (v->by->rule >= 0)
            buf_print(b, ",\"rule\":%d", v->by->rule + 1);
        buf_print(b, ",\"count\":%u,\"limit\":%lld", v->by->count, (long long)v->by->limit);
    }
    if (v->retry)
        buf_print(b, ",\"delay_ms\":%lld", (long long)v->delay.ms);
    buf_lit(b, ",\"reason\":");
    json_write_string(b, str_from(v->reason));
    buf_byte(b, '}');
}

/* The verdict of one side, or null where the job would not have come so far. */
static void add_side(struct buf *b, const char *name, struct side *s, const struct run *run)
{
    struct answer v;
    if (s->over) {
        buf_print(b, ",\"%s\":null", name);
        return;
    }
    judge(s, run, &v);
    add_answer(b, name, s, &v);
}

/* The job goes on failing as it did the last time. */
static void go_on(struct side *s)
{
    s->out.died_early = s->over;
    if (!s->over && !s->what->completed) {
        const struct run *last = &s->what->failed[s->what->failures - 1];
        struct answer v;
        for (int i = 0; i < SIMULATE_MORE_MAX && !s->over && *s->steps < STEPS_MAX; i++)
            judge(s, last, &v);
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
    }
    buf_lit(b, "\"queue\":");
    json_write_string(b, what->job->queue);
    if (what->job->type.len) {
        buf_lit(b, ",\"type\":");
        json_write_string(b, what->job->type);
    }
    buf_lit(b, ",\"failures\":[");
}

void simulate_run(const struct simulate_job *what, const struct simulate_rules *draft,
                  const struct simulate_rules *today, const struct retry_defaults *defaults,
                  struct arena *a, struct simulate_result *out)
{
    must(what->failures > 0);
    uint64_t steps = 0;
    struct side d = {draft, defaults, what, a, rng_from_seed(1), .steps = &steps};
    struct side t = {today, defaults, what, a, rng_from_seed(1), .steps = &steps};
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
