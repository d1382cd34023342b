/* SPDX-License-Identifier: Apache-2.0 */
#include "server/identities_file.h"

#include <stdio.h>

#include "access/tokens.h"
#include "base/duration.h"
#include "wire/document.h"

#define TEXT_MAX 1024
/* How long the keys of an issuer count that cannot be read again. */
#define KEYS_AGE     ((span){INT64_C(24) * 3600 * 1000})
#define KEYS_AGE_MIN ((span){1000})
#define KEYS_AGE_MAX ((span){INT64_C(365) * 24 * 3600 * 1000})

struct reader {
    const char *file;
    struct arena *a;
};

static struct err refuse(const struct reader *r, const struct document_node *at, const char *why)
{
    return err_make(ERR_USAGE, "%.80s: line %u, column %u: %s", r->file, at->line, at->column, why);
}

static struct err read_text(const struct reader *r, const struct document_node *n, struct str *text)
{
    if (n->type != DOCUMENT_STRING || n->text.len == 0 || n->text.len > TEXT_MAX)
        return refuse(r, n, "a text of 1 to 1024 bytes is expected");
    for (size_t i = 0; i < n->text.len; i++)
        if ((unsigned char)n->text.at[i] < 0x20 || n->text.at[i] == 0x7f)
            return refuse(r, n, "a control character");
    *text = arena_copy(r->a, n->text);
    return err_none();
}

static bool is(const struct document_node *n, const char *key)
{
    return str_eq(n->key, str_from(key));
}

static struct err unknown(const struct reader *r, const struct document_node *n, const char *known)
{
    char name[60], why[200];
    document_quote(name, sizeof name, n->key);
    snprintf(why, sizeof why, "'%s' is not known here; %s are", name, known);
    return refuse(r, n, why);
}

static struct err read_names(const struct reader *r, const struct document_node *n, size_t most,
                             struct str **names, size_t *count)
{
    if (n->type != DOCUMENT_LIST || n->count == 0 || n->count > most)
        return refuse(r, n, "a list that is neither empty nor too long is expected");
    *names = arena_get(r->a, n->count * sizeof **names);
    for (const struct document_node *one = n->first; one; one = one->next)
        TRY(read_text(r, one, &(*names)[(*count)++]));
    return err_none();
}

/* --- issuers --- */

/* What it says decides who gets in: nobody on the way may change it. */
static bool is_safe_url(struct str url)
{
    static const char *const local[] = {"http://127.0.0.1", "http://localhost", "http://[::1]"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        size_t n = strlen(local[i]);
        if (url.len >= n && memcmp(url.at, local[i], n) == 0 &&
            (url.len == n || url.at[n] == ':' || url.at[n] == '/'))
            return true;
    }
    return url.len > 8 && memcmp(url.at, "https://", 8) == 0;
}

static struct err read_url(const struct reader *r, const struct document_node *n, struct str *url)
{
    TRY(read_text(r, n, url));
    return is_safe_url(*url) ? err_none()
                             : refuse(r, n, "an https: URL is expected, or one of this machine");
}

static struct err read_age(const struct reader *r, const struct document_node *n, span *age)
{
    struct str text;
    TRY(read_text(r, n, &text));
    struct err err = duration_parse(text, age);
    if (err.code == ERR_OK && age->ms >= KEYS_AGE_MIN.ms && age->ms <= KEYS_AGE_MAX.ms)
        return err;
    return refuse(r, n, "a duration of 1s to 365d is expected, such as 24h");
}

static struct err read_issuer(const struct reader *r, const struct document_node *map,
                              struct identity_issuer *out)
{
    if (map->type != DOCUMENT_MAP)
        return refuse(r, map, "an issuer is a mapping");
    out->keys_max_age = KEYS_AGE;
    for (const struct document_node *n = map->first; n; n = n->next) {
        struct err err = is(n, "issuer")       ? read_url(r, n, &out->issuer)
                         : is(n, "audience")   ? read_text(r, n, &out->audience)
                         : is(n, "jwks")       ? read_url(r, n, &out->jwks)
                         : is(n, "caFile")     ? read_text(r, n, &out->ca_file)
                         : is(n, "tokenFile")  ? read_text(r, n, &out->token_file)
                         : is(n, "keysMaxAge") ? read_age(r, n, &out->keys_max_age)
                                               : unknown(r, n,
                                                         "issuer, audience, jwks, caFile, "
                                                         "tokenFile and keysMaxAge");
        TRY(err);
    }
    if (!out->issuer.len || !out->audience.len)
        return refuse(r, map, "an issuer needs `issuer` and `audience`");
    return err_none();
}

static struct err read_issuers(const struct reader *r, const struct document_node *list,
                               struct identity_rules *out)
{
    if (list->type != DOCUMENT_LIST || list->count > IDENTITY_ISSUERS_MAX)
        return refuse(r, list, "a list of at most 16 issuers is expected");
    out->issuers = arena_zero(r->a, (list->count + 1) * sizeof *out->issuers);
    for (const struct document_node *n = list->first; n; n = n->next) {
        struct identity_issuer *one = &out->issuers[out->issuer_count];
        TRY(read_issuer(r, n, one));
        for (size_t i = 0; i < out->issuer_count; i++)
            if (str_eq(out->issuers[i].issuer, one->issuer))
                return refuse(r, n, "this issuer is there twice");
        out->issuer_count++;
    }
    return err_none();
}

/* --- rules --- */

static struct err read_roles(const struct reader *r, const struct document_node *n, unsigned *roles)
{
    struct str *words;
    size_t count = 0;
    TRY(read_names(r, n, ROLE_COUNT, &words, &count));
    for (size_t i = 0; i < count; i++) {
        enum role role;
        if (!rights_role_parse(words[i], &role))
            return refuse(r, n, "roles are viewer, producer, worker, operator and admin");
        *roles |= 1u << role;
    }
    return err_none();
}

static struct err read_claims(const struct reader *r, const struct document_node *map,
                              struct identity_rule *rule)
{
    if (map->type != DOCUMENT_MAP || map->count == 0 || map->count > IDENTITY_CLAIMS_MAX)
        return refuse(r, map, "a mapping of 1 to 16 claims to patterns is expected");
    rule->claims = arena_get(r->a, map->count * sizeof *rule->claims);
    for (const struct document_node *n = map->first; n; n = n->next) {
        struct identity_claim *c = &rule->claims[rule->claim_count++];
        c->name = arena_copy(r->a, n->key);
        TRY(read_text(r, n, &c->pattern));
    }
    return err_none();
}

/* By what somebody is known: one of these. */
static struct err read_kind(const struct reader *r, const struct document_node *n,
                            enum actor_kind kind, struct str *text, struct identity_rule *rule)
{
    if (rule->kind)
        return refuse(r, n, "a rule is about one of certificate, certificateName, issuer, client");
    rule->kind = kind;
    rule->by_name = is(n, "certificateName");
    return read_text(r, n, text);
}

static struct err read_payloads(const struct reader *r, const struct document_node *n, bool *on)
{
    *on = str_eq(n->text, STR("true"));
    return n->type == DOCUMENT_BOOL ? err_none() : refuse(r, n, "true or false is expected");
}

static struct err read_member(const struct reader *r, const struct document_node *n,
                              struct identity_rule *rule)
{
    if (is(n, "certificate") || is(n, "certificateName"))
        return read_kind(r, n, ACTOR_CERTIFICATE, &rule->pattern, rule);
    if (is(n, "client"))
        return read_kind(r, n, ACTOR_HAWK, &rule->pattern, rule);
    if (is(n, "issuer"))
        return read_kind(r, n, ACTOR_JWT, &rule->issuer, rule);
    if (is(n, "claims"))
        return read_claims(r, n, rule);
    if (is(n, "name"))
        return read_text(r, n, &rule->name);
    if (is(n, "roles"))
        return read_roles(r, n, &rule->roles);
    if (is(n, "payloads"))
        return read_payloads(r, n, &rule->payloads);
    if (is(n, "queues"))
        return read_names(r, n, RIGHTS_PATTERNS_MAX, &rule->queues, &rule->queue_count);
    return unknown(r, n,
                   "certificate, certificateName, issuer, claims, client, name, roles, queues and "
                   "payloads");
}

static bool has_issuer(const struct identity_rules *all, struct str issuer)
{
    for (size_t i = 0; i < all->issuer_count; i++)
        if (str_eq(all->issuers[i].issuer, issuer))
            return true;
    return false;
}

static struct err check_rule(const struct reader *r, const struct document_node *n,
                             const struct identity_rules *all, const struct identity_rule *rule)
{
    const struct token_spec spec = {.roles = rule->roles,
                                    .queues = rule->queues,
                                    .queue_count = rule->queue_count,
                                    .name = rule->name,
                                    .expires = INSTANT_NONE};
    if (!rule->kind)
        return refuse(r, n, "a rule needs certificate, certificateName, issuer or client");
    if (rule->kind == ACTOR_JWT && !has_issuer(all, rule->issuer))
        return refuse(r, n, "there is no such issuer in `issuers`");
    if ((rule->kind == ACTOR_JWT) != (rule->claim_count > 0))
        return refuse(r, n, "a rule with an issuer, and no other, needs claims");
    /* The front end of these clients knows no queues of ours. */
    if (rule->kind == ACTOR_HAWK && rule->queue_count)
        return refuse(r, n, "clients of Taskcluster's API cannot be limited to queues");
    struct err err = token_check_spec(&spec);
    return err.code == ERR_OK ? err : refuse(r, n, err.msg);
}

static struct err read_rules(const struct reader *r, const struct document_node *list,
                             struct identity_rules *out)
{
    if (list->type != DOCUMENT_LIST || list->count > IDENTITY_RULES_MAX)
        return refuse(r, list, "a list of at most 256 rules is expected");
    out->rules = arena_zero(r->a, (list->count + 1) * sizeof *out->rules);
    for (const struct document_node *n = list->first; n; n = n->next) {
        struct identity_rule *rule = &out->rules[out->rule_count++];
        if (n->type != DOCUMENT_MAP)
            return refuse(r, n, "a rule is a mapping");
        for (const struct document_node *m = n->first; m; m = m->next)
            TRY(read_member(r, m, rule));
        TRY(check_rule(r, n, out, rule));
    }
    return err_none();
}

static struct err read_root(const struct reader *r, const struct document_node *root,
                            struct identity_rules *out)
{
    if (root->type != DOCUMENT_MAP)
        return refuse(r, root, "a mapping with issuers and rules is expected");
    const struct document_node *issuers = document_member(root, "issuers"),
                               *rules = document_member(root, "rules");
    for (const struct document_node *n = root->first; n; n = n->next)
        if (n != issuers && n != rules)
            return unknown(r, n, "issuers and rules");
    if (issuers)
        TRY(read_issuers(r, issuers, out));
    return rules ? read_rules(r, rules, out) : err_none();
}

struct err identities_file_parse(const char *file, struct str text, struct identity_rules *out)
{
    struct arena tree = {0};
    struct document_list list;
    struct document_fault fault = {0};
    const struct document_node *root = NULL;
    struct err err = err_none();
    *out = (struct identity_rules){0};
    const struct reader r = {file, &out->memory};
    if (!document_read(text, DOCUMENT_ANY, &tree, &list, &fault) ||
        !document_only(&list, &root, &fault))
        err = document_fault_in(file, &fault);
    else
        err = read_root(&r, root, out);
    arena_fini(&tree);
    if (err.code == ERR_OK)
        return err;
    err.code = ERR_USAGE;
    arena_fini(&out->memory);
    *out = (struct identity_rules){0};
    return err;
}

struct err identities_file_read(const char *file, struct identity_rules *out)
{
    struct buf text = {0};
    struct err err = document_load(file, &text);
    if (err.code == ERR_OK)
        err = identities_file_parse(file, buf_view(&text), out);
    buf_fini(&text);
    return err;
}
