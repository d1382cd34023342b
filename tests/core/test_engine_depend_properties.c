/* SPDX-License-Identifier: Apache-2.0 */

/* Random graphs of jobs under random commands, small turns and restarts, compared with a model that
 * has neither indexes nor slices: no job runs early, and none is forgotten. */

#include "rig.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "core/depend.h"

#define SEEDS    300
#define STEPS    120
#define JOBS_MAX 60
#define DEPS_MAX 4
#define RUNS_MAX 8

struct model_job {
    struct id id;
    enum status status;
    struct model_job *waits_for[DEPS_MAX];
    size_t wait_count;
    enum depend_when when;
    enum depend_death death;
    bool kept; /* once it has ended */
    unsigned runs;
};

struct model {
    struct rig *rig;
    struct rng rng;
    struct model_job jobs[JOBS_MAX];
    size_t count;
};

static size_t draw(struct model *m, size_t n)
{
    return (size_t)rng_below(&m->rng, n);
}

/* --- the model's rules --- */

static void drop(struct model_job *j, size_t i)
{
    j->waits_for[i] = j->waits_for[--j->wait_count];
}

/* The end of a job, passed on to all its dependants, and so on. */
static void ended(struct model *m, struct model_job *dead, bool completed)
{
    for (size_t i = 0; i < m->count; i++) {
        struct model_job *j = &m->jobs[i];
        for (size_t k = 0; j->status == STATUS_BLOCKED && k < j->wait_count; k++) {
            if (j->waits_for[k] != dead)
                continue;
            if (completed || j->when == DEPEND_ALL_ENDED || j->death == DEPEND_RUN) {
                drop(j, k);
                j->status = j->wait_count ? STATUS_BLOCKED : STATUS_READY;
            } else if (j->death == DEPEND_DIE || dead->status == STATUS_GONE) {
                j->status = j->kept ? STATUS_DEAD : STATUS_GONE;
                ended(m, j, false);
            }
            break;
        }
    }
}

static struct model_job *pick(struct model *m, unsigned statuses)
{
    for (int tries = 0; tries < 20 && m->count; tries++) {
        struct model_job *j = &m->jobs[draw(m, m->count)];
        if (statuses >> j->status & 1)
            return j;
    }
    return NULL;
}

#define BIT(s)    (1u << STATUS_##s)
#define UNENDED   (BIT(BLOCKED) | BIT(READY) | BIT(IN_FLIGHT))
#define THERE     (UNENDED | BIT(COMPLETED) | BIT(DEAD))
#define RETENTION ((span){3600 * 1000})

/* --- commands, to both --- */

static void choose_dependencies(struct model *m, struct model_job *j, struct enqueue *spec)
{
    struct str *ids = &spec->options.depends_on;
    *ids = depend_new(&m->rig->strings, DEPS_MAX);
    for (size_t n = draw(m, DEPS_MAX + 1); n > 0; n--) {
        struct model_job *d = pick(m, THERE);
        if (!d || depend_has(*ids, d->id))
            continue;
        depend_add(ids, d->id);
        bool met =
            d->status == STATUS_COMPLETED ||
            (d->status == STATUS_DEAD && (j->when == DEPEND_ALL_ENDED || j->death == DEPEND_RUN));
        if (!met)
            j->waits_for[j->wait_count++] = d;
    }
}

static void enqueue(struct model *m)
{
    if (m->count == JOBS_MAX)
        return;
    struct rig *r = m->rig;
    struct model_job *j = &m->jobs[m->count];
    *j = (struct model_job){.when = (enum depend_when)(draw(m, 4) == 0),
                            .death = (enum depend_death)draw(m, 3),
                            .kept = draw(m, 2)};
    struct enqueue spec = rig_spec("q");
    spec.completed_retention = spec.dead_retention = j->kept ? RETENTION : (span){0};
    spec.options.depend_when = j->when;
    spec.options.depend_death = j->death;
    choose_dependencies(m, j, &spec);
    assert_ok(engine_depend_check(r->e, r->now, &spec, 1));
    j->id = rig_add_spec(r, &spec);
    j->status = j->wait_count ? STATUS_BLOCKED : STATUS_READY;
    m->count++;
    for (size_t i = 0; i < j->wait_count; i++)
        if (j->waits_for[i]->status == STATUS_DEAD && j->death == DEPEND_DIE)
            j->status = j->kept ? STATUS_DEAD : STATUS_GONE;
}

static void end(struct model *m, struct model_job *j, bool completed)
{
    struct rig *r = m->rig;
    if (completed) {
        rig_succeed(r, j->id);
    } else {
        struct job job;
        struct failure_report report = {.ref = rig_ref(r, j->id),
                                        .failure = {.message = STR("no"), .run_time = {-1}},
                                        .kill = true,
                                        .retry_at = INSTANT_NONE};
        assert_ok(engine_fail(r->e, r->now, &report, &r->strings, &job));
    }
    j->status = !j->kept ? STATUS_GONE : completed ? STATUS_COMPLETED : STATUS_DEAD;
    ended(m, j, completed);
}

static void cancel(struct model *m, struct model_job *j)
{
    struct job job;
    assert_ok(engine_cancel(m->rig->e, m->rig->now, j->id, &m->rig->strings, &job));
    j->status = j->kept ? STATUS_DEAD : STATUS_GONE;
    ended(m, j, false);
}

static void delete (struct model *m, struct model_job *j)
{
    bool completed = j->status == STATUS_COMPLETED;
    assert_ok(engine_remove(m->rig->e, m->rig->now, j->id));
    engine_gone(m->rig->e, j->id);
    j->status = STATUS_GONE;
    if (!completed)
        ended(m, j, false);
}

static void rerun(struct model *m, struct model_job *j)
{
    struct job job;
    if (j->runs == RUNS_MAX)
        return;
    assert_ok(engine_rerun(m->rig->e, m->rig->now, j->id, (struct rerun){.at = m->rig->now},
                           &m->rig->strings, &job));
    bool any_end = j->when == DEPEND_ALL_ENDED || j->death == DEPEND_RUN;
    for (size_t i = j->wait_count; i-- > 0;) {
        enum status s = j->waits_for[i]->status;
        if (s == STATUS_GONE || s == STATUS_COMPLETED || (s == STATUS_DEAD && any_end))
            drop(j, i);
    }
    j->status = j->wait_count ? STATUS_BLOCKED : STATUS_READY;
}

static void patch(struct model *m, struct model_job *j)
{
    struct job job;
    bool free = draw(m, 4) == 0;
    struct patch p = {.set = PATCH_PRIORITY | PATCH_QUEUE | (free ? PATCH_FREE : 0),
                      .priority = (uint16_t)draw(m, 3),
                      .queue = draw(m, 2) ? STR("q") : STR("p")};
    assert_ok(engine_patch(m->rig->e, m->rig->now, j->id, &p, &m->rig->strings, &job));
    if (free && j->status == STATUS_BLOCKED) {
        j->wait_count = 0;
        j->status = STATUS_READY;
    }
}

static void command(struct model *m)
{
    struct model_job *j;
    size_t kind = draw(m, 20);
    if (kind < 8)
        enqueue(m);
    else if (kind < 12 && (j = pick(m, BIT(IN_FLIGHT))))
        end(m, j, true);
    else if (kind < 14 && (j = pick(m, BIT(IN_FLIGHT))))
        end(m, j, false);
    else if (kind == 14 && (j = pick(m, UNENDED)))
        cancel(m, j);
    else if (kind == 15 && (j = pick(m, THERE)))
        delete (m, j);
    else if (kind < 18 && (j = pick(m, BIT(DEAD))))
        rerun(m, j);
    else if (kind < 20 && (j = pick(m, BIT(BLOCKED) | BIT(READY))))
        patch(m, j);
}

/* --- the comparison --- */

static void take(struct model *m)
{
    struct rig *r = m->rig;
    rig_clear(r);
    rig_claim(r, "w", NULL, 1 + (uint32_t)draw(m, 3), (span){0});
    rig_turn(r);
    for (size_t i = 0; i < r->got_count; i++) {
        size_t k = 0;
        while (!id_eq(m->jobs[k].id, r->got[i].id))
            assert_true(++k < m->count);
        assert_int_equal(m->jobs[k].status, STATUS_READY); /* not early */
        m->jobs[k].status = STATUS_IN_FLIGHT;
        m->jobs[k].runs++;
    }
}

static void settle(struct model *m)
{
    do {
        rig_turn(m->rig);
        if (draw(m, 4) == 0)
            rig_restart(m->rig);
    } while (rig_ended_count(m->rig));
}

static void compare(struct model *m, uint64_t seed, int step)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct model_job *j = &m->jobs[i];
        enum status s = rig_status(m->rig, j->id);
        if (s != j->status)
            fail_msg("seed %lu, step %d: job %zu is %d, not %d", (unsigned long)seed, step, i, s,
                     j->status);
        if (s != STATUS_BLOCKED)
            continue;
        struct str ids = rig_read(m->rig, j->id)->state.extras.waits_for;
        assert_int_equal(depend_count(ids), j->wait_count);
        for (size_t k = 0; k < j->wait_count; k++)
            assert_true(depend_has(ids, j->waits_for[k]->id));
    }
}

static void no_job_runs_early_and_none_is_forgotten(void **state)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        void *rig;
        rig_setup(&rig);
        struct model m = {.rig = rig, .rng = rng_from_seed(seed)};
        m.rig->settle_most = draw(&m, 2) ? 1 + draw(&m, 3) : 0;
        for (int step = 0; step < STEPS; step++) {
            command(&m);
            settle(&m);
            if (draw(&m, 2))
                take(&m);
            compare(&m, seed, step);
        }
        rig_teardown(&rig);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_job_runs_early_and_none_is_forgotten),
    };
    return cmocka_run_group_tests_name("core/engine_depend_properties", tests, NULL, NULL);
}
