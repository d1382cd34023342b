/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "postgres/pg_files.h"
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

/* As version 1 left it: its tables, and what of its functions a later version replaces. */
static void make_version_1(struct pg *pg)
{
    const struct pg_file *tables = pg_files;
    while (strcmp(tables->name, "tables.sql") != 0)
        tables++;
    char *sql = alloc_text((const char *)tables->text, tables->len);
    assert_ok(pg_script(pg, "DROP SCHEMA tenax CASCADE; CREATE SCHEMA tenax"));
    assert_ok(pg_script(pg, sql));
    free(sql);
    assert_ok(pg_script(
        pg, "CREATE FUNCTION tenax.commit(shard_ bigint, epoch_ bigint, seq_ bigint, batch_ bytea, "
            "inbox_ bigint[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;"
            "CREATE FUNCTION tenax.beat(shard_ bigint, epoch_ bigint) RETURNS bigint LANGUAGE "
            "plpgsql AS $$ BEGIN RETURN 0; END $$;"
            "CREATE FUNCTION tenax.flush(shard_ bigint, epoch_ bigint, keys_ bytea[], values_ "
            "bytea[], gone_ bytea[]) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;"
            "CREATE VIEW tenax.log AS SELECT 0::smallint AS slot, l.* FROM tenax.log_0 l;"
            "UPDATE tenax.schema_version SET version = 1, compatible = 1"));
}

static void an_older_one_is_upgraded_and_its_data_stay(void **state)
{
    bool changed;
    make_version_1(*state);
    assert_ok(pg_script(*state, "INSERT INTO tenax.records VALUES (0, 'k', 'v');"
                                "INSERT INTO tenax.log_0 VALUES (0, 1, 7, 'b');"
                                "UPDATE tenax.shard SET seq = 1, epoch = 7;"
                                "UPDATE tenax.lease SET epoch = 7, owner = 'old';"
                                "INSERT INTO tenax.epochs VALUES (0, 7, 1, 'old')"));
    assert_code(pg_schema_require(*state), ERR_POSTGRES_SCHEMA);
    assert_code(pg_schema_install(*state, &changed), ERR_POSTGRES_SCHEMA);
    assert_ok(pg_schema_upgrade(*state, &changed));
    assert_true(changed);
    assert_ok(pg_schema_require(*state));
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.records WHERE key = 'k'"), 1);
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.log WHERE seq = 1"), 1);
    /* A server that knows version 1 goes on. */
    assert_ok(pg_script(*state, "SELECT tenax.commit(0, 7, 2, 'c', NULL); SELECT tenax.beat(0, 7);"
                                "SELECT tenax.flush(0, 7, ARRAY['k'::bytea], ARRAY['w'::bytea], "
                                "NULL)"));
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.log WHERE sum IS NULL"), 2);
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.records WHERE value = 'w'"), 1);
    assert_ok(pg_script(*state, "SELECT tenax.raise_alarm(0, 'new', 8, 3, 'it is gone')"));
    assert_code(pg_script(*state, "SELECT tenax.beat(0, 7)"), ERR_POSTGRES_LOST);
    assert_ok(pg_script(*state, "DROP SCHEMA tenax CASCADE"));
    assert_ok(pg_schema_install(*state, &changed));
}

static void a_newer_one_is_used_if_it_says_so(void **state)
{
    bool changed;
    assert_ok(pg_script(*state, "UPDATE tenax.schema_version SET version = 99, compatible = 99"));
    assert_code(pg_schema_require(*state), ERR_POSTGRES_SCHEMA);
    assert_code(pg_schema_install(*state, &changed), ERR_POSTGRES_SCHEMA);
    assert_ok(pg_script(*state, "UPDATE tenax.schema_version SET compatible = 1"));
    assert_ok(pg_schema_require(*state));
    char back[96];
    snprintf(back, sizeof back, "UPDATE tenax.schema_version SET version = %d, compatible = 1",
             PG_SCHEMA_VERSION);
    assert_ok(pg_script(*state, back));
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
