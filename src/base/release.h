/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RELEASE_H
#define BASE_RELEASE_H

#include <stdatomic.h>
#include <stdbool.h>

/* Freeing the bytes of a large file without holding up whoever writes to the same disk: to unlink
 * 64 MiB at once keeps a synced write of 4 KiB on ext4 waiting for 10 to 25 ms, where it takes 0.1
 * otherwise; freed by 4 MiB it takes 2 at most. Here it is a MiB at a time. */

/* Whether release_file would take its time with this one, once it has no name. */
bool release_takes_time(int fd);
/* Closes a file that is open for writing. If it has no name any more, and the disk has much room,
 * its bytes are freed piece by piece, with more rest than work between; where room is scarce, at
 * once, as when *hurry, which may be NULL, becomes true. Blocks. */
void release_file(int fd, const _Atomic bool *hurry);

#endif
