/* SPDX-License-Identifier: Apache-2.0 */

/* The views of src/postgres/views.sql say what the records say that
 * src/store/record.c writes. */

#include <stdio.h>
#include <stdlib.h>

#include "core/job_fields.h"
#include "store/cm.h"
#include "store/place.h"
#include "store/record.h"
#include "store/scratch.h"

#define T0 1700000000000

static struct job plain(uint64_t n)
{
    return (struct job){.id = {n << 40, n},
                        .queue = STR("mail"),
                        .type = STR("send"),
                        .payload = STR("{\"to\": 1}"),
                        .retry_limit = RETRY_LIMIT_DEFAULT,
                        .completed_retention = RETENTION_DEFAULT,
                        .dead_retention = {0},
                        .state = {.status = STATUS_READY,
                                  .priority = 700,
                                  .ready_at = {T0},
                                  .dequeued_at = INSTANT_NONE,
                                  .failed_at = INSTANT_NONE,
                                  .completed_at = INSTANT_NONE,
                                  .purge_at = INSTANT_NONE,
                                  .lease_end = INSTANT_NONE}};
}

/* All fields that only some jobs have, whatever they are. */
static void fill(const struct job_fields *fields, void *to)
{
    for (size_t i = 0; i < fields->count; i++) {
        void *at = (char *)to + fields->at[i].offset;
        switch (fields->at[i].kind) {
        case JOB_FIELD_TEXT:
            *(struct str *)at = STR("f\xc3\xbcnf");
            break;
        case JOB_FIELD_NUMBER:
            *(uint64_t *)at = UINT64_MAX - i;
            break;
        case JOB_FIELD_INSTANT:
            ((instant *)at)->ms = T0 + (int64_t)i;
            break;
        case JOB_FIELD_REAL:
            *(double *)at = 1.5;
            break;
        }
    }
}

static struct job laden(uint64_t n)
{
    struct job job = plain(n);
    job.backoff =
        (struct curve){.shape = CURVE_POWER, .base = {-500}, .exponent = 2, .jitter = {70000}};
    job.completed_retention = (span){1000000};
    job.unique_while = UNIQUE_EXISTS;
    job.unique_key = STR("key");
    job.batch =
        (struct job_batch){.key = STR("b"), .when = STR("true"), .fold = STR("."), .open = true};
    fill(&job_option_fields, &job.options);
    job.options.alias = STR("nick");
    job.options.group = STR("all");
    job.state.attempts = 3;
    job.state.runs = 200;
    job.state.token = UINT64_MAX;
    job.state.worker = STR("w");
    job.state.reason = STR("waits");
    fill(&job_extra_fields, &job.state.extras);
    return job;
}

/* What a query says, as one text. */
static void expect(const char *sql, const char *expected)
{
    struct pg *pg = pg_node_open(&place_node);
    struct pg_rows *rows;
    struct pg_statement s = {"t_views", sql};
    assert_ok(pg_script(pg, "SET TIME ZONE 'UTC'; SET ROLE tenax_reader"));
    assert_ok(pg_run(pg, &s, NULL, 0, &rows));
    assert_int_equal(pg_rows_count(rows), 1);
    assert_string_equal(pg_get(rows, 0, 0).at, expected);
    pg_rows_free(rows);
    pg_close(pg);
}

#define MS(column) "(extract(epoch FROM " column ") * 1000)::bigint::text"

static void show(struct place *p, struct batch *b)
{
    scratch_commit(p->s, b);
    place_await_flushed(p, store_number(p->s));
    batch_fini(b);
}

static void a_plain_job_is_shown(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct job job = plain(1);
    char id[ID_TEXT_LEN + 1] = {0}, sql[200];
    record_put_job(&b, &job);
    show(p, &b);
    id_format(job.id, id);
    snprintf(sql, sizeof sql, "SELECT count(*)::text FROM tenax.jobs WHERE id = '%s'", id);
    expect(sql, "1");
    expect("SELECT concat_ws(' ', queue, type, status, priority, " MS(
               "ready_at") ", attempts, runs, "
                           "payload) FROM tenax.jobs",
           "mail send ready 700 1700000000000 0 0 {\"to\": 1}");
    expect("SELECT (num_nulls(dequeued_at, failed_at, completed_at, purge_at, "
           "reason, unique_key, "
           "alias, \"group\"))::text FROM tenax.jobs",
           "8");
}

static void a_job_with_everything_is_shown(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct job job = laden(2);
    record_put_job(&b, &job);
    show(p, &b);
    expect("SELECT concat_ws(' ', queue, type, status, priority, attempts, runs, "
           "reason, unique_key, "
           "alias, \"group\", payload) FROM tenax.jobs",
           "mail send ready 700 3 200 waits key nick all {\"to\": 1}");
}

static void the_newest_state_counts(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct job job = laden(3);
    record_put_job(&b, &job);
    job.state.status = STATUS_DEAD;
    job.state.failed_at = (instant){T0 + 5};
    job.state.reason = STR("");
    record_put_state(&b, job.id, &job.state);
    show(p, &b);
    expect("SELECT concat_ws(' ', status, " MS("failed_at") ", reason) FROM tenax.jobs",
           "dead 1700000000005");
}

static void a_large_payload_is_shown(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct job job = plain(4);
    char *text = malloc(100000);
    memset(text, '1', 100000);
    job.payload = (struct str){text, 100000};
    assert_true(record_put_job(&b, &job));
    show(p, &b);
    expect("SELECT (payload = repeat('1', 100000))::text FROM tenax.jobs", "true");
    free(text);
}

static void ended_runs_are_shown(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct job job = plain(5);
    struct run run = {.index = 70000,
                      .worker = STR("w1"),
                      .ready_at = {T0},
                      .taken_at = {T0 + 1},
                      .lease_end = INSTANT_NONE,
                      .ended_at = {T0 + 2},
                      .outcome = OUTCOME_EXPIRED,
                      .attempt = 300,
                      .retry_at = {T0 + 3},
                      .reason = STR("retry"),
                      .failure = {.message = STR("broken"), .error_type = STR("Oops")}};
    record_put_job(&b, &job);
    record_put_run(&b, job.id, &run);
    show(p, &b);
    expect("SELECT concat_ws(' ', run, worker, " MS("ready_at") ", " MS("taken_at") ", " MS(
               "ended_at") ", outcome, attempt, " MS("retry_"
                                                     "at") ","
                                                           " "
                                                           "r"
                                                           "e"
                                                           "a"
                                                           "s"
                                                           "o"
                                                           "n"
                                                           ","
                                                           " "
                                                           "m"
                                                           "e"
                                                           "s"
                                                           "s"
                                                           "a"
                                                           "g"
                                                           "e"
                                                           ","
                                                           " "
                                                           "e"
                                                           "r"
                                                           "r"
                                                           "o"
                                                           "r"
                                                           "_"
                                                           "t"
                                                           "y"
                                                           "p"
                                                           "e"
                                                           ")"
                                                           " "
                                                           "F"
                                                           "R"
                                                           "O"
                                                           "M"
                                                           " "
                                                           "t"
                                                           "e"
                                                           "n"
                                                           "a"
                                                           "x"
                                                           "."
                                                           "r"
                                                           "u"
                                                           "n"
                                                           "s",
           "70000 w1 1700000000000 1700000000001 1700000000002 claim-expired 300 "
           "1700000000003 retry "
           "broken Oops");
    expect("SELECT CASE WHEN (SELECT id FROM tenax.jobs) = (SELECT job FROM "
           "tenax.runs) THEN 'same' END",
           "same");
}

static void every_outcome_has_its_word(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct buf words = {0};
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        struct run run = {.index = (uint32_t)i,
                          .taken_at = INSTANT_NONE,
                          .lease_end = INSTANT_NONE,
                          .ready_at = INSTANT_NONE,
                          .ended_at = INSTANT_NONE,
                          .retry_at = INSTANT_NONE,
                          .outcome = (enum outcome)i};
        record_put_run(&b, (struct id){0, 9}, &run);
        buf_print(&words, "%s%s", i ? "," : "", job_outcome_name((enum outcome)i));
    }
    buf_byte(&words, '\0');
    show(p, &b);
    expect("SELECT string_agg(outcome, ',' ORDER BY run) FROM tenax.runs", words.at);
    buf_fini(&words);
}

static void queues_are_counted(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    for (uint64_t n = 10; n < 20; n++) {
        struct job job = plain(n);
        job.state.status = (enum status)(n % 6 == STATUS_IN_FLIGHT ? STATUS_READY : n % 6);
        record_put_job(&b, &job);
    }
    show(p, &b);
    expect("SELECT concat_ws(' ', queue, jobs, blocked, scheduled, ready, "
           "completed, dead, paused) FROM "
           "tenax.queues",
           "mail 10 2 2 2 2 2 f");
}

static void the_lag_is_told(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct job job = plain(1);
    char sql[128];
    snprintf(sql, sizeof sql,
             "SELECT concat_ws(' ', seq, flushed, batches) FROM tenax.lag WHERE "
             "shard = %d",
             p->shard);
    record_put_job(&b, &job);
    p->flush_after = (span){3600000};
    place_open_again(p);
    scratch_commit(p->s, &b);
    batch_fini(&b);
    expect(sql, "1 0 1");
    place_flush_soon(p);
    place_await_flushed(p, 1);
    expect(sql, "1 1 0");
}

static void a_reader_reads_views_and_nothing_else(void **state)
{
    static const char *const refused[] = {
        "SELECT * FROM tenax.records", "SELECT * FROM tenax.log_0", "SELECT * FROM tenax.inbox",
        "SELECT tenax.enqueue('q', 't', '1')", "DELETE FROM tenax.lag"};
    struct pg *pg = pg_node_open(&place_node);
    (void)state;
    assert_ok(pg_script(pg, "SET ROLE tenax_reader"));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_code(pg_script(pg, refused[i]), ERR_POSTGRES_REFUSED);
    pg_close(pg);
}

static int set_up(void **state)
{
    pg_node_sql(&place_node, "DELETE FROM tenax.records");
    int failed = place_set_up(state);
    place_flush_soon(*state);
    return failed;
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_plain_job_is_shown),
        T(a_job_with_everything_is_shown),
        T(the_newest_state_counts),
        T(a_large_payload_is_shown),
        T(ended_runs_are_shown),
        T(every_outcome_has_its_word),
        T(queues_are_counted),
        T(the_lag_is_told),
        T(a_reader_reads_views_and_nothing_else),
    };
    pg_node_start(&place_node, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_node_remove(&place_node);
    return failed;
}
