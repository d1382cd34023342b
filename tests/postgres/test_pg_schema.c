/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_schema.h"

#include <stdio.h>

#include "postgres/pg_node.h"
#include "store/cm.h"

static struct pg_node node;

static int start(void **state)
{
    (void)state;
    pg_node_start(&node, NULL);
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
    return 0;
}

static int tear_down(void **state)
{
    pg_close(*state);
    return 0;
}

static struct pg *open_as(const char *role)
{
    char url[256];
    struct pg *pg;
    snprintf(url, sizeof url, "postgres:///postgres?host=%s&user=%s", node.dir, role);
    struct pg_settings settings = {.url = url};
    assert_ok(pg_open(&settings, &pg));
    return pg;
}

static void installing_twice_changes_nothing(void **state)
{
    bool changed = true;
    struct pg_schema s;
    assert_ok(pg_schema_install(*state, &changed));
    assert_false(changed);
    assert_ok(pg_schema_upgrade(*state, &changed));
    assert_false(changed);
    assert_ok(pg_schema_look(*state, &s));
    assert_int_equal(s.state, PG_SCHEMA_CURRENT);
    assert_int_equal(s.version, PG_SCHEMA_VERSION);
    assert_true(s.postgres >= PG_MAJOR_MIN);
    assert_ok(pg_schema_require(*state));
    assert_ok(pg_schema_check_rights(*state));
}

static void a_missing_schema_is_made(void **state)
{
    bool changed;
    assert_ok(pg_script(*state, "DROP SCHEMA tenax CASCADE"));
    struct err e = pg_schema_require(*state);
    assert_code(e, ERR_POSTGRES_SCHEMA);
    assert_non_null(strstr(e.msg, "tenax postgres install"));
    assert_code(pg_schema_upgrade(*state, &changed), ERR_POSTGRES_SCHEMA);
    assert_ok(pg_schema_install(*state, &changed));
    assert_true(changed);
    assert_ok(pg_schema_require(*state));
}

static void an_older_one_is_upgraded_and_its_data_stay(void **state)
{
    bool changed;
    assert_ok(pg_script(*state, "UPDATE tenax.schema_version SET version = 1;"
                                "INSERT INTO tenax.records VALUES (0, 'k', 'v')"));
    if (PG_SCHEMA_VERSION > 1) {
        assert_code(pg_schema_require(*state), ERR_POSTGRES_SCHEMA);
        assert_code(pg_schema_install(*state, &changed), ERR_POSTGRES_SCHEMA);
    }
    assert_ok(pg_schema_upgrade(*state, &changed));
    assert_int_equal(changed, PG_SCHEMA_VERSION > 1);
    assert_ok(pg_schema_require(*state));
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.records WHERE key = 'k'"), 1);
    assert_ok(pg_script(*state, "DELETE FROM tenax.records"));
}

static void a_newer_one_is_used_if_it_says_so(void **state)
{
    bool changed;
    assert_ok(pg_script(*state, "UPDATE tenax.schema_version SET version = 99, compatible = 99"));
    assert_code(pg_schema_require(*state), ERR_POSTGRES_SCHEMA);
    assert_code(pg_schema_install(*state, &changed), ERR_POSTGRES_SCHEMA);
    assert_ok(pg_script(*state, "UPDATE tenax.schema_version SET compatible = 1"));
    assert_ok(pg_schema_require(*state));
    assert_ok(pg_script(*state, "UPDATE tenax.schema_version SET version = 1"));
}

static void a_schema_of_somebody_else_is_left_alone(void **state)
{
    bool changed;
    assert_ok(pg_script(*state, "ALTER SCHEMA tenax RENAME TO kept; CREATE SCHEMA tenax"));
    assert_code(pg_schema_require(*state), ERR_POSTGRES_SCHEMA);
    assert_code(pg_schema_install(*state, &changed), ERR_POSTGRES_SCHEMA);
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM pg_class WHERE relnamespace = "
                                        "to_regnamespace('tenax')"),
                     0);
    assert_ok(pg_script(*state, "DROP SCHEMA tenax; ALTER SCHEMA kept RENAME TO tenax"));
}

static void who_may_not_install_is_told_what_is_missing(void **state)
{
    bool changed;
    assert_ok(pg_script(*state, "CREATE ROLE plain LOGIN; ALTER SCHEMA tenax RENAME TO kept"));
    struct pg *pg = open_as("plain");
    struct err e = pg_schema_install(pg, &changed);
    assert_code(e, ERR_POSTGRES_SCHEMA);
    assert_non_null(strstr(e.msg, "GRANT CREATE ON DATABASE postgres TO plain"));
    assert_ok(pg_script(*state, "GRANT CREATE ON DATABASE postgres TO plain"));
    assert_ok(pg_schema_install(pg, &changed));
    assert_ok(pg_schema_check_rights(pg));
    pg_close(pg);
    assert_ok(pg_script(*state, "DROP SCHEMA tenax CASCADE; ALTER SCHEMA kept RENAME TO tenax"));
}

static void a_producer_may_not_read_or_commit(void **state)
{
    assert_ok(pg_script(*state, "CREATE ROLE app LOGIN IN ROLE tenax_producer"));
    struct pg *pg = open_as("app");
    assert_code(pg_script(pg, "SELECT * FROM tenax.inbox"), ERR_POSTGRES_REFUSED);
    assert_code(pg_script(pg, "INSERT INTO tenax.inbox (job, body) VALUES ('a', 'b')"),
                ERR_POSTGRES_REFUSED);
    assert_code(pg_script(pg, "SELECT tenax.commit(0, 0, 1, '', NULL)"), ERR_POSTGRES_REFUSED);
    assert_code(pg_script(pg, "SELECT tenax.take(0, 0, 0, 'me', '', 1)"), ERR_POSTGRES_REFUSED);
    struct err e = pg_schema_check_rights(pg);
    assert_code(e, ERR_POSTGRES_SCHEMA);
    assert_non_null(strstr(e.msg, "tenax."));
    pg_close(pg);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(installing_twice_changes_nothing),
        T(a_missing_schema_is_made),
        T(an_older_one_is_upgraded_and_its_data_stay),
        T(a_newer_one_is_used_if_it_says_so),
        T(a_schema_of_somebody_else_is_left_alone),
        T(who_may_not_install_is_told_what_is_missing),
        T(a_producer_may_not_read_or_commit),
    };
#undef T
    return cmocka_run_group_tests_name("pg_schema", tests, start, end);
}
