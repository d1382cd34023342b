/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_STORE_H
#define BUILDS_BUILD_STORE_H

/* Records on disk (client/journal.h) of a bounded size together, and calls once they are kept.
 * Records beyond that size wait in memory, in their order, until others are removed: whoever added
 * them is called only then, and should not go on before. Loop thread only. */

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/str.h"

struct build_store;
struct build_record;
typedef void build_store_kept(void *ctx);

/* Opens the journal of a directory. Of its records at most bytes_max are on disk at a time; those
 * that are there already count. ERR_LOCKED if another process has it, or another error of it. */
NODISCARD struct err build_store_open(uv_loop_t *loop, const char *dir, size_t bytes_max,
                                      struct build_store **out);
/* Likewise, but the texts of records are on disk alone once they are kept: build_store_fetch reads
 * them, build_store_text does not. */
NODISCARD struct err build_store_open_lean(uv_loop_t *loop, const char *dir, size_t bytes_max,
                                           struct build_store **out);
/* Waits for the disk; what is over the size is forgotten. All records are gone, and nothing is
 * called any more. Freed once the loop has turned. */
void build_store_close(struct build_store *s);

/* Calls see() for each record, the oldest first. It may remove that one, and older
 * ones. */
void build_store_each(struct build_store *s, void (*see)(void *ctx, struct build_record *r),
                      void *ctx);

/* A new record, of one line of JSON; valid until it is removed. kept (or NULL) is called once it is
 * on disk, or soon after it is removed, whatever comes first; never inside of a call from here. */
struct build_record *build_store_add(struct build_store *s, struct str json, build_store_kept *kept,
                                     void *ctx);
void build_store_remove(struct build_store *s, struct build_record *r);
/* Valid until the record is removed. */
struct str build_store_text(const struct build_record *r);
/* Adds the text of a record, from wherever it is. */
void build_store_fetch(const struct build_store *s, const struct build_record *r, struct buf *out);
/* Calls kept (or NULL) soon, for what needs no record. */
void build_store_call(struct build_store *s, build_store_kept *kept, void *ctx);

/* Adds the first bytes of a text, at most max and up to a whole character, as a JSON string. What
 * is no UTF-8 becomes a question mark, for a record must be JSON. */
void build_store_write_text(struct buf *b, struct str s, size_t max);

#endif
