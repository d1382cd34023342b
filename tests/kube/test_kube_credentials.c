/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_calls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Only r->mine is let in. */
static void serve_authorized(struct rig *r, struct http_exchange *x, const struct http_request *req,
                             int n)
{
    if (str_eq(req->authorization, str_from(r->mine)))
        serve_object(r, x, req, n);
    else
        rig_json(x, 401, "{\"kind\":\"Status\",\"reason\":\"Unauthorized\",\"message\":\"who?\"}");
}

static void a_fixed_token_is_not_shown_twice(void **state)
{
    struct rig *r = *state;
    r->serve = serve_authorized;
    r->mine = "Bearer new";
    r->config.token = "old";
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_UNAUTHORIZED);
    assert_int_equal(r->served, 1);
}

static void a_token_file_is_read_again(void **state)
{
    struct rig *r = *state;
    char path[128];
    snprintf(path, sizeof path, "%s", rig_path(r, "token"));
    r->serve = serve_object;
    r->config.token_file = path;
    rig_write(r, "token", "one\n", 0600);
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_string_equal(r->requests[0].authorization, "Bearer one");
    rig_write(r, "token", "two\n", 0600);
    ask(r, &g, &get);
    assert_string_equal(r->requests[1].authorization, "Bearer one");
    r->now.ms += r->settings.token_age.ms;
    ask(r, &g, &get);
    assert_string_equal(r->requests[2].authorization, "Bearer two");
    /* The clock is set back: read at once. */
    rig_write(r, "token", "three", 0600);
    r->now.ms -= 1;
    ask(r, &g, &get);
    assert_string_equal(r->requests[3].authorization, "Bearer three");
    /* While it is away, the old one is used. */
    unlink(path);
    r->now.ms += r->settings.token_age.ms;
    ask(r, &g, &get);
    assert_string_equal(r->requests[4].authorization, "Bearer three");
    rig_write(r, "token", "a b\n", 0600);
    r->now.ms += r->settings.token_age.ms;
    ask(r, &g, &get);
    assert_string_equal(r->requests[5].authorization, "Bearer three");
}

static void a_token_file_that_changed_is_read_after_a_refusal(void **state)
{
    struct rig *r = *state;
    char path[128];
    snprintf(path, sizeof path, "%s", rig_path(r, "token"));
    r->serve = serve_authorized;
    r->mine = "Bearer two";
    r->config.token_file = path;
    rig_write(r, "token", "one\n", 0600);
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_UNAUTHORIZED);
    assert_int_equal(r->served, 1); /* it is still the same */
    rig_write(r, "token", "two\n", 0600);
    ask(r, &g, &create);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(r->served, 3);
    assert_int_equal(g.tries, 1);
}

static void without_a_token_nothing_is_sent(void **state)
{
    struct rig *r = *state;
    char path[128];
    snprintf(path, sizeof path, "%s", rig_path(r, "token"));
    r->serve = serve_object;
    r->config.token_file = path;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_NO_CREDENTIALS);
    assert_int_equal(r->served, 0);
    assert_non_null(strstr(g.message, "No such file"));
    struct kube_client_spec spec = create;
    spec.tries_max = 1000000;
    start(r, &g, &spec);
    rig_settle(r);
    rig_write(r, "token", "one", 0600);
    RIG_AWAIT(r, g.done);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
}

/* --- TLS --- */

static void tls_over_http2(void **state)
{
    struct rig *r = *state;
    char ca[128];
    rig_use_tls(r, "127.0.0.1", 7, false);
    snprintf(ca, sizeof ca, "%s", rig_path(r, "ca.pem"));
    r->serve = serve_object;
    r->config.ca_file = ca;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(g.version, 20);
}

static void a_wrong_certificate_is_not_tried_again(void **state)
{
    struct rig *r = *state;
    char ca[128];
    rig_use_tls(r, "127.0.0.1", 7, false);
    snprintf(ca, sizeof ca, "%s", rig_path(r, "other.pem"));
    r->serve = serve_object;
    r->config.ca_file = ca;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_UNTRUSTED);
    assert_int_equal(g.tries, 1);
    assert_int_equal(r->served, 0);
}

static void wrong_names_and_expired_certificates(void **state)
{
    struct rig *r = *state;
    char ca[128];
    rig_use_tls(r, "elsewhere", -1, false);
    snprintf(ca, sizeof ca, "%s", rig_path(r, "ca.pem"));
    r->serve = serve_object;
    r->config.ca_file = ca;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_UNTRUSTED);
    assert_non_null(strstr(g.message, "expired"));
    kube_client_free(r->client);
    kube_config_skip_verify(&r->config);
    rig_start(r);
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
}

static void a_client_certificate_is_shown(void **state)
{
    struct rig *r = *state;
    char ca[128], cert[128], key[128];
    rig_use_tls(r, "127.0.0.1", 7, true);
    snprintf(ca, sizeof ca, "%s", rig_path(r, "ca.pem"));
    snprintf(cert, sizeof cert, "%s", rig_path(r, "client.pem"));
    snprintf(key, sizeof key, "%s", rig_path(r, "client-key.pem"));
    r->serve = serve_object;
    r->config.ca_file = ca;
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_UNTRUSTED);
    assert_non_null(strstr(g.message, "the server asks for a client certificate"));
    kube_client_free(r->client);
    r->config.client_cert_file = cert;
    r->config.client_key_file = key;
    rig_start(r);
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
}

/* A connection whose peer does not answer takes no further requests. */
static void after_a_time_out_another_connection_is_used(void **state)
{
    struct rig *r = *state;
    char ca[128];
    rig_use_tls(r, "127.0.0.1", 7, false);
    snprintf(ca, sizeof ca, "%s", rig_path(r, "ca.pem"));
    r->serve = serve_object;
    r->config.ca_file = ca;
    rig_start(r);
    struct got g;
    struct http_stats stats;
    for (int i = 0; i < 2; i++)
        ask(r, &g, &get);
    http_server_stats(r->server, &stats);
    assert_int_equal(stats.accepted, 1);
    r->serve = serve_held;
    struct kube_client_spec spec = create;
    spec.timeout = (span){50};
    ask(r, &g, &spec);
    assert_int_equal(g.reason, KUBE_ANSWER_TIMED_OUT);
    r->serve = serve_object;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    http_server_stats(r->server, &stats);
    assert_int_equal(stats.accepted, 2);
}

/* --- headers that the server of these tests does not keep --- */

static void on_raw_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    *buf = uv_buf_init(buf_room(handle->data, 4096), 4096);
}

static void on_raw_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct buf *b = stream->data;
    (void)buf;
    if (n <= 0)
        return;
    b->len += (size_t)n;
    if (memmem(b->at, b->len, "\r\n\r\n", 4)) {
        uv_buf_t out = uv_buf_init((char *)"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 40);
        assert_int_equal(uv_try_write(stream, &out, 1), (int)out.len);
    }
}

static uv_tcp_t raw_listener, raw_peer;

static void on_raw_connection(uv_stream_t *server, int status)
{
    assert_int_equal(status, 0);
    assert_int_equal(uv_tcp_init(server->loop, &raw_peer), 0);
    assert_int_equal(uv_accept(server, (uv_stream_t *)&raw_peer), 0);
    raw_peer.data = server->data;
    uv_read_start((uv_stream_t *)&raw_peer, on_raw_room, on_raw_read);
}

static void users_may_be_impersonated(void **state)
{
    struct rig *r = *state;
    struct buf seen = {0};
    struct sockaddr_in at;
    int len = sizeof at;
    char url[64];
    uv_tcp_init(&r->loop, &raw_listener);
    uv_ip4_addr("127.0.0.1", 0, &at);
    assert_int_equal(uv_tcp_bind(&raw_listener, (struct sockaddr *)&at, 0), 0);
    raw_listener.data = &seen;
    assert_int_equal(uv_listen((uv_stream_t *)&raw_listener, 8, on_raw_connection), 0);
    uv_tcp_getsockname(&raw_listener, (struct sockaddr *)&at, &len);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    r->serve = serve_object;
    rig_listen(r);
    r->config.server = url;
    r->config.as = "bob";
    r->config.as_uid = "7";
    r->config.as_groups = (const char *const[]){"x", "y", NULL};
    rig_start(r);
    struct got g;
    ask(r, &g, &get);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    *buf_room(&seen, 1) = '\0';
    assert_non_null(strstr(seen.at, "Impersonate-User: bob\r\nImpersonate-Uid: 7\r\n"
                                    "Impersonate-Group: x\r\nImpersonate-Group: y\r\n"));
    uv_close((uv_handle_t *)&raw_peer, NULL);
    uv_close((uv_handle_t *)&raw_listener, NULL);
    rig_settle(r);
    buf_fini(&seen);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_fixed_token_is_not_shown_twice),
        T(a_token_file_is_read_again),
        T(a_token_file_that_changed_is_read_after_a_refusal),
        T(without_a_token_nothing_is_sent),
        T(tls_over_http2),
        T(a_wrong_certificate_is_not_tried_again),
        T(wrong_names_and_expired_certificates),
        T(a_client_certificate_is_shown),
        T(after_a_time_out_another_connection_is_used),
        T(users_may_be_impersonated),
    };
    return cmocka_run_group_tests_name("kube/kube_credentials", tests, NULL, NULL);
}
