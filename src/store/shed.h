/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SHED_H
#define STORE_SHED_H

/* Tables that have been merged are removed by RocksDB, some tens of them at a time. While the bytes
 * of one are freed, the log waits (base/release.h). So each table is kept open by a thread of its
 * own: when RocksDB removes its name, nothing is freed, and the thread does that piece by piece. */

#include <stddef.h>

struct shed;

/* Watches the folder, of which at most so many tables are kept open; the others, and small ones,
 * are freed when they are removed, as all are if this is NULL: the kernel watches no more folders.
 */
struct shed *shed_new(const char *dir, size_t max);
/* What is not freed yet is freed at once. May be NULL. */
void shed_free(struct shed *s);

#endif
