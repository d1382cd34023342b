/* SPDX-License-Identifier: Apache-2.0 */

/* What an enqueue with an idempotency key was answered, as the value of an entry (record_kv.c).
 *
 *   ANSWER   byte version, the digest of the request as 32 bytes, varint count of jobs, then for
 *            each: byte 1 if it is a duplicate, 2 if it was folded into, else 0, id as 16 bytes
 *            big-endian, and its JOB record, without the payload, as a text */

#include <string.h>

#include "store/record_parts.h"

enum { ADDED, DUPLICATE, FOLDED, KINDS };

/* Bytes of a job in any answer; a count beyond what fits is damage, not a reason to get memory. */
#define JOB_BYTES_MIN 18

static void write_one(struct writer *w, const struct enqueued *e)
{
    struct job job = e->job;
    struct writer count = {0};
    job.payload = (struct str){"", 0};
    record_write_job(&count, &job);
    writer_byte(w, e->duplicate ? DUPLICATE : e->folded ? FOLDED : ADDED);
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
    struct writer fill = {arena_get(a, count.len), 0};
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

struct err record_read_answer(struct str value, struct arena *a, struct record_answer *answer)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "answer"));
    const char *request = reader_bytes(&r, "request", sizeof answer->request);
    if (request)
        memcpy(answer->request, request, sizeof answer->request);
    answer->count = reader_varint(&r, "count", reader_left(&r) / JOB_BYTES_MIN);
    struct enqueued *jobs = arena_get(a, answer->count * sizeof *jobs + 1);
    for (size_t i = 0; i < answer->count && !r.bad; i++)
        TRY(read_one(&r, &jobs[i]));
    answer->jobs = jobs;
    return record_finish(&r, "answer");
}
