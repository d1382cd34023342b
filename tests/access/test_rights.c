/* SPDX-License-Identifier: Apache-2.0 */
#include "access/rights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#define BIT(right) (1u << RIGHT_##right)

static const struct operation *find(const char *name)
{
    const struct operation *op = rights_find(RIGHTS_JOBS, name);
    assert_non_null(op);
    return op;
}

static enum err_code may(enum role role, const char *name)
{
    const struct rights who = {.set = rights_of_role(role)};
    return rights_check(&who, find(name)).code;
}

/* By hand, so that it can disagree with the table. */
static void each_role_may_do_what_it_is_for(void **state)
{
    static const struct {
        const char *operation;
        bool viewer, producer, worker, operator, admin;
    } rows[] = {
        {"getLanding", true, true, true, true, true},
        {"getHealth", true, true, true, true, true},
        {"getVersion", true, true, true, true, true},
        {"getRights", true, true, true, true, true},
        {"getJob", true, true, true, true, true},
        {"listJobs", true, true, true, true, true},
        {"streamEvents", true, true, true, true, true},
        {"getMetrics", true, true, true, true, true},
        {"enqueueJob", false, true, false, true, true},
        {"enqueueJobs", false, true, false, true, true},
        {"takeJobs", false, false, true, true, true},
        {"claimJobs", false, false, true, true, true},
        {"reportSuccess", false, false, true, true, true},
        {"renewLease", false, false, true, true, true},
        {"cancelJob", false, false, false, true, true},
        {"deleteJobs", false, false, false, true, true},
        {"putQueue", false, false, false, true, true},
        {"putRetrySettings", false, false, false, true, true},
        {"putCronGroup", false, false, false, true, true},
        {"reset", false, false, false, false, true},
        {"resetClock", false, false, false, false, true},
        {"makeBackup", false, false, false, false, true},
        {"createToken", false, false, false, false, true},
        {"listTokens", false, false, false, false, true},
        {"deleteToken", false, false, false, false, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool expected[ROLE_COUNT] = {rows[i].viewer, rows[i].producer, rows[i].worker,
                                           rows[i].operator, rows[i].admin };
        for (int r = 0; r < ROLE_COUNT; r++)
            assert_int_equal(may((enum role)r, rows[i].operation),
                             expected[r] ? ERR_OK : ERR_NO_RIGHT);
    }
}

static void no_operation_is_named_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < rights_operation_count; i++) {
        const struct operation *op = &rights_operations[i];
        assert_ptr_equal(rights_find(op->front, op->name), op);
    }
    assert_null(rights_find(RIGHTS_JOBS, "claimWork"));
    assert_non_null(rights_find(RIGHTS_QUEUE, "claimWork"));
}

static void an_admin_may_do_everything_and_only_an_admin(void **state)
{
    (void)state;
    const struct rights admin = {.set = rights_of_role(ROLE_ADMIN)};
    const struct rights rest = {.set = rights_of_role(ROLE_OPERATOR)};
    bool differs = false;
    for (size_t i = 0; i < rights_operation_count; i++) {
        assert_int_equal(rights_check(&admin, &rights_operations[i]).code, ERR_OK);
        differs |= rights_check(&rest, &rights_operations[i]).code != ERR_OK;
    }
    assert_true(differs);
}

static void nobody_may_do_only_what_needs_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < rights_operation_count; i++) {
        const struct operation *op = &rights_operations[i];
        assert_int_equal(rights_check(NULL, op).code,
                         op->right == RIGHT_NONE ? ERR_OK : ERR_UNIDENTIFIED);
    }
    assert_int_equal(find("getHealth")->right, RIGHT_NONE);
    assert_int_equal(find("getLanding")->right, RIGHT_NONE);
}

static void a_refusal_says_what_is_missing(void **state)
{
    (void)state;
    const struct rights viewer = {.set = rights_of_role(ROLE_VIEWER)};
    struct err err = rights_check(&viewer, find("enqueueJob"));
    assert_non_null(strstr(err.msg, "'enqueue'"));
}

static void limits_of_queues_hold(void **state)
{
    (void)state;
    const struct str patterns[] = {STR("mail-*"), STR("x")};
    const struct rights who = {rights_of_role(ROLE_OPERATOR), {patterns, 2}};
    assert_int_equal(rights_check(&who, find("listJobs")).code, ERR_OK);
    assert_int_equal(rights_check(&who, find("getRetrySettings")).code, ERR_OK);
    assert_int_equal(rights_check(&who, find("putRetryPolicy")).code, ERR_NO_RIGHT);
    assert_int_equal(rights_queue(&who, STR("mail-in")).code, ERR_OK);
    assert_int_equal(rights_queue(&who, STR("x")).code, ERR_OK);
    assert_int_equal(rights_queue(&who, STR("mail")).code, ERR_NO_RIGHT);
    assert_int_equal(rights_queue(&who, STR("xx")).code, ERR_NO_RIGHT);
    assert_int_equal(rights_queue(&rights_all, STR("anything")).code, ERR_OK);
}

static enum err_code hands_on(const struct rights *who, const char *scope)
{
    return rights_scope(who, str_from(scope)).code;
}

static void scopes_of_this_server_are_handed_on_by_who_has_them_all(void **state)
{
    (void)state;
    static const char *const own[] = {"*",
                                      "q*",
                                      "queue:*",
                                      "assume*",
                                      "queue:x",
                                      "auth:create-client:x",
                                      "object:upload:p:n",
                                      "assume:scheduler-id:s*"};
    static const char *const others[] = {"",  "queue", "queues:x", "secrets:get:*", "assume:repo:x",
                                         "x*"};
    struct str some[] = {STR("a/*")};
    struct rights producer = {.set = rights_of_role(ROLE_PRODUCER)};
    struct rights operator= {.set = rights_of_role(ROLE_OPERATOR)}, limited = operator;
    limited.queues = (struct glob_list){some, 1};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        assert_int_equal(hands_on(&producer, own[i]), ERR_NO_RIGHT);
        assert_int_equal(hands_on(&limited, own[i]), ERR_NO_RIGHT);
        assert_int_equal(hands_on(&operator, own[i]), ERR_OK);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(hands_on(&producer, others[i]), ERR_OK);
    assert_int_equal(rights_type(&producer, STR(RIGHTS_TASK_TYPE)).code, ERR_NO_RIGHT);
    assert_int_equal(rights_type(&limited, STR(RIGHTS_TASK_TYPE)).code, ERR_NO_RIGHT);
    assert_int_equal(rights_type(&operator, STR(RIGHTS_TASK_TYPE)).code, ERR_OK);
    assert_int_equal(rights_type(&producer, STR("mail")).code, ERR_OK);
}

static void patterns_are_checked(void **state)
{
    (void)state;
    char longest[RIGHTS_PATTERN_LEN_MAX + 1];
    memset(longest, 'a', sizeof longest);
    assert_int_equal(rights_pattern_check((struct str){longest, sizeof longest - 1}).code, ERR_OK);
    assert_int_equal(rights_pattern_check((struct str){longest, sizeof longest}).code,
                     ERR_BAD_VALUE);
    assert_int_equal(rights_pattern_check(STR("")).code, ERR_BAD_VALUE);
    assert_int_equal(rights_pattern_check(STR("a,b")).code, ERR_BAD_VALUE);
    assert_int_equal(rights_pattern_check(STR("a\nb")).code, ERR_BAD_VALUE);
    assert_int_equal(rights_pattern_check(STR("*")).code, ERR_OK);
}

static void roles_have_names(void **state)
{
    (void)state;
    enum role r;
    for (int i = 0; i < ROLE_COUNT; i++) {
        assert_true(rights_role_parse(str_from(rights_role_word((enum role)i)), &r));
        assert_int_equal(r, i);
        assert_true(rights_of_role(r) & BIT(SEE));
    }
    assert_false(rights_role_parse(STR("root"), &r));
    assert_false(rights_role_parse(STR(""), &r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_role_may_do_what_it_is_for),
        cmocka_unit_test(no_operation_is_named_twice),
        cmocka_unit_test(an_admin_may_do_everything_and_only_an_admin),
        cmocka_unit_test(nobody_may_do_only_what_needs_nothing),
        cmocka_unit_test(a_refusal_says_what_is_missing),
        cmocka_unit_test(limits_of_queues_hold),
        cmocka_unit_test(scopes_of_this_server_are_handed_on_by_who_has_them_all),
        cmocka_unit_test(patterns_are_checked),
        cmocka_unit_test(roles_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
