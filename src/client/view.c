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
    struct str raw = view_get(object, key), text;
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

/* Length of the string that starts at s.at[0] == '"', quotes included. */
static size_t string_length(struct str s)
{
    size_t i = 1;
    while (i < s.len && s.at[i] != '"')
        i += s.at[i] == '\\' ? 2 : 1;
    return i < s.len ? i + 1 : s.len;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Adds an opening bracket; returns how many bytes of v it stands for, so that an
 * empty container stays on its line. */
static size_t open_bracket(struct buf *b, struct str v, size_t *indent)
{
    size_t i = 1;
    while (i < v.len && is_space(v.at[i]))
        i++;
    buf_byte(b, v.at[0]);
    if (i < v.len && (v.at[i] == ']' || v.at[i] == '}')) {
        buf_byte(b, v.at[i]);
        return i + 1;
    }
    *indent += 2;
    new_line(b, *indent);
    return i;
}

void view_pretty(struct buf *b, struct str v, size_t indent)
{
    while (v.len) {
        size_t n = 1;
        char c = v.at[0];
        if (c == '"') {
            n = string_length(v);
            buf_add(b, v.at, n);
        } else if (c == '{' || c == '[') {
            n = open_bracket(b, v, &indent);
        } else if (c == '}' || c == ']') {
            indent -= 2;
            new_line(b, indent);
            buf_byte(b, c);
        } else if (c == ',') {
            buf_byte(b, c);
            new_line(b, indent);
        } else if (c == ':') {
            buf_lit(b, ": ");
        } else if (!is_space(c)) {
            buf_byte(b, c);
        }
        v = (struct str){v.at + n, v.len - n};
    }
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
