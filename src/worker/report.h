/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_REPORT_H
#define WORKER_REPORT_H

/* Reports about a run: to the server as JSON, to a person as a line. */

#include "base/buf.h"
#include "worker/child.h"
#include "client/table.h"

/* A failure as members of the body of POST /jobs/{id}/failure, each preceded by a comma. timeout >
 * 0 means that the run was ended because it took longer than that. */
void report_failure(struct buf *body, const struct child *c, span timeout, bool kill);
/* Adds `,"category":…` and `,"subcategory":…` from the last line `category=…` of the text; nothing
 * if there is no such line. */
void report_category(struct buf *body, struct str text);
/* A failure to start the command. */
void report_no_start(struct buf *body, const char *why);

/* Adds `,"key":"text"`, with every byte that is not UTF-8 replaced. */
void report_text(struct buf *body, const char *key, struct str text);
/* The first max bytes of it, cut between characters. */
struct str report_cut(struct str s, size_t max);

/* How it ended, in a few words: "exit status 3", "signal 9 (Killed)". */
void report_ending(struct buf *b, int status);

/* One line on standard error: the time, a word in the colour of the style, the text. */
void report_line(enum table_style style, const char *word, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
