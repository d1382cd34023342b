/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

/* Regular expressions from users, by PCRE2 within a budget, so that none can hang the
 * server: a search that is not decided by then gives up, after some tens of milliseconds
 * at most for what people write. Compiled once, immutable afterwards: any number of
 * threads may search with one pattern.
 *
 * The dialect is Perl's as PCRE2 has it, without what no budget could bound or what Go's
 * regexp lacks for the same reason: back references and \C. Letters are Unicode; \d, \w,
 * \s and \b are ASCII; '.' matches no line feed; '$' also matches before a line feed that
 * ends the text. (?i), (?s), (?m) and (?x) change that as usual. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define PATTERN_LENGTH_MAX 2048              /* bytes of a pattern */
#define PATTERN_TEXT_MAX   ((size_t)1 << 16) /* bytes of a text that are looked at */
#define PATTERN_STEPS_MAX  2500000           /* that one search may take: 20 ms at most */

struct pattern;

enum pattern_match { PATTERN_NO, PATTERN_YES, PATTERN_GAVE_UP };

/* ERR_BAD_VALUE with the offset in the pattern and PCRE2's words for what is wrong there;
 * *out is only written on success. */
NODISCARD struct err pattern_new(struct str text, struct pattern **out);
void pattern_free(struct pattern *p); /* NULL is fine */
/* How much work pattern_new would have with the text besides reading it, in bytes that it would
 * compile in the same time: in a pattern that ignores case it looks at every character of every
 * range, and 2,048 bytes hold ranges for a third of a second. May be too much, never too little;
 * patterns of strangers are asked about before they are compiled. */
uint64_t pattern_range_effort(struct str text);
/* Bytes of the compiled pattern. */
size_t pattern_size(const struct pattern *p);
/* The text it was compiled from; valid as long as the pattern. */
struct str pattern_text(const struct pattern *p);
/* Anywhere in the text, as Go's MatchString; at most its first PATTERN_TEXT_MAX bytes are
 * looked at. Bytes that are not valid UTF-8 match nothing, and no match extends over them.
 * steps: how many this search and those after it may take together; lowered by what it took. One
 * that would take more of them than are left gives up, and they are used up. */
enum pattern_match pattern_search(const struct pattern *p, struct str text, uint64_t *steps);

#endif
