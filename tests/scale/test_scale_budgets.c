/* SPDX-License-Identifier: Apache-2.0 */

/* Very many jobs that wait for tokens: a token that comes back costs no more than the job that
 * gets it. */

#include "steps.h"

#include "core/budgets.h"

#define MANY 100000
#define SOME 3000 /* where each of them takes long to set up */

static const struct budget_create one = {STR("b"), {.allocation = 1}};
static const struct budget_create wide = {STR("b"), {.allocation = MANY}};

static void draw(struct enqueue *spec, const struct budget_create *create)
{
    spec->options.budgets = STR("1:b");
    spec->budget_creates = create;
    spec->budget_create_count = 1;
}

static void alike(struct enqueue *spec, char *text, size_t i)
{
    (void)text, (void)i;
    draw(spec, &one);
}

static void in_queues(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "q%zu", i);
    spec->queue = str_from(text);
    draw(spec, &one);
}

/* The first of them leaves no tokens to the others. */
static void by_cost(struct enqueue *spec, char *text, size_t i)
{
    draw(spec, &wide);
    snprintf(text, STEPS_TEXT, "%zu:b", MANY - i);
    spec->options.budgets = str_from(text);
}

/* --- what is measured --- */

static void check(struct yard *y, const char *what, struct command c, struct answer *a)
{
    steps_assert_few(steps_of(y, what, c, a));
}

static void check_job(struct yard *y, struct id id)
{
    struct answer a;
    check(y, "read", (struct command){.kind = CMD_READ, .read = {id}}, &a);
    check(y, "explain", (struct command){.kind = CMD_EXPLAIN, .id = id}, &a);
    struct patch patch = {.set = PATCH_PRIORITY, .priority = 1};
    check(y, "patch", (struct command){.kind = CMD_PATCH, .patch = {.id = id, .patch = &patch}},
          &a);
    check(y, "cancel", (struct command){.kind = CMD_CANCEL, .id = id}, &a);
    check(y, "rerun", (struct command){.kind = CMD_RERUN, .rerun = {id}}, &a);
    check(y, "remove", (struct command){.kind = CMD_REMOVE, .id = id}, &a);
}

static void check_others(struct yard *y)
{
    struct answer a;
    struct enqueue spec = yard_spec("q");
    draw(&spec, &one);
    check(y, "enqueue", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct command peek = {.kind = CMD_PEEK, .peek = {.queue = STR("q"), .limit = 10}};
    check(y, "peek", peek, &a);
    struct command budget = {.kind = CMD_BUDGET_READ, .budget = {.key = STR("b")}};
    check(y, "a budget", budget, &a);
    struct command queue = {.kind = CMD_QUEUE_READ, .queue = {.name = STR("q")}};
    check(y, "a queue", queue, &a);
}

/* Each success brings its tokens back, and the next job gets them. */
static void check_releases(struct yard *y, struct stream *w)
{
    struct answer a;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(w->count, i + 1);
        struct command c = {.kind = CMD_SUCCEED, .run = {.id = w->ids[i], .vouched = true}};
        struct steps s = steps_of(y, "succeed", c, &a);
        steps_assert_few(s);
        steps_assert_few(steps_of_turns(y, "what that releases", 4));
    }
}

/* --- the scenes --- */

static void play_parked(struct yard *y, size_t n)
{
    struct stream w = {0};
    struct id last = steps_add_jobs(y, n, alike);
    yard_stream(y, "q", 100, &w);
    yard_settle(y);
    check_releases(y, &w);
    check_others(y);
    check_job(y, last);
}

static void play_queues(struct yard *y, size_t n)
{
    struct stream w = {0};
    struct id last = steps_add_jobs(y, n, in_queues);
    yard_stream(y, NULL, 100, &w);
    for (size_t i = 0; i <= n / 100; i++) /* each turn parks some hundreds of them */
        yard_settle(y);
    check_releases(y, &w);
    check_others(y);
    check_job(y, last);
}

static void play_costs(struct yard *y, size_t n)
{
    steps_allow(200000); /* the oldest job is looked for in the first thousand lines */
    struct stream w = {0};
    struct id last = steps_add_jobs(y, n, by_cost);
    yard_stream(y, "q", 100, &w);
    for (size_t i = 0; i <= n / 100; i++)
        yard_settle(y);
    check_releases(y, &w);
    check_others(y);
    check_job(y, last);
}

/* Claims that wait for a job which has no tokens. */
static void play_waiters(struct yard *y, size_t n)
{
    struct answer *waiting = test_calloc(n, sizeof *waiting);
    struct stream w = {0};
    steps_add_jobs(y, STEPS_FEW, alike);
    yard_stream(y, "q", 1, &w);
    yard_settle(y);
    for (size_t i = 0; i < n; i++)
        yard_claim(y, "q", 1, (span){3600000}, &waiting[i]);
    yard_settle(y);
    assert_int_equal(w.count, 1);
    struct answer a;
    check(y, "succeed",
          (struct command){.kind = CMD_SUCCEED, .run = {.id = w.ids[0], .vouched = true}}, &a);
    steps_assert_few(steps_of_turns(y, "what that releases", 4));
    check_others(y);
    test_free(waiting);
}

#define SCENE(name, many)                                                                          \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        steps_compare(play_##name, many);                                                          \
    }
SCENE(parked, MANY)
SCENE(queues, SOME)
SCENE(costs, SOME)
SCENE(waiters, SOME)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parked),
        cmocka_unit_test(queues),
        cmocka_unit_test(costs),
        cmocka_unit_test(waiters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
