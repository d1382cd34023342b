/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_inbox.h"

#include <stdio.h>

#include "base/id.h"
#include "postgres/pg_node.h"
#include "store/cm.h"

static struct pg_node node;

static int start(void **state)
{
    (void)state;
    pg_node_start(&node, NULL);
    pg_node_sql(&node, "CREATE ROLE app LOGIN IN ROLE tenax_producer");
    return 0;
}

static int end(void **state)
{
    (void)state;
    pg_node_remove(&node);
    return 0;
}

static int set_up(void **state)
{
    *state = pg_node_open(&node);
    assert_ok(pg_script(*state, "SET ROLE app"));
    return 0;
}

static int tear_down(void **state)
{
    pg_close(*state);
    pg_node_sql(&node, "DELETE FROM tenax.inbox; DELETE FROM tenax.inbox_reader");
    return 0;
}

static int64_t count(void)
{
    return pg_node_ask(&node, "SELECT count(*) FROM tenax.inbox");
}

static struct id enqueue(struct pg *pg)
{
    static const struct pg_statement s = {
        "t_enqueue", "SELECT tenax.enqueue('mail', 'send', '{\"to\": 1}', '{\"priority\": 5}')"};
    struct pg_rows *rows;
    struct id id;
    assert_ok(pg_run(pg, &s, NULL, 0, &rows));
    assert_ok(id_parse(pg_get(rows, 0, 0), &id));
    pg_rows_free(rows);
    return id;
}

static void ids_are_of_now_and_rise(void **state)
{
    struct id last = {0};
    int64_t now = pg_node_ask(&node, "SELECT (extract(epoch FROM now()) * 1000)::bigint");
    for (int i = 0; i < 100; i++) {
        struct id id = enqueue(*state);
        assert_true(id_cmp(last, id) < 0);
        assert_true(id_time(id).ms >= now && id_time(id).ms < now + 60000);
        last = id;
    }
    assert_int_equal(count(), 100);
}

static void the_owner_reads_what_post_jobs_takes(void **state)
{
    struct pg_rows *rows;
    char text[ID_TEXT_LEN];
    struct pg *owner = pg_node_open(&node);
    struct id id = enqueue(*state);
    assert_ok(pg_inbox_read(owner, 0, 10, &rows));
    assert_int_equal(pg_rows_count(rows), 1);
    id_format(id, text);
    assert_true(str_eq(pg_get(rows, 0, 1), (struct str){text, sizeof text}));
    assert_string_equal(pg_get(rows, 0, 2).at,
                        "{\"type\": \"send\", \"queue\": \"mail\", \"payload\": {\"to\": 1}, "
                        "\"priority\": 5}");
    pg_rows_free(rows);
    pg_close(owner);
}

/* As text of that many bytes; the limit is 8 MiB for those before a row. */
static void enqueue_large(size_t len)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT tenax.enqueue('q', 't', to_jsonb(repeat('x', %zu)))", len);
    pg_node_sql(&node, sql);
}

static size_t count_read(struct pg *owner, int most)
{
    struct pg_rows *rows;
    assert_ok(pg_inbox_read(owner, 0, most, &rows));
    size_t n = pg_rows_count(rows);
    pg_rows_free(rows);
    return n;
}

static void rows_are_read_until_they_are_some_megabytes_together(void **state)
{
    static const size_t large = (size_t)3 << 20;
    struct pg *owner = pg_node_open(&node);
    (void)state;
    for (int i = 0; i < 4; i++)
        enqueue_large(large);
    assert_int_equal(count_read(owner, 2), 2);
    assert_int_equal(count_read(owner, 10), 3); /* there are 6 MiB before the third, and then 9 */
    pg_node_sql(&node, "DELETE FROM tenax.inbox");
    /* One alone is read, however large it is. */
    enqueue_large((size_t)10 << 20);
    enqueue_large(1);
    assert_int_equal(count_read(owner, 10), 1);
    pg_close(owner);
}

static void a_rollback_leaves_nothing(void **state)
{
    assert_ok(pg_script(*state, "BEGIN"));
    enqueue(*state);
    assert_ok(pg_script(*state, "ROLLBACK"));
    assert_int_equal(count(), 0);
    assert_ok(pg_script(*state, "BEGIN"));
    enqueue(*state);
    assert_int_equal(count(), 0);
    assert_ok(pg_script(*state, "COMMIT"));
    assert_int_equal(count(), 1);
}

static void expect_refused(struct pg *pg, const char *arguments, const char *text)
{
    char sql[1024];
    snprintf(sql, sizeof sql, "SELECT tenax.enqueue(%s)", arguments);
    struct err e = pg_script(pg, sql);
    assert_code(e, ERR_POSTGRES_REFUSED);
    if (!strstr(e.msg, text))
        fail_msg("%s: %s", arguments, e.msg);
}

static void what_post_jobs_refuses_is_refused(void **state)
{
    static const struct {
        const char *arguments, *text;
    } refused[] = {
        {"'', 't', '1'", "queue must not be empty"},
        {"NULL, 't', '1'", "queue must not be empty"},
        {"repeat('q', 256), 't', '1'", "256 bytes long; at most 255"},
        {"'q', E'a\\nb', '1'", "type has a control character"},
        {"'q', E'a\\x7f', '1'", "type has a control character"},
        {"'a,b', 't', '1'", "reserved character"},
        {"'a]', 't', '1'", "reserved character"},
        {"E'a\\\\', 't', '1'", "reserved character"},
        {"'q', 't', NULL", "payload"},
        {"'q', 't', '1', '[]'", "options: expected JSON of type object, not array"},
        {"'q', 't', '1', '{\"prioritee\": 1}'", "unknown option 'prioritee'"},
        {"'q', 't', '1', '{\"payload\": 1}'", "unknown option 'payload'"},
        {"'q', 't', '1', '{\"priority\": \"1\"}'",
         "priority: expected JSON of type number, not string"},
        {"'q', 't', '1', '{\"priority\": 65536}'", "priority: 0 to 65535, not 65536"},
        {"'q', 't', '1', '{\"priority\": 1.5}'", "an integer is expected"},
        {"'q', 't', '1', '{\"unique_key\": \"\"}'", "unique_key: 1 to 1024 bytes"},
        {"'q', 't', '1', '{\"unique_while\": \"queued\"}'", "needs a unique_key"},
        {"'q', 't', '1', '{\"unique_key\": \"k\", \"unique_while\": \"x\"}'", "one of queued"},
        {"'q', 't', '1', '{\"group_owner\": \"k\"}'", "needs a group"},
        {"'q', 't', '1', '{\"alias\": \"a*\"}'", "alias has a reserved character"},
        {"'q', 't', '1', '{\"hold\": 1}'", "hold: expected JSON of type boolean, not number"},
        {"'q', 't', '1', '{\"backoff\": 1}'", "backoff: expected JSON of type object, not number"},
        {"'q', 't', '1', jsonb_build_object('depends_on', (SELECT jsonb_agg(i) FROM "
         "generate_series(1, 101) i))",
         "depends_on: 0 to 100 elements, not 101"},
        {"'q', 't', to_jsonb(repeat('x', 16777216))", "at most 16777216"},
        {"'q', 't', '1', '{\"backoff.base_ms\": 1}'", "unknown option 'backoff.base_ms'"},
        {"'q', 't', '1', '{\"[]\": 1}'", "unknown option '[]'"},
        {"'q', 't', '1', '{\"backoff\": {\"base\": 1}}'", "unknown option 'backoff.base'"},
        {"'q', 't', '1', '{\"backoff\": {\"base_ms\": 1, \"exponent\": 1}}'",
         "backoff.jitter_ms: it is missing"},
        {"'q', 't', '1', '{\"backoff\": {\"base_ms\": null}}'",
         "backoff.base_ms: expected JSON of type number, not null"},
        {"'q', 't', '1', '{\"backoff\": {\"exponent\": 100.5}}'",
         "backoff.exponent: 0 to 100, not 100.5"},
        {"'q', 't', '1', '{\"backoff\": {\"base_ms\": -1001}}'", "backoff.base_ms: -1000 to"},
        {"'q', 't', '1', '{\"retention\": {\"dead_ms\": 0.5}}'",
         "retention.dead_ms: an integer is expected"},
        {"'q', 't', '1', '{\"batch\": {\"key\": \"k\", \"when\": \"\"}}'",
         "batch.fold: it is missing"},
        {"'q', 't', '1', '{\"resources\": {\"memory\": \"1X\"}}'",
         "resources.memory: an amount like 512Mi"},
        {"'q', 't', '1', '{\"resources\": {\"cpu\": true}}'",
         "resources.cpu: expected JSON of type string, not boolean"},
        {"'q', 't', '1', '{\"gang\": {\"id\": \"a*\", \"cardinality\": 2}}'",
         "gang.id has a reserved character"},
        {"'q', 't', '1', '{\"gang\": {\"id\": \"a\", \"cardinality\": 1001}}'",
         "gang.cardinality: 1 to 1000, not 1001"},
        {"'q', 't', '1', '{\"retry_policies\": [\"a\", 1]}'",
         "retry_policies[1]: expected JSON of type string, not number"},
        {"'q', 't', '1', '{\"depends_on\": [0]}'", "depends_on[0]: expected JSON of type string"},
        {"'q', 't', '1', '{\"depends_on\": [\"x\"]}'", "depends_on[0]: 25 to 25 bytes, not 1"},
        {"'q', 't', '1', '{\"budgets\": [{\"cost\": 1}]}'", "budgets[0].key: it is missing"},
        {"'q', 't', '1', '{\"budgets\": [{\"key\": \"a\", \"cost\": 0}]}'",
         "budgets[0].cost: 1 to 2147483647, not 0"},
        {"'q', 't', '1', jsonb_build_object('traceparent', repeat('0', 55))",
         "traceparent: a text like 00-4b"},
        {"'q', 't', '1', '{\"tracestate\": \"a=b\"}'", "nothing without a traceparent"},
        {"'q', 't', '1', '{\"gang\": {\"id\": \"a\", \"cardinality\": 2}, \"unique_key\": \"k\"}'",
         "without a batch or a unique_key"},
        {"'q', 't', '1', '{\"batch\": {\"key\": \"k\", \"when\": \"\", \"fold\": \"\"}, "
         "\"hold\": true}'",
         "it cannot be held"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        expect_refused(*state, refused[i].arguments, refused[i].text);
    assert_int_equal(count(), 0);
}

static void what_post_jobs_takes_is_taken(void **state)
{
    static const char *const taken[] = {
        "'q-1.x/y:z', 'ü', 'null'",
        "'q', 't', '\"text\"', NULL",
        "'q', 't', '[]', '{\"priority\": null, \"retry_limit\": 4294967295, \"ready_at\": 0}'",
        "'q', 't', '1', '{\"unique_key\": \"k\", \"unique_while\": \"exists\", \"hold\": true}'",
        "'q', 't', '1', '{\"retry_policies\": [\"a\"], \"backoff\": {\"base_ms\": -1000, "
        "\"exponent\": 1.5, \"jitter_ms\": 0}, \"retention\": {\"dead_ms\": null}}'",
        "'q', 't', '1', '{\"resources\": {\"memory\": \"1.5Gi\", \"cpu\": 1.5}, \"annotations\": "
        "{\"any\": 1}, \"gang\": {\"id\": \"a\", \"cardinality\": 2}}'",
        "'q', 't', '1', '{\"budgets\": [{\"key\": \"a\", \"create_with\": {\"allocation\": 1, "
        "\"strategy\": {\"type\": \"while_in_flight\"}}}]}'",
        "'q', 't', '1', '{\"traceparent\": "
        "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\", "
        "\"tracestate\": \"a=b\", \"depends_on\": [\"0000000000000000000000001\"]}'",
    };
    char sql[512];
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        snprintf(sql, sizeof sql, "SELECT tenax.enqueue(%s)", taken[i]);
        assert_ok(pg_script(*state, sql));
    }
    assert_int_equal(count(), sizeof taken / sizeof *taken);
}

static void a_producer_may_enqueue_and_nothing_else(void **state)
{
    static const char *const refused[] = {
        "SELECT * FROM tenax.inbox",
        "INSERT INTO tenax.inbox (job, body) VALUES ('a', '{}')",
        "DELETE FROM tenax.inbox",
        "SELECT * FROM tenax.records",
        "SELECT tenax.inbox_sleep(0, 1)",
        "SELECT tenax.inbox_refuse(0, 1, 1, '')",
        "SELECT tenax.commit(0, 1, 1, '', NULL)",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_code(pg_script(*state, refused[i]), ERR_POSTGRES_REFUSED);
    enqueue(*state);
}

/* Functions and operators of the caller's own are not run with the rights of the owner. */
static void the_caller_lends_no_functions(void **state)
{
    pg_node_sql(&node, "CREATE SCHEMA IF NOT EXISTS trap AUTHORIZATION app");
    assert_ok(pg_script(*state, "CREATE FUNCTION trap.octet_length(text) RETURNS int LANGUAGE sql "
                                "AS 'SELECT 999999'; SET search_path = trap, pg_catalog"));
    enqueue(*state);
}

static bool hears(struct pg *listener, struct pg *pg)
{
    bool any;
    enqueue(pg);
    assert_ok(pg_script(listener, "SELECT 1"));
    assert_ok(pg_notified(listener, &any));
    return any;
}

static void only_who_sleeps_is_woken(void **state)
{
    struct pg *owner = pg_node_open(&node);
    assert_ok(pg_listen(owner, PG_INBOX_CHANNEL));
    assert_true(hears(owner, *state));
    assert_ok(pg_inbox_sleep(owner, 0, false));
    assert_false(hears(owner, *state));
    assert_ok(pg_inbox_sleep(owner, 0, true));
    assert_true(hears(owner, *state));
    pg_close(owner);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(ids_are_of_now_and_rise),
        T(the_owner_reads_what_post_jobs_takes),
        T(rows_are_read_until_they_are_some_megabytes_together),
        T(a_rollback_leaves_nothing),
        T(what_post_jobs_refuses_is_refused),
        T(what_post_jobs_takes_is_taken),
        T(a_producer_may_enqueue_and_nothing_else),
        T(the_caller_lends_no_functions),
        T(only_who_sleeps_is_woken),
    };
    return cmocka_run_group_tests(tests, start, end);
}
