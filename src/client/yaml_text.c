/* SPDX-License-Identifier: Apache-2.0 */
#include "client/yaml_text.h"

#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/json.h"

/* --- texts --- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* Words that YAML 1.1, too, would read as another type. */
static bool is_reserved(struct str s)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};
    for (size_t i = 0; i < COUNT(words); i++)
        if (s.len == strlen(words[i]) && strncasecmp(s.at, words[i], s.len) == 0)
            return true;
    return false;
}

/* Whether it means itself without quotes. */
static bool is_plain(struct str s)
{
    if (!s.len || !is_letter(s.at[0]) || s.at[s.len - 1] == ' ' || is_reserved(s))
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!is_letter(s.at[i]) && !memchr("0123456789-./ ", s.at[i], 14))
            return false;
    return true;
}

/* Bytes of one character that YAML wants escaped although JSON does not; 0: none begins here. */
static size_t hidden_length(struct str rest, unsigned *point)
{
    const unsigned char *p = (const unsigned char *)rest.at;
    if (p[0] < 0x20 || p[0] == 0x7f) {
        *point = p[0];
        return 1;
    }
    if (rest.len > 1 && p[0] == 0xc2 && p[1] < 0xa0) {
        *point = p[1];
        return 2;
    }
    if (rest.len < 3 || p[0] < 0xe2 || p[0] > 0xef)
        return 0;
    *point = (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    bool is = *point == 0x2028 || *point == 0x2029 || *point == 0xfeff || *point >= 0xfffe;
    return is ? 3 : 0;
}

static void write_quoted(struct buf *b, struct str s)
{
    buf_byte(b, '"');
    for (size_t i = 0; i < s.len;) {
        unsigned point;
        size_t n = hidden_length((struct str){s.at + i, s.len - i}, &point);
        if (n)
            buf_print(b, "\\u%04x", point);
        else if (s.at[i] == '"' || s.at[i] == '\\')
            buf_print(b, "\\%c", s.at[i]);
        else
            buf_byte(b, s.at[i]);
        i += n ? n : 1;
    }
    buf_byte(b, '"');
}

static void write_string(struct buf *b, struct json_string s)
{
    struct arena a = {0};
    struct str text;
    if (json_text(s, &a, &text).code != ERR_OK)
        buf_print(b, "\"%.*s\"", STR_ARG(s.raw)); /* half a character, as it was sent */
    else if (is_plain(text))
        buf_str(b, text);
    else
        write_quoted(b, text);
    arena_fini(&a);
}

/* --- structure --- */

static struct err write_value(struct buf *b, struct json_cursor *c, size_t indent, bool of_item);

static void begin_line(struct buf *b, size_t indent, bool goes_on)
{
    if (goes_on)
        buf_byte(b, ' ');
    else
        buf_print(b, "\n%*s", (int)indent, "");
}

/* goes_on: the first member stands behind the "-" of an item. */
static struct err write_object(struct buf *b, struct json_cursor *c, size_t indent, bool goes_on)
{
    bool more;
    struct json_string key;
    TRY(json_enter_object(c));
    TRY(json_next_member(c, &more, &key));
    if (!more)
        buf_lit(b, " {}");
    for (; more; goes_on = false) {
        begin_line(b, indent, goes_on);
        write_string(b, key);
        buf_byte(b, ':');
        TRY(write_value(b, c, indent + 2, false));
        TRY(json_next_member(c, &more, &key));
    }
    return err_none();
}

static struct err write_array(struct buf *b, struct json_cursor *c, size_t indent, bool goes_on)
{
    bool more;
    TRY(json_enter_array(c));
    TRY(json_next_element(c, &more));
    if (!more)
        buf_lit(b, " []");
    for (; more; goes_on = false) {
        begin_line(b, indent, goes_on);
        buf_byte(b, '-');
        TRY(write_value(b, c, indent + 2, true));
        TRY(json_next_element(c, &more));
    }
    return err_none();
}

/* With a space or a line break before it. */
static struct err write_value(struct buf *b, struct json_cursor *c, size_t indent, bool of_item)
{
    enum json_type type;
    struct str raw;
    TRY(json_peek(c, &type));
    if (type == JSON_OBJECT)
        return write_object(b, c, indent, of_item);
    if (type == JSON_ARRAY)
        return write_array(b, c, indent, of_item);
    buf_byte(b, ' ');
    if (type == JSON_STRING) {
        struct json_string s;
        TRY(json_read_string(c, &s));
        write_string(b, s);
        return err_none();
    }
    TRY(json_skip(c, &raw));
    buf_str(b, raw);
    return err_none();
}

/* JSON is YAML, too: where it cannot be read it stays as it is. */
static void write_tree(struct buf *b, struct str value, size_t indent, bool of_item)
{
    size_t before = b->len;
    struct json_cursor c = json_open(value);
    if (write_value(b, &c, indent, of_item).code == ERR_OK)
        return;
    b->len = before;
    buf_byte(b, ' ');
    buf_str(b, value);
}

void yaml_text(struct buf *b, struct str value)
{
    struct buf tree = {0};
    write_tree(&tree, value, 0, false);
    buf_add(b, tree.at + 1, tree.len - 1);
    buf_byte(b, '\n');
    buf_fini(&tree);
}

void yaml_text_item(struct buf *b, struct str value)
{
    buf_byte(b, '-');
    write_tree(b, value, 2, true);
    buf_byte(b, '\n');
}
