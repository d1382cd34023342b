/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/must.h"
#include "base/pattern.h"
#include "base/re2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is translated is refused with its place, or is a pattern that PCRE2 reads or refuses. */
static void translate(struct str text)
{
    struct buf meant = {0};
    struct pattern *p = NULL;
    struct err e = re2_translate(text, &meant);
    if (e.code == ERR_OK)
        e = pattern_new(buf_view(&meant), &p);
    else
        must(e.offset >= 0 && (size_t)e.offset <= text.len);
    must(e.code == ERR_OK || (e.code == ERR_BAD_VALUE && e.msg[0] != '\0'));
    pattern_free(p);
    buf_fini(&meant);
}

/* The input is a pattern, a zero byte, a text. The text is searched as it is and, because
 * catastrophic backtracking needs length, repeated up to the maximum that is searched. The fuzzer's
 * -timeout checks that both searches end soon. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char repeated[PATTERN_TEXT_MAX];
    const char *in = (const char *)data;
    const char *end = size ? memchr(in, '\0', size) : NULL;
    struct str text = {in, end ? (size_t)(end - in) : size};
    struct pattern *p;
    translate(text);
    struct err e = pattern_new(text, &p);
    if (e.code != ERR_OK) {
        must(e.code == ERR_BAD_VALUE && e.msg[0] != '\0');
        must(e.offset >= 0 && (size_t)e.offset <= text.len);
        return 0;
    }
    must(str_eq(pattern_text(p), text));
    struct str subject = {end ? end + 1 : NULL, end ? size - text.len - 1 : 0};
    uint64_t steps = PATTERN_STEPS_MAX, again = PATTERN_STEPS_MAX;
    enum pattern_match m = pattern_search(p, subject, &steps);
    must(pattern_search(p, subject, &again) == m && again == steps);
    /* With as many steps as it took the result is the same, with fewer it gives up. */
    uint64_t took = PATTERN_STEPS_MAX - steps, less = took - 1;
    must(m == PATTERN_GAVE_UP || pattern_search(p, subject, &took) == m);
    must(pattern_search(p, subject, &less) == PATTERN_GAVE_UP);
    if (subject.len) {
        for (size_t i = 0; i < sizeof repeated; i++)
            repeated[i] = subject.at[i % subject.len];
        steps = PATTERN_STEPS_MAX;
        (void)pattern_search(p, (struct str){repeated, sizeof repeated}, &steps);
    }
    pattern_free(p);
    return 0;
}
