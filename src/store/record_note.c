/* SPDX-License-Identifier: Apache-2.0 */

/* Records around a job: what its workers left, to whom it was handed, and who has yet to be
 * notified of its end. Their bytes are described in record.c. */

#include "store/record.h"

#include "store/record_parts.h"

static void write_note(struct writer *w, const struct note *n)
{
    writer_byte(w, RECORD_VERSION);
    writer_varint(w, n->run);
    writer_opt(w, n->at.ms);
    writer_double(w, n->value);
    writer_text(w, n->text);
}

static void write_takes(struct writer *w, instant at, const struct take *takes, size_t count)
{
    writer_byte(w, RECORD_VERSION);
    writer_opt(w, at.ms);
    writer_varint(w, count);
    for (size_t i = 0; i < count; i++) {
        writer_id(w, takes[i].id);
        writer_varint(w, takes[i].run);
    }
}

/* 4 says nothing of limits, 3 nothing of keys; 2 nothing of confirmed either, and of the length
 * what the end says. */
#define LEASES_VERSION 5

/* Of a lease: its names differ from those before; it is confirmed; its length is not from the time
 * of the record to its end; its claim can be repeated; its run may take only so long. */
#define LEASE_NAMES     1u
#define LEASE_CONFIRMED 2u
#define LEASE_LENGTH    4u
#define LEASE_KEY       8u
#define LEASE_LIMIT     16u

static bool has_names_of(const struct lease *l, const struct lease *before)
{
    return str_eq(l->worker, before->worker) && str_eq(l->node, before->node);
}

static void write_lease(struct writer *w, instant at, const struct lease *l,
                        const struct lease *before)
{
    bool same = has_names_of(l, before);
    bool whole = l->length.ms == l->end.ms - at.ms;
    writer_id(w, l->id);
    writer_varint(w, l->run);
    writer_varint(w, l->token);
    writer_zigzag(w, at.ms - l->taken_at.ms);
    writer_zigzag(w, l->end.ms - at.ms);
    writer_byte(w, (same ? 0 : LEASE_NAMES) | (l->confirmed ? LEASE_CONFIRMED : 0) |
                       (whole ? 0 : LEASE_LENGTH) | (l->key ? LEASE_KEY : 0) |
                       (l->max_run.ms ? LEASE_LIMIT : 0));
    if (!whole)
        writer_zigzag(w, l->length.ms);
    if (l->key)
        writer_varint(w, l->key);
    if (l->max_run.ms) {
        writer_varint(w, (uint64_t)l->max_run.ms);
        writer_zigzag(w, l->limit.ms - at.ms);
        writer_byte(w, l->limited_by);
    }
    if (same)
        return;
    writer_text(w, l->worker);
    writer_text(w, l->node);
}

static void write_leases(struct writer *w, instant at, const struct lease *leases, size_t count)
{
    const struct lease none = {0};
    writer_byte(w, LEASES_VERSION);
    writer_opt(w, at.ms);
    writer_varint(w, count);
    for (size_t i = 0; i < count; i++)
        write_lease(w, at, &leases[i], i ? &leases[i - 1] : &none);
}

static void write_ended(struct writer *w, struct id id, enum depend_end end)
{
    writer_byte(w, RECORD_VERSION);
    writer_id(w, id);
    writer_byte(w, end);
}

void record_put_note(struct batch *b, struct id id, enum note_kind kind, const struct note *note)
{
    RECORD_PUT(b, record_note_key(id, kind), write_note(w, note));
}

void record_put_takes(struct batch *b, uint64_t seq, instant at, const struct take *takes,
                      size_t count)
{
    RECORD_PUT(b, record_takes_key(seq), write_takes(w, at, takes, count));
}

void record_put_leases(struct batch *b, uint64_t seq, instant at, const struct lease *leases,
                       size_t count)
{
    RECORD_PUT(b, record_takes_key(seq), write_leases(w, at, leases, count));
}

void record_put_ended(struct batch *b, uint64_t seq, struct id id, enum depend_end end)
{
    RECORD_PUT(b, record_ended_key(seq), write_ended(w, id, end));
}

struct err record_read_note(struct str value, struct note *note)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "note"));
    note->run = (uint32_t)reader_varint(&r, "run", UINT32_MAX);
    note->at = reader_instant(&r, "at");
    note->value = reader_double(&r, "value");
    note->text = reader_text(&r, "text");
    return record_finish(&r, "note");
}

static struct take read_take(struct reader *r)
{
    struct take t = {.id = reader_id(r)};
    t.run = (uint32_t)reader_varint(r, "run", UINT32_MAX);
    return t;
}

struct err record_read_takes(struct str value, instant *at, void (*each)(void *ctx, struct take t),
                             void *ctx)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "takes"));
    *at = reader_instant(&r, "at");
    uint64_t count = reader_varint(&r, "count", UINT64_MAX);
    struct reader again = r;
    for (uint64_t i = 0; i < count && !r.bad; i++)
        read_take(&r);
    TRY(record_finish(&r, "takes"));
    /* Only now, so that the caller acts on no part of a malformed record. */
    for (uint64_t i = 0; i < count; i++)
        each(ctx, read_take(&again));
    return err_none();
}

bool record_is_leases(struct str value)
{
    return value.len > 0 && value.at[0] > RECORD_VERSION && value.at[0] <= LEASES_VERSION;
}

/* So many ms before or after `at`. */
static instant read_moved(struct reader *r, const char *part, instant at, bool before)
{
    instant t;
    int64_t ms = reader_zigzag(r, part);
    bool over = before ? __builtin_sub_overflow(at.ms, ms, &t.ms)
                       : __builtin_add_overflow(at.ms, ms, &t.ms);
    if (!over && t.ms >= 0)
        return t;
    reader_fault(r, part);
    return (instant){0};
}

static unsigned flags_of(unsigned version)
{
    return LEASE_NAMES | (version > 2 ? LEASE_CONFIRMED | LEASE_LENGTH : 0) |
           (version > 3 ? LEASE_KEY : 0) | (version > 4 ? LEASE_LIMIT : 0);
}

static void read_limit(struct reader *r, instant at, struct lease *l)
{
    l->max_run.ms = (int64_t)reader_varint(r, "max_run", SPAN_MAX_MS);
    l->limit = read_moved(r, "limit", at, false);
    l->limited_by = reader_byte(r, "whose limit", RUN_LIMITS - 1);
    if (l->max_run.ms == 0)
        reader_fault(r, "max_run");
}

/* l is the lease before it, and then this one. */
static void read_lease(struct reader *r, unsigned version, instant at, struct lease *l)
{
    const struct lease before = *l;
    l->id = reader_id(r);
    l->run = (uint32_t)reader_varint(r, "run", UINT32_MAX);
    l->token = reader_varint(r, "token", UINT64_MAX);
    l->taken_at = read_moved(r, "taken_at", at, true);
    l->end = read_moved(r, "lease_end", at, false);
    unsigned flags = reader_byte(r, "flags", flags_of(version));
    /* A record of version 2 that is not of the turn of the claim is of a renewal. */
    l->confirmed = version > 2 ? flags & LEASE_CONFIRMED : l->taken_at.ms != at.ms;
    l->length = instant_diff(l->end, at);
    if (flags & LEASE_LENGTH)
        l->length.ms = reader_zigzag(r, "length");
    l->key = flags & LEASE_KEY ? reader_varint(r, "key", UINT64_MAX) : 0;
    if ((flags & LEASE_KEY) && !l->key)
        reader_fault(r, "key");
    l->max_run = (span){0};
    l->limit = (instant){0};
    l->limited_by = 0;
    if (flags & LEASE_LIMIT)
        read_limit(r, at, l);
    if (!(flags & LEASE_NAMES))
        return;
    l->worker = reader_text(r, "worker");
    l->node = reader_text(r, "node");
    if (has_names_of(l, &before))
        reader_fault(r, "names");
}

struct err record_read_leases(struct str value, void (*each)(void *ctx, const struct lease *lease),
                              void *ctx)
{
    struct reader r = record_begin(value);
    unsigned version;
    struct lease lease = {0};
    TRY(record_read_version(&r, "leases", LEASES_VERSION, &version));
    if (version <= RECORD_VERSION)
        reader_fault(&r, "version");
    instant at = reader_instant(&r, "at");
    uint64_t count = reader_varint(&r, "count", UINT64_MAX);
    struct reader again = r;
    for (uint64_t i = 0; i < count && !r.bad; i++)
        read_lease(&r, version, at, &lease);
    TRY(record_finish(&r, "leases"));
    lease = (struct lease){0};
    for (uint64_t i = 0; i < count; i++) {
        read_lease(&again, version, at, &lease);
        each(ctx, &lease);
    }
    return err_none();
}

struct err record_read_ended(struct str value, struct id *id, enum depend_end *end)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "ended"));
    *id = reader_id(&r);
    *end = (enum depend_end)reader_byte(&r, "end", DEPEND_ENDS - 1);
    return record_finish(&r, "ended");
}

#define CLOCK_VERSION 3 /* 1 has no number of an event, 2 has no ticks */

static void write_clock(struct writer *w, const struct record_clock *c)
{
    writer_byte(w, CLOCK_VERSION);
    writer_opt(w, c->newest.ms);
    writer_varint(w, c->events);
    writer_opt(w, c->turned_at.ms);
    writer_varint(w, c->turned_events);
    writer_opt(w, c->from.ms);
    if (instant_is_set(c->from))
        writer_id(w, c->next);
    writer_varint(w, c->boot);
    if (c->boot)
        writer_varint(w, (uint64_t)c->ticks);
}

void record_put_clock(struct batch *b, const struct record_clock *clock)
{
    RECORD_PUT(b, record_clock_key(), write_clock(w, clock));
}

struct err record_read_clock(struct str value, struct record_clock *c)
{
    struct reader r = record_begin(value);
    unsigned version;
    TRY(record_read_version(&r, "clock", CLOCK_VERSION, &version));
    c->newest = reader_instant(&r, "newest");
    c->events = version > 1 ? reader_varint(&r, "events", UINT64_MAX) : 0;
    c->turned_at = reader_instant(&r, "turned_at");
    c->turned_events = reader_varint(&r, "turned_events", UINT64_MAX);
    c->from = reader_instant(&r, "from");
    c->next = instant_is_set(c->from) ? reader_id(&r) : (struct id){0};
    c->boot = version > 2 ? reader_varint(&r, "boot", UINT64_MAX) : 0;
    c->ticks = c->boot ? (int64_t)reader_varint(&r, "ticks", INT64_MAX) : 0;
    return record_finish(&r, "clock");
}
