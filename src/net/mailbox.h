/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_MAILBOX_H
#define NET_MAILBOX_H

/* Bytes from one thread to another, in batches: the writer gathers without a lock and posts all it
 * has at once; the reader is woken once per batch and takes all that was posted. The lock is held
 * while pointers are swapped, or while a batch is added to one that was not taken yet. Unlimited:
 * its users limit what they put in. */

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "base/buf.h"

struct mailbox {
    struct buf filling; /* the writer's */
    pthread_mutex_t lock;
    struct buf posted; /* under the lock */
    uv_async_t *wake;  /* of the reader */
};

/* wake is borrowed. */
void mailbox_init(struct mailbox *m, uv_async_t *wake);
/* After both threads are done with it. */
void mailbox_fini(struct mailbox *m);
/* Gives the reader what is in `filling`, and wakes it. The writer's. */
void mailbox_post(struct mailbox *m);
/* Swaps an empty buffer for all that was posted; false if that is nothing. The reader's. */
bool mailbox_take(struct mailbox *m, struct buf *into);

#endif
