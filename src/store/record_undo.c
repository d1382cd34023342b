/* SPDX-License-Identifier: Apache-2.0 */

/* Records of changes of many jobs that can be undone.
 *
 *   'U' number      OPERATION  byte version, byte kind, byte state, opt began, opt ended, varint
 *                              looked, varint count, text by, byte state of the undo, opt until,
 *                              varint entries, varint next, varint bytes, varint count of outcomes,
 *                              then for each a varint; version 2: text reach
 *   'Z' number seq  UNDO       byte version, byte kind, byte 1 if the job is gone, id as 16 bytes
 *                              big-endian, opt time of the change, varint runs, opt purge_at,
 * varint fields of a patch, text JOB as it was, text payload if that is apart, text JOB as it
 *                              became or empty, text name of its group, text owner of the group,
 *                              opt time when it was sealed, opt until when it is retained, text
 *                              the records beside the first one, as store/batch_bytes.h has them */

#include "store/record_undo.h"

#include <string.h>

#include "base/must.h"
#include "store/batch_bytes.h"
#include "store/record_parts.h"

_Static_assert(OPERATION_DELETE == 0 && OPERATION_PATCH == 1 && OPERATION_CANCEL == 2 &&
                   OPERATION_RETRY == 3 && OPERATION_UNDO == 4 && OPERATION_RUNS == 0 &&
                   OPERATION_DONE == 1 && OPERATION_STOPPED == 2 && OPERATION_FAILED == 3,
               "stored operations keep their numbers");
_Static_assert(UNDO_NEVER == 0 && UNDO_KEPT == 1 && UNDO_RUNS == 2 && UNDO_ENDED == 3 &&
                   UNDO_EXPIRED == 4,
               "stored states of undoing keep their numbers");
_Static_assert(UNDO_DONE == 0 && UNDO_DELETED == 1 && UNDO_IN_FLIGHT == 2 && UNDO_FINISHED == 3 &&
                   UNDO_CHANGED == 4 && UNDO_RETIRED == 5 && UNDO_UNIQUE_KEY == 6 &&
                   UNDO_ALIAS == 7 && UNDO_GROUP == 8 && UNDO_GANG == 9 && UNDO_BUDGET == 10 &&
                   UNDO_LOST == 11 && UNDO_OUTCOMES == 12,
               "stored outcomes of undoing keep their numbers");

/* --- keys --- */

static void put_number(struct record_key *k, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        k->bytes[k->len++] = (char)(v >> (56 - 8 * i));
}

static uint64_t get_number(const char *at)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

struct record_key record_operation_key(uint64_t number)
{
    struct record_key k = {.bytes = {'U'}, .len = 1};
    put_number(&k, number);
    return k;
}

struct record_key record_undo_key(uint64_t operation, uint64_t seq)
{
    struct record_key k = {.bytes = {'Z'}, .len = 1};
    put_number(&k, operation);
    put_number(&k, seq);
    return k;
}

bool record_key_is_operation(struct str key, uint64_t *number)
{
    if (key.len != 9 || key.at[0] != 'U')
        return false;
    *number = get_number(key.at + 1);
    return true;
}

bool record_key_is_undo(struct str key, uint64_t *operation, uint64_t *seq)
{
    if (key.len != 17 || key.at[0] != 'Z')
        return false;
    *operation = get_number(key.at + 1);
    *seq = get_number(key.at + 9);
    return true;
}

/* --- operations --- */

/* The second version has the queues to which the sender was limited. */
enum { OPERATION_VERSION = 2 };

static void write_operation(struct writer *w, const struct bulk_operation *op)
{
    const struct operation_undo *u = &op->undo;
    writer_byte(w, op->reach.len ? OPERATION_VERSION : RECORD_VERSION);
    writer_byte(w, op->kind);
    writer_byte(w, op->state);
    writer_opt(w, op->began.ms);
    writer_opt(w, op->ended.ms);
    writer_varint(w, op->looked);
    writer_varint(w, op->count);
    writer_text(w, op->by);
    writer_byte(w, u->state);
    writer_opt(w, u->until.ms);
    writer_varint(w, u->entries);
    writer_varint(w, u->next);
    writer_varint(w, u->bytes);
    writer_varint(w, UNDO_OUTCOMES);
    for (int i = 0; i < UNDO_OUTCOMES; i++)
        writer_varint(w, u->outcomes[i]);
    if (op->reach.len)
        writer_text(w, op->reach);
}

void record_put_operation(struct batch *b, const struct bulk_operation *op)
{
    RECORD_PUT(b, record_operation_key(op->number), write_operation(w, op));
}

static void read_outcomes(struct reader *r, struct operation_undo *u)
{
    uint64_t count = reader_varint(r, "number of outcomes", UNDO_OUTCOMES);
    for (uint64_t i = 0; i < count; i++)
        u->outcomes[i] = reader_varint(r, "outcomes", UINT64_MAX);
}

struct err record_read_operation(struct str value, uint64_t number, struct bulk_operation *op)
{
    struct reader r = record_begin(value);
    struct operation_undo *u = &op->undo;
    unsigned version;
    TRY(record_read_version(&r, "operation", OPERATION_VERSION, &version));
    *op = (struct bulk_operation){.number = number};
    op->kind = (enum operation_kind)reader_byte(&r, "kind", OPERATION_KINDS - 1);
    op->state = (enum operation_state)reader_byte(&r, "state", OPERATION_FAILED);
    op->began = reader_instant(&r, "beginning");
    op->ended = reader_instant(&r, "end");
    op->looked = reader_varint(&r, "jobs looked at", UINT64_MAX);
    op->count = reader_varint(&r, "jobs changed", UINT64_MAX);
    op->by = reader_text(&r, "sender");
    u->state = (enum undo_state)reader_byte(&r, "state of the undo", UNDO_STATES - 1);
    u->until = reader_instant(&r, "end of the window");
    u->entries = reader_varint(&r, "entries", UINT64_MAX);
    u->next = reader_varint(&r, "next entry", UINT64_MAX);
    u->bytes = reader_varint(&r, "bytes", UINT64_MAX);
    read_outcomes(&r, u);
    if (version > RECORD_VERSION)
        op->reach = reader_text(&r, "queues of the sender");
    return record_finish(&r, "operation");
}

/* --- entries --- */

/* A job as a text of its own: counted, and then written. */
static void write_job_text(struct writer *w, const struct job *job)
{
    struct writer count = {0};
    record_write_job(&count, job);
    writer_varint(w, count.len);
    record_write_job(w, job);
}

static void write_undo(struct writer *w, const struct undo_entry *e, struct str beside)
{
    writer_byte(w, RECORD_VERSION);
    writer_byte(w, e->kind);
    writer_byte(w, e->gone);
    writer_id(w, e->was.id);
    writer_opt(w, e->at.ms);
    writer_varint(w, e->runs);
    writer_opt(w, e->purge_at.ms);
    writer_varint(w, e->set);
    write_job_text(w, &e->was);
    writer_text(w, e->was.payload.len > RECORD_APART_MIN ? e->was.payload : (struct str){0});
    if (e->kind == OPERATION_PATCH)
        write_job_text(w, &e->became);
    else
        writer_varint(w, 0);
    writer_text(w, e->group.name);
    writer_text(w, e->group.owner);
    writer_opt(w, e->group.name.len ? e->group.sealed_at.ms : -1);
    writer_opt(w, e->group.name.len ? e->group.retain_until.ms : -1);
    writer_text(w, beside);
}

static struct undo_entry without_payloads(const struct undo_entry *entry)
{
    struct undo_entry e = *entry;
    if (!e.gone || !e.was.payload.at)
        e.was.payload = STR("");
    e.became.payload = STR("");
    return e;
}

size_t record_put_undo(struct batch *b, uint64_t operation, uint64_t seq,
                       const struct undo_entry *entry, const struct batch *beside)
{
    struct buf bytes = {0};
    struct undo_entry e = without_payloads(entry);
    if (beside)
        batch_bytes_write(beside, &bytes);
    struct str more = beside ? buf_view(&bytes) : (struct str){0};
    struct record_key key = record_undo_key(operation, seq);
    struct writer count = {0};
    write_undo(&count, &e, more);
    struct writer fill =
        writer_into(batch_put_room(b, record_key_view(&key), count.len), count.len);
    write_undo(&fill, &e, more);
    must(fill.len == count.len);
    buf_fini(&bytes);
    return key.len + count.len;
}

static struct err put_beside(void *ctx, const struct batch_op *op)
{
    if (ctx && op->value.at)
        batch_put(ctx, op->key, op->value);
    return err_none();
}

/* The payload of a job whose record has it apart. */
static struct err read_was(struct str text, struct str apart, struct id id, struct job *was)
{
    bool is_apart;
    TRY(record_read_job(text, id, was, &is_apart));
    if (is_apart)
        was->payload = apart;
    return err_none();
}

struct err record_read_undo(struct str value, struct undo_entry *e, struct batch *beside)
{
    struct reader r = record_begin(value);
    bool is_apart;

    TRY(record_check_version(&r, "undo"));
    *e = (struct undo_entry){0};
    e->kind = (enum operation_kind)reader_byte(&r, "kind", OPERATION_RETRY);
    e->gone = reader_byte(&r, "whether the job is gone", 1);
    struct id id = reader_id(&r);
    e->at = reader_instant(&r, "time of the change");
    e->runs = (uint32_t)reader_varint(&r, "runs", UINT32_MAX);
    e->purge_at = reader_instant(&r, "end of the retention");
    e->set = (unsigned)reader_varint(&r, "fields", UINT32_MAX);
    struct str was = reader_text(&r, "job"), payload = reader_text(&r, "payload");
    struct str became = reader_text(&r, "job afterwards");
    e->group.name = reader_text(&r, "group");
    e->group.owner = reader_text(&r, "owner");
    e->group.sealed_at = reader_instant(&r, "time of sealing");
    e->group.retain_until = reader_instant(&r, "retention of the group");
    struct str more = reader_text(&r, "records");
    TRY(record_finish(&r, "undo"));
    TRY(read_was(was, payload, id, &e->was));
    if (became.len)
        TRY(record_read_job(became, id, &e->became, &is_apart));
    e->became.id = id;
    return more.len ? batch_bytes_read(more, put_beside, beside) : err_none();
}
