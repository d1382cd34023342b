/* SPDX-License-Identifier: Apache-2.0 */

/* What of a JSON Web Token must be right before its sender is somebody, and what becomes of that
 * when keys and rules change. */

#include "access/identities.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access/signed.h"
#include "base/base64.h"

#define SECONDS 1700000000
#define HOUR    3600000

struct state {
    EVP_PKEY *rsa, *ec, *stranger;
    struct tokens *tokens;
    struct identities *identities;
    instant now;
    unsigned wanted; /* times that keys were asked for */
};

static void on_wanted(void *ctx, size_t issuer)
{
    struct state *s = ctx;
    assert_int_equal(issuer, 0);
    s->wanted++;
}

/* Whoever's claim sub begins with "m" may look on, whoever's is "x" may work. */
static void set_rules(struct state *s)
{
    struct identity_rules rules = {0};
    rules.issuers = arena_zero(&rules.memory, sizeof *rules.issuers);
    rules.issuers[0] = (struct identity_issuer){
        .issuer = STR("https://i"), .audience = STR("tenax"), .keys_max_age = {HOUR}};
    rules.issuer_count = 1;
    rules.rules = arena_zero(&rules.memory, 2 * sizeof *rules.rules);
    for (size_t i = 0; i < 2; i++) {
        struct identity_claim *c = arena_get(&rules.memory, sizeof *c);
        *c = (struct identity_claim){STR("sub"), i ? STR("x") : STR("m*")};
        rules.rules[i] = (struct identity_rule){.kind = ACTOR_JWT,
                                                .roles = 1u << (i ? ROLE_WORKER : ROLE_VIEWER),
                                                .issuer = STR("https://i"),
                                                .claims = c,
                                                .claim_count = 1};
    }
    rules.rule_count = 2;
    identities_set_rules(s->identities, &rules);
}

static void set_keys(struct state *s)
{
    struct buf b = {0};
    struct jwks *keys = NULL;
    signed_key(&b, s->rsa, ",\"kid\":\"r\"");
    signed_key(&b, s->ec, ",\"kid\":\"e\"");
    assert_int_equal(signed_keys(&b, &keys).code, ERR_OK);
    identities_set_keys(s->identities, 0, keys, s->now);
}

static int begin(void **state)
{
    struct state *s = calloc(1, sizeof *s);
    s->rsa = EVP_RSA_gen(2048);
    s->ec = EVP_EC_gen("P-256");
    s->stranger = EVP_RSA_gen(2048);
    s->now = (instant){INT64_C(1000) * SECONDS};
    s->tokens = tokens_new();
    const struct identities_settings settings = {
        .tokens = s->tokens, .wrong_max = 0, .seed = 7, .want_keys = on_wanted, .ctx = s};
    s->identities = identities_new(&settings);
    set_rules(s);
    *state = s;
    return 0;
}

static int end(void **state)
{
    struct state *s = *state;
    identities_free(s->identities);
    tokens_free(s->tokens);
    EVP_PKEY_free(s->rsa);
    EVP_PKEY_free(s->ec);
    EVP_PKEY_free(s->stranger);
    free(s);
    return 0;
}

static struct err check(struct state *s, struct str text, struct token **who)
{
    struct buf header = {0};
    buf_lit(&header, "Bearer ");
    buf_str(&header, text);
    struct identity_request r = {.authorization = buf_view(&header), .address = "127.0.0.1"};
    struct err err = identities_check(s->identities, &r, s->now, who);
    buf_fini(&header);
    return err;
}

static enum err_code check_free(struct state *s, struct buf text)
{
    struct token *who;
    enum err_code code = check(s, buf_view(&text), &who).code;
    assert_int_equal(code == ERR_OK, who != NULL);
    buf_fini(&text);
    return code;
}

#define RS256  "{\"alg\":\"RS256\",\"kid\":\"r\"}"
#define CLAIMS "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1700000600}"

static struct buf good(struct state *s)
{
    return signed_token(s->rsa, "SHA256", RS256, CLAIMS);
}

/* --- tests --- */

static void every_part_of_a_token_must_be_right(void **state)
{
    struct state *s = *state;
    set_keys(s);
    const struct {
        const char *header, *claims;
        enum err_code code;
    } rows[] = {
        {RS256, CLAIMS, ERR_OK},
        {"{\"alg\":\"RS256\"}", CLAIMS, ERR_OK}, /* any of the keys */
        {"{\"alg\":\"RS256\",\"kid\":\"\"}", CLAIMS, ERR_OK},
        {"{\"alg\":\"RS256\",\"kid\":\"e\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"RS256\",\"kid\":\"other\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"RS256\",\"kid\":\"r\\u0000\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"RS384\",\"kid\":\"r\"}", CLAIMS, ERR_OK}, /* the key names no algorithm */
        {"{\"alg\":\"ES256\",\"kid\":\"r\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"ES256\",\"kid\":\"e\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"PS256\",\"kid\":\"r\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"none\",\"kid\":\"r\"}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"RS256\",\"kid\":\"r\",\"crit\":[\"exp\"]}", CLAIMS, ERR_BAD_CREDENTIALS},
        {"{\"alg\":\"RS256\",\"kid\":\"r\",\"crit\":[]}", CLAIMS, ERR_BAD_CREDENTIALS},
        {RS256, "{\"iss\":\"https://j\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1700000600}",
         ERR_BAD_CREDENTIALS},
        {RS256, "{\"iss\":\"https://i/\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1700000600}",
         ERR_BAD_CREDENTIALS},
        {RS256, "{\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1700000600}", ERR_BAD_CREDENTIALS},
        {RS256, "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"t\",\"exp\":1700000600}",
         ERR_BAD_CREDENTIALS},
        {RS256, "{\"iss\":\"https://i\",\"sub\":\"me\",\"exp\":1700000600}", ERR_BAD_CREDENTIALS},
        {RS256, "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1699999970}",
         ERR_BAD_CREDENTIALS},
        {RS256, "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1699999971}",
         ERR_OK},
        {RS256, "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\"}", ERR_BAD_CREDENTIALS},
        {RS256,
         "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1700000600,"
         "\"nbf\":1700000031}",
         ERR_BAD_CREDENTIALS},
        {RS256,
         "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1700000600,"
         "\"nbf\":1700000030}",
         ERR_OK},
        {RS256, "{\"iss\":\"https://i\",\"sub\":\"you\",\"aud\":\"tenax\",\"exp\":1700000600}",
         ERR_NO_RIGHT}, /* no rule is about it */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *digest = strstr(rows[i].header, "RS384") ? "SHA384" : "SHA256";
        enum err_code code =
            check_free(s, signed_token(s->rsa, digest, rows[i].header, rows[i].claims));
        if (code != rows[i].code)
            fail_msg("%s %s: %d", rows[i].header, rows[i].claims, (int)code);
    }
    assert_int_equal(check_free(s, signed_token(s->stranger, "SHA256", RS256, CLAIMS)),
                     ERR_BAD_CREDENTIALS);
}

/* Whoever takes the algorithm from the token, and the key's text for a secret, lets anybody in. */
static void a_MAC_by_the_public_key_is_no_signature(void **state)
{
    struct state *s = *state;
    set_keys(s);
    BIO *pem = BIO_new(BIO_s_mem()), *der = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PUBKEY(pem, s->rsa), 1);
    assert_int_equal(i2d_PUBKEY_bio(der, s->rsa), 1);
    BIO *const texts[] = {pem, der};
    static const char *const algs[] = {"HS256", "hs256", "HS512", "RS256"};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof algs / sizeof *algs; k++) {
            char header[80], *secret;
            unsigned char mac[EVP_MAX_MD_SIZE];
            unsigned len = sizeof mac;
            long secret_len = BIO_get_mem_data(texts[i], &secret);
            struct buf b = {0};
            snprintf(header, sizeof header, "{\"alg\":\"%s\",\"kid\":\"r\"}", algs[k]);
            base64_write_url(&b, str_from(header));
            buf_byte(&b, '.');
            base64_write_url(&b, STR(CLAIMS));
            assert_non_null(HMAC(EVP_sha256(), secret, (int)secret_len, (unsigned char *)b.at,
                                 b.len, mac, &len));
            buf_byte(&b, '.');
            base64_write_url(&b, (struct str){(const char *)mac, len});
            assert_int_equal(check_free(s, b), ERR_BAD_CREDENTIALS);
        }
    }
    BIO_free(pem);
    BIO_free(der);
}

static void a_token_that_is_too_long_is_not_looked_at(void **state)
{
    struct state *s = *state;
    set_keys(s);
    for (size_t more = 11000; more <= 200000; more *= 2) {
        struct buf claims = {0};
        buf_print(&claims, "%.*s,\"pad\":\"", (int)(sizeof CLAIMS - 2), CLAIMS);
        for (size_t i = 0; i < more; i++)
            buf_byte(&claims, 'x');
        buf_lit(&claims, "\"}");
        buf_byte(&claims, '\0');
        struct buf text = signed_token(s->rsa, "SHA256", RS256, claims.at);
        bool fits = text.len <= JWT_TEXT_MAX;
        assert_int_equal(fits, more == 11000);
        assert_int_equal(check_free(s, text), fits ? ERR_OK : ERR_BAD_CREDENTIALS);
        buf_fini(&claims);
    }
}

static void unknown_keys_are_asked_for_and_known_ones_are_not(void **state)
{
    struct state *s = *state;
    assert_int_equal(check_free(s, good(s)), ERR_BUSY);
    assert_int_equal(s->wanted, 1);
    set_keys(s);
    assert_int_equal(check_free(s, good(s)), ERR_OK);
    assert_int_equal(check_free(s, signed_token(s->stranger, "SHA256", RS256, CLAIMS)),
                     ERR_BAD_CREDENTIALS);
    assert_int_equal(s->wanted, 1);
    struct buf unknown =
        signed_token(s->rsa, "SHA256", "{\"alg\":\"RS256\",\"kid\":\"n\"}", CLAIMS);
    assert_int_equal(check_free(s, unknown), ERR_BAD_CREDENTIALS);
    assert_int_equal(s->wanted, 2);
}

static void keys_count_for_their_age(void **state)
{
    struct state *s = *state;
    static const char claims[] =
        "{\"iss\":\"https://i\",\"sub\":\"me\",\"aud\":\"tenax\",\"exp\":1800000000}";
    struct buf text = signed_token(s->rsa, "SHA256", RS256, claims);
    struct token *who;
    set_keys(s);
    assert_int_equal(check(s, buf_view(&text), &who).code, ERR_OK);
    s->now.ms += HOUR - 1;
    assert_int_equal(check(s, buf_view(&text), &who).code, ERR_OK);
    s->now.ms++;
    /* Nor does that count that it was right before. */
    assert_int_equal(check(s, buf_view(&text), &who).code, ERR_BUSY);
    assert_int_equal(s->wanted, 1);
    /* Keys that stay as the rules change do not become any newer. */
    set_rules(s);
    assert_int_equal(check(s, buf_view(&text), &who).code, ERR_BUSY);
    set_keys(s);
    assert_int_equal(check(s, buf_view(&text), &who).code, ERR_OK);
    buf_fini(&text);
}

static void a_subject_is_one_identity_while_its_rule_stays(void **state)
{
    struct state *s = *state;
    struct token *first, *second, *other;
    set_keys(s);
    struct buf a = good(s);
    struct buf b = signed_token(s->ec, "SHA256", "{\"alg\":\"ES256\",\"kid\":\"e\"}", CLAIMS);
    struct buf c = signed_token(
        s->ec, "SHA256", "{\"alg\":\"ES256\",\"kid\":\"e\"}",
        "{\"iss\":\"https://i\",\"sub\":\"x\",\"aud\":[\"tenax\"],\"exp\":1700000600}");
    assert_int_equal(check(s, buf_view(&a), &first).code, ERR_OK);
    assert_int_equal(check(s, buf_view(&b), &second).code, ERR_OK);
    assert_ptr_equal(first, second);
    assert_int_equal(check(s, buf_view(&c), &other).code, ERR_OK);
    assert_ptr_not_equal(first, other);
    assert_int_equal(other->roles, 1u << ROLE_WORKER);
    set_rules(s);
    assert_false(token_is_live(first, s->now));
    assert_int_equal(check(s, buf_view(&a), &second).code, ERR_OK);
    assert_ptr_not_equal(first, second);
    assert_memory_equal(first->id, second->id, TOKEN_ID_LEN);
    buf_fini(&a);
    buf_fini(&b);
    buf_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_part_of_a_token_must_be_right, begin, end),
        cmocka_unit_test_setup_teardown(a_MAC_by_the_public_key_is_no_signature, begin, end),
        cmocka_unit_test_setup_teardown(a_token_that_is_too_long_is_not_looked_at, begin, end),
        cmocka_unit_test_setup_teardown(unknown_keys_are_asked_for_and_known_ones_are_not, begin,
                                        end),
        cmocka_unit_test_setup_teardown(keys_count_for_their_age, begin, end),
        cmocka_unit_test_setup_teardown(a_subject_is_one_identity_while_its_rule_stays, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
