/* SPDX-License-Identifier: Apache-2.0 */

/* When gangs are handed out beside other jobs, and what waiting gangs cost everyone else. */

#include "rig.h"

#include <stdio.h>

#define R struct rig *r = *state

static struct enqueue member(const char *queue, const char *gang, uint64_t size)
{
    struct enqueue spec = rig_spec(queue);
    spec.options.gang = str_from(gang);
    spec.options.gang_size = size;
    return spec;
}

static struct id add_to(struct rig *r, const char *queue, const char *gang, uint64_t size)
{
    struct enqueue spec = member(queue, gang, size);
    return rig_add_spec(r, &spec);
}

/* --- claims that do not wait --- */

static void an_older_job_that_nobody_takes_keeps_no_claim_from_a_gang(void **state)
{
    R;
    struct id alone = rig_add(r, "nobody");
    struct id a = add_to(r, "q", "g", 2), b = add_to(r, "q", "g", 2);
    rig_claim(r, "w", "q", 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
    assert_int_equal(r->claim_sizes[0], 2);
    assert_int_equal(rig_status(r, alone), STATUS_READY);
}

static void a_claim_gets_a_gang_between_an_older_and_younger_jobs(void **state)
{
    R;
    rig_add(r, "nobody");
    struct id older = rig_add(r, "q");
    struct id a = add_to(r, "q", "g", 2), b = add_to(r, "q", "g", 2);
    struct id younger = rig_add(r, "q"), last = rig_add(r, "q");
    rig_claim(r, "w", "q", 4, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b, older, younger); /* in one answer */
    assert_int_equal(r->claim_sizes[0], 4);
    assert_int_equal(rig_status(r, last), STATUS_READY);
}

/* Of any number of claims the first gets the older jobs, and the second the gang. */
static void a_gang_is_not_passed_by_for_younger_jobs_for_ever(void **state)
{
    R;
    struct id older = rig_add(r, "q");
    struct id a = add_to(r, "q", "g", 2), b = add_to(r, "q", "g", 2);
    struct id younger[10];
    for (int i = 0; i < 10; i++)
        younger[i] = rig_add(r, "q");
    rig_claim(r, "w", NULL, 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, older, younger[0]);
    rig_clear(r);
    rig_claim(r, "w", NULL, 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* Both takers reserve room for the older job, and only one of them gets it. */
static void room_that_was_kept_in_vain_is_used_in_the_same_turn(void **state)
{
    R;
    struct id older = rig_add(r, "q");
    struct id a = add_to(r, "q", "g", 3), b = add_to(r, "q", "g", 3), c = add_to(r, "q", "g", 3);
    rig_stream(r, "w", "q", 2);
    rig_stream(r, "x", "q", 2);
    rig_turn(r);
    rig_assert_got(r, older, a, b, c);
}

static void claims_that_do_not_wait_share_a_gang(void **state)
{
    R;
    rig_add(r, "nobody");
    struct id a = add_to(r, "q", "g", 3), b = add_to(r, "q", "g", 3), c = add_to(r, "q", "g", 3);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_claim(r, "x", "q", 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b, c);
    assert_int_equal(r->claim_count, 2);
}

static void jobs_that_a_limit_holds_back_come_before_nothing(void **state)
{
    R;
    rig_add(r, "held");
    rig_set(r, "held", .paused = true);
    struct id a = add_to(r, "q", "g", 2), b = add_to(r, "q", "g", 2);
    rig_add(r, "q");
    rig_claim(r, "w", NULL, 2, (span){0});
    rig_turn(r);
    rig_assert_got(r, a, b);
}

static void a_queue_keeps_room_for_what_comes_before_a_gang(void **state)
{
    R;
    rig_set(r, "q", .concurrency = 2);
    struct id older = rig_add(r, "q");
    struct id a = add_to(r, "q", "g", 2), b = add_to(r, "q", "g", 2);
    rig_stream(r, "w", "q", 9);
    rig_turn(r);
    rig_assert_got(r, older);
    rig_clear(r);
    rig_succeed(r, older);
    rig_turn(r);
    rig_assert_got(r, a, b);
}

/* --- what they cost --- */

static void add_gangs(struct rig *r, unsigned from, unsigned count, bool alike)
{
    char name[24], queue[24] = "q";
    for (unsigned i = from; i < from + count; i++) {
        snprintf(name, sizeof name, "g%u", i);
        if (!alike)
            snprintf(queue, sizeof queue, "q%u", i);
        add_to(r, "q", name, 2);
        add_to(r, queue, name, 2);
        arena_reset(&r->turn);
        if (i % 1000 == 0)
            assert_ok(engine_dispatch(r->e, r->now, &r->turn));
    }
}

/* One turn without the check of the rig, which looks at everything. */
static uint64_t steps_of_turn(struct rig *r)
{
    uint64_t before = engine_gang_steps(r->e);
    arena_reset(&r->turn);
    assert_ok(engine_dispatch(r->e, r->now, &r->turn));
    return engine_gang_steps(r->e) - before;
}

enum { MANY = 60000 };

static void many_gangs_that_wait_cost_other_commands_nothing(void **state)
{
    R;
    rig_stream(r, "other", "p", 10);
    rig_turn(r);
    add_gangs(r, 0, MANY, true);
    steps_of_turn(r);
    uint64_t before = engine_gang_steps(r->e);
    for (int i = 0; i < 30; i++) {
        rig_succeed(r, (rig_add(r, "p"), steps_of_turn(r), r->got[r->got_count - 1].id));
        rig_add(r, "q"); /* nobody takes it */
        steps_of_turn(r);
    }
    assert_int_equal(engine_gang_steps(r->e), before);
    before = engine_gang_steps(r->e);
    add_gangs(r, MANY, 1, true);
    steps_of_turn(r);
    assert_in_range(engine_gang_steps(r->e) - before, 0, 10);
    rig_turn(r); /* with the check */
}

/* A worker that always has too little room gets some. */
static void many_gangs_alike_cost_one_plan_when_a_worker_has_room(void **state)
{
    R;
    rig_stream(r, "small", "q", 1);
    rig_turn(r);
    add_gangs(r, 0, MANY, true);
    steps_of_turn(r);
    for (int i = 0; i < 30; i++) {
        struct id id = rig_add_priority(r, "q", 1);
        uint64_t before = engine_gang_steps(r->e);
        steps_of_turn(r);
        rig_succeed(r, id);
        steps_of_turn(r);
        assert_in_range(engine_gang_steps(r->e) - before, 0, 20);
    }
    rig_clear(r);
    rig_stream(r, "second", "q", 1);
    steps_of_turn(r);
    assert_int_equal(r->got_count, 2);
    rig_turn(r);
}

/* Members are in a queue of their own that nobody takes from: that alone is what they wait for. */
static void many_gangs_unlike_wait_only_for_what_they_lack(void **state)
{
    R;
    rig_stream(r, "w", "q", 9);
    rig_turn(r);
    add_gangs(r, 0, MANY / 10, false);
    steps_of_turn(r);
    while (engine_dispatch_again(r->e))
        steps_of_turn(r);
    for (int i = 0; i < 30; i++) {
        struct id id = rig_add_priority(r, "q", 1);
        uint64_t before = engine_gang_steps(r->e);
        steps_of_turn(r);
        rig_succeed(r, id);
        steps_of_turn(r);
        assert_int_equal(engine_gang_steps(r->e), before);
    }
    rig_clear(r);
    rig_stream(r, "last", "q5999", 1);
    steps_of_turn(r);
    assert_int_equal(r->got_count, 2);
    rig_turn(r);
}

/* However many gangs must be looked at, one turn looks at a limited number, and the last of them is
 * reached, also by a claim that does not wait. */
static void a_turn_has_an_end_and_no_gang_is_out_of_reach(void **state)
{
    R;
    add_gangs(r, 0, MANY, false);
    struct id a = add_to(r, "fit", "last", 2), b = add_to(r, "fit", "last", 2);
    while (engine_dispatch_again(r->e))
        steps_of_turn(r);
    struct taker_spec spec = {.claim = true, .limit = 2, .lease = RIG_LEASE, .wait_end = r->now};
    struct str queues[] = {STR("q"), STR("fit")};
    spec.queues = queues;
    spec.queue_count = 2;
    rig_stream(r, "w", "q", 1); /* a taker that makes all of them due */
    rig_stream(r, "v", NULL, 1);
    for (int i = 0; i < 3; i++) {
        struct taker_spec none = spec;
        none.queue_count = 1;
        none.limit = 1;
        engine_taker_open(r->e, &none, r);
    }
    engine_taker_open(r->e, &spec, r);
    int turns = 0;
    uint64_t most = 0;
    do {
        uint64_t steps = steps_of_turn(r);
        most = steps > most ? steps : most;
        turns++;
    } while (engine_dispatch_again(r->e) && turns < 1000);
    assert_in_range(turns, 1, 999);
    assert_in_range(most, 1, 250000);
    assert_int_equal(rig_status(r, a), STATUS_IN_FLIGHT);
    assert_int_equal(rig_status(r, b), STATUS_IN_FLIGHT);
    rig_turn(r);
}

/* --- every wait has a reason --- */

enum { TAKERS = 5, GANGS = 4, MOST = 4 };
static const char *const names[] = {"p", "q", "s", NULL};

struct world {
    struct rig *r;
    struct rng rng;
    struct seat {
        struct taker *taker; /* NULL: free */
        const char *serves;
        uint32_t limit, held;
    } seats[TAKERS];
    struct group {
        size_t size; /* 0: free */
        const char *queues[MOST];
        struct id ids[MOST];
        unsigned number;
    } groups[GANGS];
    struct hold {
        struct id id;
        struct seat *seat; /* NULL: free */
    } holds[TAKERS * 3];
    uint32_t limits[3]; /* of the queues; 0: none */
    unsigned number, handed_out, waited;
};

static void open_seat(struct world *w, struct seat *s)
{
    *s = (struct seat){.serves = names[rng_below(&w->rng, 4)],
                       .limit = 1 + (uint32_t)rng_below(&w->rng, 3)};
    struct str name[1];
    struct taker_spec spec = {.limit = s->limit, .queues = name};
    if (s->serves) {
        name[0] = str_from(s->serves);
        spec.queue_count = 1;
    }
    s->taker = engine_taker_open(w->r->e, &spec, s);
}

static void close_seat(struct world *w, struct seat *s)
{
    engine_taker_close(w->r->e, w->r->now, s->taker, TAKER_GONE);
    s->taker = NULL;
    for (size_t i = 0; i < TAKERS * 3; i++) {
        struct hold *h = &w->holds[i];
        if (!h->seat || rig_status(w->r, h->id) == STATUS_IN_FLIGHT)
            continue;
        h->seat->held--; /* also those that came back with one of their gang */
        h->seat = NULL;
    }
}

static void toggle_group(struct world *w, struct group *g)
{
    if (g->size) {
        for (size_t i = 0; i < g->size; i++)
            if (rig_status(w->r, g->ids[i]) == STATUS_READY)
                assert_ok(engine_remove(w->r->e, w->r->now, g->ids[i]));
        for (size_t i = 0; i < g->size; i++)
            if (rig_status(w->r, g->ids[i]) == STATUS_IN_FLIGHT)
                return;
        g->size = 0;
        return;
    }
    char name[24];
    g->number = ++w->number;
    snprintf(name, sizeof name, "g%u", g->number);
    g->size = 2 + rng_below(&w->rng, MOST - 1);
    for (size_t i = 0; i < g->size; i++) {
        g->queues[i] = names[rng_below(&w->rng, 3)];
        g->ids[i] = add_to(w->r, g->queues[i], name, g->size);
    }
}

static void finish_one(struct world *w)
{
    size_t i = rng_below(&w->rng, TAKERS * 3);
    struct hold *h = &w->holds[i];
    if (!h->seat)
        return;
    rig_succeed(w->r, h->id);
    h->seat->held--;
    h->seat = NULL;
}

static void limit_one(struct world *w)
{
    size_t q = rng_below(&w->rng, 3);
    w->limits[q] = (uint32_t)rng_below(&w->rng, 5);
    rig_set(w->r, names[q], .concurrency = w->limits[q]);
}

static void do_something(struct world *w)
{
    struct seat *s = &w->seats[rng_below(&w->rng, TAKERS)];
    switch (rng_below(&w->rng, 8)) {
    case 0:
        if (s->taker)
            close_seat(w, s);
        else
            open_seat(w, s);
        return;
    case 1:
    case 2:
        toggle_group(w, &w->groups[rng_below(&w->rng, GANGS)]);
        return;
    case 3:
        rig_add(w->r, names[rng_below(&w->rng, 3)]);
        return;
    case 4:
        limit_one(w);
        return;
    default:
        finish_one(w);
    }
}

static void note_got(struct world *w)
{
    const struct rig *r = w->r;
    for (size_t i = 0; i < r->got_count; i++) {
        struct seat *s = r->got[i].taker;
        size_t k = 0;
        while (w->holds[k].seat)
            k++;
        w->holds[k] = (struct hold){r->got[i].id, s};
        s->held++;
        assert_in_range(s->held, 1, s->limit);
    }
    rig_clear(w->r);
}

/* Whether the members from the i-th on find room: tries everything. */
static bool fits(const struct world *w, const struct group *g, size_t i, uint32_t *room)
{
    for (size_t t = 0; i < g->size && t < TAKERS; t++) {
        const struct seat *s = &w->seats[t];
        if (!s->taker || room[t] == 0 || (s->serves && strcmp(s->serves, g->queues[i]) != 0))
            continue;
        room[t]--;
        bool good = fits(w, g, i + 1, room);
        room[t]++;
        if (good)
            return true;
    }
    return i == g->size;
}

static bool limits_allow(const struct world *w, const struct group *g)
{
    for (size_t q = 0; q < 3; q++) {
        uint64_t asked = 0;
        for (size_t i = 0; i < g->size; i++)
            asked += g->queues[i] == names[q];
        if (w->limits[q] && rig_count(w->r, names[q], STATUS_IN_FLIGHT) + asked > w->limits[q] &&
            asked)
            return false;
    }
    return true;
}

static void check_groups(struct world *w)
{
    uint32_t room[TAKERS];
    for (size_t t = 0; t < TAKERS; t++)
        room[t] = w->seats[t].taker ? w->seats[t].limit - w->seats[t].held : 0;
    for (size_t k = 0; k < GANGS; k++) {
        const struct group *g = &w->groups[k];
        size_t ready = 0;
        for (size_t i = 0; i < g->size; i++)
            ready += rig_status(w->r, g->ids[i]) == STATUS_READY;
        if (!g->size || ready < g->size) {
            w->handed_out += g->size > 0;
            continue;
        }
        assert_false(limits_allow(w, g) && fits(w, g, 0, room));
        w->waited++;
    }
}

static void no_gang_waits_that_fits(void **state)
{
    R;
    unsigned handed_out = 0, waited = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world w = {.r = r, .rng = rng_from_seed(seed)};
        for (int step = 0; step < 120; step++) {
            for (uint64_t n = rng_below(&w.rng, 3); n-- > 0;)
                do_something(&w);
            rig_turn(r);
            note_got(&w);
            check_groups(&w);
        }
        handed_out += w.handed_out;
        waited += w.waited;
        for (size_t i = 0; i < TAKERS; i++)
            if (w.seats[i].taker)
                close_seat(&w, &w.seats[i]);
        rig_teardown(state);
        rig_setup(state);
        r = *state;
    }
    assert_true(handed_out > 1000 && waited > 1000); /* both outcomes occur often */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_older_job_that_nobody_takes_keeps_no_claim_from_a_gang),
        TEST(a_claim_gets_a_gang_between_an_older_and_younger_jobs),
        TEST(a_gang_is_not_passed_by_for_younger_jobs_for_ever),
        TEST(room_that_was_kept_in_vain_is_used_in_the_same_turn),
        TEST(claims_that_do_not_wait_share_a_gang),
        TEST(jobs_that_a_limit_holds_back_come_before_nothing),
        TEST(a_queue_keeps_room_for_what_comes_before_a_gang),
        TEST(many_gangs_that_wait_cost_other_commands_nothing),
        TEST(many_gangs_alike_cost_one_plan_when_a_worker_has_room),
        TEST(many_gangs_unlike_wait_only_for_what_they_lack),
        TEST(a_turn_has_an_end_and_no_gang_is_out_of_reach),
        TEST(no_gang_waits_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
