/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A borrowed run of bytes, not NUL-terminated. Whoever hands one out says how
 * long it stays valid. The empty string may have at == NULL. */
struct str {
    const char *at;
    size_t len;
};

#define STR(literal) ((struct str){(literal), sizeof(literal) - 1})
/* For printf's "%.*s". */
#define STR_ARG(s) (int)(s).len, (s).at ? (s).at : ""

/* For "'%.*s'" in a message: at most 64 bytes of a name that a client gave. */
#define NAME_ARG(name) (int)((name).len < 64 ? (name).len : 64), (name).at

static inline struct str str_from(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* In the order of the bytes. */
static inline int str_cmp(struct str a, struct str b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.at, b.at, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

/* The same for qsort and bsearch over struct str. */
static inline int str_cmp_at(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

#endif
