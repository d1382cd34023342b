/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "core/job_fields.h"
#include "store/records.h"

static const struct id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};

/* --- values with every field set, and with none --- */

static struct job_state full_state(void)
{
    return (struct job_state){
        .status = STATUS_IN_FLIGHT,
        .resolution = RESOLUTION_CLAIM_EXPIRED,
        .priority = 32768,
        .ready_at = {1700000000000},
        .dequeued_at = {1700000000001},
        .failed_at = {1700000000002},
        .completed_at = {1700000000003},
        .purge_at = {1700000000004},
        .attempts = 3,
        .forgiven = 1,
        .runs = 4,
        .losses = 5,
        .reason = STR("retry 2 of 3"),
        .token = 0xffffffffffffffffu,
        .lease_end = {1700000000005},
        .worker = STR("w1"),
        .extras = {.retry_counts = STR("k1"), .avoid_node = STR("n1")},
    };
}

static struct job full_job(void)
{
    return (struct job){
        .id = ID,
        .queue = STR("mail"),
        .type = STR("send"),
        .payload = STR("{\"to\": 1}"),
        .retry_limit = 25,
        .backoff = {CURVE_POWER, {15000}, 4.0, {30000}},
        .completed_retention = {0},
        .dead_retention = {604800000},
        .unique_key = STR("u:1"),
        .unique_while = UNIQUE_ACTIVE,
        .batch = {STR("b"), STR("true"), STR("$new"), true},
        .options = {.retry_policies = STR("a,b")},
        .state = full_state(),
    };
}

static struct job bare_job(void)
{
    return (struct job){
        .id = ID,
        .queue = STR("q"),
        .type = STR("t"),
        .payload = STR("1"),
        .retry_limit = RETRY_LIMIT_DEFAULT,
        .completed_retention = RETENTION_DEFAULT,
        .dead_retention = RETENTION_DEFAULT,
        .state = records_bare_state(),
    };
}

static const struct str EVENTS[] = {{"Pulled", 6}, {"FailedMount: x", 14}};
static const struct container_result CONTAINERS[] = {
    {.name = STR("main"),
     .exit_code = 137,
     .signal = 9,
     .condition = CONDITION_OOM_KILLED,
     .reason = STR("OOMKilled"),
     .message = STR("m"),
     .log = STR("l")},
    {.name = STR("i"), .init = true},
};

static struct run full_run(void)
{
    return (struct run){
        .index = 2,
        .worker = STR("w1"),
        .ready_at = {1699999999999},
        .taken_at = {1700000000000},
        .lease_end = {1700000000001},
        .ended_at = {1700000000002},
        .outcome = OUTCOME_FAILED,
        .attempt = 3,
        .retry_at = {1700000000003},
        .grace_end = {5},
        .reason = STR("why"),
        .failure = {.message = STR("boom"),
                    .error_type = STR("E"),
                    .backtrace = STR("a\nb"),
                    .exit_code = -7,
                    .signal = 9,
                    .run_time = {1234},
                    .condition = CONDITION_EVICTED,
                    .node = STR("n1"),
                    .termination_message = STR("tm"),
                    .category = STR("c"),
                    .subcategory = STR("s"),
                    .hint = STR("h"),
                    .pod_error = STR("pe"),
                    .culprit = CULPRIT_NODE,
                    .culprit_evidence = STR("ev"),
                    .pod_events = EVENTS,
                    .pod_event_count = 2,
                    .containers = CONTAINERS,
                    .container_count = 2},
    };
}

static struct run bare_run(void)
{
    return (struct run){
        .ready_at = INSTANT_NONE,
        .taken_at = INSTANT_NONE,
        .lease_end = INSTANT_NONE,
        .ended_at = INSTANT_NONE,
        .retry_at = INSTANT_NONE,
        .failure = {.run_time = {-1}},
    };
}

static const struct take TAKES[] = {
    {{0x0123456789abcdefu, 0xfedcba9876543210u}, 0},
    {{1, 2}, 300},
};

/* --- helpers --- */

static struct str value_of(const struct batch *b, struct record_key key)
{
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    assert_non_null(op);
    assert_non_null(op->value.at);
    return op->value;
}

static void assert_same(struct str a, struct str b)
{
    assert_int_equal(a.len, b.len);
    if (a.len)
        assert_memory_equal(a.at, b.at, a.len);
}

static void assert_same_state(const struct job_state *a, const struct job_state *b)
{
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->resolution, b->resolution);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->ready_at.ms, b->ready_at.ms);
    assert_int_equal(a->dequeued_at.ms, b->dequeued_at.ms);
    assert_int_equal(a->failed_at.ms, b->failed_at.ms);
    assert_int_equal(a->completed_at.ms, b->completed_at.ms);
    assert_int_equal(a->purge_at.ms, b->purge_at.ms);
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->forgiven, b->forgiven);
    assert_int_equal(a->runs, b->runs);
    assert_int_equal(a->losses, b->losses);
    assert_same(a->reason, b->reason);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->lease_end.ms, b->lease_end.ms);
    assert_same(a->worker, b->worker);
    assert_true(job_extras_eq(&a->extras, &b->extras));
}

static void assert_same_job(const struct job *a, const struct job *b)
{
    assert_true(id_eq(a->id, b->id));
    assert_same(a->queue, b->queue);
    assert_same(a->type, b->type);
    assert_int_equal(a->retry_limit, b->retry_limit);
    assert_int_equal(a->backoff.shape, b->backoff.shape);
    assert_int_equal(a->backoff.base.ms, b->backoff.base.ms);
    assert_true(a->backoff.exponent == b->backoff.exponent);
    assert_int_equal(a->backoff.jitter.ms, b->backoff.jitter.ms);
    assert_int_equal(a->completed_retention.ms, b->completed_retention.ms);
    assert_int_equal(a->dead_retention.ms, b->dead_retention.ms);
    assert_int_equal(a->unique_while, b->unique_while);
    assert_same(a->unique_key, b->unique_key);
    assert_same(a->batch.key, b->batch.key);
    assert_same(a->batch.when, b->batch.when);
    assert_same(a->batch.fold, b->batch.fold);
    assert_int_equal(a->batch.open, b->batch.open);
    assert_true(job_options_eq(&a->options, &b->options));
    assert_same_state(&a->state, &b->state);
}

static void assert_same_run(const struct run *a, const struct run *b)
{
    assert_int_equal(a->index, b->index);
    assert_same(a->worker, b->worker);
    assert_int_equal(a->ready_at.ms, b->ready_at.ms);
    assert_int_equal(a->taken_at.ms, b->taken_at.ms);
    assert_int_equal(a->lease_end.ms, b->lease_end.ms);
    assert_int_equal(a->ended_at.ms, b->ended_at.ms);
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->attempt, b->attempt);
    assert_int_equal(a->retry_at.ms, b->retry_at.ms);
    assert_int_equal(a->grace_end.ms, b->grace_end.ms);
    assert_same(a->reason, b->reason);
    assert_same(a->failure.message, b->failure.message);
    assert_same(a->failure.error_type, b->failure.error_type);
    assert_same(a->failure.backtrace, b->failure.backtrace);
    assert_int_equal(a->failure.exit_code, b->failure.exit_code);
    assert_int_equal(a->failure.signal, b->failure.signal);
    assert_int_equal(a->failure.run_time.ms, b->failure.run_time.ms);
    assert_int_equal(a->failure.condition, b->failure.condition);
    assert_same(a->failure.node, b->failure.node);
    assert_same(a->failure.termination_message, b->failure.termination_message);
    assert_same(a->failure.category, b->failure.category);
    assert_same(a->failure.subcategory, b->failure.subcategory);
    assert_same(a->failure.hint, b->failure.hint);
    assert_same(a->failure.pod_error, b->failure.pod_error);
    assert_int_equal(a->failure.culprit, b->failure.culprit);
    assert_same(a->failure.culprit_evidence, b->failure.culprit_evidence);
    assert_int_equal(a->failure.pod_event_count, b->failure.pod_event_count);
    for (size_t i = 0; i < a->failure.pod_event_count; i++)
        assert_same(a->failure.pod_events[i], b->failure.pod_events[i]);
    assert_int_equal(a->failure.container_count, b->failure.container_count);
    for (size_t i = 0; i < a->failure.container_count; i++) {
        const struct container_result *x = &a->failure.containers[i];
        const struct container_result *y = &b->failure.containers[i];
        assert_same(x->name, y->name);
        assert_int_equal(x->init, y->init);
        assert_int_equal(x->exit_code, y->exit_code);
        assert_int_equal(x->condition, y->condition);
        assert_same(x->reason, y->reason);
        assert_same(x->message, y->message);
        assert_int_equal(x->signal, y->signal);
        assert_same(x->log, y->log);
    }
}

/* All decoders with one signature, for properties of all of them. */
typedef struct err decoder(struct str value);

static struct err decode_job(struct str value)
{
    struct job job;
    bool apart;
    return record_read_job(value, ID, &job, &apart);
}

static struct err decode_payload(struct str value)
{
    struct str payload;
    return record_read_payload(value, &payload);
}

static struct err decode_state(struct str value)
{
    struct job_state state;
    return record_read_state(value, &state);
}

static struct err decode_run(struct str value)
{
    struct run run;
    struct arena memory = {0};
    struct err e = record_read_run(value, &memory, &run);
    arena_fini(&memory);
    return e;
}

static void count_take(void *ctx, struct take t)
{
    (void)t;
    ++*(size_t *)ctx;
}

/* A malformed record must not be applied in part. */
static struct err decode_takes(struct str value)
{
    instant at;
    size_t count = 0;
    struct err e = record_read_takes(value, &at, count_take, &count);
    assert_true(e.code == ERR_OK || count == 0);
    return e;
}

/* Puts one record of each kind, all fields set, and a large payload. */
static void put_all(struct batch *b, const char *large)
{
    struct job job = full_job();
    assert_false(record_put_job(b, &job));
    struct job_state state = full_state();
    record_put_state(b, ID, &state);
    struct run run = full_run();
    record_put_run(b, ID, &run);
    record_put_takes(b, 7, (instant){1700000000000}, TAKES, 2);
    job.id.lo++;
    job.payload = str_from(large);
    assert_true(record_put_job(b, &job));
}

struct kind {
    struct record_key key;
    decoder *decode;
};

#define KINDS 6
#define LARGE (RECORD_APART_MIN + 1)

static void list_kinds(struct kind out[KINDS])
{
    struct id apart = {ID.hi, ID.lo + 1};
    out[0] = (struct kind){record_job_key(ID), decode_job};
    out[1] = (struct kind){record_state_key(ID), decode_state};
    out[2] = (struct kind){record_run_key(ID, 2), decode_run};
    out[3] = (struct kind){record_takes_key(7), decode_takes};
    out[4] = (struct kind){record_job_key(apart), decode_job};
    out[5] = (struct kind){record_payload_key(apart), decode_payload};
}

static int set_up(void **state)
{
    char large[LARGE + 1];
    memset(large, ' ', LARGE);
    large[LARGE] = '\0';
    struct batch *b = ALLOC(struct batch);
    put_all(b, large);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    batch_fini(*state);
    free(*state);
    return 0;
}

/* --- round trips --- */

static void check_job(const struct job *in)
{
    struct batch b = {0};
    assert_false(record_put_job(&b, in));
    struct job out;
    bool apart;
    memset(&out, 0xa5, sizeof out);
    assert_ok(record_read_job(value_of(&b, record_job_key(in->id)), in->id, &out, &apart));
    assert_false(apart);
    assert_same_job(in, &out);
    assert_int_equal(out.gang_members, 0); /* not part of the record */
    assert_int_equal(out.gang_active, 0);
    assert_same(in->payload, out.payload);
    batch_fini(&b);
}

static void every_field_of_a_job_is_read_back(void **state)
{
    (void)state;
    struct job full = full_job(), bare = bare_job();
    check_job(&full);
    check_job(&bare);
    full.batch.open = false;
    check_job(&full);
    full.retry_limit = INT32_MAX;
    full.backoff = (struct curve){CURVE_POWER, {INT64_MIN}, -0.5, {INT64_MAX}};
    full.completed_retention.ms = full.state.ready_at.ms = INT64_MAX;
    full.state.attempts = full.state.runs = full.state.losses = UINT32_MAX;
    full.state.priority = UINT16_MAX;
    check_job(&full);
}

static void a_large_payload_lies_apart(void **state)
{
    struct batch *b = *state;
    struct id id = {ID.hi, ID.lo + 1};
    struct job out, in = full_job();
    in.id = id;
    bool apart;
    assert_ok(record_read_job(value_of(b, record_job_key(id)), id, &out, &apart));
    assert_true(apart);
    assert_null(out.payload.at);
    assert_same_job(&in, &out);
    struct str payload;
    assert_ok(record_read_payload(value_of(b, record_payload_key(id)), &payload));
    assert_int_equal(payload.len, LARGE);
}

static void a_payload_of_the_limit_lies_inside(void **state)
{
    (void)state;
    char text[RECORD_APART_MIN];
    memset(text, '1', sizeof text);
    struct job job = bare_job();
    job.payload = (struct str){text, sizeof text};
    check_job(&job);
}

static void every_field_of_a_state_is_read_back(void **state)
{
    (void)state;
    struct batch b = {0};
    struct job_state in = full_state(), out;
    record_put_state(&b, ID, &in);
    assert_ok(record_read_state(value_of(&b, record_state_key(ID)), &out));
    assert_same_state(&in, &out);
    in = records_bare_state();
    record_put_state(&b, ID, &in);
    assert_ok(record_read_state(value_of(&b, record_state_key(ID)), &out));
    assert_same_state(&in, &out);
    batch_fini(&b);
}

static void check_run(const struct run *in)
{
    struct batch b = {0};
    struct run out;
    struct arena memory = {0};
    record_put_run(&b, ID, in);
    assert_ok(record_read_run(value_of(&b, record_run_key(ID, in->index)), &memory, &out));
    assert_same_run(in, &out);
    arena_fini(&memory);
    batch_fini(&b);
}

static void every_field_of_a_run_is_read_back(void **state)
{
    (void)state;
    struct run full = full_run(), bare = bare_run();
    check_run(&full);
    check_run(&bare);
    full.failure.exit_code = INT32_MIN;
    full.failure.signal = INT32_MAX;
    full.failure.run_time.ms = 0;
    full.index = UINT32_MAX;
    check_run(&full);
}

struct takes_seen {
    size_t count;
};

static void check_take(void *ctx, struct take t)
{
    struct takes_seen *seen = ctx;
    assert_true(id_eq(t.id, TAKES[seen->count].id));
    assert_int_equal(t.run, TAKES[seen->count].run);
    seen->count++;
}

static void every_take_is_read_back(void **state)
{
    struct batch *b = *state;
    struct takes_seen seen = {0};
    instant at;
    struct str value = value_of(b, record_takes_key(7));
    assert_ok(record_read_takes(value, &at, check_take, &seen));
    assert_int_equal(at.ms, 1700000000000);
    assert_int_equal(seen.count, 2);
}

/* --- malformed bytes --- */

static void every_truncation_is_corrupt(void **state)
{
    struct batch *b = *state;
    struct kind kinds[KINDS];
    list_kinds(kinds);
    for (int k = 0; k < KINDS; k++) {
        struct str value = value_of(b, kinds[k].key);
        assert_ok(kinds[k].decode(value));
        for (size_t len = 0; len < value.len; len++) {
            /* A copy of that size, so that a read past its end is detected. */
            char *copy = alloc_get(len);
            memcpy(copy, value.at, len);
            assert_code(kinds[k].decode((struct str){copy, len}), ERR_CORRUPT);
            free(copy);
        }
    }
}

static void a_byte_too_many_is_corrupt(void **state)
{
    struct batch *b = *state;
    struct kind kinds[KINDS];
    list_kinds(kinds);
    for (int k = 0; k < KINDS; k++) {
        struct str value = value_of(b, kinds[k].key);
        char *copy = alloc_text(value.at, value.len);
        assert_code(kinds[k].decode((struct str){copy, value.len + 1}), ERR_CORRUPT);
        free(copy);
    }
}

static void a_newer_format_is_refused_by_name(void **state)
{
    (void)state;
    assert_ok(record_check_format(STR(RECORD_FORMAT)));
    struct err e = record_check_format(STR("999"));
    assert_code(e, ERR_VERSION);
    assert_non_null(strstr(e.msg, "format 999"));
    assert_non_null(strstr(e.msg, "newer tenax"));
    assert_code(record_check_format(STR("")), ERR_VERSION);
}

static void a_newer_version_is_told_apart_from_damage(void **state)
{
    struct batch *b = *state;
    struct kind kinds[KINDS];
    list_kinds(kinds);
    for (int k = 0; k < KINDS; k++) {
        struct str value = value_of(b, kinds[k].key);
        char *copy = alloc_text(value.at, value.len);
        copy[0]++;
        assert_code(kinds[k].decode((struct str){copy, value.len}), ERR_VERSION);
        copy[0] = 0;
        assert_code(kinds[k].decode((struct str){copy, value.len}), ERR_CORRUPT);
        free(copy);
    }
}

/* A state record with another byte at pos. */
static struct err decode_changed_state(struct batch *b, size_t pos, char byte)
{
    struct str value = value_of(b, record_state_key(ID));
    char *copy = alloc_text(value.at, value.len);
    copy[pos] = byte;
    struct err e = decode_state((struct str){copy, value.len});
    free(copy);
    return e;
}

static void numbers_outside_their_range_are_corrupt(void **state)
{
    struct batch *b = *state;
    assert_ok(decode_changed_state(b, 1, STATUS_DEAD));
    struct err e = decode_changed_state(b, 1, STATUS_COUNT);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.msg, "status"));
    assert_code(decode_changed_state(b, 2, RESOLUTION_COUNT), ERR_CORRUPT);
    /* The third byte of the priority: 0x02 << 14 is 32768, 0x04 << 14 is 65536. */
    e = decode_changed_state(b, 5, 4);
    assert_int_equal(e.code, ERR_CORRUPT);
    assert_non_null(strstr(e.msg, "priority"));
}

static void a_number_longer_than_needed_is_corrupt(void **state)
{
    (void)state;
    /* version 1, length 1, a byte; then the length as two bytes. */
    assert_ok(decode_payload(STR("\x01\x01x")));
    assert_code(decode_payload(STR("\x01\x81\x00x")), ERR_CORRUPT);
    assert_code(decode_payload(STR("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x")), ERR_CORRUPT);
    assert_code(decode_payload(STR("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02x")), ERR_CORRUPT);
}

static void a_count_beyond_the_record_is_corrupt(void **state)
{
    (void)state;
    assert_ok(decode_takes(STR("\x01\x00\x00")));
    assert_code(decode_takes(STR("\x01\x00\x01")), ERR_CORRUPT);
    assert_code(decode_takes(STR("\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")), ERR_CORRUPT);
}

/* --- version 1, byte by byte: what is on someone's disk must stay readable --- */

#define GOLDEN_JOB                                                                                 \
    "01046d61696c0473656e641a01b0ea010000000000001040e0d403018188b2a0020203753a31"                 \
    "010162047472756504246e65770103612c62000302808002"                                             \
    "81d0"                                                                                         \
    "95ffbc3182d095ffbc3183d095ffbc3184d095ffbc3185d095ffbc31030104050c72657472792032"             \
    "206f662033ffffffffffffffffff0186d095ffbc3102773101026b3102026e310000097b22746f223a20317d"
#define GOLDEN_BARE_JOB "0101710174000000000000000200000000000000000000000000000000000131"
#define GOLDEN_STATE                                                                               \
    "01030280800281d095ffbc3182d095ffbc3183d095ffbc3184d095ffbc3185d095ffbc31030104050c"           \
    "72657472792032206f662033ffffffffffffffffff0186d095ffbc3102773101026b3102026e3100"
#define RUN_TO_CONTAINERS                                                                          \
    "81d095ffbc3182d095ffbc3183d095ffbc31020384d095ffbc31050377687904626f6f6d"                     \
    "014503610a620d12d30902026e3102746d0163017301680270650206"                                     \
    "50756c6c65640e4661696c65644d6f756e743a2078"
#define OLD_CONTAINERS  "02046d61696e009202094f4f4d4b696c6c6564016d016901000000"
#define CONTAINERS_3    "02046d61696e009202094f4f4d4b696c6c6564016d12016c0169010000000000"
#define GOLDEN_RUN_1    "0102027731" RUN_TO_CONTAINERS OLD_CONTAINERS
#define GOLDEN_RUN_2    "020202773180d095ffbc31" RUN_TO_CONTAINERS OLD_CONTAINERS
#define GOLDEN_RUN_3    "030202773180d095ffbc31" RUN_TO_CONTAINERS CONTAINERS_3
#define GOLDEN_RUN      "040202773180d095ffbc31" RUN_TO_CONTAINERS CONTAINERS_3 "04026576"
#define GOLDEN_BARE_RUN "0400000000000000000000000000000000000000000000000000000000"
#define GOLDEN_TAKES                                                                               \
    "0181d095ffbc31020123456789abcdeffedcba987654321000000000000000000100000000000000"             \
    "02ac02"

static void check_old_run(const char *hex, unsigned version)
{
    char bytes[1024];
    size_t n = strlen(hex) / 2;
    struct arena memory = {0};
    struct run old = full_run(), run;
    struct container_result containers[] = {CONTAINERS[0], CONTAINERS[1]};
    if (version < 3) {
        containers[0].signal = 0;
        containers[0].log = (struct str){0};
    }
    old.failure.containers = containers;
    old.failure.culprit = CULPRIT_NONE;
    old.failure.culprit_evidence = (struct str){0};
    if (version < 2)
        old.ready_at = INSTANT_NONE;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sscanf(&hex[2 * i], "%2hhx", (unsigned char *)&bytes[i]), 1);
    assert_ok(record_read_run((struct str){bytes, n}, &memory, &run));
    assert_same_run(&old, &run);
    arena_fini(&memory);
}

static void older_versions_of_a_run_are_read_still(void **state)
{
    (void)state;
    check_old_run(GOLDEN_RUN_1, 1);
    check_old_run(GOLDEN_RUN_2, 2);
    check_old_run(GOLDEN_RUN_3, 3);
}

static void the_newest_versions_have_these_bytes(void **state)
{
    struct batch *b = *state;
    assert_hex(value_of(b, record_job_key(ID)), GOLDEN_JOB);
    assert_hex(value_of(b, record_state_key(ID)), GOLDEN_STATE);
    assert_hex(value_of(b, record_run_key(ID, 2)), GOLDEN_RUN);
    assert_hex(value_of(b, record_takes_key(7)), GOLDEN_TAKES);
    struct batch small = {0};
    struct job bare = bare_job();
    record_put_job(&small, &bare);
    assert_hex(value_of(&small, record_job_key(ID)), GOLDEN_BARE_JOB);
    struct run run = bare_run();
    record_put_run(&small, ID, &run);
    assert_hex(value_of(&small, record_run_key(ID, 0)), GOLDEN_BARE_RUN);
    batch_fini(&small);
    struct str payload = value_of(b, record_payload_key((struct id){ID.hi, ID.lo + 1}));
    assert_hex((struct str){payload.at, 4}, "01812020");
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(every_field_of_a_job_is_read_back),
        T(a_large_payload_lies_apart),
        T(a_payload_of_the_limit_lies_inside),
        T(every_field_of_a_state_is_read_back),
        T(every_field_of_a_run_is_read_back),
        T(every_take_is_read_back),
        T(every_truncation_is_corrupt),
        T(a_byte_too_many_is_corrupt),
        T(a_newer_format_is_refused_by_name),
        T(a_newer_version_is_told_apart_from_damage),
        T(numbers_outside_their_range_are_corrupt),
        T(a_number_longer_than_needed_is_corrupt),
        T(a_count_beyond_the_record_is_corrupt),
        T(older_versions_of_a_run_are_read_still),
        T(the_newest_versions_have_these_bytes),
    };
#undef T
    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
