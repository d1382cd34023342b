/* SPDX-License-Identifier: Apache-2.0 */
#include "client/view.h"

struct err view_check(struct str text, struct str *raw)
{
    struct json_cursor c = json_open(text);
    TRY(json_skip(&c, raw));
    return json_close(&c);
}

static struct err find(struct str object, const char *key, struct str *raw)
{
    struct json_cursor c = json_open(object);
    TRY(json_enter_object(&c));
    for (;;) {
        bool more;
        struct json_string name;
        TRY(json_next_member(&c, &more, &name));
        if (!more)
            return err_none();
        struct str value;
        TRY(json_skip(&c, &value));
        if (str_eq(name.raw, str_from(key))) {
            *raw = value;
            return err_none();
        }
    }
}

struct str view_get(struct str object, const char *key)
{
    struct str raw = {"", 0};
    struct err e = find(object, key, &raw);
    return e.code == ERR_OK && !str_eq(raw, STR("null")) ? raw : (struct str){"", 0};
}

struct str view_text(struct arena *a, struct str object, const char *key)
{
    return view_own_text(a, view_get(object, key));
}

struct str view_own_text(struct arena *a, struct str raw)
{
    struct str text;
    if (!raw.len || raw.at[0] != '"')
        return raw;
    struct json_cursor c = json_open(raw);
    struct json_string s;
    struct err e = json_read_string(&c, &s);
    if (e.code == ERR_OK)
        e = json_text(s, a, &text);
    return e.code == ERR_OK ? text : raw;
}

bool view_int(struct str object, const char *key, int64_t *v)
{
    struct str raw = view_get(object, key);
    struct json_cursor c = json_open(raw);
    return raw.len && json_read_int(&c, INT64_MIN, INT64_MAX, v).code == ERR_OK;
}

instant view_time(struct str object, const char *key)
{
    instant t;
    bool sane = view_int(object, key, &t.ms) && t.ms >= 0 && t.ms <= INSTANT_MAX_MS;
    return sane ? t : INSTANT_NONE;
}

struct view_list view_list(struct str array)
{
    struct view_list l = {.cursor = json_open(array)};
    l.ok = array.len && json_enter_array(&l.cursor).code == ERR_OK;
    return l;
}

bool view_next(struct view_list *l, struct str *item)
{
    bool more = false;
    if (l->ok)
        l->ok = json_next_element(&l->cursor, &more).code == ERR_OK && more &&
                json_skip(&l->cursor, item).code == ERR_OK;
    return l->ok;
}

static void new_line(struct buf *b, size_t spaces)
{
    buf_print(b, "\n%*s", (int)spaces, "");
}

static struct err write_value(struct buf *b, struct json_cursor *c, size_t indent);

static struct err write_object(struct buf *b, struct json_cursor *c, size_t indent)
{
    bool more;
    struct json_string key;
    TRY(json_enter_object(c));
    TRY(json_next_member(c, &more, &key));
    buf_byte(b, '{');
    while (more) {
        new_line(b, indent + 2);
        buf_print(b, "\"%.*s\": ", STR_ARG(key.raw));
        TRY(write_value(b, c, indent + 2));
        TRY(json_next_member(c, &more, &key));
        if (more)
            buf_byte(b, ',');
        else
            new_line(b, indent);
    }
    buf_byte(b, '}');
    return err_none();
}

static struct err write_array(struct buf *b, struct json_cursor *c, size_t indent)
{
    bool more;
    TRY(json_enter_array(c));
    TRY(json_next_element(c, &more));
    buf_byte(b, '[');
    while (more) {
        new_line(b, indent + 2);
        TRY(write_value(b, c, indent + 2));
        TRY(json_next_element(c, &more));
        if (more)
            buf_byte(b, ',');
        else
            new_line(b, indent);
    }
    buf_byte(b, ']');
    return err_none();
}

static struct err write_value(struct buf *b, struct json_cursor *c, size_t indent)
{
    enum json_type type;
    struct str raw;
    TRY(json_peek(c, &type));
    if (type == JSON_OBJECT)
        return write_object(b, c, indent);
    if (type == JSON_ARRAY)
        return write_array(b, c, indent);
    TRY(json_skip(c, &raw));
    buf_str(b, raw);
    return err_none();
}

void view_pretty(struct buf *b, struct str v, size_t indent)
{
    size_t before = b->len;
    struct json_cursor c = json_open(v);
    if (write_value(b, &c, indent).code == ERR_OK && json_close(&c).code == ERR_OK)
        return;
    b->len = before;
    buf_str(b, v);
}

void view_position(struct str text, size_t offset, size_t *line, size_t *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < text.len; i++) {
        if (text.at[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text.at[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}
