/* SPDX-License-Identifier: Apache-2.0 */

/* The input is used as a query string and as a segment of a path. Whatever decodes must be valid
 * UTF-8 and, encoded again, must decode to the same. */

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/must.h"
#include "base/utf8.h"
#include "net/query.h"
#include "net/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_decoded(struct str text, struct arena *a)
{
    must(utf8_check(text) == text.len);
    struct buf written = {0};
    query_write(&written, text);
    struct str again;
    struct err e = router_decode(buf_view(&written), true, a, &again);
    must(e.code == ERR_OK && str_eq(again, text));
    buf_fini(&written);
}

static void check_items(struct str list)
{
    size_t length = 0, count = 0;
    struct str rest = list, item;
    while (query_item(&rest, &item)) {
        must(item.len && !memchr(item.at, ',', item.len));
        length += item.len;
        count++;
    }
    /* All of it except the commas, one fewer than items at least; members that are empty are
     * absent. */
    must(length + count <= list.len + 1);
}

static void check_query(struct str query, struct arena *a)
{
    struct query_cursor c = query_open(query, a);
    for (;;) {
        bool more;
        struct str name, value;
        struct err e = query_next(&c, &more, &name, &value);
        must(e.code == ERR_OK || e.code == ERR_BAD_REQUEST);
        if (e.code != ERR_OK || !more)
            return;
        must(name.len + value.len <= query.len);
        check_decoded(name, a);
        check_decoded(value, a);
        check_items(value);
    }
}

static void check_segment(struct str segment, struct arena *a)
{
    struct str out;
    struct err e = router_decode(segment, false, a, &out);
    must(e.code == ERR_OK || e.code == ERR_BAD_REQUEST);
    if (e.code != ERR_OK)
        return;
    must(out.len <= segment.len);
    check_decoded(out, a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Memory of its own, so that a read past the end is detected. */
    char *copy = malloc(size + !size);
    must(copy);
    if (size)
        memcpy(copy, data, size);
    struct str text = {copy, size};
    struct arena a = {0};
    check_query(text, &a);
    check_segment(text, &a);
    check_items(text);
    arena_fini(&a);
    free(copy);
    return 0;
}
