/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_SURVEY_H
#define STORE_LOG_SURVEY_H

/* What can be read of a damaged log in files: every batch that is whole, wherever it lies, and
 * which are missing. Changes nothing. */

#include "store/log.h"

struct log_survey_batch {
    uint64_t number, generation;
    uint64_t segment, at, size; /* where it lies */
};

struct log_survey {
    uint64_t from, last;              /* those in between should be there */
    struct log_survey_batch *batches; /* those that are, in order */
    size_t count;
    uint64_t missing; /* how many are not */
    /* The end of the log is missing: nothing says how many there were behind `last`. */
    bool end_missing;
};

/* Batches from that number on; the log is known to have had `reached`. ERR_IO, ERR_VERSION. */
NODISCARD struct err log_survey_make(const char *dir, uint64_t from, uint64_t reached,
                                     struct log_survey *out);
void log_survey_fini(struct log_survey *s);
/* The next missing ones from that number on: *first .. *last; false if there are none. *before is
 * the one that lies in front of them, or NULL. */
bool log_survey_missing(const struct log_survey *s, uint64_t from, uint64_t *first, uint64_t *last,
                        const struct log_survey_batch **before);
/* Calls fn for each that is there. The errors of fn; ERR_IO, ERR_CORRUPT. */
NODISCARD struct err log_survey_read(const struct log_survey *s, const char *dir, log_replay_fn fn,
                                     void *ctx);

#endif
