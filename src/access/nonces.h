/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_NONCES_H
#define ACCESS_NONCES_H

/* Which requests were seen, so that none is accepted twice. A request says when it was sent, and
 * is refused if that is not within the window around now; so a nonce need only be remembered until
 * the second that came with it has left the window. There is one set of nonces per second.
 *
 * Memory is bounded. When it is used up, the window begins later: whole seconds are forgotten, the
 * oldest first, and requests from them refused like all that are too old. So a replay is never
 * accepted, and a client whose clock is right does not notice. What was seen is lost when the
 * process ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/units.h"

/* Clocks that are apart by less are right: they are never refused for want of memory. */
#define NONCES_WINDOW_MIN ((span){10 * 1000})
#define NONCES_WINDOW_MAX ((span){24 * 3600 * 1000})

struct nonces;

enum nonces_verdict {
    NONCES_NEW,   /* and remembered from now on */
    NONCES_SEEN,  /* a replay */
    NONCES_STALE, /* its time is too far from now */
    NONCES_FULL,  /* no memory that might be freed */
};

/* seed: clients do not know it. window: up to NONCES_WINDOW_MAX. most: nonces that are remembered
 * at the same time. */
struct nonces *nonces_new(span window, size_t most, uint64_t seed);
void nonces_free(struct nonces *n);

/* A nonce of a client, sent at `seconds` since 1970 by the client's clock. Only for requests whose
 * MAC is right: others must not use up the memory. Should the server's clock be set back, the
 * window begins NONCES_WINDOW_MIN before the new time, and grows again. */
enum nonces_verdict nonces_see(struct nonces *n, struct str id, struct str nonce, int64_t seconds,
                               instant now);
/* Whether `seconds` is within the window; nothing is remembered. */
bool nonces_in_window(const struct nonces *n, int64_t seconds, instant now);
size_t nonces_count(const struct nonces *n);

#endif
