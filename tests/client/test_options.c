/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/units.h"
#include "client/options.h"

struct values {
    const char *name;
    int64_t port;
    double factor;
    span wait;
    uint64_t size;
    int mode;
    bool loud;
    int64_t priority;
    struct option_list hosts;
};

#define AT(field) .offset = offsetof(struct values, field)

static const struct option_def defs[] = {
    {"name", "NAME", OPTION_TEXT, AT(name), .env = "TENAX_T_NAME", .help = "a name"},
    {"port", "PORT", OPTION_INT, AT(port), .max = 65535, .env = "TENAX_T_PORT",
     .alias = "ZIZQ_T_PORT", .def = "7890", .help = "a port", .letter = 'p'},
    {"factor", "NUMBER", OPTION_DOUBLE, AT(factor), .max = 10, .def = "1.5", .help = "a factor"},
    {"wait", "DURATION", OPTION_SPAN, AT(wait), .def = "15s", .help = "how long to wait"},
    {"size", "SIZE", OPTION_SIZE, AT(size), .def = "16MiB", .help = "how large"},
    {"mode", "MODE", OPTION_CHOICE, AT(mode), .choices = "fsync|buffered", .def = "fsync",
     .help = "how safe"},
    {"loud", NULL, OPTION_SWITCH, AT(loud), .env = "TENAX_T_LOUD", .help = "say more",
     .letter = 'l'},
    {"priority", "NUMBER", OPTION_INT, AT(priority), .min = -5, .max = 5, .help = "how urgent"},
    {"host", "NAME", OPTION_LIST, AT(hosts), .help = "a host"},
    {0},
};

static int forget_variables(void **state)
{
    (void)state;
    unsetenv("TENAX_T_NAME");
    unsetenv("TENAX_T_PORT");
    unsetenv("ZIZQ_T_PORT");
    unsetenv("TENAX_T_LOUD");
    return 0;
}

static struct err parse_as(enum option_order order, char **words, struct values *v,
                           struct options *o)
{
    int argc = 0;
    while (words[argc])
        argc++;
    *v = (struct values){0};
    return options_parse(defs, order, argc, words, v, o);
}

#define WORDS(...)       ((char *[]){"command", ##__VA_ARGS__, NULL})
#define PARSE(v, o, ...) parse_as(OPTIONS_ANYWHERE, WORDS(__VA_ARGS__), &(v), &(o))

#define assert_refused(message, ...)                                                               \
    do {                                                                                           \
        struct values v_;                                                                          \
        struct options o_;                                                                         \
        struct err e_ = PARSE(v_, o_, __VA_ARGS__);                                                \
        assert_int_equal(e_.code, ERR_USAGE);                                                      \
        assert_string_equal(e_.msg, message);                                                      \
    } while (0)

static void defaults_fill_what_nobody_gave(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(PARSE(v, o).code, ERR_OK);
    assert_null(v.name);
    assert_int_equal(v.port, 7890);
    assert_true(v.factor == 1.5);
    assert_int_equal(v.wait.ms, 15000);
    assert_int_equal(v.size, 16 << 20);
    assert_int_equal(v.mode, 0);
    assert_false(v.loud);
    assert_int_equal(options_source(&o, offsetof(struct values, name)), OPTION_ABSENT);
    assert_int_equal(options_source(&o, offsetof(struct values, port)), OPTION_FROM_DEFAULT);
    assert_false(OPTION_GIVEN(&o, struct values, port));
}

static void a_value_may_be_its_own_word_or_follow_an_equals_sign(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(PARSE(v, o, "--port", "1", "--name=a=b", "--wait=2.5s", "--loud", "--mode",
                           "buffered", "--size=3KB", "--factor", "0.25", "--priority", "-3")
                         .code,
                     ERR_OK);
    assert_int_equal(v.port, 1);
    assert_string_equal(v.name, "a=b");
    assert_int_equal(v.wait.ms, 2500);
    assert_true(v.loud);
    assert_int_equal(v.mode, 1);
    assert_int_equal(v.size, 3000);
    assert_true(v.factor == 0.25);
    assert_int_equal(v.priority, -3);
    assert_true(OPTION_GIVEN(&o, struct values, port));
}

static void a_flag_wins_over_a_variable_and_that_over_its_alias(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    setenv("ZIZQ_T_PORT", "3", 1);
    assert_int_equal(PARSE(v, o).code, ERR_OK);
    assert_int_equal(v.port, 3);
    assert_int_equal(options_source(&o, offsetof(struct values, port)), OPTION_FROM_ALIAS);
    setenv("TENAX_T_PORT", "2", 1);
    assert_int_equal(PARSE(v, o).code, ERR_OK);
    assert_int_equal(v.port, 2);
    assert_int_equal(options_source(&o, offsetof(struct values, port)), OPTION_FROM_ENV);
    assert_int_equal(PARSE(v, o, "--port", "1").code, ERR_OK);
    assert_int_equal(v.port, 1);
    assert_int_equal(options_source(&o, offsetof(struct values, port)), OPTION_FROM_FLAG);
}

static void an_empty_variable_is_not_set(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    setenv("TENAX_T_PORT", "", 1);
    setenv("TENAX_T_NAME", "", 1);
    assert_int_equal(PARSE(v, o).code, ERR_OK);
    assert_int_equal(v.port, 7890);
    assert_null(v.name);
}

static void a_switch_can_be_turned_off_again(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    setenv("TENAX_T_LOUD", "yes", 1);
    assert_int_equal(PARSE(v, o).code, ERR_OK);
    assert_true(v.loud);
    assert_int_equal(PARSE(v, o, "--loud=false").code, ERR_OK);
    assert_false(v.loud);
}

static void a_switch_does_not_swallow_the_next_word(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(PARSE(v, o, "--loud", "word").code, ERR_OK);
    assert_int_equal(o.rest_count, 1);
    assert_string_equal(o.rest[0], "word");
}

static void words_and_options_may_be_mixed(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(PARSE(v, o, "a", "--port", "1", "-", "--", "--port", "b").code, ERR_OK);
    assert_int_equal(v.port, 1);
    assert_int_equal(o.rest_count, 4);
    assert_string_equal(o.rest[0], "a");
    assert_string_equal(o.rest[1], "-");
    assert_string_equal(o.rest[2], "--port");
    assert_string_equal(o.rest[3], "b");
}

static void the_first_word_can_end_the_options(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(
        parse_as(OPTIONS_FIRST, WORDS("--port", "1", "ls", "--port", "-l"), &v, &o).code, ERR_OK);
    assert_int_equal(v.port, 1);
    assert_int_equal(o.rest_count, 3);
    assert_string_equal(o.rest[1], "--port");
    assert_string_equal(o.rest[2], "-l");
    assert_null(o.rest[3]);
}

static void the_words_end_with_a_null_for_exec(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    struct err e =
        parse_as(OPTIONS_FIRST, WORDS("--loud", "--port", "1", "--", "sleep", "60"), &v, &o);
    assert_int_equal(e.code, ERR_OK);
    assert_int_equal(o.rest_count, 2);
    assert_string_equal(o.rest[0], "sleep");
    assert_string_equal(o.rest[1], "60");
    assert_null(o.rest[2]);
    assert_int_equal(PARSE(v, o, "--loud").code, ERR_OK);
    assert_null(o.rest[0]);
}

static void help_is_answered_although_a_variable_is_wrong(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    setenv("TENAX_T_PORT", "many", 1);
    assert_int_equal(PARSE(v, o, "--help").code, ERR_OK);
    assert_true(o.help);
    assert_int_equal(PARSE(v, o, "-h").code, ERR_OK);
    assert_true(o.help);
    assert_int_equal(PARSE(v, o, "--", "-h").code, ERR_USAGE);
}

static void an_unknown_option_comes_with_the_closest_one(void **state)
{
    (void)state;
    assert_refused("unknown option '--prot'; did you mean '--port'?", "--prot", "1");
    assert_refused("unknown option '--prio'; did you mean '--priority'?", "--prio=1");
    assert_refused("unknown option '--hlep'; did you mean '--help'?", "--hlep");
    assert_refused("unknown option '--zebra'", "--zebra");
    assert_refused("unknown option '-z'; options have two dashes, and a word that begins with one "
                   "goes after '--'",
                   "-z");
    assert_refused("unknown option '-loud'; options have two dashes, and a word that begins with "
                   "one goes after '--'",
                   "-loud");
}

static void a_letter_takes_its_value_in_each_way(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(PARSE(v, o, "-p", "8", "word", "-l").code, ERR_OK);
    assert_int_equal(v.port, 8);
    assert_true(v.loud);
    assert_int_equal(o.rest_count, 1);
    assert_int_equal(PARSE(v, o, "-p9").code, ERR_OK);
    assert_int_equal(v.port, 9);
    assert_int_equal(PARSE(v, o, "-p=10", "-").code, ERR_OK);
    assert_int_equal(v.port, 10);
    assert_string_equal(o.rest[0], "-");
    assert_int_equal(o.source[1], OPTION_FROM_FLAG);
    assert_refused("option '--port': it needs a value: --port PORT", "-p");
    assert_refused("option '--port': 'x' is not a whole number from 0 to 65535", "-px");
}

static void a_bad_value_is_named_with_what_is_accepted(void **state)
{
    (void)state;
    assert_refused("option '--port': '65536' is not a whole number from 0 to 65535", "--port",
                   "65536");
    assert_refused("option '--port': '99999999999999999999' is not a whole number from 0 to 65535",
                   "--port", "99999999999999999999");
    assert_refused("option '--port': '-1' is not a whole number from 0 to 65535", "--port", "-1");
    assert_refused("option '--port': '' is not a whole number from 0 to 65535", "--port", "");
    assert_refused("option '--port': '1x' is not a whole number from 0 to 65535", "--port=1x");
    assert_refused("option '--factor': 'nan' is not a number from 0 to 10", "--factor", "nan");
    assert_refused("option '--mode': 'fsnyc' is not one of fsync|buffered; did you mean 'fsync'?",
                   "--mode", "fsnyc");
    assert_refused("option '--loud': 'maybe' is not one of true, false, yes, no, on, off, 1, 0",
                   "--loud=maybe");
    assert_refused("option '--port': it needs a value: --port PORT", "--port");
    assert_refused("option '--port': it needs a value: --port PORT", "--port", "--loud");
    assert_refused("option '--port': '--lud' is not a whole number from 0 to 65535", "--port",
                   "--lud");
    setenv("ZIZQ_T_PORT", "x", 1);
    assert_refused("variable ZIZQ_T_PORT: 'x' is not a whole number from 0 to 65535");
}

static void a_bad_duration_or_size_names_its_option(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    struct err e = PARSE(v, o, "--wait", "soon");
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.msg, "option '--wait': "));
    assert_non_null(strstr(e.msg, "soon"));
    e = PARSE(v, o, "--size", "-1");
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.msg, "option '--size': "));
}

static void the_closest_word_is_a_prefix_or_two_slips_away(void **state)
{
    (void)state;
    assert_true(str_eq(options_closest("serv", "serve|work"), STR("serve")));
    assert_true(str_eq(options_closest("wrok", "serve|work"), STR("work")));
    assert_true(str_eq(options_closest("j", "jobs|job"), STR("")));
    assert_true(str_eq(options_closest("que", "jobs|queues"), STR("queues")));
    assert_true(str_eq(options_closest("something", "jobs|queues"), STR("")));
}

static void help_text_is_aligned_and_keeps_its_width(void **state)
{
    (void)state;
    struct buf b = {0};
    options_help(&b, defs, 60);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, "  --name NAME        a name [env: TENAX_T_NAME]\n"
                              "  -p, --port PORT    a port [default: 7890]\n"
                              "                     [env: TENAX_T_PORT]\n"
                              "  --factor NUMBER    a factor [default: 1.5]\n"
                              "  --wait DURATION    how long to wait [default: 15s]\n"
                              "  --size SIZE        how large [default: 16MiB]\n"
                              "  --mode MODE        how safe: fsync or buffered\n"
                              "                     [default: fsync]\n"
                              "  -l, --loud         say more [env: TENAX_T_LOUD]\n"
                              "  --priority NUMBER  how urgent\n"
                              "  --host NAME        a host\n"
                              "  -h, --help         show this text\n");
    buf_fini(&b);
}

static void markdown_has_a_row_for_each_option(void **state)
{
    (void)state;
    struct buf b = {0};
    options_markdown(&b, defs);
    buf_byte(&b, '\0');
    assert_non_null(strstr(b.at,
                           "| `-p, --port PORT` | `TENAX_T_PORT` | `ZIZQ_T_PORT` | `7890` | a "
                           "port |\n"));
    assert_non_null(strstr(b.at, "| `-l, --loud` | `TENAX_T_LOUD` |  | `off` | say more |\n"));
    assert_non_null(strstr(b.at, "| how safe: fsync or buffered |\n"));
    size_t rows = 0;
    for (size_t i = 0; i < b.len; i++)
        rows += b.at[i] == '\n';
    assert_int_equal(rows, 2 + 9);
    buf_fini(&b);
}

static void a_list_has_an_entry_for_each_time_its_flag_is_given(void **state)
{
    (void)state;
    struct values v;
    struct options o;
    assert_int_equal(PARSE(v, o, "--host", "a", "--port", "1", "--host=b").code, ERR_OK);
    assert_int_equal(v.hosts.count, 2);
    assert_string_equal(v.hosts.at[0], "a");
    assert_string_equal(v.hosts.at[1], "b");
    char *many[2 * OPTION_LIST_MAX + 4] = {"command"};
    for (int i = 0; i <= OPTION_LIST_MAX; i++) {
        many[2 * i + 1] = "--host";
        many[2 * i + 2] = "x";
    }
    struct err e = parse_as(OPTIONS_ANYWHERE, many, &v, &o);
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.msg, "--host"));
}

#define TEST(name) cmocka_unit_test_setup(name, forget_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_fill_what_nobody_gave),
        TEST(a_value_may_be_its_own_word_or_follow_an_equals_sign),
        TEST(a_flag_wins_over_a_variable_and_that_over_its_alias),
        TEST(an_empty_variable_is_not_set),
        TEST(a_switch_can_be_turned_off_again),
        TEST(a_switch_does_not_swallow_the_next_word),
        TEST(words_and_options_may_be_mixed),
        TEST(the_first_word_can_end_the_options),
        TEST(the_words_end_with_a_null_for_exec),
        TEST(help_is_answered_although_a_variable_is_wrong),
        TEST(an_unknown_option_comes_with_the_closest_one),
        TEST(a_letter_takes_its_value_in_each_way),
        TEST(a_bad_value_is_named_with_what_is_accepted),
        TEST(a_bad_duration_or_size_names_its_option),
        TEST(the_closest_word_is_a_prefix_or_two_slips_away),
        TEST(help_text_is_aligned_and_keeps_its_width),
        TEST(a_list_has_an_entry_for_each_time_its_flag_is_given),
        TEST(markdown_has_a_row_for_each_option),
    };
    return cmocka_run_group_tests_name("cli/options", tests, NULL, NULL);
}
