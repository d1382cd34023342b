/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

/* Amounts of memory, and of processors, as Kubernetes writes them. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define QUANTITY_MAX ((uint64_t)1 << 60)
/* For messages. */
#define QUANTITY_EXPECTED "an amount like 512Mi, 4Gi, 1.5Gi or 500M, from 1 byte to 1Ei"

/* Digits, with a fraction if wanted, and Ki, Mi, Gi, Ti, Pi, Ei (powers of 1024), k, M, G, T, P, E
 * (powers of 1000) or nothing (bytes). A part of a byte counts as one. False if it is none of
 * these, 0, or over QUANTITY_MAX. */
bool quantity_parse(struct str text, uint64_t *bytes);
/* The same for options of commands, which may also write it as sizes are written elsewhere:
 * "1.5GiB", "10 MB" (duration_parse_size). */
bool quantity_parse_option(struct str text, uint64_t *bytes);
/* The shortest that reads back the same. */
void quantity_write(struct buf *b, uint64_t bytes);

/* Processors, in thousandths of one. */
#define QUANTITY_CPU_MAX      ((uint64_t)1000000000) /* a million of them */
#define QUANTITY_CPU_EXPECTED "an amount of CPUs like 500m, 2 or 1.5, up to 1000000"

/* Digits, with a fraction if wanted, and m (thousandths) or nothing. A part of a thousandth counts
 * as one. False if it is neither, 0, or over QUANTITY_CPU_MAX. */
bool quantity_parse_cpu(struct str text, uint64_t *thousandths);
/* "1500m", or "2" where that is the same. */
void quantity_write_cpu(struct buf *b, uint64_t thousandths);

/* Whatever Kubernetes accepts for an amount that is not negative: also n, u, m, exponents (12e6), a
 * sign and a point without digits before or after it. Times scale, rounded up; false if it is none
 * or the result is over max. */
bool quantity_read(struct str text, uint64_t scale, uint64_t max, uint64_t *out);

#endif
