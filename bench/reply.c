/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include "base/array.h"

#define LINE_MAX_LEN ((size_t)4 << 10)
#define DATA_MAX     ((uint64_t)64 << 20)

/* A line without its CRLF. False: incomplete, or no line; r->kind says which. */
static bool read_line(struct str in, struct reply *r, struct str *line)
{
    size_t len = in.len < LINE_MAX_LEN ? in.len : LINE_MAX_LEN;
    const char *end = len ? memchr(in.at, '\n', len) : NULL;
    r->kind = end || in.len >= LINE_MAX_LEN ? REPLY_BROKEN : REPLY_MORE;
    if (!end || end == in.at || end[-1] != '\r')
        return false;
    *line = (struct str){in.at, (size_t)(end - in.at) - 1};
    return true;
}

/* Digits from *at on, which moves behind them and one space; false without digits. */
static bool read_number(struct str line, size_t *at, uint64_t *number)
{
    size_t first = *at;
    uint64_t n = 0;
    for (; *at < line.len && line.at[*at] >= '0' && line.at[*at] <= '9' && *at - first < 19; ++*at)
        n = n * 10 + (uint64_t)(line.at[*at] - '0');
    bool digits = *at > first;
    if (*at < line.len && line.at[*at] == ' ')
        ++*at;
    *number = n;
    return digits;
}

/* `size` bytes and a CRLF behind the line. */
static size_t read_data(struct str in, size_t line_len, uint64_t size, enum reply_kind kind,
                        struct reply *r)
{
    size_t from = line_len + 2;
    if (size > DATA_MAX) {
        r->kind = REPLY_BROKEN;
        return 0;
    }
    if (in.len - from < size + 2) {
        r->kind = REPLY_MORE;
        return 0;
    }
    r->text = (struct str){in.at + from, (size_t)size};
    r->kind = memcmp(r->text.at + size, "\r\n", 2) == 0 ? kind : REPLY_BROKEN;
    return r->kind == REPLY_BROKEN ? 0 : from + (size_t)size + 2;
}

static const struct word {
    struct str text;
    enum reply_kind kind;
    bool id, data; /* what follows the word */
} words[] = {
    {{"INSERTED", 8}, REPLY_STORED, true, false},  {{"RESERVED", 8}, REPLY_JOB, true, true},
    {{"DELETED", 7}, REPLY_DELETED, false, false}, {{"USING", 5}, REPLY_OK, false, false},
    {{"WATCHING", 8}, REPLY_OK, false, false},     {{"OK", 2}, REPLY_DATA, false, true},
};

static const struct word *find_word(struct str line)
{
    const char *space = memchr(line.at, ' ', line.len);
    struct str first = {line.at, space ? (size_t)(space - line.at) : line.len};
    for (size_t i = 0; i < COUNT(words); i++)
        if (str_eq(first, words[i].text))
            return &words[i];
    return NULL;
}

size_t reply_beanstalkd(struct str in, struct reply *r)
{
    struct str line;
    *r = (struct reply){0};
    if (!read_line(in, r, &line))
        return 0;
    const struct word *w = find_word(line);
    r->kind = w ? w->kind : REPLY_REFUSED;
    r->text = line;
    if (!w)
        return line.len + 2;
    uint64_t size = 0;
    size_t at = w->text.len + 1;
    if ((w->id && !read_number(line, &at, &r->number)) ||
        (w->data && !read_number(line, &at, &size))) {
        r->kind = REPLY_BROKEN;
        return 0;
    }
    return w->data ? read_data(in, line.len, size, w->kind, r) : line.len + 2;
}

size_t reply_redis(struct str in, struct reply *r)
{
    struct str line;
    size_t at = 1;
    *r = (struct reply){0};
    if (!read_line(in, r, &line))
        return 0;
    r->text = line;
    char sort = line.len ? line.at[0] : '\0';
    bool null = line.len == 3 && memcmp(line.at + 1, "-1", 2) == 0;
    if (sort == '+')
        r->kind = REPLY_OK;
    else if (sort == '-')
        r->kind = REPLY_REFUSED;
    else if ((sort == '$' || sort == '*') && null)
        r->kind = REPLY_NONE;
    else if (sort == ':' && read_number(line, &at, &r->number))
        r->kind = REPLY_NUMBER;
    else if (sort == '$' && read_number(line, &at, &r->number))
        return read_data(in, line.len, r->number, REPLY_DATA, r);
    else
        r->kind = REPLY_BROKEN;
    return r->kind == REPLY_BROKEN ? 0 : line.len + 2;
}

uint64_t reply_stat(struct str text, struct str name)
{
    while (text.len) {
        const char *end = memchr(text.at, '\n', text.len);
        struct str line = {text.at, end ? (size_t)(end - text.at) : text.len};
        uint64_t value;
        size_t at = name.len + 2;
        if (line.len > at && memcmp(line.at, name.at, name.len) == 0 &&
            memcmp(line.at + name.len, ": ", 2) == 0 && read_number(line, &at, &value))
            return value;
        size_t used = line.len + (end ? 1 : 0);
        text = (struct str){text.at + used, text.len - used};
    }
    return UINT64_MAX;
}
