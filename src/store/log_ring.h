/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_LOG_RING_H
#define STORE_LOG_RING_H

/* Writes that go on without a thread: an io_uring, where the kernel has one and allows it (many
 * containers forbid it). One thread uses it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_ring;

/* For at most that many writes under way. NULL: there is none. */
struct log_ring *log_ring_new(unsigned most);
/* Nothing may be under way. NULL is allowed. */
void log_ring_free(struct log_ring *r);
/* To be polled: readable while log_ring_next has something to tell. */
int log_ring_fd(const struct log_ring *r);

/* Begins to write there; with sync what is written is on the disk at its end. The memory is
 * borrowed until then. False: nothing was begun. */
bool log_ring_write(struct log_ring *r, int fd, const void *bytes, size_t len, uint64_t at,
                    bool sync, unsigned tag);
/* One that has ended: *result is the number of bytes written, or -errno. False: there is none, but
 * never with wait, for which one must be under way. */
bool log_ring_next(struct log_ring *r, bool wait, unsigned *tag, int *result);

#endif
