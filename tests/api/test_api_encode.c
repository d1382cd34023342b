/* SPDX-License-Identifier: Apache-2.0 */

/* Of the rows of api_job.def and api_event.def code is made and a table: both write the same. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/api_routes.h"
#include "core/depend.h"
#include "core/tally.h"

static struct job plain(void)
{
    return (struct job){.id = {1, 2},
                        .queue = STR("q"),
                        .type = STR("t"),
                        .payload = STR("null"),
                        .retry_limit = RETRY_LIMIT_DEFAULT,
                        .completed_retention = RETENTION_DEFAULT,
                        .dead_retention = RETENTION_DEFAULT,
                        .state = {.status = STATUS_READY,
                                  .ready_at = {3},
                                  .dequeued_at = INSTANT_NONE,
                                  .failed_at = INSTANT_NONE,
                                  .completed_at = INSTANT_NONE,
                                  .purge_at = INSTANT_NONE}};
}

static struct job_options options(struct arena *a)
{
    struct job_options o = {.retry_policies = STR("a,b"),
                            .memory = 1 << 30,
                            .gang = STR("g"),
                            .gang_size = 2,
                            .concurrency_key = STR("c"),
                            .alias = STR("n"),
                            .deadline = {9},
                            .retain_until = {10},
                            .when_no_policy = RETRY_FALLBACK_FAIL,
                            .depends_on = depend_new(a, 1),
                            .depend_when = DEPEND_ALL_ENDED,
                            .depend_death = DEPEND_RUN};
    depend_add(&o.depends_on, (struct id){5, 6});
    return o;
}

/* With all that a job can have, as far as that has a row. */
static struct job laden(struct arena *a)
{
    struct job job = plain();
    job.retry_limit = 0;
    job.backoff = (struct curve){.shape = CURVE_POWER, .base = {1}, .exponent = 2, .jitter = {3}};
    job.completed_retention = (span){4};
    job.dead_retention = (span){0};
    job.unique_key = STR("\"k\"");
    job.unique_while = UNIQUE_ACTIVE;
    job.batch = (struct job_batch){STR("b"), STR("true"), STR("$new"), true};
    job.options = options(a);
    job.gang_members = 2;
    job.error = STR("m");
    job.error_type = STR("E");
    job.worker = STR("w");
    job.has_progress = true;
    job.progress = (struct note){.run = 1, .value = 0.25, .text = STR("quarter")};
    job.state = (struct job_state){.status = STATUS_BLOCKED,
                                   .resolution = RESOLUTION_POISON,
                                   .priority = UINT16_MAX,
                                   .ready_at = {1},
                                   .dequeued_at = {2},
                                   .failed_at = {3},
                                   .completed_at = {4},
                                   .purge_at = {5},
                                   .attempts = 6,
                                   .runs = 8,
                                   .losses = 9,
                                   .reason = STR("r")};
    struct tally t = {STR("p"), 7, 2};
    job.state.extras = (struct job_extras){.retry_counts = tally_set((struct str){0}, &t, a),
                                           .avoid_node = STR("node"),
                                           .avoid_until = {1},
                                           .grace_token = 1,
                                           .grace_end = {2},
                                           .backoff_end = {3},
                                           .terminated_at = {4},
                                           .waits_for = job.options.depends_on,
                                           .memory = (uint64_t)1 << 31,
                                           .gang_alone = 1};
    return job;
}

static void check(const struct shape *made, const void *owner, size_t members_min)
{
    struct shape table = *made;
    struct buf code = {0}, rows = {0};
    table.write = NULL;
    assert_non_null(made->write);
    shape_write(&code, made, owner, SHAPE_AS_IT_IS);
    shape_write(&rows, &table, owner, SHAPE_AS_IT_IS);
    buf_byte(&code, '\0');
    buf_byte(&rows, '\0');
    assert_string_equal(code.at, rows.at);
    size_t members = 0;
    for (const char *at = code.at; (at = strstr(at, "\":")); at++)
        members++;
    assert_in_range(members, members_min, 100);
    buf_fini(&code);
    buf_fini(&rows);
}

static void code_writes_a_plain_job_as_the_table_does(void **state)
{
    (void)state;
    struct job job = plain();
    check(&api_job_head_shape, &job, 7);
    check(&api_job_listed_shape, &job, 0);
    check(&api_job_options_shape, &job, 0);
}

static void code_writes_all_that_a_job_can_have_as_the_table_does(void **state)
{
    (void)state;
    struct arena a = {0};
    struct job job = laden(&a);
    check(&api_job_head_shape, &job, 50);
    check(&api_job_listed_shape, &job, 3);
    check(&api_job_options_shape, &job, 14);
    arena_fini(&a);
}

static struct job_event event(enum event kind)
{
    return (struct job_event){.number = 7,
                              .at = {100},
                              .id = {1, 2},
                              .event = kind,
                              .from = STATUS_IN_FLIGHT,
                              .to = STATUS_SCHEDULED,
                              .run = -1,
                              .ready_at = INSTANT_NONE,
                              .lease_end = INSTANT_NONE,
                              .ruling = RULING_NONE};
}

static void code_writes_events_as_the_table_does(void **state)
{
    (void)state;
    for (int kind = 0; kind < EVENT_COUNT; kind++) {
        struct job_event ev = event((enum event)kind);
        const struct event_line line = {&ev, 7, {0}};
        check(&api_event_shape, &line, 10);
        ev.ready_at = (instant){130};
        ev.from = STATUS_GONE;
        check(&api_event_shape, &line, 11);
    }
    struct job_event ev = event(EVENT_RETRY);
    ev.queue = STR("q");
    ev.type = STR("t");
    ev.removed = true;
    ev.run = 0;
    ev.attempt = 1;
    ev.worker = STR("w");
    ev.reason = STR("r");
    ev.ready_at = (instant){130};
    ev.lease_end = (instant){140};
    ev.artifact = STR("a");
    ev.ruling = (struct ruling){STR("p"), 0, 1, 2, DECIDER_RULE};
    const struct event_line line = {&ev, 7, STR("{},{}")};
    check(&api_event_shape, &line, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_writes_a_plain_job_as_the_table_does),
        cmocka_unit_test(code_writes_all_that_a_job_can_have_as_the_table_does),
        cmocka_unit_test(code_writes_events_as_the_table_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
