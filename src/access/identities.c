/* SPDX-License-Identifier: Apache-2.0 */
#include "access/identities.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/glob.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"

#define WARN_MS 10000
#define SEEN    1024 /* places for JSON Web Tokens that were found to be right */

/* A JSON Web Token by its hash: its signature need not be checked again. */
struct seen {
    unsigned char hash[TOKEN_HASH_LEN];
    struct token *who; /* NULL: the place is free */
    instant not_before, expires;
};

/* Of an issuer. */
struct read_keys {
    struct jwks *set; /* NULL: they are not there yet */
    instant at;       /* when they were read */
};

struct identities {
    struct identities_settings settings;
    struct wrong_tries *tries;
    int64_t warned_at; /* when the log last said that there are too many tries */
    struct identity_rules rules;
    struct read_keys keys[IDENTITY_ISSUERS_MAX];
    struct strmap met; /* of struct token, by rule and subject, of the present rules */
    struct token **all;
    size_t count, cap;
    struct seen seen[SEEN];
};

struct identities *identities_new(const struct identities_settings *settings)
{
    struct identities *i = ALLOC(struct identities);
    i->settings = *settings;
    i->tries = wrong_tries_new(settings->wrong_max, settings->seed);
    i->met.seed = settings->seed;
    return i;
}

void identities_free(struct identities *i)
{
    if (!i)
        return;
    for (size_t n = 0; n < IDENTITY_ISSUERS_MAX; n++)
        jwks_free(i->keys[n].set);
    for (size_t n = 0; n < i->count; n++)
        token_free(i->all[n]);
    free(i->all);
    strmap_fini(&i->met);
    arena_fini(&i->rules.memory);
    wrong_tries_free(i->tries);
    free(i);
}

/* --- rules and keys --- */

static struct read_keys take_keys(struct identities *i, struct read_keys *old, struct str issuer)
{
    for (size_t n = 0; n < i->rules.issuer_count; n++) {
        struct read_keys keys = old[n];
        if (!str_eq(i->rules.issuers[n].issuer, issuer))
            continue;
        old[n].set = NULL;
        return keys;
    }
    return (struct read_keys){0};
}

void identities_set_rules(struct identities *i, struct identity_rules *rules)
{
    struct read_keys old[IDENTITY_ISSUERS_MAX];
    must(rules->issuer_count <= IDENTITY_ISSUERS_MAX);
    memcpy(old, i->keys, sizeof old);
    for (size_t n = 0; n < IDENTITY_ISSUERS_MAX; n++)
        i->keys[n] = n < rules->issuer_count ? take_keys(i, old, rules->issuers[n].issuer)
                                             : (struct read_keys){0};
    for (size_t n = 0; n < IDENTITY_ISSUERS_MAX; n++)
        jwks_free(old[n].set);
    for (size_t n = 0; n < i->count; n++)
        atomic_store(&i->all[n]->revoked, true);
    strmap_fini(&i->met);
    i->met = (struct strmap){.seed = i->settings.seed};
    memset(i->seen, 0, sizeof i->seen);
    arena_fini(&i->rules.memory);
    i->rules = *rules;
    *rules = (struct identity_rules){0};
}

const struct identity_rules *identities_rules(const struct identities *i)
{
    return &i->rules;
}

void identities_set_keys(struct identities *i, size_t issuer, struct jwks *keys, instant now)
{
    must(issuer < i->rules.issuer_count);
    jwks_free(i->keys[issuer].set);
    i->keys[issuer] = (struct read_keys){keys, now};
    memset(i->seen, 0, sizeof i->seen); /* a key that signed some of them may be gone */
}

bool identities_guard(const struct identities *i)
{
    bool some = tokens_admins(i->settings.tokens) > 0;
    for (size_t n = 0; n < i->rules.rule_count && !some; n++)
        some = i->rules.rules[n].roles & 1u << ROLE_ADMIN;
    return some;
}

/* --- who was met --- */

static struct token *make(const struct identity_rule *rule, struct str subject)
{
    struct token_spec spec = {.roles = rule->roles,
                              .payloads = rule->payloads,
                              .queues = rule->queues,
                              .queue_count = rule->queue_count,
                              .name = rule->name,
                              .created = {0},
                              .expires = INSTANT_NONE};
    return token_stand_in(&spec, rule->kind, rule->issuer, subject);
}

static struct err meet(struct identities *i, const struct identity_rule *rule, struct str subject,
                       struct token **who)
{
    struct buf key = {0};
    buf_print(&key, "%zu ", (size_t)(rule - i->rules.rules));
    buf_str(&key, subject);
    *who = strmap_get(&i->met, buf_view(&key));
    struct err err = err_none();
    if (!*who && i->count == IDENTITIES_MAX) {
        err = err_make(ERR_BUSY, "%d identities have come and gone; restart the server",
                       IDENTITIES_MAX);
    } else if (!*who) {
        *who = make(rule, subject);
        ALLOC_GROW(i->all, i->count, i->cap, 16);
        i->all[i->count++] = *who;
        strmap_put(&i->met, buf_view(&key), *who);
    }
    buf_fini(&key);
    return err;
}

/* --- wrong ones --- */

static struct err too_many(struct identities *i, const struct identity_request *r, instant now)
{
    if (now.ms - i->warned_at >= WARN_MS || now.ms < i->warned_at) {
        log_warn("access: too many wrong credentials from %s", *r->address ? r->address : "?");
        i->warned_at = now.ms;
    }
    return err_make(ERR_TOO_MANY_TRIES,
                    "too many wrong credentials from this address; try again in %u s", r->wait);
}

struct err identities_wrong(struct identities *i, struct identity_request *r, instant now,
                            const struct err *err)
{
    if (err->code != ERR_BAD_CREDENTIALS)
        return *err;
    r->wait = wrong_tries_note(i->tries, str_from(r->address), now);
    return r->wait ? too_many(i, r, now) : *err;
}

/* --- JSON Web Tokens --- */

static struct err find_issuer(const struct identities *i, const struct jwt *t, size_t *issuer)
{
    for (size_t n = 0; n < i->rules.issuer_count; n++) {
        if (!str_eq(i->rules.issuers[n].issuer, t->issuer))
            continue;
        *issuer = n;
        return err_none();
    }
    return err_make(ERR_BAD_CREDENTIALS, "the JSON Web Token is of an issuer that is not known");
}

/* Until when the keys of an issuer count that cannot be read again: what it has withdrawn must not
 * count for ever because it is away. */
static instant keys_end(const struct identities *i, size_t issuer)
{
    return (instant){i->keys[issuer].at.ms + i->rules.issuers[issuer].keys_max_age.ms};
}

static struct err verify(struct identities *i, const struct jwt *t, size_t issuer, instant now)
{
    const struct jwks *keys = i->keys[issuer].set;
    bool old = keys && now.ms >= keys_end(i, issuer).ms;
    enum jwks_verdict verdict = keys && !old ? jwks_verify(keys, t) : JWKS_UNKNOWN;
    if (verdict == JWKS_UNKNOWN && i->settings.want_keys)
        i->settings.want_keys(i->settings.ctx, issuer);
    if (!keys || old)
        return err_make(ERR_BUSY, "the keys of the issuer have not been read %s; try again",
                        old ? "for too long" : "yet");
    if (verdict != JWKS_GOOD)
        return err_make(ERR_BAD_CREDENTIALS, "the signature of the JSON Web Token is wrong%s",
                        verdict == JWKS_UNKNOWN ? ", or by a new key of the issuer" : "");
    return jwt_check(t, i->rules.issuers[issuer].audience, now);
}

static bool holds(const struct identity_rule *rule, const struct jwt *t)
{
    if (rule->kind != ACTOR_JWT || !str_eq(rule->issuer, t->issuer))
        return false;
    for (size_t n = 0; n < rule->claim_count; n++)
        if (!jwt_claim_matches(t, rule->claims[n].name, rule->claims[n].pattern))
            return false;
    return true;
}

static struct err find_rule(struct identities *i, const struct jwt *t, struct token **who)
{
    for (size_t n = 0; n < i->rules.rule_count; n++)
        if (holds(&i->rules.rules[n], t))
            return meet(i, &i->rules.rules[n], t->subject, who);
    return err_make(ERR_NO_RIGHT, "the JSON Web Token is right, but no rule of the server is about "
                                  "who has it");
}

/* Of several that one subject has shown the one that ends last says when its streams end. */
static void extend(struct token *who, instant expires)
{
    if (!instant_is_set(who->expires) || who->expires.ms < expires.ms)
        who->expires = expires;
}

static struct err check_new(struct identities *i, struct str text, instant now, struct seen *place,
                            struct token **who)
{
    struct arena a = {0};
    struct jwt t;
    size_t issuer = 0;
    struct err err = jwt_read(text, &a, &t);
    if (err.code == ERR_OK)
        err = find_issuer(i, &t, &issuer);
    if (err.code == ERR_OK)
        err = verify(i, &t, issuer, now);
    if (err.code == ERR_OK)
        err = find_rule(i, &t, who);
    if (err.code == ERR_OK) {
        place->who = *who;
        instant expires = {t.expires.ms + JWT_LEEWAY.ms}, end = keys_end(i, issuer);
        place->expires = end.ms < expires.ms ? end : expires;
        place->not_before = instant_is_set(t.not_before)
                                ? (instant){t.not_before.ms - JWT_LEEWAY.ms}
                                : (instant){0};
        extend(*who, expires);
    }
    arena_fini(&a);
    return err;
}

static struct err check_jwt(struct identities *i, struct identity_request *r, struct str text,
                            instant now, struct token **who)
{
    unsigned char hash[TOKEN_HASH_LEN];
    unsigned len = sizeof hash;
    must(EVP_Digest(text.at, text.len, hash, &len, EVP_sha256(), NULL) == 1);
    struct seen *place = &i->seen[(hash[0] | (unsigned)hash[1] << 8) % SEEN];
    bool known = place->who && CRYPTO_memcmp(place->hash, hash, sizeof hash) == 0;
    if (known && now.ms < place->expires.ms && now.ms >= place->not_before.ms) {
        *who = place->who;
        return err_none();
    }
    r->wait = wrong_tries_wait(i->tries, str_from(r->address), now);
    if (r->wait)
        return too_many(i, r, now);
    /* A wrong one takes no place: else whoever sends many would have those that are right
     * forgotten, which are then refused for the wrong ones' sake. */
    struct seen fresh = {0};
    memcpy(fresh.hash, hash, sizeof hash);
    struct err err = check_new(i, text, now, &fresh, who);
    if (err.code == ERR_OK)
        *place = fresh;
    else if (known)
        *place = (struct seen){0};
    return err;
}

/* --- certificates and clients --- */

/* The first of the lines that matches; empty: none does. */
static struct str find_name(struct str names, struct str pattern)
{
    while (names.len) {
        const char *end = memchr(names.at, '\n', names.len);
        must(end);
        struct str one = {names.at, (size_t)(end - names.at)};
        if (glob_matches(pattern, one))
            return one;
        names = (struct str){end + 1, names.len - one.len - 1};
    }
    return (struct str){0};
}

/* By what of its certificate the rule knows the sender; empty: not at all. Workloads that are known
 * by a name may have no subject, or all the same one. */
static struct str known_by(const struct identity_rule *rule, const struct identity_request *r)
{
    if (rule->by_name)
        return find_name(r->names, rule->pattern);
    return r->subject.len && glob_matches(rule->pattern, r->subject) ? r->subject : (struct str){0};
}

static struct err check_certificate(struct identities *i, const struct identity_request *r,
                                    struct token **who)
{
    for (size_t n = 0; n < i->rules.rule_count; n++) {
        const struct identity_rule *rule = &i->rules.rules[n];
        struct str subject = rule->kind == ACTOR_CERTIFICATE ? known_by(rule, r) : (struct str){0};
        if (subject.len)
            return meet(i, rule, subject, who);
    }
    return err_none();
}

struct err identities_client(struct identities *i, struct str client, struct token **who)
{
    *who = NULL;
    for (size_t n = 0; n < i->rules.rule_count; n++)
        if (i->rules.rules[n].kind == ACTOR_HAWK && glob_matches(i->rules.rules[n].pattern, client))
            return meet(i, &i->rules.rules[n], client, who);
    return err_none();
}

/* --- all of them --- */

struct err identities_check(struct identities *i, struct identity_request *r, instant now,
                            struct token **who)
{
    struct str text;
    *who = NULL;
    if (!tokens_bearer(r->authorization, &text))
        return r->authorization.len ? err_none() : check_certificate(i, r, who);
    struct err err =
        i->rules.issuer_count && jwt_is_like(text)
            ? check_jwt(i, r, text, now, who)
            : tokens_check(i->settings.tokens, text, instant_add(now, (span){-r->held.ms}), who);
    return err.code == ERR_OK ? err : identities_wrong(i, r, now, &err);
}
