/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_SHARED_NAMES_H
#define ACCESS_SHARED_NAMES_H

/* Names that senders share, and whose they are: the table of shared_names.def. Senders that are
 * limited to the same queues have the same mark (base/mark.h); a name of theirs that is to be their
 * own gets it. Who is not limited has none, so without such senders nothing changes. Pure. */

#include "access/rights.h"
#include "base/arena.h"

enum shared_kind {
#define SHARED(kind, words, rule, why) SHARED_##kind,
#include "access/shared_names.def"
#undef SHARED
    SHARED_COUNT
};

enum shared_rule { SHARED_OWN, SHARED_OWN_OR, SHARED_QUEUE, SHARED_SENDER, SHARED_SERVER };

enum shared_rule shared_names_rule(enum shared_kind kind);
/* Sets the mark of these rights, which follows from their queues alone: their order does not count,
 * nor do repetitions. */
void shared_names_mark(struct rights *r);
/* Empty: none. Valid as long as the rights. */
struct str shared_names_mark_of(const struct rights *who);
/* The name as the server knows it: with the mark, in the arena, if the sender has one and such
 * names are its own. ERR_BAD_VALUE if it has more than `most` bytes then. */
NODISCARD struct err shared_names_own(enum shared_kind kind, const struct rights *who, size_t most,
                                      struct arena *a, struct str *name);
/* The table in Markdown. */
void shared_names_markdown(struct buf *b);

#endif
