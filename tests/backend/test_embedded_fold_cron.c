/* SPDX-License-Identifier: Apache-2.0 */

/* Cron entries whose jobs are batched: a tick is folded once, whatever happens meanwhile. */

#include "brain.h"

static struct brain brain;

static int setup(void **state)
{
    if (yard_setup(state))
        return -1;
    struct yard *y = *state;
    y->settings.min_free_space = 1000;
    brain_install(&brain, y);
    return 0;
}

static int teardown(void **state)
{
    int bad = yard_teardown(state);
    brain_fini(&brain);
    return bad;
}

#define CRON_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define MINUTE          60000

static struct cron_spec spec_with(const char *when, const char *fold)
{
    struct cron_spec spec = {.name = STR("e"), .expression = STR("* * * * *")};
    spec.job = yard_spec("q");
    spec.job.payload = STR("[1]");
    spec.job.batch = (struct job_batch){STR("k"), str_from(when), str_from(fold), false};
    return spec;
}

static struct answer put(struct yard *y, struct cron_spec spec)
{
    struct answer a = {0};
    struct cron_put put = {.group = STR("g"), .entries = &spec, .count = 1};
    yard_send(y, (struct command){.kind = CMD_CRON_PUT, .cron_put = put}, &a);
    brain_settle(&brain, y);
    assert_int_equal(a.came, 1);
    return a;
}

static struct answer put_good(struct yard *y)
{
    struct answer a = put(y, spec_with("yes", "join"));
    assert_ok(a.err);
    return a;
}

/* The existing jobs. */
static struct answer jobs(struct yard *y)
{
    struct answer a = {0};
    yard_ask(y, (struct command){.kind = CMD_LIST, .list = {.limit = 10}}, &a);
    assert_ok(a.err);
    return a;
}

static void assert_payload(struct yard *y, struct id id, const char *payload)
{
    struct answer a = {0};
    yard_read(y, id, &a);
    assert_ok(a.err);
    assert_string_equal(a.payload, payload);
}

/* A minute later, with everything answered. */
static void tick(struct yard *y)
{
    yard_turn_after(y, MINUTE);
    brain_settle(&brain, y);
}

/* A job waits, and a tick has begun whose question is unanswered. */
static struct id begin_tick(struct yard *y)
{
    put_good(y);
    tick(y);
    struct answer a = jobs(y);
    assert_int_equal(a.count, 1);
    yard_turn_after(y, MINUTE);
    yard_settle(y);
    assert_int_equal(brain.count, 1);
    return a.ids[0];
}

static void ticks_are_folded_into_the_job_that_waits(void **state)
{
    struct yard *y = *state;
    put_good(y);
    tick(y);
    struct answer a = jobs(y);
    assert_int_equal(a.count, 1);
    assert_payload(y, a.ids[0], "[1]");
    tick(y);
    tick(y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, a.ids[0], "[1,1,1]");
}

static void a_tick_and_an_enqueue_share_a_batch(void **state)
{
    struct yard *y = *state;
    struct enqueue spec = spec_with("yes", "join").job;
    spec.payload = STR("[0]");
    struct answer a = {0};
    put_good(y);
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    brain_settle(&brain, y);
    assert_ok(a.err);
    tick(y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, a.ids[0], "[0,1]");
}

static void a_when_that_says_no_makes_the_tick_a_job_of_its_own(void **state)
{
    struct yard *y = *state;
    assert_ok(put(y, spec_with("no", "join")).err);
    tick(y);
    tick(y);
    struct answer a = jobs(y);
    assert_int_equal(a.count, 2);
    assert_payload(y, a.ids[0], "[1]");
    assert_payload(y, a.ids[1], "[1]");
}

static void ticks_that_are_due_while_the_evaluator_thinks_become_one(void **state)
{
    struct yard *y = *state;
    struct id id = begin_tick(y);
    yard_turn_after(y, 3 * MINUTE);
    assert_int_equal(brain.count, 1);
    brain_settle(&brain, y);
    assert_payload(y, id, "[1,1]");
    tick(y);
    assert_payload(y, id, "[1,1,1]");
}

static void a_crash_while_the_evaluator_thinks_loses_no_tick_and_doubles_none(void **state)
{
    struct yard *y = *state;
    struct id id = begin_tick(y);
    yard_crash(y);
    brain_fini(&brain);
    brain_settle(&brain, y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, id, "[1,1]");
    tick(y);
    assert_payload(y, id, "[1,1,1]");
}

static void a_crash_after_the_fold_finds_both_or_neither(void **state)
{
    struct yard *y = *state;
    struct id id = begin_tick(y);
    brain_answer(&brain);
    yard_turn(y); /* its batch is being committed, and is lost */
    yard_crash(y);
    brain_settle(&brain, y);
    assert_payload(y, id, "[1,1]");
    yard_crash(y);
    brain_settle(&brain, y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, id, "[1,1]");
}

static void a_full_disk_puts_the_tick_off(void **state)
{
    struct yard *y = *state;
    struct id id = begin_tick(y);
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    brain_answer(&brain);
    yard_settle(y); /* the store is reopened, and the tick is due as before */
    yard_turn_after(y, 10000);
    brain_settle(&brain, y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, id, "[1,1]");
}

static void no_room_puts_the_tick_off(void **state)
{
    struct yard *y = *state;
    struct id id = begin_tick(y);
    int64_t room = y->free_space;
    y->free_space = 900; /* enough to continue, not for new work */
    yard_turn_after(y, 1000);
    brain_answer(&brain);
    yard_settle(y);
    assert_payload(y, id, "[1]");
    y->free_space = room;
    yard_turn_after(y, 5000);
    brain_settle(&brain, y);
    assert_payload(y, id, "[1,1]");
}

static void an_error_of_the_expressions_makes_the_tick_a_job_of_its_own(void **state)
{
    struct yard *y = *state;
    struct id id = begin_tick(y);
    brain.ill = ERR_UNPROCESSABLE;
    brain_answer(&brain);
    brain.ill = ERR_OK;
    yard_settle(y);
    struct answer a = jobs(y);
    assert_int_equal(a.count, 2);
    assert_payload(y, id, "[1]");
    assert_payload(y, a.ids[1], "[1]");
    tick(y); /* it continues, with the open batch */
    assert_int_equal(jobs(y).count, 2);
    assert_payload(y, id, "[1,1]");
    assert_payload(y, a.ids[1], "[1]");
}

static void a_busy_evaluator_puts_the_tick_off(void **state)
{
    struct yard *y = *state;
    put_good(y);
    tick(y);
    struct id id = jobs(y).ids[0];
    brain.busy = true;
    tick(y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, id, "[1]");
    brain.busy = false;
    yard_turn_after(y, 2000);
    brain_settle(&brain, y);
    assert_payload(y, id, "[1,1]");
}

static void the_tick_of_an_entry_that_is_removed_meanwhile_is_dropped(void **state)
{
    struct yard *y = *state;
    struct answer a = {0};
    struct id id = begin_tick(y);
    yard_ask(y, (struct command){.kind = CMD_CRON_REMOVE, .cron = {.group = STR("g")}}, &a);
    assert_ok(a.err);
    brain_settle(&brain, y);
    assert_int_equal(jobs(y).count, 1);
    assert_payload(y, id, "[1]");
}

static void the_tick_of_an_entry_that_is_paused_meanwhile_passes(void **state)
{
    struct yard *y = *state;
    struct answer a = {0}, b = {0};
    struct id id = begin_tick(y);
    struct command c = {.kind = CMD_CRON_SWITCH, .cron = {.group = STR("g"), .to = CRON_PAUSE}};
    yard_ask(y, c, &a);
    assert_ok(a.err);
    brain_settle(&brain, y);
    tick(y);
    assert_payload(y, id, "[1]");
    c.cron.to = CRON_RESUME;
    yard_ask(y, c, &b);
    tick(y);
    assert_payload(y, id, "[1,1]");
}

static void wrong_expressions_are_refused_when_the_entry_is_put(void **state)
{
    struct yard *y = *state;
    struct answer a = put(y, spec_with("wrong", "join")), b = {0};
    assert_code(a.err, ERR_UNPROCESSABLE);
    struct command c = {.kind = CMD_CRON_READ, .cron = {.group = STR("g")}};
    yard_ask(y, c, &b);
    assert_code(b.err, ERR_NOT_FOUND);
}

static void another_fold_is_another_entry(void **state)
{
    struct yard *y = *state;
    put_good(y);
    assert_ok(put(y, spec_with("yes", "\"mine\"")).err);
    tick(y);
    tick(y);
    assert_payload(y, jobs(y).ids[0], "\"mine\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CRON_TEST(ticks_are_folded_into_the_job_that_waits),
        CRON_TEST(a_tick_and_an_enqueue_share_a_batch),
        CRON_TEST(a_when_that_says_no_makes_the_tick_a_job_of_its_own),
        CRON_TEST(ticks_that_are_due_while_the_evaluator_thinks_become_one),
        CRON_TEST(a_crash_while_the_evaluator_thinks_loses_no_tick_and_doubles_none),
        CRON_TEST(a_crash_after_the_fold_finds_both_or_neither),
        CRON_TEST(a_full_disk_puts_the_tick_off),
        CRON_TEST(no_room_puts_the_tick_off),
        CRON_TEST(an_error_of_the_expressions_makes_the_tick_a_job_of_its_own),
        CRON_TEST(a_busy_evaluator_puts_the_tick_off),
        CRON_TEST(the_tick_of_an_entry_that_is_removed_meanwhile_is_dropped),
        CRON_TEST(the_tick_of_an_entry_that_is_paused_meanwhile_passes),
        CRON_TEST(wrong_expressions_are_refused_when_the_entry_is_put),
        CRON_TEST(another_fold_is_another_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
