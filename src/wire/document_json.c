/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "wire/document_internal.h"

/* Offsets only increase while a text is read, so lines are counted in one pass. */
struct reader {
    struct json_cursor cursor;
    struct arena *arena;
    struct document_fault *fault;
    size_t at;
    uint32_t line, column;
};

static void move_to(struct reader *r, size_t offset)
{
    for (; r->at < offset && r->at < r->cursor.text.len; r->at++) {
        unsigned char c = (unsigned char)r->cursor.text.at[r->at];
        if (c == '\n') {
            r->line++;
            r->column = 1;
        } else if ((c & 0xc0) != 0x80) {
            r->column++;
        }
    }
}

/* The scanner's errors have an offset. */
static bool pass_on(struct reader *r, const struct err *e)
{
    if (e->offset >= 0) {
        r->at = 0;
        r->line = r->column = 1;
        move_to(r, (size_t)e->offset);
    }
    document_refuse(r->fault, e->code, r->line, r->column, "valid JSON (%s)", e->msg);
    return false;
}

#define CHECK(r, expr)                                                                             \
    do {                                                                                           \
        struct err check_ = (expr);                                                                \
        if (check_.code != ERR_OK)                                                                 \
            return pass_on((r), &check_);                                                          \
    } while (0)

static bool read_value(struct reader *r, struct document_node *n, unsigned depth);

static bool read_members(struct reader *r, struct document_node *map, unsigned depth)
{
    CHECK(r, json_enter_object(&r->cursor));
    for (;;) {
        bool more;
        struct json_string key;
        CHECK(r, json_next_member(&r->cursor, &more, &key));
        if (!more)
            return true;
        struct document_node *n = ARENA_NEW(r->arena, struct document_node);
        move_to(r, key.offset - 1);
        n->key_line = r->line;
        n->key_column = r->column;
        CHECK(r, json_text(key, r->arena, &n->key));
        if (!document_check_key(map, n->key, r->line, r->column, r->fault) ||
            !read_value(r, n, depth) || !document_append(map, n, r->fault))
            return false;
    }
}

static bool read_elements(struct reader *r, struct document_node *list, unsigned depth)
{
    CHECK(r, json_enter_array(&r->cursor));
    for (;;) {
        bool more;
        CHECK(r, json_next_element(&r->cursor, &more));
        if (!more)
            return true;
        struct document_node *n = ARENA_NEW(r->arena, struct document_node);
        if (!read_value(r, n, depth) || !document_append(list, n, r->fault))
            return false;
    }
}

static bool read_scalar(struct reader *r, struct document_node *n)
{
    struct json_string s;
    if (n->type == DOCUMENT_STRING) {
        CHECK(r, json_read_string(&r->cursor, &s));
        CHECK(r, json_text(s, r->arena, &n->text));
        return true;
    }
    CHECK(r, json_skip(&r->cursor, &n->text));
    if (n->type == DOCUMENT_NUMBER && !document_is_number(n->text))
        return document_refuse(r->fault, ERR_BAD_VALUE, n->line, n->column,
                               "a number below 1.8e308");
    return true;
}

static bool read_value(struct reader *r, struct document_node *n, unsigned depth)
{
    static const enum document_type types[] = {
        [JSON_NULL] = DOCUMENT_NULL,     [JSON_BOOL] = DOCUMENT_BOOL,
        [JSON_NUMBER] = DOCUMENT_NUMBER, [JSON_STRING] = DOCUMENT_STRING,
        [JSON_ARRAY] = DOCUMENT_LIST,    [JSON_OBJECT] = DOCUMENT_MAP,
    };
    enum json_type type;
    CHECK(r, json_peek(&r->cursor, &type));
    move_to(r, r->cursor.pos);
    n->type = types[type];
    n->line = r->line;
    n->column = r->column;
    if (n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP)
        return read_scalar(r, n);
    if (depth == DOCUMENT_DEPTH_MAX)
        return document_refuse(r->fault, ERR_TOO_DEEP, n->line, n->column,
                               "at most %d levels of nesting", DOCUMENT_DEPTH_MAX);
    return n->type == DOCUMENT_MAP ? read_members(r, n, depth + 1) : read_elements(r, n, depth + 1);
}

bool document_read_json(struct str text, struct arena *a, struct document_list *out,
                        struct document_fault *fault)
{
    struct reader r = {
        .cursor = json_open(text), .arena = a, .fault = fault, .line = 1, .column = 1};
    struct document_node *root = ARENA_NEW(a, struct document_node);
    if (!read_value(&r, root, 0))
        return false;
    CHECK(&r, json_close(&r.cursor));
    return document_append_root(out, root, fault);
}
