/* SPDX-License-Identifier: Apache-2.0 */
#include "access/hawk.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>

#include "access/mac.h"
#include "base/array.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/decimal.h"
#include "base/must.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

static bool equals_ignoring_case(struct str s, struct str small)
{
    if (s.len != small.len)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (lower(s.at[i]) != small.at[i])
            return false;
    return true;
}

/* Up to 15 digits, which also fit in milliseconds. */
static bool read_seconds(struct str text, int64_t *seconds)
{
    return decimal_digits(text, 15, seconds);
}

/* Hawk reserves the quote and the backslash. */
static bool is_attribute_char(char c)
{
    return c >= 0x20 && c <= 0x7e && c != '"' && c != '\\';
}

/* --- the header --- */

static const struct {
    const char *name;
    size_t place;
} attributes[] = {
    {"id", offsetof(struct hawk_attributes, id)},
    {"ts", offsetof(struct hawk_attributes, ts)},
    {"nonce", offsetof(struct hawk_attributes, nonce)},
    {"hash", offsetof(struct hawk_attributes, hash)},
    {"ext", offsetof(struct hawk_attributes, ext)},
    {"mac", offsetof(struct hawk_attributes, mac)},
    {"app", offsetof(struct hawk_attributes, app)},
    {"dlg", offsetof(struct hawk_attributes, dlg)},
};

static struct str *find_attribute(struct hawk_attributes *h, struct str name)
{
    for (size_t i = 0; i < COUNT(attributes); i++)
        if (str_eq(name, str_from(attributes[i].name)))
            return (struct str *)(void *)((char *)h + attributes[i].place);
    return NULL;
}

struct scan {
    struct str text;
    size_t pos;
};

static bool at(const struct scan *s, char c)
{
    return s->pos < s->text.len && s->text.at[s->pos] == c;
}

static bool skip_spaces(struct scan *s)
{
    size_t before = s->pos;
    while (s->pos < s->text.len && is_space(s->text.at[s->pos]))
        s->pos++;
    return s->pos > before;
}

static struct str run_of(struct scan *s, bool (*belongs)(char c))
{
    size_t begin = s->pos;
    while (s->pos < s->text.len && belongs(s->text.at[s->pos]))
        s->pos++;
    return (struct str){s->text.at + begin, s->pos - begin};
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static struct err malformed(const struct scan *s, const char *expected)
{
    return err_at(ERR_BAD_CREDENTIALS, (int64_t)s->pos,
                  "the Authorization header is malformed: expected %s", expected);
}

/* name="value" */
static struct err parse_attribute(struct scan *s, struct hawk_attributes *h)
{
    size_t begin = s->pos;
    struct str *to = find_attribute(h, run_of(s, is_letter));
    if (!to || to->len > 0) {
        s->pos = begin;
        return malformed(s, "each of id, ts, nonce, hash, ext, mac, app and dlg at most once");
    }
    if (!at(s, '='))
        return malformed(s, "'='");
    s->pos++;
    if (!at(s, '"'))
        return malformed(s, "'\"'");
    s->pos++;
    *to = run_of(s, is_attribute_char);
    if (to->len == 0)
        return malformed(s, "a value");
    if (!at(s, '"'))
        return malformed(s, "printable ASCII without '\\', and a '\"' at the end");
    s->pos++;
    return err_none();
}

static struct err parse_attributes(struct scan *s, struct hawk_attributes *h)
{
    for (;;) {
        TRY(parse_attribute(s, h));
        skip_spaces(s);
        if (s->pos == s->text.len)
            return err_none();
        if (!at(s, ','))
            return malformed(s, "','");
        s->pos++;
        skip_spaces(s);
    }
}

/* A dlg without an app would not be signed. */
static struct err check_attributes(struct hawk_attributes *h)
{
    if (h->id.len == 0 || h->ts.len == 0 || h->nonce.len == 0 || h->mac.len == 0)
        return err_make(ERR_BAD_CREDENTIALS,
                        "the Authorization header needs id, ts, nonce and mac");
    if (h->dlg.len > 0 && h->app.len == 0)
        return err_make(ERR_BAD_CREDENTIALS, "the Authorization header has dlg without app");
    if (!read_seconds(h->ts, &h->seconds))
        return err_make(ERR_BAD_CREDENTIALS,
                        "ts of the Authorization header is not a number of seconds");
    return err_none();
}

struct err hawk_parse_header(struct str value, struct hawk_attributes *h)
{
    *h = (struct hawk_attributes){0};
    struct scan s = {value, 0};
    if (value.len > HAWK_HEADER_MAX)
        return err_make(ERR_BAD_CREDENTIALS, "the Authorization header has more than %zu bytes",
                        HAWK_HEADER_MAX);
    if (!equals_ignoring_case(run_of(&s, is_letter), STR("hawk")) || !skip_spaces(&s)) {
        s.pos = 0;
        return malformed(&s, "the scheme Hawk and its attributes");
    }
    TRY(parse_attributes(&s, h));
    return check_attributes(h);
}

/* --- the bewit --- */

#define BEWIT STR("bewit=")

/* Where the value of the last bewit begins; 0: there is none. */
static size_t find_bewit(struct str query)
{
    for (size_t end = query.len; end >= BEWIT.len; end--) {
        size_t begin = end - BEWIT.len;
        if (memcmp(query.at + begin, BEWIT.at, BEWIT.len) == 0 &&
            (begin == 0 || query.at[begin - 1] == '&'))
            return end;
    }
    return 0;
}

bool hawk_has_bewit(struct str query)
{
    return find_bewit(query) > 0;
}

bool hawk_is_signed(struct str authorization, struct str query)
{
    static const char scheme[] = "hawk ";
    size_t n = sizeof scheme - 1;
    return hawk_has_bewit(query) ||
           (authorization.len >= n && strncasecmp(authorization.at, scheme, n) == 0);
}

static struct err bad_bewit(const char *why)
{
    return err_make(ERR_BAD_CREDENTIALS, "the bewit is malformed: %s", why);
}

/* Splits "before&bewit=value&after", of which before and after may be absent. */
static bool cut_bewit(struct str *query, struct arena *a, struct str *value)
{
    size_t begin = find_bewit(*query);
    struct str before = {query->at, begin - BEWIT.len};
    before.len -= before.len > 0; /* without its '&' */
    struct str left = {query->at + begin, query->len - begin};
    const char *amp = left.len ? memchr(left.at, '&', left.len) : NULL;
    *value = (struct str){left.at, amp ? (size_t)(amp - left.at) : left.len};
    if (!amp) {
        *query = before;
        return true;
    }
    struct str after = {left.at + value->len, left.len - value->len}; /* with its '&' */
    if (after.len == 1)
        return false;
    char *joined = arena_get(a, before.len + after.len);
    if (before.len)
        memcpy(joined, before.at, before.len);
    memcpy(joined + before.len, after.at, after.len);
    size_t lead = before.len == 0;
    *query = (struct str){joined + lead, before.len + after.len - lead};
    return true;
}

/* The text before the next backslash. */
static struct str next_piece(struct str *left, bool *last)
{
    const char *end = left->len ? memchr(left->at, '\\', left->len) : NULL;
    *last = !end;
    struct str piece = {left->at, end ? (size_t)(end - left->at) : left->len};
    if (end)
        *left = (struct str){end + 1, left->len - piece.len - 1};
    return piece;
}

/* id\exp\mac\ext */
static struct err read_bewit(struct str text, struct hawk_attributes *h)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] != '\\' && !is_attribute_char(text.at[i]))
            return bad_bewit("it has characters that Hawk does not allow");
    bool last[4];
    h->id = next_piece(&text, &last[0]);
    h->ts = next_piece(&text, &last[1]);
    h->mac = next_piece(&text, &last[2]);
    h->ext = next_piece(&text, &last[3]);
    if (last[0] || last[1] || last[2] || !last[3])
        return bad_bewit("it does not have four parts");
    if (h->id.len == 0 || h->mac.len == 0 || !read_seconds(h->ts, &h->seconds))
        return bad_bewit("it needs an id, a time and a MAC");
    return err_none();
}

struct err hawk_parse_bewit(struct hawk_target *target, struct arena *a, struct hawk_attributes *h)
{
    *h = (struct hawk_attributes){0};
    struct str value, text;
    if (!str_eq(target->method, STR("GET")) && !str_eq(target->method, STR("HEAD")))
        return err_make(ERR_BAD_CREDENTIALS, "a bewit is for GET and HEAD only");
    must(hawk_has_bewit(target->query));
    if (!cut_bewit(&target->query, a, &value))
        return bad_bewit("'&' at the end of the query");
    if (value.len > HAWK_HEADER_MAX)
        return bad_bewit("it is too long");
    if (!base64_read(value, a, &text))
        return bad_bewit("it is not Base64");
    return read_bewit(text, h);
}

/* --- MACs --- */

static void add_lower(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        buf_byte(b, lower(s.at[i]));
}

static void add_upper(struct buf *b, struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        buf_byte(b, (char)(s.at[i] >= 'a' && s.at[i] <= 'z' ? s.at[i] - 0x20 : s.at[i]));
}

/* "GET\n/path?query\nhost\nport\n" */
static void add_target(struct buf *b, enum hawk_type type, const struct hawk_target *t)
{
    if (type == HAWK_BEWIT)
        buf_lit(b, "GET"); /* stands for HEAD, too */
    else
        add_upper(b, t->method);
    buf_byte(b, '\n');
    buf_str(b, t->path);
    if (t->query.len > 0)
        buf_byte(b, '?');
    buf_str(b, t->query);
    buf_byte(b, '\n');
    add_lower(b, t->host);
    buf_print(b, "\n%u\n", t->port);
}

/* No parsed attribute contains a line feed or a backslash: nothing needs escaping. */
static void write_normalized(struct buf *b, enum hawk_type type, const struct hawk_target *target,
                             const struct hawk_attributes *h)
{
    buf_print(b, "hawk.1.%s\n%.*s\n%.*s\n", type == HAWK_BEWIT ? "bewit" : "header", STR_ARG(h->ts),
              STR_ARG(h->nonce));
    add_target(b, type, target);
    buf_print(b, "%.*s\n%.*s\n", STR_ARG(h->hash), STR_ARG(h->ext));
    if (h->app.len > 0)
        buf_print(b, "%.*s\n%.*s\n", STR_ARG(h->app), STR_ARG(h->dlg));
}

void hawk_mac(enum hawk_type type, struct str key, const struct hawk_target *target,
              const struct hawk_attributes *h, char mac[HAWK_MAC_LEN])
{
    struct buf b = {0};
    write_normalized(&b, type, target, h);
    mac_make_base64(key, buf_view(&b), mac);
    buf_fini(&b);
}

bool hawk_mac_matches(enum hawk_type type, struct str key, const struct hawk_target *target,
                      const struct hawk_attributes *h)
{
    char mac[HAWK_MAC_LEN];
    hawk_mac(type, key, target, h, mac);
    return mac_same((struct str){mac, sizeof mac}, h->mac);
}

static void add_content_type(struct buf *b, struct str type)
{
    const char *end = type.len ? memchr(type.at, ';', type.len) : NULL;
    if (end)
        type.len = (size_t)(end - type.at);
    while (type.len && is_space(type.at[type.len - 1]))
        type.len--;
    while (type.len && is_space(*type.at))
        type = (struct str){type.at + 1, type.len - 1};
    add_lower(b, type);
}

void hawk_payload_hash(struct str content_type, struct str body, char hash[HAWK_MAC_LEN])
{
    struct buf head = {0};
    buf_lit(&head, "hawk.1.payload\n");
    add_content_type(&head, content_type);
    buf_byte(&head, '\n');
    unsigned char bytes[MAC_BYTES], written[HAWK_MAC_LEN + 1];
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    must(md && EVP_DigestInit_ex(md, EVP_sha256(), NULL));
    must(EVP_DigestUpdate(md, head.at, head.len));
    must(EVP_DigestUpdate(md, body.at, body.len));
    must(EVP_DigestUpdate(md, "\n", 1));
    must(EVP_DigestFinal_ex(md, bytes, NULL));
    EVP_MD_CTX_free(md);
    buf_fini(&head);
    must(EVP_EncodeBlock(written, bytes, MAC_BYTES) == HAWK_MAC_LEN);
    memcpy(hash, written, HAWK_MAC_LEN);
}

void hawk_stale_challenge(struct str key, instant now, char challenge[HAWK_CHALLENGE_MAX])
{
    char text[64], tsm[HAWK_MAC_LEN];
    int len = snprintf(text, sizeof text, "hawk.1.ts\n%" PRId64 "\n", now.ms / 1000);
    mac_make_base64(key, (struct str){text, (size_t)len}, tsm);
    len = snprintf(challenge, HAWK_CHALLENGE_MAX,
                   "Hawk ts=\"%" PRId64 "\", tsm=\"%.*s\", error=\"Stale timestamp\"",
                   now.ms / 1000, HAWK_MAC_LEN, tsm);
    must(len < HAWK_CHALLENGE_MAX);
}

/* --- host and port --- */

static bool read_port(struct str text, uint16_t *port)
{
    int64_t v;
    if (text.len > 5 || !read_seconds(text, &v) || v > UINT16_MAX)
        return false;
    *port = (uint16_t)v;
    return true;
}

/* Splits off the port, if there is one. */
static bool split_host(struct str header, struct str *host, struct str *port)
{
    const char *end = header.at + header.len, *host_end;
    if (header.len && *header.at == '[') {
        const char *close = memchr(header.at, ']', header.len);
        if (!close)
            return false;
        *host = (struct str){header.at + 1, (size_t)(close - header.at - 1)};
        host_end = close + 1;
    } else {
        const char *colon = header.len ? memchr(header.at, ':', header.len) : NULL;
        host_end = colon ? colon : end;
        *host = (struct str){header.at, (size_t)(host_end - header.at)};
    }
    *port = (struct str){host_end, (size_t)(end - host_end)};
    return host->len > 0 && (port->len == 0 || *port->at == ':');
}

bool hawk_host(struct str header, bool tls, struct str forwarded_port, struct str forwarded_proto,
               struct hawk_target *target)
{
    struct str port;
    if (!split_host(header, &target->host, &port))
        return false;
    target->port = tls ? 443 : 80;
    if (port.len > 1 && !read_port((struct str){port.at + 1, port.len - 1}, &target->port))
        return false;
    if (forwarded_port.len > 0)
        return read_port(forwarded_port, &target->port);
    if (str_eq(forwarded_proto, STR("https")))
        target->port = 443;
    return true;
}
