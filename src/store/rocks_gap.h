/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_GAP_H
#define STORE_ROCKS_GAP_H

/* A walk over keys that skips what cannot be read. RocksDB reports only that there is damage, not
 * which keys it affects: its end is found by seeking, first in strides that double, then by
 * bisection. So a gap may be wider than the damage, but never narrower. */

#include <rocksdb/c.h>
#include <stdbool.h>

#include "base/buf.h"

struct rocks_gap_walk {
    rocksdb_t *db;
    const rocksdb_readoptions_t *reading;
    struct str end; /* exclusive */
    rocksdb_iterator_t *it;
    struct buf key;    /* the current key, or the beginning of a gap */
    struct buf gap_to; /* exclusive */
    bool in_gap, ended;
    uint64_t table; /* the table that the newest gap's error names; 0: not known */
};

/* From `from` (inclusive) to `end` (exclusive, and borrowed). */
void rocks_gap_begin(struct rocks_gap_walk *w, rocksdb_t *db, const rocksdb_readoptions_t *reading,
                     struct str from, struct str end);
/* False at the end. In a gap, w->in_gap is set, the gap reaches from *key to w->gap_to, and there
 * is no value. Views are valid until the next step. */
bool rocks_gap_at(const struct rocks_gap_walk *w, struct str *key, struct str *value);
void rocks_gap_step(struct rocks_gap_walk *w);
void rocks_gap_end(struct rocks_gap_walk *w);

#endif
