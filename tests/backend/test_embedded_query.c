/* SPDX-License-Identifier: Apache-2.0 */

/* Reads, lists and removals over many jobs, and the runs of one. */

#include "yard.h"

#define Y         struct yard *y = *state
#define MANY      1000
#define STATUS(s) (1u << STATUS_##s)

/* MANY jobs: every tenth has type "x"; queues "a" and "b" alternate. */
static void add_many(struct yard *y)
{
    struct enqueue *specs = test_calloc(MANY, sizeof *specs);
    struct answer a;
    for (int i = 0; i < MANY; i++) {
        specs[i] = yard_spec(i % 2 ? "b" : "a");
        if (i % 10 == 0)
            specs[i].type = STR("x");
    }
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, MANY}}, &a);
    assert_ok(a.err);
    test_free(specs);
}

static void ask_list(struct yard *y, struct list_command list, struct answer *a)
{
    yard_ask(y, (struct command){.kind = CMD_LIST, .list = list}, a);
    assert_ok(a->err);
}

static unsigned turns_until(struct yard *y, const struct answer *a)
{
    unsigned turns = 0;
    for (; !a->came; turns++) {
        assert_true(turns < 100);
        yard_turn(y);
    }
    return turns;
}

static void a_list_over_many_jobs_takes_several_turns(void **state)
{
    Y;
    add_many(y);
    struct answer a = {0};
    struct str x = STR("x");
    yard_send(y,
              (struct command){
                  .kind = CMD_LIST,
                  .list = {.filter = {.types = &x, .type_count = 1}, .limit = BACKEND_PAGE_MAX}},
              &a);
    /* Jobs of other types are passed over, which costs less than reading them. */
    assert_in_range(turns_until(y, &a), 2, 4);
    assert_int_equal(a.count, MANY / 10);
    assert_false(a.more);
    struct answer read = {0};
    yard_send(y,
              (struct command){
                  .kind = CMD_LIST,
                  .list = {.filter = {.priority = {.set = true, .lo = 0, .hi = 0}}, .limit = 1}},
              &read);
    assert_in_range(turns_until(y, &read), 4, 10);
    assert_int_equal(read.count, 0);
}

static void a_short_list_is_not_held_up_by_a_long_one(void **state)
{
    Y;
    add_many(y);
    struct answer slow = {0}, quick = {0};
    yard_send(y,
              (struct command){
                  .kind = CMD_LIST,
                  .list = {.filter = {.priority = {.set = true, .lo = 0, .hi = 0}}, .limit = 1}},
              &slow);
    yard_send(y, (struct command){.kind = CMD_LIST, .list = {.limit = 1}}, &quick);
    assert_in_range(turns_until(y, &quick), 1, 4);
    assert_int_equal(slow.came, 0);
    turns_until(y, &slow);
    assert_int_equal(slow.count, 0);
}

static void a_change_of_many_jobs_takes_more_turns_than_a_list(void **state)
{
    Y;
    add_many(y);
    struct patch patch = {.set = PATCH_PRIORITY, .priority = 3};
    struct answer a = {0};
    yard_send(y, (struct command){.kind = CMD_PATCH_WHERE, .list = {.patch = &patch}}, &a);
    assert_in_range(turns_until(y, &a), 14, 60);
    assert_ok(a.err);
    assert_int_equal(a.count, MANY);
}

/* A store whose tables lack what its log has, until the test lets them have it. */
static const struct store_vt *below;
static bool tables_lack;
static unsigned cursors;

static bool durable(struct store *s)
{
    (void)s;
    return tables_lack;
}

static bool reap(struct store *s, struct err *result)
{
    return !tables_lack && below->reap(s, result);
}

static struct store_cursor *cursor_new(struct store *s)
{
    cursors++;
    return below->cursor_new(s);
}

static void lag(struct yard *y)
{
    below = y->below;
    y->vt.durable = durable;
    y->vt.reap = reap;
    y->vt.cursor_new = cursor_new;
    tables_lack = true;
    cursors = 0;
}

static bool is_due(const struct yard *y)
{
    instant at;
    return backend_next_due(y->b, &at) && at.ms <= y->now.ms;
}

static void a_list_waits_for_the_tables_and_holds_no_turn_up(void **state)
{
    Y;
    add_many(y);
    lag(y);
    struct answer added = {0}, list = {0};
    yard_enqueue(y, "a", &added);
    yard_turn(y);
    yard_send(y, (struct command){.kind = CMD_LIST, .list = {.limit = BACKEND_PAGE_MAX}}, &list);
    for (int i = 0; i < 3; i++)
        yard_turn(y);
    assert_int_equal(added.came, 1);
    assert_int_equal(list.came, 0);
    assert_int_equal(cursors, 0);
    assert_false(is_due(y));
    tables_lack = false;
    turns_until(y, &list);
    assert_int_equal(list.count, MANY + 1);
    assert_true(cursors > 0);
}

static void a_list_meets_no_job_twice_that_moves_meanwhile(void **state)
{
    Y;
    add_many(y);
    struct answer a = {0}, claims[20] = {0};
    size_t n = 0;
    yard_send(y, (struct command){.kind = CMD_LIST, .list = {.limit = BACKEND_PAGE_MAX}}, &a);
    for (; !a.came; n++) {
        assert_true(n < 20);
        yard_claim(y, "a", 10, (span){0}, &claims[n]);
        yard_turn(y);
    }
    assert_true(n > 1);
    yard_settle(y);
    assert_int_equal(a.count, MANY);
}

static void jobs_removed_during_a_list_are_left_out(void **state)
{
    Y;
    add_many(y);
    struct answer page, list = {0}, removed = {0};
    ask_list(y, (struct list_command){.limit = 1, .backwards = true}, &page);
    yard_send(y, (struct command){.kind = CMD_LIST, .list = {.limit = BACKEND_PAGE_MAX}}, &list);
    yard_turn(y);
    yard_send(y, (struct command){.kind = CMD_REMOVE, .id = page.ids[0]}, &removed);
    yard_settle(y);
    assert_ok(removed.err);
    assert_int_equal(list.count, MANY - 1);
}

static void filters_narrow_a_list(void **state)
{
    Y;
    struct enqueue spec = yard_spec("b");
    struct answer a;
    struct id plain = yard_add(y, "a");
    spec.type = STR("x");
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct id other = a.ids[0];
    const struct str b = STR("b"), t = STR("t");
    ask_list(y, (struct list_command){.filter = {.queues = &b, .queue_count = 1}, .limit = 9}, &a);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], other);
    ask_list(y, (struct list_command){.filter = {.types = &t, .type_count = 1}, .limit = 9}, &a);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], plain);
    const struct id wanted[] = {other, {7, 7}, plain};
    ask_list(y, (struct list_command){.filter = {.ids = wanted, .id_count = 3}, .limit = 9}, &a);
    assert_int_equal(a.count, 2);
    assert_id(a.ids[0], plain);
    assert_id(a.ids[1], other);
}

static void lists_by_status_agree_with_the_counts(void **state)
{
    Y;
    struct enqueue specs[] = {yard_spec("q"), yard_spec("q"), yard_spec("q"), yard_spec("q"),
                              yard_spec("q")};
    struct answer a, claim = {0};
    specs[0].completed_retention = (span){60000};
    specs[1].retry_limit = 0;
    specs[4].ready_at = instant_add(y->now, (span){60000});
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, 5}}, &a);
    yard_claim(y, "q", 3, (span){0}, &claim);
    yard_settle(y);
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = {.id = claim.ids[0], .vouched = true}},
             &a);
    yard_ask(y,
             (struct command){
                 .kind = CMD_FAIL,
                 .fail = {.ref = {.id = claim.ids[1], .vouched = true}, .retry_at = INSTANT_NONE}},
             &a);
    assert_int_equal(a.status, STATUS_DEAD);
    const unsigned one_each[] = {STATUS(COMPLETED), STATUS(DEAD), STATUS(IN_FLIGHT), STATUS(READY),
                                 STATUS(SCHEDULED)};
    for (int i = 0; i < 5; i++) {
        struct list_command list = {.filter = {.statuses = one_each[i]}, .limit = 9};
        ask_list(y, list, &a);
        assert_int_equal(a.count, 1);
        assert_int_equal(1u << a.status, one_each[i]);
        yard_ask(y, (struct command){.kind = CMD_COUNT, .list = list}, &a);
        assert_int_equal(a.count, 1);
    }
    ask_list(y,
             (struct list_command){.filter = {.statuses = STATUS(COMPLETED) | STATUS(DEAD)},
                                   .limit = 9,
                                   .backwards = true},
             &a);
    assert_int_equal(a.count, 2);
    assert_id(a.ids[0], claim.ids[1]);
    yard_ask(y, (struct command){.kind = CMD_STATUS}, &a);
    assert_true(a.writable);
    for (int s = STATUS_SCHEDULED; s < STATUS_COUNT; s++)
        assert_int_equal(a.jobs[s], 1);
}

static void counts_by_type_look_at_every_job(void **state)
{
    Y;
    add_many(y);
    struct answer a;
    const struct str x = STR("x"), queue = STR("a");
    yard_ask(
        y, (struct command){.kind = CMD_COUNT, .list = {.filter = {.types = &x, .type_count = 1}}},
        &a);
    assert_int_equal(a.count, MANY / 10);
    yard_ask(y,
             (struct command){.kind = CMD_COUNT,
                              .list = {.filter = {.queues = &queue, .queue_count = 1}}},
             &a);
    assert_int_equal(a.count, MANY / 2);
}

static void a_removal_by_filter_takes_what_it_names_and_nothing_else(void **state)
{
    Y;
    add_many(y);
    struct answer a, taken = {0};
    const struct str x = STR("x"), queue = STR("a");
    yard_claim(y, "a", 3, (span){0}, &taken); /* those in flight are removed, too */
    yard_settle(y);
    yard_ask(y,
             (struct command){.kind = CMD_REMOVE_WHERE,
                              .list = {.filter = {.types = &x, .type_count = 1}}},
             &a);
    assert_ok(a.err);
    assert_int_equal(a.count, MANY / 10);
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    assert_int_equal(a.count, MANY - MANY / 10);
    yard_ask(y,
             (struct command){.kind = CMD_REMOVE_WHERE,
                              .list = {.filter = {.queues = &queue, .queue_count = 1}}},
             &a);
    assert_int_equal(a.count, MANY / 2 - MANY / 10);
    yard_restart(y);
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    assert_int_equal(a.count, MANY / 2);
}

static void removed_jobs_leave_nothing_but_events_in_the_store(void **state)
{
    Y;
    yard_settle(y);
    uint64_t empty = store_disk_bytes(y->store);
    char *big = test_malloc(100000);
    memset(big, '1', 100000);
    struct enqueue spec = yard_spec("q");
    spec.payload = (struct str){big, 100000};
    struct answer a, runs, claim = {0};
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    test_free(big);
    for (int i = 0; i < 3; i++) {
        claim = (struct answer){0};
        yard_claim(y, "q", 1, (span){0}, &claim);
        yard_settle(y);
        yard_ask(y, (struct command){.kind = CMD_RELEASE, .run = {.id = a.ids[0], .vouched = true}},
                 &runs);
    }
    assert_true(store_disk_bytes(y->store) > empty + 100000);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = a.ids[0]}, &runs);
    assert_in_range(store_disk_bytes(y->store), empty, empty + 1000);
}

/* --- runs --- */

/* Runs 0 to 5 of a job: failed, released, failed, released, failed, still running. */
static struct id job_with_runs(struct yard *y)
{
    struct enqueue spec = yard_spec("q");
    spec.backoff = (struct curve){CURVE_POWER, {0}, 0.0, {0}};
    struct answer a, end, claim;
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct run_ref ref = {.id = a.ids[0], .vouched = true};
    for (int i = 0; i < 6; i++) {
        y->now.ms += 1000;
        claim = (struct answer){0};
        yard_claim(y, "q", 1, (span){0}, &claim);
        yard_settle(y);
        assert_int_equal(claim.count, 1);
        if (i == 5)
            break;
        if (i % 2)
            yard_ask(y, (struct command){.kind = CMD_RELEASE, .run = ref}, &end);
        else
            yard_ask(
                y,
                (struct command){.kind = CMD_FAIL, .fail = {.ref = ref, .retry_at = INSTANT_NONE}},
                &end);
        assert_ok(end.err);
    }
    return ref.id;
}

static void ask_runs(struct yard *y, struct runs_command runs, struct answer *a)
{
    yard_ask(y, (struct command){.kind = CMD_RUNS, .runs = runs}, a);
    assert_ok(a->err);
}

static void all_runs_are_told_the_live_one_included(void **state)
{
    Y;
    struct id id = job_with_runs(y);
    struct answer a;
    ask_runs(y, (struct runs_command){.id = id, .from = -1, .limit = 10}, &a);
    const enum outcome want[] = {OUTCOME_FAILED,   OUTCOME_RETURNED, OUTCOME_FAILED,
                                 OUTCOME_RETURNED, OUTCOME_FAILED,   OUTCOME_RUNNING};
    assert_int_equal(a.count, 6);
    assert_false(a.more);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(a.runs[i].index, i);
        assert_int_equal(a.runs[i].outcome, want[i]);
    }
    yard_restart(y);
    ask_runs(y, (struct runs_command){.id = id, .from = -1, .limit = 10}, &a);
    assert_int_equal(a.count, 6);
    assert_int_equal(a.runs[5].outcome, OUTCOME_RUNNING);
}

static void runs_are_paged_both_ways(void **state)
{
    Y;
    struct id id = job_with_runs(y);
    struct answer a;
    ask_runs(y, (struct runs_command){.id = id, .from = -1, .limit = 4}, &a);
    assert_int_equal(a.count, 4);
    assert_true(a.more);
    ask_runs(y, (struct runs_command){.id = id, .from = 3, .limit = 4}, &a);
    assert_int_equal(a.count, 2);
    assert_int_equal(a.runs[0].index, 4);
    assert_false(a.more);
    ask_runs(y, (struct runs_command){.id = id, .from = -1, .backwards = true, .limit = 2}, &a);
    assert_int_equal(a.runs[0].index, 5);
    assert_int_equal(a.runs[1].index, 4);
    assert_true(a.more);
    ask_runs(y, (struct runs_command){.id = id, .from = 1, .backwards = true, .limit = 2}, &a);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.runs[0].index, 0);
    assert_false(a.more);
}

static void failures_only_are_counted_by_attempt_from_1(void **state)
{
    Y;
    struct id id = job_with_runs(y);
    struct answer a;
    ask_runs(y, (struct runs_command){.id = id, .failures_only = true, .from = -1, .limit = 10},
             &a);
    assert_int_equal(a.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(a.runs[i].attempt, i + 1);
        assert_int_equal(a.runs[i].index, 2 * i);
    }
    assert_string_equal(a.reason, "retry 3 of 25, own backoff, in 1 s");
    ask_runs(y, (struct runs_command){.id = id, .failures_only = true, .from = 1, .limit = 1}, &a);
    assert_int_equal(a.count, 1);
    assert_int_equal(a.runs[0].attempt, 2);
    assert_true(a.more);
}

/* Reading ahead must not show a job as it was before a patch that was being committed. */
static void a_patch_counts_however_many_jobs_are_read_around_it(void **state)
{
    Y;
    enum { JOBS = 20, PATCHED = JOBS - 1 };
    struct id ids[JOBS];
    struct stream streams[2] = {0};
    struct answer answers[JOBS] = {0}, patched = {0};
    for (int i = 0; i < JOBS; i++)
        ids[i] = yard_add(y, "q");
    for (int i = 0; i < 2; i++)
        yard_stream(y, "q", JOBS / 2, &streams[i]);
    yard_settle(y);
    struct patch p = {.set = PATCH_RETRY_LIMIT, .retry_limit = 0};
    yard_send(y, (struct command){.kind = CMD_PATCH, .patch = {ids[PATCHED], &p}}, &patched);
    for (int i = 0; i < JOBS; i++) {
        if (i == PATCHED) {
            yard_settle(y);
            assert_ok(patched.err);
        }
        struct failure_report report = {.ref = {.id = ids[i], .vouched = true},
                                        .retry_at = INSTANT_NONE};
        yard_send(y, (struct command){.kind = CMD_FAIL, .fail = report}, &answers[i]);
    }
    yard_settle(y);
    assert_ok(answers[PATCHED].err);
    assert_int_equal(answers[PATCHED].status, STATUS_DEAD);
    assert_int_equal(answers[PATCHED - 1].status, STATUS_SCHEDULED);
}

/* --- large payloads --- */

#define MIB ((size_t)1 << 20)

static char *large_text(size_t bytes)
{
    char *text = test_malloc(bytes);
    memset(text, '1', bytes);
    return text;
}

/* Jobs with payloads of that size. */
static void add_large(struct yard *y, int count, size_t bytes)
{
    char *payload = large_text(bytes);
    struct enqueue spec = yard_spec("large");
    spec.payload = (struct str){payload, bytes};
    for (int i = 0; i < count; i++) {
        struct answer a = {0};
        yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
        assert_ok(a.err);
    }
    test_free(payload);
}

static unsigned turns_of(struct yard *y, struct command c, struct answer *a)
{
    *a = (struct answer){0};
    yard_send(y, c, a);
    unsigned turns = turns_until(y, a);
    assert_ok(a->err);
    return turns;
}

static void payloads_that_are_not_shown_make_no_scan_slow(void **state)
{
    Y;
    struct answer a;
    struct str queue = STR("large"), type = STR("none");
    struct job_filter all = {.queues = &queue, .queue_count = 1};
    struct job_filter none = {.queues = &queue, .queue_count = 1, .types = &type, .type_count = 1};
    struct patch light = {.set = PATCH_PRIORITY, .priority = 7};
    struct patch heavy = {.set = PATCH_RETRY_LIMIT, .retry_limit = 7};
    add_large(y, 24, MIB);
    assert_in_range(turns_of(y, (struct command){.kind = CMD_LIST, .list = {none, .limit = 9}}, &a),
                    1, 3);
    struct command patch = {.kind = CMD_PATCH_WHERE, .list = {.filter = all, .patch = &light}};
    assert_in_range(turns_of(y, patch, &a), 1, 3);
    assert_int_equal(a.count, 24);
    /* It rewrites the payloads: as many per turn as make a few megabytes. */
    patch.list.patch = &heavy;
    assert_in_range(turns_of(y, patch, &a), 8, 30);
    assert_int_equal(a.count, 24);
    struct command list = {.kind = CMD_LIST, .list = {.filter = all, .limit = 100}};
    assert_in_range(turns_of(y, list, &a), 4, 30);
    assert_true(a.more && a.count < 24);
    struct command dry = {.kind = CMD_REMOVE_WHERE,
                          .list = {.filter = all, .limit = 100, .dry_run = true}};
    assert_in_range(turns_of(y, dry, &a), 4, 30);
    assert_int_equal(a.count, 24);
}

static void a_page_of_runs_ends_before_it_is_too_large(void **state)
{
    Y;
    char *message = large_text(6 * MIB);
    struct enqueue spec = yard_spec("q");
    spec.retry_limit = 25;
    spec.backoff = (struct curve){.shape = CURVE_POWER};
    struct answer a = {0};
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    struct id id = a.ids[0];
    for (int i = 0; i < 4; i++) {
        struct answer got = {0}, failed = {0};
        yard_turn_after(y, 100000);
        yard_claim(y, "q", 1, (span){0}, &got);
        yard_settle(y);
        assert_int_equal(got.count, 1);
        struct command c = {.kind = CMD_FAIL,
                            .fail = {.ref = {.id = id, .vouched = true},
                                     .retry_at = y->now,
                                     .failure = {.message = {message, 6 * MIB}, .run_time = {-1}}}};
        yard_ask(y, c, &failed);
        assert_ok(failed.err);
    }
    test_free(message);
    for (int failures = 0; failures < 2; failures++) {
        struct runs_command c = {.id = id, .failures_only = failures, .from = -1, .limit = 10};
        ask_runs(y, c, &a);
        assert_int_equal(a.count, 2);
        assert_true(a.more);
        c.from = failures ? 2 : 1;
        ask_runs(y, c, &a);
        assert_int_equal(a.count, 2);
        assert_false(a.more);
        assert_int_equal(a.runs[0].index, 2);
        c.backwards = true;
        c.from = failures ? 3 : 2;
        ask_runs(y, c, &a);
        assert_int_equal(a.count, 2);
        assert_int_equal(a.runs[0].index, 1);
        assert_false(a.more);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(payloads_that_are_not_shown_make_no_scan_slow),
        TEST(a_page_of_runs_ends_before_it_is_too_large),
        TEST(a_list_over_many_jobs_takes_several_turns),
        TEST(a_short_list_is_not_held_up_by_a_long_one),
        TEST(a_change_of_many_jobs_takes_more_turns_than_a_list),
        TEST(a_list_waits_for_the_tables_and_holds_no_turn_up),
        TEST(a_list_meets_no_job_twice_that_moves_meanwhile),
        TEST(jobs_removed_during_a_list_are_left_out),
        TEST(filters_narrow_a_list),
        TEST(lists_by_status_agree_with_the_counts),
        TEST(counts_by_type_look_at_every_job),
        TEST(a_removal_by_filter_takes_what_it_names_and_nothing_else),
        TEST(removed_jobs_leave_nothing_but_events_in_the_store),
        TEST(all_runs_are_told_the_live_one_included),
        TEST(runs_are_paged_both_ways),
        TEST(failures_only_are_counted_by_attempt_from_1),
        TEST(a_patch_counts_however_many_jobs_are_read_around_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
