/* SPDX-License-Identifier: Apache-2.0 */
#include "access/tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <strings.h>

#include "access/mac.h"
#include "access/shared_names.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/must.h"

#define PREFIX      "tnx_"
#define PREFIX_LEN  4
#define SECRET_LEN  32
#define BUCKET_BITS 12
#define ROLES_ALL   ((1u << ROLE_COUNT) - 1)

struct tokens {
    struct token *_Atomic buckets[1 << BUCKET_BITS];
    struct token **order; /* as they were added, for the thread that adds them */
    size_t ever, cap, count, admins;
    struct err unread;
    EVP_MD *sha256;
};

static const char hex_digits[] = "0123456789abcdef";

static void write_hex(char *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[2 * i] = hex_digits[from[i] >> 4];
        to[2 * i + 1] = hex_digits[from[i] & 15];
    }
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(struct str text, unsigned char *to, size_t n)
{
    for (size_t i = 0; text.len == 2 * n && i < n; i++) {
        int hi = hex_value(text.at[2 * i]), lo = hex_value(text.at[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        to[i] = (unsigned char)(hi << 4 | lo);
    }
    return text.len == 2 * n;
}

static void hash_text(const EVP_MD *sha256, struct str text, unsigned char hash[TOKEN_HASH_LEN])
{
    unsigned len = 0;
    must(EVP_Digest(text.at, text.len, hash, &len, sha256, NULL) == 1 && len == TOKEN_HASH_LEN);
}

/* --- one token --- */

static struct err check_name(struct str name)
{
    if (name.len > TOKEN_NAME_MAX)
        return err_make(ERR_BAD_VALUE, "name: at most %d bytes, not %zu", TOKEN_NAME_MAX, name.len);
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < 0x20 || name.at[i] == 0x7f)
            return err_make(ERR_BAD_VALUE, "name: control characters are not allowed");
    return err_none();
}

static struct err check_quota(const struct token_spec *spec)
{
    const struct token_quota *q = &spec->quota;
    if (q->waiting > TOKEN_QUOTA_MAX || q->budgets > TOKEN_QUOTA_MAX || q->keys > TOKEN_QUOTA_MAX)
        return err_make(ERR_BAD_VALUE, "quota: numbers up to %d", TOKEN_QUOTA_MAX);
    if (token_has_quota(q) && spec->roles & 1u << ROLE_ADMIN)
        return err_make(ERR_BAD_VALUE, "quota: an admin has none");
    if (q->budgets && !spec->queue_count)
        return err_make(ERR_BAD_VALUE, "quota: budgets: only a token that is limited to queues has "
                                       "budgets of its own");
    return err_none();
}

struct err token_check_spec(const struct token_spec *spec)
{
    if (spec->roles == 0 || spec->roles & ~ROLES_ALL)
        return err_make(ERR_BAD_VALUE, "roles: at least one of viewer, producer, worker, operator "
                                       "and admin");
    if (spec->roles & 1u << ROLE_ADMIN && spec->queue_count)
        return err_make(ERR_BAD_VALUE, "queues: an admin cannot be limited to queues");
    if (spec->queue_count > RIGHTS_PATTERNS_MAX)
        return err_make(ERR_TOO_MANY, "queues: at most %d patterns", RIGHTS_PATTERNS_MAX);
    for (size_t i = 0; i < spec->queue_count; i++)
        TRY(rights_pattern_check(spec->queues[i]));
    TRY(check_quota(spec));
    return check_name(spec->name);
}

static unsigned rights_of(unsigned roles, bool payloads)
{
    unsigned set = payloads ? 1u << RIGHT_PAYLOADS : 0;
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles & 1u << r)
            set |= rights_of_role((enum role)r);
    return set;
}

static struct token *make(const struct token_spec *spec)
{
    struct token *t = ALLOC(struct token);
    struct str *queues = arena_get(&t->memory, spec->queue_count * sizeof *queues + 1);
    for (size_t i = 0; i < spec->queue_count; i++)
        queues[i] = arena_copy(&t->memory, spec->queues[i]);
    t->kind = ACTOR_TOKEN;
    t->roles = spec->roles;
    t->payloads = spec->payloads;
    t->quota = spec->quota;
    t->rights = (struct rights){.set = rights_of(spec->roles, spec->payloads),
                                .queues = {queues, spec->queue_count}};
    shared_names_mark(&t->rights);
    t->name = arena_copy(&t->memory, spec->name);
    t->created = spec->created;
    t->expires = spec->expires;
    return t;
}

struct err token_new(const struct token_spec *spec, struct token **out, char text[TOKEN_TEXT_LEN])
{
    unsigned char id[TOKEN_ID_LEN / 2], secret[SECRET_LEN];
    struct buf b = {0};
    TRY(token_check_spec(spec));
    if (RAND_bytes(id, sizeof id) != 1 || RAND_priv_bytes(secret, sizeof secret) != 1)
        return err_make(ERR_IO, "there are no random bytes for a token");
    struct token *t = make(spec);
    write_hex(t->id, id, sizeof id);
    buf_lit(&b, PREFIX);
    buf_str(&b, token_id(t));
    buf_byte(&b, '_');
    base64_write_url(&b, (struct str){(const char *)secret, sizeof secret});
    must(b.len == TOKEN_TEXT_LEN);
    memcpy(text, b.at, TOKEN_TEXT_LEN);
    hash_text(EVP_sha256(), buf_view(&b), t->hash);
    OPENSSL_cleanse(b.at, b.len);
    OPENSSL_cleanse(secret, sizeof secret);
    buf_fini(&b);
    *out = t;
    return err_none();
}

struct token *token_stand_in(const struct token_spec *spec, enum actor_kind kind, struct str issuer,
                             struct str subject)
{
    unsigned char hash[TOKEN_HASH_LEN];
    struct buf b = {0};
    must(token_check_spec(spec).code == ERR_OK && kind != ACTOR_TOKEN);
    struct token *t = make(spec);
    t->kind = kind;
    t->issuer = arena_copy(&t->memory, issuer);
    t->subject = arena_copy(&t->memory, subject);
    buf_print(&b, "%s %zu ", actor_word(kind), issuer.len);
    buf_str(&b, issuer);
    buf_str(&b, subject);
    hash_text(EVP_sha256(), buf_view(&b), hash);
    write_hex(t->id, hash, TOKEN_ID_LEN / 2);
    buf_fini(&b);
    return t;
}

struct actor token_actor(const struct token *t)
{
    return (struct actor){t->kind, t->kind == ACTOR_TOKEN ? token_id(t) : t->subject, t->name,
                          t->issuer};
}

void token_free(struct token *t)
{
    if (!t)
        return;
    arena_fini(&t->memory);
    free(t);
}

uint64_t token_number(const struct token *t)
{
    unsigned char bytes[TOKEN_ID_LEN / 2];
    uint64_t number = 0;
    must(read_hex(token_id(t), bytes, sizeof bytes));
    for (size_t i = 0; i < sizeof bytes; i++)
        number = number << 8 | bytes[i];
    return number ? number : 1;
}

bool token_is_live(const struct token *t, instant now)
{
    return !atomic_load_explicit(&t->revoked, memory_order_acquire) &&
           (!instant_is_set(t->expires) || now.ms < t->expires.ms);
}

/* --- as it is kept --- */

static void write_time(struct buf *b, const char *name, instant at)
{
    if (instant_is_set(at))
        buf_print(b, ",\"%s\":%lld", name, (long long)at.ms);
}

static void write_limit(struct buf *b, const char *name, uint64_t most)
{
    if (most)
        buf_print(b, ",\"%s\":%llu", name, (unsigned long long)most);
}

void token_write(const struct token *t, struct buf *b)
{
    char hash[2 * TOKEN_HASH_LEN];
    int64_t used = atomic_load_explicit(&t->used, memory_order_relaxed);
    write_hex(hash, t->hash, TOKEN_HASH_LEN);
    buf_print(b, "{\"v\":1,\"id\":\"%.*s\",\"hash\":\"%.*s\",\"roles\":[", TOKEN_ID_LEN, t->id,
              (int)sizeof hash, hash);
    for (int r = 0, n = 0; r < ROLE_COUNT; r++)
        if (t->roles & 1u << r)
            buf_print(b, "%s\"%s\"", n++ ? "," : "", rights_role_word((enum role)r));
    buf_lit(b, "],\"queues\":[");
    for (size_t i = 0; i < t->rights.queues.count; i++) {
        buf_print(b, "%s", i ? "," : "");
        json_write_string(b, t->rights.queues.at[i]);
    }
    buf_print(b, "],\"payloads\":%s,\"name\":", t->payloads ? "true" : "false");
    json_write_string(b, t->name);
    write_limit(b, "waiting", t->quota.waiting);
    write_limit(b, "budgets", t->quota.budgets);
    write_limit(b, "keys", t->quota.keys);
    write_time(b, "created", t->created);
    write_time(b, "expires", t->expires);
    write_time(b, "used", used ? (instant){used} : INSTANT_NONE);
    buf_byte(b, '}');
}

struct kept {
    struct token_spec spec;
    struct str id, hash;
    struct str queues[RIGHTS_PATTERNS_MAX];
    int64_t version, used;
};

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *text)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    return json_text(s, a, text);
}

static struct err read_roles(struct json_cursor *c, struct arena *a, unsigned *roles)
{
    bool more;
    TRY(json_enter_array(c));
    for (;;) {
        struct str word;
        enum role r;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        TRY(read_text(c, a, &word));
        if (!rights_role_parse(word, &r))
            return err_make(ERR_CORRUPT, "a role that is not known");
        *roles |= 1u << r;
    }
}

static struct err read_queues(struct json_cursor *c, struct arena *a, struct kept *k)
{
    bool more;
    TRY(json_enter_array(c));
    for (;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (k->spec.queue_count == RIGHTS_PATTERNS_MAX)
            return err_make(ERR_CORRUPT, "too many queues");
        TRY(read_text(c, a, &k->queues[k->spec.queue_count++]));
    }
}

static struct err read_limit(struct json_cursor *c, uint64_t *most)
{
    int64_t n;
    TRY(json_read_int(c, 1, TOKEN_QUOTA_MAX, &n));
    *most = (uint64_t)n;
    return err_none();
}

/* A member that is not known may limit the token: it must not be passed over. */
static struct err read_member(struct json_cursor *c, struct str name, struct arena *a,
                              struct kept *k)
{
    if (str_eq(name, STR("v")))
        return json_read_int(c, 1, 1, &k->version);
    if (str_eq(name, STR("id")))
        return read_text(c, a, &k->id);
    if (str_eq(name, STR("hash")))
        return read_text(c, a, &k->hash);
    if (str_eq(name, STR("roles")))
        return read_roles(c, a, &k->spec.roles);
    if (str_eq(name, STR("queues")))
        return read_queues(c, a, k);
    if (str_eq(name, STR("payloads")))
        return json_read_bool(c, &k->spec.payloads);
    if (str_eq(name, STR("name")))
        return read_text(c, a, &k->spec.name);
    if (str_eq(name, STR("waiting")))
        return read_limit(c, &k->spec.quota.waiting);
    if (str_eq(name, STR("budgets")))
        return read_limit(c, &k->spec.quota.budgets);
    if (str_eq(name, STR("keys")))
        return read_limit(c, &k->spec.quota.keys);
    if (str_eq(name, STR("created")))
        return json_read_int(c, 1, INSTANT_MAX_MS, &k->spec.created.ms);
    if (str_eq(name, STR("expires")))
        return json_read_int(c, 1, INSTANT_MAX_MS, &k->spec.expires.ms);
    if (str_eq(name, STR("used")))
        return json_read_int(c, 1, INSTANT_MAX_MS, &k->used);
    return err_make(ERR_CORRUPT, "a member that is not known");
}

static struct err read_kept(struct str text, struct arena *a, struct kept *k)
{
    struct json_cursor c = json_open(text);
    TRY(json_enter_object(&c));
    for (bool more;;) {
        struct json_string key;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return json_close(&c);
        TRY(read_member(&c, key.raw, a, k));
    }
}

static struct err build(const struct kept *k, struct token **out)
{
    unsigned char id[TOKEN_ID_LEN / 2], hash[TOKEN_HASH_LEN];
    TRY(token_check_spec(&k->spec));
    if (k->version != 1 || !read_hex(k->id, id, sizeof id) || !read_hex(k->hash, hash, sizeof hash))
        return err_make(ERR_CORRUPT, "no version, id or hash");
    struct token *t = make(&k->spec);
    memcpy(t->id, k->id.at, TOKEN_ID_LEN);
    memcpy(t->hash, hash, sizeof hash);
    t->used = t->used_kept = k->used;
    *out = t;
    return err_none();
}

struct err token_read(struct str text, struct token **out)
{
    struct arena a = {0};
    struct kept k = {.spec = {.created = INSTANT_NONE, .expires = INSTANT_NONE}};
    k.spec.queues = k.queues;
    struct err err = read_kept(text, &a, &k);
    if (err.code == ERR_OK)
        err = build(&k, out);
    arena_fini(&a);
    return err.code == ERR_OK ? err : err_make(ERR_CORRUPT, "not a token: %.160s", err.msg);
}

/* --- many --- */

struct tokens *tokens_new(void)
{
    struct tokens *t = ALLOC(struct tokens);
    t->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    must(t->sha256);
    return t;
}

void tokens_free(struct tokens *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->ever; i++)
        token_free(t->order[i]);
    free(t->order);
    EVP_MD_free(t->sha256);
    free(t);
}

struct err tokens_check_room(const struct tokens *t)
{
    if (t->count >= TOKENS_MAX)
        return err_make(ERR_TOO_MANY, "there are %d tokens, and no more can be: delete some",
                        TOKENS_MAX);
    if (t->ever >= TOKENS_EVER_MAX)
        return err_make(ERR_TOO_MANY, "%d tokens have come and gone; restart the server",
                        TOKENS_EVER_MAX);
    return err_none();
}

/* Ids are random and the server's own, so nobody can choose those that share a bucket. */
static size_t bucket_of(struct str id)
{
    size_t n = 0;
    for (size_t i = 0; i < BUCKET_BITS / 4; i++)
        n = n << 4 | ((size_t)hex_value(id.at[i]) & 15);
    return n;
}

void tokens_add(struct tokens *t, struct token *one)
{
    struct token *_Atomic *bucket = &t->buckets[bucket_of(token_id(one))];
    must(!tokens_find(t, token_id(one)));
    ALLOC_GROW(t->order, t->ever, t->cap, 16);
    t->order[t->ever++] = one;
    t->count++;
    t->admins += one->roles >> ROLE_ADMIN & 1;
    one->next = atomic_load_explicit(bucket, memory_order_relaxed);
    atomic_store_explicit(bucket, one, memory_order_release);
}

void tokens_revoke(struct tokens *t, struct token *one)
{
    if (atomic_exchange(&one->revoked, true))
        return;
    t->count--;
    t->admins -= one->roles >> ROLE_ADMIN & 1;
}

static struct token *find(const struct tokens *t, struct str id)
{
    if (id.len != TOKEN_ID_LEN)
        return NULL;
    struct token *one = atomic_load_explicit(&t->buckets[bucket_of(id)], memory_order_acquire);
    while (one && !str_eq(token_id(one), id))
        one = one->next;
    return one;
}

struct token *tokens_find(const struct tokens *t, struct str id)
{
    struct token *one = find(t, id);
    return one && !atomic_load(&one->revoked) ? one : NULL;
}

struct token *tokens_find_kept(const struct tokens *t, struct str id)
{
    struct token *one = find(t, id);
    return one && !one->removed ? one : NULL;
}

struct token *tokens_next(const struct tokens *t, size_t *at)
{
    while (*at < t->ever && atomic_load(&t->order[*at]->revoked))
        (*at)++;
    return *at < t->ever ? t->order[(*at)++] : NULL;
}

size_t tokens_count(const struct tokens *t)
{
    return t->count;
}

size_t tokens_admins(const struct tokens *t)
{
    return t->admins;
}

void tokens_set_unread(struct tokens *t, const struct err *why)
{
    t->unread = *why;
}

struct err tokens_unread(const struct tokens *t)
{
    return t->unread;
}

static bool is_token(struct str text, struct str *id)
{
    if (text.len != TOKEN_TEXT_LEN || memcmp(text.at, PREFIX, PREFIX_LEN) != 0 ||
        text.at[PREFIX_LEN + TOKEN_ID_LEN] != '_')
        return false;
    *id = (struct str){text.at + PREFIX_LEN, TOKEN_ID_LEN};
    return true;
}

struct err tokens_check(const struct tokens *t, struct str text, instant now, struct token **out)
{
    unsigned char hash[TOKEN_HASH_LEN];
    struct str id;
    struct token *one = is_token(text, &id) ? tokens_find(t, id) : NULL;
    if (one)
        hash_text(t->sha256, text, hash);
    if (!one || !mac_same((struct str){(const char *)hash, sizeof hash},
                          (struct str){(const char *)one->hash, TOKEN_HASH_LEN}))
        return err_make(ERR_BAD_CREDENTIALS, "the token is wrong, or was revoked");
    if (!token_is_live(one, now))
        return err_make(ERR_BAD_CREDENTIALS, "the token has expired");
    atomic_store_explicit(&one->used, now.ms, memory_order_relaxed);
    *out = one;
    return err_none();
}

bool tokens_bearer(struct str authorization, struct str *text)
{
    static const char scheme[] = "bearer ";
    size_t n = sizeof scheme - 1;
    if (authorization.len < n || strncasecmp(authorization.at, scheme, n) != 0)
        return false;
    while (n < authorization.len && authorization.at[n] == ' ')
        n++;
    *text = (struct str){authorization.at + n, authorization.len - n};
    return true;
}
