/* SPDX-License-Identifier: Apache-2.0 */
#include "server/forwarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/mac.h"
#include "base/base64.h"
#include "net/router.h"

/* The value: words with a space between them, the texts in base64url, "-" if they are empty:
 *
 *     1 EPOCH FLAGS ADDRESS HOST SUBJECT NAMES MAC */
#define NAME  "Tenax-Forwarded: "
#define WORDS 8

enum { FLAG_ADMIN = 1, FLAG_TLS = 2 };

/* What is signed: the request's first line, and the words before the last one. */
static void sign(struct str secret, const struct http_request *req, struct str words,
                 char mac[MAC_BASE64])
{
    struct buf text = {0};
    buf_print(&text, "%s %.*s?%.*s\n", router_method_name(req->method), STR_ARG(req->path),
              STR_ARG(req->query));
    buf_str(&text, words);
    mac_make_base64(secret, buf_view(&text), mac);
    buf_fini(&text);
}

static void write_word(struct buf *out, struct str text)
{
    buf_byte(out, ' ');
    if (text.len)
        base64_write_url(out, text);
    else
        buf_byte(out, '-');
}

void forwarded_write(struct buf *out, const struct forwarded *f, uint64_t epoch, struct str secret,
                     const struct http_request *req)
{
    char mac[MAC_BASE64];
    unsigned flags = (f->admin ? FLAG_ADMIN : 0) | (f->tls ? FLAG_TLS : 0);
    buf_lit(out, NAME);
    size_t from = out->len;
    buf_print(out, "1 %llu %u", (unsigned long long)epoch, flags);
    write_word(out, str_from(f->peer.address));
    write_word(out, f->host);
    write_word(out, f->peer.subject);
    write_word(out, f->peer.names);
    sign(secret, req, (struct str){out->at + from, out->len - from}, mac);
    buf_byte(out, ' ');
    buf_add(out, mac, sizeof mac);
    buf_byte(out, '\0');
}

static size_t split(struct str value, struct str words[WORDS])
{
    size_t n = 0;
    while (value.len && n < WORDS) {
        const char *space = memchr(value.at, ' ', value.len);
        size_t len = space ? (size_t)(space - value.at) : value.len;
        words[n++] = (struct str){value.at, len};
        size_t skip = len + (space != NULL);
        value = (struct str){value.at + skip, value.len - skip};
    }
    return value.len ? 0 : n;
}

static bool read_word(struct str word, struct arena *a, struct str *out)
{
    *out = (struct str){"", 0};
    return str_eq(word, STR("-")) || base64_read(word, a, out);
}

struct err forwarded_read(const struct http_request *req, uint64_t epoch, struct str secret,
                          struct forwarded *out)
{
    const struct err foreign = err_make(
        ERR_FORBIDDEN, "the header Tenax-Forwarded is for servers that share a PostgreSQL, and "
                       "was not made by one of them");
    struct str words[WORDS], value = req->forwarded, address;
    char mac[MAC_BASE64];
    *out = (struct forwarded){0};
    if (split(value, words) != WORDS || !str_eq(words[0], STR("1")))
        return foreign;
    struct str mac_word = words[WORDS - 1];
    sign(secret, req, (struct str){value.at, (size_t)(mac_word.at - value.at) - 1}, mac);
    if (!mac_same(mac_word, (struct str){mac, sizeof mac}))
        return foreign;
    /* Signed, so that they are as they were written: numbers, then a space. */
    if (strtoull(words[1].at, NULL, 10) != epoch)
        return err_make(ERR_NO_OWNER, "this server keeps the jobs no more, or again");
    unsigned long flags = strtoul(words[2].at, NULL, 10);
    out->admin = flags & FLAG_ADMIN;
    out->tls = flags & FLAG_TLS;
    if (!read_word(words[3], req->arena, &address) ||
        !read_word(words[4], req->arena, &out->host) ||
        !read_word(words[5], req->arena, &out->peer.subject) ||
        !read_word(words[6], req->arena, &out->peer.names))
        return foreign;
    snprintf(out->peer.address, sizeof out->peer.address, "%.*s", STR_ARG(address));
    return err_none();
}
