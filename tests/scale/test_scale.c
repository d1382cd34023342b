/* SPDX-License-Identifier: Apache-2.0 */

/* What small counts hide: with 100,000 of a thing, a command about one of them, or a page of them,
 * does as much work as with ten. */

#include "steps.h"

#include "core/depend.h"
#include "core/job.h"

#define MANY 100000

static void alike(struct enqueue *spec, char *text, size_t i)
{
    (void)spec, (void)text, (void)i;
}

static void in_queues(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "q%zu", i);
    spec->queue = str_from(text);
}

static void with_keys(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "k%zu", i);
    spec->unique_key = spec->options.concurrency_key = str_from(text);
    spec->unique_while = UNIQUE_EXISTS;
}

static void with_aliases(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "a%zu", i);
    spec->options.alias = str_from(text);
}

static void with_deadlines(struct enqueue *spec, char *text, size_t i)
{
    (void)text;
    spec->options.deadline = (instant){1800000000000 + (int64_t)i};
}

static void later(struct enqueue *spec, char *text, size_t i)
{
    (void)text;
    spec->ready_at = (instant){1800000000000 + (int64_t)i};
}

static struct id first;

static void after_first(struct enqueue *spec, char *text, size_t i)
{
    (void)i;
    id_encode(first, (uint8_t *)text);
    spec->options.depends_on = (struct str){text, DEPEND_ID_LEN};
    spec->options.depend_death = DEPEND_RUN;
}

static void two_for_each_key(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "k%zu", i / 2);
    spec->options.concurrency_key = str_from(text);
}

/* --- commands about one, and a page --- */

static void check(struct yard *y, const char *what, struct command c, struct answer *a)
{
    steps_assert_few(steps_of(y, what, c, a));
}

static void check_reads(struct yard *y, struct id last)
{
    struct answer a;
    check(y, "read", (struct command){.kind = CMD_READ, .read = {last}}, &a);
    check(y, "explain", (struct command){.kind = CMD_EXPLAIN, .id = last}, &a);
    check(y, "status", (struct command){.kind = CMD_STATUS}, &a);
    check(y, "count", (struct command){.kind = CMD_COUNT}, &a);
    struct command list = {.kind = CMD_LIST, .list = {.limit = 10}};
    check(y, "list", list, &a);
    list.list.filter.ids = &last;
    list.list.filter.id_count = 1;
    check(y, "list of one", list, &a);
    assert_int_equal(a.count, 1);
    struct command peek = {.kind = CMD_PEEK, .peek = {.queue = STR("q"), .limit = 10}};
    check(y, "peek", peek, &a);
    struct command queues = {.kind = CMD_QUEUE_LIST, .queue = {.limit = 10}};
    check(y, "queues", queues, &a);
}

/* Up to a thousand workers, keys and budgets of a queue are looked at. */
static void check_backlogs(struct yard *y, struct str queue)
{
    struct answer a;
    struct command c = {.kind = CMD_BACKLOG, .backlog = {.limit = 10}};
    steps_allow(100000);
    check(y, "backlogs", c, &a);
    c.backlog.queue = queue;
    check(y, "backlog", c, &a);
    steps_allow(0);
}

/* It reports a limited number of queues; to find the oldest jobs it reads a few thousand. */
static void check_meter(struct yard *y)
{
    struct answer a;
    struct steps s = steps_of(y, NULL, (struct command){.kind = CMD_METER}, &a);
    assert_in_range(s.reads, 0, 2000);
    assert_in_range(s.blocks, 0, 500000);
}

static void check_changes(struct yard *y, struct id last, struct str queue)
{
    struct answer a;
    struct enqueue spec = yard_spec("other");
    check(y, "enqueue elsewhere", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    spec.queue = queue;
    check(y, "enqueue", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct patch patch = {.set = PATCH_PRIORITY, .priority = 1};
    struct command c = {.kind = CMD_PATCH, .patch = {.id = last, .patch = &patch}};
    check(y, "patch", c, &a);
    struct command put = {
        .kind = CMD_QUEUE_PUT,
        .queue = {.name = queue, .set = QUEUE_CONCURRENCY, .settings = QUEUE_SETTINGS_DEFAULT}};
    put.queue.settings.concurrency = 5;
    check(y, "limit a queue", put, &a);
    check(y, "cancel", (struct command){.kind = CMD_CANCEL, .id = last}, &a);
    check(y, "rerun", (struct command){.kind = CMD_RERUN, .rerun = {last}}, &a);
    check(y, "remove", (struct command){.kind = CMD_REMOVE, .id = last}, &a);
}

static void check_commands(struct yard *y, struct id last, struct str queue)
{
    check_reads(y, last);
    check_backlogs(y, queue);
    check_meter(y);
    check_changes(y, last, queue);
}

/* --- the scenes --- */

static void play_jobs(struct yard *y, size_t n)
{
    check_commands(y, steps_add_jobs(y, n, alike), STR("q"));
}

static void play_queues(struct yard *y, size_t n)
{
    struct id last = steps_add_jobs(y, n, in_queues);
    check_commands(y, last, STR("q5"));
    struct stream all = {0};
    yard_stream(y, NULL, 10, &all);
    struct steps s = steps_of_turns(y, "a stream of all queues", 4);
    assert_int_equal(all.count, 10);
    assert_in_range(s.reads, 10, 60);
}

static void play_keys(struct yard *y, size_t n)
{
    struct id last = steps_add_jobs(y, n, with_keys);
    struct answer a;
    struct enqueue spec = yard_spec("q");
    spec.unique_key = STR("k5");
    spec.unique_while = UNIQUE_EXISTS;
    check(y, "a duplicate", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    check_commands(y, last, STR("q"));
}

static void play_aliases(struct yard *y, size_t n)
{
    struct id last = steps_add_jobs(y, n, with_aliases);
    struct answer a;
    check(y, "read by alias", (struct command){.kind = CMD_READ, .alias = STR("a5")}, &a);
    struct enqueue spec = yard_spec("q");
    spec.options.alias = STR("a5");
    check(y, "a duplicate", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    check_commands(y, last, STR("q"));
}

static void play_deadlines(struct yard *y, size_t n)
{
    check_commands(y, steps_add_jobs(y, n, with_deadlines), STR("q"));
}

static void play_scheduled(struct yard *y, size_t n)
{
    check_commands(y, steps_add_jobs(y, n, later), STR("q"));
}

static void play_dependants(struct yard *y, size_t n)
{
    first = yard_add(y, "first");
    struct id last = steps_add_jobs(y, n, after_first);
    check_commands(y, last, STR("q"));
}

/* All are notified of its end; a limited number in each turn. */
static void dependants_are_told_bit_by_bit(void **state)
{
    struct yard *y = *state;
    first = yard_add(y, "first");
    steps_add_jobs(y, MANY, after_first);
    struct answer a = {0};
    yard_send(y, (struct command){.kind = CMD_CANCEL, .id = first}, &a);
    for (unsigned turns = 0; turns < MANY / 1000; turns++) {
        struct steps s = steps_of_turns(y, NULL, 1);
        assert_in_range(s.reads, 1000, 5000);
        assert_in_range(s.blocks, 0, 2000000);
    }
    struct answer count = {0};
    struct command blocked = {.kind = CMD_COUNT, .list.filter.statuses = 1u << STATUS_BLOCKED};
    yard_ask(y, blocked, &count);
    assert_int_equal(count.count, 0);
}

static void take_all(struct yard *y, size_t n)
{
    while (n > 0) {
        struct answer claimed = {0};
        yard_claim(y, "q", 1000, (span){0}, &claimed);
        yard_settle(y);
        assert_in_range(claimed.count, 1, n);
        n -= claimed.count;
    }
}

/* Each key has one job in flight and one that is parked. */
static void play_full_keys(struct yard *y, size_t n)
{
    steps_allow(160000); /* the oldest job is searched in the first thousand keys */
    struct answer a;
    struct command put = {
        .kind = CMD_QUEUE_PUT,
        .queue = {.name = STR("q"), .set = QUEUE_PER_KEY, .settings = QUEUE_SETTINGS_DEFAULT}};
    put.queue.settings.concurrency_per_key = 1;
    yard_ask(y, put, &a);
    struct id last = steps_add_jobs(y, n * 2, two_for_each_key);
    take_all(y, n);
    check(y, "read a queue", (struct command){.kind = CMD_QUEUE_READ, .queue = {.name = STR("q")}},
          &a);
    check_reads(y, last);
    check_changes(y, last, STR("q"));
    /* Changing the limit per key is the only command that looks at each key; the jobs that it
     * releases are moved in slices. */
    put.queue.settings.concurrency_per_key = 2;
    struct steps s = steps_of(y, NULL, put, &a);
    assert_in_range(s.blocks, 0, 100000 + 20 * n);
    assert_in_range(s.reads, 0, 1000);
}

/* Workers that wait for jobs that do not come. */
static void play_claims(struct yard *y, size_t n)
{
    struct answer *waiting = test_calloc(n, sizeof *waiting);
    for (size_t i = 0; i < n; i++)
        yard_claim(y, "q", 1, (span){3600000}, &waiting[i]);
    yard_settle(y);
    check_commands(y, yard_add(y, "elsewhere"), STR("q"));
    test_free(waiting);
}

static void play_in_flight(struct yard *y, size_t n)
{
    struct id last = steps_add_jobs(y, n, alike);
    struct answer a;
    take_all(y, n);
    for (int back = 0; back < 2; back++) {
        struct command c = {.kind = CMD_LIST,
                            .list = {.filter = {.statuses = 1u << STATUS_IN_FLIGHT},
                                     .backwards = back,
                                     .limit = STEPS_FEW}};
        check(y, "list in flight", c, &a);
        assert_int_equal(a.count, STEPS_FEW);
    }
    const struct id failed = a.ids[4], removed = a.ids[5];
    check_reads(y, last);
    struct command renew = {.kind = CMD_RENEW,
                            .renew = {{.id = last, .vouched = true}, ANSWERS_LEASE}};
    check(y, "renew", renew, &a);
    check(y, "succeed", (struct command){.kind = CMD_SUCCEED, .run = {.id = last, .vouched = true}},
          &a);
    check(y, "fail",
          (struct command){
              .kind = CMD_FAIL,
              .fail = {.ref = {.id = failed, .vouched = true}, .retry_at = INSTANT_NONE}},
          &a);
    check(y, "remove", (struct command){.kind = CMD_REMOVE, .id = removed}, &a);
}

static void in_one_group(struct enqueue *spec, char *text, size_t i)
{
    (void)text, (void)i;
    spec->options.group = STR("g");
}

static void in_groups(struct enqueue *spec, char *text, size_t i)
{
    snprintf(text, STEPS_TEXT, "g%zu", i);
    spec->options.group = str_from(text);
}

static void check_group(struct yard *y, struct str name)
{
    struct answer a;
    struct command list = {.kind = CMD_LIST, .list = {.filter.group = name, .limit = 10}};
    check(y, "read a group", (struct command){.kind = CMD_GROUP_READ, .group = name}, &a);
    check(y, "list a group", list, &a);
    assert_true(a.count > 0);
    list.list.backwards = true;
    check(y, "list a group backwards", list, &a);
    list.kind = CMD_COUNT;
    check(y, "count a group", list, &a);
    struct enqueue spec = yard_spec("q");
    spec.options.group = name;
    check(y, "enqueue into it", (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    check(y, "seal it", (struct command){.kind = CMD_GROUP_SEAL, .group = name}, &a);
}

static void play_group(struct yard *y, size_t n)
{
    struct id last = steps_add_jobs(y, n, in_one_group);
    check_group(y, STR("g"));
    check_commands(y, last, STR("q"));
}

static void play_groups(struct yard *y, size_t n)
{
    struct id last = steps_add_jobs(y, n, in_groups);
    struct answer a;
    check_group(y, STR("g5"));
    struct command cancel = {.kind = CMD_CANCEL_WHERE, .list.filter.group = STR("g6")};
    check(y, "cancel a group", cancel, &a);
    assert_int_equal(a.count, 1);
    check_commands(y, last, STR("q"));
}

/* Entries of a front end, each of which expires at another time. */
static void put_entries(struct yard *y, size_t n)
{
    static char keys[KV_CHANGES_MAX][STEPS_TEXT];
    struct kv_change changes[KV_CHANGES_MAX];
    struct answer a;
    for (size_t i = 0; i < n;) {
        size_t count = 0;
        for (; count < KV_CHANGES_MAX && i < n; count++, i++) {
            snprintf(keys[count], STEPS_TEXT, "%08zu/and-all-end-alike", i);
            changes[count] = (struct kv_change){.entry = {.space = STR("files"),
                                                          .key = str_from(keys[count]),
                                                          .value = STR("v"),
                                                          .expires = {1800000000000 + (int64_t)i}}};
        }
        yard_ask(y, (struct command){.kind = CMD_KV_PUT, .kv_put = {changes, count}}, &a);
        assert_ok(a.err);
    }
}

static void play_entries(struct yard *y, size_t n)
{
    put_entries(y, n);
    struct answer a;
    const struct kv_query one = {.space = STR("files"), .key = STR("00000005/and-all-end-alike")};
    struct kv_query some = {.space = STR("files"), .limit = 5};
    struct kv_change put = {.entry = {.space = one.space, .key = one.key, .expires = {1}}};
    check(y, "read an entry", (struct command){.kind = CMD_KV_READ, .kv = one}, &a);
    check(y, "list entries", (struct command){.kind = CMD_KV_LIST, .kv = some}, &a);
    some.key = STR("0000");
    some.after = one.key;
    check(y, "list entries", (struct command){.kind = CMD_KV_LIST, .kv = some}, &a);
    check(y, "put an entry", (struct command){.kind = CMD_KV_PUT, .kv_put = {&put, 1}}, &a);
    steps_assert_few(steps_of_turns(y, "expire an entry", 2));
    check(y, "remove an entry", (struct command){.kind = CMD_KV_REMOVE, .kv = one}, &a);
}

#define SCENE(name)                                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        steps_compare(play_##name, MANY);                                                          \
    }
SCENE(jobs)
SCENE(queues)
SCENE(keys)
SCENE(aliases)
SCENE(deadlines)
SCENE(scheduled)
SCENE(dependants)
SCENE(in_flight)
SCENE(full_keys)
SCENE(claims)
SCENE(entries)
SCENE(group)
SCENE(groups)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jobs),       cmocka_unit_test(queues),
        cmocka_unit_test(keys),       cmocka_unit_test(aliases),
        cmocka_unit_test(deadlines),  cmocka_unit_test(scheduled),
        cmocka_unit_test(dependants), STEPS_TEST(dependants_are_told_bit_by_bit),
        cmocka_unit_test(in_flight),  cmocka_unit_test(full_keys),
        cmocka_unit_test(claims),     cmocka_unit_test(entries),
        cmocka_unit_test(group),      cmocka_unit_test(groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
