/* SPDX-License-Identifier: Apache-2.0 */

/* Claims of one given job. */

#include "rig.h"

#define R    struct rig *r = *state
#define HOUR ((span){3600000})

struct claimed {
    struct err err;
    struct handout h;
    bool repeated;
};

static struct claimed claim_on(struct rig *r, struct id id, int64_t run, const char *worker,
                               const char *node)
{
    struct claimed c;
    struct job_claim claim = {.id = id,
                              .any_run = run < 0,
                              .run = (uint32_t)(run < 0 ? 0 : run),
                              .worker = str_from(worker),
                              .node = str_from(node),
                              .lease = RIG_LEASE};
    c.err = engine_claim_job(r->e, r->now, &claim, &r->strings, &c.h, &c.repeated);
    engine_check(r->e);
    return c;
}

/* run negative: any. */
static struct claimed claim(struct rig *r, struct id id, int64_t run, const char *worker)
{
    return claim_on(r, id, run, worker, "");
}

static void assert_refused(struct claimed c, enum err_code code, const char *words)
{
    assert_code(c.err, code);
    assert_false(c.repeated);
    if (!strstr(c.err.msg, words))
        fail_msg("'%s' does not say '%s'", c.err.msg, words);
}

/* --- what it gives --- */

static void it_begins_the_run_of_that_job_though_others_come_before_it(void **state)
{
    R;
    struct id first = rig_add_priority(r, "q", 1), id = rig_add(r, "q");
    struct claimed c = claim_on(r, id, 0, "w", "n1");
    assert_ok(c.err);
    assert_false(c.repeated);
    assert_id(c.h.job.id, id);
    assert_int_equal(c.h.run, 0);
    assert_true(c.h.token != 0);
    assert_int_equal(c.h.lease_end.ms, r->now.ms + RIG_LEASE.ms);
    assert_int_equal(rig_event(r)->event, EVENT_TAKE);
    assert_int_equal(rig_event(r)->lease_end.ms, c.h.lease_end.ms);
    assert_int_equal(c.h.job.state.status, STATUS_IN_FLIGHT);
    assert_true(c.h.job.payload.len > 0);
    rig_turn(r);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, first), STATUS_READY);
    rig_assert_events(r, id, EVENT_ENQUEUE, EVENT_TAKE);
    rig_restart(r);
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){id, c.h.token}));
}

static void its_lease_runs_out_like_any_other(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    assert_ok(claim(r, id, 0, "w").err);
    rig_turn_after(r, RIG_LEASE.ms - 1);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1);
    assert_int_equal(rig_run(r, id, 0)->outcome, OUTCOME_EXPIRED);
    rig_turn_after(r, HOUR.ms);
    struct claimed c = claim(r, id, 1, "w");
    assert_ok(c.err);
    assert_int_equal(c.h.run, 1);
}

static void a_job_whose_time_has_come_may_be_claimed_before_the_next_turn(void **state)
{
    R;
    struct id id = rig_add_later(r, "q", HOUR);
    assert_refused(claim(r, id, 0, "w"), ERR_CONFLICT, "scheduled");
    r->now = instant_add(r->now, HOUR);
    assert_ok(claim(r, id, 0, "w").err);
    rig_turn(r);
    rig_assert_events(r, id, EVENT_ENQUEUE_LATER, EVENT_DUE, EVENT_TAKE);
}

/* --- again --- */

static void the_same_worker_gets_the_same_claim_again(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    struct claimed first = claim(r, id, 0, "w");
    rig_turn_after(r, 1000);
    for (int64_t run = -1; run <= 0; run++) {
        unsigned writes = r->writes;
        struct claimed again = claim(r, id, run, "w");
        assert_ok(again.err);
        assert_true(again.repeated);
        assert_int_equal(again.h.token, first.h.token);
        assert_int_equal(again.h.run, 0);
        assert_int_equal(again.h.lease_end.ms, first.h.lease_end.ms);
        assert_int_equal(again.h.job.state.status, STATUS_IN_FLIGHT);
        assert_int_equal(again.h.job.state.runs, 1);
        assert_true(str_eq(again.h.job.payload, first.h.job.payload));
        assert_int_equal(r->writes, writes);
    }
}

static void it_comes_again_with_the_checkpoint(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    struct news news = {.has_checkpoint = true, .checkpoint = STR("{\"at\":7}")};
    assert_ok(claim(r, id, 0, "w").err);
    struct run_ref ref = rig_ref(r, id);
    assert_ok(engine_note(r->e, r->now, ref, &news));
    struct claimed again = claim(r, id, 0, "w");
    assert_true(str_eq(again.h.checkpoint.text, STR("{\"at\":7}")));
    assert_ok(engine_release(r->e, r->now, ref, (struct str){0}));
    assert_true(str_eq(claim(r, id, 1, "v").h.checkpoint.text, STR("{\"at\":7}")));
}

static void another_worker_or_one_without_a_name_is_refused(void **state)
{
    R;
    struct id id = rig_add(r, "q"), nameless = rig_add(r, "q"), held = rig_add(r, "s");
    rig_stream(r, "w", "s", 1);
    rig_turn(r);
    assert_ok(claim(r, id, 0, "w").err);
    assert_ok(claim(r, nameless, 0, "").err);
    assert_refused(claim(r, id, 0, "v"), ERR_CONFLICT, "another worker");
    assert_refused(claim(r, id, -1, "v"), ERR_CONFLICT, "another worker");
    assert_refused(claim(r, nameless, 0, ""), ERR_CONFLICT, "another worker");
    assert_refused(claim(r, held, 0, "w"), ERR_CONFLICT, "another worker");
}

/* --- refused --- */

static void another_index_is_stale(void **state)
{
    R;
    struct id id = rig_add(r, "q");
    assert_refused(claim(r, id, 1, "w"), ERR_STALE, "next run of the job is run 0, not run 1");
    assert_ok(claim(r, id, 0, "w").err);
    assert_refused(claim(r, id, 1, "w"), ERR_STALE, "in run 0, not in run 1");
    assert_ok(engine_release(r->e, r->now, rig_ref(r, id), (struct str){0}));
    assert_refused(claim(r, id, 0, "w"), ERR_STALE, "run 0 of the job is over");
    assert_ok(claim(r, id, -1, "w").err);
}

static void a_job_that_is_not_ready_is_refused_by_its_status(void **state)
{
    R;
    struct id ended = rig_add(r, "q"), gone = rig_add(r, "q");
    struct enqueue spec = rig_spec("q");
    struct job job;
    uint8_t bytes[16];
    id_encode(gone, bytes);
    spec.options.depends_on = (struct str){(char *)bytes, sizeof bytes};
    struct id blocked = rig_add_spec(r, &spec);
    assert_refused(claim(r, blocked, 0, "w"), ERR_CONFLICT, "blocked");
    assert_ok(engine_cancel(r->e, r->now, ended, &r->strings, &job));
    assert_refused(claim(r, ended, 0, "w"), ERR_CONFLICT, "dead");
    assert_ok(engine_remove(r->e, r->now, gone));
    assert_refused(claim(r, gone, 0, "w"), ERR_NOT_FOUND, "");
}

static void limits_of_its_queue_keep_it_back(void **state)
{
    R;
    struct id paused = rig_add(r, "p"), full = rig_add(r, "c"), late = rig_add(r, "r");
    struct id running = rig_add(r, "c"), first = rig_add(r, "r");
    rig_set(r, "p", .paused = true);
    rig_set(r, "c", .concurrency = 1);
    rig_set(r, "r", .rate = {.count = 1, .burst = 1, .per = {60000}});
    assert_refused(claim(r, paused, 0, "w"), ERR_UNPROCESSABLE, "paused");
    assert_ok(claim(r, running, 0, "w").err);
    assert_refused(claim(r, full, 0, "w"), ERR_UNPROCESSABLE, "limit");
    assert_ok(claim(r, first, 0, "w").err);
    assert_refused(claim(r, late, 0, "w"), ERR_UNPROCESSABLE, "rate");
    rig_turn_after(r, 60000);
    assert_ok(claim(r, late, 0, "w").err);
    r->settings.in_flight_max = 1;
    engine_configure(r->e, &r->settings);
    rig_set(r, "p", .paused = false);
    assert_refused(claim(r, paused, 0, "w"), ERR_UNPROCESSABLE, "server allows");
}

static struct id with_key(struct rig *r)
{
    struct enqueue spec = rig_spec("q");
    spec.options.concurrency_key = STR("k");
    return rig_add_spec(r, &spec);
}

static void a_full_key_keeps_it_back_and_a_parked_job_may_be_claimed_when_it_is_not(void **state)
{
    R;
    struct id a = with_key(r), b = with_key(r), c = with_key(r);
    rig_set(r, "q", .concurrency_per_key = 1);
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a);
    rig_stream(r, "t", "q", 1);
    rig_turn(r); /* which parks the others */
    assert_refused(claim(r, b, 0, "w"), ERR_UNPROCESSABLE, "concurrency key");
    rig_succeed(r, a);
    assert_ok(claim(r, c, 0, "w").err);
    rig_turn(r);
    assert_int_equal(rig_status(r, b), STATUS_READY);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, c), (struct str){0}));
    rig_turn(r);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, c), STATUS_READY);
}

static void a_member_of_a_gang_is_never_handed_out_alone(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    struct id id = rig_add_spec(r, &spec);
    assert_refused(claim(r, id, 0, "w"), ERR_UNPROCESSABLE, "gang");
}

/* --- a claim that is repeated --- */

#define KEY 77

struct repeated {
    struct handout *list;
    size_t count;
};

static struct repeated claim_again(struct rig *r, uint64_t key, span lease)
{
    struct repeated again;
    assert_ok(engine_claim_again(r->e, r->now, key, lease, &r->strings, &again.list, &again.count));
    rig_turn(r);
    return again;
}

static void claim_keyed(struct rig *r, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        rig_add(r, "q");
    rig_clear(r);
    rig_claim_keyed(r, "w", "q", count, KEY);
    rig_turn(r);
    assert_int_equal(r->got_count, count);
}

static void repeated_it_gets_the_same_runs_with_leases_from_now(void **state)
{
    R;
    claim_keyed(r, 3);
    for (int restarted = 0; restarted < 2; restarted++, rig_restart(r)) {
        rig_turn_after(r, 1000);
        struct repeated again = claim_again(r, KEY, HOUR);
        assert_int_equal(again.count, 3);
        for (size_t i = 0; i < 3; i++) {
            assert_id(again.list[i].job.id, r->got[i].id);
            assert_int_equal(again.list[i].token, r->got[i].token);
            assert_int_equal(again.list[i].run, 0);
            assert_int_equal(again.list[i].lease_end.ms, r->now.ms + HOUR.ms);
        }
    }
    rig_turn_after(r, HOUR.ms - 1000);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 3);
    rig_turn_after(r, 1000);
    assert_int_equal(rig_count(r, "q", STATUS_IN_FLIGHT), 0);
    assert_int_equal(claim_again(r, KEY, HOUR).count, 0);
}

static void repeated_it_gets_no_run_of_which_its_worker_has_spoken(void **state)
{
    R;
    instant end;
    claim_keyed(r, 3);
    struct run_ref first = {.id = r->got[0].id, .token = r->got[0].token};
    assert_ok(engine_renew(r->e, r->now, first, HOUR, &end));
    rig_succeed(r, r->got[1].id);
    rig_turn(r);
    for (int restarted = 0; restarted < 2; restarted++, rig_restart(r)) {
        struct repeated again = claim_again(r, KEY, HOUR);
        assert_int_equal(again.count, 1);
        assert_id(again.list[0].job.id, r->got[2].id);
    }
}

static void only_its_own_key_repeats_a_claim(void **state)
{
    R;
    claim_keyed(r, 1);
    assert_int_equal(claim_again(r, KEY + 1, HOUR).count, 0);
    rig_add(r, "q");
    rig_clear(r);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    assert_int_equal(r->got_count, 1);
    assert_int_equal(claim_again(r, 0, HOUR).count, 0);
    assert_int_equal(claim_again(r, KEY, HOUR).count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_begins_the_run_of_that_job_though_others_come_before_it),
        TEST(its_lease_runs_out_like_any_other),
        TEST(a_job_whose_time_has_come_may_be_claimed_before_the_next_turn),
        TEST(the_same_worker_gets_the_same_claim_again),
        TEST(it_comes_again_with_the_checkpoint),
        TEST(another_worker_or_one_without_a_name_is_refused),
        TEST(another_index_is_stale),
        TEST(a_job_that_is_not_ready_is_refused_by_its_status),
        TEST(limits_of_its_queue_keep_it_back),
        TEST(a_full_key_keeps_it_back_and_a_parked_job_may_be_claimed_when_it_is_not),
        TEST(a_member_of_a_gang_is_never_handed_out_alone),
        TEST(repeated_it_gets_the_same_runs_with_leases_from_now),
        TEST(repeated_it_gets_no_run_of_which_its_worker_has_spoken),
        TEST(only_its_own_key_repeats_a_claim),
    };
    return cmocka_run_group_tests_name("engine_claim", tests, NULL, NULL);
}
