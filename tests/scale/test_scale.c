/* SPDX-License-Identifier: Apache-2.0 */

/* What small counts hide: with 100,000 of a thing, a command about one of them, or a page of them,
 * does as much as with ten. Measured in steps, not by a clock: records that are read, and turns. */

#include "yard.h"

#include "core/depend.h"
#include "core/job.h"

#define Y    struct yard *y = *state
#define MANY 100000
#define BULK 10000

/* --- counting --- */

static const struct store_vt *below;
static struct store_vt counting;
static uint64_t reads;

static struct err count_get(struct store *s, struct str key, bool *found, struct buf *value)
{
    reads++;
    return below->get(s, key, found, value);
}

static void count_step(struct store_cursor *c, bool backwards)
{
    reads++;
    below->cursor_step(c, backwards);
}

static int setup(void **state)
{
    int failed = yard_setup(state);
    struct yard *y = *state;
    below = y->store->vt;
    counting = *below;
    counting.get = count_get;
    counting.cursor_step = count_step;
    y->store->vt = &counting;
    return failed;
}

struct steps {
    uint64_t reads;
    unsigned turns;
};

/* The engine's own check at the end of a turn reads nothing. */
static struct steps steps_of(struct yard *y, struct command c, struct answer *a)
{
    struct steps s = {0};
    *a = (struct answer){0};
    reads = 0;
    yard_send(y, c, a);
    for (; !a->came; s.turns++) {
        assert_true(s.turns < 100);
        yard_turn(y);
    }
    s.reads = reads;
    assert_ok(a->err);
    return s;
}

static void assert_few(struct steps s)
{
    assert_in_range(s.reads, 0, 100); /* a page of ten takes most: two looks at two records */
    assert_in_range(s.turns, 0, 4);
}

/* --- very many --- */

/* Jobs that vary() makes different. The last of them is told of. */
static struct id add_many(struct yard *y, void (*vary)(struct enqueue *spec, char *text, size_t n))
{
    struct enqueue *specs = test_calloc(BULK, sizeof *specs);
    char(*texts)[32] = test_calloc(BULK, sizeof *texts);
    for (size_t n = 0; n < MANY; n += BULK) {
        for (size_t i = 0; i < BULK; i++) {
            specs[i] = yard_spec("q");
            vary(&specs[i], texts[i], n + i);
        }
        struct command c = {.kind = CMD_ENQUEUE, .enqueue = {specs, BULK}};
        struct answer a = {0};
        yard_ask(y, c, &a);
        assert_ok(a.err);
    }
    test_free(texts);
    test_free(specs);
    struct answer last = {0};
    struct command c = {.kind = CMD_LIST, .list = {.limit = 1, .backwards = true}};
    yard_ask(y, c, &last);
    return last.ids[0];
}

static void alike(struct enqueue *spec, char *text, size_t n)
{
    (void)spec, (void)text, (void)n;
}

static void in_queues(struct enqueue *spec, char *text, size_t n)
{
    snprintf(text, 32, "q%zu", n);
    spec->queue = str_from(text);
}

static void with_keys(struct enqueue *spec, char *text, size_t n)
{
    snprintf(text, 32, "k%zu", n);
    spec->unique_key = spec->options.concurrency_key = str_from(text);
    spec->unique_while = UNIQUE_EXISTS;
}

static struct id first;

static void after_first(struct enqueue *spec, char *text, size_t n)
{
    (void)n;
    id_encode(first, (uint8_t *)text);
    spec->options.depends_on = (struct str){text, DEPEND_ID_LEN};
}

/* --- commands about one, and a page --- */

static void check_commands(struct yard *y, struct id last, struct str queue)
{
    struct answer a;
    assert_few(steps_of(y, (struct command){.kind = CMD_READ, .read = {last}}, &a));
    assert_few(steps_of(y, (struct command){.kind = CMD_EXPLAIN, .id = last}, &a));
    assert_few(steps_of(y, (struct command){.kind = CMD_STATUS}, &a));
    assert_few(steps_of(y, (struct command){.kind = CMD_COUNT}, &a));
    struct command list = {.kind = CMD_LIST, .list = {.limit = 10}};
    assert_few(steps_of(y, list, &a));
    list.list.filter.ids = &last;
    list.list.filter.id_count = 1;
    assert_few(steps_of(y, list, &a));
    assert_int_equal(a.count, 1);
    struct enqueue spec = yard_spec("other");
    spec.queue = queue;
    assert_few(steps_of(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a));
    struct patch patch = {.set = PATCH_PRIORITY, .priority = 1};
    struct command c = {.kind = CMD_PATCH, .patch = {.id = last, .patch = &patch}};
    assert_few(steps_of(y, c, &a));
    assert_few(steps_of(y, (struct command){.kind = CMD_CANCEL, .id = last}, &a));
    assert_few(steps_of(y, (struct command){.kind = CMD_REMOVE, .id = last}, &a));
}

static void jobs(void **state)
{
    Y;
    check_commands(y, add_many(y, alike), STR("q"));
}

static void queues(void **state)
{
    Y;
    struct id last = add_many(y, in_queues);
    check_commands(y, last, STR("q5"));
    reads = 0;
    struct stream all = {0};
    yard_stream(y, NULL, 10, &all);
    for (unsigned turns = 0; all.count < 10; turns++) {
        assert_true(turns < 4);
        yard_turn(y);
    }
    assert_in_range(reads, 10, 60);
}

static void keys(void **state)
{
    Y;
    struct id last = add_many(y, with_keys);
    struct answer a;
    struct enqueue spec = yard_spec("q");
    spec.unique_key = STR("k5");
    spec.unique_while = UNIQUE_EXISTS;
    assert_few(steps_of(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a));
    check_commands(y, last, STR("q"));
}

static void dependants(void **state)
{
    Y;
    first = yard_add(y, "first");
    struct id last = add_many(y, after_first);
    check_commands(y, last, STR("q"));
    struct answer a;
    /* All hear of its end; a bounded number in each turn. */
    struct steps s = steps_of(y, (struct command){.kind = CMD_CANCEL, .id = first}, &a);
    assert_in_range(s.turns, 1, 4);
    assert_in_range(s.reads, 1000, 10000);
    for (unsigned turns = 0; turns < 20; turns++) {
        reads = 0;
        yard_turn(y);
        assert_in_range(reads, 0, 5000);
    }
}

static void in_flight(void **state)
{
    Y;
    struct id last = add_many(y, alike);
    struct answer a, claimed;
    for (int n = 0; n < MANY / 1000; n++) {
        claimed = (struct answer){0};
        yard_claim(y, "q", 1000, (span){0}, &claimed);
        yard_settle(y);
        assert_int_equal(claimed.count, 1000);
    }
    for (int back = 0; back < 2; back++) {
        struct command c = {.kind = CMD_LIST,
                            .list = {.filter = {.statuses = 1u << STATUS_IN_FLIGHT},
                                     .backwards = back,
                                     .limit = 10}};
        assert_few(steps_of(y, c, &a));
        assert_int_equal(a.count, 10);
    }
    struct id some = a.ids[5];
    assert_few(steps_of(y, (struct command){.kind = CMD_SUCCEED, .run = {.id = last}}, &a));
    assert_few(steps_of(y, (struct command){.kind = CMD_REMOVE, .id = some}, &a));
}

#define SCALE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, yard_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCALE_TEST(jobs),       SCALE_TEST(queues),    SCALE_TEST(keys),
        SCALE_TEST(dependants), SCALE_TEST(in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
