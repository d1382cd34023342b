/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_WRONG_TRIES_H
#define ACCESS_WRONG_TRIES_H

/* How often wrong credentials came from where, to slow down who guesses. Each address may be wrong
 * `burst` times at once, and `burst` times a minute in the long run. Of IPv6 the first 64 bits
 * count, which a customer of a provider has for himself.
 *
 * Memory is bounded and made at once: of more addresses than WRONG_TRIES_MAX some are forgotten,
 * those first that were wrong least recently. Which ones share a place cannot be chosen without the
 * seed. */

#include <stdint.h>

#include "base/str.h"
#include "base/units.h"

#define WRONG_TRIES_MAX 8192

struct wrong_tries;

/* burst 0: there is no limit. */
struct wrong_tries *wrong_tries_new(uint32_t burst, uint64_t seed);
void wrong_tries_free(struct wrong_tries *t);

/* Wrong credentials came from there. The result is 0 if they count as any others; otherwise there
 * were too many, and the next ones should come after so many seconds. An address that is no IP
 * address shares its place with all such. */
uint32_t wrong_tries_note(struct wrong_tries *t, struct str address, instant now);
/* The same of credentials that are yet to be judged: nothing is noted. */
uint32_t wrong_tries_wait(const struct wrong_tries *t, struct str address, instant now);

#endif
