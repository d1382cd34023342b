/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "access/clients.h"
#include "base/buf.h"

#define TOKEN "0123456789_abcdefghij-ABCDEF"

static const char good[] = "[\n"
                           "  {\"clientId\": \"ci/worker\", \"accessToken\": \"" TOKEN "\",\n"
                           "   \"scopes\": [\"queue:claim:*\", \"queue:claim:x\", \"a\"],\n"
                           "   \"expires\": \"2027-01-01T00:00:00Z\"},\n"
                           "  {\"clientId\": \"root\", \"accessToken\": \"" TOKEN "x\",\n"
                           "   \"scopes\": [\"*\"], \"expires\": null}\n"
                           "]\n";

static void clients_are_found_by_their_ids(void **state)
{
    (void)state;
    struct clients *all;
    struct err err = clients_read(str_from(good), "clients.json", &all);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(clients_count(all), 2);
    const struct access_client *c = clients_find(all, STR("ci/worker"));
    assert_non_null(c);
    assert_true(str_eq(c->token, STR(TOKEN)));
    assert_int_equal(c->scopes.count, 2);
    assert_int_equal(c->expires.ms, INT64_C(1798761600000));
    c = clients_find(all, STR("root"));
    assert_non_null(c);
    assert_false(instant_is_set(c->expires));
    assert_null(clients_find(all, STR("roo")));
    assert_null(clients_find(NULL, STR("root")));
    clients_free(all);
}

#define SECRET        "0123456789-0123456789_ABCDEFGHIJabcdefghijkl"
#define POOL          "\"workerPoolId\":\"ci/linux\""
#define GROUP         "\"workerGroup\":\"rack-1\""
#define WORKER        "\"workerId\":\"m_1\""
#define SECRET_MEMBER "\"staticSecret\":\"" SECRET "\""

static void workers_are_found_by_pool_and_name(void **state)
{
    (void)state;
    struct clients *all;
    struct err err =
        clients_read(STR("[{" POOL "," GROUP "," WORKER "," SECRET_MEMBER "},"
                         "{\"workerPoolId\":\"ci/mac\"," GROUP "," WORKER "," SECRET_MEMBER
                         ",\"providerId\":\"own\",\"workerConfig\": {\"a\": [1]} }]"),
                     "c.json", &all);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(clients_count(all), 0);
    const struct static_worker *w = clients_worker(all, STR("ci/linux"), STR("rack-1"), STR("m_1"));
    assert_non_null(w);
    assert_true(str_eq(w->secret, STR(SECRET)));
    assert_true(str_eq(w->provider, STR("static")) && str_eq(w->config, STR("{}")));
    w = clients_worker(all, STR("ci/mac"), STR("rack-1"), STR("m_1"));
    assert_non_null(w);
    assert_true(str_eq(w->provider, STR("own")) && str_eq(w->config, STR("{\"a\": [1]}")));
    assert_null(clients_worker(all, STR("ci/linux"), STR("rack-1"), STR("m_2")));
    assert_null(clients_worker(NULL, STR("ci/linux"), STR("rack-1"), STR("m_1")));
    clients_free(all);
}

static void there_may_be_none(void **state)
{
    (void)state;
    struct clients *all;
    struct err err = clients_read(STR(" [ ] "), "c", &all);
    assert_int_equal(err.code, ERR_OK);
    assert_int_equal(clients_count(all), 0);
    clients_free(all);
}

static void check_refused(const char *text, enum err_code code, const char *place)
{
    struct clients *all;
    struct err err = clients_read(str_from(text), "c.json", &all);
    assert_int_equal(err.code, code);
    assert_null(all);
    if (strncmp(err.msg, place, strlen(place)) != 0)
        fail_msg("expected %s, got %s", place, err.msg);
    assert_null(strstr(err.msg, "0123456789"));
    assert_null(strstr(err.msg, "SECRET"));
}

#define ID  "\"clientId\":\"a\""
#define TOK "\"accessToken\":\"" TOKEN "\""
#define SCO "\"scopes\":[]"

static void every_fault_has_its_place(void **state)
{
    (void)state;
    check_refused("", ERR_BAD_JSON, "c.json: line 1, column 1: ");
    check_refused("{}", ERR_BAD_TYPE, "c.json: line 1, column 1: ");
    check_refused("[\n {" ID "," TOK "," SCO "}\n 7]", ERR_BAD_JSON, "c.json: line 3, column 2: ");
    check_refused("[] x", ERR_BAD_JSON, "c.json: line 1, column 4: ");
    check_refused("[\n\n  {" TOK "," SCO "}]", ERR_MISSING_FIELD,
                  "c.json: line 3, column 3: the client has no clientId");
    check_refused("[{" ID "," SCO "}]", ERR_MISSING_FIELD,
                  "c.json: line 1, column 2: the client has no accessToken");
    check_refused("[{" ID "," TOK "}]", ERR_MISSING_FIELD,
                  "c.json: line 1, column 2: the client has no scopes");
    check_refused("[{" ID ",\n" ID "}]", ERR_DUPLICATE_FIELD,
                  "c.json: line 2, column 2: clientId is given twice");
    check_refused("[{" ID ",\"secret\":1}]", ERR_UNKNOWN_FIELD, "c.json: line 1, column 19: ");
    check_refused("[{\"clientId\":\"a b\"}]", ERR_BAD_NAME, "c.json: line 1, column 15: ");
    check_refused("[{\"clientId\":\"\"}]", ERR_BAD_NAME, "c.json: line 1, column 15: ");
    check_refused("[{\"clientId\":\"a\\u0000\"}]", ERR_BAD_NAME, "c.json: line 1, column 15: ");
    check_refused("[{\"clientId\":7}]", ERR_BAD_TYPE, "c.json: line 1, column 14: ");
    check_refused("[{\"accessToken\":\"SECRET\"}]", ERR_BAD_VALUE, "c.json: line 1, column 18: ");
    check_refused("[{\"accessToken\":\"SECRET SECRET SECRET SECRET\"}]", ERR_BAD_VALUE,
                  "c.json: line 1, column 18: ");
    check_refused("[{\"accessToken\":\"SECRET\x01SECRET\"}]", ERR_BAD_JSON,
                  "c.json: line 1, column 24: ");
    check_refused("[{\"scopes\":[\"a\",\n\"b**\"]}]", ERR_BAD_VALUE, "c.json: line 2, column 3: ");
    check_refused("[{\"scopes\":[\"a\xc3\xa4\"]}]", ERR_BAD_VALUE, "c.json: line 1, column 15: ");
    check_refused("[{\"scopes\":\"a\"}]", ERR_BAD_TYPE, "c.json: line 1, column 12: ");
    check_refused("[{\"expires\":\"tomorrow\"}]", ERR_BAD_VALUE, "c.json: line 1, column 14: ");
    check_refused("[{\"expires\":1}]", ERR_BAD_TYPE, "c.json: line 1, column 13: ");
    check_refused("[{" ID "," TOK "," SCO "},\n{" ID "," TOK "," SCO "}]", ERR_CONFLICT,
                  "c.json: line 2, column 1: a second client 'a'");
    check_refused("[\n{\"roleId\":\"r\"}]", ERR_MISSING_FIELD,
                  "c.json: line 2, column 1: the role has no scopes");
    check_refused("[{\"roleId\":\"r\"," TOK "," SCO "}]", ERR_UNKNOWN_FIELD,
                  "c.json: line 1, column 2: a role has roleId and scopes only");
    check_refused("[{\"roleId\":\"a**\"," SCO "}]", ERR_BAD_NAME, "c.json: line 1, column 2: ");
    check_refused("[{\"roleId\":\"\"," SCO "}]", ERR_BAD_NAME, "c.json: line 1, column 2: ");
    check_refused("[{\"roleId\":\"r\",\"scopes\":[\"x:<..>\"]}]", ERR_BAD_VALUE,
                  "c.json: line 1, column 2: <..>");
    check_refused("[{\"roleId\":\"r\"," SCO "},{\"roleId\":\"r\"," SCO "}]", ERR_CONFLICT,
                  "c.json: line 1, column 1: two roles");
}

static void faults_of_workers_have_their_places(void **state)
{
    (void)state;
    check_refused("[\n{" POOL "," GROUP "," WORKER "}]", ERR_MISSING_FIELD,
                  "c.json: line 2, column 1: the worker has no staticSecret");
    check_refused("[{" POOL "," GROUP "," WORKER "," SECRET_MEMBER "," SCO "}]", ERR_UNKNOWN_FIELD,
                  "c.json: line 1, column 2: a worker has workerPoolId, ");
    check_refused("[{" ID "," TOK "," SCO "," WORKER "}]", ERR_UNKNOWN_FIELD,
                  "c.json: line 1, column 2: a client has ");
    check_refused("[{\"roleId\":\"r\"," SCO "," POOL "}]", ERR_UNKNOWN_FIELD,
                  "c.json: line 1, column 2: a role has ");
    check_refused("[{" POOL "," GROUP "," WORKER "," SECRET_MEMBER "},\n {" POOL "," GROUP
                  "," WORKER "," SECRET_MEMBER "}]",
                  ERR_CONFLICT, "c.json: line 2, column 2: a second worker 'rack-1/m_1'");
    check_refused("[{\"workerPoolId\":\"ci\"}]", ERR_BAD_VALUE, "c.json: line 1, column 19: ");
    check_refused("[{\"workerPoolId\":\"ci/Linux\"}]", ERR_BAD_VALUE,
                  "c.json: line 1, column 19: workerPoolId");
    check_refused("[{\"workerPoolId\":\"ci/a-\"}]", ERR_BAD_VALUE, "c.json: line 1, column 19: ");
    check_refused("[{\"workerPoolId\":\"ci/a/b\"}]", ERR_BAD_VALUE, "c.json: line 1, column 19: ");
    check_refused("[{\"workerGroup\":\"a b\"}]", ERR_BAD_VALUE, "c.json: line 1, column 18: ");
    check_refused("[{\"workerId\":\"\"}]", ERR_BAD_VALUE, "c.json: line 1, column 15: ");
    check_refused("[{\"workerId\":\"0123456789012345678901234567890123456_8x\"}]", ERR_BAD_VALUE,
                  "c.json: line 1, column 15: ");
    check_refused("[{\"providerId\":\"\\u00e4\"}]", ERR_BAD_VALUE, "c.json: line 1, column 17: ");
    check_refused("[{\"staticSecret\":\"SECRET\"}]", ERR_BAD_VALUE,
                  "c.json: line 1, column 19: staticSecret has exactly 44");
    check_refused("[{\"workerConfig\": []}]", ERR_BAD_TYPE,
                  "c.json: line 1, column 19: workerConfig is an object");
}

static void what_the_scanner_found_is_not_told(void **state)
{
    (void)state;
    struct clients *all;
    struct err err = clients_read(STR("[{\"accessToken\": Zecret}]"), "c", &all);
    assert_int_equal(err.code, ERR_BAD_JSON);
    assert_null(strchr(err.msg, 'Z'));
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

static void a_bad_file_leaves_what_was_there(void **state)
{
    (void)state;
    char folder[] = "/tmp/tenax-clients-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/clients.json", folder);
    struct clients *all = NULL;
    assert_int_equal(clients_load(path, &all).code, ERR_IO);
    assert_null(all);
    write_file(path, good);
    assert_int_equal(clients_load(path, &all).code, ERR_OK);
    struct clients *before = all;
    write_file(path, "[{]");
    struct err err = clients_load(path, &all);
    assert_int_equal(err.code, ERR_BAD_JSON);
    assert_non_null(strstr(err.msg, "clients.json: line 1, column 3: "));
    assert_ptr_equal(all, before);
    assert_non_null(clients_find(all, STR("root")));
    write_file(path, "[]");
    assert_int_equal(clients_load(path, &all).code, ERR_OK);
    assert_int_equal(clients_count(all), 0);
    assert_int_equal(clients_load(folder, &all).code, ERR_IO);
    clients_free(all);
    unlink(path);
    rmdir(folder);
}

static void a_file_has_a_greatest_size(void **state)
{
    (void)state;
    char *text = malloc(CLIENTS_FILE_MAX + 1);
    assert_non_null(text);
    memset(text, ' ', CLIENTS_FILE_MAX + 1);
    memcpy(text, "[]", 2);
    struct clients *all;
    assert_int_equal(clients_read((struct str){text, CLIENTS_FILE_MAX}, "c", &all).code, ERR_OK);
    clients_free(all);
    assert_int_equal(clients_read((struct str){text, CLIENTS_FILE_MAX + 1}, "c", &all).code,
                     ERR_LENGTH);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_are_found_by_their_ids),
        cmocka_unit_test(workers_are_found_by_pool_and_name),
        cmocka_unit_test(faults_of_workers_have_their_places),
        cmocka_unit_test(there_may_be_none),
        cmocka_unit_test(every_fault_has_its_place),
        cmocka_unit_test(what_the_scanner_found_is_not_told),
        cmocka_unit_test(a_bad_file_leaves_what_was_there),
        cmocka_unit_test(a_file_has_a_greatest_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
