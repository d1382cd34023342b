/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_JOURNAL_H
#define CLIENT_JOURNAL_H

/* What a process must not forget: a file of records in its state directory. A record is JSON of
 * its user's; it lives from journal_add to journal_remove, over crashes and power cuts.
 * It is kept once it was written and synced, which happens on a thread of libuv's pool, for all
 * that came in meanwhile at once; journal_record.kept then says so.
 *
 * A line of the file is a checksum, a space, and {"n":NUMBER,"is":RECORD} or {"gone":NUMBER}.
 * Lines whose checksum is wrong are passed over: the end of a write that a crash cut off, none of
 * which counted as kept. When most of the file is of records that are gone, it is written anew
 * beside the old one, which it then replaces.
 *
 * Texts are in memory, too, unless the journal was opened as a lean one: then those of kept records
 * are on disk alone, so that memory follows the number of records and not their size.
 *
 * While the disk is full nothing more becomes kept, and it is tried again every second. After a
 * failed sync nobody knows what the disk has: the process ends, and its restart reads the file. So
 * it does if the disk does not give back what is kept. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/must.h"
#include "base/str.h"

struct journal_record {
    struct list node;
    uint64_t number;
    off_t at;   /* of its line, in the file; until it is kept, in what is to be written */
    off_t anew; /* of its line in the file that is to replace this one */
    uint32_t len;
    bool kept;
    char *text; /* NULL: on disk alone */
};

struct journal;

/* Opens the journal of a directory, which is made if it does not exist, and locks it: ERR_LOCKED
 * if another process has it. changed is called on the loop after records have become kept. */
NODISCARD struct err journal_open(uv_loop_t *loop, const char *dir, void (*changed)(void *ctx),
                                  void *ctx, struct journal **out);
/* Likewise a lean one. */
NODISCARD struct err journal_open_lean(uv_loop_t *loop, const char *dir, void (*changed)(void *ctx),
                                       void *ctx, struct journal **out);
/* Waits for what is being written, writes the rest, and closes it. */
void journal_close(struct journal *j);

/* The records, the oldest first: those of the file after journal_open. */
struct list *journal_records(struct journal *j);

/* A new record, of one line of JSON. It is the journal's; valid until it is removed. */
struct journal_record *journal_add(struct journal *j, struct str json);
/* It is not needed any more. A crash soon after may bring it back once. */
void journal_remove(struct journal *j, struct journal_record *r);

/* Not of a lean journal. */
static inline struct str journal_text(const struct journal_record *r)
{
    must(r->text);
    return (struct str){r->text, r->len};
}

/* Adds the text of a record, wherever it is. */
void journal_fetch(const struct journal *j, const struct journal_record *r, struct buf *out);

/* What a file says: calls `is` for each record that was added and `gone` for each removal, in
 * order; returns how many lines are damaged. */
struct journal_reader {
    void (*is)(void *ctx, uint64_t number, struct str json);
    void (*gone)(void *ctx, uint64_t number);
    void *ctx;
};
size_t journal_read(struct str file, const struct journal_reader *r);

/* Adds a line of the file. */
void journal_line(struct buf *b, uint64_t number, struct str json);

#endif
