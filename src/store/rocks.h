/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_H
#define STORE_ROCKS_H

/* The store on RocksDB. Commits happen on one thread of its own; notify(ctx) is
 * called on that thread whenever a batch has come to its end, and must only wake
 * the loop. */

#include "store/store.h"

struct rocks_settings {
    const char *dir;      /* made if absent; locked against a second process: ERR_LOCKED */
    uint64_t cache_bytes; /* block cache */
    void (*notify)(void *ctx);
    void *ctx;
};

/* ERR_LOCKED, ERR_CORRUPT, ERR_IO, ERR_DISK_FULL. */
NODISCARD struct err rocks_open(const struct rocks_settings *settings, struct store **out);

#endif
