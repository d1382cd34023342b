/* SPDX-License-Identifier: Apache-2.0 */

/* Between engine and store: the port through which the engine reads and writes,
 * and recovery, which reads everything once. */

#include "backend/embedded_internal.h"
#include "base/must.h"
#include "store/record.h"

#define FORMAT_KEY     STR("format")
#define FORMAT_VERSION "1"

/* --- reading: what is being built, what is being committed, what is durable --- */

static struct str own(struct embedded *b, struct arena *a, struct str value)
{
    return b->copy_reads ? arena_copy(a, value) : value;
}

static struct err read_key(struct embedded *b, struct record_key key, struct arena *a, bool *found,
                           struct str *value)
{
    struct str k = record_key_view(&key);
    const struct batch_op *op = batch_find(&b->building->batch, k);
    bool is_building = op != NULL;
    if (!op && b->committing)
        op = batch_find(&b->committing->batch, k);
    if (op) {
        *found = op->value.at != NULL;
        if (*found)
            /* The batch being built lives as long as the replies of this turn; the
             * one before it does not. */
            *value = is_building ? own(b, a, op->value) : arena_copy(a, op->value);
        return err_none();
    }
    TRY(store_get(b->env.store, k, found, &b->scratch));
    if (*found)
        *value = arena_copy(a, buf_view(&b->scratch));
    return err_none();
}

static struct err missing(struct id id, const char *what)
{
    char text[ID_TEXT_LEN];
    id_format(id, text);
    return err_make(ERR_CORRUPT, "job %.25s: its %s is missing from the store", text, what);
}

static struct err load_payload(struct embedded *b, struct id id, struct arena *a, struct job *job)
{
    bool found;
    struct str value;
    TRY(read_key(b, record_payload_key(id), a, &found, &value));
    if (!found)
        return missing(id, "payload");
    return record_read_payload(value, &job->payload);
}

static struct err load_job(void *ctx, struct id id, unsigned want, struct arena *a, struct job *job,
                           struct job_extent *extent)
{
    struct embedded *b = ctx;
    bool found;
    struct str value;
    *extent = (struct job_extent){0};
    TRY(read_key(b, record_job_key(id), a, &found, &value));
    if (!found)
        return err_make(ERR_NOT_FOUND, "there is no such job");
    TRY(record_read_job(value, id, job, &extent->payload_apart));
    if ((want & PORT_PAYLOAD) && extent->payload_apart)
        TRY(load_payload(b, id, a, job));
    if (want & PORT_STATE) {
        TRY(read_key(b, record_state_key(id), a, &extent->has_state, &value));
        if (extent->has_state)
            TRY(record_read_state(value, &job->state));
    }
    extent->runs_ended = job->state.runs;
    return err_none();
}

struct err embedded_load_run(struct embedded *b, struct id id, uint32_t index, struct arena *a,
                             struct run *run)
{
    bool found;
    struct str value;
    TRY(read_key(b, record_run_key(id, index), a, &found, &value));
    if (!found)
        return missing(id, "run");
    return record_read_run(value, run);
}

/* --- writing into the batch being built --- */

static bool put_job(void *ctx, const struct job *job)
{
    struct embedded *b = ctx;
    return record_put_job(&b->building->batch, job);
}

static void put_state(void *ctx, struct id id, const struct job_state *state)
{
    struct embedded *b = ctx;
    record_put_state(&b->building->batch, id, state);
}

static void put_run(void *ctx, struct id id, const struct run *run)
{
    struct embedded *b = ctx;
    record_put_run(&b->building->batch, id, run);
}

static void put_takes(void *ctx, uint64_t seq, instant at, const struct take *takes, size_t count)
{
    struct embedded *b = ctx;
    record_put_takes(&b->building->batch, seq, at, takes, count);
}

static void delete_key(struct embedded *b, struct record_key key)
{
    batch_delete(&b->building->batch, record_key_view(&key));
}

static void delete_takes(void *ctx, uint64_t seq)
{
    delete_key(ctx, record_takes_key(seq));
}

static void delete_job(void *ctx, struct id id, const struct job_extent *extent)
{
    struct embedded *b = ctx;
    delete_key(b, record_job_key(id));
    if (extent->payload_apart)
        delete_key(b, record_payload_key(id));
    if (extent->has_state)
        delete_key(b, record_state_key(id));
    for (uint32_t run = 0; run < extent->runs_ended; run++)
        delete_key(b, record_run_key(id, run));
}

struct port embedded_port(struct embedded *b)
{
    return (struct port){
        .ctx = b,
        .load_job = load_job,
        .put_job = put_job,
        .put_state = put_state,
        .put_run = put_run,
        .put_takes = put_takes,
        .delete_takes = delete_takes,
        .delete_job = delete_job,
    };
}

/* --- recovery --- */

static struct err check_format(struct embedded *b)
{
    bool found;
    struct record_key key = record_meta_key(FORMAT_KEY);
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    if (!found) {
        if (b->health == HEALTH_GOOD)
            batch_put(&b->building->batch, record_key_view(&key), STR(FORMAT_VERSION));
        return err_none();
    }
    if (!str_eq(buf_view(&b->scratch), STR(FORMAT_VERSION)))
        return err_make(ERR_VERSION,
                        "the root directory has format %.*s; this binary knows format %s",
                        STR_ARG(buf_view(&b->scratch)), FORMAT_VERSION);
    return err_none();
}

/* Moves the cursor over states to the first id >= id; true if it is that id. */
static bool find_state(struct store *s, struct store_cursor *states, struct id id,
                       struct str *value)
{
    struct str key;
    struct id at;
    while (store_cursor_at(states, s, &key, value) && record_key_is_state(key, &at)) {
        int order = id_cmp(at, id);
        if (order >= 0)
            return order == 0;
        store_cursor_step(states, s, false);
    }
    return false;
}

static struct err restore_jobs(struct embedded *b, struct store_cursor *jobs,
                               struct store_cursor *states)
{
    struct store *s = b->env.store;
    struct record_key first = record_job_key((struct id){0});
    store_cursor_seek(jobs, s, record_key_view(&first), false);
    first = record_state_key((struct id){0});
    store_cursor_seek(states, s, record_key_view(&first), false);
    struct str key, value;
    struct id id;
    for (; store_cursor_at(jobs, s, &key, &value) && record_key_is_job(key, &id);
         store_cursor_step(jobs, s, false)) {
        struct job job;
        struct job_extent extent = {0};
        TRY(record_read_job(value, id, &job, &extent.payload_apart));
        extent.has_state = find_state(s, states, id, &value);
        if (extent.has_state)
            TRY(record_read_state(value, &job.state));
        extent.runs_ended = job.state.runs;
        engine_restore_job(b->engine, &job, &extent, b->now);
    }
    return err_none();
}

struct restoring {
    struct engine *engine;
    uint64_t seq;
    instant at;
};

static void restore_take(void *ctx, struct take take)
{
    struct restoring *r = ctx;
    engine_restore_take(r->engine, r->seq, r->at, take);
}

static struct err restore_takes(struct embedded *b, struct store_cursor *c)
{
    struct store *s = b->env.store;
    struct record_key first = record_takes_key(0);
    store_cursor_seek(c, s, record_key_view(&first), false);
    struct str key, value;
    struct restoring r = {.engine = b->engine};
    for (; store_cursor_at(c, s, &key, &value) && record_key_is_takes(key, &r.seq);
         store_cursor_step(c, s, false))
        TRY(record_read_takes(value, &r.at, restore_take, &r));
    return err_none();
}

static struct err read_all(struct embedded *b)
{
    struct store *s = b->env.store;
    struct store_cursor *jobs = store_cursor_new(s), *states = store_cursor_new(s);
    struct err err = restore_jobs(b, jobs, states);
    if (err.code == ERR_OK)
        err = restore_takes(b, jobs);
    struct err read = store_cursor_free(jobs, s);
    if (err.code == ERR_OK)
        err = read;
    read = store_cursor_free(states, s);
    return err.code == ERR_OK ? read : err;
}

struct err embedded_recover(struct embedded *b)
{
    must(b->engine == NULL && b->building->batch.count == 0);
    b->engine = embedded_engine_new(b);
    TRY(check_format(b));
    TRY(read_all(b));
    /* A store that cannot be written keeps its cut-off runs until it can be. */
    if (b->health != HEALTH_GOOD)
        return err_none();
    return engine_restored(b->engine, b->now);
}
