/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <stdint.h>

#include "base/json.h"
#include "base/json_walk.h"
#include "base/must.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct err *e, struct str text)
{
    must(e->code == ERR_BAD_JSON || e->code == ERR_BAD_UTF8 || e->code == ERR_TOO_DEEP);
    must(e->offset >= 0 && (size_t)e->offset <= text.len);
    must(utf8_check(str_from(e->msg)) == strlen(e->msg));
}

static void check_one_line(struct str raw)
{
    struct buf line = {0};
    json_write_one_line(&line, raw);
    must(line.len == raw.len);
    must(!memchr(line.at, '\n', line.len) && !memchr(line.at, '\r', line.len));
    must(read_all(buf_view(&line), skip_value).code == ERR_OK);
    buf_fini(&line);
}

static void check_string(struct json_cursor c)
{
    struct json_string s;
    must(json_read_string(&c, &s).code == ERR_OK);
    struct arena a = {0};
    struct str text;
    struct err e = json_text(s, &a, &text);
    if (e.code == ERR_OK) {
        must(utf8_check(text) == text.len && text.len <= s.raw.len);
        struct buf b = {0};
        json_write_string(&b, text);
        struct json_cursor again = json_open(buf_view(&b));
        struct str copy;
        must(json_read_string(&again, &s).code == ERR_OK);
        must(json_text(s, &a, &copy).code == ERR_OK && str_eq(copy, text));
        buf_fini(&b);
    } else {
        must(e.code == ERR_BAD_UTF8 && c.text.at[e.offset] == '\\');
    }
    arena_fini(&a);
}

static void check_number(struct json_cursor c)
{
    struct json_cursor whole_cursor = c;
    double v;
    struct err e = json_read_double(&c, -DBL_MAX, DBL_MAX, &v);
    must(e.code == ERR_OK || e.code == ERR_BAD_VALUE);
    int64_t whole;
    struct err whole_e = json_read_int(&whole_cursor, INT64_MIN, INT64_MAX, &whole);
    must(whole_e.code == ERR_OK || whole_e.code == ERR_BAD_VALUE);
    must(whole_cursor.pos == c.pos);
    if (whole_e.code == ERR_OK)
        must(e.code == ERR_OK && v == (double)whole);
    if (e.code != ERR_OK)
        return;
    struct buf b = {0};
    json_write_double(&b, v);
    struct json_cursor again = json_open(buf_view(&b));
    double back;
    must(json_read_double(&again, v, v, &back).code == ERR_OK && back == v);
    must(json_close(&again).code == ERR_OK);
    buf_fini(&b);
}

/* Decodes every string and number, except keys, wherever it begins. */
static void check_scalars(struct json_cursor c)
{
    for (; c.pos < c.text.len; c.pos++) {
        enum json_type type;
        struct json_cursor at = c;
        struct str raw;
        if (json_peek(&at, &type).code != ERR_OK || at.pos != c.pos)
            continue;
        if (type != JSON_STRING && type != JSON_NUMBER)
            continue;
        struct json_cursor past = at;
        if (json_skip(&past, &raw).code != ERR_OK)
            continue;
        if (type == JSON_STRING)
            check_string(at);
        else
            check_number(at);
        c.pos += raw.len - 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct err e = read_all(text, skip_value);
    struct err walked = read_all(text, json_walk);
    must(e.code == walked.code);
    check_scalars(json_open(text));
    if (e.code != ERR_OK) {
        must(e.offset == walked.offset && strcmp(e.msg, walked.msg) == 0);
        check_error(&e, text);
        return 0;
    }
    must(utf8_check(text) == text.len);
    struct json_cursor c = json_open(text);
    struct str raw;
    must(json_skip(&c, &raw).code == ERR_OK);
    must(read_all(raw, skip_value).code == ERR_OK);
    struct json_cursor again = json_open(raw), sound = json_open_sound(text);
    struct str raw2;
    must(json_skip(&again, &raw2).code == ERR_OK && str_eq(raw, raw2));
    must(json_skip(&sound, &raw2).code == ERR_OK && raw2.at == raw.at && raw2.len == raw.len);
    must(json_close(&sound).code == ERR_OK);
    check_one_line(raw);
    return 0;
}
