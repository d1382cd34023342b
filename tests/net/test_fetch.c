/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "cli/certs.h"
#include "net/fetch.h"
#include "net/tls.h"

/* A real server (net/http.h), and a fetcher on the same loop. */

struct rig {
    struct fixture f;
    struct fetcher *fetcher;
    char dir[64];
    char ca_cert[96], ca_key[96], other_cert[96], other_key[96], cert[96], key[96], client_cert[96],
        client_key[96];
    struct tls_context *context;
    char url[64];
};

/* What came of a request. */
struct got {
    struct rig *rig;
    int done, heads;
    enum fetch_fault fault;
    long status, head_status;
    int version;
    struct buf body, data, why, extra;
    struct fetch *request;
    const struct fetch_spec *next; /* started from the first piece of data */
    bool abort_at_data;
};

static void on_done(void *ctx, const struct fetch_answer *a)
{
    struct got *g = ctx;
    g->done++;
    g->fault = a->fault;
    g->status = a->status;
    g->version = fetch_version(g->request);
    buf_str(&g->body, a->body);
    buf_str(&g->why, str_from(a->why));
    buf_byte(&g->why, '\0');
    g->why.len--;
    buf_str(&g->extra, fetch_header(g->request, "x-extra"));
}

static void on_head(void *ctx, long status)
{
    struct got *g = ctx;
    g->heads++;
    g->head_status = status;
}

static void on_data(void *ctx, struct str bytes)
{
    struct got *g = ctx;
    buf_str(&g->data, bytes);
    if (g->next) {
        struct got *other = g->next->ctx;
        other->request = fetch_start(g->rig->fetcher, g->next);
        g->next = NULL;
    }
    if (g->abort_at_data)
        fetch_abort(g->request);
}

static void got_fini(struct got *g)
{
    buf_fini(&g->body);
    buf_fini(&g->data);
    buf_fini(&g->why);
    buf_fini(&g->extra);
}

static void make(const struct certs_spec *spec, const struct certs_pair *ca, const char *cert,
                 const char *key)
{
    struct err e = certs_make(spec, ca, &(struct certs_pair){cert, key}, true);
    assert_int_equal(e.code, ERR_OK);
}

static int setup(void **state)
{
    struct rig *t = calloc(1, sizeof *t);
    fixture_init(&t->f);
    t->fetcher = fetcher_new(&t->f.loop);
    strcpy(t->dir, "/tmp/tenax-fetch-XXXXXX");
    assert_non_null(mkdtemp(t->dir));
    struct {
        char *path;
        const char *name;
    } files[] = {{t->ca_cert, "ca.pem"},       {t->ca_key, "ca-key.pem"},
                 {t->other_cert, "other.pem"}, {t->other_key, "other-key.pem"},
                 {t->cert, "cert.pem"},        {t->key, "key.pem"},
                 {t->client_cert, "c.pem"},    {t->client_key, "c-key.pem"}};
    for (size_t i = 0; i < COUNT(files); i++)
        snprintf(files[i].path, sizeof t->key, "%s/%s", t->dir, files[i].name);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct rig *t = *state;
    fetcher_free(t->fetcher);
    fixture_fini(&t->f);
    tls_context_free(t->context);
    const char *files[] = {t->ca_cert, t->ca_key, t->other_cert,  t->other_key,
                           t->cert,    t->key,    t->client_cert, t->client_key};
    for (size_t i = 0; i < COUNT(files); i++)
        unlink(files[i]);
    rmdir(t->dir);
    free(t);
    return 0;
}

static void serve(struct rig *t)
{
    fixture_serve(&t->f);
    snprintf(t->url, sizeof t->url, "http://127.0.0.1:%d", http_server_port(t->f.server));
}

static void serve_tls(struct rig *t, const char *host, int64_t days, bool mutual)
{
    const struct certs_pair ca = {t->ca_cert, t->ca_key};
    make(&(struct certs_spec){CERTS_CA, "test", NULL, 0, 7}, NULL, t->ca_cert, t->ca_key);
    make(&(struct certs_spec){CERTS_CA, "other", NULL, 0, 7}, NULL, t->other_cert, t->other_key);
    make(&(struct certs_spec){CERTS_SERVER, host, &host, 1, days}, &ca, t->cert, t->key);
    make(&(struct certs_spec){CERTS_CLIENT, "w", NULL, 0, 7}, &ca, t->client_cert, t->client_key);
    const struct tls_files files = {t->cert, t->key, mutual ? t->ca_cert : NULL};
    assert_int_equal(tls_context_new(&files, &t->context).code, ERR_OK);
    t->f.settings.tls = t->context;
    fixture_serve(&t->f);
    snprintf(t->url, sizeof t->url, "https://127.0.0.1:%d", http_server_port(t->f.server));
}

static struct buf read_file(const char *path)
{
    struct buf b = {0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    b.len = fread(buf_room(&b, 65536), 1, 65536, f);
    fclose(f);
    return b;
}

static struct fetch_spec get(struct got *g, const char *url)
{
    return (struct fetch_spec){.method = "GET", .url = url, .done = on_done, .ctx = g};
}

static const char *url_of(struct rig *t, const char *path, char url[128])
{
    snprintf(url, 128, "%s%s", t->url, path);
    return url;
}

static void start(struct rig *t, struct got *g, const struct fetch_spec *spec)
{
    g->rig = t;
    g->request = fetch_start(t->fetcher, spec);
    assert_int_equal(g->done, 0);
}

static void ask(struct rig *t, struct got *g, const struct fetch_spec *spec)
{
    start(t, g, spec);
    AWAIT(&t->f, g->done);
    assert_int_equal(fetcher_count(t->fetcher), 0);
}

#define assert_str(b, text)                                                                        \
    do {                                                                                           \
        struct buf *b_ = &(b);                                                                     \
        *buf_room(b_, 1) = '\0';                                                                   \
        assert_string_equal(b_->at, text);                                                         \
    } while (0)

/* --- answers --- */

static void a_request_is_answered(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/echo", url));
    spec.method = "POST";
    spec.body = STR("hello");
    spec.has_body = true;
    spec.head = on_head;
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_ANSWERED);
    assert_int_equal(g.status, 200);
    assert_int_equal(g.version, 11);
    assert_int_equal(g.heads, 1);
    assert_int_equal(g.head_status, 200);
    assert_str(g.body, "hello");
    assert_str(g.extra, "1");
    got_fini(&g);
}

static void headers_and_bodies_are_copied(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128], line[] = "Authorization: Bearer s3cret";
    struct fetch_spec spec = get(&g, url_of(t, "/headers", url));
    spec.headers = (const char *const[]){line, "Accept: application/json", NULL};
    start(t, &g, &spec);
    memset(line, 'x', sizeof line);
    memset(url, 'x', sizeof url);
    AWAIT(&t->f, g.done);
    *buf_room(&g.body, 1) = '\0';
    assert_non_null(strstr(g.body.at, "authorization: Bearer s3cret\n"));
    assert_non_null(strstr(g.body.at, "accept: application/json\n"));
    got_fini(&g);
}

static void methods_and_empty_bodies(void **state)
{
    struct rig *t = *state;
    serve(t);
    const char *methods[] = {"GET", "HEAD", "DELETE", "POST", "PUT", "PATCH"};
    for (size_t i = 0; i < COUNT(methods); i++) {
        struct got g = {0};
        char url[128];
        struct fetch_spec spec = get(&g, url_of(t, "/echo", url));
        spec.method = methods[i];
        spec.has_body = i >= 2;
        ask(t, &g, &spec);
        assert_int_equal(g.fault, FETCH_ANSWERED);
        assert_int_equal(g.body.len, 0);
        got_fini(&g);
    }
}

static void a_stream_arrives_piece_by_piece(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/stream", url));
    spec.data = on_data;
    spec.head = on_head;
    start(t, &g, &spec);
    AWAIT(&t->f, g.heads);
    http_stream_write(t->f.stream, STR("one\n"));
    AWAIT(&t->f, g.data.len == 4);
    http_stream_write(t->f.stream, STR("two\n"));
    AWAIT(&t->f, g.data.len == 8);
    assert_int_equal(g.done, 0);
    http_stream_end(t->f.stream);
    AWAIT(&t->f, g.done);
    assert_int_equal(g.fault, FETCH_ANSWERED);
    assert_int_equal(g.body.len, 0);
    assert_str(g.data, "one\ntwo\n");
    got_fini(&g);
}

/* The connection ends in the middle of a chunk. */
static void a_stream_that_breaks_is_lost(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/stream", url));
    spec.data = on_data;
    start(t, &g, &spec);
    AWAIT(&t->f, t->f.stream);
    http_stream_write(t->f.stream, STR("half"));
    AWAIT(&t->f, g.data.len == 4);
    http_stream_abort(t->f.stream);
    AWAIT(&t->f, g.done);
    assert_int_equal(g.fault, FETCH_LOST);
    got_fini(&g);
}

static void an_answer_over_the_limit_is_not_kept(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/large", url));
    spec.answer_max = 1 << 20;
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_ANSWERED);
    assert_int_equal(g.body.len, 1 << 20);
    got_fini(&g);
    g = (struct got){0};
    spec.answer_max--;
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_TOO_LARGE);
    assert_string_equal(g.why.at, "the answer is larger than 1048575 bytes");
    got_fini(&g);
}

/* --- from callbacks, and ends --- */

static void a_callback_may_start_and_abort(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0}, other = {.rig = t};
    char url[128], second[128];
    struct fetch_spec spec = get(&g, url_of(t, "/stream", url));
    struct fetch_spec next = get(&other, url_of(t, "/echo", second));
    spec.data = on_data;
    g.next = &next;
    g.abort_at_data = true;
    start(t, &g, &spec);
    AWAIT(&t->f, t->f.stream);
    http_stream_write(t->f.stream, STR("x"));
    AWAIT(&t->f, other.done && t->f.closed);
    assert_int_equal(other.fault, FETCH_ANSWERED);
    assert_int_equal(g.done, 0);
    assert_int_equal(fetcher_count(t->fetcher), 0);
    got_fini(&g);
    got_fini(&other);
}

static void on_gone(void *ctx)
{
    (*(int *)ctx)++;
}

/* The server hears that those who asked have gone. */
static void await_gone(struct rig *t, int count)
{
    int gone = 0;
    for (int i = 0; i < count; i++)
        http_on_gone(t->f.held[i], on_gone, &gone);
    AWAIT(&t->f, gone == count);
    for (int i = 0; i < count; i++)
        fixture_answer(t->f.held[i], "late");
}

static void an_aborted_request_is_never_done(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/held", url));
    start(t, &g, &spec);
    AWAIT(&t->f, t->f.held_count);
    fetch_abort(g.request);
    assert_int_equal(fetcher_count(t->fetcher), 0);
    await_gone(t, 1);
    assert_int_equal(g.done, 0);
}

static void freeing_the_fetcher_aborts_all(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g[3] = {0};
    char url[128];
    struct fetch_spec spec = get(g, url_of(t, "/held", url));
    for (size_t i = 0; i < COUNT(g); i++) {
        spec.ctx = &g[i];
        start(t, &g[i], &spec);
    }
    AWAIT(&t->f, t->f.held_count == 3);
    fetcher_free(t->fetcher);
    t->fetcher = NULL;
    await_gone(t, 3);
    assert_int_equal(g[0].done + g[1].done + g[2].done, 0);
}

/* --- faults --- */

static void nobody_listens(void **state)
{
    struct rig *t = *state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    char url[128];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/x", ntohs(a.sin_port));
    struct got g = {0};
    struct fetch_spec spec = get(&g, url);
    ask(t, &g, &spec);
    close(fd);
    assert_int_equal(g.fault, FETCH_UNREACHABLE);
    assert_int_equal(g.status, 0);
    assert_non_null(strstr(g.why.at, "onnect"));
    got_fini(&g);
}

static void times_out_as_a_whole_and_by_silence(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/held", url));
    spec.timeout = (span){30};
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_TIMED_OUT);
    got_fini(&g);
    g = (struct got){0};
    spec.timeout = (span){0};
    spec.idle_timeout = (span){30};
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_TIMED_OUT);
    assert_string_equal(g.why.at, "nothing arrived for 30 ms");
    for (int i = 0; i < t->f.held_count; i++)
        fixture_answer(t->f.held[i], "late");
    got_fini(&g);
}

/* Whatever the environment says. */
static void a_named_proxy_is_used(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    setenv("no_proxy", "*", 1);
    struct fetch_spec spec = get(&g, "http://kubernetes.invalid/headers");
    spec.proxy = t->url;
    ask(t, &g, &spec);
    unsetenv("no_proxy");
    assert_int_equal(g.fault, FETCH_ANSWERED);
    *buf_room(&g.body, 1) = '\0';
    assert_non_null(strstr(g.body.at, "host: kubernetes.invalid\n"));
    got_fini(&g);
}

/* A proxy meant for the web does not get what is for this machine. */
static void this_machine_is_reached_without_a_proxy(void **state)
{
    struct rig *t = *state;
    serve(t);
    struct got g = {0};
    char url[128];
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    struct fetch_spec spec = get(&g, url_of(t, "/echo", url));
    ask(t, &g, &spec);
    unsetenv("http_proxy");
    assert_int_equal(g.fault, FETCH_ANSWERED);
    got_fini(&g);
}

static void an_url_that_is_none(void **state)
{
    struct rig *t = *state;
    const char *bad[] = {
        "", "nothing", "ftp://a/", "https://", "https://a?b", "https://a#b", "https://me:secret@a"};
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_non_null(fetch_bad_url(bad[i]));
    assert_null(fetch_bad_url("https://[::1]:6443/prefix"));
    struct got g = {0};
    struct fetch_spec spec = get(&g, "ftp://127.0.0.1/");
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_UNREACHABLE);
    got_fini(&g);
}

/* --- TLS --- */

/* The fault of a request with that trust. */
static enum fetch_fault ask_tls(struct rig *t, const struct fetch_tls *tls, const char *why)
{
    struct got g = {0};
    char url[128];
    struct fetch_spec spec = get(&g, url_of(t, "/echo", url));
    spec.tls = tls;
    spec.fresh = true;
    ask(t, &g, &spec);
    if (g.fault == FETCH_ANSWERED)
        assert_int_equal(g.version, 20);
    else if (!strstr(g.why.at, why))
        fail_msg("%s", g.why.at);
    enum fetch_fault fault = g.fault;
    got_fini(&g);
    return fault;
}

static void the_certificate_is_verified(void **state)
{
    struct rig *t = *state;
    serve_tls(t, "127.0.0.1", 7, false);
    struct buf ca = read_file(t->ca_cert), other = read_file(t->other_cert);
    struct fetch_tls tls = {.ca_file = t->ca_cert};
    assert_int_equal(ask_tls(t, &tls, ""), FETCH_ANSWERED);
    tls = (struct fetch_tls){.ca = buf_view(&ca)};
    assert_int_equal(ask_tls(t, &tls, ""), FETCH_ANSWERED);
    tls = (struct fetch_tls){.ca = buf_view(&other)};
    assert_int_equal(ask_tls(t, &tls, "certificate"), FETCH_UNTRUSTED);
    tls = (struct fetch_tls){.ca_file = t->other_cert};
    assert_int_equal(ask_tls(t, &tls, "certificate"), FETCH_UNTRUSTED);
    tls = (struct fetch_tls){0};
    assert_int_equal(ask_tls(t, &tls, "certificate"), FETCH_UNTRUSTED);
    tls = (struct fetch_tls){.ca_file = "/nonexistent.pem"};
    assert_int_equal(ask_tls(t, &tls, "/nonexistent.pem"), FETCH_UNTRUSTED);
    tls = (struct fetch_tls){.ca = STR("nothing")};
    assert_int_equal(ask_tls(t, &tls, "certificate"), FETCH_UNTRUSTED);
    tls = (struct fetch_tls){.insecure = true};
    assert_int_equal(ask_tls(t, &tls, ""), FETCH_ANSWERED);
    buf_fini(&ca);
    buf_fini(&other);
}

static void the_name_is_verified(void **state)
{
    struct rig *t = *state;
    serve_tls(t, "kubernetes.default", 7, false);
    struct fetch_tls tls = {.ca_file = t->ca_cert};
    assert_int_equal(ask_tls(t, &tls, "127.0.0.1"), FETCH_UNTRUSTED);
    tls.server_name = "kubernetes.default";
    assert_int_equal(ask_tls(t, &tls, ""), FETCH_ANSWERED);
    tls.server_name = "kubernetes.other";
    assert_int_equal(ask_tls(t, &tls, "kubernetes.other"), FETCH_UNTRUSTED);
}

/* The server sees the name that it is reached by, not the one in its certificate. */
static void the_host_header_stays(void **state)
{
    struct rig *t = *state;
    serve_tls(t, "kubernetes.default", 7, false);
    struct fetch_tls tls = {.ca_file = t->ca_cert, .server_name = "kubernetes.default"};
    struct got g = {0};
    char url[128], want[128];
    struct fetch_spec spec = get(&g, url_of(t, "/headers", url));
    spec.tls = &tls;
    ask(t, &g, &spec);
    snprintf(want, sizeof want, "host: %s\n", t->url + strlen("https://"));
    *buf_room(&g.body, 1) = '\0';
    assert_non_null(strstr(g.body.at, want));
    got_fini(&g);
}

static void an_expired_certificate_is_refused(void **state)
{
    struct rig *t = *state;
    serve_tls(t, "127.0.0.1", -1, false);
    struct fetch_tls tls = {.ca_file = t->ca_cert};
    assert_int_equal(ask_tls(t, &tls, "expired"), FETCH_UNTRUSTED);
}

static void client_certificates_by_file_and_by_text(void **state)
{
    struct rig *t = *state;
    serve_tls(t, "127.0.0.1", 7, true);
    struct buf cert = read_file(t->client_cert), key = read_file(t->client_key);
    struct fetch_tls tls = {.ca_file = t->ca_cert};
    assert_int_equal(ask_tls(t, &tls, "the server asks for a client certificate"), FETCH_UNTRUSTED);
    tls.cert_file = t->client_cert;
    tls.key_file = t->client_key;
    assert_int_equal(ask_tls(t, &tls, ""), FETCH_ANSWERED);
    tls = (struct fetch_tls){.ca_file = t->ca_cert, .cert = buf_view(&cert), .key = buf_view(&key)};
    assert_int_equal(ask_tls(t, &tls, ""), FETCH_ANSWERED);
    tls.key = STR("nothing");
    assert_int_equal(ask_tls(t, &tls, "key"), FETCH_UNTRUSTED);
    buf_fini(&cert);
    buf_fini(&key);
}

/* Requests that are started together share one connection. */
static void http2_carries_many_at_once(void **state)
{
    struct rig *t = *state;
    serve_tls(t, "127.0.0.1", 7, false);
    struct fetch_tls tls = {.ca_file = t->ca_cert};
    struct got g[HELD_MAX] = {0};
    char url[128];
    struct fetch_spec spec = get(g, url_of(t, "/held", url));
    spec.tls = &tls;
    for (size_t i = 0; i < COUNT(g); i++) {
        spec.ctx = &g[i];
        start(t, &g[i], &spec);
    }
    AWAIT(&t->f, t->f.held_count == HELD_MAX);
    assert_int_equal(http_server_connections(t->f.server), 1);
    for (int i = HELD_MAX - 1; i >= 0; i--)
        fixture_answer(t->f.held[i], "yes");
    for (size_t i = 0; i < COUNT(g); i++) {
        AWAIT(&t->f, g[i].done);
        assert_int_equal(g[i].version, 20);
        assert_str(g[i].body, "yes");
        got_fini(&g[i]);
    }
}

static void plain_http_behind_https_is_said(void **state)
{
    struct rig *t = *state;
    serve(t);
    char url[128];
    snprintf(url, sizeof url, "https://127.0.0.1:%d", http_server_port(t->f.server));
    struct got g = {0};
    struct fetch_spec spec = get(&g, url);
    ask(t, &g, &spec);
    assert_int_equal(g.fault, FETCH_UNREACHABLE);
    assert_string_equal(g.why.at, "the server there does not speak TLS");
    got_fini(&g);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_request_is_answered),
        T(headers_and_bodies_are_copied),
        T(methods_and_empty_bodies),
        T(a_stream_arrives_piece_by_piece),
        T(a_stream_that_breaks_is_lost),
        T(an_answer_over_the_limit_is_not_kept),
        T(a_callback_may_start_and_abort),
        T(an_aborted_request_is_never_done),
        T(freeing_the_fetcher_aborts_all),
        T(nobody_listens),
        T(times_out_as_a_whole_and_by_silence),
        T(a_named_proxy_is_used),
        T(this_machine_is_reached_without_a_proxy),
        T(an_url_that_is_none),
        T(the_certificate_is_verified),
        T(the_name_is_verified),
        T(the_host_header_stays),
        T(an_expired_certificate_is_refused),
        T(client_certificates_by_file_and_by_text),
        T(http2_carries_many_at_once),
        T(plain_http_behind_https_is_said),
    };
    return cmocka_run_group_tests_name("net/fetch", tests, NULL, NULL);
}
