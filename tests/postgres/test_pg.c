/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
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

/* --- URLs --- */

static void expect_mask(const char *url, const char *expected)
{
    struct buf out = {0};
    pg_mask(url, &out);
    assert_string_equal(out.at, expected);
    buf_fini(&out);
}

static void no_message_shows_a_password(void **state)
{
    (void)state;
    expect_mask("postgres://app:s3cret@db.example.org:5433/jobs?sslmode=disable",
                "postgres://app:***@db.example.org:5433/jobs");
    expect_mask("host=db user=app password=s3cret dbname=jobs", "postgres://app:***@db/jobs");
    expect_mask("postgres://db/jobs", "postgres://db/jobs");
    expect_mask("postgres://app:s3c/ret@db", "postgres://***");
    assert_true(pg_has_password("postgres://app:s3cret@db"));
    assert_false(pg_has_password("postgres://app@db"));
}

static void a_malformed_url_is_not_quoted(void **state)
{
    struct pg *pg;
    struct pg_settings settings = {.url = "postgres://app:s3c/ret@db"};
    (void)state;
    struct err e = pg_open(&settings, &pg);
    assert_code(e, ERR_USAGE);
    assert_null(strstr(e.msg, "s3c"));
    assert_null(pg);
}

static void the_password_is_the_first_line_of_its_file(void **state)
{
    char name[] = "password-XXXXXX", url[256];
    (void)state;
    int fd = mkstemp(name);
    assert_int_equal(write(fd, "right\nand more\n", 15), 15);
    close(fd);
    pg_node_sql(&node, "CREATE ROLE guarded LOGIN PASSWORD 'right'");
    pg_node_guard(&node, "guarded");
    snprintf(url, sizeof url, "postgres://guarded:wrong@/postgres?host=%s", node.dir);
    struct pg_settings settings = {.url = url, .password_file = name};
    struct pg *pg;
    assert_ok(pg_open(&settings, &pg));
    pg_close(pg);
    settings.password_file = NULL;
    assert_code(pg_open(&settings, &pg), ERR_POSTGRES);
    settings.password_file = name;
    unlink(name);
    struct err e = pg_open(&settings, &pg);
    assert_code(e, ERR_USAGE);
    assert_non_null(strstr(e.msg, name));
}

/* A port that takes connections, and never says a word: like a primary that is frozen. */
static int open_silent_port(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void a_host_that_does_not_answer_leaves_it_to_the_next_one(void **state)
{
    char url[256];
    int port;
    struct pg *pg;
    (void)state;
    int fd = open_silent_port(&port);
    snprintf(url, sizeof url, "host=127.0.0.1,%s port=%d,5432 user=admin dbname=postgres", node.dir,
             port);
    struct pg_settings settings = {.url = url, .timeout = {120000}};
    mono begin = pg_now();
    assert_ok(pg_open(&settings, &pg));
    assert_true(pg_now().ns < pg_after(begin, (span){100000}).ns);
    assert_ok(pg_script(pg, "SELECT 1"));
    pg_close(pg);
    snprintf(url, sizeof url, "host=127.0.0.1,127.0.0.1 port=%d,1 user=admin dbname=postgres",
             port);
    settings.timeout.ms = 300;
    assert_code(pg_open(&settings, &pg), ERR_POSTGRES);
    close(fd);
}

static void the_host_that_takes_writes_is_used(void **state)
{
    char url[256];
    struct pg *pg;
    struct pg_settings settings = {.url = url};
    (void)state;
    snprintf(url, sizeof url, "host=127.0.0.1,%s port=1,5432 user=admin dbname=postgres", node.dir);
    assert_ok(pg_open(&settings, &pg));
    assert_ok(pg_script(pg, "CREATE ROLE reads LOGIN; "
                            "ALTER ROLE reads SET default_transaction_read_only = on"));
    pg_close(pg);
    snprintf(url, sizeof url, "host=%s,%s port=5432 user=reads dbname=postgres", node.dir,
             node.dir);
    assert_code(pg_open(&settings, &pg), ERR_POSTGRES);
}

/* --- statements --- */

static void numbers_texts_and_bytes_come_back_as_they_were(void **state)
{
    static const struct pg_statement s = {
        "echo", "SELECT $1::bigint, $2::text, $3::bytea, $4::text, 7::smallint, -3::int, true"};
    struct pg *pg = *state;
    struct pg_rows *rows;
    struct pg_param params[] = {
        pg_number(-1234567890123), pg_text(STR("h\xc3\xa9")), pg_bytes(STR("\0\xff\0a")), {0}};
    for (int i = 0; i < 2; i++) { /* prepared, and again */
        assert_ok(pg_run(pg, &s, params, 4, &rows));
        assert_int_equal(pg_rows_count(rows), 1);
        assert_int_equal(pg_get_int(rows, 0, 0), -1234567890123);
        assert_str(pg_get(rows, 0, 1), "h\xc3\xa9");
        assert_str(pg_get(rows, 0, 2), "\0\xff\0a");
        assert_true(pg_is_null(rows, 0, 3));
        assert_int_equal(pg_get_int(rows, 0, 4), 7);
        assert_int_equal(pg_get_int(rows, 0, 5), -3);
        assert_int_equal(pg_get_int(rows, 0, 6), 1);
        pg_rows_free(rows);
    }
}

static void a_statement_without_rows_has_none(void **state)
{
    static const struct pg_statement s = {"none", "CREATE TEMPORARY TABLE none (a int)"};
    struct pg_rows *rows;
    assert_ok(pg_run(*state, &s, NULL, 0, &rows));
    assert_int_equal(pg_rows_count(rows), 0);
    pg_rows_free(rows);
}

static void an_error_leaves_the_connection_as_it_was(void **state)
{
    static const struct {
        struct pg_statement s;
        enum err_code code;
    } rows[] = {
        {{"e1", "SELECT 1 / 0"}, ERR_POSTGRES_REFUSED},
        {{"e2", "SELECT * FROM tenax.nothing"}, ERR_POSTGRES_SCHEMA},
        {{"e3", "SELECT tenax.nothing()"}, ERR_POSTGRES_SCHEMA},
        {{"e4", "SELECT tenax.fence(0, -1, NULL)"}, ERR_FENCED},
        {{"e5", "SELECT tenax.fence(0, 5, 7)"}, ERR_POSTGRES_LOST},
    };
    static const struct pg_statement one = {"one", "SELECT 1"};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct err e = pg_run(*state, &rows[i].s, NULL, 0, NULL);
        assert_int_equal(e.code, rows[i].code);
        assert_false(pg_is_broken(*state));
        assert_ok(pg_run(*state, &one, NULL, 0, NULL));
    }
}

static void a_warning_is_a_failure(void **state)
{
    struct err e = pg_script(*state, "DO $$ BEGIN RAISE WARNING 'not waited for'; END $$");
    assert_code(e, ERR_POSTGRES);
    assert_non_null(strstr(e.msg, "not waited for"));
    assert_ok(pg_script(*state, "DO $$ BEGIN RAISE NOTICE 'by the way'; END $$"));
}

static void an_answer_that_does_not_come_breaks_the_connection(void **state)
{
    static const struct pg_statement never = {"never", "SELECT pg_sleep(3600)"};
    pg_until(*state, pg_after(pg_now(), (span){50}));
    assert_code(pg_run(*state, &never, NULL, 0, NULL), ERR_POSTGRES);
    assert_true(pg_is_broken(*state));
    assert_code(pg_script(*state, "SELECT 1"), ERR_POSTGRES);
}

static void a_statement_that_nobody_waits_for_is_given_up_by_postgres(void **state)
{
    static const struct pg_statement never = {"never", "SELECT pg_sleep(3600)"};
    struct pg_settings settings = {.url = node.url, .bound = {50}};
    struct pg *pg;
    (void)state;
    assert_ok(pg_open(&settings, &pg));
    struct err e = pg_run(pg, &never, NULL, 0, NULL);
    assert_code(e, ERR_POSTGRES);
    assert_non_null(strstr(e.msg, "statement timeout"));
    pg_close(pg);
}

static void a_connection_that_postgres_ends_is_broken(void **state)
{
    static const struct pg_statement own = {"own", "SELECT pg_terminate_backend(pg_backend_pid())"};
    assert_code(pg_run(*state, &own, NULL, 0, NULL), ERR_POSTGRES);
    assert_true(pg_is_broken(*state));
}

static void a_server_that_is_not_there_is_an_error(void **state)
{
    struct pg *pg;
    struct pg_settings settings = {.url = "postgres:///postgres?host=/nonexistent"};
    (void)state;
    assert_code(pg_open(&settings, &pg), ERR_POSTGRES);
}

/* --- many rows --- */

static struct err add_up(void *ctx, const struct pg_rows *row)
{
    *(int64_t *)ctx += pg_get_int(row, 0, 0);
    return err_none();
}

static struct err refuse(void *ctx, const struct pg_rows *row)
{
    (void)ctx;
    return pg_get_int(row, 0, 0) == 3 ? err_make(ERR_STOPPING, "enough") : err_none();
}

static void rows_come_one_by_one(void **state)
{
    static const struct pg_statement s = {"each", "SELECT generate_series(1, $1::bigint)"};
    struct pg_param params[] = {pg_number(10000)};
    int64_t sum = 0;
    assert_ok(pg_each(*state, &s, params, 1, add_up, &sum));
    assert_int_equal(sum, 50005000);
    assert_ok(pg_script(*state, "SELECT 1"));
    assert_code(pg_each(*state, &s, params, 1, refuse, NULL), ERR_STOPPING);
    assert_true(pg_is_broken(*state));
}

static void a_notice_of_another_session_is_noticed(void **state)
{
    bool any;
    struct pg *pg = *state;
    assert_ok(pg_listen(pg, "tenax_lease"));
    assert_ok(pg_notified(pg, &any));
    assert_false(any);
    pg_node_sql(&node, "NOTIFY tenax_lease");
    /* It comes with the next answer at the latest. */
    assert_ok(pg_script(pg, "SELECT 1"));
    assert_ok(pg_notified(pg, &any));
    assert_true(any);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_message_shows_a_password),
        cmocka_unit_test(a_malformed_url_is_not_quoted),
        cmocka_unit_test(the_password_is_the_first_line_of_its_file),
        T(numbers_texts_and_bytes_come_back_as_they_were),
        T(a_statement_without_rows_has_none),
        T(an_error_leaves_the_connection_as_it_was),
        T(a_warning_is_a_failure),
        T(an_answer_that_does_not_come_breaks_the_connection),
        cmocka_unit_test(a_statement_that_nobody_waits_for_is_given_up_by_postgres),
        T(a_connection_that_postgres_ends_is_broken),
        cmocka_unit_test(a_server_that_is_not_there_is_an_error),
        cmocka_unit_test(a_host_that_does_not_answer_leaves_it_to_the_next_one),
        cmocka_unit_test(the_host_that_takes_writes_is_used),
        T(rows_come_one_by_one),
        T(a_notice_of_another_session_is_noticed),
    };
#undef T
    return cmocka_run_group_tests_name("pg", tests, start, end);
}
