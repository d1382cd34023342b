/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <stdio.h>
#include <string.h>

#include "store/records.h"

static const struct id ID = {0x0123456789abcdefu, 0xfedcba9876543210u};
static const struct id GROUP = {1, 2};

static struct cron_group full_group(void)
{
    return (struct cron_group){.id = ID,
                               .name = STR("nightly"),
                               .zone = STR("Asia/Tokyo"),
                               .pause = {true, {1700000000000}, {1700000000001}}};
}

static struct cron_entry full_entry(void)
{
    return (struct cron_entry){.id = ID,
                               .group = GROUP,
                               .position = 300,
                               .name = STR("a"),
                               .expression = STR("0 6 * * *"),
                               .zone = STR("Europe/Rome"),
                               .job = {.queue = STR("q"),
                                       .type = STR("t"),
                                       .payload = STR("{\"x\":1}"),
                                       .priority = 7,
                                       .ready_at = INSTANT_NONE,
                                       .retry_limit = 3,
                                       .backoff = {CURVE_POWER, {15000}, 4.0, {30000}},
                                       .completed_retention = {0},
                                       .dead_retention = {5},
                                       .unique_key = STR("u"),
                                       .unique_while = UNIQUE_ACTIVE,
                                       .batch = {STR("k"), STR("w"), STR("f"), false},
                                       .options = {.retry_policies = STR("p")}}};
}

static struct cron_entry bare_entry(void)
{
    return (struct cron_entry){.id = ID,
                               .group = GROUP,
                               .name = STR("a"),
                               .expression = STR("* * * * *"),
                               .job = {.queue = STR("q"),
                                       .type = STR("t"),
                                       .payload = STR("1"),
                                       .ready_at = INSTANT_NONE,
                                       .retry_limit = RETRY_LIMIT_DEFAULT,
                                       .completed_retention = RETENTION_DEFAULT,
                                       .dead_retention = RETENTION_DEFAULT}};
}

static struct cron_clock full_clock(void)
{
    return (struct cron_clock){{1700000000000}, {1700000000001}, {false, {5}, {6}}};
}

static struct cron_clock bare_clock(void)
{
    return (struct cron_clock){INSTANT_NONE, INSTANT_NONE, {true, INSTANT_NONE, INSTANT_NONE}};
}

static struct str value_of(const struct batch *b, struct record_key key)
{
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    assert_non_null(op);
    return op->value;
}

static void assert_same_pause(const struct cron_pause *a, const struct cron_pause *b)
{
    assert_int_equal(a->paused, b->paused);
    assert_int_equal(a->paused_at.ms, b->paused_at.ms);
    assert_int_equal(a->resumed_at.ms, b->resumed_at.ms);
}

static void a_group_is_read_back(void **state)
{
    struct batch *b = *state;
    struct cron_group in = full_group(), out;
    record_put_cron_group(b, &in);
    struct err e = record_read_cron_group(value_of(b, record_cron_group_key(ID)), ID, &out);
    assert_int_equal(e.code, ERR_OK);
    assert_true(id_eq(out.id, ID) && str_eq(out.name, in.name) && str_eq(out.zone, in.zone));
    assert_same_pause(&out.pause, &in.pause);
}

static void check_entry(struct batch *b, struct cron_entry in)
{
    struct cron_entry out;
    record_put_cron_entry(b, &in);
    struct err e = record_read_cron_entry(value_of(b, record_cron_entry_key(ID)), ID, &out);
    assert_int_equal(e.code, ERR_OK);
    assert_true(id_eq(out.id, ID) && id_eq(out.group, GROUP));
    assert_int_equal(out.position, in.position);
    assert_true(str_eq(out.name, in.name) && str_eq(out.expression, in.expression));
    assert_true(str_eq(out.zone, in.zone));
    const struct enqueue *x = &in.job, *y = &out.job;
    assert_true(str_eq(x->queue, y->queue) && str_eq(x->type, y->type));
    assert_true(str_eq(x->payload, y->payload));
    assert_int_equal(x->priority, y->priority);
    assert_int_equal(y->ready_at.ms, -1);
    assert_int_equal(x->retry_limit, y->retry_limit);
    assert_int_equal(x->backoff.shape, y->backoff.shape);
    assert_int_equal(x->backoff.base.ms, y->backoff.base.ms);
    assert_true(x->backoff.exponent == y->backoff.exponent);
    assert_int_equal(x->backoff.jitter.ms, y->backoff.jitter.ms);
    assert_int_equal(x->completed_retention.ms, y->completed_retention.ms);
    assert_int_equal(x->dead_retention.ms, y->dead_retention.ms);
    assert_int_equal(x->unique_while, y->unique_while);
    assert_true(str_eq(x->unique_key, y->unique_key));
    assert_true(str_eq(x->batch.key, y->batch.key) && str_eq(x->batch.when, y->batch.when));
    assert_true(str_eq(x->batch.fold, y->batch.fold));
    assert_int_equal(in.classic, out.classic);
}

static void every_field_of_an_entry_is_read_back(void **state)
{
    check_entry(*state, full_entry());
    check_entry(*state, bare_entry());
    struct cron_entry classic = full_entry();
    classic.classic = true;
    check_entry(*state, classic);
}

static void a_clock_is_read_back(void **state)
{
    struct batch *b = *state;
    struct cron_clock ins[] = {full_clock(), bare_clock()}, out;
    for (size_t i = 0; i < 2; i++) {
        record_put_cron_clock(b, ID, &ins[i]);
        struct err e = record_read_cron_clock(value_of(b, record_cron_clock_key(ID)), &out);
        assert_int_equal(e.code, ERR_OK);
        assert_int_equal(out.next_at.ms, ins[i].next_at.ms);
        assert_int_equal(out.last_at.ms, ins[i].last_at.ms);
        assert_same_pause(&out.pause, &ins[i].pause);
    }
}

static struct err read_group(struct str value)
{
    struct cron_group group;
    return record_read_cron_group(value, ID, &group);
}

static struct err read_entry(struct str value)
{
    struct cron_entry entry;
    return record_read_cron_entry(value, ID, &entry);
}

static struct err read_clock(struct str value)
{
    struct cron_clock clock;
    return record_read_cron_clock(value, &clock);
}

static void damage_is_corrupt_and_a_newer_version_is_told_apart(void **state)
{
    struct batch *b = *state;
    struct cron_group group = full_group();
    struct cron_entry entry = full_entry();
    struct cron_clock clock = full_clock();
    record_put_cron_group(b, &group);
    record_put_cron_entry(b, &entry);
    record_put_cron_clock(b, ID, &clock);
    const struct {
        struct str value;
        struct err (*read)(struct str value);
    } kinds[] = {{value_of(b, record_cron_group_key(ID)), read_group},
                 {value_of(b, record_cron_entry_key(ID)), read_entry},
                 {value_of(b, record_cron_clock_key(ID)), read_clock}};
    for (size_t i = 0; i < 3; i++) {
        struct str v = kinds[i].value;
        char longer[512];
        assert_true(v.len < sizeof longer);
        assert_int_equal(kinds[i].read(v).code, ERR_OK);
        for (size_t n = 0; n < v.len; n++)
            assert_int_equal(kinds[i].read((struct str){v.at, n}).code, ERR_CORRUPT);
        memcpy(longer, v.at, v.len);
        longer[v.len] = 0;
        assert_int_equal(kinds[i].read((struct str){longer, v.len + 1}).code, ERR_CORRUPT);
        longer[0] = 4;
        assert_int_equal(kinds[i].read((struct str){longer, v.len}).code, ERR_VERSION);
    }
}

static void keys_are_read_back_as_what_they_are(void **state)
{
    (void)state;
    struct record_key group = record_cron_group_key(ID), entry = record_cron_entry_key(ID),
                      clock = record_cron_clock_key(ID), job = record_job_key(ID);
    struct id id = {0};
    assert_true(record_key_is_cron_group(record_key_view(&group), &id) && id_eq(id, ID));
    id = (struct id){0};
    assert_true(record_key_is_cron_entry(record_key_view(&entry), &id) && id_eq(id, ID));
    id = (struct id){0};
    assert_true(record_key_is_cron_clock(record_key_view(&clock), &id) && id_eq(id, ID));
    assert_false(record_key_is_cron_group(record_key_view(&entry), &id));
    assert_false(record_key_is_cron_entry(record_key_view(&clock), &id));
    assert_false(record_key_is_cron_clock(record_key_view(&job), &id));
    group.len--;
    assert_false(record_key_is_cron_group(record_key_view(&group), &id));
    assert_int_equal(group.bytes[0], 'C');
    assert_int_equal(entry.bytes[0], 'E');
    assert_int_equal(clock.bytes[0], 'N');
}

#define ENTRY_BYTES                                                                                \
    "00000000000000010000000000000002"                                                             \
    "ac02"                                                                                         \
    "0161"                                                                                         \
    "09302036202a202a202a"                                                                         \
    "0b4575726f70652f526f6d65"                                                                     \
    "0171"                                                                                         \
    "0174"                                                                                         \
    "07"                                                                                           \
    "04"                                                                                           \
    "01b0ea010000000000001040e0d403"                                                               \
    "01"                                                                                           \
    "06"                                                                                           \
    "020175"                                                                                       \
    "077b2278223a317d"                                                                             \
    "01017000"

static void the_newest_versions_have_these_bytes(void **state)
{
    struct batch *b = *state;
    struct cron_group group = {
        .id = ID, .name = STR("g"), .zone = STR("z"), .pause = {true, {1}, INSTANT_NONE}};
    struct cron_entry entry = full_entry();
    struct cron_clock clock = {{300}, INSTANT_NONE, {false, INSTANT_NONE, {2}}};
    record_put_cron_group(b, &group);
    record_put_cron_entry(b, &entry);
    record_put_cron_clock(b, ID, &clock);
    assert_hex(value_of(b, record_cron_group_key(ID)), "020167"
                                                       "010200"
                                                       "017a");
    assert_hex(value_of(b, record_cron_clock_key(ID)), "01ad0200"
                                                       "000003");
    assert_hex(value_of(b, record_cron_entry_key(ID)), "03" ENTRY_BYTES "016b"
                                                       "0177"
                                                       "0166"
                                                       "00");
}

static void version_2_let_both_days_agree(void **state)
{
    (void)state;
    char bytes[200];
    struct cron_entry entry;
    struct err e = record_read_cron_entry(records_from_hex("02" ENTRY_BYTES "016b01770166", bytes),
                                          ID, &entry);
    assert_int_equal(e.code, ERR_OK);
    assert_true(entry.classic && str_eq(entry.job.batch.fold, STR("f")));
}

static void version_1_knew_neither_zones_of_groups_nor_batches(void **state)
{
    (void)state;
    char bytes[200];
    struct cron_group group;
    struct cron_entry entry;
    struct err e = record_read_cron_group(records_from_hex("010167010200", bytes), ID, &group);
    assert_int_equal(e.code, ERR_OK);
    assert_true(str_eq(group.name, STR("g")) && group.zone.len == 0 && group.pause.paused);
    e = record_read_cron_entry(records_from_hex("01" ENTRY_BYTES, bytes), ID, &entry);
    assert_int_equal(e.code, ERR_OK);
    assert_true(str_eq(entry.zone, STR("Europe/Rome")) && entry.job.batch.key.len == 0);
    assert_true(str_eq(entry.job.options.retry_policies, STR("p")));
    assert_true(entry.classic);
}

#define T(test) cmocka_unit_test_setup_teardown(test, records_set_up, records_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_group_is_read_back),
        T(every_field_of_an_entry_is_read_back),
        T(a_clock_is_read_back),
        T(damage_is_corrupt_and_a_newer_version_is_told_apart),
        T(keys_are_read_back_as_what_they_are),
        T(the_newest_versions_have_these_bytes),
        T(version_2_let_both_days_agree),
        T(version_1_knew_neither_zones_of_groups_nor_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
