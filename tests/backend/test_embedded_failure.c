/* SPDX-License-Identifier: Apache-2.0 */

/* A disk that fails, fills up, or has contents that nobody wrote. */

#include "yard.h"

#include "store/eventlog.h"
#include "store/record.h"

#define Y         struct yard *y = *state
#define NO_FAULTS ((struct memory_faults){0})
#define FULL      ((struct memory_faults){.fail = ERR_DISK_FULL})
#define MINUTE    ((span){60000})
#define REOPEN_MS 1000

/* Starts a commit that will fail with that code. */
static void enqueue_in_vain(struct yard *y, enum err_code code, bool keep, struct answer *to)
{
    yard_faults(y, (struct memory_faults){.hold = true, .fail = code, .fail_but_keep = keep});
    yard_enqueue(y, "q", to);
    yard_turn(y);
    memory_release(y->store);
    yard_faults(y, NO_FAULTS);
}

/* Past the end of the failure. */
static void reopen(struct yard *y)
{
    y->now.ms += REOPEN_MS;
    yard_settle(y);
}

static uint64_t count_all(struct yard *y)
{
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    assert_ok(a.err);
    return a.count;
}

/* --- a failed commit --- */

/* Work left for the next turn does not count while nothing can be stored. */
static void a_full_disk_leaves_the_loop_idle_until_it_is_tried_again(void **state)
{
    Y;
    struct stream s = {0};
    struct answer a = {0};
    instant due;
    y->settings.engine.hand_out_max = 1; /* and so many lost runs in a turn */
    yard_restart(y);
    for (int i = 0; i < 5; i++)
        yard_add(y, "s");
    yard_stream(y, "s", 5, &s);
    for (int i = 0; i < 20; i++)
        yard_turn(y);
    assert_int_equal(s.count, 5);
    yard_faults(y, (struct memory_faults){.hold = true, .fail = ERR_DISK_FULL});
    yard_enqueue(y, "q", &a);
    yard_turn(y);
    backend_stream_close(y->b, s.handle);
    yard_turn(y);
    memory_release(y->store);
    yard_faults(y, NO_FAULTS);
    yard_turn(y);
    assert_code(a.err, ERR_DISK_FULL);
    assert_true(backend_next_due(y->b, &due) && due.ms == y->now.ms + REOPEN_MS);
    reopen(y);
    assert_int_equal(count_all(y), 5);
}

static void while_failed_reads_go_on_and_writes_are_refused(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct answer a = {0};
    struct stream s = {0};
    enqueue_in_vain(y, ERR_DISK_FULL, false, &a);
    yard_settle(y);
    yard_read(y, id, &a);
    assert_ok(a.err);
    assert_string_equal(a.payload, "{\"n\":1}");
    assert_int_equal(count_all(y), 1);
    yard_ask(y, (struct command){.kind = CMD_LIST, .list = {.limit = 10}}, &a);
    assert_int_equal(a.count, 1);
    yard_ask(y, (struct command){.kind = CMD_STATUS}, &a);
    assert_false(a.writable);
    struct enqueue spec = yard_spec("q");
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_code(a.err, ERR_DISK_FULL);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = id}, &a);
    assert_code(a.err, ERR_DISK_FULL);
    assert_code(yard_try_stream(y, "q", 1, &s), ERR_DISK_FULL);
    struct answer claim = {0};
    yard_claim(y, "q", 1, MINUTE, &claim);
    yard_settle(y);
    assert_code(claim.err, ERR_DISK_FULL);
    assert_int_equal(count_all(y), 1);
}

static void it_waits_for_room_before_it_goes_on(void **state)
{
    Y;
    struct answer a = {0};
    enqueue_in_vain(y, ERR_DISK_FULL, false, &a);
    y->free_space = 999;
    yard_settle(y);
    reopen(y);
    reopen(y);
    struct enqueue spec = yard_spec("q");
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_code(a.err, ERR_DISK_FULL);
    y->free_space = 1000;
    reopen(y);
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_ok(a.err);
}

/* Whether a failed batch is on the disk is undefined. If it is, it must be complete. */
static void a_batch_that_failed_and_yet_is_there_is_recovered_whole(void **state)
{
    Y;
    struct answer a = {0};
    enqueue_in_vain(y, ERR_DISK_FULL, true, &a);
    yard_settle(y);
    assert_code(a.err, ERR_DISK_FULL);
    reopen(y);
    assert_int_equal(count_all(y), 1);
    struct stream s = {0};
    yard_stream(y, "q", 10, &s);
    yard_settle(y);
    assert_int_equal(s.count, 1);
}

static void a_second_failure_after_the_reopen_is_survived_too(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    for (int i = 0; i < 5; i++) {
        struct answer a = {0};
        enqueue_in_vain(y, ERR_DISK_FULL, false, &a);
        yard_settle(y);
        assert_code(a.err, ERR_DISK_FULL);
        reopen(y);
    }
    assert_int_equal(yard_status(y, id), STATUS_READY);
    assert_int_equal(count_all(y), 1);
}

static void a_store_that_opens_on_a_full_disk_is_read_until_there_is_room(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct answer a = {0};
    yard_restart_full(y);
    assert_int_equal(count_all(y), 1);
    yard_enqueue(y, "q", &a);
    yard_settle(y);
    assert_code(a.err, ERR_DISK_FULL);
    a = (struct answer){0};
    yard_claim(y, "q", 1, MINUTE, &a);
    yard_settle(y);
    assert_code(a.err, ERR_DISK_FULL);
    reopen(y);
    a = (struct answer){0};
    yard_claim(y, "q", 1, MINUTE, &a);
    yard_settle(y);
    assert_ok(a.err);
    assert_true(id_eq(a.ids[0], id));
}

static unsigned gets_before_failure; /* 0: none fails */
static struct err (*get_below)(struct store *s, struct str key, bool *found, struct buf *value);

static struct err get(struct store *s, struct str key, bool *found, struct buf *value)
{
    if (gets_before_failure && --gets_before_failure == 0)
        return err_make(ERR_STORE, "it cannot be read, as it was told");
    return get_below(s, key, found, value);
}

/* Events counted since the start, and those in the log. */
static void note_events(void *ctx, const struct reply *r)
{
    uint64_t *counts = ctx;
    counts[0] = 0;
    for (int e = 0; e < EVENT_COUNT; e++)
        counts[0] += r->status.events[e];
    counts[1] = r->status.newest_event;
}

static void a_recovery_that_fails_half_way_leaves_no_events_behind(void **state)
{
    Y;
    get_below = y->below->get;
    y->vt.get = get;
    for (unsigned n = 1; n < 40; n++) {
        struct stream s = {0};
        struct answer a = {0};
        uint64_t counts[2] = {0, 1};
        yard_add(y, "s");
        yard_add(y, "s");
        yard_stream(y, "s", 2, &s);
        yard_settle(y);
        enqueue_in_vain(y, ERR_DISK_FULL, false, &a);
        yard_settle(y);
        gets_before_failure = n;
        y->now.ms += REOPEN_MS;
        assert_ok(backend_turn(y->b));
        gets_before_failure = 0;
        reopen(y);
        struct command c = {.kind = CMD_STATUS, .done = note_events, .ctx = counts};
        backend_submit(y->b, &c);
        yard_settle(y);
        assert_int_equal(counts[0], counts[1]);
    }
}

static void a_failure_other_than_a_full_disk_is_fatal_and_answers_nothing(void **state)
{
    Y;
    struct answer a = {0};
    enqueue_in_vain(y, ERR_STORE, false, &a);
    assert_code(backend_turn(y->b), ERR_STORE);
    assert_int_equal(a.came, 0);
}

static enum err_code reopens_with;

static struct err reopen_with_code(struct store *s)
{
    (void)s;
    return err_make(reopens_with, "this is over");
}

/* Another server has the jobs, or PostgreSQL has lost commits. */
static void a_store_that_nobody_gives_back_is_not_waited_for(void **state)
{
    Y;
    const enum err_code over[] = {ERR_FENCED, ERR_POSTGRES_LOST};
    struct answer a = {0};
    enqueue_in_vain(y, ERR_DISK_FULL, false, &a);
    yard_settle(y);
    y->vt.reopen = reopen_with_code;
    reopens_with = ERR_POSTGRES; /* it may come back */
    y->now.ms += REOPEN_MS;
    assert_ok(backend_turn(y->b));
    for (size_t i = 0; i < sizeof over / sizeof *over; i++) {
        reopens_with = over[i];
        y->now.ms += REOPEN_MS;
        assert_code(backend_turn(y->b), over[i]);
    }
}

/* --- a disk that gets full --- */

static void set_space(struct yard *y, int64_t bytes)
{
    y->free_space = bytes;
    y->now.ms += REOPEN_MS; /* the answer of the file system is cached for a moment */
    yard_settle(y);
}

static void below_the_reserve_new_work_is_refused_and_old_work_can_end(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct answer claim = {0}, a;
    set_space(y, 999);
    struct enqueue spec = yard_spec("q");
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&spec, 1}}, &a);
    assert_code(a.err, ERR_DISK_FULL);
    yard_claim(y, "q", 1, MINUTE, &claim);
    yard_settle(y);
    assert_int_equal(claim.count, 1);
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = {.id = id, .vouched = true}}, &a);
    assert_ok(a.err);
}

static void below_half_the_reserve_only_removals_are_accepted(void **state)
{
    Y;
    struct id leased = yard_add(y, "l"), ready = yard_add(y, "q");
    struct answer claim = {0}, late = {0}, a;
    struct stream s = {0};
    yard_claim(y, "l", 1, MINUTE, &claim);
    yard_settle(y);
    set_space(y, 499);
    yard_ask(y, (struct command){.kind = CMD_SUCCEED, .run = {.id = leased, .vouched = true}}, &a);
    assert_code(a.err, ERR_DISK_FULL);
    yard_stream(y, "q", 1, &s);
    yard_claim(y, "q", 1, MINUTE, &late);
    yard_settle(y);
    assert_int_equal(s.count, 0);
    assert_int_equal(late.came, 1);
    assert_code(late.err, ERR_DISK_FULL);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = leased}, &a);
    assert_ok(a.err);
    assert_int_equal(yard_status(y, ready), STATUS_READY);
}

static void a_stream_gets_its_job_by_itself_when_there_is_room_again(void **state)
{
    Y;
    yard_add(y, "q");
    set_space(y, 499);
    struct stream s = {0};
    yard_stream(y, "q", 1, &s);
    yard_settle(y);
    assert_int_equal(s.count, 0);
    y->free_space = 1000;
    instant at;
    assert_true(backend_next_due(y->b, &at));
    assert_true(at.ms > y->now.ms);
    y->now = at;
    yard_settle(y);
    assert_int_equal(s.count, 1);
}

/* --- a foreign store --- */

static void put_raw(struct yard *y, struct str key, struct str value)
{
    struct batch b = {0};
    struct err err;
    batch_put(&b, key, value);
    y->below->commit(y->store, &b, true);
    assert_true(store_reap(y->store, &err));
    assert_ok(err);
    batch_fini(&b);
}

static struct err open_again(struct yard *y)
{
    struct env env = yard_env(y);
    struct backend *b = NULL;
    struct err err = embedded_new(&y->settings, &env, &b);
    assert_true(err.code != ERR_OK || b);
    if (b)
        backend_free(b);
    return err;
}

static void a_newer_format_is_refused_at_the_start(void **state)
{
    Y;
    yard_add(y, "q");
    assert_ok(open_again(y));
    struct record_key key = record_meta_key(STR("format"));
    put_raw(y, record_key_view(&key), STR("999"));
    assert_code(open_again(y), ERR_VERSION);
}

static void a_broken_record_that_is_no_jobs_is_refused_at_the_start(void **state)
{
    Y;
    yard_add(y, "q");
    struct record_key key = record_takes_key(5);
    put_raw(y, record_key_view(&key), STR("\x01rubbish"));
    assert_code(open_again(y), ERR_CORRUPT);
}

/* --- jobs that are set apart --- */

static void delete_raw(struct yard *y, struct record_key key)
{
    struct batch b = {0};
    struct err err;
    batch_delete(&b, record_key_view(&key));
    y->below->commit(y->store, &b, true);
    assert_true(store_reap(y->store, &err));
    batch_fini(&b);
}

static void expect_apart(struct yard *y, struct id id)
{
    struct answer a;
    yard_read(y, id, &a);
    assert_code(a.err, ERR_DAMAGED);
    yard_ask(y, (struct command){.kind = CMD_CANCEL, .id = id}, &a);
    assert_code(a.err, ERR_DAMAGED);
}

static void jobs_with_broken_or_missing_parts_are_set_apart_at_the_start(void **state)
{
    Y;
    struct id first = yard_add(y, "q"), good = yard_add(y, "q"), job = yard_add(y, "q"),
              last = yard_add(y, "q");
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_CANCEL, .id = job}, &a);
    struct record_key key = record_job_key(first);
    put_raw(y, record_key_view(&key), STR("\x01rubbish"));
    delete_raw(y, record_job_key(job)); /* its state is left */
    key = record_state_key(last);
    put_raw(y, record_key_view(&key), STR("\x01rubbish"));
    for (int i = 0; i < 2; i++) {
        yard_restart(y);
        expect_apart(y, first);
        expect_apart(y, job);
        expect_apart(y, last);
        assert_int_equal(yard_status(y, good), STATUS_READY);
        assert_int_equal(count_all(y), 1);
    }
    struct answer claimed = {0};
    yard_claim(y, "q", 9, (span){0}, &claimed);
    yard_settle(y);
    assert_int_equal(claimed.count, 1);
    assert_id(claimed.ids[0], good);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = job}, &a);
    assert_ok(a.err);
    yard_restart(y);
    yard_read(y, job, &a);
    assert_code(a.err, ERR_NOT_FOUND);
    expect_apart(y, last);
}

/* Found by a reader, or when it is about to be handed out. */
static void a_payload_that_is_missing_sets_its_job_apart(void **state)
{
    Y;
    static char large[RECORD_APART_MIN + 100];
    memset(large, '1', sizeof large);
    struct enqueue spec = yard_spec("q");
    spec.payload = (struct str){large, sizeof large};
    struct id ids[3];
    struct answer a;
    for (int i = 0; i < 3; i++) {
        yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {.specs = &spec, .count = 1}},
                 &a);
        assert_ok(a.err);
        ids[i] = a.ids[0];
    }
    delete_raw(y, record_payload_key(ids[0]));
    delete_raw(y, record_payload_key(ids[1]));
    yard_read(y, ids[1], &a);
    assert_code(a.err, ERR_DAMAGED);
    expect_apart(y, ids[1]);
    struct answer waiting = {0}, again = {0};
    yard_claim(y, "q", 9, (span){0}, &waiting);
    yard_settle(y);
    assert_int_equal(waiting.came, 1);
    assert_code(waiting.err, ERR_STORE); /* and is requested again */
    expect_apart(y, ids[0]);
    yard_claim(y, "q", 9, (span){0}, &again);
    yard_settle(y);
    assert_int_equal(again.count, 1);
    assert_id(again.ids[0], ids[2]);
    yard_restart(y);
    expect_apart(y, ids[0]);
    expect_apart(y, ids[1]);
}

static void those_who_wait_for_a_job_that_is_set_apart_hear_of_its_deletion(void **state)
{
    Y;
    struct id awaited = yard_add(y, "q");
    char ids[DEPEND_ID_LEN];
    id_encode(awaited, (uint8_t *)ids);
    struct enqueue spec = yard_spec("q");
    spec.options.depends_on = (struct str){ids, sizeof ids};
    spec.options.depend_when = DEPEND_ALL_ENDED;
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {.specs = &spec, .count = 1}}, &a);
    assert_ok(a.err);
    struct id waits = a.ids[0];
    struct record_key key = record_job_key(awaited);
    put_raw(y, record_key_view(&key), STR("\x01rubbish"));
    yard_restart(y);
    expect_apart(y, awaited);
    assert_int_equal(yard_status(y, waits), STATUS_BLOCKED);
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = awaited}, &a);
    assert_ok(a.err);
    yard_settle(y);
    assert_int_equal(yard_status(y, waits), STATUS_READY);
}

static void a_run_that_is_missing_is_corruption(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    struct stream s = {0};
    struct answer a;
    yard_stream(y, "q", 1, &s);
    yard_settle(y);
    backend_stream_close(y->b, s.handle);
    yard_settle(y);
    struct record_key key = record_run_key(id, 0);
    struct batch b = {0};
    struct err err;
    batch_delete(&b, record_key_view(&key));
    y->below->commit(y->store, &b, true);
    assert_true(store_reap(y->store, &err));
    batch_fini(&b);
    yard_ask(y, (struct command){.kind = CMD_RUNS, .runs = {.id = id, .from = -1, .limit = 9}}, &a);
    assert_code(a.err, ERR_CORRUPT);
}

/* --- damage where there is no room to set it apart --- */

static bool is_damaged;

static void damage_is_found(struct store *s, struct store_damage *out)
{
    (void)s;
    *out = (struct store_damage){.found = is_damaged};
}

static struct err read_nothing(struct store *s, struct str key, bool *found, struct buf *value)
{
    (void)s;
    (void)key;
    (void)value;
    *found = false;
    return err_make(ERR_CORRUPT, "checksum");
}

static struct err find_no_room(struct store *s)
{
    (void)s;
    return err_make(ERR_DISK_FULL, "the table is damaged, and there is no room");
}

static void check_blind(struct yard *y, struct id id)
{
    struct answer a;
    struct command commands[] = {{.kind = CMD_READ, .id = id},
                                 {.kind = CMD_COUNT},
                                 {.kind = CMD_QUEUES},
                                 {.kind = CMD_REMOVE, .id = id}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        yard_ask(y, commands[i], &a);
        assert_code(a.err, ERR_DISK_FULL);
        assert_string_equal(a.err.msg, "the table is damaged, and there is no room");
    }
    struct stream s = {0};
    assert_code(yard_try_stream(y, "q", 1, &s), ERR_DISK_FULL);
    yard_ask(y, (struct command){.kind = CMD_STATUS}, &a);
    assert_ok(a.err);
    assert_false(a.writable);
}

/* It must not end: whoever starts it again would do so for ever. */
static void damage_on_a_full_disk_is_kept_until_there_is_room(void **state)
{
    Y;
    struct id id = yard_add(y, "q");
    is_damaged = true;
    y->vt.damage = damage_is_found;
    y->vt.get = read_nothing;
    y->vt.reopen = find_no_room;
    struct env env = yard_env(y);
    backend_free(y->b);
    assert_ok(embedded_new(&y->settings, &env, &y->b)); /* at the start */
    check_blind(y, id);
    reopen(y);
    check_blind(y, id);
    is_damaged = false;
    y->vt.get = y->below->get;
    y->vt.reopen = y->below->reopen;
    reopen(y);
    assert_int_equal(yard_status(y, id), STATUS_READY);
    is_damaged = true; /* while serving */
    y->vt.get = read_nothing;
    y->vt.reopen = find_no_room;
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_READ, .id = id}, &a);
    assert_true(a.err.code != ERR_OK && a.err.code != ERR_NOT_FOUND);
    yard_settle(y);
    check_blind(y, id);
    is_damaged = false;
    y->vt.get = y->below->get;
    y->vt.reopen = y->below->reopen;
    reopen(y);
    assert_int_equal(yard_status(y, id), STATUS_READY);
    assert_int_equal(count_all(y), 1);
}

/* --- numbers of events --- */

static uint64_t newest_event(struct yard *y)
{
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_EVENTS_PLACE, .events_since = EVENTS_NEWEST}, &a);
    assert_ok(a.err);
    return a.events_since;
}

struct seen {
    bool came;
    uint64_t missed_to, first, last;
};

static void on_events(void *ctx, const struct event_page *p)
{
    struct seen *s = ctx;
    assert_ok(p->err);
    *s = (struct seen){true, p->missed_to, p->count ? p->events[0].number : 0, p->last};
}

static struct seen events_after(struct yard *y, uint64_t since)
{
    struct seen s = {0};
    struct event_read_spec spec = {.since = since, .limit = 1, .done = on_events, .ctx = &s};
    backend_events(y->b, &spec);
    yard_settle(y);
    assert_true(s.came);
    return s;
}

/* Consumers hold what they have seen for all that there was up to that number. */
static void a_number_of_an_event_that_was_lost_is_not_given_again(void **state)
{
    Y;
    for (int i = 0; i < 5; i++)
        yard_add(y, "q"); /* events of a record each */
    assert_int_equal(newest_event(y), 5);
    delete_raw(y, eventlog_key(5));
    delete_raw(y, eventlog_key(4));
    for (int i = 0; i < 2; i++) {
        yard_restart(y);
        assert_int_equal(newest_event(y), 5);
        assert_int_equal(events_after(y, 2).first, 3);
        struct seen s = events_after(y, 3);
        assert_int_equal(s.missed_to, 5);
        assert_int_equal(s.first, 0);
        assert_int_equal(s.last, 5);
        assert_int_equal(events_after(y, 4).missed_to, 5);
    }
    yard_add(y, "q");
    assert_int_equal(newest_event(y), 6);
    struct seen s = events_after(y, 3);
    assert_int_equal(s.missed_to, 5);
    assert_int_equal(s.first, 6);
    yard_restart(y);
    assert_int_equal(newest_event(y), 6);
    assert_int_equal(events_after(y, 3).missed_to, 5);
}

static void one_table_was_set_apart(struct store *s, struct store_damage *out)
{
    (void)s;
    *out = (struct store_damage){.tables = 1};
}

static void nor_is_it_if_nobody_knows_how_many_were_given(void **state)
{
    Y;
    for (int i = 0; i < 3; i++)
        yard_add(y, "q");
    y->vt.damage = one_table_was_set_apart;
    for (uint64_t i = 1; i <= 3; i++)
        delete_raw(y, eventlog_key(i));
    delete_raw(y, record_clock_key());
    yard_restart(y);
    uint64_t passed = newest_event(y);
    assert_true(passed > 1000 * 1000 * 1000);
    assert_int_equal(events_after(y, 0).missed_to, passed);
    yard_add(y, "q");
    assert_int_equal(newest_event(y), passed + 1);
    yard_restart(y);
    assert_int_equal(newest_event(y), passed + 1);
    assert_int_equal(events_after(y, 0).first, passed + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_full_disk_leaves_the_loop_idle_until_it_is_tried_again),
        TEST(while_failed_reads_go_on_and_writes_are_refused),
        TEST(it_waits_for_room_before_it_goes_on),
        TEST(a_batch_that_failed_and_yet_is_there_is_recovered_whole),
        TEST(a_second_failure_after_the_reopen_is_survived_too),
        TEST(a_store_that_opens_on_a_full_disk_is_read_until_there_is_room),
        TEST(a_recovery_that_fails_half_way_leaves_no_events_behind),
        TEST(a_failure_other_than_a_full_disk_is_fatal_and_answers_nothing),
        TEST(a_store_that_nobody_gives_back_is_not_waited_for),
        TEST(below_the_reserve_new_work_is_refused_and_old_work_can_end),
        TEST(below_half_the_reserve_only_removals_are_accepted),
        TEST(a_stream_gets_its_job_by_itself_when_there_is_room_again),
        TEST(a_newer_format_is_refused_at_the_start),
        TEST(a_broken_record_that_is_no_jobs_is_refused_at_the_start),
        TEST(jobs_with_broken_or_missing_parts_are_set_apart_at_the_start),
        TEST(a_payload_that_is_missing_sets_its_job_apart),
        TEST(those_who_wait_for_a_job_that_is_set_apart_hear_of_its_deletion),
        TEST(a_run_that_is_missing_is_corruption),
        TEST(damage_on_a_full_disk_is_kept_until_there_is_room),
        TEST(a_number_of_an_event_that_was_lost_is_not_given_again),
        TEST(nor_is_it_if_nobody_knows_how_many_were_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
