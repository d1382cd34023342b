/* SPDX-License-Identifier: Apache-2.0 */
#include "net/query.h"

#include "base/buf.h"
#include "net/router.h"

/* Cuts s at the first `at`: what comes before, and in *rest what comes after. */
static struct str cut(struct str s, char at, struct str *rest)
{
    const char *p = s.len ? memchr(s.at, at, s.len) : NULL;
    size_t n = p ? (size_t)(p - s.at) : s.len;
    size_t skip = p ? n + 1 : n;
    *rest = skip < s.len ? (struct str){s.at + skip, s.len - skip} : (struct str){"", 0};
    return (struct str){s.at, n};
}

struct err query_next(struct query_cursor *c, bool *more, struct str *name, struct str *value)
{
    struct str pair = {"", 0};
    while (pair.len == 0 && c->rest.len)
        pair = cut(c->rest, '&', &c->rest);
    *more = pair.len > 0;
    if (!*more)
        return err_none();
    struct str raw_value;
    struct str raw_name = cut(pair, '=', &raw_value);
    TRY(router_decode(raw_name, true, c->arena, name));
    return router_decode(raw_value, true, c->arena, value);
}

bool query_item(struct str *rest, struct str *item)
{
    *item = (struct str){"", 0};
    while (item->len == 0 && rest->len)
        *item = cut(*rest, ',', rest);
    return item->len > 0;
}

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~' || c == ',';
}

void query_write(struct buf *b, struct str text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (is_plain(text.at[i])) {
            buf_byte(b, text.at[i]);
        } else {
            buf_byte(b, '%');
            buf_byte(b, digits[c >> 4]);
            buf_byte(b, digits[c & 15]);
        }
    }
}
