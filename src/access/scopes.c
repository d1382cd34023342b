/* SPDX-License-Identifier: Apache-2.0 */
#include "access/scopes.h"

#include <stdlib.h>

static bool ends_in_star(struct str s)
{
    return s.len > 0 && s.at[s.len - 1] == '*';
}

static bool begins_with(struct str s, struct str prefix)
{
    return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.at, prefix.at, prefix.len) == 0);
}

/* The text before the star, or all of it. */
static struct str stem(struct str scope)
{
    scope.len -= ends_in_star(scope);
    return scope;
}

struct err scope_check(struct str scope)
{
    if (scope.len > SCOPE_LENGTH_MAX)
        return err_at(ERR_BAD_VALUE, SCOPE_LENGTH_MAX, "a scope has at most %d characters",
                      SCOPE_LENGTH_MAX);
    for (size_t i = 0; i < scope.len; i++)
        if (scope.at[i] < 0x20 || scope.at[i] > 0x7e)
            return err_at(ERR_BAD_VALUE, (int64_t)i,
                          "a scope consists of printable ASCII characters");
    if (ends_in_star(stem(scope)) && ends_in_star(scope))
        return err_at(ERR_BAD_VALUE, (int64_t)scope.len - 2, "a scope ends in at most one '*'");
    return err_none();
}

bool scope_satisfies(struct str have, struct str want)
{
    return ends_in_star(have) ? begins_with(want, stem(have)) : str_eq(have, want);
}

/* --- reading --- */

static struct err count_elements(struct json_cursor c, size_t *count)
{
    TRY(json_enter_array(&c));
    for (*count = 0;; ++*count) {
        bool more;
        TRY(json_next_element(&c, &more));
        if (!more)
            return err_none();
        TRY(json_skip(&c, NULL));
    }
}

static struct err read_scope(struct json_cursor *c, struct arena *a, struct str *scope)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    TRY(json_text(s, a, scope));
    struct err err = scope_check(*scope);
    if (err.code != ERR_OK)
        err.offset += (int64_t)s.offset;
    return err;
}

struct err scopes_read(struct json_cursor *c, struct arena *a, const struct str **scopes,
                       size_t *count)
{
    TRY(count_elements(*c, count));
    if (*count > SCOPES_MAX)
        return err_at(ERR_TOO_MANY, (int64_t)c->pos, "at most %d scopes", SCOPES_MAX);
    struct str *list = arena_get(a, (*count + 1) * sizeof *list);
    bool more;
    TRY(json_enter_array(c));
    for (size_t i = 0;; i++) {
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        TRY(read_scope(c, a, &list[i]));
    }
    *scopes = list;
    return err_none();
}

/* --- sets --- */

/* Sorts by the text before a star; with a star first, then without. So a scope P* comes directly
 * before everything that it satisfies. */
static int compare(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    int c = str_cmp(stem(*x), stem(*y));
    return c ? c : (int)ends_in_star(*y) - (int)ends_in_star(*x);
}

struct err scope_set_make(const struct str *scopes, size_t count, struct arena *a,
                          struct scope_set *out, size_t *bad)
{
    *out = (struct scope_set){0};
    if (bad)
        *bad = SCOPES_MAX;
    if (count > SCOPES_MAX)
        return err_make(ERR_TOO_MANY, "at most %d scopes", SCOPES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct err err = scope_check(scopes[i]);
        if (bad)
            *bad = i;
        TRY(err);
    }
    if (count == 0)
        return err_none();
    struct str *sorted = arena_get(a, count * sizeof *sorted);
    memcpy(sorted, scopes, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    size_t kept = 1;
    for (size_t i = 1; i < count; i++)
        if (!scope_satisfies(sorted[kept - 1], sorted[i]))
            sorted[kept++] = sorted[i];
    *out = (struct scope_set){sorted, kept};
    return err_none();
}

struct scope_set scope_set_copy(const struct scope_set *s, struct arena *a)
{
    if (s->count == 0)
        return (struct scope_set){0};
    struct str *copy = arena_get(a, s->count * sizeof *copy);
    for (size_t i = 0; i < s->count; i++)
        copy[i] = arena_copy(a, s->at[i]);
    return (struct scope_set){copy, s->count};
}

/* If some P* of the set satisfies `want`, everything between P and `want` in the order begins with
 * P, and is therefore not in the set: only the last scope not after `want` can satisfy it. */
bool scope_set_satisfies(const struct scope_set *s, struct str want)
{
    size_t lo = 0, hi = s->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (str_cmp(stem(s->at[mid]), want) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 && scope_satisfies(s->at[lo - 1], want);
}

bool scope_set_covers(const struct scope_set *s, const struct scope_set *want)
{
    for (size_t i = 0; i < want->count; i++)
        if (!scope_set_satisfies(s, want->at[i]))
            return false;
    return true;
}
