/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/simulate.h"

#include "base/must.h"
#include "core/culprit.h"

/* Of searches for one job, during which the server's other requests wait. */
#define STEPS_MAX (MATCHER_STEPS_MAX / 2)

/* One side during the simulation. */
struct side {
    const struct verdict_rules *rules;
    const struct simulate_job *what;
    struct arena *arena;
    struct rng rng;  /* delays with jitter take one draw; repeatable */
    struct job job;  /* the job as this side would have left it */
    bool over;       /* dead: not evaluated any more */
    instant now;     /* runs take no time, waits all of theirs */
    uint64_t *steps; /* used by the searches of both sides */
    struct simulate_side out;
};

/* The engine's decision, without what a worker may have stated. */
static struct verdict judge(struct side *s, const struct run *run)
{
    const instant now = s->now;
    const struct verdict_request request = {.job = &s->job,
                                            .outcome = run->outcome,
                                            .failure = &run->failure,
                                            .retry_at = INSTANT_NONE};
    struct verdict v = verdict_decide(&request, s->rules, now, &s->rng, s->arena);
    *s->steps += v.steps;
    s->job.state.extras = v.extras;
    s->job.state.attempts++;
    s->over = !v.retry;
    if (v.retry) {
        s->out.retries++;
        s->out.window.ms += instant_diff(v.at, now).ms;
        s->now = v.at;
    }
    return v;
}

/* As the engine would see it today: older runs lack the condition and the culprit, and so does a
 * failure that is only given. */
static struct run as_of_today(const struct run *run, struct arena *a)
{
    struct run r = *run;
    if (r.outcome == OUTCOME_EXPIRED)
        r.failure.condition = CONDITION_LEASE_EXPIRED;
    culprit_judge(&r.failure, r.outcome, false, a);
    return r;
}

/* --- results --- */

static struct str own_text(struct str text, struct arena *a)
{
    size_t n = text.len < SIMULATE_TEXT_MAX ? text.len : SIMULATE_TEXT_MAX;
    while (n && n < text.len && ((unsigned char)text.at[n] & 0xc0) == 0x80)
        n--; /* not inside of a character */
    return arena_copy(a, (struct str){text.at, n});
}

static struct run own_run(const struct run *run, struct arena *a)
{
    const struct failure *f = &run->failure;
    struct run r = {.index = run->index, .ended_at = run->ended_at, .outcome = run->outcome};
    r.reason = own_text(run->reason, a);
    r.failure.message = own_text(f->message, a);
    r.failure.error_type = own_text(f->error_type, a);
    r.failure.exit_code = f->exit_code;
    r.failure.signal = f->signal;
    r.failure.condition = f->condition;
    r.failure.category = own_text(f->category, a);
    r.failure.culprit = f->culprit;
    r.failure.culprit_evidence = own_text(f->culprit_evidence, a);
    r.failure.termination_message = own_text(f->termination_message, a);
    return r;
}

static struct simulate_verdict ask(struct side *s, const struct run *run)
{
    struct simulate_verdict said = {0};
    if (s->over)
        return said;
    const instant before = s->now;
    const struct verdict v = judge(s, run);
    said = (struct simulate_verdict){.asked = true, .retry = v.retry, .ruling = v.ruling};
    said.ruling.policy = arena_copy(s->arena, v.ruling.policy);
    said.reason = arena_copy(s->arena, str_from(v.reason));
    if (v.retry)
        said.delay = instant_diff(v.at, before);
    return said;
}

/* Assumes that the job keeps failing as it did the last time. */
static void go_on(struct side *s)
{
    s->out.died_early = s->over;
    if (!s->over && !s->what->completed) {
        const struct run last = as_of_today(&s->what->failed[s->what->failures - 1], s->arena);
        for (int i = 0; i < SIMULATE_MORE_MAX && !s->over && *s->steps < STEPS_MAX; i++)
            (void)judge(s, &last);
        s->out.more = !s->over;
    }
    s->out.dead = s->over;
}

static struct side side_of(const struct simulate_job *what, const struct verdict_rules *rules,
                           struct arena *a, uint64_t *steps)
{
    struct side s = {rules, what, a, rng_from_seed(1), *what->job, .now = {1}, .steps = steps};
    s.job.state = (struct job_state){.ready_at = INSTANT_NONE};
    return s;
}

void simulate_run(const struct simulate_job *what, const struct verdict_rules *draft,
                  const struct verdict_rules *today, struct arena *a, struct simulate_result *out)
{
    must(what->failures > 0);
    uint64_t steps_taken = 0;
    struct side d = side_of(what, draft, a, &steps_taken),
                t = side_of(what, today, a, &steps_taken);
    struct simulate_step *steps = arena_get(a, what->failures * sizeof *steps);
    size_t n = 0;
    for (; n < what->failures && steps_taken < STEPS_MAX; n++) {
        const struct run run = as_of_today(&what->failed[n], a);
        steps[n].run = own_run(&run, a);
        steps[n].draft = ask(&d, &run);
        steps[n].today = ask(&t, &run);
    }
    go_on(&d);
    go_on(&t);
    *out = (struct simulate_result){d.out, t.out, n < what->failures, steps, n};
}
