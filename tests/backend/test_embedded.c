/* SPDX-License-Identifier: Apache-2.0 */

/* What the embedded backend does beyond the contract (contract.c): group commit, which commits are
 * synced, and how much a stream is given. */

#include "yard.h"

#define Y             struct yard *y = *state
#define HOLD          ((struct memory_faults){.hold = true})
#define NO_FAULTS     ((struct memory_faults){0})
#define run_cmd(k, i) ((struct command){.kind = (k), .run = {.id = (i), .vouched = true}})

static void all_commands_of_a_turn_share_one_commit(void **state)
{
    Y;
    struct answer a[8] = {0};
    yard_settle(y);
    unsigned before = y->commits;
    for (int i = 0; i < 8; i++)
        yard_enqueue(y, "q", &a[i]);
    yard_settle(y);
    assert_int_equal(y->commits, before + 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(a[i].came, 1);
}

static void the_next_batch_is_stepped_while_one_commits(void **state)
{
    Y;
    struct answer a = {0}, b = {0}, c = {0};
    yard_settle(y);
    unsigned before = y->commits;
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    yard_enqueue(y, "q", &b);
    yard_turn(y);
    yard_enqueue(y, "q", &c);
    yard_turn(y);
    uint64_t counts[STATUS_COUNT];
    engine_count(embedded_engine(y->b), STR("q"), counts);
    assert_int_equal(counts[STATUS_READY], 3);
    assert_int_equal(y->commits, before + 1);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(a.came, 1);
    assert_int_equal(b.came + c.came, 0);
    assert_int_equal(y->commits, before + 2); /* both at once */
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(b.came + c.came, 2);
}

static void a_job_can_be_taken_and_ended_while_its_enqueue_is_on_its_way(void **state)
{
    Y;
    struct answer a = {0}, done = {0};
    yard_settle(y);
    yard_faults(y, HOLD);
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    struct stream s = {0};
    yard_stream(y, "q", 1, &s);
    yard_turn(y);
    struct id live;
    assert_true(engine_next_of(embedded_engine(y->b), STATUS_IN_FLIGHT, (struct id_place){0}, false,
                               &live));
    yard_send(y, run_cmd(CMD_SUCCEED, live), &done);
    memory_release(y->store);
    yard_turn(y);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(a.came + done.came, 2);
    assert_ok(done.err);
    yard_faults(y, NO_FAULTS);
    assert_int_equal(yard_status(y, a.ids[0]), STATUS_GONE);
}

/* As after a fail-over of PostgreSQL that has lost the commit. */
static void a_row_of_the_inbox_that_comes_again_adds_no_job(void **state)
{
    Y;
    const struct id id = {(uint64_t)y->now.ms << 16, 1};
    struct enqueue spec = yard_spec("q");
    struct command c = {.kind = CMD_ENQUEUE, .enqueue = {&spec, 1, NULL}};
    struct answer first = {0}, again = {0}, done = {0};
    struct stream s = {0};
    spec.id = id;
    spec.receipt = 7;
    spec.completed_retention.ms = 60000;
    yard_ask(y, c, &first);
    assert_ok(first.err);
    for (int i = 0; i < 2; i++) {
        unsigned before = y->commits;
        yard_ask(y, c, &again);
        assert_ok(again.err);
        assert_true(again.count == 1 && id_eq(again.ids[0], id));
        assert_int_equal(y->commits, before + 1); /* which finds out */
        uint64_t counts[STATUS_COUNT];
        engine_count(embedded_engine(y->b), STR("q"), counts);
        assert_int_equal(counts[STATUS_READY] + counts[STATUS_IN_FLIGHT], 1);
        if (i == 0)
            yard_stream(y, "q", 1, &s);
        yard_settle(y);
    }
    yard_ask(y, run_cmd(CMD_SUCCEED, id), &done);
    assert_ok(done.err);
    yard_ask(y, c, &again);
    assert_ok(again.err);
    assert_int_equal(yard_status(y, id), STATUS_COMPLETED);
}

static void commits_are_synced_unless_the_operator_chose_otherwise(void **state)
{
    Y;
    yard_add(y, "q");
    assert_int_equal(y->syncs, y->commits);
    y->settings.sync = false;
    yard_restart(y);
    y->syncs = 0;
    yard_add(y, "q");
    assert_int_equal(y->syncs, 0);
}

static void enqueues_alone_are_synced_if_the_operator_says_so(void **state)
{
    Y;
    struct answer claimed = {0};
    y->settings.sync = false;
    y->settings.sync_enqueues = true;
    yard_restart(y);
    y->syncs = y->commits = 0;
    yard_add(y, "q");
    assert_true(y->commits > 0);
    assert_int_equal(y->syncs, y->commits);
    yard_claim(y, "q", 1, (span){0}, &claimed);
    yard_settle(y);
    assert_int_equal(claimed.came, 1);
    assert_true(y->commits > y->syncs);
}

static struct id add_large(struct yard *y, size_t bytes)
{
    char *payload = test_malloc(bytes);
    struct answer a = {0};
    struct enqueue spec = yard_spec("q");
    memset(payload, '1', bytes);
    spec.payload = (struct str){payload, bytes};
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    test_free(payload);
    return a.ids[0];
}

/* Nobody knows whether its peer is reading: the rest stays ready for others. */
static void a_stream_is_not_handed_much_more_than_has_left(void **state)
{
    Y;
    struct stream greedy = {0}, other = {0};
    for (int i = 0; i < 6; i++)
        add_large(y, 600 << 10);
    yard_faults(y, HOLD);
    yard_stream(y, "q", 100, &greedy);
    yard_turn(y);
    assert_int_equal(greedy.count, 0); /* two are being committed */
    yard_stream(y, "q", 1, &other);
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(greedy.count, 2);
    for (int i = 0; i < 10; i++)
        yard_turn(y);
    assert_int_equal(greedy.count, 5);
    assert_int_equal(other.count, 1);
}

static void assert_no_turn_is_due(struct yard *y)
{
    instant at;
    assert_false(backend_next_due(y->b, &at) && at.ms <= y->now.ms);
}

static void assert_a_turn_is_due(struct yard *y)
{
    instant at;
    assert_true(backend_next_due(y->b, &at) && at.ms <= y->now.ms);
}

static void nothing_is_handed_out_where_it_has_no_room(void **state)
{
    Y;
    struct stream s = {0};
    struct answer claimed = {0};
    backend_limit_handouts(y->b, 0);
    yard_stream(y, "q", 1, &s);
    yard_claim(y, "q", 1, (span){60000}, &claimed);
    yard_add(y, "q");
    yard_add(y, "q");
    yard_settle(y);
    assert_int_equal(s.count + claimed.came, 0);
    assert_true(backend_holds_back(y->b));
    assert_no_turn_is_due(y); /* who has set the limit knows when there is room */
    backend_limit_handouts(y->b, 1);
    yard_settle(y);
    assert_false(backend_holds_back(y->b));
    assert_int_equal(s.count, 1);
    assert_int_equal(claimed.came, 1);
}

static void what_is_on_its_way_counts_for_the_limit_of_hand_outs(void **state)
{
    Y;
    struct stream first = {0}, second = {0};
    struct answer claimed = {0};
    for (int i = 0; i < 3; i++)
        add_large(y, 600 << 10);
    backend_limit_handouts(y->b, 600 << 10);
    yard_faults(y, HOLD);
    yard_stream(y, "q", 1, &first);
    yard_turn(y);
    yard_stream(y, "q", 1, &second);
    yard_turn(y);
    assert_true(backend_holds_back(y->b)); /* the first one's job is being committed */
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_turn(y);
    assert_int_equal(first.count, 1);
    assert_a_turn_is_due(y);
    yard_settle(y);
    assert_int_equal(second.count, 1);
    yard_claim(y, "q", 1, (span){0}, &claimed);
    yard_settle(y);
    assert_int_equal(claimed.count, 1);
}

/* --- what is due --- */

#define DUE_JOBS 3000

/* Jobs whose time comes at once. */
static void schedule(struct yard *y)
{
    struct enqueue specs[DUE_JOBS];
    struct answer a;
    for (int i = 0; i < DUE_JOBS; i++) {
        specs[i] = yard_spec("q");
        specs[i].ready_at = instant_add(y->now, (span){1000});
    }
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, DUE_JOBS}}, &a);
    assert_ok(a.err);
    y->now.ms += 2000;
}

static void much_that_is_due_goes_into_many_batches_though_one_is_slow(void **state)
{
    Y;
    schedule(y);
    unsigned before = y->commits;
    yard_faults(y, HOLD);
    for (int i = 0; i < 20; i++)
        yard_turn(y);
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_settle(y);
    assert_true(y->commits >= before + 3);
    instant at;
    assert_true(!engine_next_due(embedded_engine(y->b), &at) || at.ms > y->now.ms);
}

static void what_is_due_takes_no_more_of_a_turn_than_its_time(void **state)
{
    Y;
    int64_t ticks = 0;
    y->ticks = &ticks;
    yard_restart(y);
    schedule(y);
    ticks += 2000 * 1000;
    unsigned before = y->commits;
    y->tick_step = 1000; /* each look at the clock takes a millisecond */
    yard_settle(y);
    assert_true(y->commits >= before + 20);
    y->tick_step = 0;
}

/* It may have asked in the same turn, or later. */
static void whoever_asks_hears_that_a_commit_hangs(void **state)
{
    Y;
    int64_t ticks = 0;
    y->ticks = &ticks;
    yard_restart(y);
    yard_faults(y, HOLD);
    struct answer job = {0}, with = {0}, after = {0};
    yard_enqueue(y, "q", &job);
    yard_send(y, (struct command){.kind = CMD_STATUS}, &with);
    yard_turn(y);
    yard_send(y, (struct command){.kind = CMD_STATUS}, &after);
    yard_turn(y);
    assert_int_equal(job.came + with.came + after.came, 0);
    ticks += 600 * 1000;
    yard_turn(y);
    assert_int_equal(with.came + after.came, 2);
    assert_int_equal(with.committing.ms, 600);
    assert_int_equal(after.committing.ms, 600);
    assert_int_equal(job.came, 0);
    yard_faults(y, NO_FAULTS);
    memory_release(y->store);
    yard_settle(y);
    assert_int_equal(job.came, 1);
    assert_ok(job.err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_commands_of_a_turn_share_one_commit),
        TEST(the_next_batch_is_stepped_while_one_commits),
        TEST(a_job_can_be_taken_and_ended_while_its_enqueue_is_on_its_way),
        TEST(a_row_of_the_inbox_that_comes_again_adds_no_job),
        TEST(commits_are_synced_unless_the_operator_chose_otherwise),
        TEST(enqueues_alone_are_synced_if_the_operator_says_so),
        TEST(a_stream_is_not_handed_much_more_than_has_left),
        TEST(nothing_is_handed_out_where_it_has_no_room),
        TEST(what_is_on_its_way_counts_for_the_limit_of_hand_outs),
        TEST(much_that_is_due_goes_into_many_batches_though_one_is_slow),
        TEST(what_is_due_takes_no_more_of_a_turn_than_its_time),
        TEST(whoever_asks_hears_that_a_commit_hangs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
