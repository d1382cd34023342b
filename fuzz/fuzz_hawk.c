/* SPDX-License-Identifier: Apache-2.0 */

/* The first byte chooses the format of the rest: an Authorization header, a query with a bewit, a
 * Host header, scopes (one per line), a file of clients, a certificate, or ext of a request. */

#include <stdint.h>
#include <stdlib.h>

#include "access/access.h"
#include "access/clients.h"
#include "access/hawk.h"
#include "base/base64.h"
#include "base/must.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY STR("a key of more than thirty-two bytes")

static const instant now = {INT64_C(1700000000000)};

static const struct hawk_target somewhere = {
    .method = {"GET", 3}, .path = {"/x", 2}, .host = {"example.com", 11}, .port = 8000};

/* --- headers --- */

static void write_attribute(struct buf *b, const char *name, struct str value)
{
    if (value.len > 0)
        buf_print(b, "%s%s=\"%.*s\"", b->len > 5 ? ", " : "", name, STR_ARG(value));
}

/* What was read is signed, written and read again, and must then be valid. */
static void check_signs(const struct hawk_attributes *h)
{
    char mac[HAWK_MAC_LEN];
    hawk_mac(HAWK_HEADER, KEY, &somewhere, h, mac);
    struct hawk_attributes again = *h;
    again.mac = (struct str){mac, sizeof mac};
    must(hawk_mac_matches(HAWK_HEADER, KEY, &somewhere, &again));
    struct buf b = {0};
    buf_lit(&b, "Hawk ");
    write_attribute(&b, "id", h->id);
    write_attribute(&b, "ts", h->ts);
    write_attribute(&b, "nonce", h->nonce);
    write_attribute(&b, "hash", h->hash);
    write_attribute(&b, "ext", h->ext);
    write_attribute(&b, "app", h->app);
    write_attribute(&b, "dlg", h->dlg);
    write_attribute(&b, "mac", again.mac);
    if (b.len <= HAWK_HEADER_MAX) {
        must(hawk_parse_header(buf_view(&b), &again).code == ERR_OK);
        must(hawk_mac_matches(HAWK_HEADER, KEY, &somewhere, &again));
        must(str_eq(again.id, h->id) && str_eq(again.nonce, h->nonce));
        must(again.seconds == h->seconds);
    }
    buf_fini(&b);
}

static void try_header(struct str text)
{
    struct hawk_attributes h;
    struct err err = hawk_parse_header(text, &h);
    if (err.code == ERR_OK) {
        check_signs(&h);
    } else {
        must(err.code == ERR_BAD_CREDENTIALS && err.offset <= (int64_t)text.len);
        must(utf8_check(str_from(err.msg)) == strlen(err.msg));
    }
}

static void try_query(struct str query, struct arena *a)
{
    struct hawk_target t = somewhere;
    struct hawk_attributes h;
    t.query = query;
    if (!hawk_has_bewit(query))
        return;
    struct err err = hawk_parse_bewit(&t, a, &h);
    must(err.code == ERR_OK || err.code == ERR_BAD_CREDENTIALS);
    if (err.code != ERR_OK)
        return;
    must(t.query.len + strlen("bewit=") <= query.len && h.id.len > 0 && h.seconds >= 0);
    char mac[HAWK_MAC_LEN];
    hawk_mac(HAWK_BEWIT, KEY, &t, &h, mac);
    h.mac = (struct str){mac, sizeof mac};
    must(hawk_mac_matches(HAWK_BEWIT, KEY, &t, &h));
}

static void try_host(struct str header)
{
    struct hawk_target t = {0};
    if (hawk_host(header, false, (struct str){0}, (struct str){0}, &t))
        must(t.host.len > 0 && t.host.len <= header.len);
}

/* --- scopes --- */

#define LINES_MAX 200

static size_t split(struct str text, struct str *lines)
{
    size_t n = 0;
    while (text.len > 0 && n < LINES_MAX) {
        const char *end = memchr(text.at, '\n', text.len);
        lines[n] = (struct str){text.at, end ? (size_t)(end - text.at) : text.len};
        size_t used = lines[n++].len + (end != NULL);
        text = (struct str){text.at + used, text.len - used};
    }
    return n;
}

static const struct scope_expr all_of_them = SCOPE_ALL_OF(SCOPE_EACH("line", "lines", "<line>"));
static const struct scope_expr any_of_them =
    SCOPE_ANY_OF(SCOPE_EACH("line", "lines", "<line>"), SCOPE_ALL_OF(SCOPE("a:<first>:b")));

/* An expression over texts of any kind, including invalid scopes. */
static void try_expression(const struct scope_expr *e, const struct str *lines, size_t count,
                           const struct scope_set *have)
{
    const struct scope_param list[] = {{"lines", .list = lines, .count = count},
                                       {"first", count ? lines[0] : STR("")}};
    const struct scope_params p = {list, 2};
    struct buf b = {0};
    scope_expr_write_missing(e, &p, have, &b);
    must(scope_expr_satisfied(e, &p, have) == str_eq(buf_view(&b), STR("null")));
    buf_byte(&b, ' ');
    size_t end = b.len;
    scope_expr_write(e, &p, &b);
    struct json_cursor c = json_open((struct str){b.at + end, b.len - end});
    must(json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK);
    buf_fini(&b);
}

static void try_scopes(struct str text, struct arena *a)
{
    struct str lines[LINES_MAX];
    struct scope_set s;
    size_t count = split(text, lines), half = count / 2;
    struct err err = scope_set_make(lines, half, a, &s, NULL);
    must(err.code == ERR_OK || err.code == ERR_BAD_VALUE);
    if (err.code != ERR_OK)
        s = (struct scope_set){0};
    for (size_t i = 0; i < count; i++) {
        bool expected = false;
        for (size_t j = 0; j < half && err.code == ERR_OK; j++)
            expected = expected || scope_satisfies(lines[j], lines[i]);
        must(scope_set_satisfies(&s, lines[i]) == expected);
    }
    try_expression(&all_of_them, lines, count, &s);
    try_expression(&any_of_them, lines, count, &s);
}

/* --- documents --- */

static void try_clients(struct str text)
{
    struct clients *all;
    struct err err = clients_read(text, "clients", &all);
    must((err.code == ERR_OK) == (all != NULL));
    if (all)
        must(clients_count(all) <= text.len);
    else
        must(utf8_check(str_from(err.msg)) == strlen(err.msg));
    clients_free(all);
}

static void try_certificate(struct str text, struct arena *a)
{
    struct certificate c;
    struct err err = certificate_read(text, a, &c);
    must(err.code == ERR_OK || err.code == ERR_BAD_CREDENTIALS);
    if (err.code != ERR_OK)
        return;
    static const struct str star = {"*", 1};
    const struct scope_set everything = {&star, 1};
    struct scope_set granted;
    struct str issuer = c.issuer.len ? c.issuer : STR("x");
    must(c.seed.len == CERTIFICATE_SEED_LEN);
    must(certificate_check(&c, STR("x"), issuer, KEY, &everything, now, a, &granted).code ==
         ERR_BAD_CREDENTIALS);
}

/* The text as ext of a correctly signed request. */
static void try_ext(struct str text, struct arena *a)
{
    struct buf ext = {0}, header = {0};
    base64_write(&ext, text);
    struct hawk_attributes h = {
        .id = STR("x"), .ts = STR("1700000000"), .nonce = STR("n"), .ext = buf_view(&ext)};
    char mac[HAWK_MAC_LEN], challenge[ACCESS_CHALLENGE_MAX];
    hawk_mac(HAWK_HEADER, KEY, &somewhere, &h, mac);
    buf_print(&header, "Hawk id=\"x\", ts=\"1700000000\", nonce=\"n\", mac=\"%.*s\", ext=\"",
              HAWK_MAC_LEN, mac);
    buf_str(&header, buf_view(&ext));
    buf_lit(&header, "\"");
    struct access *access = access_new(&(struct access_settings){
        .window = HAWK_WINDOW, .nonces_max = 10, .issuer = STR("x-server"), .issuer_key = KEY});
    const struct access_request r = {.method = somewhere.method,
                                     .path = somewhere.path,
                                     .host = STR("example.com:8000"),
                                     .authorization = buf_view(&header)};
    struct access_identity who;
    /* No client is known, and no fuzzer can produce anything signed by the server. */
    must(access_check(access, &r, now, a, &who, challenge).code == ERR_BAD_CREDENTIALS);
    must(strcmp(challenge, "Hawk") == 0);
    access_free(access);
    buf_fini(&ext);
    buf_fini(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = {(const char *)data + 1, size - 1};
    struct arena a = {0};
    switch (data[0] % 7) {
    case 0:
        try_header(text);
        break;
    case 1:
        try_query(text, &a);
        break;
    case 2:
        try_host(text);
        break;
    case 3:
        try_scopes(text, &a);
        break;
    case 4:
        try_clients(text);
        break;
    case 5:
        try_certificate(text, &a);
        break;
    default:
        try_ext(text, &a);
        break;
    }
    arena_fini(&a);
    return 0;
}
