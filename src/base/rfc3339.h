/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RFC3339_H
#define BASE_RFC3339_H

/* Points in time as RFC 3339 §5.6 spells them. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

/* With a zone, from 1970 on: "2026-11-21T09:00:00.125Z", "2026-11-21 10:00:00+01:00". Digits beyond
 * milliseconds are passed over. */
bool rfc3339_parse(struct str text, instant *t);
/* In UTC with milliseconds; up to the year 9999. */
void rfc3339_write(struct buf *b, instant t);

#endif
