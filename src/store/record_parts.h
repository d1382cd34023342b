/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECORD_PARTS_H
#define STORE_RECORD_PARTS_H

/* Shared by the files that write and read records. */

#include "base/err.h"
#include "base/id.h"
#include "base/must.h"
#include "core/curve.h"
#include "core/job_fields.h"
#include "store/reader.h"
#include "store/record.h"
#include "store/writer.h"

/* The newest version of every record, its first byte, unless the record has a version number of its
 * own. */
#define RECORD_VERSION 1

/* Records up to this size, which is most, are written once and copied. */
#define RECORD_SMALL 2048

/* Puts a record under key; call is the expression that writes it, with the writer as `w`. */
#define RECORD_PUT(batch, key, call)                                                               \
    do {                                                                                           \
        struct record_key key_ = (key);                                                            \
        char room_[RECORD_SMALL];                                                                  \
        struct writer once_ = writer_into(room_, sizeof room_), *w = &once_;                       \
        call;                                                                                      \
        char *to_ = batch_put_room(batch, record_key_view(&key_), once_.len);                      \
        if (once_.len <= sizeof room_) {                                                           \
            memcpy(to_, room_, once_.len);                                                         \
            break;                                                                                 \
        }                                                                                          \
        struct writer fill_ = writer_into(to_, once_.len);                                         \
        w = &fill_;                                                                                \
        call;                                                                                      \
        must(fill_.len == once_.len);                                                              \
    } while (0)

static inline void writer_id(struct writer *w, struct id id)
{
    uint8_t bytes[16];
    id_encode(id, bytes);
    writer_bytes(w, bytes, sizeof bytes);
}

static inline struct id reader_id(struct reader *r)
{
    const char *id = reader_bytes(r, "id", 16);
    return id ? id_decode((const uint8_t *)id) : (struct id){0};
}

static inline struct reader record_begin(struct str value)
{
    return (struct reader){.value = value};
}

/* Reads the version, which decides how the rest is read. */
NODISCARD static inline struct err record_read_version(struct reader *r, const char *what,
                                                       unsigned newest, unsigned *out)
{
    unsigned version = *out = reader_byte(r, "version", UINT8_MAX);
    if (version > newest)
        return err_make(ERR_VERSION,
                        "a %s record has version %u and was written by a newer tenax; this one, "
                        "tenax " TENAX_VERSION ", knows up to version %u: use the newer one",
                        what, version, newest);
    if (version == 0)
        return err_at(ERR_CORRUPT, 0, "a %s record has no version", what);
    return err_none();
}

/* For kinds of records that have had only one version so far. */
NODISCARD static inline struct err record_check_version(struct reader *r, const char *what)
{
    unsigned version;
    return record_read_version(r, what, RECORD_VERSION, &version);
}

NODISCARD static inline struct err record_finish(struct reader *r, const char *what)
{
    if (r->bad)
        return err_at(ERR_CORRUPT, (int64_t)r->pos, "a %s record of %zu bytes is broken at its %s",
                      what, r->value.len, r->bad);
    if (reader_left(r) > 0)
        return err_at(ERR_CORRUPT, (int64_t)r->pos, "a %s record has %zu bytes too many", what,
                      reader_left(r));
    return err_none();
}

/* FIELDS, as record.c describes them, and a backoff. */
void record_write_fields(struct writer *w, const struct job_fields *fields, const void *from);
void record_read_fields(struct reader *r, const struct job_fields *fields, void *to);
void record_write_curve(struct writer *w, const struct curve *c);
void record_read_curve(struct reader *r, struct curve *c);
/* Retry limit, backoff and both retentions, as in JOB. */
void record_write_terms(struct writer *w, int64_t retry_limit, const struct curve *backoff,
                        span completed, span dead);
void record_read_terms(struct reader *r, int64_t *retry_limit, struct curve *backoff,
                       span *completed, span *dead);
/* All of JOB; record_read_job reads it. */
void record_write_job(struct writer *w, const struct job *job);
/* As in RUN. The lists of containers and of events are in the arena. */
void record_write_failure(struct writer *w, const struct failure *f);
/* version: of RUN and of HISTORY alike; from 3 on containers have a signal and a log, from 4 on
 * there is a culprit. */
void record_read_failure(struct reader *r, unsigned version, struct arena *a, struct failure *f);

#endif
