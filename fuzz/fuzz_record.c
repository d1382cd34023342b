/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/array.h"
#include "base/must.h"
#include "store/reader.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the decoder. In a version, every value has only one encoding: what a
 * decoder accepts is encoded to the same bytes again. */

static const struct id ID = {1, 2};

static void check_error(const struct err *e)
{
    must(e->code == ERR_CORRUPT || e->code == ERR_VERSION);
    must(e->msg[0] != '\0');
}

/* Unless it is of an older version, which is only read. */
static void must_equal(const struct batch *b, struct record_key key, struct str value)
{
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    must(op && op->value.at && op->value.len && value.len);
    must(value.at[0] < op->value.at[0] || str_eq(op->value, value));
}

static void try_job(struct batch *b, struct str value)
{
    static char large[RECORD_APART_MIN + 1];
    struct job job;
    bool apart;
    struct err e = record_read_job(value, ID, &job, &apart);
    if (e.code != ERR_OK) {
        check_error(&e);
        return;
    }
    if (apart)
        job.payload = (struct str){large, sizeof large};
    /* Readers do not depend on the current limit. */
    else if (job.payload.len > RECORD_APART_MIN)
        return;
    must(record_put_job(b, &job) == apart);
    must_equal(b, record_job_key(ID), value);
}

static void try_payload(struct batch *b, struct str value)
{
    struct str payload;
    struct err e = record_read_payload(value, &payload);
    if (e.code != ERR_OK) {
        check_error(&e);
        return;
    }
    if (payload.len <= RECORD_APART_MIN)
        return;
    struct job job = {.id = ID, .payload = payload};
    must(record_put_job(b, &job));
    must_equal(b, record_payload_key(ID), value);
}

static void try_state(struct batch *b, struct str value)
{
    struct job_state state;
    struct err e = record_read_state(value, &state);
    if (e.code != ERR_OK) {
        check_error(&e);
        return;
    }
    record_put_state(b, ID, &state);
    must_equal(b, record_state_key(ID), value);
}

static void try_run(struct batch *b, struct str value)
{
    struct run run;
    struct arena memory = {0};
    struct err e = record_read_run(value, &memory, &run);
    if (e.code != ERR_OK) {
        check_error(&e);
    } else {
        record_put_run(b, ID, &run);
        must_equal(b, record_run_key(ID, run.index), value);
    }
    arena_fini(&memory);
}

struct takes {
    struct take list[1024];
    size_t count;
};

static void add_take(void *ctx, struct take t)
{
    struct takes *all = ctx;
    if (all->count < sizeof all->list / sizeof *all->list)
        all->list[all->count] = t;
    all->count++;
}

static void try_takes(struct batch *b, struct str value)
{
    static struct takes all;
    all.count = 0;
    instant at;
    struct err e = record_read_takes(value, &at, add_take, &all);
    if (e.code != ERR_OK) {
        check_error(&e);
        must(all.count == 0);
        return;
    }
    if (all.count > sizeof all.list / sizeof *all.list)
        return;
    record_put_takes(b, 3, at, all.list, all.count);
    must_equal(b, record_takes_key(3), value);
}

struct leases {
    struct lease list[1024];
    size_t count;
};

static void add_lease(void *ctx, const struct lease *l)
{
    struct leases *all = ctx;
    if (all->count < sizeof all->list / sizeof *all->list)
        all->list[all->count] = *l;
    all->count++;
}

/* The number of milliseconds that all times are given from is the record's second part. */
static void try_leases(struct batch *b, struct str value)
{
    static struct leases all;
    all.count = 0;
    struct err e = record_read_leases(value, add_lease, &all);
    if (e.code != ERR_OK) {
        check_error(&e);
        must(all.count == 0);
        return;
    }
    if (all.count > sizeof all.list / sizeof *all.list)
        return;
    struct reader r = {.value = value, .pos = 1};
    record_put_leases(b, 3, reader_instant(&r, "at"), all.list, all.count);
    must_equal(b, record_takes_key(3), value);
}

static void try_clock(struct batch *b, struct str value)
{
    struct record_clock clock;
    struct err e = record_read_clock(value, &clock);
    if (e.code != ERR_OK) {
        check_error(&e);
        return;
    }
    record_put_clock(b, &clock);
    must_equal(b, record_clock_key(), value);
}

static void try_history(struct batch *b, struct str value)
{
    struct history_entry entry;
    struct arena memory = {0};
    struct err e = record_read_history(value, &memory, &entry);
    if (e.code != ERR_OK) {
        check_error(&e);
    } else {
        record_put_history(b, 7, &entry);
        must_equal(b, record_history_key(7), value);
    }
    arena_fini(&memory);
}

static void try_apart(struct batch *b, struct str value)
{
    const struct id id = {1, 2};
    struct record_apart apart;
    struct err e = record_read_apart(value, &apart);
    if (e.code != ERR_OK) {
        check_error(&e);
        return;
    }
    record_put_apart(b, id, &apart);
    must_equal(b, record_apart_key(id), value);
}

static void try_kv(struct batch *b, struct str value)
{
    char room[RECORD_KV_KEY_MAX];
    struct kv_entry e;
    struct err err = record_read_kv(value, &e);
    if (err.code != ERR_OK) {
        check_error(&err);
        return;
    }
    e.space = STR("s");
    e.key = STR("k");
    record_put_kv(b, &e);
    const struct batch_op *op = batch_find(b, record_kv_key(e.space, e.key, room));
    must(op && op->value.at && str_eq(op->value, value));
}

static void try_kv_key(struct str key)
{
    char room[RECORD_KV_KEY_MAX];
    struct str space, name;
    instant expires;
    if (record_key_is_kv(key, &space, &name))
        must(str_eq(record_kv_key(space, name, room), key));
    if (record_key_is_kv_expiry(key, &expires, &space, &name))
        must(str_eq(record_kv_expiry_key(expires, space, name, room), key));
}

static void try_group(struct batch *b, struct str value)
{
    char room[RECORD_GROUP_KEY_MAX];
    struct group_record g;
    struct err err = record_read_group(value, STR("g"), &g);
    if (err.code != ERR_OK) {
        check_error(&err);
        return;
    }
    record_put_group(b, &g);
    const struct batch_op *op = batch_find(b, record_group_key(g.name, room));
    must(op && op->value.at && str_eq(op->value, value));
}

static void try_failure_group(struct batch *b, struct str value)
{
    struct failure_group g;
    if (record_read_failure_group(value, 7, &g).code != ERR_OK)
        return;
    record_put_failure_group(b, &g);
    must_equal(b, record_failure_group_key(7), value);
}

static void try_answer(struct str value)
{
    struct arena a = {0};
    struct record_answer answer;
    if (record_read_answer(value, &a, &answer).code == ERR_OK)
        must(str_eq(record_write_answer(&answer, &a), value));
    arena_fini(&a);
}

static void try_key(struct batch *b, struct str key)
{
    (void)b;
    struct id id;
    uint32_t run;
    uint64_t seq;
    struct record_key again = {.len = 0};
    try_kv_key(key);
    if (record_key_is_job(key, &id))
        again = record_job_key(id);
    else if (record_key_is_state(key, &id))
        again = record_state_key(id);
    else if (record_key_is_run(key, &id, &run))
        again = record_run_key(id, run);
    else if (record_key_is_takes(key, &seq))
        again = record_takes_key(seq);
    else if (record_key_is_apart(key, &id))
        again = record_apart_key(id);
    else if (record_key_is_history(key, &seq))
        again = record_history_key(seq);
    else if (record_key_is_failure_group(key, &seq))
        again = record_failure_group_key(seq);
    must(again.len == 0 || str_eq(record_key_view(&again), key));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct batch * b, struct str value) = {
        try_job, try_payload, try_state, try_run, try_takes, try_key,
    };
    if (size == 0)
        return 0;
    static struct batch b;
    batch_reset(&b);
    if (data[0] == 'c') {
        try_clock(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'l') {
        try_leases(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'x') {
        try_apart(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'k') {
        try_kv(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'g') {
        try_group(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'y') {
        try_failure_group(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'i') {
        try_answer((struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    if (data[0] == 'h') {
        try_history(&b, (struct str){(const char *)data + 1, size - 1});
        return 0;
    }
    tries[data[0] % COUNT(tries)](&b, (struct str){(const char *)data + 1, size - 1});
    return 0;
}
