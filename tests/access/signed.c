/* SPDX-License-Identifier: Apache-2.0 */
#include "access/signed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <string.h>

#include "base/base64.h"

/* Bytes of each number of a signature. */
static int size_of(EVP_PKEY *key)
{
    return EVP_PKEY_get_bits(key) / 8;
}

static void add_number(struct buf *b, const char *name, EVP_PKEY *key, const char *param, int len)
{
    BIGNUM *n = NULL;
    unsigned char bytes[512];
    assert_int_equal(EVP_PKEY_get_bn_param(key, param, &n), 1);
    len = len ? len : BN_num_bytes(n);
    assert_int_equal(BN_bn2binpad(n, bytes, len), len);
    BN_free(n);
    buf_print(b, ",\"%s\":\"", name);
    base64_write_url(b, (struct str){(const char *)bytes, (size_t)len});
    buf_byte(b, '"');
}

void signed_key(struct buf *b, EVP_PKEY *key, const char *more)
{
    int half = size_of(key);
    buf_print(b, "%s{\"kty\":\"%s\"%s", b->len ? "," : "", EVP_PKEY_is_a(key, "RSA") ? "RSA" : "EC",
              more);
    if (EVP_PKEY_is_a(key, "RSA")) {
        add_number(b, "n", key, OSSL_PKEY_PARAM_RSA_N, 0);
        add_number(b, "e", key, OSSL_PKEY_PARAM_RSA_E, 0);
    } else {
        buf_print(b, ",\"crv\":\"P-%d\"", half * 8);
        add_number(b, "x", key, OSSL_PKEY_PARAM_EC_PUB_X, half);
        add_number(b, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y, half);
    }
    buf_byte(b, '}');
}

struct err signed_keys(struct buf *keys, struct jwks **out)
{
    struct buf all = {0};
    buf_lit(&all, "{\"keys\":[");
    buf_str(&all, buf_view(keys));
    buf_lit(&all, "]}");
    struct err err = jwks_read(buf_view(&all), out);
    buf_fini(&all);
    buf_fini(keys);
    return err;
}

static size_t raw_of(unsigned char *signature, size_t len, size_t half)
{
    const unsigned char *at = signature;
    ECDSA_SIG *both = d2i_ECDSA_SIG(NULL, &at, (long)len);
    unsigned char raw[96];
    assert_non_null(both);
    BN_bn2binpad(ECDSA_SIG_get0_r(both), raw, (int)half);
    BN_bn2binpad(ECDSA_SIG_get0_s(both), raw + half, (int)half);
    ECDSA_SIG_free(both);
    memcpy(signature, raw, 2 * half);
    return 2 * half;
}

struct buf signed_token(EVP_PKEY *key, const char *digest, const char *header, const char *claims)
{
    struct buf b = {0};
    unsigned char signature[1024];
    size_t len = sizeof signature;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    base64_write_url(&b, str_from(header));
    buf_byte(&b, '.');
    base64_write_url(&b, str_from(claims));
    assert_int_equal(EVP_DigestSignInit_ex(ctx, NULL, digest, NULL, NULL, key, NULL), 1);
    assert_int_equal(EVP_DigestSign(ctx, signature, &len, (const unsigned char *)b.at, b.len), 1);
    EVP_MD_CTX_free(ctx);
    if (!EVP_PKEY_is_a(key, "RSA"))
        len = raw_of(signature, len, (size_t)size_of(key));
    buf_byte(&b, '.');
    base64_write_url(&b, (struct str){(const char *)signature, len});
    return b;
}
