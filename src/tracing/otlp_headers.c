/* SPDX-License-Identifier: Apache-2.0 */
#include "tracing/otlp_headers.h"

#include <stdio.h>
#include <strings.h>

#include "base/buf.h"

static struct str trim(struct str s)
{
    while (s.len && (s.at[0] == ' ' || s.at[0] == '\t')) {
        s.at++;
        s.len--;
    }
    while (s.len && strchr(" \t\r", s.at[s.len - 1]))
        s.len--;
    return s;
}

/* RFC 9110 §5.6.2 */
static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return s.len > 0;
}

static bool is_value(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if ((s.at[i] < ' ' && s.at[i] != '\t') || s.at[i] == 0x7f)
            return false;
    return true;
}

/* What the body is, is not theirs to say. */
static bool is_own(struct str name)
{
    static const char *const own[] = {"content-type", "content-length", "host", "transfer-encoding",
                                      "connection"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (name.len == strlen(own[i]) && strncasecmp(name.at, own[i], name.len) == 0)
            return true;
    return false;
}

static struct err add(struct otlp_headers *h, struct arena *a, struct str name, struct str value)
{
    if (!is_token(name))
        return err_make(ERR_USAGE, "header %zu has no proper name", h->count + 1);
    if (!is_value(value) || is_own(name))
        return err_make(ERR_USAGE, "the header %.*s %s", (int)(name.len < 60 ? name.len : 60),
                        name.at,
                        is_own(name) ? "cannot be set" : "has characters that none may have");
    if (h->count == OTLP_HEADERS_MAX)
        return err_make(ERR_USAGE, "there are more than %d headers", OTLP_HEADERS_MAX);
    char *text = arena_get(a, name.len + value.len + 3);
    memcpy(text, name.at, name.len);
    memcpy(text + name.len, ": ", 2);
    if (value.len)
        memcpy(text + name.len + 2, value.at, value.len);
    text[name.len + value.len + 2] = '\0';
    h->list[h->count++] = text;
    h->list[h->count] = NULL;
    return err_none();
}

/* The first part up to the character; *rest is what comes after it, without `at` if there is no
 * such character. */
static struct str split(struct str s, char at, struct str *rest)
{
    const char *end = s.len ? memchr(s.at, at, s.len) : NULL;
    *rest = (struct str){0};
    if (!end)
        return s;
    struct str first = {s.at, (size_t)(end - s.at)};
    *rest = (struct str){end + 1, s.len - first.len - 1};
    return first;
}

static int hex(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

static bool decode(struct str s, struct arena *a, struct str *out)
{
    char *to = arena_get(a, s.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        to[n++] = s.at[i];
        if (s.at[i] != '%')
            continue;
        if (i + 2 >= s.len || hex(s.at[i + 1]) < 0 || hex(s.at[i + 2]) < 0)
            return false;
        to[n - 1] = (char)(hex(s.at[i + 1]) << 4 | hex(s.at[i + 2]));
        i += 2;
    }
    *out = (struct str){to, n};
    return true;
}

struct err otlp_headers_of_list(struct str list, struct arena *a, struct otlp_headers *h)
{
    while (list.len) {
        struct str pair = trim(split(list, ',', &list)), value;
        if (!pair.len)
            continue;
        struct str name = trim(split(pair, '=', &value));
        if (!value.at)
            return err_make(ERR_USAGE, "header %zu is not of the form name=value", h->count + 1);
        if (!decode(trim(value), a, &value))
            return err_make(ERR_USAGE, "the value of header %zu has a '%%' that encodes nothing",
                            h->count + 1);
        TRY(add(h, a, name, value));
    }
    return err_none();
}

static struct err of_lines(struct str text, struct arena *a, struct otlp_headers *h)
{
    for (size_t line = 1; text.len; line++) {
        struct str value, rest = trim(split(text, '\n', &text));
        if (!rest.len || rest.at[0] == '#')
            continue;
        struct str name = trim(split(rest, ':', &value));
        if (!value.at)
            return err_make(ERR_USAGE, "line %zu is not of the form \"Name: value\"", line);
        TRY(add(h, a, name, trim(value)));
    }
    return err_none();
}

struct err otlp_headers_of_file(const char *path, struct arena *a, struct otlp_headers *h)
{
    char *text = arena_get(a, OTLP_HEADERS_FILE_MAX + 1);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(text, 1, OTLP_HEADERS_FILE_MAX + 1, f) : 0;
    bool failed = !f || ferror(f);
    if (f)
        fclose(f);
    if (failed)
        return err_make(ERR_IO, "the file %.200s cannot be read", path);
    if (n > OTLP_HEADERS_FILE_MAX)
        return err_make(ERR_USAGE, "the file %.200s is larger than %d bytes", path,
                        OTLP_HEADERS_FILE_MAX);
    struct err err = of_lines((struct str){text, n}, a, h);
    if (err.code == ERR_OK)
        return err;
    return err_make(err.code, "the file %.200s: %s", path, err.msg);
}
