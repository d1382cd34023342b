/* SPDX-License-Identifier: Apache-2.0 */

/* The keys of an issuer, and whether one of them has signed a token (access/jwt.h). */

#include <limits.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdlib.h>

#include "access/jwt.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/must.h"

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 8192

enum key_kind { KEY_RSA, KEY_P256, KEY_P384, KEY_NONE };

static const struct {
    const char *name, *digest;
    enum key_kind kind;
    size_t half; /* bytes of each number of an ECDSA signature; 0: RSA */
} algs[JWT_ALGS] = {
    [JWT_RS256] = {"RS256", "SHA256", KEY_RSA, 0},
    [JWT_RS384] = {"RS384", "SHA384", KEY_RSA, 0},
    [JWT_RS512] = {"RS512", "SHA512", KEY_RSA, 0},
    [JWT_ES256] = {"ES256", "SHA256", KEY_P256, 32},
    [JWT_ES384] = {"ES384", "SHA384", KEY_P384, 48},
};

struct key {
    EVP_PKEY *public;
    enum key_kind kind;
    struct str kid, alg; /* either may be empty */
};

struct jwks {
    struct arena memory;
    struct key keys[JWKS_MAX];
    size_t count;
};

/* --- a key --- */

/* The members of a key that matter, in base64url where they are numbers. */
struct fields {
    struct str kty, kid, alg, use, crv, n, e, x, y;
};

static struct err read_field(struct json_cursor *c, struct str name, struct arena *a,
                             struct fields *f)
{
    static const struct {
        const char *name;
        size_t at;
    } known[] = {{"kty", offsetof(struct fields, kty)}, {"kid", offsetof(struct fields, kid)},
                 {"alg", offsetof(struct fields, alg)}, {"use", offsetof(struct fields, use)},
                 {"crv", offsetof(struct fields, crv)}, {"n", offsetof(struct fields, n)},
                 {"e", offsetof(struct fields, e)},     {"x", offsetof(struct fields, x)},
                 {"y", offsetof(struct fields, y)}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct json_string s;
        if (!str_eq(name, str_from(known[i].name)))
            continue;
        TRY(json_read_string(c, &s));
        return json_text(s, a, (struct str *)(void *)((char *)f + known[i].at));
    }
    return json_skip(c, NULL);
}

static bool bytes_of(struct str text, struct arena *a, struct str *bytes)
{
    return text.len > 0 && base64_read(text, a, bytes) && bytes->len <= RSA_BITS_MAX / 8;
}

static EVP_PKEY *build(const char *type, OSSL_PARAM_BLD *bld)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(bld);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    must(params && ctx);
    if (EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static BIGNUM *number(struct str bytes)
{
    BIGNUM *n = BN_bin2bn((const unsigned char *)bytes.at, (int)bytes.len, NULL);
    must(n);
    return n;
}

static EVP_PKEY *rsa_key(const struct fields *f, struct arena *a)
{
    struct str modulus, exponent;
    if (!bytes_of(f->n, a, &modulus) || !bytes_of(f->e, a, &exponent) || exponent.len > 8)
        return NULL;
    BIGNUM *n = number(modulus), *e = number(exponent);
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    must(bld && OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
         OSSL_PARAM_BLD_push_BN(bld, OSSL_PKEY_PARAM_RSA_E, e) == 1);
    bool fits = BN_num_bits(n) >= RSA_BITS_MIN && BN_num_bits(n) <= RSA_BITS_MAX && BN_is_odd(n) &&
                BN_is_odd(e) && !BN_is_one(e);
    EVP_PKEY *key = fits ? build("RSA", bld) : NULL;
    OSSL_PARAM_BLD_free(bld);
    BN_free(n);
    BN_free(e);
    return key;
}

/* The point must be on the curve. */
static EVP_PKEY *checked(EVP_PKEY *key)
{
    EVP_PKEY_CTX *ctx = key ? EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL) : NULL;
    bool good = ctx && EVP_PKEY_public_check(ctx) == 1;
    EVP_PKEY_CTX_free(ctx);
    if (!good)
        EVP_PKEY_free(key);
    return good ? key : NULL;
}

static EVP_PKEY *ec_key(const struct fields *f, const char *group, size_t half, struct arena *a)
{
    struct str x, y;
    unsigned char point[1 + 2 * 48] = {POINT_CONVERSION_UNCOMPRESSED};
    if (!bytes_of(f->x, a, &x) || !bytes_of(f->y, a, &y) || x.len != half || y.len != half)
        return NULL;
    memcpy(point + 1, x.at, half);
    memcpy(point + 1 + half, y.at, half);
    OSSL_PARAM_BLD *bld = OSSL_PARAM_BLD_new();
    must(bld && OSSL_PARAM_BLD_push_utf8_string(bld, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1 &&
         OSSL_PARAM_BLD_push_octet_string(bld, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * half) == 1);
    EVP_PKEY *key = build("EC", bld);
    OSSL_PARAM_BLD_free(bld);
    return checked(key);
}

static struct key key_of(const struct fields *f, struct arena *a)
{
    struct key key = {.kind = KEY_NONE, .kid = arena_copy(a, f->kid), .alg = arena_copy(a, f->alg)};
    if (f->use.len && !str_eq(f->use, STR("sig")))
        return key;
    if (str_eq(f->kty, STR("RSA"))) {
        key.kind = KEY_RSA;
        key.public = rsa_key(f, a);
    } else if (str_eq(f->kty, STR("EC")) && str_eq(f->crv, STR("P-256"))) {
        key.kind = KEY_P256;
        key.public = ec_key(f, "P-256", 32, a);
    } else if (str_eq(f->kty, STR("EC")) && str_eq(f->crv, STR("P-384"))) {
        key.kind = KEY_P384;
        key.public = ec_key(f, "P-384", 48, a);
    }
    ERR_clear_error();
    return key;
}

/* --- a set --- */

static struct err read_fields(struct str json, struct arena *a, struct fields *f)
{
    struct json_cursor c = json_open(json);
    TRY(json_enter_object(&c));
    for (bool more;;) {
        struct json_string name;
        TRY(json_next_member(&c, &more, &name));
        if (!more)
            return err_none();
        TRY(read_field(&c, name.raw, a, f));
    }
}

/* One that cannot be understood must not take the others with it: the issuer may have it for
 * somebody else (RFC 7517 §5). */
static void add_key(struct jwks *keys, struct str json)
{
    struct fields f = {0};
    if (keys->count == JWKS_MAX || read_fields(json, &keys->memory, &f).code != ERR_OK)
        return;
    struct key key = key_of(&f, &keys->memory);
    if (key.public)
        keys->keys[keys->count++] = key;
}

static struct err read_set(struct str json, struct jwks *keys)
{
    struct str list, whole;
    struct json_cursor c = json_open(json);
    TRY(json_skip(&c, &whole));
    TRY(json_close(&c));
    TRY(json_member(whole, STR("keys"), &list));
    c = json_open(list);
    TRY(json_enter_array(&c));
    for (bool more;;) {
        TRY(json_next_element(&c, &more));
        if (!more)
            return err_none();
        TRY(json_skip(&c, &whole));
        add_key(keys, whole);
    }
}

struct err jwks_read(struct str json, struct jwks **out)
{
    struct jwks *keys = ALLOC(struct jwks);
    struct err err = read_set(json, keys);
    if (err.code == ERR_OK && keys->count > 0) {
        *out = keys;
        return err;
    }
    jwks_free(keys);
    return err.code == ERR_OK ? err_make(ERR_BAD_VALUE, "none of the keys can be used")
                              : err_make(ERR_BAD_VALUE, "not a set of keys: %.160s", err.msg);
}

void jwks_free(struct jwks *keys)
{
    if (!keys)
        return;
    for (size_t i = 0; i < keys->count; i++)
        EVP_PKEY_free(keys->keys[i].public);
    arena_fini(&keys->memory);
    free(keys);
}

size_t jwks_count(const struct jwks *keys)
{
    return keys->count;
}

/* --- signatures --- */

/* r and s, as RFC 7518 §3.4 has them, in the form that OpenSSL has them in; NULL: of other lengths.
 * To be freed by OPENSSL_free. */
static unsigned char *der_of(struct str signature, size_t half, int *len)
{
    unsigned char *der = NULL;
    if (signature.len != 2 * half)
        return NULL;
    BIGNUM *r = number((struct str){signature.at, half});
    BIGNUM *s = number((struct str){signature.at + half, half});
    ECDSA_SIG *both = ECDSA_SIG_new();
    must(both && ECDSA_SIG_set0(both, r, s) == 1);
    *len = i2d_ECDSA_SIG(both, &der);
    ECDSA_SIG_free(both);
    return der;
}

static bool digest_verify(EVP_PKEY *key, const char *digest, struct str text,
                          const unsigned char *signature, size_t len)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    must(ctx);
    bool good =
        EVP_DigestVerifyInit_ex(ctx, NULL, digest, NULL, NULL, key, NULL) == 1 &&
        EVP_DigestVerify(ctx, signature, len, (const unsigned char *)text.at, text.len) == 1;
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return good;
}

static bool verify(const struct key *key, const struct jwt *t)
{
    size_t half = algs[t->alg].half;
    const unsigned char *plain = (const unsigned char *)t->signature.at;
    if (!half)
        return digest_verify(key->public, algs[t->alg].digest, t->signed_part, plain,
                             t->signature.len);
    int len = 0;
    unsigned char *der = der_of(t->signature, half, &len);
    bool good = der && len > 0 &&
                digest_verify(key->public, algs[t->alg].digest, t->signed_part, der, (size_t)len);
    OPENSSL_free(der);
    return good;
}

/* A key is for one kind of algorithm, whatever a token says of itself. */
static bool may_have_signed(const struct key *key, const struct jwt *t)
{
    return key->kind == algs[t->alg].kind &&
           (!key->alg.len || str_eq(key->alg, str_from(algs[t->alg].name))) &&
           (!t->kid.len || str_eq(key->kid, t->kid));
}

enum jwks_verdict jwks_verify(const struct jwks *keys, const struct jwt *t)
{
    enum jwks_verdict verdict = t->kid.len ? JWKS_UNKNOWN : JWKS_BAD;
    for (size_t i = 0; i < keys->count; i++) {
        const struct key *key = &keys->keys[i];
        if (t->kid.len && str_eq(key->kid, t->kid))
            verdict = JWKS_BAD;
        if (may_have_signed(key, t) && verify(key, t))
            return JWKS_GOOD;
    }
    return verdict;
}
