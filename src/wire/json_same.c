/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/json_same.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/must.h"

struct member {
    struct str key, value;
    size_t place; /* in the text: the later of two with the same key counts */
};

struct members {
    struct member *at;
    size_t count;
};

static struct str text_of(struct json_string raw, struct arena *mem)
{
    struct str text;
    /* A lone surrogate has no characters: it is compared as it is spelt. */
    return json_text(raw, mem, &text).code == ERR_OK ? text : raw.raw;
}

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    int order = str_cmp(x->key, y->key);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

/* The members of an object, sorted by their keys, which differ. */
static struct members members_of(struct str object, struct arena *mem)
{
    struct json_cursor c = json_open(object);
    struct members m = {0};
    struct json_string key;
    size_t cap = 0, kept = 0;
    bool more = false;
    struct err err = json_enter_object(&c);
    while (err.code == ERR_OK) {
        err = json_next_member(&c, &more, &key);
        if (err.code != ERR_OK || !more)
            break;
        ARENA_GROW(mem, m.at, m.count, cap, 8);
        m.at[m.count].key = text_of(key, mem);
        m.at[m.count].place = m.count;
        err = json_skip(&c, &m.at[m.count].value);
        m.count++;
    }
    must(err.code == ERR_OK);
    if (m.count)
        qsort(m.at, m.count, sizeof *m.at, compare_members);
    for (size_t i = 0; i < m.count; i++)
        if (i + 1 == m.count || !str_eq(m.at[i].key, m.at[i + 1].key))
            m.at[kept++] = m.at[i];
    m.count = kept;
    return m;
}

static bool same_objects(struct str a, struct str b, struct arena *mem)
{
    struct members x = members_of(a, mem), y = members_of(b, mem);
    if (x.count != y.count)
        return false;
    for (size_t i = 0; i < x.count; i++)
        if (!str_eq(x.at[i].key, y.at[i].key) || !json_same(x.at[i].value, y.at[i].value, mem))
            return false;
    return true;
}

static bool next_element(struct json_cursor *c, struct str *value)
{
    bool more = false;
    struct err err = json_next_element(c, &more);
    if (err.code == ERR_OK && more)
        err = json_skip(c, value);
    must(err.code == ERR_OK);
    return more;
}

static bool same_arrays(struct str a, struct str b, struct arena *mem)
{
    struct json_cursor x = json_open(a), y = json_open(b);
    struct err err = json_enter_array(&x);
    must(err.code == ERR_OK);
    err = json_enter_array(&y);
    must(err.code == ERR_OK);
    for (;;) {
        struct str v, w;
        bool more = next_element(&x, &v);
        if (next_element(&y, &w) != more)
            return false;
        if (!more)
            return true;
        if (!json_same(v, w, mem))
            return false;
    }
}

static bool same_strings(struct str a, struct str b, struct arena *mem)
{
    struct json_cursor x = json_open(a), y = json_open(b);
    struct json_string v, w;
    struct err err = json_read_string(&x, &v);
    must(err.code == ERR_OK);
    err = json_read_string(&y, &w);
    must(err.code == ERR_OK);
    return str_eq(text_of(v, mem), text_of(w, mem));
}

static double number_of(struct str text, struct arena *mem)
{
    char *z = arena_get(mem, text.len + 1);
    memcpy(z, text.at, text.len);
    z[text.len] = '\0';
    return strtod(z, NULL);
}

bool json_same(struct str a, struct str b, struct arena *mem)
{
    struct json_cursor x = json_open(a), y = json_open(b);
    enum json_type type, other;
    if (str_eq(a, b))
        return true;
    struct err err = json_peek(&x, &type);
    must(err.code == ERR_OK);
    err = json_peek(&y, &other);
    must(err.code == ERR_OK);
    if (type != other)
        return false;
    switch (type) {
    case JSON_OBJECT:
        return same_objects(a, b, mem);
    case JSON_ARRAY:
        return same_arrays(a, b, mem);
    case JSON_STRING:
        return same_strings(a, b, mem);
    case JSON_NUMBER:
        return number_of(a, mem) == number_of(b, mem);
    default:
        return false; /* null, true and false are spelt in one way */
    }
}
