/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENAX_BASE_CLOSEST_H
#define TENAX_BASE_CLOSEST_H

/* Which of some words was meant by one that is none of them, to be suggested to whoever typed it.
 */

#include "base/str.h"

struct closest {
    struct str typed;
    struct str word; /* the best so far, or empty */
    size_t fewest;
};

/* Nothing yet. The typed text must live as long as the result. */
struct closest closest_to(struct str typed);
/* Considers a word, which must live as long as the result. Best is one that differs in nothing but
 * capitals, underscores and hyphens; then the one with the fewest typing errors, two at most; then
 * the first of which the typed text is a beginning. */
void closest_offer(struct closest *c, struct str word);

#endif
