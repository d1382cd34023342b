/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_rig.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "cli/certs.h"

#define GUARD_MS 60000

static struct {
    const char *file, *what;
    int line;
} awaited;

/* No longjmp out of the loop: what is under way could not be cleaned up. */
static void on_guard(uv_timer_t *timer)
{
    (void)timer;
    fprintf(stderr, "%s:%d: did not come: %s\n", awaited.file, awaited.line, awaited.what);
    abort();
}

void rig_guard(struct rig *r, const char *file, int line, const char *what)
{
    awaited.file = file;
    awaited.line = line;
    awaited.what = what;
    uv_timer_start(&r->guard, on_guard, GUARD_MS, 0);
}

void rig_unguard(struct rig *r)
{
    uv_timer_stop(&r->guard);
}

void rig_step(struct rig *r)
{
    uv_run(&r->loop, UV_RUN_ONCE);
}

void rig_settle(struct rig *r)
{
    for (int i = 0; i < 20; i++)
        uv_run(&r->loop, UV_RUN_NOWAIT);
}

static void copy(char *to, size_t size, struct str s)
{
    snprintf(to, size, "%.*s", STR_ARG(s));
}

static void handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    struct rig *r = ctx;
    int n = r->served++;
    if (n < RIG_REQUESTS) {
        struct rig_request *q = &r->requests[n];
        q->method = req->method;
        copy(q->path, sizeof q->path, req->path);
        copy(q->query, sizeof q->query, req->query);
        copy(q->authorization, sizeof q->authorization, req->authorization);
        buf_str(&q->body, req->body);
        buf_byte(&q->body, '\0');
    }
    r->serve(r, x, req, n);
}

void rig_listen(struct rig *r)
{
    r->http.port = r->port;
    struct err e = http_server_new(&r->loop, &r->http, handle, r, &r->server);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    r->port = http_server_port(r->server);
    snprintf(r->url, sizeof r->url, "http%s://127.0.0.1:%d", r->tls ? "s" : "", r->port);
    r->config.server = r->url;
}

static instant now_of(void *ctx)
{
    return ((struct rig *)ctx)->now;
}

void rig_start(struct rig *r)
{
    if (!r->server)
        rig_listen(r);
    r->settings.now = now_of;
    r->settings.now_ctx = r;
    r->client = kube_client_new(&r->loop, &r->config, &r->settings);
}

void rig_cut(struct rig *r)
{
    for (int i = 0; i < r->held_count; i++)
        rig_json(r->held[i], 200, "{}");
    r->held_count = 0;
    http_server_close(r->server);
    r->server = NULL;
    rig_settle(r);
}

int rig_setup(void **state)
{
    struct rig *r = ALLOC(struct rig);
    must(uv_loop_init(&r->loop) == 0 && uv_timer_init(&r->loop, &r->guard) == 0);
    r->http = http_defaults();
    r->http.allowed_hosts = "*";
    r->http.backlog_max = (uint64_t)64 << 20;
    r->now = (instant){1784800000000};
    r->settings = kube_client_defaults();
    r->settings.backoff_first = (span){1};
    r->settings.backoff_max = (span){4};
    strcpy(r->folder, "/tmp/tenax-kube-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    *state = r;
    return 0;
}

static void remove_folder(struct rig *r)
{
    DIR *dir = opendir(r->folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            unlink(rig_path(r, e->d_name));
    closedir(dir);
    rmdir(r->folder);
}

int rig_teardown(void **state)
{
    struct rig *r = *state;
    kube_client_free(r->client);
    if (r->server)
        rig_cut(r);
    uv_close((uv_handle_t *)&r->guard, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    tls_context_free(r->tls);
    for (int i = 0; i < RIG_REQUESTS; i++)
        buf_fini(&r->requests[i].body);
    remove_folder(r);
    free(r);
    return 0;
}

/* --- files --- */

const char *rig_path(struct rig *r, const char *name)
{
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", r->folder, name);
    return path;
}

void rig_write(struct rig *r, const char *name, const char *text, int mode)
{
    FILE *f = fopen(rig_path(r, name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(rig_path(r, name), (mode_t)mode), 0);
}

char *rig_read(struct rig *r, const char *name)
{
    struct buf b = {0};
    FILE *f = fopen(rig_path(r, name), "r");
    if (!f)
        return alloc_text("", 0);
    b.len = fread(buf_room(&b, 65536), 1, 65535, f);
    fclose(f);
    b.at[b.len] = '\0';
    return b.at;
}

static void make(struct rig *r, const struct certs_spec *spec, const char *ca, const char *name)
{
    char ca_cert[128], ca_key[128], cert[128], key[128];
    snprintf(ca_cert, sizeof ca_cert, "%s/%s.pem", r->folder, ca ? ca : "");
    snprintf(ca_key, sizeof ca_key, "%s/%s-key.pem", r->folder, ca ? ca : "");
    snprintf(cert, sizeof cert, "%s/%s.pem", r->folder, name);
    snprintf(key, sizeof key, "%s/%s-key.pem", r->folder, name);
    const struct certs_pair signer = {ca_cert, ca_key}, out = {cert, key};
    struct err e = certs_make(spec, ca ? &signer : NULL, &out, true);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
}

void rig_use_tls(struct rig *r, const char *host, int64_t days, bool mutual)
{
    make(r, &(struct certs_spec){CERTS_CA, "ca", NULL, 0, 7}, NULL, "ca");
    make(r, &(struct certs_spec){CERTS_CA, "other", NULL, 0, 7}, NULL, "other");
    make(r, &(struct certs_spec){CERTS_SERVER, host, &host, 1, days}, "ca", "server");
    make(r, &(struct certs_spec){CERTS_CLIENT, "client", NULL, 0, 7}, "ca", "client");
    const struct tls_files files = {rig_path(r, "server.pem"), rig_path(r, "server-key.pem"),
                                    mutual ? rig_path(r, "ca.pem") : NULL};
    struct err e = tls_context_new(&files, &r->tls);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    r->http.tls = r->tls;
}

/* --- answers --- */

void rig_json_extra(struct http_exchange *x, int status, const char *body, const char *extra)
{
    http_reply(x, status, STR("application/json"), str_from(body), extra);
}

void rig_json(struct http_exchange *x, int status, const char *body)
{
    rig_json_extra(x, status, body, NULL);
}

void rig_hold(struct rig *r, struct http_exchange *x)
{
    assert_true(r->held_count < RIG_REQUESTS);
    r->held[r->held_count++] = x;
}

static void on_stream_closed(void *ctx)
{
    struct rig *r = ctx;
    r->stream = NULL;
    r->streams_closed++;
}

void rig_stream(struct rig *r, struct http_exchange *x)
{
    r->stream = x;
    http_stream_begin(x, 200, STR("application/json"), on_stream_closed, r);
}

void rig_send(struct rig *r, const char *text)
{
    assert_non_null(r->stream);
    http_stream_write(r->stream, str_from(text));
}
