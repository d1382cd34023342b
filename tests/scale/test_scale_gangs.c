/* SPDX-License-Identifier: Apache-2.0 */

/* Very many gangs: none of them affects the cost of another. */

#include "steps.h"

#define MANY 100000

/* --- gangs --- */

#define SIZE 2

static void gang_of(struct enqueue *spec, char *text, size_t number, uint64_t size)
{
    snprintf(text, STEPS_TEXT, "g%zu", number);
    spec->options.gang = str_from(text);
    spec->options.gang_size = size;
}

static void complete(struct enqueue *spec, char *text, size_t i)
{
    gang_of(spec, text, i / SIZE, SIZE);
}

static void incomplete(struct enqueue *spec, char *text, size_t i)
{
    gang_of(spec, text, i / SIZE, SIZE + 1);
}

/* Each in a queue of its own, so that no two of them are alike. */
static void apart(struct enqueue *spec, char *text, size_t i)
{
    complete(spec, text, i);
    spec->queue = spec->options.gang;
}

static void check(struct yard *y, const char *what, struct command c, struct answer *a)
{
    steps_assert_few(steps_of(y, what, c, a));
}

static void enqueue_member(struct yard *y, const char *what, const char *gang, uint64_t size)
{
    struct answer a;
    struct enqueue spec = yard_spec("q");
    spec.options.gang = str_from(gang);
    spec.options.gang_size = size;
    check(y, what, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
}

static void check_member(struct yard *y, struct id id)
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

static void claim(struct yard *y, const char *what, const char *queue, uint32_t count,
                  struct answer *a)
{
    *a = (struct answer){0};
    yard_claim(y, queue, count, (span){0}, a);
    struct steps s = steps_of_turns(y, what, 4);
    assert_int_equal(a->came, 1);
    steps_assert_few(s);
}

/* --- the scenes --- */

static void play_gangs(struct yard *y, size_t n)
{
    struct answer taken, a;
    struct id last = steps_add_jobs(y, n * SIZE, complete);
    claim(y, "a claim without room", "q", 1, &a);
    assert_int_equal(a.count, 0);
    claim(y, "a claim", "q", SIZE, &taken);
    assert_int_equal(taken.count, SIZE);
    check(y, "fail",
          (struct command){
              .kind = CMD_FAIL,
              .fail = {.ref = {.id = taken.ids[0], .vouched = true}, .retry_at = INSTANT_NONE}},
          &a);
    claim(y, "a claim of the next", "q", SIZE, &taken);
    check(y, "succeed",
          (struct command){.kind = CMD_SUCCEED, .run = {.id = taken.ids[0], .vouched = true}}, &a);
    check(y, "release",
          (struct command){.kind = CMD_RELEASE, .run = {.id = taken.ids[1], .vouched = true}}, &a);
    enqueue_member(y, "one of a new gang", "new", 2);
    check_member(y, last);
}

static void play_incomplete_gangs(struct yard *y, size_t n)
{
    struct answer a;
    struct id last = steps_add_jobs(y, n * SIZE, incomplete);
    claim(y, "a claim of none", "q", 10, &a);
    assert_int_equal(a.count, 0);
    enqueue_member(y, "the last member", "g5", SIZE + 1);
    claim(y, "a claim", "q", SIZE + 1, &a);
    assert_int_equal(a.count, SIZE + 1);
    check_member(y, last);
}

static void play_gangs_apart(struct yard *y, size_t n)
{
    struct answer a;
    struct id last = steps_add_jobs(y, n * SIZE, apart);
    yard_settle(y);
    claim(y, "a claim without room", "g5", 1, &a);
    assert_int_equal(a.count, 0);
    claim(y, "a claim", "g5", SIZE, &a);
    assert_int_equal(a.count, SIZE);
    check_member(y, last);
}

/* A taker that may have any of them makes all of them due: a limited number is examined in each
 * turn. */
static void a_taker_of_all_queues_is_found_bit_by_bit(void **state)
{
    struct yard *y = *state;
    steps_add_jobs(y, MANY * SIZE, apart);
    struct stream all = {0};
    yard_stream(y, NULL, 1, &all);
    for (unsigned turns = 0; turns < 10; turns++) {
        struct steps s = steps_of_turns(y, NULL, 1);
        assert_in_range(s.blocks, 0, 10000000);
        assert_in_range(s.reads, 0, 10);
    }
    struct enqueue spec = yard_spec("q");
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_int_equal(all.count, 1);
}

#define SCENE(name)                                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        steps_compare(play_##name, MANY);                                                          \
    }
SCENE(gangs)
SCENE(incomplete_gangs)
SCENE(gangs_apart)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gangs),
        cmocka_unit_test(incomplete_gangs),
        cmocka_unit_test(gangs_apart),
        STEPS_TEST(a_taker_of_all_queues_is_found_bit_by_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
