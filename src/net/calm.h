/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_CALM_H
#define NET_CALM_H

/* How much nuisance a peer may make before its connection is ended. What makes work without
 * being of use (a ping, a reset) spends; useful work and time earn. HTTP/2 has many frames
 * that cost their sender nothing: CVE-2019-9511 to 9518, CVE-2023-44487, CVE-2024-27316. */

#include <stdbool.h>
#include <stdint.h>

#define CALM_MAX        4000
#define CALM_PER_SECOND 400

struct calm {
    int64_t left;
    uint64_t at; /* ms */
};

static inline struct calm calm_new(uint64_t now)
{
    return (struct calm){CALM_MAX, now};
}

/* False once the patience is at its end. */
bool calm_spend(struct calm *c, uint64_t now, int64_t cost);
void calm_earn(struct calm *c, int64_t gain);

#endif
