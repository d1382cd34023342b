/* SPDX-License-Identifier: Apache-2.0 */
#include "store/copy_mark.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/strmap.h"
#include "store/reader.h"

#define VERSION 1

void copy_mark_write(const struct copy_mark *m, struct writer *w)
{
    writer_byte(w, VERSION);
    writer_bytes(w, m->cluster, sizeof m->cluster);
    writer_varint(w, m->shard);
    writer_varint(w, m->epoch);
    writer_byte(w, m->own);
    writer_varint(w, m->held);
}

bool copy_mark_read(struct str value, struct copy_mark *m)
{
    struct reader r = {.value = value};
    m->number = reader_varint(&r, "number", UINT64_MAX);
    unsigned version = reader_byte(&r, "version", UINT8_MAX);
    const char *cluster = reader_bytes(&r, "cluster", sizeof m->cluster);
    if (cluster)
        memcpy(m->cluster, cluster, sizeof m->cluster);
    m->shard = reader_varint(&r, "shard", INT32_MAX);
    m->epoch = reader_varint(&r, "epoch", UINT64_MAX);
    m->own = reader_byte(&r, "own", 1);
    m->held = reader_varint(&r, "held", UINT64_MAX);
    return !r.bad && version == VERSION && reader_left(&r) == 0;
}

uint64_t copy_mark_acceptance(const struct pg_log_place *p)
{
    char text[sizeof p->cluster + 24];
    memcpy(text, p->cluster, sizeof p->cluster);
    int n = snprintf(text + sizeof p->cluster, 24, "%" PRIu64, p->accepted);
    uint64_t id = strmap_hash(0, (struct str){text, sizeof p->cluster + (size_t)n});
    return p->accepted == 0 ? 0 : id ? id : 1;
}

enum rocks_foreign_start copy_mark_judge(const struct copy_mark *m, int shard,
                                         const struct pg_log_place *p)
{
    if (!m)
        return ROCKS_FOREIGN_NEW;
    if (m->shard != (uint64_t)shard || memcmp(m->cluster, p->cluster, sizeof m->cluster) != 0)
        return ROCKS_FOREIGN_STALE;
    if (p->known && m->number <= p->last)
        return ROCKS_FOREIGN_KEPT;
    if (m->epoch < p->oldest && m->number <= p->seq)
        return ROCKS_FOREIGN_STALE;
    return m->own || m->number > p->seq ? ROCKS_FOREIGN_LOST : ROCKS_FOREIGN_STALE;
}
