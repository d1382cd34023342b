/* SPDX-License-Identifier: Apache-2.0 */

/* Enqueues with an idempotency key: the same request again is answered as the first time. */

#include "brain.h"

#include "core/idempotency.h"
#include "store/record.h"

#define Y    struct yard *y = *state
#define HOUR ((span){3600000})

static struct brain brain;

static int setup(void **state)
{
    int failed = yard_setup(state);
    struct yard *y = *state;
    y->settings.idempotency_retention = HOUR;
    y->settings.idempotency_bytes = (uint64_t)1 << 30;
    y->settings.depend_slice = 10;
    brain_install(&brain, y);
    yard_restart(y);
    return failed;
}

static int teardown(void **state)
{
    int bad = yard_teardown(state);
    brain_fini(&brain);
    return bad;
}

static struct idempotency once_of(const char *key, unsigned char request)
{
    struct idempotency once = {.key = str_from(key)};
    memset(once.request, request, sizeof once.request);
    return once;
}

static void send(struct yard *y, const struct enqueue *specs, size_t count,
                 const struct idempotency *once, struct answer *to)
{
    *to = (struct answer){0};
    yard_send(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, count, once}}, to);
}

/* One job with the key, answered. */
static struct answer ask(struct yard *y, const char *key, unsigned char request)
{
    struct idempotency once = once_of(key, request);
    struct enqueue spec = yard_spec("q");
    struct answer a;
    send(y, &spec, 1, &once, &a);
    brain_settle(&brain, y);
    assert_int_equal(a.came, 1);
    return a;
}

static uint64_t jobs(struct yard *y)
{
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_COUNT}, &a);
    assert_ok(a.err);
    return a.count;
}

static void the_same_request_again_is_answered_with_the_same_job(void **state)
{
    Y;
    struct answer first = ask(y, "k", 1), again = ask(y, "k", 1), other = ask(y, "l", 1);
    assert_ok(again.err);
    assert_int_equal(again.count, 1);
    assert_id(again.ids[0], first.ids[0]);
    assert_false(id_eq(other.ids[0], first.ids[0]));
    assert_int_equal(jobs(y), 2);
}

static void another_request_with_the_key_is_refused(void **state)
{
    Y;
    struct answer first = ask(y, "k", 1);
    assert_code(ask(y, "k", 2).err, ERR_KEY_REUSED);
    assert_int_equal(jobs(y), 1);
    assert_id(ask(y, "k", 1).ids[0], first.ids[0]);
}

static void an_answer_outlives_a_restart_and_its_job(void **state)
{
    Y;
    struct answer first = ask(y, "k", 1), removed;
    yard_ask(y, (struct command){.kind = CMD_REMOVE, .id = first.ids[0]}, &removed);
    assert_ok(removed.err);
    yard_restart(y);
    struct answer again = ask(y, "k", 1);
    assert_ok(again.err);
    assert_id(again.ids[0], first.ids[0]);
    assert_int_equal(jobs(y), 0);
}

static void what_a_crash_took_was_never_sent(void **state)
{
    Y;
    struct idempotency once = once_of("k", 1);
    struct enqueue spec = yard_spec("q");
    struct answer lost;
    yard_faults(y, (struct memory_faults){.hold = true});
    send(y, &spec, 1, &once, &lost);
    yard_turn(y);
    yard_crash(y);
    assert_int_equal(jobs(y), 0);
    assert_ok(ask(y, "k", 1).err);
    assert_int_equal(jobs(y), 1);
}

static void a_commit_that_failed_remembers_nothing(void **state)
{
    Y;
    struct idempotency once = once_of("k", 1);
    struct enqueue spec = yard_spec("q");
    struct answer a;
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    send(y, &spec, 1, &once, &a);
    yard_settle(y);
    assert_code(a.err, ERR_DISK_FULL);
    yard_faults(y, (struct memory_faults){0});
    yard_turn_after(y, 2000);
    yard_settle(y);
    assert_ok(ask(y, "k", 1).err);
    assert_int_equal(jobs(y), 1);
}

static void two_in_one_turn_add_one_job(void **state)
{
    Y;
    struct idempotency once = once_of("k", 1), other = once_of("k", 2);
    struct enqueue spec = yard_spec("q");
    struct answer a[3];
    send(y, &spec, 1, &once, &a[0]);
    send(y, &spec, 1, &once, &a[1]);
    send(y, &spec, 1, &other, &a[2]);
    yard_settle(y);
    assert_id(a[0].ids[0], a[1].ids[0]);
    assert_code(a[2].err, ERR_KEY_REUSED);
    assert_int_equal(jobs(y), 1);
}

/* Their dependencies are looked at over several turns. */
static void two_that_take_several_turns_add_their_jobs_once(void **state)
{
    Y;
    enum { DEPS = 12, SPECS = 2 };
    char bytes[DEPS * 16];
    struct enqueue specs[SPECS] = {yard_spec("q"), yard_spec("q")};
    struct idempotency once = once_of("k", 1);
    struct answer a, b;
    for (int i = 0; i < DEPS; i++)
        id_encode(yard_add(y, "first"), (uint8_t *)bytes + i * 16);
    for (int i = 0; i < SPECS; i++)
        specs[i].options.depends_on = (struct str){bytes, sizeof bytes};
    send(y, specs, SPECS, &once, &a);
    send(y, specs, SPECS, &once, &b);
    memset(&once, 0xff, sizeof once); /* it is borrowed for the call */
    assert_int_equal(a.came + b.came, 0);
    yard_settle(y);
    assert_ok(a.err);
    assert_ok(b.err);
    assert_int_equal(b.count, SPECS);
    assert_id(a.ids[1], b.ids[1]);
    assert_int_equal(jobs(y), DEPS + SPECS);
}

static void a_payload_is_folded_once(void **state)
{
    Y;
    struct enqueue spec = yard_spec("q");
    struct idempotency once = once_of("k", 1);
    struct answer first, second, third;
    spec.payload = STR("[1]");
    spec.batch = (struct job_batch){STR("b"), STR("yes"), STR("join"), false};
    send(y, &spec, 1, NULL, &first);
    brain_settle(&brain, y);
    send(y, &spec, 1, &once, &second);
    send(y, &spec, 1, &once, &third);
    brain_settle(&brain, y);
    assert_true(second.folded[0] && third.folded[0]);
    assert_id(third.ids[0], first.ids[0]);
    struct answer job;
    yard_read(y, first.ids[0], &job);
    assert_string_equal(job.payload, "[1,1]");
}

static void a_refused_request_may_be_sent_again(void **state)
{
    Y;
    struct idempotency once = once_of("k", 1);
    struct enqueue spec = yard_spec("q");
    struct answer a;
    char nobody[16] = {0};
    spec.options.depends_on = (struct str){nobody, sizeof nobody};
    send(y, &spec, 1, &once, &a);
    yard_settle(y);
    assert_true(a.err.code != ERR_OK);
    assert_ok(ask(y, "k", 2).err);
}

static uint64_t entries(struct yard *y)
{
    uint64_t n = 0;
    struct str key, value;
    struct store_cursor *c = store_cursor_new(y->store);
    store_cursor_seek(c, y->store, STR("K"), false);
    for (; store_cursor_at(c, y->store, &key, &value) && key.at[0] == 'K'; n++)
        store_cursor_step(c, y->store, false);
    assert_ok(store_cursor_free(c, y->store));
    return n;
}

static void a_key_is_forgotten_when_its_time_is_over(void **state)
{
    Y;
    struct answer first = ask(y, "k", 1);
    yard_turn_after(y, HOUR.ms - 1);
    assert_id(ask(y, "k", 1).ids[0], first.ids[0]);
    yard_turn_after(y, 1);
    struct answer later = ask(y, "k", 2);
    assert_ok(later.err);
    assert_false(id_eq(later.ids[0], first.ids[0]));
    yard_settle(y);
    assert_int_equal(entries(y), 1);
    yard_turn_after(y, HOUR.ms);
    yard_settle(y);
    assert_int_equal(entries(y), 0);
}

/* The answer is longer than what front ends may keep in an entry. */
static void a_key_of_very_many_jobs_is_forgotten_like_others(void **state)
{
    Y;
    enum { SPECS = 2000 };
    static struct enqueue specs[SPECS];
    struct idempotency once = once_of("k", 1);
    struct answer a, b;
    for (int i = 0; i < SPECS; i++)
        specs[i] = yard_spec("q");
    send(y, specs, SPECS, &once, &a);
    yard_settle(y);
    send(y, specs, SPECS, &once, &b);
    yard_settle(y);
    assert_ok(b.err);
    assert_int_equal(b.count, SPECS);
    assert_int_equal(jobs(y), SPECS);
    assert_int_equal(entries(y), 1);
    yard_turn_after(y, HOUR.ms);
    yard_settle(y);
    assert_int_equal(entries(y), 0);
}

/* --- how much is kept --- */

enum { BOUND = 4000, MANY = 200 };

static uint64_t whole_bytes(struct yard *y)
{
    uint64_t n = 0;
    struct str key, value;
    struct kv_entry e;
    struct store_cursor *c = store_cursor_new(y->store);
    store_cursor_seek(c, y->store, STR("K"), false);
    for (; store_cursor_at(c, y->store, &key, &value) && key.at[0] == 'K';
         store_cursor_step(c, y->store, false)) {
        assert_ok(record_read_kv(value, &e));
        n += record_answer_is_brief(e.value) ? 0 : e.value.len;
    }
    assert_ok(store_cursor_free(c, y->store));
    return n;
}

static void bound(struct yard *y, uint64_t bytes)
{
    y->settings.idempotency_bytes = bytes;
    yard_restart(y);
}

static void fill_beyond(struct yard *y, struct answer answers[MANY])
{
    char key[16];
    bound(y, BOUND);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k%d", i);
        answers[i] = ask(y, key, 1);
        yard_turn_after(y, 1);
        assert_true(whole_bytes(y) <= BOUND + 200);
    }
    yard_settle(y);
    assert_true(whole_bytes(y) <= BOUND);
    assert_true(whole_bytes(y) > BOUND / 2);
}

static void assert_repeated(struct yard *y, const struct answer answers[MANY])
{
    char key[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k%d", i);
        struct answer again = ask(y, key, 1);
        assert_ok(again.err);
        assert_id(again.ids[0], answers[i].ids[0]);
        assert_code(ask(y, key, 2).err, ERR_KEY_REUSED);
    }
    assert_int_equal(jobs(y), MANY);
}

static void the_oldest_answers_become_brief_and_no_key_is_lost(void **state)
{
    Y;
    static struct answer answers[MANY];
    fill_beyond(y, answers);
    assert_int_equal(entries(y), MANY);
    assert_repeated(y, answers);
    yard_restart(y);
    assert_repeated(y, answers);
    yard_turn_after(y, HOUR.ms);
    yard_settle(y);
    assert_int_equal(entries(y), 0);
}

/* What is counted is counted over a restart, and after all has gone. */
static void their_bytes_are_counted_over_restarts(void **state)
{
    Y;
    static struct answer answers[MANY];
    fill_beyond(y, answers);
    bound(y, BOUND / 4);
    yard_turn_after(y, 1);
    yard_settle(y);
    assert_true(whole_bytes(y) <= BOUND / 4);
    yard_turn_after(y, HOUR.ms);
    yard_settle(y);
    bound(y, BOUND);
    ask(y, "later", 1);
    yard_settle(y);
    assert_true(whole_bytes(y) > 0);
}

/* In one batch, so that they expire at the same time. */
static void those_that_expire_at_once_become_brief_too(void **state)
{
    Y;
    enum { AT_ONCE = 600 };
    static struct answer answers[AT_ONCE];
    struct enqueue spec = yard_spec("q");
    bound(y, (uint64_t)1 << 20);
    for (int i = 0; i < AT_ONCE; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        struct idempotency once = once_of(key, 1);
        send(y, &spec, 1, &once, &answers[i]);
    }
    yard_settle(y);
    assert_true(whole_bytes(y) > BOUND);
    bound(y, BOUND);
    yard_turn_after(y, 1);
    yard_settle(y);
    assert_true(whole_bytes(y) <= BOUND);
    assert_int_equal(entries(y), AT_ONCE);
}

/* What an earlier version has left in place of the bytes that are counted; NULL: nothing. */
static void restart_with_count(struct yard *y, const struct record_answers *count)
{
    struct batch b = {0};
    struct record_key key = record_answers_key();
    struct err err;
    if (count)
        record_put_answers(&b, count);
    else
        batch_delete(&b, record_key_view(&key));
    y->below->commit(y->store, &b, true);
    assert_true(store_reap(y->store, &err));
    batch_fini(&b);
    yard_restart(y);
}

static void those_of_an_earlier_version_are_counted(void **state)
{
    Y;
    static struct answer answers[MANY];
    fill_beyond(y, answers);
    y->settings.idempotency_bytes = BOUND / 4;
    restart_with_count(y, NULL);
    yard_turn_after(y, 1);
    yard_settle(y);
    assert_true(whole_bytes(y) <= BOUND / 4);
    /* One that was used in between has removed some, and counted nothing. */
    restart_with_count(y, &(struct record_answers){.bytes = whole_bytes(y) + BOUND * 3 / 8});
    yard_turn_after(y, 1);
    yard_settle(y);
    assert_int_equal(whole_bytes(y), 0);
    /* Of those that come later all but the newest. */
    ask(y, "later", 1);
    uint64_t one = whole_bytes(y);
    ask(y, "last", 1);
    assert_int_equal(whole_bytes(y), one);
}

/* They come before those that were made brief last. */
static void those_that_expire_sooner_become_brief_too(void **state)
{
    Y;
    static struct answer answers[MANY];
    char key[16];
    fill_beyond(y, answers);
    y->settings.idempotency_retention = (span){HOUR.ms / 2};
    yard_restart(y);
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "soon%d", i);
        ask(y, key, 1);
    }
    yard_settle(y);
    assert_true(whole_bytes(y) <= BOUND);
    assert_int_equal(entries(y), 2 * MANY);
}

static void one_that_is_far_too_long_is_brief_from_the_start(void **state)
{
    Y;
    enum { SPECS = 2000 };
    static struct enqueue specs[SPECS];
    struct idempotency once = once_of("k", 1);
    struct answer a, b;
    bound(y, BOUND);
    for (int i = 0; i < SPECS; i++)
        specs[i] = yard_spec("q");
    send(y, specs, SPECS, &once, &a);
    yard_settle(y);
    assert_int_equal(whole_bytes(y), 0);
    send(y, specs, SPECS, &once, &b);
    yard_settle(y);
    assert_ok(b.err);
    assert_int_equal(b.count, SPECS);
    for (int i = 0; i < 3; i++)
        assert_id(a.ids[i], b.ids[i]);
    assert_int_equal(jobs(y), SPECS);
}

static void without_a_retention_keys_mean_nothing(void **state)
{
    Y;
    y->settings.idempotency_retention = (span){0};
    yard_restart(y);
    struct answer first = ask(y, "k", 1), again = ask(y, "k", 2);
    assert_ok(again.err);
    assert_false(id_eq(first.ids[0], again.ids[0]));
    assert_int_equal(entries(y), 0);
}

#define ONCE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(the_same_request_again_is_answered_with_the_same_job),
        ONCE(another_request_with_the_key_is_refused),
        ONCE(an_answer_outlives_a_restart_and_its_job),
        ONCE(what_a_crash_took_was_never_sent),
        ONCE(a_commit_that_failed_remembers_nothing),
        ONCE(two_in_one_turn_add_one_job),
        ONCE(two_that_take_several_turns_add_their_jobs_once),
        ONCE(a_payload_is_folded_once),
        ONCE(a_refused_request_may_be_sent_again),
        ONCE(a_key_is_forgotten_when_its_time_is_over),
        ONCE(a_key_of_very_many_jobs_is_forgotten_like_others),
        ONCE(the_oldest_answers_become_brief_and_no_key_is_lost),
        ONCE(their_bytes_are_counted_over_restarts),
        ONCE(those_that_expire_at_once_become_brief_too),
        ONCE(those_of_an_earlier_version_are_counted),
        ONCE(those_that_expire_sooner_become_brief_too),
        ONCE(one_that_is_far_too_long_is_brief_from_the_start),
        ONCE(without_a_retention_keys_mean_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
