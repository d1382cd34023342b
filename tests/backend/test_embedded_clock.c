/* SPDX-License-Identifier: Apache-2.0 */

/* Clocks that jump ahead or are set back, and correcting the times afterwards. */

#include "yard.h"

#include "core/depend.h"
#include "store/eventlog.h"
#include "store/record.h"

#define Y      struct yard *y = *state
#define SECOND 1000
#define HOUR   3600000
#define YEAR   (365 * 24 * (int64_t)HOUR)
#define LIMIT  ((span){60 * SECOND})

static int64_t ticks;

/* With a second clock that nobody sets, beside the one that the test sets. */
static void begin(struct yard *y)
{
    ticks = 0;
    y->ticks = &ticks;
    y->settings.clock_jump_limit = LIMIT;
    yard_restart(y);
}

static void pass(struct yard *y, int64_t ms)
{
    y->now.ms += ms;
    ticks += ms * 1000;
    yard_settle(y);
}

/* --- replies --- */

struct look {
    unsigned came;
    struct err err;
    struct clock_state clock;
    uint64_t newest_event;
    struct clock_reply reset;
    struct job_state state; /* without its strings */
    struct cron_clock cron;
};

static void on_reply(void *ctx, const struct reply *r)
{
    struct look *l = ctx;
    l->came++;
    l->err = r->err;
    l->clock = r->status.clock;
    l->newest_event = r->status.newest_event;
    l->reset = r->clock;
    if (r->jobs && r->count)
        l->state = r->jobs[0].state;
    if (r->cron && r->cron->count)
        l->cron = r->cron->entries[0].clock;
}

static struct look ask(struct yard *y, struct command c)
{
    struct look l = {0};
    c.done = on_reply;
    c.ctx = &l;
    backend_submit(y->b, &c);
    for (int i = 0; i < 100 && !l.came; i++)
        yard_turn(y);
    assert_int_equal(l.came, 1);
    return l;
}

static struct clock_state clock_of(struct yard *y)
{
    return ask(y, (struct command){.kind = CMD_STATUS}).clock;
}

static struct job_state state_of(struct yard *y, struct id id)
{
    struct look l = ask(y, (struct command){.kind = CMD_READ, .read = {id}});
    assert_ok(l.err);
    return l.state;
}

static struct look reset(struct yard *y)
{
    return ask(y, (struct command){.kind = CMD_CLOCK_RESET});
}

static struct id add(struct yard *y, const char *queue, instant ready_at)
{
    struct enqueue spec = yard_spec(queue);
    struct answer a = {0};
    spec.ready_at = ready_at;
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_ok(a.err);
    return a.ids[0];
}

static void put_cron(struct yard *y)
{
    struct cron_spec spec = {
        .name = STR("e"), .expression = STR("0 * * * *"), .job = yard_spec("ticks")};
    spec.job.ready_at = INSTANT_NONE;
    struct look l =
        ask(y, (struct command){
                   .kind = CMD_CRON_PUT,
                   .cron_put = {.group = STR("g"), .entries = &spec, .count = 1, .whole = true}});
    assert_ok(l.err);
}

static struct cron_clock cron_clock(struct yard *y)
{
    return ask(y, (struct command){.kind = CMD_CRON_READ, .cron = {.group = STR("g")}}).cron;
}

/* --- what time it is --- */

static void time_does_not_go_back_over_a_restart(void **state)
{
    Y;
    instant start = y->now;
    struct id id = add(y, "q", instant_add(start, (span){HOUR}));
    y->now.ms += YEAR;
    yard_settle(y);
    (void)yard_add(y, "q");
    y->now = start;
    yard_crash(y);
    assert_int_equal(embedded_now(y->b).ms, start.ms + YEAR);
    assert_int_equal(yard_status(y, id), STATUS_READY);
}

static void a_clock_that_is_a_little_behind_is_waited_for(void **state)
{
    Y;
    begin(y);
    instant start = y->now;
    y->now.ms -= 30 * SECOND;
    yard_settle(y);
    assert_int_equal(clock_of(y).ahead.ms, 30 * SECOND);
    pass(y, 20 * SECOND);
    assert_int_equal(embedded_now(y->b).ms, start.ms);
    pass(y, 20 * SECOND);
    assert_int_equal(embedded_now(y->b).ms, start.ms + 10 * SECOND);
    assert_int_equal(clock_of(y).ahead.ms, 0);
}

static void a_clock_that_is_far_behind_is_not_waited_for(void **state)
{
    Y;
    begin(y);
    instant start = y->now;
    struct id id = add(y, "q", instant_add(start, (span){10 * SECOND}));
    y->now.ms -= HOUR;
    yard_settle(y);
    instant due;
    assert_true(backend_next_due(y->b, &due)); /* by the clock that the caller uses for waiting */
    assert_int_equal(due.ms, y->now.ms + 10 * SECOND);
    pass(y, 10 * SECOND);
    assert_int_equal(yard_status(y, id), STATUS_READY);
    assert_int_equal(clock_of(y).ahead.ms, HOUR);
    pass(y, 2 * HOUR);
    assert_int_equal(embedded_now(y->b).ms, start.ms + 2 * HOUR + 10 * SECOND);
}

/* Nothing that the jump alone makes due is, and time heals by itself. */
static void a_jump_ahead_is_not_followed(void **state)
{
    Y;
    begin(y);
    pass(y, 10 * HOUR);
    assert_int_equal(clock_of(y).jump.ms, 0);
    instant start = y->now;
    struct id soon = add(y, "q", instant_add(start, (span){10 * SECOND}));
    struct id later = add(y, "q", instant_add(start, (span){HOUR / 2}));
    y->now.ms += HOUR;
    yard_settle(y);
    struct clock_state c = clock_of(y);
    assert_true(c.off);
    assert_int_equal(c.now.ms, start.ms);
    assert_int_equal(c.wall.ms, start.ms + HOUR);
    assert_int_equal(c.jump.ms, HOUR);
    assert_int_equal(c.jumped_at.ms, y->now.ms);
    assert_int_equal(c.ahead.ms, -HOUR);
    instant due;
    assert_true(backend_next_due(y->b, &due)); /* by the clock that the caller uses for waiting */
    assert_int_equal(due.ms, y->now.ms + 10 * SECOND);
    pass(y, 10 * SECOND);
    assert_int_equal(yard_status(y, soon), STATUS_READY);
    assert_int_equal(yard_status(y, later), STATUS_SCHEDULED);
    y->now.ms -= HOUR;
    yard_settle(y);
    c = clock_of(y);
    assert_true(!c.off && c.ahead.ms == 0);
    assert_int_equal(embedded_now(y->b).ms, start.ms + 10 * SECOND);
}

static void a_jump_of_the_limit_is_followed(void **state)
{
    Y;
    begin(y);
    instant start = y->now;
    y->now.ms += LIMIT.ms;
    yard_settle(y);
    assert_true(!clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, start.ms + LIMIT.ms);
    y->now.ms += LIMIT.ms + 1;
    yard_settle(y);
    assert_true(clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, start.ms + LIMIT.ms);
}

/* Whoever says that the clock is right lets time follow it. */
static void a_reset_follows_a_clock_that_is_ahead(void **state)
{
    Y;
    begin(y);
    instant start = y->now;
    struct id id = add(y, "q", instant_add(start, (span){HOUR / 2}));
    y->now.ms += HOUR;
    yard_settle(y);
    struct look l = reset(y);
    assert_ok(l.err);
    assert_int_equal(l.reset.from.ms, start.ms);
    assert_int_equal(l.reset.to.ms, start.ms + HOUR);
    assert_int_equal(l.reset.corrected, 0);
    assert_true(!clock_of(y).off);
    assert_int_equal(clock_of(y).jump.ms, 0);
    assert_int_equal(yard_status(y, id), STATUS_READY);
}

/* --- over a restart --- */

static void start_again(struct yard *y, uint64_t boot, instant reference)
{
    yard_settle(y);
    backend_free(y->b);
    struct env env = yard_env(y);
    env.boot = boot;
    env.reference = reference;
    assert_ok(embedded_new(&y->settings, &env, &y->b));
    yard_settle(y);
}

static void a_clock_that_jumped_while_the_server_was_down_is_known(void **state)
{
    Y;
    begin(y);
    start_again(y, 7, (instant){0});
    instant start = y->now;
    struct id id = add(y, "q", instant_add(start, (span){2 * HOUR}));
    y->now.ms += YEAR;
    ticks += HOUR * (int64_t)1000;
    start_again(y, 7, (instant){0});
    assert_true(clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, start.ms + HOUR);
    assert_int_equal(yard_status(y, id), STATUS_SCHEDULED);
    /* Still so at the next start; and after another start of the machine there is no telling. */
    start_again(y, 7, (instant){0});
    assert_true(clock_of(y).off);
    start_again(y, 8, (instant){0});
    assert_true(!clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, y->now.ms);
}

static void a_server_that_was_away_for_long_goes_by_the_clock(void **state)
{
    Y;
    begin(y);
    start_again(y, 7, (instant){0});
    (void)yard_add(y, "q");
    y->now.ms += YEAR;
    ticks += YEAR * 1000;
    start_again(y, 7, (instant){0});
    assert_true(!clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, y->now.ms);
}

/* The clock of the next of several servers, and PostgreSQL's. */
static void a_reference_judges_the_clock_of_a_start(void **state)
{
    Y;
    begin(y);
    instant start = y->now;
    struct id id = add(y, "q", instant_add(start, (span){2 * HOUR}));
    y->now.ms += YEAR;
    start_again(y, 9, instant_add(start, (span){HOUR}));
    assert_true(clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, start.ms + HOUR);
    assert_int_equal(yard_status(y, id), STATUS_SCHEDULED);
    start_again(y, 10, instant_add(y->now, (span){-LIMIT.ms}));
    assert_true(!clock_of(y).off);
    assert_int_equal(embedded_now(y->b).ms, y->now.ms);
}

/* --- leases --- */

static struct id claim_for_good(struct yard *y, uint64_t *token)
{
    struct id id = yard_add(y, "leased");
    struct answer a = {0};
    yard_claim(y, "leased", 1, (span){0}, &a);
    yard_settle(y);
    assert_int_equal(a.count, 1);
    *token = a.tokens[0];
    struct command renew = {.kind = CMD_RENEW};
    renew.renew.run = (struct run_ref){.id = id, .token = *token};
    renew.renew.lease = ANSWERS_LEASE;
    a = (struct answer){0};
    yard_ask(y, renew, &a);
    assert_ok(a.err);
    return id;
}

/* Of a process that is stopped, as of one that is started again. */
static void leases_get_a_grace_after_a_time_without_answers(void **state)
{
    Y;
    begin(y);
    y->settings.lease_grace = (span){20 * SECOND};
    yard_restart(y);
    uint64_t token;
    struct id id = claim_for_good(y, &token);
    y->now.ms += HOUR;
    ticks += HOUR * (int64_t)1000;
    yard_settle(y); /* the process was stopped */
    assert_int_equal(state_of(y, id).status, STATUS_IN_FLIGHT);
    assert_int_equal(state_of(y, id).lease_end.ms, y->now.ms + 20 * SECOND);
    y->now.ms += HOUR;
    ticks += HOUR * (int64_t)1000;
    yard_crash(y);
    yard_settle(y);
    assert_int_equal(state_of(y, id).lease_end.ms, y->now.ms + 20 * SECOND);
    pass(y, 20 * SECOND);
    assert_int_equal(state_of(y, id).status, STATUS_READY);
    assert_int_equal(state_of(y, id).attempts, 1);
}

/* Time that stands still, and a step that is followed. */
static void leases_go_by_the_steady_clock(void **state)
{
    Y;
    begin(y);
    uint64_t token;
    struct id id = claim_for_good(y, &token);
    y->now.ms += LIMIT.ms;
    yard_settle(y);
    pass(y, ANSWERS_LEASE.ms - 1);
    assert_int_equal(state_of(y, id).status, STATUS_IN_FLIGHT);
    y->now.ms -= LIMIT.ms;
    ticks += 1000;
    yard_settle(y);
    assert_int_equal(state_of(y, id).status, STATUS_READY);
}

/* --- setting it back --- */

struct scene {
    instant right; /* the real time */
    struct id ready, waiting, asked, leased;
    uint64_t token;
};

/* A year ahead: jobs are enqueued, one fails, one is claimed; then the clock is corrected. */
static struct scene in_the_future(struct yard *y)
{
    struct scene s = {.right = y->now};
    struct answer a = {0};
    put_cron(y);
    pass(y, YEAR);
    s.waiting = yard_add(y, "fails");
    struct backend_claim *c = yard_claim(y, "fails", 1, (span){0}, &a);
    (void)c;
    yard_settle(y);
    assert_int_equal(a.count, 1);
    struct command fail = {.kind = CMD_FAIL};
    fail.fail.ref = (struct run_ref){.id = s.waiting, .token = a.tokens[0]};
    fail.fail.retry_at = instant_add(y->now, (span){10 * SECOND});
    yard_ask(y, fail, &a);
    assert_ok(a.err);
    s.leased = yard_add(y, "claims");
    a = (struct answer){0};
    yard_claim(y, "claims", 1, (span){0}, &a);
    yard_settle(y);
    assert_int_equal(a.count, 1);
    s.token = a.tokens[0];
    s.ready = yard_add(y, "q");
    s.asked = add(y, "q", instant_add(y->now, (span){YEAR}));
    y->now = s.right;
    yard_settle(y);
    return s;
}

static void check_right(struct yard *y, const struct scene *s)
{
    assert_int_equal(state_of(y, s->ready).status, STATUS_READY);
    assert_int_equal(state_of(y, s->waiting).status, STATUS_SCHEDULED);
    assert_int_equal(state_of(y, s->waiting).ready_at.ms, s->right.ms + 10 * SECOND);
    assert_int_equal(state_of(y, s->asked).status, STATUS_SCHEDULED);
    assert_int_equal(state_of(y, s->asked).ready_at.ms, s->right.ms + 2 * YEAR);
    assert_int_equal(state_of(y, s->leased).status, STATUS_IN_FLIGHT);
    assert_int_equal(state_of(y, s->leased).lease_end.ms, s->right.ms + ANSWERS_LEASE.ms);
    struct cron_clock c = cron_clock(y);
    assert_int_equal(c.next_at.ms, (s->right.ms / HOUR + 1) * HOUR);
    assert_true(c.last_at.ms <= y->now.ms);
}

static void a_reset_mends_what_a_wrong_clock_has_done(void **state)
{
    Y;
    struct scene s = in_the_future(y);
    assert_int_equal(embedded_now(y->b).ms, s.right.ms + YEAR);
    struct look l = reset(y);
    assert_ok(l.err);
    assert_int_equal(l.reset.from.ms, s.right.ms + YEAR);
    assert_int_equal(l.reset.to.ms, s.right.ms);
    assert_true(l.reset.corrected >= 3);
    check_right(y, &s);
    yard_crash(y);
    assert_int_equal(embedded_now(y->b).ms, s.right.ms);
    check_right(y, &s);
}

/* Cron entries used to be silent until the wrong time was reached. */
static size_t count_jobs(struct yard *y)
{
    struct answer a = {0};
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    return a.count;
}

static void cron_ticks_by_the_time_that_it_is_set_back_to(void **state)
{
    Y;
    in_the_future(y);
    assert_ok(reset(y).err);
    size_t before = count_jobs(y);
    y->now.ms += HOUR;
    yard_settle(y);
    assert_int_equal(count_jobs(y), before + 1);
}

static void a_reset_goes_on_after_a_crash(void **state)
{
    Y;
    struct scene s = in_the_future(y);
    /* As the first batch of a reset leaves it. */
    struct batch batch = {0};
    struct record_clock record = {s.right, 0, s.right, 0, instant_add(s.right, (span){YEAR}),
                                  {0, 0},  0, 0};
    record_put_clock(&batch, &record);
    backend_free(y->b);
    store_commit(y->store, &batch, true);
    store_wait(y->store);
    struct err err;
    assert_true(store_reap(y->store, &err));
    assert_ok(err);
    batch_fini(&batch);
    struct env env = yard_env(y);
    assert_ok(embedded_new(&y->settings, &env, &y->b));
    yard_settle(y);
    check_right(y, &s);
}

static void a_reset_on_a_full_disk_changes_nothing(void **state)
{
    Y;
    begin(y);
    struct scene s = in_the_future(y);
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    struct look l = reset(y);
    assert_code(l.err, ERR_DISK_FULL);
    assert_int_equal(embedded_now(y->b).ms, s.right.ms + YEAR);
    yard_faults(y, (struct memory_faults){0});
    pass(y, SECOND); /* the store is reopened */
    assert_int_equal(embedded_now(y->b).ms, s.right.ms + YEAR + SECOND);
    assert_ok(reset(y).err);
    check_right(y, &s);
}

/* New requests in between are refused, and earlier ones are completed. */
static void a_reset_waits_for_what_is_under_way(void **state)
{
    Y;
    struct scene s = in_the_future(y);
    yard_faults(y, (struct memory_faults){.hold = true});
    struct answer before = {0}, after = {0};
    yard_enqueue(y, "q", &before);
    yard_turn(y);
    struct look l = {0};
    struct command c = {.kind = CMD_CLOCK_RESET, .done = on_reply, .ctx = &l};
    backend_submit(y->b, &c);
    yard_enqueue(y, "q", &after);
    yard_turn(y);
    assert_int_equal(l.came, 0);
    yard_faults(y, (struct memory_faults){0});
    memory_release(y->store);
    yard_settle(y);
    assert_ok(before.err);
    assert_code(after.err, ERR_BUSY);
    assert_int_equal(l.came, 1);
    assert_ok(l.err);
    check_right(y, &s);
    assert_int_equal(yard_status(y, before.ids[0]), STATUS_READY);
}

/* --- what happens in the turn of a reset --- */

static uint64_t newest_event(struct yard *y)
{
    return ask(y, (struct command){.kind = CMD_STATUS}).newest_event;
}

static void a_job_that_becomes_ready_as_the_clock_is_set_back_has_its_event(void **state)
{
    Y;
    begin(y);
    struct id id = add(y, "q", instant_add(y->now, (span){SECOND}));
    uint64_t events = newest_event(y);
    y->now.ms += SECOND;
    assert_ok(reset(y).err);
    assert_int_equal(state_of(y, id).status, STATUS_READY);
    assert_int_equal(newest_event(y), events + 1);
}

/* In the log. */
static uint64_t oldest_event(struct yard *y)
{
    struct store_cursor *c = store_cursor_new(y->store);
    struct record_key start = eventlog_key(0);
    struct str key, value;
    uint64_t first;
    store_cursor_seek(c, y->store, record_key_view(&start), false);
    assert_true(store_cursor_at(c, y->store, &key, &value));
    assert_true(eventlog_key_is(key, &first));
    assert_ok(store_cursor_free(c, y->store));
    return first;
}

static void events_of_a_clock_that_was_set_back_are_not_kept_longer(void **state)
{
    Y;
    in_the_future(y);
    assert_ok(reset(y).err);
    uint64_t before = newest_event(y);
    (void)yard_add(y, "q");
    pass(y, y->settings.event_retention.ms - HOUR);
    assert_int_equal(oldest_event(y), 1);
    pass(y, 2 * HOUR);
    assert_true(oldest_event(y) >= before);
}

static void who_waits_for_a_job_that_ends_as_the_clock_is_set_back_is_notified(void **state)
{
    Y;
    begin(y);
    struct id first = yard_add(y, "first");
    uint8_t text[DEPEND_ID_LEN];
    struct enqueue spec = yard_spec("second");
    struct answer second, run = {0}, end = {0};
    id_encode(first, text);
    spec.options.depends_on = (struct str){(const char *)text, sizeof text};
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &second);
    yard_claim(y, "first", 1, (span){0}, &run);
    yard_settle(y);
    assert_int_equal(run.count, 1);
    yard_send(y, (struct command){.kind = CMD_SUCCEED, .run = {first, run.tokens[0]}}, &end);
    assert_ok(reset(y).err);
    assert_int_equal(end.came, 1);
    assert_ok(end.err);
    assert_int_equal(yard_status(y, second.ids[0]), STATUS_READY);
}

/* So many jobs are corrected, and indexed again, that it must not be done at once. */
static void it_is_set_back_over_several_turns(void **state)
{
    Y;
    struct answer done = {0}, read = {0};
    struct stream stream = {0}, late = {0};
    y->settings.depend_slice = 2;
    yard_restart(y);
    struct scene s = in_the_future(y);
    yard_add(y, "streamed");
    yard_stream(y, "streamed", 1, &stream);
    yard_settle(y);
    assert_int_equal(stream.count, 1);
    yard_send(y, (struct command){.kind = CMD_CLOCK_RESET}, &done);
    unsigned turns = 0;
    for (; !done.came; turns++) {
        assert_true(turns < 100);
        assert_ok(backend_turn(y->b));
        if (turns != 3)
            continue;
        yard_send(y, (struct command){.kind = CMD_READ, .read = {s.ready}}, &read);
        yard_stream(y, "streamed", 1, &late);
    }
    assert_true(turns > 6);
    assert_ok(done.err);
    assert_code(read.err, ERR_BUSY);
    assert_code(late.refused, ERR_BUSY);
    assert_int_equal(stream.closed, 1);
    yard_settle(y);
    check_right(y, &s);
    assert_int_equal(yard_status(y, stream.ids[0]), STATUS_READY);
}

static struct yard *failing;
static unsigned commits_before_failure;

static void commit_or_fail(struct store *s, const struct batch *b, bool sync)
{
    if (commits_before_failure && --commits_before_failure == 0)
        memory_set_faults(s, (struct memory_faults){.fail = ERR_DISK_FULL});
    failing->below->commit(s, b, sync);
}

static void a_disk_that_fills_up_as_jobs_are_corrected_leaves_nobody_without_an_answer(void **state)
{
    Y;
    struct scene s = in_the_future(y);
    struct answer waits = {0}, read = {0};
    yard_claim(y, "none", 1, (span){HOUR}, &waits);
    yard_settle(y);
    failing = y;
    y->vt.commit = commit_or_fail;
    commits_before_failure = 2;
    yard_send(y, (struct command){.kind = CMD_READ, .read = {s.ready}}, &read);
    assert_code(reset(y).err, ERR_DISK_FULL);
    assert_int_equal(read.came, 1);
    assert_int_equal(waits.came, 1);
    assert_code(waits.err, ERR_BUSY);
    y->now.ms += 2 * SECOND;
    ticks += 2 * SECOND * 1000;
    yard_settle(y); /* the store is opened again, and the rest corrected */
    check_right(y, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(time_does_not_go_back_over_a_restart),
        TEST(a_clock_that_is_a_little_behind_is_waited_for),
        TEST(a_clock_that_is_far_behind_is_not_waited_for),
        TEST(a_jump_ahead_is_not_followed),
        TEST(a_jump_of_the_limit_is_followed),
        TEST(a_reset_follows_a_clock_that_is_ahead),
        TEST(a_clock_that_jumped_while_the_server_was_down_is_known),
        TEST(a_server_that_was_away_for_long_goes_by_the_clock),
        TEST(a_reference_judges_the_clock_of_a_start),
        TEST(leases_get_a_grace_after_a_time_without_answers),
        TEST(leases_go_by_the_steady_clock),
        TEST(a_reset_mends_what_a_wrong_clock_has_done),
        TEST(cron_ticks_by_the_time_that_it_is_set_back_to),
        TEST(a_reset_goes_on_after_a_crash),
        TEST(a_reset_on_a_full_disk_changes_nothing),
        TEST(a_reset_waits_for_what_is_under_way),
        TEST(a_job_that_becomes_ready_as_the_clock_is_set_back_has_its_event),
        TEST(events_of_a_clock_that_was_set_back_are_not_kept_longer),
        TEST(who_waits_for_a_job_that_ends_as_the_clock_is_set_back_is_notified),
        TEST(it_is_set_back_over_several_turns),
        TEST(a_disk_that_fills_up_as_jobs_are_corrected_leaves_nobody_without_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
