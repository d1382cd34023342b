/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

/* Regular expressions from users, by PCRE2 with limits on matching, so that none
 * can hang the server. Compiled once, immutable afterwards. */

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct pattern;

enum pattern_match { PATTERN_NO, PATTERN_YES, PATTERN_GAVE_UP };

/* ERR_BAD_VALUE with the offset in the pattern. UTF-8 mode; invalid text is matched bytewise
 * as far as it is valid. */
NODISCARD struct err pattern_new(struct str text, struct pattern **out);
void pattern_free(struct pattern *p);
/* The text it was compiled from; valid as long as the pattern. */
struct str pattern_text(const struct pattern *p);
/* Anywhere in the text, as Go's MatchString; at most the first 64 KiB are looked at. */
enum pattern_match pattern_search(const struct pattern *p, struct str text);

#endif
