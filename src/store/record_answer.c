/* SPDX-License-Identifier: Apache-2.0 */

/* What an enqueue with an idempotency key was answered, as the value of an entry (record_kv.c).
 *
 *   ANSWER   byte version, the digest of the request as 32 bytes, varint count of jobs, then for
 *            each: byte 1 if it is a duplicate, 2 if it was folded into, else 0, id as 16 bytes
 *            big-endian, and its JOB record, without the payload, as a text
 *
 *   BRIEF    the same with version 2 and less of each job: the byte, of which bits 2 to 4 are the
 *            status; if bit 5 is set, zigzag difference of ready_at from that of the job before (of
 *            the first: from 0); the id, of which the first 12 bytes are missing if bit 6 is set:
 *            it is the next that was made after that of the job before
 *
 *   'M' "answers"   ANSWERS   byte version, varint bytes, opt from */

#include <string.h>

#include "store/record_parts.h"

enum { ADDED, DUPLICATE, FOLDED, KINDS };

#define BRIEF_VERSION 2
#define STATUS_SHIFT  2
#define READY_BIT     0x20
#define NEXT_BIT      0x40
_Static_assert(STATUS_COUNT <= 8, "a status has three bits");

/* Bytes of a job in any answer; a count beyond what fits is damage, not a reason to get memory. */
#define JOB_BYTES_MIN   18
#define BRIEF_BYTES_MIN 5
#define BRIEF_BYTES_MAX 27

static unsigned kind_of(const struct enqueued *e)
{
    return e->duplicate ? DUPLICATE : e->folded ? FOLDED : ADDED;
}

static void write_one(struct writer *w, const struct enqueued *e)
{
    struct job job = e->job;
    struct writer count = {0};
    job.payload = (struct str){"", 0};
    record_write_job(&count, &job);
    writer_byte(w, kind_of(e));
    writer_id(w, job.id);
    writer_varint(w, count.len);
    record_write_job(w, &job);
}

static void write_answer(struct writer *w, const struct record_answer *answer)
{
    writer_byte(w, RECORD_VERSION);
    writer_bytes(w, answer->request, sizeof answer->request);
    writer_varint(w, answer->count);
    for (size_t i = 0; i < answer->count; i++)
        write_one(w, &answer->jobs[i]);
}

struct str record_write_answer(const struct record_answer *answer, struct arena *a)
{
    struct writer count = {0};
    write_answer(&count, answer);
    struct writer fill = writer_into(arena_get(a, count.len), count.len);
    write_answer(&fill, answer);
    must(fill.len == count.len);
    return (struct str){fill.at, fill.len};
}

static struct err read_one(struct reader *r, struct enqueued *e)
{
    bool apart;
    unsigned kind = reader_byte(r, "kind", KINDS - 1);
    struct id id = reader_id(r);
    struct str job = reader_text(r, "job");
    *e = (struct enqueued){.duplicate = kind == DUPLICATE, .folded = kind == FOLDED};
    if (r->bad)
        return err_none();
    TRY(record_read_job(job, id, &e->job, &apart));
    if (apart || e->job.payload.len)
        reader_fault(r, "job");
    e->job.payload = (struct str){0};
    return err_none();
}

/* --- brief ones --- */

/* What the id of the next job begins with, if it was made right after this one. */
static struct id next_start(struct id id)
{
    struct id next = {id.hi, (id.lo >> 32) + 1};
    next.hi += next.lo >> 32;
    next.lo = next.lo << 32;
    return next;
}

static void write_brief(struct writer *w, const struct enqueued *e, const struct enqueued *before)
{
    const struct job *job = &e->job;
    struct id next = next_start(before->job.id);
    bool follows = job->id.hi == next.hi && job->id.lo >> 32 == next.lo >> 32;
    int64_t ready = job->state.ready_at.ms, ready_before = before->job.state.ready_at.ms;
    writer_byte(w, kind_of(e) | (unsigned)job->state.status << STATUS_SHIFT |
                       (ready == ready_before ? 0 : READY_BIT) | (follows ? NEXT_BIT : 0));
    if (ready != ready_before)
        writer_zigzag(w, ready - ready_before);
    if (!follows)
        writer_id(w, job->id);
    else
        for (int shift = 24; shift >= 0; shift -= 8)
            writer_byte(w, (unsigned)(job->id.lo >> shift) & 0xff);
}

static void read_brief(struct reader *r, struct enqueued *e, const struct enqueued *before)
{
    unsigned head = reader_byte(r, "kind", NEXT_BIT | (NEXT_BIT - 1)), kind = head & 3;
    int64_t ready = before->job.state.ready_at.ms;
    if (kind >= KINDS || (head >> STATUS_SHIFT & 7) >= STATUS_COUNT)
        reader_fault(r, "kind");
    *e = (struct enqueued){.duplicate = kind == DUPLICATE, .folded = kind == FOLDED};
    e->job.state.status = (enum status)(head >> STATUS_SHIFT & 7);
    if (head & READY_BIT)
        ready = (int64_t)((uint64_t)ready + (uint64_t)reader_zigzag(r, "ready_at"));
    e->job.state.ready_at.ms = ready;
    if (!(head & NEXT_BIT)) {
        e->job.id = reader_id(r);
        return;
    }
    e->job.id = next_start(before->job.id);
    for (int shift = 24; shift >= 0; shift -= 8)
        e->job.id.lo |= (uint64_t)reader_byte(r, "id", UINT8_MAX) << shift;
}

bool record_answer_is_brief(struct str value)
{
    return value.len > 0 && (unsigned char)value.at[0] == BRIEF_VERSION;
}

/* Job by job: of an answer of thousands they need not be in memory together. */
struct err record_shorten_answer(struct str value, struct arena *a, struct str *brief)
{
    struct reader r = record_begin(value);
    struct enqueued one, before = {0};
    TRY(record_check_version(&r, "answer"));
    const char *request = reader_bytes(&r, "request", IDEMPOTENCY_DIGEST);
    size_t count = reader_varint(&r, "count", reader_left(&r) / JOB_BYTES_MIN);
    size_t most = 64 + count * BRIEF_BYTES_MAX;
    struct writer w = writer_into(arena_get(a, most), most);
    writer_byte(&w, BRIEF_VERSION);
    if (request)
        writer_bytes(&w, request, IDEMPOTENCY_DIGEST);
    writer_varint(&w, count);
    for (size_t i = 0; i < count && !r.bad; i++) {
        TRY(read_one(&r, &one));
        write_brief(&w, &one, &before);
        before = one;
    }
    must(w.len <= most);
    *brief = (struct str){w.at, w.len};
    return record_finish(&r, "answer");
}

struct err record_read_answer(struct str value, struct arena *a, struct record_answer *answer)
{
    struct reader r = record_begin(value);
    unsigned version;
    const struct enqueued none = {0};
    TRY(record_read_version(&r, "answer", BRIEF_VERSION, &version));
    answer->brief = version == BRIEF_VERSION;
    const char *request = reader_bytes(&r, "request", sizeof answer->request);
    if (request)
        memcpy(answer->request, request, sizeof answer->request);
    size_t least = answer->brief ? BRIEF_BYTES_MIN : JOB_BYTES_MIN;
    answer->count = reader_varint(&r, "count", reader_left(&r) / least);
    struct enqueued *jobs = arena_get(a, answer->count * sizeof *jobs + 1);
    for (size_t i = 0; i < answer->count && !r.bad; i++)
        if (answer->brief)
            read_brief(&r, &jobs[i], i ? &jobs[i - 1] : &none);
        else
            TRY(read_one(&r, &jobs[i]));
    answer->jobs = jobs;
    return record_finish(&r, "answer");
}

/* --- all of them together --- */

struct record_key record_answers_key(void)
{
    return record_meta_key(STR("answers"));
}

static void write_answers(struct writer *w, const struct record_answers *all)
{
    writer_byte(w, RECORD_VERSION);
    writer_varint(w, all->bytes);
    writer_opt(w, all->from.ms);
}

void record_put_answers(struct batch *b, const struct record_answers *all)
{
    RECORD_PUT(b, record_answers_key(), write_answers(w, all));
}

struct err record_read_answers(struct str value, struct record_answers *all)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "answers"));
    all->bytes = reader_varint(&r, "bytes", UINT64_MAX);
    all->from = reader_instant(&r, "from");
    return record_finish(&r, "answers");
}
