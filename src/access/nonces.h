/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_NONCES_H
#define ACCESS_NONCES_H

/* Remembers requests, so that none is accepted twice. A request states when it was sent, and is
 * refused if that is outside of the window around now; so a nonce need only be remembered until its
 * second has left the window. There is one set of nonces per second.
 *
 * Memory is bounded. When it is used up, the window begins later: whole seconds are forgotten, the
 * oldest first, and requests from them are refused like all that are too old. So a replay is never
 * accepted, and a client with a correct clock notices nothing. The nonces are lost when the process
 * ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/units.h"

/* Clocks that differ by less are correct: they are never refused for lack of memory. */
#define NONCES_WINDOW_MIN ((span){10 * 1000})
#define NONCES_WINDOW_MAX ((span){24 * 3600 * 1000})

struct nonces;

enum nonces_verdict {
    NONCES_NEW,   /* and now remembered */
    NONCES_SEEN,  /* a replay */
    NONCES_STALE, /* its time is too far from now */
    NONCES_FULL,  /* no memory, and none can be freed */
};

/* seed: unknown to clients. window: up to NONCES_WINDOW_MAX. most: nonces that are remembered at
 * the same time. */
struct nonces *nonces_new(span window, size_t most, uint64_t seed);
void nonces_free(struct nonces *n);

/* Remembers a client's nonce, sent at `seconds` since 1970 by the client's clock. Only for requests
 * whose MAC is right: others must not use up the memory. If the server's clock is set back, the
 * window begins NONCES_WINDOW_MIN before the new time, and grows again. */
enum nonces_verdict nonces_see(struct nonces *n, struct str id, struct str nonce, int64_t seconds,
                               instant now);
/* Whether `seconds` is within the window; remembers nothing. */
bool nonces_in_window(const struct nonces *n, int64_t seconds, instant now);
size_t nonces_count(const struct nonces *n);

#endif
