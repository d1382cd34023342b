/* SPDX-License-Identifier: Apache-2.0 */
#include "access/certificate.h"

#include <inttypes.h>
#include <openssl/evp.h>

#include "access/mac.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/must.h"

static struct err bad(const char *why)
{
    return err_make(ERR_BAD_CREDENTIALS, "the certificate %s", why);
}

/* --- what is signed --- */

/* An unnamed certificate (without issuer) names neither its issuer nor its holder. */
static void write_signed(struct buf *b, const struct certificate *c, struct str id)
{
    buf_lit(b, "version:1\n");
    if (c->issuer.len > 0)
        buf_print(b, "clientId:%.*s\nissuer:%.*s\n", STR_ARG(id), STR_ARG(c->issuer));
    buf_print(b, "seed:%.*s\nstart:%" PRId64 "\nexpiry:%" PRId64 "\nscopes:\n", STR_ARG(c->seed),
              c->start.ms, c->expiry.ms);
    for (size_t i = 0; i < c->count; i++) {
        if (i > 0)
            buf_byte(b, '\n');
        buf_str(b, c->scopes[i]);
    }
}

static void sign(const struct certificate *c, struct str id, struct str issuer_token,
                 char signature[MAC_BASE64])
{
    struct buf b = {0};
    write_signed(&b, c, id);
    mac_make_base64(issuer_token, buf_view(&b), signature);
    buf_fini(&b);
}

void certificate_token(const struct certificate *c, struct str issuer_token,
                       char token[CERTIFICATE_TOKEN_LEN])
{
    unsigned char mac[MAC_BYTES];
    struct buf b = {0};
    mac_make(issuer_token, c->seed, mac);
    base64_write_url(&b, (struct str){(const char *)mac, sizeof mac});
    must(b.len == CERTIFICATE_TOKEN_LEN);
    memcpy(token, b.at, b.len);
    buf_fini(&b);
}

/* --- making --- */

/* Used instead of random numbers: unpredictable without the token, and different for different
 * certificates. What is hashed differs from everything that is signed. */
static void make_seed(struct certificate *c, struct str id, struct str issuer_token,
                      struct arena *a)
{
    unsigned char bytes[CERTIFICATE_SEED_LEN / 4 * 3] = {0};
    struct buf b = {0};
    buf_lit(&b, "seed of ");
    write_signed(&b, c, id);
    mac_make(issuer_token, buf_view(&b), bytes);
    b.len = 0;
    base64_write_url(&b, (struct str){(const char *)bytes, sizeof bytes});
    c->seed = arena_copy(a, buf_view(&b));
    buf_fini(&b);
}

static void write_json(struct buf *b, const struct certificate *c)
{
    buf_lit(b, "{\"version\":1,\"scopes\":[");
    for (size_t i = 0; i < c->count; i++) {
        if (i > 0)
            buf_byte(b, ',');
        json_write_string(b, c->scopes[i]);
    }
    buf_print(b,
              "],\"start\":%" PRId64 ",\"expiry\":%" PRId64
              ",\"seed\":\"%.*s\",\"signature\":\"%.*s\",\"issuer\":",
              c->start.ms, c->expiry.ms, STR_ARG(c->seed), STR_ARG(c->signature));
    json_write_string(b, c->issuer);
    buf_byte(b, '}');
}

void certificate_make(struct str issuer, struct str issuer_token, struct str id, instant start,
                      instant expiry, const struct str *scopes, size_t count, struct arena *a,
                      struct credentials *out)
{
    must(issuer.len > 0 && !str_eq(id, issuer));
    must(instant_diff(expiry, start).ms <= CERTIFICATE_LIFE_MAX.ms);
    struct certificate c = {
        .issuer = issuer, .start = start, .expiry = expiry, .scopes = scopes, .count = count};
    char signature[MAC_BASE64], token[CERTIFICATE_TOKEN_LEN];
    make_seed(&c, id, issuer_token, a);
    sign(&c, id, issuer_token, signature);
    c.signature = (struct str){signature, sizeof signature};
    certificate_token(&c, issuer_token, token);
    struct buf json = {0};
    write_json(&json, &c);
    *out = (struct credentials){.client_id = arena_copy(a, id),
                                .access_token = arena_copy(a, (struct str){token, sizeof token}),
                                .certificate = arena_copy(a, buf_view(&json))};
    buf_fini(&json);
}

/* --- reading --- */

enum member { VERSION, ISSUER, CLIENT_ID, SEED, SIGNATURE, START, EXPIRY, SCOPES, OTHER };

static const char *const member_names[OTHER] = {
    [VERSION] = "version", [ISSUER] = "issuer",       [CLIENT_ID] = "clientId", [SEED] = "seed",
    [START] = "start",     [SIGNATURE] = "signature", [EXPIRY] = "expiry",      [SCOPES] = "scopes",
};

static enum member find_member(struct str key)
{
    for (int m = 0; m < OTHER; m++)
        if (str_eq(key, str_from(member_names[m])))
            return (enum member)m;
    return OTHER;
}

/* A text that can be part of what is signed: a line feed in it could pass for the end of its
 * line. */
static struct err read_line(struct json_cursor *c, struct arena *a, struct str *out)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    TRY(json_text(s, a, out));
    for (size_t i = 0; i < out->len; i++)
        if (out->at[i] < 0x20 || out->at[i] > 0x7e)
            return bad("has a text that is not printable ASCII");
    return err_none();
}

static struct err read_time(struct json_cursor *c, instant *t)
{
    return json_read_int(c, 0, INSTANT_MAX_MS, &t->ms);
}

static struct err read_member(struct json_cursor *cur, enum member m, struct arena *a,
                              struct certificate *c)
{
    int64_t version;
    switch (m) {
    case VERSION:
        return json_read_int(cur, 1, 1, &version);
    case ISSUER:
        return read_line(cur, a, &c->issuer);
    case CLIENT_ID:
        return read_line(cur, a, &c->client_id);
    case SEED:
        return read_line(cur, a, &c->seed);
    case SIGNATURE:
        return read_line(cur, a, &c->signature);
    case START:
        return read_time(cur, &c->start);
    case EXPIRY:
        return read_time(cur, &c->expiry);
    case SCOPES:
        return scopes_read(cur, a, &c->scopes, &c->count);
    case OTHER:
        break;
    }
    return json_skip(cur, NULL);
}

static struct err read_members(struct json_cursor *cur, struct arena *a, struct certificate *c,
                               bool seen[OTHER + 1])
{
    TRY(json_enter_object(cur));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(cur, &more, &key));
        if (!more)
            return json_close(cur);
        enum member m = find_member(key.raw);
        if (key.escaped || (m != OTHER && seen[m]))
            return bad("has a member twice, or one with escapes in its name");
        seen[m] = true;
        TRY(read_member(cur, m, a, c));
    }
}

struct err certificate_read(struct str json, struct arena *a, struct certificate *c)
{
    *c = (struct certificate){0};
    bool seen[OTHER + 1] = {false};
    struct json_cursor cur = json_open(json);
    struct err err = read_members(&cur, a, c, seen);
    if (err.code != ERR_OK && err.code != ERR_BAD_CREDENTIALS)
        return err_make(ERR_BAD_CREDENTIALS, "the certificate is malformed: %.160s", err.msg);
    TRY(err);
    for (int m = 0; m < OTHER; m++)
        if (!seen[m] && m != ISSUER && m != CLIENT_ID)
            return err_make(ERR_BAD_CREDENTIALS, "the certificate has no %s", member_names[m]);
    if (c->seed.len != CERTIFICATE_SEED_LEN)
        return bad("has a seed that does not have 44 characters");
    if (seen[ISSUER] && c->issuer.len == 0)
        return bad("has an empty issuer");
    if (seen[CLIENT_ID] && !seen[ISSUER])
        return bad("has a clientId, but no issuer");
    if (c->expiry.ms < c->start.ms)
        return bad("expires before it starts");
    if (instant_diff(c->expiry, c->start).ms > CERTIFICATE_LIFE_MAX.ms)
        return bad("is valid for more than 31 days");
    return err_none();
}

/* --- checking --- */

static struct err check_times(const struct certificate *c, instant now)
{
    if (c->start.ms > now.ms + CERTIFICATE_SKEW.ms)
        return bad("is not valid yet");
    if (c->expiry.ms < now.ms - CERTIFICATE_SKEW.ms)
        return bad("has expired");
    return err_none();
}

/* An issuer may only invent ids of clients that it could create. */
static bool may_name(const struct scope_set *issuer_scopes, struct str id)
{
    struct buf b = {0};
    buf_print(&b, "auth:create-client:%.*s", STR_ARG(id));
    bool may = scope_set_satisfies(issuer_scopes, buf_view(&b));
    buf_fini(&b);
    return may;
}

static struct err check_names(const struct certificate *c, struct str id, struct str issuer,
                              const struct scope_set *issuer_scopes)
{
    if (c->issuer.len == 0)
        return err_none();
    must(str_eq(c->issuer, issuer));
    if (str_eq(id, issuer))
        return bad("is for its issuer, and must not name one");
    if (c->client_id.len > 0 && !str_eq(c->client_id, id))
        return bad("is for another clientId");
    if (!may_name(issuer_scopes, id))
        return err_make(ERR_BAD_CREDENTIALS,
                        "the certificate's issuer lacks the scope auth:create-client:%.*s",
                        STR_ARG(id));
    return err_none();
}

/* The signature comes first: without the issuer's token one learns nothing about its scopes. */
struct err certificate_check(const struct certificate *c, struct str id, struct str issuer,
                             struct str issuer_token, const struct scope_set *issuer_scopes,
                             instant now, struct arena *a, struct scope_set *granted)
{
    char signature[MAC_BASE64];
    sign(c, id, issuer_token, signature);
    if (!mac_same((struct str){signature, sizeof signature}, c->signature))
        return bad("has a wrong signature, or is for another clientId");
    TRY(check_names(c, id, issuer, issuer_scopes));
    TRY(check_times(c, now));
    size_t bad_scope;
    struct err err = scope_set_make(c->scopes, c->count, a, granted, &bad_scope);
    if (err.code != ERR_OK)
        return bad("has an invalid scope");
    if (!scope_set_covers(issuer_scopes, granted))
        return bad("grants scopes that its issuer does not have");
    return err_none();
}
