/* SPDX-License-Identifier: Apache-2.0 */
#include "build_rig.h"

#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "cli/certs.h"

#define GUARD_MS 90000
#define TICK_MS  2

instant rig_now;
static struct rig *logs_to;
static struct {
    const char *file, *what;
    int line;
} awaited;

instant rig_clock(void)
{
    return rig_now;
}

/* No longjmp out of the loop: what is under way could not be cleaned up. */
static void on_guard(uv_timer_t *timer)
{
    const struct rig *r = timer->data;
    fprintf(stderr, "%.*s\n%s:%d: did not come: %s\n", STR_ARG(buf_view(&r->log)), awaited.file,
            awaited.line, awaited.what);
    abort();
}

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

void rig_guard(struct rig *r, const char *file, int line, const char *what)
{
    awaited.file = file;
    awaited.line = line;
    awaited.what = what;
    uv_timer_start(&r->guard, on_guard, GUARD_MS, 0);
    /* libuv polls after the timers of a turn, however long until the next one. */
    uv_timer_start(&r->tick, on_tick, TICK_MS, TICK_MS);
}

void rig_unguard(struct rig *r)
{
    uv_timer_stop(&r->guard);
    uv_timer_stop(&r->tick);
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

/* --- the server --- */

static void handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    struct rig *r = ctx;
    int n = r->served++;
    if (n < RIG_REQUESTS) {
        struct rig_request *q = &r->requests[n];
        q->method = req->method;
        snprintf(q->path, sizeof q->path, "%.*s", STR_ARG(req->path));
        snprintf(q->authorization, sizeof q->authorization, "%.*s", STR_ARG(req->authorization));
        snprintf(q->type, sizeof q->type, "%.*s", STR_ARG(req->content_type));
        snprintf(q->body, sizeof q->body, "%.*s", STR_ARG(req->body));
    }
    r->serve(r, x, n);
}

void rig_listen(struct rig *r)
{
    struct http_settings h = http_defaults();
    h.port = r->port;
    h.tls = r->tls;
    struct err e = http_server_new(&r->loop, &h, handle, r, &r->server);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    r->port = http_server_port(r->server);
    snprintf(r->url, sizeof r->url, "http%s://127.0.0.1:%d", r->tls ? "s" : "", r->port);
}

void rig_cut(struct rig *r)
{
    rig_release(r, 200);
    http_server_close(r->server);
    r->server = NULL;
    rig_settle(r);
}

void rig_hold(struct rig *r, struct http_exchange *x)
{
    assert_true(r->held_count < RIG_REQUESTS);
    r->held[r->held_count++] = x;
}

void rig_release(struct rig *r, int status)
{
    for (int i = 0; i < r->held_count; i++)
        rig_answer(r->held[i], status, NULL);
    r->held_count = 0;
}

void rig_answer(struct http_exchange *x, int status, const char *extra)
{
    http_reply(x, status, STR("application/json"), STR("{\"token\":\"" RIG_SECRET "\"}"), extra);
}

static void on_stream_closed(void *ctx)
{
    ((struct rig *)ctx)->streams_closed++;
}

void rig_break(struct rig *r, struct http_exchange *x)
{
    http_stream_begin(x, 200, STR("application/json"), on_stream_closed, r);
    http_stream_abort(x);
}

static void make(struct rig *r, const struct certs_spec *spec, const char *ca, const char *name)
{
    char ca_cert[160], ca_key[160], cert[160], key[160];
    snprintf(ca_cert, sizeof ca_cert, "%s/%s.pem", r->dir, ca ? ca : "");
    snprintf(ca_key, sizeof ca_key, "%s/%s-key.pem", r->dir, ca ? ca : "");
    snprintf(cert, sizeof cert, "%s/%s.pem", r->dir, name);
    snprintf(key, sizeof key, "%s/%s-key.pem", r->dir, name);
    const struct certs_pair signer = {ca_cert, ca_key}, out = {cert, key};
    struct err e = certs_make(spec, ca ? &signer : NULL, &out, true);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
}

void rig_use_tls(struct rig *r)
{
    const char *host = "127.0.0.1";
    make(r, &(struct certs_spec){CERTS_CA, "ca", NULL, 0, 7}, NULL, "ca");
    make(r, &(struct certs_spec){CERTS_CA, "other", NULL, 0, 7}, NULL, "other");
    make(r, &(struct certs_spec){CERTS_SERVER, host, &host, 1, 7}, "ca", "server");
    const struct tls_files files = {rig_path(r, "server.pem"), rig_path(r, "server-key.pem"), NULL};
    struct err e = tls_context_new(&files, &r->tls);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
}

/* --- files, processes, logs --- */

const char *rig_path(struct rig *r, const char *name)
{
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", r->dir, name);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void rig_in_doomed_process(void (*f)(const char *state), const char *state)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        log_set(LOG_NONE, LOG_TEXT);
        f(state);
        _exit(1); /* it should not come to that */
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void on_log(struct str line, int64_t seconds)
{
    (void)seconds;
    buf_str(&logs_to->log, line);
}

bool rig_logged(const struct rig *r, const char *what)
{
    return r->log.len && memmem(r->log.at, r->log.len, what, strlen(what));
}

void rig_kept(void *ctx)
{
    ((struct rig *)ctx)->kept++;
}

void rig_close(struct rig *r)
{
    r->close(r->open);
    r->open = NULL;
    rig_release(r, 200);
    rig_settle(r);
}

int rig_setup(void **state)
{
    struct rig *r = ALLOC(struct rig);
    must(uv_loop_init(&r->loop) == 0 && uv_timer_init(&r->loop, &r->guard) == 0 &&
         uv_timer_init(&r->loop, &r->tick) == 0);
    r->guard.data = r;
    snprintf(r->dir, sizeof r->dir, "/tmp/tenax-builds-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->state, sizeof r->state, "%s/a/state", r->dir);
    rig_now = (instant){1784800000000};
    logs_to = r;
    log_set(LOG_DEBUG, LOG_TEXT);
    log_to(on_log);
    *state = r;
    return 0;
}

int rig_teardown(void **state)
{
    struct rig *r = *state;
    if (r->open)
        rig_close(r);
    if (r->server)
        rig_cut(r);
    uv_close((uv_handle_t *)&r->guard, NULL);
    uv_close((uv_handle_t *)&r->tick, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    assert_false(rig_logged(r, RIG_SECRET));
    tls_context_free(r->tls);
    nftw(r->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    log_to(NULL);
    buf_fini(&r->log);
    free(r);
    return 0;
}
