/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RE2_H
#define BASE_RE2_H

/* Patterns in the syntax of RE2, as Go's regexp package reads it, in that of base/pattern.h: what a
 * file of Armada says means here what it means there. Pure. */

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Appends a pattern that finds in the same texts. ERR_BAD_VALUE with the offset for what RE2
 * refuses: look-around, atomic groups, possessive repetitions, back references, unknown escapes,
 * repetitions of more than 1,000. The text is valid UTF-8. */
NODISCARD struct err re2_translate(struct str text, struct buf *out);

#endif
