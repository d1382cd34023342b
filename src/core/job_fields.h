/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be done with struct job_options and struct job_extras without knowing their members:
 * core/job_fields.def lists these. */
#ifndef CORE_JOB_FIELDS_H
#define CORE_JOB_FIELDS_H

#include "base/arena.h"
#include "core/job.h"

enum job_field_kind {
    JOB_FIELD_TEXT,    /* struct str; absent: empty */
    JOB_FIELD_NUMBER,  /* uint64_t; absent: 0 */
    JOB_FIELD_INSTANT, /* instant; absent: 0 */
    JOB_FIELD_REAL,    /* double; absent: 0 */
};

struct job_field {
    unsigned number; /* on disk; from 1, ascending */
    enum job_field_kind kind;
    size_t offset;
    const char *words; /* its name in an error */
};

/* All fields of one struct, at most 64. */
struct job_fields {
    const struct job_field *at;
    size_t count;
    /* Those that have a value in the struct at `from`, a bit each in their order. */
    uint64_t (*set)(const void *from);
};

extern const struct job_fields job_option_fields; /* of struct job_options */
extern const struct job_fields job_extra_fields;  /* of struct job_extras */

/* Whether that field of the struct at `from` has a value. */
bool job_field_is_set(const struct job_field *f, const void *from);

/* The same with texts of its own, in the arena. */
struct job_options job_options_copy(struct arena *a, const struct job_options *from);
struct job_extras job_extras_copy(struct arena *a, const struct job_extras *from);
bool job_options_eq(const struct job_options *a, const struct job_options *b);
bool job_extras_eq(const struct job_extras *a, const struct job_extras *b);

/* A copy in one block of its own, to be freed with free(); NULL if no field is set. */
struct job_extras *job_extras_new(const struct job_extras *from);

#endif
