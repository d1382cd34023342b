/* SPDX-License-Identifier: Apache-2.0 */
#include "build_rig.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "builds/build_http.h"

#define SILENT 300 /* more than it accepts */

static bool is_well = true;

static bool well(void *ctx)
{
    (void)ctx;
    return is_well;
}

static void metrics(void *ctx, struct buf *out)
{
    (void)ctx;
    buf_lit(out, "# TYPE a gauge\na 1\n");
}

static void close_it(void *open)
{
    build_http_close(open);
}

static struct build_http *open_it(struct rig *r, const char *host)
{
    static const struct build_http_user user = {well, metrics};
    struct build_http *h;
    struct err e = build_http_new(&r->loop, host, 0, &user, NULL, &h);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    is_well = true;
    r->close = close_it;
    r->open = h;
    r->port = build_http_port(h);
    return h;
}

struct got {
    bool done;
    long status;
    char body[200], type[80], allow[40];
    struct fetch *fetch;
};

static void on_done(void *ctx, const struct fetch_answer *a)
{
    struct got *g = ctx;
    g->done = true;
    g->status = a->status;
    snprintf(g->body, sizeof g->body, "%.*s", STR_ARG(a->body));
    struct str type = fetch_header(g->fetch, "content-type");
    struct str allow = fetch_header(g->fetch, "allow");
    snprintf(g->type, sizeof g->type, "%.*s", STR_ARG(type));
    snprintf(g->allow, sizeof g->allow, "%.*s", STR_ARG(allow));
}

static struct got ask(struct rig *r, const char *method, const char *path, const char *header)
{
    struct fetcher *f = fetcher_new(&r->loop);
    struct got g = {0};
    char url[160];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", r->port, path);
    const char *headers[] = {header, NULL};
    g.fetch = fetch_start(f, &(struct fetch_spec){.method = method,
                                                  .url = url,
                                                  .headers = header ? headers : NULL,
                                                  .answer_max = 4096,
                                                  .done = on_done,
                                                  .ctx = &g});
    RIG_AWAIT(r, g.done);
    fetcher_free(f);
    rig_settle(r);
    return g;
}

static void assert_got(const struct got *g, long status, const char *type, const char *body)
{
    assert_int_equal(g->status, status);
    assert_string_equal(g->type, type);
    assert_string_equal(g->body, body);
}

static void health_is_as_the_originals(void **state)
{
    struct rig *r = *state;
    open_it(r, "127.0.0.1");
    struct got g = ask(r, "GET", "/health", NULL);
    assert_got(&g, 200, "text/plain", "ok");
    g = ask(r, "GET", "/health/", NULL);
    assert_got(&g, 200, "text/plain", "ok");
    g = ask(r, "HEAD", "/health", NULL);
    assert_got(&g, 200, "text/plain", "");
    is_well = false;
    g = ask(r, "GET", "/health", NULL);
    assert_got(&g, 503, "text/plain", "unavailable");
    rig_close(r);
}

static void metrics_are_for_prometheus(void **state)
{
    struct rig *r = *state;
    open_it(r, "127.0.0.1");
    struct got g = ask(r, "GET", "/metrics", NULL);
    assert_got(&g, 200, "text/plain; version=0.0.4; charset=utf-8", "# TYPE a gauge\na 1\n");
    rig_close(r);
}

static void there_is_nothing_else(void **state)
{
    struct rig *r = *state;
    open_it(r, "127.0.0.1");
    static const char *const paths[] = {"/",          "/healthz", "/health/x",
                                        "/metrics/x", "//",       "/Health"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct got g = ask(r, "GET", paths[i], NULL);
        assert_int_equal(g.status, 404);
    }
    static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH", "OPTIONS"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct got g = ask(r, methods[i], "/health", NULL);
        assert_int_equal(g.status, 405);
        assert_string_equal(g.allow, "GET, HEAD");
    }
    rig_close(r);
}

static void it_may_be_asked_by_any_name_on_any_address(void **state)
{
    struct rig *r = *state;
    open_it(r, "0.0.0.0");
    struct got g = ask(r, "GET", "/health", "Host: build-worker.example:1234");
    assert_got(&g, 200, "text/plain", "ok");
    rig_close(r);
}

static void an_address_that_is_taken_is_named(void **state)
{
    struct rig *r = *state;
    static const struct build_http_user user = {well, metrics};
    struct build_http *other;
    open_it(r, "127.0.0.1");
    struct err e = build_http_new(&r->loop, "127.0.0.1", r->port, &user, NULL, &other);
    assert_int_equal(e.code, ERR_IO);
    assert_non_null(strstr(e.msg, "127.0.0.1"));
    rig_settle(r);
    rig_close(r);
}

static int silent(const struct rig *r, const char *text)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)r->port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

static void connections_that_never_send_keep_nobody_away(void **state)
{
    struct rig *r = *state;
    open_it(r, "127.0.0.1");
    int fds[100];
    for (int i = 0; i < 100; i++) {
        fds[i] = silent(r, i % 2 ? "GET /health HT" : "");
        rig_settle(r);
    }
    struct got g = ask(r, "GET", "/health", NULL);
    assert_got(&g, 200, "text/plain", "ok");
    for (int i = 0; i < 100; i++)
        close(fds[i]);
    rig_close(r);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void connections_are_bounded(void **state)
{
    struct rig *r = *state;
    open_it(r, "127.0.0.1");
    int fds[SILENT];
    char text[13] = {0};
    for (int i = 0; i < SILENT; i++) {
        fds[i] = silent(r, "");
        rig_settle(r);
    }
    RIG_AWAIT(r, is_readable(fds[256]));
    assert_int_equal(recv(fds[256], text, 12, 0), 12);
    assert_string_equal(text, "HTTP/1.1 503");
    assert_false(is_readable(fds[255]));
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    rig_settle(r);
    struct got g = ask(r, "GET", "/health", NULL);
    assert_got(&g, 200, "text/plain", "ok");
    rig_close(r);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(health_is_as_the_originals),
        T(metrics_are_for_prometheus),
        T(there_is_nothing_else),
        T(it_may_be_asked_by_any_name_on_any_address),
        T(an_address_that_is_taken_is_named),
        T(connections_that_never_send_keep_nobody_away),
        T(connections_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
