/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a value fits a compiled schema: one pass over a text that is known to be JSON. */

#include <stdlib.h>

#include "base/must.h"
#include "base/rfc3339.h"
#include "base/utf8.h"
#include "taskcluster/tc_schema_internal.h"

#define PROBLEMS_MAX 10
/* Steps that the patterns of one body may take together. */
#define STEPS_MAX ((uint64_t)2000000)

/* Where a value is, for the words about it. */
struct place {
    const struct place *up;
    struct str name; /* of a member; else index is meant */
    size_t index;
};

struct check {
    struct json_cursor c;
    struct arena *arena;
    struct buf *problems; /* NULL: nobody wants to know */
    int count;            /* of problems */
    uint64_t steps;
};

static void write_place(struct buf *b, const struct place *p)
{
    if (!p->up) {
        buf_lit(b, "data");
        return;
    }
    write_place(b, p->up);
    if (p->name.at)
        buf_print(b, "/%.*s", NAME_ARG(p->name));
    else
        buf_print(b, "/%zu", p->index);
}

/* Begins a line about this place; NULL if there are enough. */
static struct buf *problem(struct check *k, const struct place *p)
{
    k->count++;
    if (!k->problems || k->count > PROBLEMS_MAX)
        return NULL;
    if (k->problems->len)
        buf_byte(k->problems, '\n');
    buf_lit(k->problems, "  * ");
    write_place(k->problems, p);
    return k->problems;
}

static void say(struct check *k, const struct place *p, const char *words)
{
    struct buf *b = problem(k, p);
    if (b)
        buf_print(b, " must %s", words);
}

static void say_number(struct check *k, const struct place *p, const char *words, double n)
{
    struct buf *b = problem(k, p);
    if (b)
        buf_print(b, " must %s %.0f", words, n);
}

static void check_value(struct check *k, const struct schema *n, const struct place *p);

/* --- values without parts --- */

static bool is_word(const struct schema *n, struct str text)
{
    for (size_t i = 0; i < n->word_count; i++)
        if (str_eq(n->words[i], text))
            return true;
    return false;
}

static void say_words(struct check *k, const struct schema *n, const struct place *p)
{
    struct buf *b = problem(k, p);
    if (!b)
        return;
    buf_lit(b, " must be equal to one of the allowed values:");
    for (size_t i = 0; i < n->word_count; i++)
        buf_print(b, "%s '%.*s'", i ? "," : "", STR_ARG(n->words[i]));
}

/* Of valid UTF-8. */
static uint64_t count_characters(struct str text)
{
    uint64_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += ((unsigned char)text.at[i] & 0xc0) != 0x80;
    return n;
}

static void check_string(struct check *k, const struct schema *n, const struct place *p)
{
    struct json_string raw;
    struct str text;
    instant t;
    struct err err = json_read_string(&k->c, &raw);
    must(err.code == ERR_OK);
    if (json_text(raw, k->arena, &text).code != ERR_OK) {
        say(k, p, "be valid Unicode");
        return;
    }
    uint64_t length = count_characters(text);
    if (n->word_count && !is_word(n, text))
        say_words(k, n, p);
    if (length < n->length_min)
        say_number(k, p, "have at least so many characters:", (double)n->length_min);
    if (length > n->length_max)
        say_number(k, p, "have at most so many characters:", (double)n->length_max);
    if (n->date_time && !rfc3339_parse(text, &t))
        say(k, p, "match format \"date-time\"");
    if (n->pattern && pattern_search(n->pattern, text, &k->steps) != PATTERN_YES) {
        struct buf *b = problem(k, p);
        if (b)
            buf_print(b, " must match pattern \"%.*s\"", STR_ARG(pattern_text(n->pattern)));
    }
}

static void check_number(struct check *k, const struct schema *n, const struct place *p)
{
    struct str raw;
    char text[64];
    struct err err = json_skip(&k->c, &raw);
    must(err.code == ERR_OK);
    size_t len = raw.len < sizeof text - 1 ? raw.len : sizeof text - 1;
    memcpy(text, raw.at, len);
    text[len] = '\0';
    double v = strtod(text, NULL);
    if (v < n->minimum)
        say_number(k, p, "be >=", n->minimum);
    if (v > n->maximum)
        say_number(k, p, "be <=", n->maximum);
    bool listed = n->number_count == 0;
    for (size_t i = 0; i < n->number_count; i++)
        listed = listed || (double)n->numbers[i] == v;
    if (!listed)
        say(k, p, "be equal to one of the allowed values");
}

static void check_bool(struct check *k, const struct schema *n, const struct place *p)
{
    bool v;
    struct err err = json_read_bool(&k->c, &v);
    must(err.code == ERR_OK);
    if (n->always_true && !v)
        say(k, p, "be true");
}

/* --- lists --- */

static int compare_raw(const void *a, const void *b)
{
    return str_cmp_at(a, b);
}

/* Values count as equal if they are spelt alike, which is so for the identifiers that these lists
 * are of. */
static void check_unique(struct check *k, const struct place *p, struct str *raws, size_t count)
{
    qsort(raws, count, sizeof *raws, compare_raw);
    for (size_t i = 1; i < count; i++) {
        if (!str_eq(raws[i - 1], raws[i]))
            continue;
        struct buf *b = problem(k, p);
        if (b)
            buf_print(b, " must NOT have duplicate items (%.*s)", NAME_ARG(raws[i]));
        return;
    }
}

static void check_array(struct check *k, const struct schema *n, const struct place *p)
{
    struct str *raws = NULL;
    size_t count = 0, cap = 0;
    bool more;
    struct err err = json_enter_array(&k->c);
    for (;; count++) {
        must(err.code == ERR_OK);
        err = json_next_element(&k->c, &more);
        must(err.code == ERR_OK);
        if (!more)
            break;
        struct json_cursor from = k->c;
        if (n->items)
            check_value(k, n->items, &(struct place){p, {0}, count});
        else
            err = json_skip(&k->c, NULL);
        if (!n->unique)
            continue;
        ARENA_GROW(k->arena, raws, count, cap, 16);
        err = json_skip(&from, &raws[count]);
    }
    if (count < n->items_min)
        say_number(k, p, "NOT have fewer items than", (double)n->items_min);
    if (count > n->items_max)
        say_number(k, p, "NOT have more items than", (double)n->items_max);
    if (count > 1 && n->unique)
        check_unique(k, p, raws, count);
}

/* --- objects --- */

static const struct schema_prop *find_prop(const struct schema *n, struct str name, size_t *at)
{
    for (*at = 0; *at < n->prop_count; ++*at)
        if (str_eq(n->props[*at].name, name))
            return &n->props[*at];
    return NULL;
}

static void check_member(struct check *k, const struct schema *n, const struct place *p,
                         struct str name, uint64_t *seen)
{
    const struct place here = {p, name, 0};
    size_t at;
    const struct schema_prop *prop = find_prop(n, name, &at);
    if (prop) {
        if (*seen & UINT64_C(1) << at)
            say(k, &here, "NOT be given twice");
        *seen |= UINT64_C(1) << at;
    }
    if (prop && prop->schema) {
        check_value(k, prop->schema, &here);
        return;
    }
    if (n->closed && !prop) {
        struct buf *b = problem(k, p);
        if (b)
            buf_print(b, " must NOT have additional properties: '%.*s'", NAME_ARG(name));
    }
    if (n->others && !prop) {
        check_value(k, n->others, &here);
        return;
    }
    struct err err = json_skip(&k->c, NULL);
    must(err.code == ERR_OK);
}

static void check_object(struct check *k, const struct schema *n, const struct place *p)
{
    uint64_t seen = 0;
    struct json_string key;
    struct str name;
    bool more;
    struct err err = json_enter_object(&k->c);
    for (;;) {
        must(err.code == ERR_OK);
        err = json_next_member(&k->c, &more, &key);
        must(err.code == ERR_OK);
        if (!more)
            break;
        if (json_text(key, k->arena, &name).code != ERR_OK)
            name = key.raw;
        check_member(k, n, p, name, &seen);
    }
    for (size_t i = 0; i < n->prop_count; i++) {
        const struct schema *of = n->props[i].schema;
        if (!n->props[i].required || seen & UINT64_C(1) << i || (of && of->has_default))
            continue;
        struct buf *b = problem(k, p);
        if (b)
            buf_print(b, " must have required property '%.*s'", STR_ARG(n->props[i].name));
    }
}

/* --- any value --- */

static bool fits_type(const struct check *k, unsigned types, enum json_type type)
{
    if (types == 0 || types & TYPE_BIT(type))
        return true;
    struct json_cursor c = k->c;
    int64_t v;
    return types & TYPE_INTEGER && type == JSON_NUMBER &&
           json_read_int(&c, INT64_MIN, INT64_MAX, &v).code == ERR_OK;
}

static void say_types(struct check *k, const struct schema *n, const struct place *p)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "boolean", [JSON_NUMBER] = "number",
        [JSON_STRING] = "string", [JSON_ARRAY] = "array",  [JSON_OBJECT] = "object"};
    struct buf *b = problem(k, p);
    const char *sep = " must be ";
    if (!b)
        return;
    for (unsigned t = JSON_NULL; t <= JSON_OBJECT; t++) {
        if (!(n->types & TYPE_BIT(t)))
            continue;
        buf_print(b, "%s%s", sep, names[t]);
        sep = " or ";
    }
    if (n->types & TYPE_INTEGER)
        buf_print(b, "%sinteger", sep);
}

/* Leaves the cursor where it is. */
static void check_any(struct check *k, const struct schema *n, const struct place *p)
{
    for (size_t i = 0; i < n->any_count; i++) {
        struct check quiet = {.c = k->c, .arena = k->arena, .steps = k->steps};
        check_value(&quiet, n->any[i], p);
        k->steps = quiet.steps;
        if (quiet.count == 0)
            return;
    }
    say(k, p, "match one of the alternatives of its schema");
}

static void check_value(struct check *k, const struct schema *n, const struct place *p)
{
    while (n->to)
        n = n->to;
    enum json_type type;
    struct err err = json_peek(&k->c, &type);
    must(err.code == ERR_OK);
    if (n->any_count)
        check_any(k, n, p);
    if (!fits_type(k, n->types, type)) {
        say_types(k, n, p);
        type = JSON_NULL; /* nothing more to say of it */
    }
    switch (type) {
    case JSON_STRING:
        check_string(k, n, p);
        break;
    case JSON_NUMBER:
        check_number(k, n, p);
        break;
    case JSON_ARRAY:
        check_array(k, n, p);
        break;
    case JSON_OBJECT:
        check_object(k, n, p);
        break;
    case JSON_BOOL:
        check_bool(k, n, p);
        break;
    default:
        err = json_skip(&k->c, NULL);
        must(err.code == ERR_OK);
        break;
    }
}

bool tc_schemas_check(const struct tc_schemas *s, const char *name, struct str json,
                      struct arena *a, struct buf *problems)
{
    struct check k = {
        .c = json_open_sound(json), .arena = a, .problems = problems, .steps = STEPS_MAX};
    check_value(&k, tc_schemas_root(s, str_from(name)), &(struct place){0});
    if (k.count > PROBLEMS_MAX)
        buf_print(problems, "\n  * and %d more", k.count - PROBLEMS_MAX);
    return k.count == 0;
}
