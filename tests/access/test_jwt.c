/* SPDX-License-Identifier: Apache-2.0 */

/* Tokens that OpenSSL signs here, and which keys of a set they may have been signed by. */

#include "access/jwt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <string.h>

#include "access/signed.h"

#define NOW     ((instant){INT64_C(1700000000000)})
#define SECONDS 1700000000

static EVP_PKEY *rsa, *weak, *p256, *p384, *stranger;

static struct jwks *one_key(EVP_PKEY *key, const char *more)
{
    struct buf b = {0};
    struct jwks *keys = NULL;
    signed_key(&b, key, more);
    assert_int_equal(signed_keys(&b, &keys).code, ERR_OK);
    return keys;
}

static int make_keys(void **state)
{
    (void)state;
    rsa = EVP_RSA_gen(2048);
    weak = EVP_RSA_gen(1024);
    p256 = EVP_EC_gen("P-256");
    p384 = EVP_EC_gen("P-384");
    stranger = EVP_EC_gen("P-256");
    return !(rsa && weak && p256 && p384 && stranger);
}

static int drop_keys(void **state)
{
    (void)state;
    EVP_PKEY *const all[] = {rsa, weak, p256, p384, stranger};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        EVP_PKEY_free(all[i]);
    return 0;
}

#define CLAIMS "{\"iss\":\"i\",\"sub\":\"s\",\"aud\":\"a\",\"exp\":1700000600}"

static enum jwks_verdict verdict(const struct jwks *keys, EVP_PKEY *key, const char *digest,
                                 const char *header)
{
    struct arena a = {0};
    struct jwt t;
    struct buf text = signed_token(key, digest, header, CLAIMS);
    assert_int_equal(jwt_read(buf_view(&text), &a, &t).code, ERR_OK);
    enum jwks_verdict v = jwks_verify(keys, &t);
    buf_fini(&text);
    arena_fini(&a);
    return v;
}

/* --- tests --- */

static void each_algorithm_is_verified_by_a_key_of_its_kind(void **state)
{
    (void)state;
    const struct {
        EVP_PKEY *key;
        const char *digest, *header;
    } rows[] = {{rsa, "SHA256", "{\"alg\":\"RS256\"}"},
                {rsa, "SHA384", "{\"alg\":\"RS384\"}"},
                {rsa, "SHA512", "{\"alg\":\"RS512\"}"},
                {p256, "SHA256", "{\"alg\":\"ES256\"}"},
                {p384, "SHA384", "{\"alg\":\"ES384\"}"}};
    EVP_PKEY *const all[] = {rsa, p256, p384};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            /* All of them have the same kid. */
            struct jwks *keys = one_key(all[k], ",\"kid\":\"k\"");
            assert_int_equal(verdict(keys, rows[i].key, rows[i].digest, rows[i].header),
                             all[k] == rows[i].key ? JWKS_GOOD : JWKS_BAD);
            jwks_free(keys);
        }
    }
}

static void a_key_is_for_the_algorithm_and_the_kid_that_it_names(void **state)
{
    (void)state;
    struct jwks *keys = one_key(rsa, ",\"alg\":\"RS512\",\"kid\":\"k\",\"use\":\"sig\"");
    assert_int_equal(verdict(keys, rsa, "SHA256", "{\"alg\":\"RS256\",\"kid\":\"k\"}"), JWKS_BAD);
    assert_int_equal(verdict(keys, rsa, "SHA512", "{\"alg\":\"RS512\",\"kid\":\"k\"}"), JWKS_GOOD);
    assert_int_equal(verdict(keys, rsa, "SHA512", "{\"alg\":\"RS512\"}"), JWKS_GOOD);
    assert_int_equal(verdict(keys, rsa, "SHA512", "{\"alg\":\"RS512\",\"kid\":\"K\"}"),
                     JWKS_UNKNOWN);
    /* The text of the token says one digest, its signature is by another. */
    assert_int_equal(verdict(keys, rsa, "SHA256", "{\"alg\":\"RS512\",\"kid\":\"k\"}"), JWKS_BAD);
    jwks_free(keys);
    keys = one_key(p256, "");
    assert_int_equal(verdict(keys, stranger, "SHA256", "{\"alg\":\"ES256\"}"), JWKS_BAD);
    jwks_free(keys);
}

static void keys_that_cannot_be_used_are_passed_over(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "{\"kty\":\"RSA\",\"n\":5,\"e\":\"AQAB\"}",
        "{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AA\"}",
        "{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}",
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}",
        "{\"kty\":null}",
        "[]",
        "7",
        "{}"};
    struct buf b = {0};
    struct jwks *keys = NULL;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        buf_print(&b, "%s%s", i ? "," : "", odd[i]);
    signed_key(&b, weak, "");
    signed_key(&b, rsa, ",\"use\":\"enc\"");
    struct buf bad = {0};
    buf_str(&bad, buf_view(&b));
    assert_int_equal(signed_keys(&bad, &keys).code, ERR_BAD_VALUE);
    signed_key(&b, p256, "");
    assert_int_equal(signed_keys(&b, &keys).code, ERR_OK);
    assert_int_equal(jwks_count(keys), 1);
    assert_int_equal(verdict(keys, p256, "SHA256", "{\"alg\":\"ES256\"}"), JWKS_GOOD);
    assert_int_equal(verdict(keys, weak, "SHA256", "{\"alg\":\"RS256\"}"), JWKS_BAD);
    jwks_free(keys);
    assert_int_equal(jwks_read(STR("{\"keys\":{}}"), &keys).code, ERR_BAD_VALUE);
    assert_int_equal(jwks_read(STR("{}"), &keys).code, ERR_BAD_VALUE);
}

static enum err_code reads(const char *header)
{
    struct arena a = {0};
    struct jwt t;
    struct buf text = signed_token(p256, "SHA256", header, CLAIMS);
    enum err_code code = jwt_read(buf_view(&text), &a, &t).code;
    buf_fini(&text);
    arena_fini(&a);
    return code;
}

static void what_its_header_must_not_say(void **state)
{
    (void)state;
    static const char *const bad[] = {"{}",
                                      "{\"alg\":\"none\"}",
                                      "{\"alg\":\"HS256\"}",
                                      "{\"alg\":\"PS256\"}",
                                      "{\"alg\":\"es256\"}",
                                      "{\"alg\":\"ES256K\"}",
                                      "{\"alg\":\"ES512\"}",
                                      "{\"alg\":\"EdDSA\"}",
                                      "{\"alg\":\"\"}",
                                      "{\"alg\":null}",
                                      "{\"alg\":[\"ES256\"]}",
                                      "{\"Alg\":\"ES256\"}",
                                      "{\"alg\":\"ES256\",\"alg\":\"ES256\"}",
                                      "{\"\\u0061lg\":\"ES256\"}",
                                      "{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}",
                                      "{\"alg\":\"ES256\",\"kid\":7}",
                                      "{\"alg\":\"ES256\"} ,",
                                      "[\"ES256\"]",
                                      ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i]) != ERR_BAD_CREDENTIALS)
            fail_msg("%s is read", bad[i]);
    assert_int_equal(reads("{\"alg\":\"ES256\",\"jku\":\"https://x\",\"jwk\":{},\"x5c\":[]}"),
                     ERR_OK);
    /* "ES\u0032..." is the same text. */
    assert_int_equal(reads("{\"alg\":\"ES\\u003256\"}"), ERR_OK);
}

static bool counts(const char *claims, instant now)
{
    struct arena a = {0};
    struct jwt t;
    struct buf text = signed_token(p256, "SHA256", "{\"alg\":\"ES256\"}", claims);
    bool does = jwt_read(buf_view(&text), &a, &t).code == ERR_OK &&
                jwt_check(&t, STR("tenax"), now).code == ERR_OK;
    buf_fini(&text);
    arena_fini(&a);
    return does;
}

static bool counts_at(int64_t exp, int64_t nbf)
{
    char claims[160];
    snprintf(claims, sizeof claims, "{\"sub\":\"s\",\"aud\":\"tenax\",\"exp\":%lld,\"nbf\":%lld}",
             (long long)exp, (long long)nbf);
    return counts(claims, NOW);
}

static void its_time_may_be_off_by_the_leeway_and_no_more(void **state)
{
    (void)state;
    int64_t leeway = JWT_LEEWAY.ms / 1000;
    assert_true(counts_at(SECONDS + 1, SECONDS));
    assert_true(counts_at(SECONDS - leeway + 1, SECONDS));
    assert_false(counts_at(SECONDS - leeway, SECONDS));
    assert_true(counts_at(SECONDS + 600, SECONDS + leeway));
    assert_false(counts_at(SECONDS + 600, SECONDS + leeway + 1));
}

static void claims_must_be_there_and_be_of_their_type(void **state)
{
    (void)state;
#define TIMES "\"exp\":1700000600"
    assert_true(counts("{\"sub\":\"s\",\"aud\":\"tenax\"," TIMES "}", NOW));
    assert_true(counts("{\"sub\":\"s\",\"aud\":[\"x\",\"tenax\"]," TIMES "}", NOW));
    static const char *const bad[] = {
        "{\"sub\":\"s\",\"aud\":\"tenax\"}",
        "{\"aud\":\"tenax\"," TIMES "}",
        "{\"sub\":\"\",\"aud\":\"tenax\"," TIMES "}",
        "{\"sub\":\"s\"," TIMES "}",
        "{\"sub\":\"s\",\"aud\":[]," TIMES "}",
        "{\"sub\":\"s\",\"aud\":\"tenax2\"," TIMES "}",
        "{\"sub\":\"s\",\"aud\":\"Tenax\"," TIMES "}",
        "{\"sub\":\"s\",\"aud\":{\"tenax\":1}," TIMES "}",
        "{\"sub\":\"s\",\"aud\":[7,\"tenax\"]," TIMES "}",
        "{\"sub\":\"s\",\"aud\":\"tenax\",\"aud\":\"tenax\"," TIMES "}",
        "{\"sub\":\"s\",\"aud\":\"tenax\",\"exp\":\"1700000600\"}",
        "{\"sub\":\"s\",\"aud\":\"tenax\",\"exp\":-1}",
        "{\"sub\":\"s\",\"aud\":\"tenax\",\"exp\":1e99}",
        "{\"sub\":\"s\",\"aud\":\"tenax\"," TIMES "," TIMES "}",
        "[]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (counts(bad[i], NOW))
            fail_msg("%s counts", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_algorithm_is_verified_by_a_key_of_its_kind),
        cmocka_unit_test(a_key_is_for_the_algorithm_and_the_kid_that_it_names),
        cmocka_unit_test(keys_that_cannot_be_used_are_passed_over),
        cmocka_unit_test(what_its_header_must_not_say),
        cmocka_unit_test(its_time_may_be_off_by_the_leeway_and_no_more),
        cmocka_unit_test(claims_must_be_there_and_be_of_their_type),
    };
    return cmocka_run_group_tests(tests, make_keys, drop_keys);
}
