/* SPDX-License-Identifier: Apache-2.0 */
#include "access/access.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "access/clients.h"
#include "access/hawk.h"
#include "access/mac.h"
#include "access/nonces.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/must.h"

_Static_assert(ACCESS_CHALLENGE_MAX >= HAWK_CHALLENGE_MAX, "a challenge of Hawk fits");

struct access {
    struct clients *clients; /* NULL: none were configured */
    struct nonces *nonces;
    struct str issuer, issuer_key; /* owned */
};

static const struct str everything_scope = {"*", 1};
static const struct scope_set everything = {&everything_scope, 1};

struct access *access_new(const struct access_settings *settings)
{
    must(client_id_valid(settings->issuer) && settings->issuer_key.len >= ACCESS_KEY_MIN);
    struct access *a = ALLOC(struct access);
    a->nonces = nonces_new(settings->window, settings->nonces_max, settings->seed);
    a->issuer =
        (struct str){alloc_text(settings->issuer.at, settings->issuer.len), settings->issuer.len};
    a->issuer_key = (struct str){alloc_text(settings->issuer_key.at, settings->issuer_key.len),
                                 settings->issuer_key.len};
    return a;
}

void access_free(struct access *a)
{
    if (!a)
        return;
    clients_free(a->clients);
    nonces_free(a->nonces);
    OPENSSL_cleanse((char *)a->issuer_key.at, a->issuer_key.len);
    free((char *)a->issuer_key.at);
    free((char *)a->issuer.at);
    free(a);
}

struct err access_load_clients(struct access *a, const char *path)
{
    struct clients *fresh = NULL;
    TRY(clients_load(path, &fresh));
    if (clients_find(fresh, a->issuer)) {
        clients_free(fresh);
        return err_make(ERR_CONFLICT, "%s: '%.*s' is the name of the server itself", path,
                        STR_ARG(a->issuer));
    }
    clients_free(a->clients);
    a->clients = fresh;
    return err_none();
}

bool access_has_clients(const struct access *a)
{
    return a->clients;
}

/* --- whose credentials they are --- */

/* The contents of ext: the certificate of temporary credentials, and the scopes to which the sender
 * restricts the request. */
struct ext {
    struct str certificate;   /* JSON; empty: none */
    const struct str *scopes; /* NULL: no limit */
    size_t count;
};

static struct err bad_ext(const char *why)
{
    return err_make(ERR_BAD_CREDENTIALS, "ext of the credentials %s", why);
}

static struct err read_ext_member(struct json_cursor *c, struct str name, struct arena *mem,
                                  struct ext *ext)
{
    bool absent;
    TRY(json_take_null(c, &absent));
    if (absent)
        return err_none();
    if (str_eq(name, STR("certificate")))
        return ext->certificate.at ? bad_ext("has two certificates")
                                   : json_skip(c, &ext->certificate);
    if (str_eq(name, STR("authorizedScopes")))
        return ext->scopes ? bad_ext("has authorizedScopes twice")
                           : scopes_read(c, mem, &ext->scopes, &ext->count);
    return json_skip(c, NULL);
}

static struct err read_ext_json(struct str text, struct arena *mem, struct ext *ext)
{
    struct json_cursor c = json_open(text);
    TRY(json_enter_object(&c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return json_close(&c);
        /* "\u0061uthorizedScopes" must not be skipped as unknown. */
        if (key.escaped)
            return bad_ext("has an escape in the name of a member");
        TRY(read_ext_member(&c, key.raw, mem, ext));
    }
}

static struct err read_ext(struct str base64, struct arena *mem, struct ext *ext)
{
    *ext = (struct ext){0};
    struct str json;
    if (base64.len == 0)
        return err_none();
    if (!base64_read(base64, mem, &json))
        return bad_ext("is not Base64");
    struct err err = read_ext_json(json, mem, ext);
    if (err.code != ERR_OK && err.code != ERR_BAD_CREDENTIALS)
        return err_make(ERR_BAD_CREDENTIALS, "ext of the credentials is malformed: %.160s",
                        err.msg);
    return err;
}

/* The key with which a request must be signed, and the rights that follow if it is. */
struct grant {
    struct str key;
    struct scope_set scopes;
    instant expires;
    enum access_kind kind;
    struct str client; /* who has that key; empty: the server */
};

/* Of a client whose roles give it more scopes than there may be. */
static struct err explained(struct err err, struct str id)
{
    if (err.code == ERR_OK)
        return err;
    return err_make(ERR_BAD_CREDENTIALS, "the scopes of '%.*s': %.160s", STR_ARG(id), err.msg);
}

static struct err find_issuer(const struct access *a, struct str id, bool certified, instant now,
                              struct grant *g)
{
    if (certified && str_eq(id, a->issuer)) {
        *g = (struct grant){a->issuer_key, everything, INSTANT_NONE, ACCESS_TEMPORARY, {0}};
        return err_none();
    }
    const struct access_client *c = clients_find(a->clients, id);
    if (!c)
        return err_make(ERR_BAD_CREDENTIALS, "there is no client '%.*s'", STR_ARG(id));
    if (instant_is_set(c->expires) && c->expires.ms <= now.ms)
        return err_make(ERR_BAD_CREDENTIALS, "the client '%.*s' has expired", STR_ARG(id));
    *g = (struct grant){.key = c->token,
                        .expires = c->expires,
                        .kind = certified ? ACCESS_TEMPORARY : ACCESS_CLIENT,
                        .client = c->id};
    return explained(clients_expand(a->clients, c, &g->scopes), id);
}

static struct err use_certificate(const struct access *a, const struct certificate *c,
                                  struct str id, struct str issuer, instant now, struct arena *mem,
                                  struct grant *g)
{
    struct scope_set granted;
    TRY(certificate_check(c, id, issuer, g->key, &g->scopes, now, mem, &granted));
    char token[CERTIFICATE_TOKEN_LEN];
    certificate_token(c, g->key, token);
    g->key = arena_copy(mem, (struct str){token, sizeof token});
    TRY(explained(clients_expand_scopes(a->clients, &granted, mem, &g->scopes), id));
    if (!instant_is_set(g->expires) || c->expiry.ms < g->expires.ms)
        g->expires = c->expiry;
    return err_none();
}

static struct err find_grant(const struct access *a, struct str id, const struct ext *ext,
                             instant now, struct arena *mem, struct grant *g)
{
    if (ext->certificate.len == 0)
        return find_issuer(a, id, false, now, g);
    struct certificate c;
    TRY(certificate_read(ext->certificate, mem, &c));
    struct str issuer = c.issuer.len > 0 ? c.issuer : id;
    TRY(find_issuer(a, issuer, true, now, g));
    return use_certificate(a, &c, id, issuer, now, mem, g);
}

/* Authorized scopes replace those of the credentials. */
static struct err limit_scopes(const struct access *a, const struct ext *ext, struct arena *mem,
                               struct scope_set *scopes)
{
    struct scope_set less;
    if (!ext->scopes)
        return err_none();
    TRY(scope_set_make(ext->scopes, ext->count, mem, &less, NULL));
    if (!scope_set_covers(scopes, &less))
        return err_make(ERR_BAD_CREDENTIALS,
                        "the credentials do not satisfy their authorizedScopes");
    return explained(clients_expand_scopes(a->clients, &less, mem, scopes),
                     STR("authorizedScopes"));
}

/* --- ways to present them --- */

static struct err check_time(const struct access *a, const struct hawk_attributes *h,
                             struct str key, instant now, char *challenge)
{
    if (nonces_in_window(a->nonces, h->seconds, now))
        return err_none();
    hawk_stale_challenge(key, now, challenge);
    return err_make(ERR_STALE_TIME, "the request's time is too far from the server's");
}

static struct err check_hash(const struct access_request *r, const struct hawk_attributes *h)
{
    char hash[HAWK_MAC_LEN];
    if (h->hash.len == 0)
        return err_none();
    hawk_payload_hash(r->content_type, r->body, hash);
    if (!mac_same((struct str){hash, sizeof hash}, h->hash))
        return err_make(ERR_BAD_CREDENTIALS, "the hash in the credentials is not the body's");
    return err_none();
}

static struct err check_nonce(struct access *a, const struct hawk_attributes *h, struct str key,
                              instant now, char *challenge)
{
    switch (nonces_see(a->nonces, h->id, h->nonce, h->seconds, now)) {
    case NONCES_NEW:
        return err_none();
    case NONCES_SEEN:
        return err_make(ERR_REPLAYED, "a request with this nonce was accepted before");
    case NONCES_FULL:
        return err_make(ERR_BUSY, "too many signed requests in a short time");
    case NONCES_STALE:
        break;
    }
    return check_time(a, h, key, now, challenge);
}

static struct err check_header(struct access *a, const struct access_request *r,
                               const struct hawk_target *target, const struct hawk_attributes *h,
                               struct str key, instant now, char *challenge)
{
    if (!hawk_mac_matches(HAWK_HEADER, key, target, h))
        return err_make(ERR_BAD_CREDENTIALS, "the credentials are wrong (bad MAC)");
    TRY(check_time(a, h, key, now, challenge));
    if (r->elsewhere)
        return err_none();
    TRY(check_hash(r, h));
    return check_nonce(a, h, key, now, challenge);
}

static struct err check_bewit(const struct hawk_target *target, const struct hawk_attributes *h,
                              struct str key, instant now)
{
    if (!hawk_mac_matches(HAWK_BEWIT, key, target, h))
        return err_make(ERR_BAD_CREDENTIALS, "the bewit is wrong (bad MAC)");
    if (h->seconds * 1000 <= now.ms)
        return err_make(ERR_BAD_CREDENTIALS, "the bewit has expired");
    return err_none();
}

static struct err check_signed(struct access *a, const struct access_request *r, bool bewit,
                               instant now, struct arena *mem, struct access_identity *who,
                               char *challenge)
{
    struct hawk_target target = {.method = r->method, .path = r->path, .query = r->query};
    struct hawk_attributes h;
    struct ext ext;
    struct grant g;
    if (!hawk_host(r->host, r->tls, r->forwarded_port, r->forwarded_proto, &target))
        return err_make(ERR_BAD_CREDENTIALS, "signed requests need a host and a port");
    if (bewit)
        TRY(hawk_parse_bewit(&target, mem, &h));
    else
        TRY(hawk_parse_header(r->authorization, &h));
    TRY(read_ext(h.ext, mem, &ext));
    TRY(find_grant(a, h.id, &ext, now, mem, &g));
    if (bewit)
        TRY(check_bewit(&target, &h, g.key, now));
    else
        TRY(check_header(a, r, &target, &h, g.key, now, challenge));
    TRY(limit_scopes(a, &ext, mem, &g.scopes));
    *who = (struct access_identity){.kind = g.kind,
                                    .client_id = arena_copy(mem, h.id),
                                    .issuer = arena_copy(mem, g.client),
                                    .scopes = scope_set_copy(&g.scopes, mem),
                                    .expires = g.expires,
                                    .bewit = bewit,
                                    .hash = arena_copy(mem, h.hash)};
    return err_none();
}

struct access_identity access_anonymous(const struct access *a, struct arena *mem)
{
    static const struct scope_set nothing;
    struct access_identity who = {.kind = ACCESS_ANONYMOUS, .expires = INSTANT_NONE};
    struct scope_set scopes;
    if (!a->clients)
        who.scopes = everything;
    else if (clients_expand_scopes(a->clients, &nothing, mem, &scopes).code == ERR_OK)
        who.scopes = scope_set_copy(&scopes, mem);
    return who;
}

struct err access_expand(const struct access *a, const struct scope_set *scopes, struct arena *mem,
                         struct scope_set *out)
{
    struct scope_set all;
    TRY(clients_expand_scopes(a->clients, scopes, mem, &all));
    *out = scope_set_copy(&all, mem);
    return err_none();
}

const struct static_worker *access_static_worker(const struct access *a, struct str pool,
                                                 struct str group, struct str id)
{
    return clients_worker(a->clients, pool, group, id);
}

struct err access_check(struct access *a, const struct access_request *r, instant now,
                        struct arena *mem, struct access_identity *who,
                        char challenge[ACCESS_CHALLENGE_MAX])
{
    challenge[0] = '\0';
    bool bewit = hawk_has_bewit(r->query);
    struct err err;
    if (bewit && r->authorization.len > 0) {
        err = err_make(ERR_BAD_CREDENTIALS, "the request has both a bewit and an Authorization");
    } else if (bewit || r->authorization.len > 0) {
        err = check_signed(a, r, bewit, now, mem, who, challenge);
    } else {
        *who = access_anonymous(a, mem);
        return err_none();
    }
    if (err.code != ERR_OK && err_status(err.code) == 401 && challenge[0] == '\0')
        snprintf(challenge, ACCESS_CHALLENGE_MAX, "Hawk");
    return err;
}

/* --- whether it is allowed --- */

struct err access_require(const struct access_identity *who, const struct scope_expr *e,
                          const struct scope_params *p, struct buf *why)
{
    if (scope_expr_satisfied(e, p, &who->scopes))
        return err_none();
    struct err err =
        who->kind == ACCESS_ANONYMOUS
            ? err_make(ERR_FORBIDDEN, "this request needs credentials")
            : err_make(ERR_FORBIDDEN, "the client '%.*s' lacks a scope that this request needs",
                       STR_ARG(who->client_id));
    if (why) {
        buf_print(why, "%s\n\nmissing: ", err.msg);
        scope_expr_write_missing(e, p, &who->scopes, why);
        buf_lit(why, "\nneeded: ");
        scope_expr_write(e, p, why);
    }
    return err;
}

void access_issue(const struct access *a, struct str id, instant start, instant expiry,
                  const struct str *scopes, size_t count, struct arena *mem,
                  struct credentials *out)
{
    expiry = instant_min(expiry, instant_add(start, CERTIFICATE_LIFE_MAX));
    certificate_make(a->issuer, a->issuer_key, id, start, expiry, scopes, count, mem, out);
}

void access_sign(const struct access *a, struct str text, char mac[ACCESS_MAC_LEN])
{
    _Static_assert(ACCESS_MAC_LEN == MAC_BASE64, "a MAC in Base64");
    mac_make_base64(a->issuer_key, text, mac);
}

bool access_same(struct str a, struct str b)
{
    return mac_same(a, b);
}
