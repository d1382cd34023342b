/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DURATION_H
#define BASE_DURATION_H

/* Durations and sizes as people write them in settings. */

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

/* "1500" is raw milliseconds; otherwise one or more numbers (a fraction is allowed) with units as
 * humantime writes them, with or without spaces: "12.5s", "1h30m", "2hours 5min", "1week". A year
 * has 365 days, M is a month (30.44 days) and m a minute. Rounded to milliseconds, but more than
 * nothing is at least 1. Negative, empty, non-finite or over SPAN_MAX_MS is ERR_BAD_VALUE with a
 * message that names what is accepted. */
NODISCARD struct err duration_parse(struct str text, span *d);
/* For people: "350 ms", "46.2 s", "12 min 5 s", "3 h 20 min", "6 d 23 h"; at most two parts. */
void duration_write(struct buf *b, span d);
/* "1048576" is bytes; units as bytesize writes them, in any case, after a space or not: k or KB,
 * MB, GB ... (powers of 1000) and Ki or KiB, MiB, GiB ... (powers of 1024). "1.5GiB" is accepted;
 * parts of a byte are left out. */
NODISCARD struct err duration_parse_size(struct str text, uint64_t *bytes);

#endif
