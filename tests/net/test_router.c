/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/array.h"
#include "net/router.h"

static const struct route routes[] = {
    {HTTP_GET, "/jobs/{id}"},
    {HTTP_DELETE, "/jobs/{id}"},
    {HTTP_GET, "/jobs"},
    {HTTP_POST, "/jobs"},
    {HTTP_GET, "/jobs/take"},
    {HTTP_GET, "/events", .stream = true},
    {HTTP_POST, "/jobs/{id}/success"},
    {HTTP_GET, "/jobs/{id}/errors/{attempt}"},
    {HTTP_GET, "/jobs/{id}/{what}/first"},
    {HTTP_GET, "/files/{id}/{name*}"},
    {HTTP_GET, "/files/{id}/index"},
    {HTTP_GET, "/"},
};

static const struct route *route_at(size_t i)
{
    return &routes[i];
}

static const struct front_end front = {"", COUNT(routes), route_at, .ctx = NULL};

struct answer {
    struct err err;
    struct router_match m;
};

static struct answer ask_of(const struct front_end *const *fronts, size_t count, bool admin,
                            struct arena *a, enum http_method method, const char *path)
{
    struct answer r;
    struct http_request req = {.method = method, .path = str_from(path), .arena = a};
    struct router *router = router_new();
    for (size_t i = 0; i < count; i++)
        router_mount(router, fronts[i]);
    r.err = router_find(router, admin, &req, &r.m);
    router_free(router);
    return r;
}

static struct answer ask(struct arena *a, enum http_method method, const char *path)
{
    return ask_of((const struct front_end *[]){&front}, 1, false, a, method, path);
}

static void check_found(enum http_method method, const char *path, const char *pattern)
{
    struct arena a = {0};
    struct answer r = ask(&a, method, path);
    assert_int_equal(r.err.code, ERR_OK);
    assert_string_equal(r.m.route->pattern, pattern);
    arena_fini(&a);
}

static void check_error(enum http_method method, const char *path, enum err_code code)
{
    struct arena a = {0};
    assert_int_equal(ask(&a, method, path).err.code, code);
    arena_fini(&a);
}

static void a_path_finds_its_route(void **state)
{
    (void)state;
    check_found(HTTP_GET, "/", "/");
    check_found(HTTP_POST, "/jobs", "/jobs");
    check_found(HTTP_DELETE, "/jobs/abc", "/jobs/{id}");
    check_found(HTTP_POST, "/jobs/abc/success", "/jobs/{id}/success");
}

static void a_fixed_segment_is_preferred_whatever_the_order(void **state)
{
    (void)state;
    check_found(HTTP_GET, "/jobs/take", "/jobs/take");
    check_found(HTTP_GET, "/jobs/x/errors/first", "/jobs/{id}/errors/{attempt}");
    check_found(HTTP_GET, "/jobs/x/other/first", "/jobs/{id}/{what}/first");
}

/* DELETE /jobs/take is not the deletion of a job with the id "take", and Allow does not say so. */
static void a_path_that_is_named_has_its_own_methods_only(void **state)
{
    (void)state;
    struct arena a = {0};
    struct answer r = ask(&a, HTTP_DELETE, "/jobs/take");
    assert_int_equal(r.err.code, ERR_BAD_METHOD);
    assert_true(str_eq(r.m.allow, STR("GET, HEAD")));
    r = ask(&a, HTTP_HEAD, "/events");
    assert_int_equal(r.err.code, ERR_BAD_METHOD);
    assert_true(str_eq(r.m.allow, STR("GET")));
    check_found(HTTP_DELETE, "/jobs/%74ake", "/jobs/{id}");
    arena_fini(&a);
}

static void a_method_of_no_path_is_not_supported(void **state)
{
    (void)state;
    check_error(HTTP_OTHER, "/jobs/abc/success", ERR_NOT_SUPPORTED);
    check_error(HTTP_OTHER, "/nowhere", ERR_NOT_SUPPORTED);
}

static void head_is_answered_by_get(void **state)
{
    (void)state;
    check_found(HTTP_HEAD, "/jobs/abc", "/jobs/{id}");
    check_error(HTTP_HEAD, "/jobs/abc/success", ERR_BAD_METHOD);
}

static void params_are_decoded(void **state)
{
    (void)state;
    struct arena a = {0};
    struct answer r = ask(&a, HTTP_GET, "/jobs/a%2Fb+c%C3%A9/errors/1");
    assert_int_equal(r.err.code, ERR_OK);
    assert_int_equal(r.m.params.count, 2);
    assert_true(str_eq(r.m.params.at[0], STR("a/b+c\303\251")));
    assert_true(str_eq(r.m.params.at[1], STR("1")));
    arena_fini(&a);
}

static void the_rest_of_a_path_keeps_its_slashes(void **state)
{
    (void)state;
    struct arena a = {0};
    struct answer r = ask(&a, HTTP_GET, "/files/x/public/a%2Fb/c.log");
    assert_int_equal(r.err.code, ERR_OK);
    assert_int_equal(r.m.params.count, 2);
    assert_true(str_eq(r.m.params.at[1], STR("public/a/b/c.log")));
    check_found(HTTP_GET, "/files/x/index", "/files/{id}/index");
    check_found(HTTP_GET, "/files/x/index/y", "/files/{id}/{name*}");
    check_found(HTTP_GET, "/files/x//", "/files/{id}/{name*}");
    check_error(HTTP_GET, "/files/x/", ERR_NO_ROUTE);
    check_error(HTTP_GET, "/files/x", ERR_NO_ROUTE);
    arena_fini(&a);
}

static void another_path_has_no_route(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "/job", "/jobs/",        "/jobs//success", "/jobs/a/success/", "//", "*",
        "",     "/jobs/a/b/c/d", "/JOBS"};
    for (size_t i = 0; i < COUNT(paths); i++)
        check_error(HTTP_GET, paths[i], ERR_NO_ROUTE);
}

static void another_method_is_told_which_there_are(void **state)
{
    (void)state;
    struct arena a = {0};
    struct answer r = ask(&a, HTTP_PUT, "/jobs/abc");
    assert_int_equal(r.err.code, ERR_BAD_METHOD);
    assert_true(str_eq(r.m.allow, STR("GET, HEAD, DELETE")));
    r = ask(&a, HTTP_GET, "/jobs/abc/success");
    assert_int_equal(r.err.code, ERR_BAD_METHOD);
    assert_true(str_eq(r.m.allow, STR("POST")));
    arena_fini(&a);
}

static const struct route *backup_route(size_t i)
{
    static const struct route own[] = {{HTTP_POST, "/backup", .admin = true}, {HTTP_GET, "/jobs"}};
    return &own[i];
}

static void a_route_of_the_admin_listener_is_only_there(void **state)
{
    (void)state;
    static const struct front_end f = {"", 2, backup_route, .ctx = NULL};
    const struct front_end *fronts[] = {&f};
    struct arena a = {0};
    struct answer r = ask_of(fronts, 1, true, &a, HTTP_POST, "/backup");
    assert_int_equal(r.err.code, ERR_OK);
    assert_ptr_equal(r.m.route, backup_route(0));
    for (enum http_method m = HTTP_GET; m < HTTP_OTHER; m++) {
        r = ask_of(fronts, 1, false, &a, m, "/backup");
        assert_int_equal(r.err.code, ERR_NO_ROUTE);
        assert_non_null(strstr(r.err.msg, "only the admin listener"));
    }
    arena_fini(&a);
}

static const struct route *task_route(size_t i)
{
    static const struct route own[] = {{HTTP_GET, "/task/{id}"}, {HTTP_GET, ""}};
    return &own[i];
}

static void a_front_end_has_all_below_its_prefix(void **state)
{
    (void)state;
    static const struct front_end f = {"/api/queue/v1", 2, task_route, .ctx = NULL};
    const struct front_end *fronts[] = {&front, &f};
    struct arena a = {0};
    struct answer r = ask_of(fronts, 2, false, &a, HTTP_GET, "/api/queue/v1/task/x");
    assert_int_equal(r.err.code, ERR_OK);
    assert_ptr_equal(r.m.front, &f);
    assert_true(str_eq(r.m.params.at[0], STR("x")));
    r = ask_of(fronts, 2, false, &a, HTTP_GET, "/api/queue/v1");
    assert_ptr_equal(r.m.route, task_route(1));
    /* The front end itself refuses unknown paths, with its own message. */
    r = ask_of(fronts, 2, false, &a, HTTP_GET, "/api/queue/v1/jobs");
    assert_int_equal(r.err.code, ERR_NO_ROUTE);
    assert_ptr_equal(r.m.front, &f);
    r = ask_of(fronts, 2, false, &a, HTTP_GET, "/api/queue/v12/task/x");
    assert_int_equal(r.err.code, ERR_NO_ROUTE);
    assert_ptr_equal(r.m.front, &front);
    arena_fini(&a);
}

static void a_badly_encoded_param_is_a_bad_request(void **state)
{
    (void)state;
    static const char *const paths[] = {"/jobs/%", "/jobs/%4", "/jobs/%4g", "/jobs/%ff",
                                        "/jobs/%c3%28"};
    for (size_t i = 0; i < COUNT(paths); i++)
        check_error(HTTP_GET, paths[i], ERR_BAD_REQUEST);
}

static void what_needs_no_decoding_is_not_copied(void **state)
{
    (void)state;
    struct arena a = {0};
    struct str s = STR("plain+text"), out;
    assert_int_equal(router_decode(s, false, &a, &out).code, ERR_OK);
    assert_ptr_equal(out.at, s.at);
    assert_int_equal(a.total, 0);
    assert_int_equal(router_decode(s, true, &a, &out).code, ERR_OK);
    assert_true(str_eq(out, STR("plain text")));
    arena_fini(&a);
}

/* --- many routes --- */

#define MANY 1000

static char many_patterns[MANY][40];
static struct route many_routes[MANY];

static const struct route *many_route(size_t i)
{
    return &many_routes[i];
}

static struct router *router_of_many(void)
{
    static const struct front_end f = {"", MANY, many_route, .ctx = NULL};
    for (int i = 0; i < MANY; i++) {
        snprintf(many_patterns[i], sizeof many_patterns[i], "/group%d/%s/item%d", i % 10,
                 i % 3 ? "a_fixed_segment" : "{id}", i);
        many_routes[i] = (struct route){HTTP_GET, many_patterns[i]};
    }
    struct router *r = router_new();
    router_mount(r, &f);
    return r;
}

static void each_of_a_thousand_routes_is_found(void **state)
{
    (void)state;
    struct router *r = router_of_many();
    struct arena a = {0};
    for (int i = 0; i < MANY; i++) {
        char path[64];
        struct router_match m;
        snprintf(path, sizeof path, "/group%d/a_fixed_segment/item%d", i % 10, i);
        struct http_request req = {.method = HTTP_GET, .path = str_from(path), .arena = &a};
        assert_int_equal(router_find(r, false, &req, &m).code, ERR_OK);
        assert_ptr_equal(m.route, &many_routes[i]);
        assert_int_equal(m.params.count, i % 3 == 0);
        req.path.len--; /* another item of the group, or none */
        if (router_find(r, false, &req, &m).code == ERR_OK)
            assert_int_equal(m.route - many_routes, i / 10);
        snprintf(path, sizeof path, "/group%d/a_fixed_segment/item%d", (i + 1) % 10, i);
        req.path = str_from(path);
        assert_int_equal(router_find(r, false, &req, &m).code, ERR_NO_ROUTE);
    }
    router_free(r);
    arena_fini(&a);
}

static void a_segment_of_any_length_is_looked_up(void **state)
{
    (void)state;
    struct router *r = router_of_many();
    struct arena a = {0};
    char path[9000];
    memset(path, 'x', sizeof path);
    path[0] = '/';
    for (size_t len = 0; len < sizeof path; len += len < 40 ? 1 : 997) {
        struct router_match m;
        struct http_request req = {.path = {path, len}, .arena = &a};
        assert_int_equal(router_find(r, false, &req, &m).code, ERR_NO_ROUTE);
    }
    router_free(r);
    arena_fini(&a);
}

/* --- front ends that cannot be mounted --- */

static const struct route *conflicts;

static const struct route *conflict(size_t i)
{
    return &conflicts[i];
}

static bool mounts(const struct route *both)
{
    const struct front_end f = {"", 2, conflict, .ctx = NULL};
    conflicts = both;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int none = open("/dev/null", O_WRONLY);
        dup2(none, STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        router_mount(router_new(), &f);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void two_routes_for_the_same_are_a_mistake_of_the_program(void **state)
{
    (void)state;
    static const struct route good[][2] = {
        {{HTTP_GET, "/a/{x}"}, {HTTP_PUT, "/a/{x}"}},
        {{HTTP_GET, "/a/{x}"}, {HTTP_GET, "/a/{x}/"}},
        {{HTTP_GET, "/a/{x}"}, {HTTP_GET, "/a/{x*}"}},
        {{HTTP_GET, "/a/{x}"}, {HTTP_GET, "/a/x"}},
        {{HTTP_GET, ""}, {HTTP_GET, "/"}},
    };
    static const struct route bad[][2] = {
        {{HTTP_GET, "/a/{x}"}, {HTTP_GET, "/a/{y}"}},
        {{HTTP_GET, "/a"}, {HTTP_GET, "/a"}},
        {{HTTP_GET, "/a/{x*}/b"}, {HTTP_GET, "/a"}},
        {{HTTP_GET, "a"}, {HTTP_GET, "/a"}},
        {{HTTP_OTHER, "/b"}, {HTTP_GET, "/a"}},
        {{HTTP_GET, "/{a}/{b}/{c}/{d}/{e}"}, {HTTP_GET, "/a"}},
    };
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(mounts(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(mounts(bad[i]));
}

static void a_named_segment_is_not_decoded(void **state)
{
    (void)state;
    check_error(HTTP_GET, "/j%6fbs", ERR_NO_ROUTE);
    check_error(HTTP_GET, "/jobs%2Ftake", ERR_NO_ROUTE);
    check_found(HTTP_GET, "/jobs/t%61ke", "/jobs/{id}");
}

static void bodies_come_in_pieces_where_a_route_says_so(void **state)
{
    (void)state;
    static const struct route own[] = {{HTTP_PUT, "/content/{name*}", .pieces = true},
                                       {HTTP_PUT, "/other"}};
    const struct front_end f = {"/files", 2, conflict, .ctx = NULL};
    conflicts = own;
    struct router *r = router_new();
    assert_false(
        router_takes_pieces(r, HTTP_PUT, STR("/files/content/x"))); /* nothing is mounted */
    router_mount(r, &front);
    router_mount(r, &f);
    assert_true(router_takes_pieces(r, HTTP_PUT, STR("/files/content/x/y")));
    assert_false(router_takes_pieces(r, HTTP_PUT, STR("/files/other")));
    assert_false(router_takes_pieces(r, HTTP_POST, STR("/files/content/x")));
    assert_false(router_takes_pieces(r, HTTP_OTHER, STR("/files/content/x")));
    assert_false(router_takes_pieces(r, HTTP_PUT, STR("/content/x")));
    router_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_finds_its_route),
        cmocka_unit_test(a_fixed_segment_is_preferred_whatever_the_order),
        cmocka_unit_test(a_path_that_is_named_has_its_own_methods_only),
        cmocka_unit_test(a_method_of_no_path_is_not_supported),
        cmocka_unit_test(head_is_answered_by_get),
        cmocka_unit_test(params_are_decoded),
        cmocka_unit_test(the_rest_of_a_path_keeps_its_slashes),
        cmocka_unit_test(another_path_has_no_route),
        cmocka_unit_test(another_method_is_told_which_there_are),
        cmocka_unit_test(a_route_of_the_admin_listener_is_only_there),
        cmocka_unit_test(a_front_end_has_all_below_its_prefix),
        cmocka_unit_test(a_badly_encoded_param_is_a_bad_request),
        cmocka_unit_test(what_needs_no_decoding_is_not_copied),
        cmocka_unit_test(each_of_a_thousand_routes_is_found),
        cmocka_unit_test(a_segment_of_any_length_is_looked_up),
        cmocka_unit_test(two_routes_for_the_same_are_a_mistake_of_the_program),
        cmocka_unit_test(a_named_segment_is_not_decoded),
        cmocka_unit_test(bodies_come_in_pieces_where_a_route_says_so),
    };
    return cmocka_run_group_tests_name("router", tests, NULL, NULL);
}
