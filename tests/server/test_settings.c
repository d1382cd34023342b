/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/log.h"
#include "server/migrate.h"
#include "server/settings.h"

static int forget_variables(void **state)
{
    (void)state;
    for (const struct option_def *d = settings_command.options; d->flag; d++) {
        unsetenv(d->env);
        if (d->alias)
            unsetenv(d->alias);
    }
    return 0;
}

#define LOAD(s, code, ...)                                                                         \
    settings_load((int)(sizeof((char *[]){"serve", ##__VA_ARGS__}) / sizeof(char *)),              \
                  (char *[]){"serve", ##__VA_ARGS__, NULL}, (s), (code))

static void every_setting_has_a_variable_and_help(void **state)
{
    (void)state;
    size_t n = 0;
    for (const struct option_def *d = settings_command.options; d->flag; d++, n++) {
        assert_non_null(d->help);
        assert_non_null(d->env);
        assert_int_equal(strncmp(d->env, "TENAX_", 6), 0);
        /* Files, collectors and databases have none: without them there is no TLS, no
         * configuration, and no log of its own; nor has what follows another setting, or has no
         * effect. */
        assert_true(d->type == OPTION_SWITCH || d->def || strstr(d->flag, "tls-") ||
                    strncmp(d->flag, "otlp-", 5) == 0 || strncmp(d->flag, "postgres", 8) == 0 ||
                    strcmp(d->flag, "advertise") == 0 || strcmp(d->flag, "servers-ca") == 0 ||
                    strcmp(d->flag, "config") == 0 || strcmp(d->flag, "log-dir") == 0 ||
                    strcmp(d->flag, "identities") == 0 || strcmp(d->flag, "allowed-origins") == 0 ||
                    strcmp(d->flag, "trusted-proxies") == 0 ||
                    strcmp(d->flag, "taskcluster-clients") == 0 ||
                    strcmp(d->flag, "enqueue-commit-mode") == 0 ||
                    strcmp(d->flag, "default-commit-mode") == 0 || migrate_has_no_effect(d->flag));
    }
    assert_true(n >= 38); /* the end mark is at the end */
}

static void defaults_are_the_documented_ones(void **state)
{
    (void)state;
    struct settings s;
    int code;
    assert_true(LOAD(&s, &code));
    assert_string_equal(s.root_dir, "./tenax-root");
    assert_string_equal(s.host, "127.0.0.1");
    assert_int_equal(s.port, 7890);
    assert_null(s.tls.cert);
    assert_null(s.tls.key);
    assert_null(s.tls.client_ca);
    assert_string_equal(s.admin_host, "127.0.0.1");
    assert_int_equal(s.admin_port, 8901);
    assert_false(s.admin_wanted);
    assert_null(s.admin_tls.cert);
    assert_int_equal(s.max_streams, 256);
    assert_int_equal(s.commit_mode, SETTINGS_FSYNC);
    assert_int_equal(s.retry_limit, 25);
    assert_int_equal(s.backoff_base.ms, 15000);
    assert_true(s.backoff_exponent == 4);
    assert_int_equal(s.backoff_jitter.ms, 30000);
    assert_int_equal(s.retain_completed.ms, 3600 * 1000);
    assert_int_equal(s.completed_kept, 1000);
    assert_int_equal(s.retain_dead.ms, INT64_C(7) * 24 * 3600 * 1000);
    assert_int_equal(s.lost_worker_limit, 5);
    assert_int_equal(s.lost_worker_min_held.ms, 10000);
    assert_int_equal(s.retries_share, 15);
    assert_int_equal(s.avoid_required.ms, 300000);
    assert_int_equal(s.cron_missed, SETTINGS_CRON_ONCE);
    assert_int_equal(s.heartbeat_interval.ms, 3000);
    assert_int_equal(s.claim_wait_max.ms, 45000);
    assert_int_equal(s.log_level, LOG_WARN);
    assert_int_equal(s.log_format, LOG_TEXT);
    assert_false(s.strict);
    assert_true(s.index_snapshots);
    assert_false(s.insecure);
    assert_int_equal(s.max_body, 16 << 20);
    assert_int_equal(s.max_connections, 10000);
    assert_int_equal(s.header_timeout.ms, 10000);
    assert_int_equal(s.body_timeout.ms, 30000);
    assert_int_equal(s.idle_timeout.ms, 75000);
    assert_int_equal(s.min_free_space, 256 << 20);
    assert_int_equal(s.cache_size, 256000000);
}

static void a_switch_that_is_on_can_be_turned_off(void **state)
{
    (void)state;
    struct settings s;
    int code;
    assert_true(LOAD(&s, &code, "--index-snapshots=off"));
    assert_false(s.index_snapshots);
    assert_true(LOAD(&s, &code, "--index-snapshots"));
    assert_true(s.index_snapshots);
}

static void words_of_choices_are_the_enums_of_their_users(void **state)
{
    (void)state;
    struct settings s;
    int code;
    assert_true(LOAD(&s, &code, "--log-level", "error"));
    assert_int_equal(s.log_level, LOG_ERROR);
    assert_true(LOAD(&s, &code, "--log-level", "info", "--log-format", "json"));
    assert_int_equal(s.log_level, LOG_INFO);
    assert_int_equal(s.log_format, LOG_JSON);
    assert_true(LOAD(&s, &code, "--log-level", "debug", "--commit-mode", "buffered"));
    assert_int_equal(s.log_level, LOG_DEBUG);
    assert_int_equal(s.commit_mode, SETTINGS_BUFFERED);
}

static void part_of_the_backoff_formula_is_refused(void **state)
{
    (void)state;
    struct settings s;
    int code = 0;
    assert_false(LOAD(&s, &code, "--default-backoff-base", "1s"));
    assert_int_equal(code, CLI_USAGE);
    assert_false(LOAD(&s, &code, "--default-backoff-base", "1s", "--default-backoff-jitter", "0"));
    /* Giving the default explicitly counts as giving it. */
    assert_false(LOAD(&s, &code, "--default-backoff-exponent", "4"));
    assert_true(LOAD(&s, &code, "--default-backoff-base", "1s", "--default-backoff-jitter", "0",
                     "--default-backoff-exponent", "1.5"));
    assert_int_equal(s.backoff_base.ms, 1000);
    assert_true(s.backoff_exponent == 1.5);
}

static void the_backoff_formula_may_come_from_several_places(void **state)
{
    (void)state;
    struct settings s;
    int code;
    setenv("ZIZQ_DEFAULT_BACKOFF_BASE", "500", 1);
    setenv("TENAX_DEFAULT_BACKOFF_JITTER", "12.5s", 1);
    assert_false(LOAD(&s, &code));
    assert_true(LOAD(&s, &code, "--default-backoff-exponent", "2"));
    assert_int_equal(s.backoff_base.ms, 500);
    assert_int_equal(s.backoff_jitter.ms, 12500);
}

static void the_commit_mode_has_another_name_as_alias(void **state)
{
    (void)state;
    struct settings s;
    int code;
    setenv("ZIZQ_DEFAULT_COMMIT_MODE", "buffered", 1);
    assert_true(LOAD(&s, &code));
    assert_int_equal(s.commit_mode, SETTINGS_BUFFERED);
}

static void files_of_tls_come_in_sets(void **state)
{
    (void)state;
    struct settings s;
    int code = 0;
    assert_false(LOAD(&s, &code, "--tls-cert", "c"));
    assert_int_equal(code, CLI_USAGE);
    assert_false(LOAD(&s, &code, "--tls-key", "k"));
    assert_false(LOAD(&s, &code, "--tls-client-ca", "a"));
    assert_false(LOAD(&s, &code, "--admin-tls-cert", "c"));
    assert_false(
        LOAD(&s, &code, "--admin-tls-client-ca", "a", "--tls-cert", "c", "--tls-key", "k"));
    setenv("ZIZQ_TLS_KEY", "k", 1);
    setenv("TENAX_ADMIN_TLS_CERT", "ac", 1);
    assert_true(LOAD(&s, &code, "--tls-cert", "c", "--admin-tls-key", "ak"));
    assert_string_equal(s.tls.key, "k");
    assert_string_equal(s.admin_tls.cert, "ac");
    assert_string_equal(s.admin_tls.key, "ak");
}

static void the_admin_listener_is_wanted_where_someone_said_so(void **state)
{
    (void)state;
    struct settings s;
    int code;
    assert_true(LOAD(&s, &code, "--admin-port", "8901"));
    assert_true(s.admin_wanted);
    setenv("ZIZQ_ADMIN_HOST", "::1", 1);
    assert_true(LOAD(&s, &code));
    assert_true(s.admin_wanted);
    assert_string_equal(s.admin_host, "::1");
}

static void a_stray_word_is_refused(void **state)
{
    (void)state;
    struct settings s;
    int code = 0;
    assert_false(LOAD(&s, &code, "now"));
    assert_int_equal(code, CLI_USAGE);
}

static void a_retry_limit_is_at_most_what_a_job_may_ask_for(void **state)
{
    (void)state;
    struct settings s;
    int code = 0;
    assert_false(LOAD(&s, &code, "--default-retry-limit", "4294967296"));
    assert_int_equal(code, CLI_USAGE);
    assert_true(LOAD(&s, &code, "--default-retry-limit", "4294967295"));
}

static void a_time_of_nothing_is_refused_where_it_would_end_everything(void **state)
{
    (void)state;
    struct settings s;
    int code = 0;
    char *const flags[] = {"--heartbeat-interval", "--header-timeout", "--body-timeout",
                           "--idle-timeout", "--jq-time-limit"};
    for (size_t i = 0; i < COUNT(flags); i++) {
        assert_false(LOAD(&s, &code, flags[i], "0"));
        assert_int_equal(code, CLI_USAGE);
        assert_true(LOAD(&s, &code, flags[i], "1ms"));
    }
}

#define TEST(name) cmocka_unit_test_setup(name, forget_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_setting_has_a_variable_and_help),
        TEST(defaults_are_the_documented_ones),
        TEST(a_switch_that_is_on_can_be_turned_off),
        TEST(words_of_choices_are_the_enums_of_their_users),
        TEST(part_of_the_backoff_formula_is_refused),
        TEST(the_backoff_formula_may_come_from_several_places),
        TEST(the_commit_mode_has_another_name_as_alias),
        TEST(files_of_tls_come_in_sets),
        TEST(the_admin_listener_is_wanted_where_someone_said_so),
        TEST(a_stray_word_is_refused),
        TEST(a_retry_limit_is_at_most_what_a_job_may_ask_for),
        TEST(a_time_of_nothing_is_refused_where_it_would_end_everything),
    };
    return cmocka_run_group_tests_name("cli/settings", tests, NULL, NULL);
}
