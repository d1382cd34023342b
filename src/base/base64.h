/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

/* Base64 (RFC 4648 §4 and §5). Reading is strict: one text per sequence of bytes and alphabet, so
 * that what is signed cannot be written in two ways. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

/* With '+', '/' and padding. */
void base64_write(struct buf *b, struct str bytes);
/* With '-' and '_', without padding: for URLs. */
void base64_write_url(struct buf *b, struct str bytes);

/* Reads either alphabet, but not both in one text, with its padding or without any. False if a
 * character is foreign, the length is impossible, or bits behind the last byte are set. The bytes
 * live in the arena. */
bool base64_read(struct str text, struct arena *a, struct str *bytes);

#endif
