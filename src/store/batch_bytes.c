/* SPDX-License-Identifier: Apache-2.0 */
#include "store/batch_bytes.h"

#include "base/must.h"
#include "store/reader.h"
#include "store/writer.h"

#define VERSION     1
#define OP_HEAD_MAX ((size_t)21) /* its kind, and two lengths */

enum { DELETE, PUT };

static void write_parts(struct writer *w, const struct batch *b)
{
    writer_byte(w, VERSION);
    for (size_t i = 0; i < b->count; i++) {
        const struct batch_op *op = &b->ops[i];
        writer_byte(w, op->value.at ? PUT : DELETE);
        writer_text(w, op->key);
        if (op->value.at)
            writer_text(w, op->value);
    }
}

void batch_bytes_write(const struct batch *b, struct buf *out)
{
    size_t room = 1 + b->bytes + b->count * OP_HEAD_MAX;
    out->len = 0;
    struct writer w = writer_into(buf_room(out, room), room);
    write_parts(&w, b);
    must(w.len <= room);
    out->len = w.len;
}

struct err batch_bytes_read(struct str bytes,
                            struct err (*fn)(void *ctx, const struct batch_op *op), void *ctx)
{
    struct reader r = {.value = bytes};
    if (reader_byte(&r, "version", UINT8_MAX) != VERSION && !r.bad)
        return err_make(ERR_VERSION, "a batch was written by a newer tenax: use that one");
    struct batch_op op;
    struct err e = err_none();
    while (!r.bad && e.code == ERR_OK && reader_left(&r) > 0) {
        bool puts = reader_byte(&r, "operation", PUT) == PUT;
        op = (struct batch_op){.key = reader_text(&r, "key")};
        if (puts)
            op.value = reader_text(&r, "value");
        if (!r.bad)
            e = fn(ctx, &op);
    }
    if (e.code != ERR_OK)
        return e;
    if (r.bad)
        return err_make(ERR_CORRUPT, "a batch of the log does not decode: its %s", r.bad);
    return err_none();
}
