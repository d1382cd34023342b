/* SPDX-License-Identifier: Apache-2.0 */

/* Authentication and authorization of whole requests, signed by other implementations. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "access/access.h"
#include "access/hawk.h"
#include "base/array.h"
#include "base/base64.h"
#include "base/rng.h"
#include "vectors.h"

#define SERVER_KEY "the server's key for tests, longer than 32 bytes"

static struct access *access_;
static struct arena arena;
static struct access_identity who;
static char challenge[ACCESS_CHALLENGE_MAX];
static instant now;
static char folder[32], path[64];

static void load(const char *clients)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(clients, f);
    assert_int_equal(fclose(f), 0);
    struct err err = access_load_clients(access_, path);
    assert_int_equal(err.code, ERR_OK);
}

#define CLIENT(scopes, more)                                                                       \
    "{\"clientId\":\"" ID "\",\"accessToken\":\"" KEY "\",\"scopes\":[" scopes "]" more "}"

static int setup(void **state)
{
    (void)state;
    now = (instant){NOW_MS};
    strcpy(folder, "/tmp/tenax-access-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/clients.json", folder);
    access_ = access_new(&(struct access_settings){.window = HAWK_WINDOW,
                                                   .nonces_max = 1000,
                                                   .issuer = STR("server"),
                                                   .issuer_key = STR(SERVER_KEY),
                                                   .seed = 1});
    load("[" CLIENT("\"queue:*\",\"auth:create-client:*\"", "") "]");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    access_free(access_);
    arena_fini(&arena);
    unlink(path);
    rmdir(folder);
    return 0;
}

static struct access_request request(const char *method, const char *target, const char *header)
{
    const char *mark = strchr(target, '?');
    struct str whole = str_from(target);
    size_t len = mark ? (size_t)(mark - target) : whole.len;
    return (struct access_request){.method = str_from(method),
                                   .path = {target, len},
                                   .query = mark ? str_from(mark + 1) : (struct str){0},
                                   .host = STR("example.com:8000"),
                                   .authorization = str_from(header)};
}

static struct err check(const struct access_request *r)
{
    return access_check(access_, r, now, &arena, &who, challenge);
}

static void check_accepted(struct access_request r)
{
    struct err err = check(&r);
    if (err.code != ERR_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(challenge, "");
}

static void check_refused(struct access_request r, enum err_code code)
{
    assert_int_equal(check(&r).code, code);
    if (code != ERR_BUSY)
        assert_memory_equal(challenge, "Hawk", 4);
}

static bool may(const char *scope)
{
    return scope_set_satisfies(&who.scopes, str_from(scope));
}

/* --- who --- */

static void a_signed_request_is_its_client(void **state)
{
    (void)state;
    check_accepted(request("GET", "/resource/1?b=1&a=2", GET_HEADER));
    assert_int_equal(who.kind, ACCESS_CLIENT);
    assert_true(str_eq(who.client_id, STR(ID)));
    assert_true(may("queue:anything") && !may("object:x"));
    assert_false(instant_is_set(who.expires));
    assert_false(who.bewit);
}

static void without_credentials_one_is_anonymous(void **state)
{
    (void)state;
    check_accepted(request("GET", "/x", ""));
    assert_int_equal(who.kind, ACCESS_ANONYMOUS);
    assert_int_equal(who.client_id.len, 0);
    assert_false(may(""));
}

static void without_clients_anybody_may_do_anything(void **state)
{
    (void)state;
    struct access *a = access_new(&(struct access_settings){.window = HAWK_WINDOW,
                                                            .nonces_max = 10,
                                                            .issuer = STR("server"),
                                                            .issuer_key = STR(SERVER_KEY)});
    assert_false(access_has_clients(a));
    struct access_request r = request("GET", "/x", "");
    struct err err = access_check(a, &r, now, &arena, &who, challenge);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(who.kind, ACCESS_ANONYMOUS);
    assert_true(may("anything"));
    r = request("GET", "/resource/1?b=1&a=2", GET_HEADER);
    err = access_check(a, &r, now, &arena, &who, challenge);
    assert_int_equal(err.code, ERR_BAD_CREDENTIALS); /* not ignored */
    access_free(a);
}

static void the_body_is_covered_if_it_has_a_hash(void **state)
{
    (void)state;
    struct access_request r = request("POST", "/resource", POST_HEADER);
    r.host = STR("example.com");
    r.tls = true;
    r.content_type = STR("Application/JSON; charset=utf-8");
    r.body = STR("{\"a\":2}");
    check_refused(r, ERR_BAD_CREDENTIALS);
    r.body = STR("{\"a\":1}");
    check_accepted(r);
}

static void a_proxy_says_what_the_client_saw(void **state)
{
    (void)state;
    struct access_request r = request("POST", "/resource", POST_HEADER);
    r.content_type = STR("application/json");
    r.body = STR("{\"a\":1}");
    r.host = STR("example.com");
    check_refused(r, ERR_BAD_CREDENTIALS);
    r.forwarded_proto = STR("https");
    check_accepted(r);
}

static void unknown_and_expired_clients_are_refused(void **state)
{
    (void)state;
    load("[]");
    assert_true(access_has_clients(access_));
    check_refused(request("GET", "/resource/1?b=1&a=2", GET_HEADER), ERR_BAD_CREDENTIALS);
    load("[" CLIENT("\"queue:*\"", ",\"expires\":\"2023-11-14T22:13:20.123Z\"") "]");
    check_refused(request("GET", "/resource/1?b=1&a=2", GET_HEADER), ERR_BAD_CREDENTIALS);
    check_refused(request("GET", "/x", UNNAMED_HEADER), ERR_BAD_CREDENTIALS);
    load("[" CLIENT("\"queue:*\"", ",\"expires\":\"2023-11-14T22:13:20.124Z\"") "]");
    check_accepted(request("GET", "/x", UNNAMED_HEADER));
    assert_int_equal(who.expires.ms, NOW_MS + 1);
}

static void an_identity_outlives_its_client(void **state)
{
    (void)state;
    check_accepted(request("GET", "/resource/1?b=1&a=2", GET_HEADER));
    load("[]");
    assert_true(may("queue:anything"));
    assert_true(str_eq(who.client_id, STR(ID)));
}

static void a_file_that_names_the_server_is_refused(void **state)
{
    (void)state;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("[{\"clientId\":\"server\",\"accessToken\":\"" KEY "\",\"scopes\":[]}]", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(access_load_clients(access_, path).code, ERR_CONFLICT);
    check_accepted(request("GET", "/resource/1?b=1&a=2", GET_HEADER));
}

/* --- time and replays --- */

static void a_replay_is_refused(void **state)
{
    (void)state;
    struct access_request r = request("GET", "/resource/1?b=1&a=2", GET_HEADER);
    check_accepted(r);
    check_refused(r, ERR_REPLAYED);
    assert_string_equal(challenge, "Hawk");
    now.ms += HAWK_WINDOW.ms - 123;
    check_refused(r, ERR_REPLAYED);
    now.ms++;
    check_refused(r, ERR_STALE_TIME);
}

/* Another service asks for whoever sent it there: the request may still be sent here. */
static void a_request_to_another_service_is_judged_and_not_remembered(void **state)
{
    (void)state;
    struct access_request get = request("GET", "/resource/1?b=1&a=2", GET_HEADER), asked = get;
    asked.elsewhere = true;
    check_accepted(asked);
    assert_true(str_eq(who.client_id, STR(ID)));
    assert_int_equal(who.hash.len, 0);
    check_accepted(asked);
    check_accepted(get);
    check_refused(get, ERR_REPLAYED);
    check_accepted(asked);
    asked.path = STR("/resource/2");
    check_refused(asked, ERR_BAD_CREDENTIALS);
    struct access_request post = request("POST", "/resource", POST_HEADER);
    post.host = STR("example.com:443");
    post.elsewhere = true;
    check_accepted(post); /* its body is with the service, which gets the hash */
    assert_true(str_eq(who.hash, STR("qKG2AtsqLMhIdy7+OrxWG0bU8wTDncYSW0gmNukAKpI=")));
    now.ms += HAWK_WINDOW.ms + 1000;
    check_refused(post, ERR_STALE_TIME);
}

static void a_wrong_clock_is_told_the_time(void **state)
{
    (void)state;
    struct access_request r = request("GET", "/resource/1?b=1&a=2", GET_HEADER);
    now.ms = NOW_MS - 123 - HAWK_WINDOW.ms - 1;
    check_refused(r, ERR_STALE_TIME);
    assert_memory_equal(challenge, "Hawk ts=\"1699999099\", tsm=\"", 27);
    now.ms++;
    check_accepted(r);
}

static void who_does_not_know_the_key_is_not_told_more(void **state)
{
    (void)state;
    struct access_request r = request("GET", "/resource/2", GET_HEADER);
    now.ms += 10 * HAWK_WINDOW.ms;
    check_refused(r, ERR_BAD_CREDENTIALS);
    assert_string_equal(challenge, "Hawk");
}

/* --- every byte counts --- */

/* Harmless changes: the case of the scheme, and blanks outside of quotes. */
static bool is_harmless(const char *header, size_t at, char now_there)
{
    if (at < 4)
        return (header[at] ^ 0x20) == now_there;
    return header[at] == ' ' && now_there == '\t' && (at == 4 || header[at - 1] == ',');
}

static void check_flips(const char *method, const char *target, const char *header)
{
    size_t len = strlen(header), accepted = 0;
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    for (size_t i = 0; i < len; i++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, header, len + 1);
            copy[i] = (char)(copy[i] ^ 1 << bit);
            struct access_request r = request(method, target, "");
            r.authorization = (struct str){copy, len};
            struct err err = check(&r);
            if (is_harmless(header, i, copy[i])) {
                assert_true(err.code == ERR_OK || err.code == ERR_REPLAYED);
                accepted++;
            } else if (err.code != ERR_BAD_CREDENTIALS) {
                fail_msg("byte %zu, bit %d: %s", i, bit, err_wire(err.code));
            }
        }
        arena_reset(&arena);
    }
    assert_true(accepted >= 4);
    free(copy);
    check_refused(request(method, target, header), ERR_REPLAYED); /* it was valid all along */
}

static void a_header_with_a_bit_flipped_is_refused(void **state)
{
    (void)state;
    check_flips("GET", "/resource/1?b=1&a=2", GET_HEADER);
    check_flips("PUT", "/x", APP_HEADER);
    check_flips("GET", "/x", SCOPES_HEADER);
    check_flips("GET", "/x", TEMP_HEADER);
    check_flips("GET", "/x", UNNAMED_HEADER);
}

static void a_bewit_with_a_bit_flipped_is_refused(void **state)
{
    (void)state;
    const char target[] = "/resource/4?a=1&b=2&bewit=" BEWIT_QUERY;
    char copy[sizeof target];
    check_accepted(request("GET", target, ""));
    for (size_t i = strlen("/resource/4?"); i < sizeof target - 1; i++) {
        for (int bit = 0; bit < 8; bit++) {
            memcpy(copy, target, sizeof target);
            copy[i] = (char)(copy[i] ^ 1 << bit);
            struct access_request r = request("GET", "/resource/4", "");
            r.query = (struct str){copy + strlen("/resource/4?"),
                                   sizeof target - 1 - strlen("/resource/4?")};
            struct err err = check(&r);
            /* Without "bewit=" there are no credentials. */
            if (err.code == ERR_OK)
                assert_int_equal(who.kind, ACCESS_ANONYMOUS);
            else
                assert_int_equal(err.code, ERR_BAD_CREDENTIALS);
        }
    }
}

/* --- secrets are compared in constant time --- */

static size_t compared;

int __real_CRYPTO_memcmp(const void *a, const void *b, size_t len);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len);

int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len)
{
    compared += len;
    return __real_CRYPTO_memcmp(a, b, len);
}

static void a_mac_is_compared_to_its_end_wherever_it_differs(void **state)
{
    (void)state;
    char header[] = GET_HEADER;
    char *mac = strstr(header, "mac=\"") + 5;
    for (size_t i = 0; i < HAWK_MAC_LEN; i++) {
        char before = mac[i];
        mac[i] = before == 'A' ? 'B' : 'A';
        compared = 0;
        check_refused(request("GET", "/resource/1?b=1&a=2", header), ERR_BAD_CREDENTIALS);
        assert_int_equal(compared, HAWK_MAC_LEN);
        mac[i] = before;
    }
}

static void signatures_and_hashes_are_compared_likewise(void **state)
{
    (void)state;
    compared = 0;
    check_accepted(request("GET", "/x", TEMP_HEADER));
    assert_int_equal(compared, 2 * HAWK_MAC_LEN);
    compared = 0;
    struct access_request r = request("POST", "/resource", POST_HEADER);
    r.host = STR("example.com:443");
    check_refused(r, ERR_BAD_CREDENTIALS);
    assert_int_equal(compared, 2 * HAWK_MAC_LEN);
}

/* --- bewits --- */

static void a_bewit_is_for_looking_until_it_expires(void **state)
{
    (void)state;
    const char target[] = "/resource/4?a=1&b=2&bewit=" BEWIT_QUERY;
    check_accepted(request("GET", target, ""));
    assert_true(who.bewit);
    assert_int_equal(who.kind, ACCESS_CLIENT);
    check_accepted(request("GET", target, "")); /* any number of times */
    check_accepted(request("HEAD", target, ""));
    check_refused(request("PUT", target, ""), ERR_BAD_CREDENTIALS);
    check_refused(request("GET", target, GET_HEADER), ERR_BAD_CREDENTIALS);
    now.ms = (NOW_MS / 1000 + 300) * 1000 - 1;
    check_accepted(request("GET", target, ""));
    now.ms++;
    check_refused(request("GET", target, ""), ERR_BAD_CREDENTIALS);
}

static void temporary_credentials_sign_urls(void **state)
{
    (void)state;
    check_accepted(request("GET", TEMP_PATH "?bewit=" TEMP_BEWIT, ""));
    assert_int_equal(who.kind, ACCESS_TEMPORARY);
    assert_true(str_eq(who.client_id, STR(TEMP_ID)));
    assert_true(may("queue:b") && !may("queue:reclaim-task:abc/0"));
    check_refused(request("GET", TEMP_PATH "2?bewit=" TEMP_BEWIT, ""), ERR_BAD_CREDENTIALS);
}

/* --- certificates and authorized scopes --- */

static void temporary_credentials_have_the_scopes_of_their_certificate(void **state)
{
    (void)state;
    check_accepted(request("GET", "/x", TEMP_HEADER));
    assert_int_equal(who.kind, ACCESS_TEMPORARY);
    assert_true(str_eq(who.client_id, STR(TEMP_ID)));
    assert_true(may("queue:reclaim-task:abc/0") && may("queue:b") && !may("queue:c"));
    assert_int_equal(who.expires.ms, NOW_MS + 1200000);
    check_accepted(request("GET", "/x", UNNAMED_HEADER));
    assert_int_equal(who.kind, ACCESS_TEMPORARY);
    assert_true(str_eq(who.client_id, STR(ID)));
    assert_true(may("queue:b") && !may("queue:c"));
}

static void they_end_with_their_issuers_scopes(void **state)
{
    (void)state;
    load("[" CLIENT("\"queue:b\",\"auth:create-client:*\"", "") "]");
    check_refused(request("GET", "/x", TEMP_HEADER), ERR_BAD_CREDENTIALS);
    load("[" CLIENT("\"queue:*\"", "") "]");
    check_refused(request("GET", "/x", TEMP_HEADER), ERR_BAD_CREDENTIALS);
}

static void authorized_scopes_are_all_that_is_left(void **state)
{
    (void)state;
    check_accepted(request("GET", "/x", SCOPES_HEADER));
    assert_true(may("queue:get:1") && !may("queue:put:1"));
}

/* --- requests that the tests sign themselves --- */

static struct access_request signed_by(struct str id, struct str key, const char *ext_json,
                                       const char *nonce)
{
    static struct buf b;
    struct buf ext = {0};
    base64_write(&ext, str_from(ext_json));
    struct hawk_attributes h = {
        .id = id, .ts = STR("1700000000"), .nonce = str_from(nonce), .ext = buf_view(&ext)};
    struct hawk_target t = {STR("GET"), STR("/x"), STR(""), STR("example.com"), 8000};
    char mac[HAWK_MAC_LEN];
    hawk_mac(HAWK_HEADER, key, &t, &h, mac);
    b.len = 0;
    buf_print(&b, "Hawk id=\"%.*s\", ts=\"1700000000\", nonce=\"%s\", mac=\"%.*s\"", STR_ARG(id),
              nonce, HAWK_MAC_LEN, mac);
    if (ext.len)
        buf_print(&b, ", ext=\"%.*s\"", (int)ext.len, ext.at);
    buf_fini(&ext);
    struct access_request r = request("GET", "/x", "");
    r.authorization = arena_copy(&arena, buf_view(&b));
    buf_fini(&b);
    b = (struct buf){0};
    return r;
}

static void authorized_scopes_are_some_that_one_has(void **state)
{
    (void)state;
    load("[" CLIENT("\"queue:put:*\"", "") "]");
    check_refused(request("GET", "/x", SCOPES_HEADER), ERR_BAD_CREDENTIALS);
}

static void a_strange_ext_is_refused(void **state)
{
    (void)state;
    static const char *const strange[] = {"x",
                                          "[]",
                                          "{",
                                          "{}x",
                                          "{\"authorizedScopes\":\"a\"}",
                                          "{\"authorizedScopes\":[1]}",
                                          "{\"authorizedScopes\":[\"queue:**\"]}",
                                          "{\"\\u0061uthorizedScopes\":[]}",
                                          "{\"authorizedScopes\":[],\"authorizedScopes\":[]}",
                                          "{\"certificate\":\"\"}",
                                          "{\"certificate\":[]}",
                                          "{\"certificate\":" TEMP_CERTIFICATE "}",
                                          "{\"certificate\":" UNNAMED_CERTIFICATE
                                          ",\"certificate\":" UNNAMED_CERTIFICATE "}"};
    for (size_t i = 0; i < COUNT(strange); i++)
        check_refused(signed_by(STR(ID), STR(KEY), strange[i], "n"), ERR_BAD_CREDENTIALS);
    check_accepted(signed_by(STR(ID), STR(KEY), "{\"other\":[{}],\"certificate\":null}", "n"));
    assert_true(may("queue:x"));
    check_accepted(signed_by(STR(ID), STR(KEY), "{\"authorizedScopes\":[]}", "m"));
    assert_false(may("queue:x"));
}

static void the_server_issues_credentials(void **state)
{
    (void)state;
    const struct str scopes[] = {STR("queue:resolve-task:abc/0"), STR("secret:*")};
    struct credentials given;
    access_issue(access_, STR("task-client/abc"), now, (instant){NOW_MS + 1000}, scopes, 2, &arena,
                 &given);
    char ext[1024];
    snprintf(ext, sizeof ext, "{\"certificate\":%.*s}", STR_ARG(given.certificate));
    check_accepted(signed_by(given.client_id, given.access_token, ext, "1"));
    assert_int_equal(who.kind, ACCESS_TEMPORARY);
    assert_true(str_eq(who.client_id, STR("task-client/abc")));
    assert_true(may("queue:resolve-task:abc/0") && may("secret:x"));
    assert_false(may("queue:resolve-task:abc/1"));
    assert_int_equal(who.expires.ms, NOW_MS + 1000);
    /* No longer than any credentials, whatever a lease says. */
    struct credentials longest;
    access_issue(access_, STR("task-client/long"), now, (instant){INT64_MAX}, scopes, 2, &arena,
                 &longest);
    snprintf(ext, sizeof ext, "{\"certificate\":%.*s}", STR_ARG(longest.certificate));
    check_accepted(signed_by(longest.client_id, longest.access_token, ext, "6"));
    assert_int_equal(who.expires.ms, NOW_MS + CERTIFICATE_LIFE_MAX.ms);
    snprintf(ext, sizeof ext, "{\"certificate\":%.*s}", STR_ARG(given.certificate));
    /* With less than all of it, and without the certificate, they are worthless. */
    check_refused(signed_by(given.client_id, given.access_token, "", "2"), ERR_BAD_CREDENTIALS);
    check_refused(signed_by(given.client_id, STR(KEY), ext, "3"), ERR_BAD_CREDENTIALS);
    check_refused(signed_by(STR("task-client/abd"), given.access_token, ext, "4"),
                  ERR_BAD_CREDENTIALS);
    /* Nobody may use the server's own name, not even with its key. */
    check_refused(signed_by(STR("server"), STR(SERVER_KEY), "", "5"), ERR_BAD_CREDENTIALS);
}

static void too_many_requests_at_once_are_told_so(void **state)
{
    (void)state;
    char nonce[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(nonce, sizeof nonce, "n%d", i);
        check_accepted(signed_by(STR(ID), STR(KEY), "", nonce));
    }
    check_refused(signed_by(STR(ID), STR(KEY), "", "other"), ERR_BUSY);
    assert_string_equal(challenge, "");
}

/* --- authorization --- */

static const struct scope_expr claim_work =
    SCOPE_ALL_OF(SCOPE("queue:claim-work:<taskQueueId>"), SCOPE("worker:<id>"));

static void missing_scopes_are_named(void **state)
{
    (void)state;
    const struct scope_param list[] = {{"taskQueueId", STR("p/w")}, {"id", STR("i")}};
    const struct scope_params p = {list, 2};
    struct buf why = {0};
    check_accepted(request("GET", "/resource/1?b=1&a=2", GET_HEADER));
    struct err err = access_require(&who, &claim_work, &p, &why);
    assert_int_equal(err.code, ERR_FORBIDDEN);
    assert_int_equal(err_status(err.code), 403);
    buf_byte(&why, '\0');
    assert_string_equal(why.at, "the client 'tester/root' lacks a scope that this request needs\n\n"
                                "missing: {\"AllOf\":[\"worker:i\"]}\n"
                                "needed: {\"AllOf\":[\"queue:claim-work:p/w\",\"worker:i\"]}");
    why.len = 0;
    check_accepted(request("GET", "/x", ""));
    assert_int_equal(access_require(&who, &claim_work, &p, &why).code, ERR_FORBIDDEN);
    assert_memory_equal(why.at, "this request needs credentials", 30);
    load("[" CLIENT("\"*\"", "") "]");
    check_accepted(request("GET", "/x", UNNAMED_HEADER));
    assert_int_equal(access_require(&who, &claim_work, &p, NULL).code, ERR_FORBIDDEN);
    check_accepted(request("PUT", "/x", APP_HEADER));
    assert_int_equal(access_require(&who, &claim_work, &p, NULL).code, ERR_OK);
    buf_fini(&why);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_signed_request_is_its_client),
        TEST(without_credentials_one_is_anonymous),
        TEST(without_clients_anybody_may_do_anything),
        TEST(the_body_is_covered_if_it_has_a_hash),
        TEST(a_proxy_says_what_the_client_saw),
        TEST(unknown_and_expired_clients_are_refused),
        TEST(an_identity_outlives_its_client),
        TEST(a_file_that_names_the_server_is_refused),
        TEST(a_replay_is_refused),
        TEST(a_request_to_another_service_is_judged_and_not_remembered),
        TEST(a_wrong_clock_is_told_the_time),
        TEST(who_does_not_know_the_key_is_not_told_more),
        TEST(a_header_with_a_bit_flipped_is_refused),
        TEST(a_bewit_with_a_bit_flipped_is_refused),
        TEST(a_mac_is_compared_to_its_end_wherever_it_differs),
        TEST(signatures_and_hashes_are_compared_likewise),
        TEST(a_bewit_is_for_looking_until_it_expires),
        TEST(temporary_credentials_sign_urls),
        TEST(temporary_credentials_have_the_scopes_of_their_certificate),
        TEST(they_end_with_their_issuers_scopes),
        TEST(authorized_scopes_are_all_that_is_left),
        TEST(authorized_scopes_are_some_that_one_has),
        TEST(a_strange_ext_is_refused),
        TEST(the_server_issues_credentials),
        TEST(too_many_requests_at_once_are_told_so),
        TEST(missing_scopes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
