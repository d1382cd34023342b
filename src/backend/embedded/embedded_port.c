/* SPDX-License-Identifier: Apache-2.0 */

/* The port through which the engine reads and writes, and the engine that is made with it. */

#include "backend/embedded/embedded_internal.h"
#include "backend/embedded/embedded_undo.h"
#include "base/must.h"
#include "store/record.h"

/* --- reading: what is being built, what is being committed, what is durable --- */

static struct str own(struct embedded *b, struct arena *a, struct str value)
{
    return b->copy_reads ? arena_copy(a, value) : value;
}

struct err embedded_read_at(struct embedded *b, struct str k, struct arena *a, bool *found,
                            struct str *value)
{
    const struct batch_op *op = batch_find(&b->building->batch, k);
    bool is_building = op != NULL;
    if (!op && b->committing)
        op = batch_find(&b->committing->batch, k);
    if (op) {
        *found = op->value.at != NULL;
        b->bytes_read += op->value.len;
        if (*found)
            /* The batch being built lives as long as the replies of this turn; the
             * one before it does not. */
            *value = is_building ? own(b, a, op->value) : arena_copy(a, op->value);
        return err_none();
    }
    TRY(store_get(b->env.store, k, found, &b->scratch));
    b->bytes_read += *found ? b->scratch.len : 0;
    if (*found)
        *value = arena_copy(a, buf_view(&b->scratch));
    return err_none();
}

struct err embedded_read_key(struct embedded *b, struct record_key key, struct arena *a,
                             bool *found, struct str *value)
{
    return embedded_read_at(b, record_key_view(&key), a, found, value);
}

/* --- reading ahead ---
 *
 * Jobs are mostly handed out in the order of their ids. Once a few were asked for in a
 * row, a cursor walks along: its next step costs a fraction of a search. What it finds
 * may be old, which is right for a job's first record: once it was replaced the cursor is
 * closed, and nobody asks for a job that was deleted. */

#define AHEAD_AFTER 16 /* reads in a row before a cursor pays */
#define AHEAD_STEPS 4  /* jobs of other queues in between that are passed over */

void embedded_ahead_close(struct embedded *b)
{
    struct ahead *a = &b->ahead;
    if (a->cursor) {
        /* What could not be read is not found by it, and then searched for. */
        struct err ignored = store_cursor_free(a->cursor, b->env.store);
        (void)ignored;
    }
    a->cursor = NULL;
    a->in_a_row = 0;
}

static void ahead_open(struct embedded *b, struct str key)
{
    b->ahead.cursor = store_cursor_new(b->env.store);
    b->ahead.opened = b->now;
    store_cursor_seek(b->ahead.cursor, b->env.store, key, false);
}

/* True if the cursor stands at key after a few steps. */
static bool ahead_find(struct embedded *b, struct str key, struct str *value)
{
    struct ahead *a = &b->ahead;
    for (int i = 0; a->cursor && i < AHEAD_STEPS; i++) {
        struct str at;
        if (!store_cursor_at(a->cursor, b->env.store, &at, value))
            break;
        int order = at.len == key.len ? memcmp(at.at, key.at, key.len) : 1;
        if (order == 0)
            return true;
        if (order > 0)
            return false;
        store_cursor_step(a->cursor, b->env.store, false);
    }
    return false;
}

static bool read_ahead(struct embedded *b, struct id id, struct str key, struct str *value)
{
    struct ahead *a = &b->ahead;
    a->in_a_row = id_cmp(id, a->last) > 0 ? a->in_a_row + 1 : 0;
    a->last = id;
    if (ahead_find(b, key, value))
        return true;
    if (a->cursor)
        embedded_ahead_close(b);
    if (a->in_a_row < AHEAD_AFTER)
        return false;
    ahead_open(b, key);
    return ahead_find(b, key, value);
}

/* The first record of a job. */
static struct err read_job_record(struct embedded *b, struct id id, struct arena *a, bool *found,
                                  struct str *value)
{
    struct record_key key = record_job_key(id);
    struct str k = record_key_view(&key);
    bool pending = batch_find(&b->building->batch, k) ||
                   (b->committing && batch_find(&b->committing->batch, k));
    if (!pending && read_ahead(b, id, k, value)) {
        *found = true;
        *value = arena_copy(a, *value);
        store_cursor_step(b->ahead.cursor, b->env.store, false);
        return err_none();
    }
    return embedded_read_key(b, key, a, found, value);
}

static struct err missing(struct id id, const char *what)
{
    char text[ID_TEXT_LEN];
    id_format(id, text);
    return err_make(ERR_CORRUPT, "job %.25s: its %s is missing from the store", text, what);
}

/* What of a job is missing or does not decode sets it apart. */
static struct err judge(struct embedded *b, struct id id, enum apart_part part, struct err err)
{
    if (err.code == ERR_CORRUPT)
        embedded_set_apart(b, id, part);
    return err;
}

static struct err load_payload(struct embedded *b, struct id id, struct arena *a, struct job *job)
{
    bool found;
    struct str value;
    TRY(embedded_read_key(b, record_payload_key(id), a, &found, &value));
    struct err err = found ? record_read_payload(value, &job->payload) : missing(id, "payload");
    return judge(b, id, APART_PAYLOAD, err);
}

static struct err load_job(void *ctx, struct id id, unsigned want, struct arena *a, struct job *job,
                           struct job_extent *extent)
{
    struct embedded *b = ctx;
    bool found;
    struct str value;
    if (want == PORT_STATE && embedded_intake_kept(b, id, a, job, extent))
        return err_none();
    *extent = (struct job_extent){0};
    TRY(want & PORT_STATE ? embedded_read_key(b, record_job_key(id), a, &found, &value)
                          : read_job_record(b, id, a, &found, &value));
    if (!found || embedded_is_apart(b, id))
        return err_make(ERR_NOT_FOUND, "there is no such job");
    TRY(judge(b, id, APART_JOB, record_read_job(value, id, job, &extent->payload_apart)));
    if ((want & PORT_PAYLOAD) && extent->payload_apart)
        TRY(load_payload(b, id, a, job));
    if (want & PORT_STATE) {
        TRY(embedded_read_key(b, record_state_key(id), a, &extent->has_state, &value));
        if (extent->has_state)
            TRY(judge(b, id, APART_STATE, record_read_state(value, &job->state)));
    }
    extent->runs_ended = job->state.runs;
    extent->notes = job->state.extras.notes;
    if (want == PORT_STATE)
        embedded_intake_keep(b, job, extent);
    return err_none();
}

static struct err load_note(void *ctx, struct id id, enum note_kind kind, struct arena *a,
                            struct note *note)
{
    bool found;
    struct str value;
    TRY(embedded_read_key(ctx, record_note_key(id, kind), a, &found, &value));
    return judge(ctx, id, APART_NOTE, found ? record_read_note(value, note) : missing(id, "note"));
}

struct err embedded_load_run(struct embedded *b, struct id id, uint32_t index, struct arena *a,
                             struct run *run)
{
    bool found;
    struct str value;
    TRY(embedded_read_key(b, record_run_key(id, index), a, &found, &value));
    if (!found)
        return missing(id, "run");
    return record_read_run(value, a, run);
}

/* --- writing into the batch being built --- */

static void delete_key(struct embedded *b, struct record_key key)
{
    batch_delete(&b->building->batch, record_key_view(&key));
}

static bool put_job(void *ctx, const struct job *job)
{
    struct embedded *b = ctx;
    b->building->adds = true;
    return record_put_job(&b->building->batch, job);
}

/* A cursor that reads ahead may hold what is replaced here, however late it was opened:
 * until this is durable the batches are looked into first, and then the cursor is closed. */
static void rewrite_job(void *ctx, const struct job *job)
{
    struct embedded *b = ctx;
    embedded_intake_changed(b, job->id);
    b->building->rewrote = b->building->adds = true;
    if (!record_put_job(&b->building->batch, job))
        delete_key(b, record_payload_key(job->id)); /* it may have been large before */
}

static void put_state(void *ctx, struct id id, const struct job_state *state)
{
    struct embedded *b = ctx;
    embedded_intake_changed(b, id);
    record_put_state(&b->building->batch, id, state);
}

static void put_new(struct embedded *b, struct record_key key)
{
    batch_put_new(&b->building->batch, record_key_view(&key));
}

static void put_first_state(void *ctx, struct id id, const struct job_state *state)
{
    put_new(ctx, record_state_key(id));
    put_state(ctx, id, state);
}

/* A run is recorded once, when it has ended. */
static void put_run(void *ctx, struct id id, const struct run *run)
{
    struct embedded *b = ctx;
    put_new(b, record_run_key(id, run->index));
    record_put_run(&b->building->batch, id, run);
}

static void put_note(void *ctx, struct id id, enum note_kind kind, const struct note *note)
{
    struct embedded *b = ctx;
    record_put_note(&b->building->batch, id, kind, note);
}

static void delete_note(void *ctx, struct id id, enum note_kind kind)
{
    delete_key(ctx, record_note_key(id, kind));
}

static void put_takes(void *ctx, uint64_t seq, instant at, const struct take *takes, size_t count)
{
    struct embedded *b = ctx;
    record_put_takes(&b->building->batch, seq, at, takes, count);
}

static void put_leases(void *ctx, uint64_t seq, instant at, const struct lease *leases,
                       size_t count)
{
    struct embedded *b = ctx;
    record_put_leases(&b->building->batch, seq, at, leases, count);
}

static void delete_takes(void *ctx, uint64_t seq)
{
    delete_key(ctx, record_takes_key(seq));
}

static void put_ended(void *ctx, uint64_t seq, struct id id, enum depend_end end)
{
    struct embedded *b = ctx;
    record_put_ended(&b->building->batch, seq, id, end);
}

static void delete_ended(void *ctx, uint64_t seq)
{
    delete_key(ctx, record_ended_key(seq));
}

static void delete_job(void *ctx, struct id id, const struct job_extent *extent)
{
    struct embedded *b = ctx;
    embedded_intake_changed(b, id);
    delete_key(b, record_job_key(id));
    if (extent->payload_apart)
        delete_key(b, record_payload_key(id));
    if (extent->has_state)
        delete_key(b, record_state_key(id));
    for (uint32_t run = 0; run < extent->runs_ended; run++)
        delete_key(b, record_run_key(id, run));
    for (int kind = 0; extent->notes >> kind; kind++)
        if (extent->notes & NOTE_BIT(kind))
            delete_key(b, record_note_key(id, (enum note_kind)kind));
}

static bool is_damaged(void *ctx, struct id id)
{
    return embedded_is_apart(ctx, id);
}

struct port embedded_port(struct embedded *b)
{
    struct port port = {
        .ctx = b,
        .meter = b->meter,
        .load_job = load_job,
        .is_damaged = is_damaged,
        .keeps_deleted = embedded_undo_keeps_deleted,
        .put_job = put_job,
        .rewrite_job = rewrite_job,
        .put_state = put_state,
        .put_first_state = put_first_state,
        .put_run = put_run,
        .put_note = put_note,
        .delete_note = delete_note,
        .load_note = load_note,
        .put_takes = put_takes,
        .put_leases = put_leases,
        .delete_takes = delete_takes,
        .put_ended = put_ended,
        .delete_ended = delete_ended,
        .delete_job = delete_job,
    };
    embedded_cron_port(&port);
    embedded_policy_port(&port);
    embedded_queue_port(&port);
    embedded_group_port(&port);
    embedded_budget_port(&port);
    embedded_events_port(&port);
    embedded_history_port(&port);
    return port;
}

struct engine *embedded_engine_new(struct embedded *b)
{
    struct engine_sink sink = embedded_sink(b);
    struct port port = embedded_port(b);
    struct engine *e =
        engine_new(&b->settings.engine, &port, &sink, rng_from_seed(rng_next(&b->env.rng)));
    embedded_clock_lead(b, e);
    return e;
}
