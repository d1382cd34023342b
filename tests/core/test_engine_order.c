/* SPDX-License-Identifier: Apache-2.0 */

/* The order in which ready jobs are handed out: by priority; of one priority retries that policies
 * granted first, up to their share; then by age. */

#include "rig.h"

#include "base/array.h"
#include "base/must.h"

#define R      struct rig *r = *state
#define SECOND 1000
#define SHARE  75

static const struct policy_rule rules[] = {
    {.action = POLICY_RETRY,
     .match = {.conditions = MATCHER_CONDITION(CONDITION_EVICTED)},
     .retry_limit = POLICY_NO_LIMIT,
     .affinity = {POLICY_AFFINITY_NODE},
     .key = 5},
    {.action = POLICY_RETRY, .retry_limit = POLICY_NO_LIMIT, .key = 6},
};
static const struct policy policy = {
    .name = STR("p"), .retry_limit = POLICY_NO_LIMIT, .rules = rules, .rule_count = 2};

static int setup(void **state)
{
    rig_setup(state);
    R;
    r->settings.retry = (struct retry_defaults){1000, {CURVE_EXPONENTIAL, {0}, 1, {0}, {0}}};
    r->settings.retries_share = SHARE;
    r->settings.avoid_required = (span){60 * SECOND};
    r->policy = &policy;
    r->policy_settings = (struct policy_settings){
        .enabled = true, .global_max_retries = 1000000, .when_no_policy = RETRY_FALLBACK_DEFAULT};
    rig_restart(r);
    return 0;
}

#define ORDER_TEST(name) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)

/* Hands out the first job of those queues. */
static struct id take(struct rig *r, const char *queue)
{
    rig_clear(r);
    rig_claim(r, "c", queue, 1, (span){0});
    rig_turn(r);
    return r->got_count ? r->got[0].id : (struct id){0};
}

#define assert_next(r, queue, id) assert_id(take((r), (queue)), (id))

/* Takes it by a claim of its own and fails it, whatever else is ready; on a node, if given. */
static void fail_it(struct rig *r, struct id id, const char *node)
{
    const struct failure f = {.run_time = {-1},
                              .condition = node ? CONDITION_EVICTED : CONDITION_NONE,
                              .node = node ? str_from(node) : (struct str){0}};
    rig_fail_with(r, id, &f);
    rig_turn(r);
}

/* A job whose retry was granted, and an older one that never ran. */
static struct id granted(struct rig *r, const char *queue, uint16_t priority)
{
    struct id id = rig_add_priority(r, queue, 0);
    assert_next(r, queue, id);
    struct patch back = {.set = PATCH_PRIORITY, .priority = priority};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, id, &back, &r->strings, &job));
    fail_it(r, id, NULL);
    assert_int_equal(rig_read(r, id)->state.extras.granted, 1);
    return id;
}

static void a_granted_retry_comes_before_older_jobs_that_never_ran(void **state)
{
    R;
    struct id old = rig_add(r, "q");
    struct id again = granted(r, "q", JOB_PRIORITY_DEFAULT);
    struct id urgent = rig_add_priority(r, "q", 1);
    assert_next(r, "q", urgent);
    assert_next(r, "q", again);
    assert_next(r, "q", old);
}

static void retries_that_no_policy_grants_keep_their_place_by_age(void **state)
{
    R;
    r->policy = NULL;
    struct id first = rig_add(r, "q"), old = rig_add(r, "q");
    struct id retried = rig_add_priority(r, "q", 0), asked = rig_add_priority(r, "q", 0);
    struct id young = rig_add(r, "q");
    const struct patch back = {.set = PATCH_PRIORITY, .priority = JOB_PRIORITY_DEFAULT};
    struct job job;
    assert_next(r, "q", retried);
    assert_next(r, "q", asked);
    assert_ok(engine_patch(r->e, r->now, retried, &back, &r->strings, &job));
    assert_ok(engine_patch(r->e, r->now, asked, &back, &r->strings, &job));
    fail_it(r, retried, NULL);
    r->policy = &policy;
    const struct failure_report word = {
        .ref = rig_ref(r, asked), .failure = {.run_time = {-1}}, .retry_at = r->now};
    assert_ok(engine_fail(r->e, r->now, &word, &r->strings, &job));
    assert_int_equal(job.state.extras.granted, 0);
    const struct id order[] = {first, old, retried, asked, young};
    for (int i = 0; i < 5; i++)
        assert_next(r, "q", order[i]);
}

/* The same after a backoff, when the deadline knows its rank. */
static void a_granted_retry_has_its_place_when_its_backoff_is_over(void **state)
{
    R;
    struct id old = rig_add(r, "q"), again = granted(r, "q", JOB_PRIORITY_DEFAULT);
    const struct patch later = {.set = PATCH_READY_AT,
                                .ready_at = instant_add(r->now, (span){SECOND})};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, again, &later, &r->strings, &job));
    assert_int_equal(rig_status(r, again), STATUS_SCHEDULED);
    r->now.ms += SECOND;
    assert_next(r, "q", again);
    assert_next(r, "q", old);
}

static void its_place_is_kept_over_a_restart_a_lost_worker_and_a_release(void **state)
{
    R;
    r->settings.retries_share = 100; /* never the turn of others, however often jobs are taken */
    struct id old = rig_add(r, "q"), again = granted(r, "q", JOB_PRIORITY_DEFAULT);
    rig_restart(r);
    struct taker *t = rig_stream(r, "w", "q", 1);
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, again);
    rig_restart(r); /* which cuts the stream off */
    rig_turn(r);
    t = rig_stream(r, "w", "q", 1);
    rig_clear(r);
    rig_turn(r);
    rig_assert_got(r, again);
    engine_taker_close(r->e, r->now, t, TAKER_GONE);
    assert_next(r, "q", again);
    rig_release(r, again);
    rig_restart(r);
    assert_next(r, "q", again);
    assert_next(r, "q", old);
}

static void it_is_lost_with_the_next_failure_and_when_it_is_brought_back(void **state)
{
    R;
    struct id old = rig_add(r, "q"), again = granted(r, "q", JOB_PRIORITY_DEFAULT);
    assert_next(r, "q", again);
    r->policy = NULL;
    fail_it(r, again, NULL);
    assert_next(r, "q", old);
    assert_next(r, "q", again);
    r->policy = &policy;
    fail_it(r, again, NULL);
    struct job job;
    assert_ok(engine_cancel(r->e, r->now, again, &r->strings, &job));
    struct id other = rig_add(r, "q");
    rig_turn(r);
    assert_ok(engine_rerun(r->e, r->now, again, (struct rerun){.at = r->now}, &r->strings, &job));
    assert_int_equal(job.state.extras.granted, 0);
    assert_next(r, "q", again); /* it is older */
    assert_next(r, "q", other);
}

/* An expired lease is not a failure that policies judged. */
static void an_expired_lease_takes_it_away(void **state)
{
    R;
    struct id again = granted(r, "q", JOB_PRIORITY_DEFAULT);
    assert_next(r, "q", again);
    rig_confirm(r, again);
    rig_turn_after(r, RIG_LEASE.ms);
    assert_int_equal(rig_status(r, again), STATUS_READY);
    assert_int_equal(rig_read(r, again)->state.extras.granted, 0);
}

/* --- the share --- */

/* How many of `count` handed out were granted retries while both kinds wait. */
static unsigned retries_of(struct rig *r, uint32_t share, unsigned count, unsigned *longest)
{
    r->settings.retries_share = share;
    engine_configure(r->e, &r->settings);
    unsigned retries = 0, run = 0;
    *longest = 0;
    for (unsigned i = 0; i < count; i++) {
        struct id id = take(r, "q");
        bool is_retry = rig_read(r, id)->state.extras.granted;
        retries += is_retry;
        run = is_retry ? 0 : run + 1;
        *longest = run > *longest ? run : *longest;
        rig_succeed(r, id);
    }
    return retries;
}

static void new_jobs_get_what_the_share_leaves(void **state)
{
    R;
    for (int i = 0; i < 400; i++) { /* more than are taken */
        granted(r, "q", JOB_PRIORITY_DEFAULT);
        rig_add(r, "q");
    }
    static const struct {
        uint32_t share;
        unsigned retries, longest;
    } cases[] = {{75, 75, 1}, {50, 50, 1}, {90, 90, 1}, {25, 25, 3}, {100, 100, 0}, {1, 1, 99}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned longest, n = retries_of(r, cases[i].share, 100, &longest);
        assert_in_range(n, cases[i].retries ? cases[i].retries - 1 : 0, cases[i].retries + 2);
        assert_true(longest <= cases[i].longest + 1);
        retries_of(r, 50, 4, &longest); /* compensates for the rest */
    }
}

static void where_no_other_job_waits_retries_have_all(void **state)
{
    R;
    struct id id = granted(r, "q", JOB_PRIORITY_DEFAULT);
    for (int i = 0; i < 8; i++) {
        assert_next(r, "q", id);
        fail_it(r, id, NULL);
    }
}

/* Nor does a queue full of retries keep a worker of two queues from the jobs of the other. */
static void the_share_counts_between_queues_too(void **state)
{
    R;
    struct id elsewhere[10];
    for (int i = 0; i < 10; i++)
        elsewhere[i] = rig_add(r, "q");
    for (int i = 0; i < 60; i++)
        granted(r, "p", JOB_PRIORITY_DEFAULT); /* all of them younger */
    int got = 0, retries = 0;
    for (; got < 10 && retries < 60;) {
        struct id id = take(r, NULL);
        bool is_elsewhere = id_eq(id, elsewhere[got]);
        got += is_elsewhere;
        retries += !is_elsewhere;
        rig_succeed(r, id);
    }
    assert_int_equal(got, 10);
    assert_in_range(retries, 3, 59); /* and yet some came first */
}

/* --- where ready jobs lie elsewhere --- */

static void those_that_stay_off_a_node_come_first_for_others(void **state)
{
    R;
    struct id old = rig_add(r, "q"), away = rig_add_priority(r, "q", 0);
    const struct patch back = {.set = PATCH_PRIORITY, .priority = JOB_PRIORITY_DEFAULT};
    struct job job;
    assert_next(r, "q", away);
    assert_ok(engine_patch(r->e, r->now, away, &back, &r->strings, &job));
    fail_it(r, away, "n1");
    rig_clear(r);
    rig_stream_on(r, "n1", "q", 1);
    rig_turn(r);
    rig_assert_got(r, old);
    struct id young = rig_add(r, "q");
    rig_clear(r);
    rig_stream_on(r, "n2", "q", 2);
    rig_turn(r);
    rig_assert_got(r, away, young);
}

static void those_whose_key_was_full_come_back_to_their_place(void **state)
{
    R;
    rig_set(r, "q", .concurrency_per_key = 1);
    struct enqueue keyed = rig_spec("q");
    keyed.options.concurrency_key = STR("k");
    keyed.priority = 0;
    struct id again = rig_add_spec(r, &keyed), holder = rig_add_spec(r, &keyed);
    assert_next(r, "q", again);
    fail_it(r, again, NULL);
    const struct patch back = {.set = PATCH_PRIORITY, .priority = JOB_PRIORITY_DEFAULT};
    struct job job;
    assert_ok(engine_patch(r->e, r->now, again, &back, &r->strings, &job));
    struct id old = rig_add(r, "q");
    assert_next(r, "q", holder);
    struct id none = take(r, "q"); /* `again` is parked, for its key is full */
    assert_id(none, old);
    struct id young = rig_add(r, "q");
    rig_succeed(r, holder);
    rig_turn(r);
    assert_next(r, "q", again);
    assert_next(r, "q", young);
}

/* The run of its mate, which is taken from it, has ended as well. */
static void fail_beside(struct rig *r, struct id id, struct id mate)
{
    struct run_ref ref = rig_ref(r, mate);
    struct job job;
    fail_it(r, id, NULL);
    assert_ok(
        engine_terminated(r->e, r->now, ref, rig_read(r, mate)->state.runs - 1, &r->strings, &job));
}

static void a_gang_of_which_one_was_granted_a_retry_comes_first(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    struct id old = rig_add(r, "q"), other = rig_add(r, "q");
    rig_clear(r);
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, old, other);
    struct id a = rig_add_spec(r, &spec), b = rig_add_spec(r, &spec);
    rig_clear(r);
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_ok(engine_release(r->e, r->now, rig_ref(r, old), (struct str){0}));
    assert_ok(engine_release(r->e, r->now, rig_ref(r, other), (struct str){0}));
    fail_beside(r, a, b);
    rig_clear(r);
    rig_claim(r, "c", "q", 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* A place that one of them had does not apply to the next generation. */
static void a_gang_that_is_tried_again_for_another_reason_goes_by_age(void **state)
{
    R;
    struct enqueue spec = rig_spec("q");
    spec.options.gang = STR("g");
    spec.options.gang_size = 2;
    struct id a = rig_add_spec(r, &spec), b = rig_add_spec(r, &spec);
    rig_stream(r, "w", "q", 2);
    rig_turn(r);
    fail_beside(r, a, b);
    rig_turn(r);
    assert_int_equal(rig_status(r, a), STATUS_IN_FLIGHT); /* again */
    r->policy = NULL;
    fail_beside(r, b, a);
    rig_turn(r);
    assert_int_equal(rig_status(r, a), STATUS_IN_FLIGHT);
    assert_int_equal(rig_read(r, a)->state.extras.granted, 0);
    assert_int_equal(rig_read(r, b)->state.extras.granted, 0);
}

/* --- everything, against a model --- */

enum { MOST = 40 };

struct model {
    struct rig *r;
    struct rng rng;
    struct {
        struct id id; /* none: free */
        uint16_t priority;
        bool granted;
    } jobs[MOST];
    int32_t credit;
};

/* The index of the job that must come next, or -1. */
static int next_of(struct model *m)
{
    int first[2] = {-1, -1};
    for (int i = 0; i < MOST; i++) {
        int *at = &first[!m->jobs[i].granted];
        bool better = *at < 0 || m->jobs[i].priority < m->jobs[*at].priority ||
                      (m->jobs[i].priority == m->jobs[*at].priority &&
                       id_cmp(m->jobs[i].id, m->jobs[*at].id) < 0);
        if (!id_is_none(m->jobs[i].id) && better)
            *at = i;
    }
    if (first[0] < 0 || first[1] < 0)
        return first[0] < 0 ? first[1] : first[0];
    uint16_t p = m->jobs[first[0]].priority, q = m->jobs[first[1]].priority;
    if (p != q)
        return p < q ? first[0] : first[1];
    return first[m->credit < 0];
}

static void add_one(struct model *m)
{
    for (int i = 0; i < MOST; i++) {
        if (!id_is_none(m->jobs[i].id))
            continue;
        m->jobs[i].priority = (uint16_t)rng_below(&m->rng, 3);
        m->jobs[i].granted = false;
        m->jobs[i].id = rig_add_priority(m->r, "q", m->jobs[i].priority);
        return;
    }
}

static void take_one(struct model *m)
{
    int i = next_of(m);
    struct id got = take(m->r, "q");
    if (i < 0) {
        assert_true(id_is_none(got));
        return;
    }
    assert_id(got, m->jobs[i].id);
    bool others = m->credit < 0 || !m->jobs[i].granted;
    m->credit += others ? SHARE : SHARE - 100;
    m->credit = m->credit > SHARE ? SHARE : m->credit;
    if (rng_below(&m->rng, 3) && rig_read(m->r, got)->state.runs < RIG_RUNS_MAX - 2) {
        m->r->policy = rng_below(&m->rng, 4) ? &policy : NULL;
        m->jobs[i].granted = m->r->policy != NULL;
        fail_it(m->r, got, rng_below(&m->rng, 3) ? NULL : "elsewhere");
        return;
    }
    rig_succeed(m->r, got);
    m->jobs[i].id = (struct id){0};
}

static void the_order_is_that_of_the_model(void **state)
{
    R;
    struct model m = {.r = r, .rng = rng_from_seed(11)};
    for (int step = 0; step < 4000; step++) {
        if (rng_below(&m.rng, 3) == 0)
            add_one(&m);
        else
            take_one(&m);
        if (step % 500 == 499) {
            rig_restart(r);
            m.credit = 0; /* which nothing stores */
        }
    }
}

/* --- what is next, without handing it out --- */

static void assert_peek(struct rig *r, struct range priority, size_t limit, const struct id *ids,
                        size_t count)
{
    struct ready_place places[8];
    struct peek_command peek = {.queue = STR("q"), .priority = priority};
    size_t seen = 0;
    for (size_t n; (n = engine_peek(r->e, &peek, limit, places)); seen += n) {
        assert_true(n <= limit && seen + n <= count);
        for (size_t i = 0; i < n; i++)
            assert_id(places[i].id, ids[seen + i]);
        peek.from = places[n - 1];
    }
    assert_int_equal(seen, count);
}

static void a_peek_goes_by_priority_granted_retries_and_age_of_all_orders(void **state)
{
    R;
    struct id low = rig_add_priority(r, "q", 65535);
    struct id again = granted(r, "q", 7);
    struct id off_node = rig_add_priority(r, "q", 0);
    assert_next(r, "q", off_node);
    fail_it(r, off_node, "n1");
    struct id a = rig_add_priority(r, "q", 7), b = rig_add_priority(r, "q", 7);
    rig_add_later(r, "q", (span){SECOND});
    rig_add(r, "other");
    const struct id all[] = {off_node, again, a, b, low};
    const struct range any = {0}, seven = {true, 7, 7}, from_seven = {true, 7, 65535},
                       none = {true, 8, 100};
    for (size_t limit = 1; limit < 7; limit++) {
        assert_peek(r, any, limit, all, 5);
        assert_peek(r, seven, limit, all + 1, 3);
        assert_peek(r, from_seven, limit, all + 1, 4);
        assert_peek(r, none, limit, all, 0);
    }
    assert_int_equal(rig_status(r, off_node), STATUS_READY);
}

static void a_peek_shows_what_a_paused_queue_has_but_no_gangs_and_no_full_keys(void **state)
{
    R;
    struct enqueue gang = rig_spec("q"), key = rig_spec("q");
    gang.options.gang = STR("g");
    gang.options.gang_size = 2;
    rig_add_spec(r, &gang);
    key.options.concurrency_key = STR("k");
    struct id first = rig_add_spec(r, &key);
    rig_set(r, "q", .concurrency_per_key = 1);
    assert_next(r, "q", first);
    struct id parked = rig_add_spec(r, &key), plain = rig_add(r, "q");
    const struct id before[] = {parked, plain};
    const struct range any = {0};
    assert_peek(r, any, 8, before, 2);
    rig_claim(r, "c", "q", 1, (span){0});
    rig_turn(r); /* which parks the one and hands out the other */
    plain = rig_add(r, "q");
    rig_set(r, "q", .concurrency_per_key = 1, .paused = true);
    assert_peek(r, any, 8, (const struct id[]){plain}, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ORDER_TEST(a_granted_retry_comes_before_older_jobs_that_never_ran),
        ORDER_TEST(retries_that_no_policy_grants_keep_their_place_by_age),
        ORDER_TEST(a_granted_retry_has_its_place_when_its_backoff_is_over),
        ORDER_TEST(its_place_is_kept_over_a_restart_a_lost_worker_and_a_release),
        ORDER_TEST(it_is_lost_with_the_next_failure_and_when_it_is_brought_back),
        ORDER_TEST(an_expired_lease_takes_it_away),
        ORDER_TEST(new_jobs_get_what_the_share_leaves),
        ORDER_TEST(where_no_other_job_waits_retries_have_all),
        ORDER_TEST(the_share_counts_between_queues_too),
        ORDER_TEST(those_that_stay_off_a_node_come_first_for_others),
        ORDER_TEST(those_whose_key_was_full_come_back_to_their_place),
        ORDER_TEST(a_gang_of_which_one_was_granted_a_retry_comes_first),
        ORDER_TEST(a_gang_that_is_tried_again_for_another_reason_goes_by_age),
        ORDER_TEST(the_order_is_that_of_the_model),
        ORDER_TEST(a_peek_goes_by_priority_granted_retries_and_age_of_all_orders),
        ORDER_TEST(a_peek_shows_what_a_paused_queue_has_but_no_gangs_and_no_full_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
