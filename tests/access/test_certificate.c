/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "access/certificate.h"
#include "base/buf.h"
#include "vectors.h"

static struct arena arena;
static const instant now = {NOW_MS};

static int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static struct scope_set set_of(const char *a, const char *b)
{
    struct scope_set s;
    const struct str list[] = {str_from(a), str_from(b)};
    struct err err = scope_set_make(list, 2, &arena, &s, NULL);
    assert_int_equal(err.code, ERR_OK);
    return s;
}

static struct certificate read(const char *json)
{
    struct certificate c;
    struct err err = certificate_read(str_from(json), &arena, &c);
    assert_int_equal(err.code, ERR_OK);
    return c;
}

static bool is_valid(const struct certificate *c, const char *id, const struct scope_set *have,
                     instant when)
{
    struct scope_set granted;
    struct err err =
        certificate_check(c, str_from(id), STR(ID), STR(KEY), have, when, &arena, &granted);
    if (err.code != ERR_OK)
        assert_int_equal(err.code, ERR_BAD_CREDENTIALS);
    return err.code == ERR_OK;
}

static void certificates_of_another_implementation_are_valid(void **state)
{
    (void)state;
    struct scope_set have = set_of("queue:*", "auth:create-client:task-client/*"), granted;
    struct certificate c = read(TEMP_CERTIFICATE);
    assert_true(str_eq(c.issuer, STR(ID)) && c.client_id.len == 0 && c.count == 2);
    struct err err =
        certificate_check(&c, STR(TEMP_ID), STR(ID), STR(KEY), &have, now, &arena, &granted);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(granted.count, 2);
    assert_true(scope_set_satisfies(&granted, STR("queue:reclaim-task:abc/0")));
    char token[CERTIFICATE_TOKEN_LEN];
    certificate_token(&c, STR(KEY), token);
    assert_memory_equal(token, TEMP_TOKEN, sizeof token);

    c = read(UNNAMED_CERTIFICATE);
    assert_int_equal(c.issuer.len, 0);
    assert_true(is_valid(&c, ID, &have, now));
    certificate_token(&c, STR(KEY), token);
    assert_memory_equal(token, UNNAMED_TOKEN, sizeof token);
}

static void the_issuer_needs_what_it_gives(void **state)
{
    (void)state;
    struct certificate c = read(TEMP_CERTIFICATE);
    struct scope_set less = set_of("queue:reclaim-task:*", "auth:create-client:*");
    assert_false(is_valid(&c, TEMP_ID, &less, now));
    less = set_of("queue:*", "auth:create-client:other/*");
    assert_false(is_valid(&c, TEMP_ID, &less, now));
    struct scope_set all = set_of("*", "*");
    assert_true(is_valid(&c, TEMP_ID, &all, now));
}

static void a_certificate_is_for_one_id(void **state)
{
    (void)state;
    struct scope_set all = set_of("*", "*");
    struct certificate c = read(TEMP_CERTIFICATE);
    assert_false(is_valid(&c, "task-client/abd", &all, now));
    assert_false(is_valid(&c, ID, &all, now));
    c.client_id = STR("task-client/abd"); /* not signed; but if present it must be true */
    assert_false(is_valid(&c, TEMP_ID, &all, now));
    c.client_id = STR(TEMP_ID);
    assert_true(is_valid(&c, TEMP_ID, &all, now));
}

static void it_is_valid_from_its_start_to_its_expiry_but_for_the_skew(void **state)
{
    (void)state;
    struct scope_set all = set_of("*", "*");
    struct certificate c = read(TEMP_CERTIFICATE);
    const int64_t skew = CERTIFICATE_SKEW.ms, life = 1200000;
    assert_true(is_valid(&c, TEMP_ID, &all, (instant){NOW_MS - skew}));
    assert_false(is_valid(&c, TEMP_ID, &all, (instant){NOW_MS - skew - 1}));
    assert_true(is_valid(&c, TEMP_ID, &all, (instant){NOW_MS + life + skew}));
    assert_false(is_valid(&c, TEMP_ID, &all, (instant){NOW_MS + life + skew + 1}));
}

static void whatever_is_changed_the_signature_is_wrong(void **state)
{
    (void)state;
    struct scope_set all = set_of("*", "*");
    const struct certificate good = read(TEMP_CERTIFICATE);
    struct certificate c = good;
    assert_true(is_valid(&c, TEMP_ID, &all, now));
    c.start.ms++;
    assert_false(is_valid(&c, TEMP_ID, &all, now));
    c = good;
    c.expiry.ms++;
    assert_false(is_valid(&c, TEMP_ID, &all, now));
    c = good;
    c.count = 1;
    assert_false(is_valid(&c, TEMP_ID, &all, now));
    c = good;
    c.seed = STR("00000000000000000000000000000000000000000000");
    assert_false(is_valid(&c, TEMP_ID, &all, now));
    c = good;
    c.signature.len--;
    assert_false(is_valid(&c, TEMP_ID, &all, now));
    c = good;
    c.scopes = (const struct str[]){good.scopes[1], good.scopes[0]};
    assert_false(is_valid(&c, TEMP_ID, &all, now));
}

/* --- reading --- */

#define SEED    "\"seed\":\"KibXWnhyRduLUgrmWTePVAp8MCZvM3T4qc7YWi-UGMdg\","
#define REST    "\"version\":1,\"scopes\":[],\"signature\":\"s\",\"start\":1000,"
#define WITH(x) "{" SEED REST "\"expiry\":2000" x "}"

static void check_refused(const char *json)
{
    struct certificate c;
    struct err err = certificate_read(str_from(json), &arena, &c);
    assert_int_equal(err.code, ERR_BAD_CREDENTIALS);
}

static void a_malformed_certificate_is_refused(void **state)
{
    (void)state;
    read(WITH(""));
    read(WITH(",\"issuer\":\"a\",\"clientId\":\"b\",\"other\":[{}]"));
    check_refused("");
    check_refused("[]");
    check_refused("{}");
    check_refused(WITH("") "x");
    check_refused(WITH(",\"seed\":\"KibXWnhyRduLUgrmWTePVAp8MCZvM3T4qc7YWi-UGMdg\""));
    check_refused(WITH(",\"\\u0069ssuer\":\"a\""));
    check_refused(WITH(",\"issuer\":\"\""));
    check_refused(WITH(",\"issuer\":\"a\\nb\""));
    check_refused(WITH(",\"issuer\":null"));
    check_refused(WITH(",\"clientId\":\"b\""));
    check_refused("{" REST "\"expiry\":2000}");
    check_refused("{\"seed\":\"short\"," REST "\"expiry\":2000}");
    check_refused("{\"seed\":\"KibXWnhyRduLUgrmWTe\\u000aPVAp8MCZvM3T4qc7YWi-UGMd\"," REST
                  "\"expiry\":2000}");
    check_refused("{" SEED "\"version\":2,\"scopes\":[],\"signature\":\"s\",\"start\":1000,"
                  "\"expiry\":2000}");
    check_refused("{" SEED "\"version\":1,\"scopes\":[\"a\\n\"],\"signature\":\"s\",\"start\":1,"
                  "\"expiry\":2}");
    check_refused("{" SEED "\"version\":1,\"scopes\":[\"a**\"],\"signature\":\"s\",\"start\":1,"
                  "\"expiry\":2}");
    check_refused("{" SEED "\"version\":1,\"scopes\":\"a\",\"signature\":\"s\",\"start\":1,"
                  "\"expiry\":2}");
    check_refused("{" SEED REST "\"expiry\":999}");
    check_refused("{" SEED REST "\"expiry\":2000.5}");
    check_refused("{" SEED REST "\"expiry\":-1}");
}

static void it_lasts_at_most_31_days(void **state)
{
    (void)state;
    read("{" SEED REST "\"expiry\":2678401000}");
    check_refused("{" SEED REST "\"expiry\":2678401001}");
}

static void there_is_a_limit_to_its_scopes(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_lit(&b, "{" SEED "\"version\":1,\"signature\":\"s\",\"start\":1,\"expiry\":2,\"scopes\":[");
    for (int i = 0; i < SCOPES_MAX; i++)
        buf_lit(&b, "\"a\",");
    size_t end = b.len;
    b.at[b.len - 1] = ']';
    buf_lit(&b, "}");
    struct certificate c;
    assert_int_equal(certificate_read(buf_view(&b), &arena, &c).code, ERR_OK);
    assert_int_equal(c.count, SCOPES_MAX);
    b.len = end;
    b.at[b.len - 1] = ',';
    buf_lit(&b, "\"a\"]}");
    assert_int_equal(certificate_read(buf_view(&b), &arena, &c).code, ERR_BAD_CREDENTIALS);
    buf_fini(&b);
}

/* --- making --- */

static struct credentials make(const char *id, int64_t start, const char *scope)
{
    struct credentials out;
    const struct str scopes[] = {str_from(scope), STR("say \"b\"")};
    certificate_make(STR("server"), STR(KEY), str_from(id), (instant){start},
                     (instant){NOW_MS + 1000}, scopes, 2, &arena, &out);
    return out;
}

static void what_is_made_is_valid(void **state)
{
    (void)state;
    struct credentials made = make("task-client/x", NOW_MS, "queue:a");
    struct certificate c;
    struct err err = certificate_read(made.certificate, &arena, &c);
    assert_int_equal(err.code, ERR_OK);
    struct scope_set all = set_of("*", "*"), granted;
    err =
        certificate_check(&c, made.client_id, STR("server"), STR(KEY), &all, now, &arena, &granted);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(granted.count, 2);
    char token[CERTIFICATE_TOKEN_LEN];
    certificate_token(&c, STR(KEY), token);
    assert_true(str_eq(made.access_token, (struct str){token, sizeof token}));
}

/* The signature and the token are those that another implementation computes for this seed. */
static void what_is_made_is_what_others_make(void **state)
{
    (void)state;
    struct credentials made = make("task-client/x", NOW_MS, "queue:a");
    assert_true(str_eq(made.access_token, STR(MADE_TOKEN)));
    assert_true(str_eq(made.certificate, STR(MADE_CERTIFICATE)));
}

static void the_same_arguments_make_the_same_others_another(void **state)
{
    (void)state;
    struct credentials a = make("x", NOW_MS, "s"), b = make("x", NOW_MS, "s");
    assert_true(str_eq(a.certificate, b.certificate) && str_eq(a.access_token, b.access_token));
    b = make("y", NOW_MS, "s");
    assert_false(str_eq(a.access_token, b.access_token));
    b = make("x", NOW_MS - 1, "s");
    assert_false(str_eq(a.access_token, b.access_token));
    b = make("x", NOW_MS, "t");
    assert_false(str_eq(a.access_token, b.access_token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates_of_another_implementation_are_valid),
        cmocka_unit_test(the_issuer_needs_what_it_gives),
        cmocka_unit_test(a_certificate_is_for_one_id),
        cmocka_unit_test(it_is_valid_from_its_start_to_its_expiry_but_for_the_skew),
        cmocka_unit_test(whatever_is_changed_the_signature_is_wrong),
        cmocka_unit_test(a_malformed_certificate_is_refused),
        cmocka_unit_test(it_lasts_at_most_31_days),
        cmocka_unit_test(there_is_a_limit_to_its_scopes),
        cmocka_unit_test(what_is_made_is_valid),
        cmocka_unit_test(what_is_made_is_what_others_make),
        cmocka_unit_test(the_same_arguments_make_the_same_others_another),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
