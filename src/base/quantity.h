/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_QUANTITY_H
#define BASE_QUANTITY_H

/* Amounts of memory as Kubernetes writes them. */

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
/* The shortest that reads back the same. */
void quantity_write(struct buf *b, uint64_t bytes);

#endif
