/* SPDX-License-Identifier: Apache-2.0 */

/* Gangs: handed out together or not at all, and retried together. */

#include "base/utf8.h"
#include "rig.h"

#define R      struct rig *r = *state
#define SECOND 1000

static int setup(void **state)
{
    rig_setup(state);
    R;
    r->settings.retry = (struct retry_defaults){3, {CURVE_POWER, {9 * SECOND}, 1, {0}, {-1}}};
    r->settings.dead_retention = (span){3600 * SECOND};
    rig_restart(r);
    return 0;
}

#define GANG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

static struct enqueue member(const char *queue, const char *gang, uint64_t size)
{
    struct enqueue spec = rig_spec(queue);
    spec.options.gang = str_from(gang);
    spec.options.gang_size = size;
    return spec;
}

static struct id add(struct rig *r, uint64_t size)
{
    struct enqueue spec = member("q", "g", size);
    assert_ok(engine_gang_check(r->e, &spec, 1));
    return rig_add_spec(r, &spec);
}

static uint64_t generation(struct rig *r, struct id id)
{
    return rig_read(r, id)->state.extras.gang_generation;
}

static uint64_t token_of(const struct rig *r, struct id id)
{
    for (size_t i = 0; i < r->got_count; i++)
        if (id_eq(r->got[i].id, id))
            return r->got[i].token;
    fail();
    return 0;
}

/* Its worker says that a run has ended which was taken from it. */
static void ended(struct rig *r, struct id id, uint64_t token)
{
    struct job job;
    assert_ok(engine_terminated(r->e, r->now, (struct run_ref){id, token},
                                rig_read(r, id)->state.runs - 1, &r->strings, &job));
}

/* --- handing out --- */

static void an_incomplete_gang_is_not_handed_out(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    assert_int_equal(rig_status(r, a), STATUS_READY);
    assert_int_equal(rig_count(r, "q", STATUS_READY), 2);
    struct id c = add(r, 3);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    assert_int_equal(rig_read(r, a)->gang_active, 3);
}

static void a_gang_waits_until_all_of_it_has_room(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    struct id plain = rig_add(r, "q");
    struct taker *t = rig_stream(r, "w", "q", 2);
    rig_turn(r);
    rig_assert_got(r, plain); /* jobs behind it overtake it meanwhile */
    rig_clear(r);
    rig_succeed(r, plain);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_stream(r, "x", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a, b, c); /* across takers */
    assert_string_equal(r->got[0].taker, "w");
    assert_string_equal(r->got[2].taker, "x");
    (void)t;
}

static void a_claim_with_room_gets_it_whole(void **state)
{
    R;
    struct id a = add(r, 2), b = add(r, 2);
    rig_claim(r, "small", "q", 1, (span){0});
    rig_turn(r);
    assert_int_equal(r->claim_count, 1);
    assert_int_equal(r->claim_sizes[0], 0);
    rig_claim(r, "big", "q", 5, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(r->claim_count, 2);
    assert_int_equal(r->claim_sizes[1], 2);
}

static void claims_that_wait_get_it_together(void **state)
{
    R;
    rig_claim(r, "w", "q", 1, (span){60 * SECOND});
    rig_claim(r, "x", "q", 1, (span){60 * SECOND});
    rig_turn(r);
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_claim(r, "y", "q", 1, (span){60 * SECOND});
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    assert_int_equal(r->claim_count, 3);
}

static void its_place_is_that_of_its_first_member(void **state)
{
    R;
    struct id a = add(r, 2), plain = rig_add(r, "q"), b = add(r, 2);
    struct id urgent = rig_add_priority(r, "q", 1);
    rig_stream(r, "w", "q", 2);
    rig_turn(r);
    rig_assert_got(r, urgent, plain); /* no room for two is left */
    rig_succeed(r, urgent);
    rig_succeed(r, plain);
    rig_clear(r);
    struct id later = rig_add(r, "q");
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(rig_status(r, later), STATUS_READY);
}

static void members_on_two_queues_go_to_takers_of_both(void **state)
{
    R;
    struct enqueue specs[] = {member("q", "g", 2), member("p", "g", 2)};
    struct id a = rig_add_spec(r, &specs[0]), b = rig_add_spec(r, &specs[1]);
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_stream(r, "x", "p", 5);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* A member that could go anywhere must not exclude one that could not. */
static void members_move_over_for_one_that_has_less_choice(void **state)
{
    R;
    rig_stream(r, "any", NULL, 1);
    rig_stream(r, "x", "q", 1);
    struct enqueue specs[] = {member("q", "g", 2), member("p", "g", 2)};
    struct id a = rig_add_spec(r, &specs[0]), b = rig_add_spec(r, &specs[1]);
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_string_equal(r->got[0].taker, "x");
    assert_string_equal(r->got[1].taker, "any");
}

/* Whoever is evicted from a node must not come back to it for a minute. */
static void avoid_after_eviction(struct rig *r)
{
    static const struct policy_rule away = {
        .action = POLICY_RETRY,
        .match = {.conditions = MATCHER_CONDITION(CONDITION_EVICTED)},
        .retry_limit = POLICY_NO_LIMIT,
        .affinity = {POLICY_AFFINITY_NODE},
        .key = 5};
    static const struct policy policy = {
        .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = &away, .rule_count = 1};
    r->policy = &policy;
    r->policy_settings = (struct policy_settings){.enabled = true, .global_max_retries = 20};
    r->settings.avoid_required = (span){60 * SECOND};
    rig_restart(r);
}

static const struct failure evicted_from_n2 = {
    .run_time = {-1}, .condition = CONDITION_EVICTED, .node = STR("n2")};

static void room_on_a_node_that_one_member_avoids_is_for_the_others(void **state)
{
    R;
    avoid_after_eviction(r);
    struct id a = add(r, 2), b = add(r, 2);
    struct taker *t = rig_stream_on(r, "n2", NULL, 2);
    rig_turn(r);
    rig_fail_with(r, a, &evicted_from_n2);
    ended(r, b, token_of(r, b));
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_clear(r);
    t = rig_stream_on(r, "n2", "q", 2);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_stream_on(r, "n1", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_string_equal(r->got[0].taker, "n1");
    assert_string_equal(r->got[1].taker, "n2");
}

static void a_member_pushes_on_another_that_pushes_on_a_third(void **state)
{
    R;
    avoid_after_eviction(r);
    struct enqueue elsewhere = member("p", "g", 3);
    struct id a = add(r, 3), b = add(r, 3), c = rig_add_spec(r, &elsewhere);
    struct taker *t = rig_stream_on(r, "n2", NULL, 3);
    rig_turn(r);
    rig_fail_with(r, a, &evicted_from_n2);
    ended(r, b, token_of(r, b));
    ended(r, c, token_of(r, c));
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    rig_stream(r, "any", NULL, 1);
    rig_stream_on(r, "n1", "q", 1);
    rig_turn(r);
    rig_clear(r);
    rig_stream_on(r, "n2", "q", 1);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    assert_string_equal(r->got[0].taker, "n1");
    assert_string_equal(r->got[1].taker, "n2");
    assert_string_equal(r->got[2].taker, "any");
}

/* Whether the members from the i-th on, with these queues, find room: tries everything. */
static bool fits(const char *const *queues, size_t i, size_t n, const char *const *serves,
                 uint32_t *room, size_t takers)
{
    for (size_t t = 0; i < n && t < takers; t++) {
        if (room[t] == 0 || (serves[t] && strcmp(serves[t], queues[i]) != 0))
            continue;
        room[t]--;
        bool good = fits(queues, i + 1, n, serves, room, takers);
        room[t]++;
        if (good)
            return true;
    }
    return i == n;
}

static void a_gang_is_handed_out_exactly_when_it_fits(void **state)
{
    R;
    static const char *const names[] = {"p", "q", "s", NULL};
    unsigned handed_out = 0, rounds = 400;
    struct rng rng = rng_from_seed(3);
    for (unsigned round = 0; round < rounds; round++) {
        enum { MOST = 5 };
        const char *queues[MOST], *serves[MOST];
        uint32_t room[MOST];
        struct taker *takers[MOST];
        struct id ids[MOST];
        size_t n = 2 + rng_below(&rng, MOST - 1), count = 1 + rng_below(&rng, MOST);
        for (size_t t = 0; t < count; t++) {
            serves[t] = names[rng_below(&rng, 4)];
            room[t] = 1 + (uint32_t)rng_below(&rng, 2);
            takers[t] = rig_stream(r, "w", serves[t], room[t]);
        }
        for (size_t i = 0; i < n; i++) {
            queues[i] = names[rng_below(&rng, 3)];
            struct enqueue spec = member(queues[i], "g", n);
            ids[i] = rig_add_spec(r, &spec);
        }
        rig_clear(r);
        rig_turn(r);
        bool expected = fits(queues, 0, n, serves, room, count);
        assert_int_equal(r->got_count, expected ? n : 0);
        handed_out += expected;
        for (size_t i = 0; i < n; i++)
            assert_ok(engine_remove(r->e, r->now, ids[i]));
        for (size_t t = 0; t < count; t++)
            engine_taker_close(r->e, r->now, takers[t], TAKER_GONE);
    }
    assert_in_range(handed_out, rounds / 10, rounds - rounds / 10); /* both outcomes occur often */
}

static void put_limits(struct rig *r, uint32_t concurrency, uint32_t burst, bool paused)
{
    struct queue_settings s = QUEUE_SETTINGS_DEFAULT;
    s.concurrency = concurrency;
    s.paused = paused;
    if (burst)
        s.rate = (struct rate){1, burst, {SECOND}};
    assert_ok(engine_queue_put(r->e, r->now, STR("q"), &s));
}

static void the_limits_of_its_queue_must_have_room_for_all_of_it(void **state)
{
    R;
    put_limits(r, 2, 0, false);
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    put_limits(r, 3, 0, true);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    put_limits(r, 3, 0, false);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

static void one_token_of_the_rate_does_for_a_gang(void **state)
{
    R;
    put_limits(r, 0, 1, false);
    struct id first = rig_add(r, "q");
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    struct id a = add(r, 2), b = add(r, 2);
    rig_turn(r);
    rig_assert_got(r, first);
    rig_clear(r);
    rig_turn_after(r, SECOND);
    rig_assert_got(r, a, b);
    rig_add(r, "q");
    rig_clear(r);
    rig_turn_after(r, SECOND - 1);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 1);
    assert_int_equal(r->got_count, 1);
}

/* --- generations --- */

static void one_that_is_retried_takes_the_others_along(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    uint64_t stale = token_of(r, c);
    struct job job = rig_fail(r, b);
    assert_int_equal(job.state.ready_at.ms, r->now.ms + 10 * SECOND);
    const struct id all[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        const struct job *j = rig_read(r, all[i]);
        assert_int_equal(j->state.status, STATUS_SCHEDULED);
        /* Their workers may go on for half a minute, for all that is known. */
        assert_int_equal(j->state.ready_at.ms, r->now.ms + (i == 1 ? 10 : 30) * SECOND);
        assert_int_equal(j->state.extras.gang_generation, 1);
        assert_int_equal(j->state.attempts, 1); /* counted once, for all of them */
        assert_int_equal(j->gang_active, 0);
        assert_int_equal(rig_run(r, all[i], 0)->outcome, i == 1 ? OUTCOME_FAILED : OUTCOME_GANG);
    }
    uint64_t other = token_of(r, a);
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){c, stale}), ERR_STALE_GANG);
    assert_int_equal(rig_read(r, c)->state.ready_at.ms, r->now.ms + 10 * SECOND); /* it has ended */
    assert_code(engine_release(r->e, r->now, (struct run_ref){a, other}, STR("")), ERR_STALE_GANG);
    rig_clear(r);
    rig_turn_after(r, 10 * SECOND);
    rig_assert_got(r, a, b, c);
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){c, stale}), ERR_STALE_GANG);
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){c, stale ^ 2}), ERR_STALE);
    assert_int_equal(rig_read(r, a)->gang_active, 3);
    rig_succeed(r, c);
    assert_int_equal(rig_read(r, a)->gang_active, 2);
}

static struct failure_report preempted(struct rig *r, struct id id, int64_t grace_s)
{
    return (struct failure_report){.ref = {id, token_of(r, id)},
                                   .failure = {.condition = CONDITION_PREEMPTED, .run_time = {-1}},
                                   .retry_at = INSTANT_NONE,
                                   .grace = {grace_s * SECOND}};
}

static void each_old_run_has_a_grace_of_its_own(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    rig_claim(r, "w", "q", 3, (span){0});
    rig_turn(r);
    const struct failure_report first = preempted(r, a, 5), second = preempted(r, b, 40);
    uint64_t silent = token_of(r, c);
    struct job job;
    instant begin = r->now;
    assert_ok(engine_fail(r->e, r->now, &first, &r->strings, &job));
    instant lease_end = instant_add(begin, RIG_LEASE);
    assert_int_equal(rig_read(r, a)->state.ready_at.ms, begin.ms + 10 * SECOND); /* the backoff */
    assert_int_equal(rig_read(r, b)->state.ready_at.ms, lease_end.ms);
    assert_int_equal(rig_read(r, c)->state.ready_at.ms, lease_end.ms);
    assert_ok(engine_fail(r->e, r->now, &second, &r->strings, &job));
    assert_int_equal(job.state.ready_at.ms, begin.ms + 40 * SECOND);
    assert_int_equal(job.state.attempts, 1);
    assert_true(engine_is_repeated(r->e, r->now, second.ref, OUTCOME_FAILED, &r->strings, &job));
    rig_restart(r);
    ended(r, c, silent);
    assert_int_equal(rig_read(r, c)->state.ready_at.ms, begin.ms + 10 * SECOND);
    rig_clear(r);
    rig_stream(r, "w", "q", 10);
    rig_turn_after(r, 39 * SECOND);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, SECOND);
    rig_assert_got(r, a, b, c);
}

static void a_gang_has_one_account_of_retries(void **state)
{
    R;
    r->settings.retry.limit = 2;
    rig_restart(r);
    const struct id all[] = {add(r, 3), add(r, 3), add(r, 3)};
    rig_stream(r, "w", "q", 3);
    for (int i = 0; i < 3; i++) { /* another one fails each time */
        rig_clear(r);
        rig_turn_after(r, 60 * SECOND);
        assert_int_equal(r->got_count, 3);
        rig_fail(r, all[i]);
        assert_int_equal(rig_read(r, all[i])->state.attempts, i + 1);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_status(r, all[i]), STATUS_DEAD);
}

static void one_that_has_ended_is_not_waited_for(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_succeed(r, a);
    rig_fail(r, b);
    rig_clear(r);
    rig_turn_after(r, 30 * SECOND);
    rig_assert_got(r, b, c);
    rig_restart(r);
    rig_stream(r, "w", "q", 10);
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, b, c);
    assert_int_equal(generation(r, b), 2);
}

static void with_one_that_is_dead_all_of_it_is(void **state)
{
    R;
    r->settings.retry.limit = 0;
    rig_restart(r);
    struct id done = add(r, 4), a = add(r, 4), b = add(r, 4), late = add(r, 4);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    rig_succeed(r, done);
    assert_int_equal(rig_fail(r, a).state.status, STATUS_DEAD);
    assert_int_equal(rig_status(r, done), STATUS_GONE); /* completed, and not kept */
    const struct id mates[] = {b, late};
    for (int i = 0; i < 2; i++) {
        const struct job *j = rig_read(r, mates[i]);
        assert_int_equal(j->state.status, STATUS_DEAD);
        assert_int_equal(j->state.resolution, RESOLUTION_GANG);
        assert_int_equal(rig_run(r, mates[i], 0)->outcome, OUTCOME_GANG);
        assert_int_equal(rig_run(r, mates[i], 0)->failure.culprit, CULPRIT_GANG);
    }
    rig_restart(r);
    assert_int_equal(rig_status(r, b), STATUS_DEAD);
}

/* Wherever a reason that is too long is cut. */
static void its_reason_has_whole_characters(void **state)
{
    R;
    r->settings.retry.limit = 0;
    rig_restart(r);
    for (unsigned even = 0; even < 2; even++) {
        char name[202] = "g";
        for (size_t n = 1 - even; n < 200; n += 2)
            memcpy(name + n, "\xc3\xa4", 3);
        struct enqueue spec = member("q", name, 2);
        struct id a = rig_add_spec(r, &spec), b = rig_add_spec(r, &spec);
        rig_stream(r, "w", "q", 2);
        rig_turn(r);
        rig_fail(r, a);
        struct str reason = rig_read(r, b)->state.reason;
        assert_true(reason.len >= RETRY_REASON_MAX - 2 && reason.len < RETRY_REASON_MAX);
        assert_int_equal(utf8_check(reason), reason.len);
    }
}

/* Whoever reports first. */
static void the_most_final_word_of_a_generation_counts(void **state)
{
    R;
    struct id a = add(r, 2), b = add(r, 2);
    rig_stream(r, "w", "q", 10);
    rig_turn(r);
    struct failure_report final = preempted(r, b, 0);
    final.kill = true;
    rig_fail(r, a);
    assert_int_equal(rig_status(r, a), STATUS_SCHEDULED);
    struct job job;
    assert_ok(engine_fail(r->e, r->now, &final, &r->strings, &job));
    assert_int_equal(job.state.status, STATUS_DEAD);
    assert_int_equal(rig_read(r, a)->state.resolution, RESOLUTION_GANG);
}

static void a_lost_stream_begins_one_generation_however_many_it_held(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    struct taker *t = rig_stream(r, "w", "q", 2);
    rig_claim(r, "x", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    engine_check(r->e);
    const struct id all[] = {a, b, c};
    for (int i = 0; i < 3; i++) { /* of the claim's run nobody knows that it has ended */
        assert_int_equal(rig_status(r, all[i]), i < 2 ? STATUS_READY : STATUS_SCHEDULED);
        assert_int_equal(generation(r, all[i]), 1);
        assert_int_equal(rig_read(r, all[i])->state.attempts, 0);
    }
    ended(r, c, token_of(r, c));
    assert_int_equal(rig_status(r, c), STATUS_READY);
}

static void a_lease_that_runs_out_takes_the_others_along(void **state)
{
    R;
    struct id a = add(r, 2), b = add(r, 2);
    rig_stream(r, "w", "q", 1);
    rig_claim(r, "x", "q", 1, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_clear(r);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_int_equal(generation(r, a), 1);
    assert_int_equal(generation(r, b), 1);
    assert_int_equal(r->got_count, 0); /* one place is not enough */
    rig_stream(r, "y", "q", 1);
    rig_turn_after(r, 30 * SECOND);
    rig_assert_got(r, a, b);
}

static void a_crash_under_streams_and_claims_is_one_generation(void **state)
{
    R;
    struct id a = add(r, 3), b = add(r, 3), c = add(r, 3);
    rig_stream(r, "w", "q", 2);
    rig_claim(r, "x", "q", 1, (span){0});
    rig_turn(r);
    uint64_t claimed = token_of(r, c);
    rig_restart(r);
    rig_turn(r);
    const struct id all[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rig_status(r, all[i]), i < 2 ? STATUS_READY : STATUS_SCHEDULED);
        assert_int_equal(generation(r, all[i]), 1);
    }
    assert_code(engine_succeed(r->e, r->now, (struct run_ref){c, claimed}), ERR_STALE_GANG);
    assert_int_equal(rig_status(r, c), STATUS_READY);
    rig_clear(r);
    rig_stream(r, "w", "q", 3);
    rig_turn(r);
    rig_assert_got(r, a, b, c);
}

static void claims_alone_outlive_a_restart_together(void **state)
{
    R;
    struct id a = add(r, 2), b = add(r, 2);
    rig_claim(r, "x", "q", 2, (span){0});
    rig_turn(r);
    uint64_t ta = token_of(r, a), tb = token_of(r, b);
    rig_restart(r);
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){a, ta}));
    assert_ok(engine_succeed(r->e, r->now, (struct run_ref){b, tb}));
}

static void an_incomplete_gang_is_incomplete_after_a_restart(void **state)
{
    R;
    struct id a = add(r, 2);
    rig_restart(r);
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    struct id b = add(r, 2);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* --- places --- */

static void a_gang_has_as_many_seats_as_its_cardinality(void **state)
{
    R;
    struct enqueue two = member("q", "g", 2), three = member("q", "g", 3);
    struct enqueue specs[] = {two, two, two};
    assert_code(engine_gang_check(r->e, specs, 3), ERR_UNPROCESSABLE);
    assert_ok(engine_gang_check(r->e, specs, 2));
    struct enqueue mixed[] = {two, three};
    assert_code(engine_gang_check(r->e, mixed, 2), ERR_UNPROCESSABLE);
    struct id a = add(r, 2);
    assert_code(engine_gang_check(r->e, &three, 1), ERR_UNPROCESSABLE);
    assert_code(engine_gang_check(r->e, specs, 2), ERR_UNPROCESSABLE);
    struct id b = add(r, 2);
    assert_code(engine_gang_check(r->e, &two, 1), ERR_UNPROCESSABLE);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, b, &r->strings, &job));
    b = add(r, 2); /* the place was free again */
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    rig_assert_got(r, a, b);
    rig_succeed(r, a);
    assert_code(engine_gang_check(r->e, &two, 1), ERR_UNPROCESSABLE);
    rig_succeed(r, b);
    assert_ok(engine_gang_check(r->e, &three, 1)); /* the id can be used again */
}

static void a_member_that_is_put_off_holds_the_others_up(void **state)
{
    R;
    struct id a = add(r, 2), b = add(r, 2);
    struct patch p = {.set = PATCH_READY_AT | PATCH_QUEUE,
                      .queue = STR("p"),
                      .ready_at = instant_add(r->now, (span){5 * SECOND})};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, a, &p, &r->strings, &job));
    rig_stream(r, "w", NULL, 5);
    rig_turn(r);
    assert_int_equal(r->got_count, 0);
    rig_turn_after(r, 5 * SECOND);
    rig_assert_got(r, a, b);
}

static void a_member_brought_back_by_hand_comes_alone(void **state)
{
    R;
    struct id a = add(r, 2), b = add(r, 2);
    rig_stream(r, "w", "q", 5);
    rig_turn(r);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, a, &r->strings, &job));
    rig_clear(r);
    assert_ok(engine_rerun(r->e, r->now, a, (struct rerun){.at = r->now}, &r->strings, &job));
    rig_turn(r);
    rig_assert_got(r, a);
    rig_fail(r, b);
    assert_int_equal(rig_status(r, a), STATUS_IN_FLIGHT);
    rig_restart(r);
    assert_int_equal(rig_status(r, a), STATUS_READY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GANG_TEST(an_incomplete_gang_is_not_handed_out),
        GANG_TEST(a_gang_waits_until_all_of_it_has_room),
        GANG_TEST(a_claim_with_room_gets_it_whole),
        GANG_TEST(claims_that_wait_get_it_together),
        GANG_TEST(its_place_is_that_of_its_first_member),
        GANG_TEST(members_on_two_queues_go_to_takers_of_both),
        GANG_TEST(members_move_over_for_one_that_has_less_choice),
        GANG_TEST(room_on_a_node_that_one_member_avoids_is_for_the_others),
        GANG_TEST(a_member_pushes_on_another_that_pushes_on_a_third),
        GANG_TEST(a_gang_is_handed_out_exactly_when_it_fits),
        GANG_TEST(the_limits_of_its_queue_must_have_room_for_all_of_it),
        GANG_TEST(one_token_of_the_rate_does_for_a_gang),
        GANG_TEST(one_that_is_retried_takes_the_others_along),
        GANG_TEST(each_old_run_has_a_grace_of_its_own),
        GANG_TEST(a_gang_has_one_account_of_retries),
        GANG_TEST(one_that_has_ended_is_not_waited_for),
        GANG_TEST(with_one_that_is_dead_all_of_it_is),
        GANG_TEST(its_reason_has_whole_characters),
        GANG_TEST(the_most_final_word_of_a_generation_counts),
        GANG_TEST(a_lost_stream_begins_one_generation_however_many_it_held),
        GANG_TEST(a_lease_that_runs_out_takes_the_others_along),
        GANG_TEST(a_crash_under_streams_and_claims_is_one_generation),
        GANG_TEST(claims_alone_outlive_a_restart_together),
        GANG_TEST(an_incomplete_gang_is_incomplete_after_a_restart),
        GANG_TEST(a_gang_has_as_many_seats_as_its_cardinality),
        GANG_TEST(a_member_that_is_put_off_holds_the_others_up),
        GANG_TEST(a_member_brought_back_by_hand_comes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
