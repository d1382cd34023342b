/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies, failure categories and the settings of retrying are answered as values: as they
 * were at the request, whatever happens to them before the answer leaves. */

#include "contract_fixture.h"
#include "core/categorize.h"
#include "core/policy.h"

#define F struct fixture *f = *state

/* What was noted of a reply while it was valid. */
struct seen {
    unsigned came;
    struct err err;
    size_t count;
    struct {
        char name[8];
        uint64_t version;
        size_t rules;
        int64_t code; /* the first one of its first rule */
        bool message; /* its second rule matches "disk full" */
        bool broken;
    } at[4];
};

static const int64_t code_42[] = {42}, code_43[] = {43};

static struct policy_rule on_code(const int64_t *code)
{
    return (struct policy_rule){
        .match = {.exit_operator = MATCHER_IN, .exit_codes = code, .exit_code_count = 1},
        .action = POLICY_RETRY,
        .retry_limit = POLICY_NO_LIMIT};
}

static void on_policies(void *ctx, const struct reply *r)
{
    struct seen *s = ctx;
    s->came++;
    s->err = r->err;
    s->count = r->err.code == ERR_OK ? r->count : 0;
    assert_in_range(s->count, 0, 4);
    for (size_t i = 0; i < s->count; i++) {
        const struct resource_view *v = &r->resources[i];
        snprintf(s->at[i].name, sizeof s->at[i].name, "%.*s", STR_ARG(v->name));
        s->at[i].version = v->version;
        s->at[i].broken = v->broken.len > 0;
        if (!v->policy)
            continue;
        const struct policy_rule *rules = v->policy->rules;
        s->at[i].rules = v->policy->rule_count;
        s->at[i].code = rules[0].match.exit_codes[0];
        s->at[i].message =
            s->at[i].rules > 1 && str_eq(pattern_text(rules[1].match.message), STR("disk full"));
    }
}

static void send(struct fixture *f, struct command c, struct seen *to)
{
    *to = (struct seen){0};
    c.done = on_policies;
    c.ctx = to;
    backend_submit(f->b, &c);
    assert_int_equal(to->came, 0);
}

static void send_put(struct fixture *f, const char *name, const int64_t *code, struct seen *to)
{
    struct pattern *full;
    assert_ok(pattern_new(STR("disk full"), &full));
    const struct policy_rule rules[] = {
        on_code(code),
        {.match.message = full, .action = POLICY_RETRY, .retry_limit = POLICY_NO_LIMIT}};
    const struct policy policy = {.name = str_from(name),
                                  .retry_limit = POLICY_NO_LIMIT,
                                  .rules = rules,
                                  .rule_count = COUNT(rules)};
    send(f, (struct command){.kind = CMD_POLICY_PUT, .resource.policy = &policy}, to);
    pattern_free(full); /* it was borrowed for the call */
}

static void put(struct fixture *f, const char *name, const int64_t *code)
{
    struct seen s;
    send_put(f, name, code, &s);
    fixture_settle(f);
    assert_int_equal(s.came, 1);
    assert_ok(s.err);
}

static void assert_seen(const struct seen *s, size_t i, const char *name, uint64_t version,
                        int64_t code)
{
    assert_int_equal(s->came, 1);
    assert_ok(s->err);
    assert_in_range(i, 0, s->count - 1);
    assert_string_equal(s->at[i].name, name);
    assert_int_equal(s->at[i].version, version);
    assert_int_equal(s->at[i].rules, 2);
    assert_int_equal(s->at[i].code, code);
    assert_true(s->at[i].message);
    assert_false(s->at[i].broken);
}

static const struct command read_p = {.kind = CMD_POLICY_READ, .resource.name = {"p", 1}},
                            read_all = {.kind = CMD_POLICY_READ};

static void a_put_and_a_read_answer_the_policy_and_its_version(void **state)
{
    F;
    struct seen s;
    send_put(f, "p", code_42, &s);
    fixture_settle(f);
    assert_seen(&s, 0, "p", 1, 42);
    put(f, "a", code_43);
    send(f, read_p, &s);
    fixture_settle(f);
    assert_int_equal(s.count, 1);
    assert_seen(&s, 0, "p", 1, 42);
    fixture_restart(f);
    send(f, read_all, &s);
    fixture_settle(f);
    assert_int_equal(s.count, 2);
    assert_seen(&s, 0, "a", 2, 43); /* in the order of their names */
    assert_seen(&s, 1, "p", 1, 42);
}

static void a_read_shows_what_was_there_when_it_came(void **state)
{
    F;
    struct seen first, list, second, last, replaced;
    struct answer a = {0}, removed = {0};
    put(f, "p", code_42);
    fixture_hold(f, true);
    fixture_enqueue(f, "q", &a);
    fixture_turn(f); /* the disk is slow: the following turns wait */
    send(f, read_p, &first);
    send(f, read_all, &list);
    send_put(f, "p", code_43, &replaced);
    fixture_turn(f);
    send(f, read_p, &second);
    fixture_send(f, (struct command){.kind = CMD_POLICY_REMOVE, .resource.name = STR("p")},
                 &removed);
    fixture_turn(f);
    send(f, read_p, &last);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_seen(&first, 0, "p", 1, 42);
    assert_seen(&list, 0, "p", 1, 42);
    assert_seen(&replaced, 0, "p", 2, 43);
    assert_seen(&second, 0, "p", 2, 43);
    assert_code(last.err, ERR_NOT_FOUND);
}

static void a_read_outlives_that_the_clock_is_set_back(void **state)
{
    F;
    struct seen s;
    struct answer reset = {0};
    put(f, "p", code_42);
    send(f, read_p, &s);
    fixture_send(f, (struct command){.kind = CMD_CLOCK_RESET}, &reset);
    fixture_settle(f);
    assert_ok(reset.err);
    assert_seen(&s, 0, "p", 1, 42);
}

/* A backend that asks another machine has gathered nothing; one that has the policies here must say
 * what their answer will take, although it copies none of them. */
static void what_is_gathered_of_policies_grows_with_them(void **state)
{
    F;
    struct seen s;
    put(f, "p", code_42);
    uint64_t before = backend_gathered(f->b);
    send(f, read_all, &s);
    uint64_t one = backend_gathered(f->b) - before;
    fixture_settle(f);
    put(f, "q", code_43);
    put(f, "r", code_43);
    before = backend_gathered(f->b);
    send(f, read_all, &s);
    uint64_t three = backend_gathered(f->b) - before;
    fixture_settle(f);
    assert_int_equal(s.count, 3);
    if (one) /* the text of each has over 200 bytes */
        assert_true(one > 200 && three > one + 400);
}

/* --- failure categories --- */

static void on_categories(void *ctx, const struct reply *r)
{
    unsigned *good = ctx;
    const struct resource_view *v = r->resources;
    assert_ok(r->err);
    assert_int_equal(r->count, 1);
    assert_true(str_eq(v->name, STR("c")));
    assert_int_equal(v->version, 1);
    assert_int_equal(v->categories->rule_count, 1);
    assert_true(str_eq(v->categories->rules[0].category, STR("full")));
    ++*good;
}

static void failure_categories_are_answered_likewise(void **state)
{
    F;
    unsigned good = 0;
    const struct categorize_rule rules[] = {
        {.match = on_code(code_42).match, .category = STR("full")}};
    const struct categorizer c = {.name = STR("c"), .rules = rules, .rule_count = 1};
    const struct command put = {.kind = CMD_CATEGORIES_PUT,
                                .resource.categories = &c,
                                .done = on_categories,
                                .ctx = &good},
                         read = {.kind = CMD_CATEGORIES_READ, .done = on_categories, .ctx = &good};
    backend_submit(f->b, &put);
    backend_submit(f->b, &read);
    fixture_settle(f);
    fixture_restart(f);
    backend_submit(f->b, &read);
    fixture_settle(f);
    assert_int_equal(good, 3);
}

/* --- settings --- */

struct settings_seen {
    unsigned came;
    struct err err;
    struct policy_settings now; /* without texts */
    char default_policy[8], by[8];
    bool changed, default_missing;
    int64_t at, from, to; /* of the last change: globalMaxRetries before and after */
};

static void on_settings(void *ctx, const struct reply *r)
{
    struct settings_seen *s = ctx;
    const struct policy_settings_view *v = r->retry_settings;
    s->came++;
    s->err = r->err;
    if (r->err.code != ERR_OK)
        return;
    s->now = v->settings;
    s->default_missing = v->default_missing;
    snprintf(s->default_policy, sizeof s->default_policy, "%.*s",
             STR_ARG(v->settings.default_policy));
    s->changed = v->last != NULL;
    if (!v->last)
        return;
    snprintf(s->by, sizeof s->by, "%.*s", STR_ARG(v->last->by));
    s->at = v->last->at.ms;
    assert_int_equal(v->last->from.set & v->last->to.set & POLICY_SET_MAX, POLICY_SET_MAX);
    s->from = v->last->from.to.global_max_retries;
    s->to = v->last->to.to.global_max_retries;
}

static void send_settings(struct fixture *f, const struct policy_change *change, const char *by,
                          struct settings_seen *to)
{
    struct command c = {.kind = change ? CMD_RETRY_SETTINGS_PUT : CMD_RETRY_SETTINGS_READ};
    *to = (struct settings_seen){0};
    if (change)
        c.retry_settings =
            (struct retry_settings_command){.change = change, .by = str_from(by), .ahead = true};
    c.done = on_settings;
    c.ctx = to;
    backend_submit(f->b, &c);
}

static void settings_are_answered_with_their_last_change(void **state)
{
    F;
    struct settings_seen s;
    send_settings(f, NULL, "", &s);
    fixture_settle(f);
    assert_int_equal(s.now.global_max_retries, POLICY_GLOBAL_MAX);
    assert_false(s.changed || s.default_missing);
    const struct policy_change seven = {POLICY_SET_MAX, {.global_max_retries = 7}},
                               named = {POLICY_SET_MAX | POLICY_SET_DEFAULT,
                                        {.global_max_retries = 8, .default_policy = STR("p")}};
    send_settings(f, &seven, "ann", &s);
    fixture_settle(f);
    assert_int_equal(s.came, 1);
    assert_int_equal(s.now.global_max_retries, 7);
    assert_string_equal(s.by, "ann");
    assert_int_equal(s.from, POLICY_GLOBAL_MAX);
    assert_int_equal(s.to, 7);
    send_settings(f, &named, "bob", &s);
    fixture_settle(f);
    assert_string_equal(s.default_policy, "p");
    assert_true(s.default_missing);
    int64_t at = s.at;
    put(f, "p", code_42);
    fixture_restart(f);
    send_settings(f, NULL, "", &s);
    fixture_settle(f);
    assert_string_equal(s.default_policy, "p");
    assert_false(s.default_missing);
    assert_string_equal(s.by, "bob");
    assert_int_equal(s.at, at);
    assert_int_equal(s.from, 7);
    assert_int_equal(s.to, 8);
}

static void settings_that_were_read_stay_as_they_were(void **state)
{
    F;
    struct settings_seen read, put_first, put_second;
    struct answer a = {0};
    const struct policy_change first = {POLICY_SET_DEFAULT, {.default_policy = STR("one")}},
                               second = {POLICY_SET_DEFAULT, {.default_policy = STR("two")}};
    fixture_hold(f, true);
    fixture_enqueue(f, "q", &a);
    fixture_turn(f);
    send_settings(f, &first, "ann", &put_first);
    send_settings(f, NULL, "", &read);
    send_settings(f, &second, "bob", &put_second);
    fixture_turn(f);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_string_equal(put_first.default_policy, "one");
    assert_string_equal(read.default_policy, "one");
    assert_string_equal(read.by, "ann");
    assert_string_equal(put_second.default_policy, "two");
    assert_string_equal(put_second.by, "bob");
}

int contract_policies(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_put_and_a_read_answer_the_policy_and_its_version),
        FIXTURE_TEST(a_read_shows_what_was_there_when_it_came),
        FIXTURE_TEST(a_read_outlives_that_the_clock_is_set_back),
        FIXTURE_TEST(what_is_gathered_of_policies_grows_with_them),
        FIXTURE_TEST(failure_categories_are_answered_likewise),
        FIXTURE_TEST(settings_are_answered_with_their_last_change),
        FIXTURE_TEST(settings_that_were_read_stay_as_they_were),
    };
    return cmocka_run_group_tests_name("retry policies", tests, NULL, NULL);
}
