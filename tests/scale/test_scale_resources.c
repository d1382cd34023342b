/* SPDX-License-Identifier: Apache-2.0 */

/* Very many resources: cron entries and retry policies, whose number is limited, and queues with
 * settings, whose number is not. */

#include "steps.h"

#include "core/crons.h"
#include "policy/policies.h"
#include "policy/policy_document.h"

#define MANY 100000

static void check(struct yard *y, const char *what, struct command c, struct answer *a)
{
    steps_assert_few(steps_of(y, what, c, a));
}

/* --- crons --- */

static struct cron_spec entry(char *text, size_t i, const char *expression)
{
    snprintf(text, STEPS_TEXT, "e%zu", i);
    return (struct cron_spec){
        .name = str_from(text), .expression = str_from(expression), .job = yard_spec("q")};
}

static struct steps put_group(struct yard *y, size_t group, size_t entries)
{
    struct answer a;
    char name[STEPS_TEXT], texts[CRON_GROUP_ENTRIES_MAX][STEPS_TEXT];
    struct cron_spec *specs = test_calloc(entries, sizeof *specs);
    snprintf(name, sizeof name, "g%zu", group);
    for (size_t i = 0; i < entries; i++)
        specs[i] = entry(texts[i], i, "0 12 1 1 *");
    struct command c = {
        .kind = CMD_CRON_PUT,
        .cron_put = {.group = str_from(name), .entries = specs, .count = entries, .whole = true}};
    struct steps s = steps_of(y, NULL, c, &a);
    test_free(specs);
    return s;
}

static struct command put_one(const char *group, const struct cron_spec *spec)
{
    return (struct command){.kind = CMD_CRON_PUT,
                            .cron_put = {.group = str_from(group), .entries = spec, .count = 1}};
}

static void check_crons(struct yard *y)
{
    struct answer a;
    char text[STEPS_TEXT];
    struct cron_spec spec = entry(text, 0, "0 12 1 2 *");
    check(y, "put another time", put_one("g0", &spec), &a);
    spec = entry(text, 5000, "0 12 1 2 *");
    check(y, "put an entry", put_one("g0", &spec), &a);
    spec = entry(text, 0, "* * * * *");
    check(y, "put a group", put_one("new", &spec), &a);
    struct cron_command about = {.group = STR("g0"), .entry = STR("e0")};
    check(y, "read an entry", (struct command){.kind = CMD_CRON_READ, .cron = about}, &a);
    about.to = CRON_PAUSE;
    check(y, "pause an entry", (struct command){.kind = CMD_CRON_SWITCH, .cron = about}, &a);
    y->now.ms += 60000;
    struct steps s = steps_of_turns(y, "a tick", 4);
    assert_in_range(s.reads, 1, 100);
    check(y, "remove an entry", (struct command){.kind = CMD_CRON_REMOVE, .cron = about}, &a);
    about.entry = (struct str){0};
    about.group = STR("new");
    check(y, "remove a group", (struct command){.kind = CMD_CRON_REMOVE, .cron = about}, &a);
}

/* The maximum number of groups. */
static void play_cron_groups(struct yard *y, size_t n)
{
    for (size_t g = 0; g < n; g++)
        put_group(y, g, STEPS_FEW);
    check_crons(y);
}

/* The maximum number of entries, a thousand in each group. */
static void play_cron_entries(struct yard *y, size_t n)
{
    size_t groups = (n + CRON_GROUP_ENTRIES_MAX - 1) / CRON_GROUP_ENTRIES_MAX;
    for (size_t g = 0; g < groups; g++)
        put_group(y, g, n / groups);
    check_crons(y);
}

/* A command about a whole group does a fixed amount of work per entry, however many there are. */
static void whole_groups_take_their_entries(void **state)
{
    struct yard *y = *state;
    uint64_t few = put_group(y, 0, STEPS_FEW).blocks / STEPS_FEW;
    uint64_t each = put_group(y, 1, CRON_GROUP_ENTRIES_MAX).blocks / CRON_GROUP_ENTRIES_MAX;
    assert_in_range(each, 0, 2 * few);
    each = put_group(y, 1, CRON_GROUP_ENTRIES_MAX).blocks / CRON_GROUP_ENTRIES_MAX; /* again */
    assert_in_range(each, 0, 2 * few);
    struct cron_command about = {.group = STR("g1")};
    struct answer a;
    struct steps s = steps_of(y, NULL, (struct command){.kind = CMD_CRON_READ, .cron = about}, &a);
    assert_in_range(s.blocks / CRON_GROUP_ENTRIES_MAX, 0, 2 * few);
    s = steps_of(y, NULL, (struct command){.kind = CMD_CRON_REMOVE, .cron = about}, &a);
    assert_in_range(s.blocks / CRON_GROUP_ENTRIES_MAX, 0, 2 * few);
}

/* --- policies --- */

static void put_policy(struct yard *y, const char *what, size_t i)
{
    struct answer a;
    char text[STEPS_TEXT];
    snprintf(text, sizeof text, "p%zu", i);
    struct policy policy = {.name = str_from(text), .default_action = POLICY_RETRY};
    struct command c = {.kind = CMD_POLICY_PUT, .resource.policy = &policy};
    check(y, what, c, &a);
}

static void play_policies(struct yard *y, size_t n)
{
    struct answer a;
    for (size_t i = 0; i < n; i++)
        put_policy(y, NULL, i);
    struct command about = {.kind = CMD_POLICY_READ, .resource.name = STR("p5")};
    check(y, "read", about, &a);
    put_policy(y, "put again", 5);
    struct command settings = {.kind = CMD_QUEUE_PUT,
                               .queue = {.name = STR("q"),
                                         .set = QUEUE_POLICIES,
                                         .settings = QUEUE_SETTINGS_DEFAULT,
                                         .retry_policies = STR("p5,p6")}};
    check(y, "policies of a queue", settings, &a);
    yard_add(y, "q");
    yard_claim(y, "q", 1, (span){0}, &(struct answer){0});
    yard_settle(y);
    about.kind = CMD_POLICY_REMOVE;
    about.resource.name = STR("p7");
    check(y, "remove", about, &a);
    put_policy(y, "put", 7);
}

/* --- queues --- */

static void set_up_queue(struct yard *y, const char *what, size_t i)
{
    char text[STEPS_TEXT];
    struct answer a;
    snprintf(text, sizeof text, "q%zu", i);
    struct command c = {.kind = CMD_QUEUE_PUT,
                        .queue = {.name = str_from(text),
                                  .set = QUEUE_CONCURRENCY | QUEUE_POLICIES,
                                  .settings = QUEUE_SETTINGS_DEFAULT,
                                  .retry_policies = STR("p0")}};
    c.queue.settings.concurrency = 3;
    check(y, what, c, &a);
}

static void play_queues(struct yard *y, size_t n)
{
    struct answer a;
    put_policy(y, NULL, 0);
    put_policy(y, NULL, 1);
    for (size_t i = 0; i + 1 < n; i++)
        set_up_queue(y, NULL, i);
    set_up_queue(y, "put a queue", n);
    check(y, "read a queue", (struct command){.kind = CMD_QUEUE_READ, .queue = {.name = STR("q5")}},
          &a);
    check(y, "a page of queues", (struct command){.kind = CMD_QUEUE_LIST, .queue = {.limit = 10}},
          &a);
    check(y, "status", (struct command){.kind = CMD_STATUS}, &a);
    check(y, "remove a queue",
          (struct command){.kind = CMD_QUEUE_REMOVE, .queue = {.name = STR("q5")}}, &a);
    check(y, "remove a policy",
          (struct command){.kind = CMD_POLICY_REMOVE, .resource.name = STR("p1")}, &a);
    struct enqueue spec = yard_spec("new");
    check(y, "enqueue", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
}

/* Half of the queues are removed and come back under other names. */
static void play_queues_that_come_and_go(struct yard *y, size_t n)
{
    struct answer a;
    char text[STEPS_TEXT];
    put_policy(y, NULL, 0);
    for (size_t i = 0; i < n; i++)
        set_up_queue(y, NULL, i);
    for (size_t i = 0; i < n / 2; i++) {
        snprintf(text, sizeof text, "q%zu", i);
        struct command c = {.kind = CMD_QUEUE_REMOVE, .queue = {.name = str_from(text)}};
        check(y, NULL, c, &a);
    }
    for (size_t i = 0; i < 5; i++)
        set_up_queue(y, "put a queue", n + i);
}

/* --- budgets --- */

static struct command put_budget(const char *key, uint32_t allocation)
{
    return (struct command){.kind = CMD_BUDGET_PUT,
                            .budget = {.key = str_from(key),
                                       .how = BUDGET_REPLACE,
                                       .policy = {.allocation = allocation}}};
}

static void bound_to_one(struct enqueue *spec, char *text, size_t i)
{
    (void)text, (void)i;
    spec->options.budgets = STR("1:b0");
}

static void bound_each(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "1:b%zu", i);
    spec->options.budgets = str_from(text);
}

static void check_budgets(struct yard *y, struct id waits, struct id runs)
{
    struct answer a;
    const struct budget_command one = {.key = STR("b0")};
    check(y, "read", (struct command){.kind = CMD_READ, .read = {waits}}, &a);
    /* The jobs before it are counted, up to this number, line by line. */
    steps_allow(80 * EXPLAIN_AHEAD_MAX);
    check(y, "explain", (struct command){.kind = CMD_EXPLAIN, .id = waits}, &a);
    steps_allow(STEPS_SLACK);
    check(y, "read a budget", (struct command){.kind = CMD_BUDGET_READ, .budget = one}, &a);
    check(y, "put a budget", put_budget("b0", 1), &a);
    struct enqueue spec = yard_spec("q");
    bound_to_one(&spec, NULL, 0);
    check(y, "enqueue", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct patch patch = {.set = PATCH_PRIORITY, .priority = 1};
    check(y, "patch", (struct command){.kind = CMD_PATCH, .patch = {.id = waits, .patch = &patch}},
          &a);
    check(y, "cancel", (struct command){.kind = CMD_CANCEL, .id = waits}, &a);
    check(y, "succeed", (struct command){.kind = CMD_SUCCEED, .run = {.id = runs, .vouched = true}},
          &a);
    steps_of_turns(y, "tokens come back", 4);
    check(y, "remove", (struct command){.kind = CMD_REMOVE, .id = waits}, &a);
}

/* All wait for the tokens of one budget, which has one. */
static void play_waiters_of_a_budget(struct yard *y, size_t n)
{
    struct answer a, taken = {0};
    steps_of(y, NULL, put_budget("b0", 1), &a);
    struct id last = steps_add_jobs(y, n, bound_to_one);
    yard_claim(y, "q", 10, (span){0}, &taken);
    yard_settle(y);
    yard_settle(y);
    assert_int_equal(taken.count, 1);
    check_budgets(y, last, taken.ids[0]);
}

/* Each job waits for its own. */
static void play_budgets(struct yard *y, size_t n)
{
    struct answer a, taken = {0};
    char text[STEPS_TEXT];
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "b%zu", i);
        steps_of(y, NULL, put_budget(text, 1), &a);
    }
    struct id last = steps_add_jobs(y, n, bound_each);
    yard_claim(y, "q", 1, (span){0}, &taken);
    yard_settle(y);
    assert_int_equal(taken.count, 1);
    check_budgets(y, last, taken.ids[0]);
}

static void budgets(void **state)
{
    (void)state;
    steps_compare(play_budgets, BUDGETS_MAX_DEFAULT);
}

static void cron_groups(void **state)
{
    (void)state;
    steps_compare(play_cron_groups, CRON_GROUPS_MAX - 1);
}

static void cron_entries(void **state)
{
    (void)state;
    steps_compare(play_cron_entries, CRON_ENTRIES_MAX - STEPS_FEW);
}

static void policies(void **state)
{
    (void)state;
    steps_compare(play_policies, POLICIES_MAX);
}

#define SCENE(name)                                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        steps_compare(play_##name, MANY);                                                          \
    }
SCENE(waiters_of_a_budget)
SCENE(queues)
SCENE(queues_that_come_and_go)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cron_groups),
        cmocka_unit_test(cron_entries),
        STEPS_TEST(whole_groups_take_their_entries),
        cmocka_unit_test(policies),
        cmocka_unit_test(budgets),
        cmocka_unit_test(waiters_of_a_budget),
        cmocka_unit_test(queues),
        cmocka_unit_test(queues_that_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
