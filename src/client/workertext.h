/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WORKERTEXT_H
#define CLIENT_WORKERTEXT_H

/* A worker, given as the server's JSON, in words. */

#include "base/buf.h"
#include "base/str.h"

/* "quiet" if it is given nothing more, otherwise "works". */
struct str workertext_state(struct str worker);
/* The queues that it asks for, "a,b"; "all" if it names none. */
void workertext_queues(struct buf *b, struct str worker);

#endif
