/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#define HEAD_MAX ((size_t)64 << 10)

void answer_fini(struct answer *a)
{
    buf_fini(&a->body);
}

static bool is_header(struct str line, struct str name)
{
    return line.len > name.len && (line.at[0] | 0x20) == name.at[0] &&
           strncasecmp(line.at, name.at, name.len) == 0;
}

static bool read_length(struct str digits, size_t *length)
{
    size_t n = 0, i = 0;
    while (i < digits.len && digits.at[i] == ' ')
        i++;
    size_t first = i;
    for (; i < digits.len && digits.at[i] >= '0' && digits.at[i] <= '9'; i++)
        n = n * 10 + (size_t)(digits.at[i] - '0');
    *length = n;
    return i > first && i - first < 18;
}

static struct str skip(struct str s, size_t n)
{
    return (struct str){s.at + n, s.len - n};
}

/* head ends with the CRLF of its last line. */
static bool read_head(struct answer *a, struct str head)
{
    const struct str length_name = STR("content-length:"), coding_name = STR("transfer-encoding:");
    if (head.len < 13 || memcmp(head.at, "HTTP/1.1 ", 9) != 0)
        return false;
    a->status = atoi(head.at + 9);
    bool has_length = false, chunked = false;
    while (head.len) {
        const char *end = memchr(head.at, '\n', head.len);
        struct str line = {head.at, (size_t)(end - head.at)};
        if (is_header(line, length_name))
            has_length = read_length(skip(line, length_name.len), &a->left);
        else if (is_header(line, coding_name))
            chunked = memmem(line.at, line.len, "chunked", 7) != NULL;
        head = skip(head, line.len + 1);
    }
    bool bare = a->status == 204;
    if (bare)
        a->left = 0;
    a->state = chunked && !bare ? ANSWER_IN_CHUNK_SIZE : ANSWER_IN_BODY;
    return a->status >= 200 && (has_length || chunked || bare);
}

static size_t feed_head(struct answer *a, struct str in, enum answer_step *step)
{
    a->body.len = 0;
    const char *end = memmem(in.at, in.len, "\r\n\r\n", 4);
    if (!end) {
        *step = in.len > HEAD_MAX ? ANSWER_BROKEN : ANSWER_MORE;
        return 0;
    }
    size_t lines = (size_t)(end - in.at) + 2;
    if (!read_head(a, (struct str){in.at, lines}))
        *step = ANSWER_BROKEN;
    return lines + 2;
}

static void finish(struct answer *a, struct str view, enum answer_step *step)
{
    a->view = view;
    a->state = ANSWER_AT_END;
    *step = ANSWER_COMPLETE;
}

/* A body that is complete in the input is not copied. */
static size_t feed_body(struct answer *a, struct str in, enum answer_step *step)
{
    size_t n = in.len < a->left ? in.len : a->left;
    if (n == a->left && a->body.len == 0) {
        finish(a, (struct str){in.at, n}, step);
        return n;
    }
    buf_add(&a->body, in.at, n);
    a->left -= n;
    if (a->left == 0)
        finish(a, buf_view(&a->body), step);
    return n;
}

static size_t feed_chunk(struct answer *a, struct str in)
{
    size_t n = in.len < a->left ? in.len : a->left;
    buf_add(&a->body, in.at, n);
    a->left -= n;
    if (a->left == 0)
        a->state = ANSWER_IN_CHUNK_END;
    return n;
}

static bool read_hex(struct str line, size_t *value)
{
    size_t n = 0, i = 0;
    for (; i < line.len && i < 8; i++) {
        int c = line.at[i] | 0x20;
        if (c >= '0' && c <= '9')
            n = n * 16 + (size_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            n = n * 16 + (size_t)(c - 'a' + 10);
        else
            break;
    }
    *value = n;
    return i > 0;
}

/* The framing between chunks, each on a line of its own: a size, the empty line after a chunk,
 * trailer lines up to an empty one. */
static size_t feed_line(struct answer *a, struct str in, enum answer_step *step)
{
    const char *end = memchr(in.at, '\n', in.len);
    if (!end) {
        *step = in.len > HEAD_MAX ? ANSWER_BROKEN : ANSWER_MORE;
        return 0;
    }
    struct str line = {in.at, (size_t)(end - in.at)};
    bool empty = line.len == 1 && line.at[0] == '\r';
    if (a->state == ANSWER_IN_CHUNK_SIZE) {
        if (!read_hex(line, &a->left))
            *step = ANSWER_BROKEN;
        a->state = a->left ? ANSWER_IN_CHUNK : ANSWER_IN_TRAILER;
    } else if (a->state == ANSWER_IN_CHUNK_END) {
        if (!empty)
            *step = ANSWER_BROKEN;
        a->state = ANSWER_IN_CHUNK_SIZE;
    } else if (empty) {
        finish(a, buf_view(&a->body), step);
    }
    return line.len + 1;
}

size_t answer_feed(struct answer *a, struct str in, enum answer_step *step)
{
    if (a->state == ANSWER_AT_END)
        a->state = ANSWER_IN_HEAD;
    *step = ANSWER_MORE;
    size_t used = 0;
    /* A body of length zero is complete without another byte. */
    while (*step == ANSWER_MORE &&
           (used < in.len || (a->state == ANSWER_IN_BODY && a->left == 0))) {
        struct str rest = skip(in, used);
        size_t n = a->state == ANSWER_IN_HEAD    ? feed_head(a, rest, step)
                   : a->state == ANSWER_IN_BODY  ? feed_body(a, rest, step)
                   : a->state == ANSWER_IN_CHUNK ? feed_chunk(a, rest)
                                                 : feed_line(a, rest, step);
        used += n;
        if (n == 0 && *step == ANSWER_MORE)
            break;
    }
    return used;
}

static bool next_text(struct str *rest, struct str quoted, struct str *out)
{
    const char *key = memmem(rest->at, rest->len, quoted.at, quoted.len);
    if (!key)
        return false;
    struct str tail = skip(*rest, (size_t)(key - rest->at) + quoted.len);
    while (tail.len && (*tail.at == ':' || *tail.at == ' ' || *tail.at == '"'))
        tail = skip(tail, 1);
    const char *end = tail.len ? memchr(tail.at, '"', tail.len) : NULL;
    if (!end)
        return false;
    *out = (struct str){tail.at, (size_t)(end - tail.at)};
    *rest = skip(tail, out->len + 1);
    return true;
}

bool answer_next_id(struct str *rest, struct str *id)
{
    return next_text(rest, STR("\"id\""), id);
}

bool answer_next_token(struct str *rest, struct str *token)
{
    return next_text(rest, STR("\"token\""), token);
}

#ifdef __clang__
#define VECTORS /* on even at -O2 */
#else
#define VECTORS __attribute__((optimize("O3")))
#endif

/* Byte counters over short blocks: the only form of this loop that compilers vectorise, and the
 * answers to a bulk request have 300 KB each. */
VECTORS size_t answer_count_ids(struct str text)
{
    const uint8_t *p = (const uint8_t *)text.at;
    size_t total = 0, places = text.len < 4 ? 0 : text.len - 3;
    while (places) {
        size_t block = places < 255 ? places : 255;
        uint8_t found = 0;
        for (size_t i = 0; i < block; i++)
            found = (uint8_t)(found + ((p[i] == '"') & (p[i + 1] == 'i') & (p[i + 2] == 'd') &
                                       (p[i + 3] == '"')));
        total += found;
        p += block;
        places -= block;
    }
    return total;
}
