/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues of jobs with very many dependencies, or of very many jobs that exist already: these are
 * looked up over several turns. */

#include "yard.h"

#include "core/depend.h"

#define Y    struct yard *y = *state
#define DEPS 20 /* of each job */
#define JOBS 5

struct request {
    struct id deps[DEPS];
    char bytes[DEPS * DEPEND_ID_LEN];
    struct enqueue specs[JOBS];
};

static int setup(void **state)
{
    int failed = yard_setup(state);
    struct yard *y = *state;
    y->settings.depend_slice = 10;
    yard_restart(y);
    return failed;
}

/* JOBS jobs that wait for the same existing ones. */
static void make(struct yard *y, struct request *r)
{
    for (int i = 0; i < DEPS; i++) {
        r->deps[i] = yard_add(y, "first");
        id_encode(r->deps[i], (uint8_t *)r->bytes + i * DEPEND_ID_LEN);
    }
    for (int i = 0; i < JOBS; i++) {
        r->specs[i] = yard_spec("then");
        r->specs[i].options.depends_on = (struct str){r->bytes, sizeof r->bytes};
    }
}

static void send(struct yard *y, struct request *r, struct answer *to)
{
    *to = (struct answer){0};
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {r->specs, JOBS}}, to);
    /* The request's memory is borrowed for the call. */
    memset(r->bytes, 0xff, sizeof r->bytes);
    memset(r->specs, 0xff, sizeof r->specs);
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

static void remove_job(struct yard *y, struct id id)
{
    struct answer a = {0};
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = id}, &a);
    assert_ok(a.err);
}

static void they_take_turns_in_which_others_are_served(void **state)
{
    Y;
    struct request r;
    struct answer many, one = {0};
    make(y, &r);
    send(y, &r, &many);
    yard_enqueue(y, "other", &one);
    assert_true(turns_until(y, &one) < 4);
    assert_int_equal(many.came, 0);
    assert_true(turns_until(y, &many) > 4);
    assert_ok(many.err);
    assert_int_equal(many.count, JOBS);
    assert_int_equal(yard_status(y, many.ids[JOBS - 1]), STATUS_BLOCKED);
    yard_restart(y);
    struct stream halves[2] = {0}; /* of what they wait for */
    yard_stream(y, "first", DEPS / 2, &halves[0]);
    yard_stream(y, "first", DEPS / 2, &halves[1]);
    yard_settle(y);
    for (int i = 0; i < DEPS; i++) {
        struct answer done = {0};
        struct id id = halves[i % 2].ids[i / 2];
        assert_int_equal(yard_status(y, many.ids[0]), STATUS_BLOCKED);
        yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = {.id = id, .vouched = true}},
                 &done);
        assert_ok(done.err);
    }
    yard_settle(y);
    assert_int_equal(yard_status(y, many.ids[0]), STATUS_READY);
}

static void all_are_refused_if_one_of_them_waits_for_nobody(void **state)
{
    Y;
    struct request r;
    struct answer a;
    make(y, &r);
    remove_job(y, r.deps[DEPS - 1]);
    send(y, &r, &a);
    turns_until(y, &a);
    assert_code(a.err, ERR_UNPROCESSABLE);
    assert_ptr_equal(strstr(a.err.msg, "jobs[0]: depends_on[19]: there is no job "), a.err.msg);
    struct answer count = {0};
    struct str then = STR("then");
    yard_ask(y,
             (struct command){.kind = CMD_COUNT,
                              .list = {.filter = {.queues = &then, .queue_count = 1}}},
             &count);
    assert_int_equal(count.count, 0);
}

static void what_happens_meanwhile_counts_as_if_it_came_after(void **state)
{
    Y;
    struct request r;
    struct answer a;
    make(y, &r);
    r.specs[0].options.depend_death = DEPEND_DIE;
    for (int i = 1; i < JOBS; i++) /* all but the last of them */
        r.specs[i].options.depends_on.len -= DEPEND_ID_LEN;
    send(y, &r, &a);
    yard_turn(y);
    yard_turn(y);
    yard_turn(y);
    assert_int_equal(a.came, 0);
    /* Each has been looked up. One completes and is gone, one is deleted. */
    struct stream s = {0};
    struct answer done = {0};
    yard_stream(y, "first", 1, &s);
    while (s.count == 0)
        yard_turn(y);
    assert_int_equal(a.came, 0);
    yard_send(y, (struct command){.kind = CMD_SUCCEED, .run = {.id = s.ids[0], .vouched = true}},
              &done);
    yard_turn(y);
    assert_int_equal(a.came, 0);
    struct answer removed = {0};
    yard_send(y, (struct command){.kind = CMD_REMOVE, .id = r.deps[DEPS - 1]}, &removed);
    turns_until(y, &a);
    assert_ok(removed.err);
    assert_ok(done.err);
    assert_ok(a.err);
    yard_settle(y);
    assert_int_equal(yard_status(y, a.ids[0]), STATUS_DEAD);
    assert_int_equal(yard_status(y, a.ids[2]), STATUS_BLOCKED);
}

static void a_disk_that_gets_full_ends_them(void **state)
{
    Y;
    struct request r;
    struct answer a, one = {0};
    make(y, &r);
    send(y, &r, &a);
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    yard_enqueue(y, "other", &one);
    turns_until(y, &a);
    assert_code(a.err, ERR_DISK_FULL);
    yard_faults(y, (struct memory_faults){0});
}

static void a_server_that_stops_drops_them(void **state)
{
    Y;
    struct request r;
    struct answer a;
    make(y, &r);
    send(y, &r, &a);
    yard_turn(y);
    yard_crash(y);
    assert_int_equal(a.came, 0);
}

/* --- jobs that exist already --- */

#define KEYED 16

static void send_keyed(struct yard *y, struct answer *to)
{
    char keys[KEYED][4];
    struct enqueue specs[KEYED];
    *to = (struct answer){0};
    for (int i = 0; i < KEYED; i++) {
        specs[i] = yard_spec("keyed");
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        specs[i].unique_key = str_from(keys[i]);
        specs[i].unique_while = UNIQUE_EXISTS;
        specs[i].dead_retention = (span){100000};
    }
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, KEYED}}, to);
    memset(keys, 0xff, sizeof keys);
    memset(specs, 0xff, sizeof specs);
}

static void check_same(const struct answer *a, const struct answer *b, int from)
{
    assert_ok(b->err);
    assert_int_equal(b->count, KEYED);
    for (int i = from; i < KEYED; i++)
        assert_true(id_eq(a->ids[i], b->ids[i]));
}

static void very_many_duplicates_are_read_over_several_turns(void **state)
{
    Y;
    struct answer first, again, one = {0};
    y->settings.depend_slice = 3;
    yard_restart(y);
    send_keyed(y, &first);
    assert_true(turns_until(y, &first) < 4); /* there is nothing to read */
    send_keyed(y, &again);
    yard_enqueue(y, "other", &one);
    assert_true(turns_until(y, &one) < 4);
    assert_int_equal(again.came, 0);
    assert_true(turns_until(y, &again) > 2);
    check_same(&first, &again, 0);
}

static void what_changes_after_it_was_read_is_read_again(void **state)
{
    Y;
    struct answer first, again, canceled = {0}, removed = {0};
    y->settings.depend_slice = 3;
    yard_restart(y);
    send_keyed(y, &first);
    turns_until(y, &first);
    send_keyed(y, &again);
    yard_turn(y);
    yard_turn(y);
    yard_turn(y);
    assert_int_equal(again.came, 0); /* the first ones were read */
    yard_send(y, (struct command){.kind = CMD_CANCEL, .id = first.ids[0]}, &canceled);
    yard_send(y, (struct command){.kind = CMD_REMOVE, .id = first.ids[1]}, &removed);
    turns_until(y, &again);
    assert_ok(canceled.err);
    assert_ok(removed.err);
    check_same(&first, &again, 2);
    assert_true(id_eq(first.ids[0], again.ids[0]));
    assert_int_equal(again.status, STATUS_DEAD);
    assert_false(id_eq(first.ids[1], again.ids[1]));
    assert_int_equal(yard_status(y, again.ids[1]), STATUS_READY);
}

static void two_of_them_end_one_after_the_other(void **state)
{
    Y;
    struct answer first, again[3];
    y->settings.depend_slice = 3;
    yard_restart(y);
    send_keyed(y, &first);
    turns_until(y, &first);
    for (int i = 0; i < 3; i++)
        send_keyed(y, &again[i]);
    for (int i = 0; i < 3; i++) {
        turns_until(y, &again[i]);
        check_same(&first, &again[i], 0);
    }
}

#define INTAKE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, yard_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INTAKE_TEST(they_take_turns_in_which_others_are_served),
        INTAKE_TEST(all_are_refused_if_one_of_them_waits_for_nobody),
        INTAKE_TEST(what_happens_meanwhile_counts_as_if_it_came_after),
        INTAKE_TEST(a_disk_that_gets_full_ends_them),
        INTAKE_TEST(a_server_that_stops_drops_them),
        INTAKE_TEST(very_many_duplicates_are_read_over_several_turns),
        INTAKE_TEST(what_changes_after_it_was_read_is_read_again),
        INTAKE_TEST(two_of_them_end_one_after_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
