/* SPDX-License-Identifier: Apache-2.0 */

/* Which snapshots of the indexes are this store's: the newest one that was begun, and the newest
 * one before it that was finished. By that the file of another root directory, or one from before a
 * backup was restored, is known for what it is.
 *
 *   'M' "index"   byte version, 2 times 16 bytes */

#include "store/reader.h"
#include "store/record.h"
#include "store/record_parts.h"
#include "store/writer.h"

#define VERSION 1

struct record_key record_index_key(void)
{
    return record_meta_key(STR("index"));
}

static void write_number(struct writer *w, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        writer_byte(w, (unsigned)(v >> (8 * i)) & 0xff);
}

void record_put_index(struct batch *b, const struct record_index *index)
{
    char bytes[33];
    struct writer w = writer_into(bytes, sizeof bytes);
    struct record_key key = record_index_key();
    writer_byte(&w, VERSION);
    for (int i = 0; i < 2; i++) {
        write_number(&w, index->nonces[i].hi);
        write_number(&w, index->nonces[i].lo);
    }
    batch_put(b, record_key_view(&key), (struct str){bytes, w.len});
}

static uint64_t read_number(struct reader *r)
{
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v |= (uint64_t)reader_byte(r, "nonce", UINT8_MAX) << (8 * i);
    return v;
}

struct err record_read_index(struct str value, struct record_index *index)
{
    struct reader r = {.value = value};
    unsigned version = reader_byte(&r, "version", UINT8_MAX);
    for (int i = 0; i < 2; i++) {
        index->nonces[i].hi = read_number(&r);
        index->nonces[i].lo = read_number(&r);
    }
    if (version > VERSION)
        return err_make(ERR_VERSION, "a newer program has written it");
    if (r.bad || reader_left(&r) || version == 0)
        return err_make(ERR_CORRUPT, "what the store says of snapshots of the indexes is damaged");
    return err_none();
}
