/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_plugin.h"

#include <signal.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/must.h"

/* How long to wait for the end of its output after its own end: something that it left in the
 * background may have inherited it. */
#define DRAIN_MS 200

struct kube_plugin {
    uv_process_t process;
    uv_pipe_t out, err;
    uv_timer_t timer;
    int handles;  /* that are not closed */
    int readable; /* pipes that have not ended */
    bool ran, exited, over;
    struct kube_plugin_result result;
    struct buf output, errors;
    void (*done)(void *ctx, const struct kube_plugin_result *r);
    void *ctx;
};

static void on_closed(uv_handle_t *handle)
{
    struct kube_plugin *p = handle->data;
    if (--p->handles)
        return;
    if (p->output.cap)
        explicit_bzero(p->output.at, p->output.cap);
    buf_fini(&p->output);
    buf_fini(&p->errors);
    free(p);
}

static void close_all(struct kube_plugin *p)
{
    uv_close((uv_handle_t *)&p->out, on_closed);
    uv_close((uv_handle_t *)&p->err, on_closed);
    uv_close((uv_handle_t *)&p->timer, on_closed);
    uv_close((uv_handle_t *)&p->process, on_closed);
}

static void end_session(struct kube_plugin *p)
{
    if (p->ran && !p->exited)
        kill(-p->process.pid, SIGKILL);
}

static void finish(struct kube_plugin *p)
{
    if (p->over)
        return;
    p->over = true;
    end_session(p);
    p->result.output = buf_view(&p->output);
    p->result.errors = buf_view(&p->errors);
    p->done(p->ctx, &p->result);
    close_all(p);
}

static void on_time(uv_timer_t *timer)
{
    struct kube_plugin *p = timer->data;
    p->result.timed_out = !p->exited && !p->result.error;
    finish(p);
}

static void check_end(struct kube_plugin *p)
{
    if (p->exited && !p->readable)
        finish(p);
}

static void on_exit_of(uv_process_t *process, int64_t status, int sig)
{
    struct kube_plugin *p = process->data;
    p->exited = true;
    p->result.exit_code = (int)status;
    p->result.signal = sig;
    if (p->over)
        return;
    uv_timer_start(&p->timer, on_time, DRAIN_MS, 0);
    check_end(p);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct kube_plugin *p = handle->data;
    struct buf *b = handle == (uv_handle_t *)&p->out ? &p->output : &p->errors;
    (void)suggested;
    *buf = uv_buf_init(buf_room(b, 4096), 4096);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct kube_plugin *p = stream->data;
    bool is_output = stream == (uv_stream_t *)&p->out;
    struct buf *b = is_output ? &p->output : &p->errors;
    (void)buf;
    if (p->over)
        return;
    if (n < 0) {
        uv_read_stop(stream);
        p->readable--;
        check_end(p);
        return;
    }
    b->len += (size_t)n;
    if (is_output && b->len > KUBE_PLUGIN_OUTPUT_MAX) {
        p->result.too_large = true;
        finish(p);
    } else if (!is_output && b->len > KUBE_PLUGIN_ERRORS_MAX) {
        buf_drop(b, b->len - KUBE_PLUGIN_ERRORS_MAX);
    }
}

static int spawn(uv_loop_t *loop, struct kube_plugin *p, const char *const *argv,
                 const char *const *env)
{
    uv_stdio_container_t io[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->err},
    };
    const uv_process_options_t options = {.exit_cb = on_exit_of,
                                          .file = argv[0],
                                          .args = (char **)argv,
                                          .env = (char **)env,
                                          .flags = UV_PROCESS_DETACHED,
                                          .stdio_count = 3,
                                          .stdio = io};
    return uv_spawn(loop, &p->process, &options);
}

struct kube_plugin *kube_plugin_start(uv_loop_t *loop, const char *const *argv,
                                      const char *const *env, span timeout,
                                      void (*done)(void *ctx, const struct kube_plugin_result *r),
                                      void *ctx)
{
    struct kube_plugin *p = ALLOC(struct kube_plugin);
    p->done = done;
    p->ctx = ctx;
    p->handles = 4;
    must(uv_pipe_init(loop, &p->out, 0) == 0 && uv_pipe_init(loop, &p->err, 0) == 0);
    must(uv_timer_init(loop, &p->timer) == 0);
    p->process.data = p->out.data = p->err.data = p->timer.data = p;
    p->result.error = spawn(loop, p, argv, env);
    if (p->result.error) {
        uv_timer_start(&p->timer, on_time, 0, 0);
        return p;
    }
    p->ran = true;
    p->readable = 2;
    uv_read_start((uv_stream_t *)&p->out, on_room, on_read);
    uv_read_start((uv_stream_t *)&p->err, on_room, on_read);
    uv_timer_start(&p->timer, on_time, (uint64_t)timeout.ms, 0);
    return p;
}

void kube_plugin_cancel(struct kube_plugin *p)
{
    must(!p->over);
    p->over = true;
    end_session(p);
    close_all(p);
}
