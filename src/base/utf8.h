/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/str.h"

/* Offset of the first byte that is not part of well-formed UTF-8 (RFC 3629:
 * shortest form, no surrogates, up to U+10FFFF), or s.len if all is well. */
size_t utf8_check(struct str s);

/* Length of the longest run of well-formed characters above U+007F that s begins
 * with: it stops at an ASCII byte, at a malformed sequence and at the end. */
size_t utf8_run(struct str s);

/* How many of the first `most` bytes are whole characters, if s is well-formed. */
size_t utf8_whole(struct str s, size_t most);

#endif
