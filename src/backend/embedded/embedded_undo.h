/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_EMBEDDED_EMBEDDED_UNDO_H
#define BACKEND_EMBEDDED_EMBEDDED_UNDO_H

/* Changes of many jobs that can be undone. */

#include "backend/embedded/embedded_internal.h"

/* Whether a change may begin that can be undone for so long: ERR_BAD_VALUE, ERR_UNPROCESSABLE,
 * ERR_UNDO_FULL, ERR_DISK_FULL. */
NODISCARD struct err embedded_undo_check(struct embedded *b, span window);
/* The operation, which was just begun, can be. ERR_UNDO_FULL: it is not listed. */
NODISCARD struct err embedded_undo_begin(struct embedded *b, uint64_t number, span window);
/* Changes a job, and keeps what it was. */
NODISCARD struct err embedded_undo_change(struct embedded *b, struct scan *scan, struct id id,
                                          struct arena *scratch);
/* Undoes some of an operation. */
NODISCARD struct err embedded_undo_slice(struct embedded *b, struct scan *scan);
void embedded_undo_end(struct embedded *b, const struct scan *scan);
/* Puts it into the batch, if it can be undone or could be. */
void embedded_undo_store(struct embedded *b, const struct bulk_operation *op);
/* Deletes some of what is kept by operations whose window is over; true if some may be left. */
bool embedded_undo_expire(struct embedded *b);
/* All windows end now. */
void embedded_undo_expire_all(struct embedded *b);
bool embedded_undo_due(const struct embedded *b, instant *at);
/* Whether a job that was deleted can be brought back; for the port. */
bool embedded_undo_keeps_deleted(void *ctx);
NODISCARD struct err embedded_undo_recover(struct embedded *b);

/* embedded_operations.c. The operation that the command names, if whoever sent it may see it; or
 * NULL. And what is answered then. */
struct bulk_operation *embedded_operation_find(struct embedded *b, const struct command *c);
struct err embedded_operation_unknown(void);

/* embedded_job.c. Deletes a job; for_good: it cannot be undone. */
NODISCARD struct err embedded_remove_job(struct embedded *b, struct id id, bool for_good);

#endif
