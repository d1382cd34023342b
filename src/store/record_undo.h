/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_RECORD_UNDO_H
#define STORE_RECORD_UNDO_H

/* Records of changes of many jobs that can be undone: the operation, and what it keeps of each job.
 * An entry has the records of the job that the change deletes, as they are in the store. */

#include "core/undo.h"
#include "store/record.h"

/* Keys: of an operation, and of what it keeps of a job; and their parts, false if it is another
 * kind of key. */
struct record_key record_operation_key(uint64_t number);
struct record_key record_undo_key(uint64_t operation, uint64_t seq);
bool record_key_is_operation(struct str key, uint64_t *number);
bool record_key_is_undo(struct str key, uint64_t *operation, uint64_t *seq);

/* Puts an operation, and reads it; its strings are views into the value. */
void record_put_operation(struct batch *b, const struct bulk_operation *op);
NODISCARD struct err record_read_operation(struct str value, uint64_t number,
                                           struct bulk_operation *op);

/* beside: the records of entry->was besides its first one, if it is gone; NULL: there are none.
 * Returns the bytes that it takes. */
size_t record_put_undo(struct batch *b, uint64_t operation, uint64_t seq,
                       const struct undo_entry *entry, const struct batch *beside);
/* Puts the records beside the first one into `beside`; NULL: they are passed over. */
NODISCARD struct err record_read_undo(struct str value, struct undo_entry *entry,
                                      struct batch *beside);

#endif
