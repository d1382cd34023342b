/* SPDX-License-Identifier: Apache-2.0 */

/* The input is the size of a content in one byte, and four lines: Range, If-Range, If-None-Match,
 * If-Modified-Since. A part that is chosen lies inside the content. */

#include <stdint.h>

#include "base/must.h"
#include "net/content_range.h"
#include "net/http_date.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str line(struct str *rest)
{
    const char *end = rest->len ? memchr(rest->at, '\n', rest->len) : NULL;
    struct str l = {rest->at, end ? (size_t)(end - rest->at) : rest->len};
    size_t used = l.len + (end != NULL);
    *rest = (struct str){rest->at + used, rest->len - used};
    return l;
}

static void check_date(struct str text)
{
    char written[HTTP_DATE_LEN + 1];
    int64_t t, again;
    if (!http_date_read(text, &t) || t < 0 || t >= INT64_C(253402300800))
        return; /* a year of other than four digits */
    http_date_write(written, t);
    must(http_date_read(str_from(written), &again) && again == t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str rest = {(const char *)data + 1, size - 1};
    struct content_request r = {.range = line(&rest)};
    r.if_range = line(&rest);
    r.if_none_match = line(&rest);
    r.if_modified_since = line(&rest);
    const struct content_version v = {
        .etag = {"\"tag\"", 5}, .modified = 784111777, .size = data[0] % 16};
    struct content_choice c = content_choose(&r, &v);
    must(c.from <= c.until && c.until <= v.size);
    must(c.answer != CONTENT_PART || c.from < c.until);
    must(c.answer != CONTENT_WHOLE || (c.from == 0 && c.until == v.size));
    r.head = true;
    c = content_choose(&r, &v);
    must(c.answer == CONTENT_WHOLE || c.answer == CONTENT_UNCHANGED);
    check_date(r.if_range);
    check_date(r.if_modified_since);
    return 0;
}
