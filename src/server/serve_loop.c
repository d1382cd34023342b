/* SPDX-License-Identifier: Apache-2.0 */

/* The loop of the server: its turns, and how it ends. */

#include "base/log.h"
#include "server/notify.h"
#include "server/retry_section.h"
#include "server/serve_internal.h"
#include "server/settings_backend.h"

/* How long a drain may take before the remaining connections are closed. */
#define DRAIN_MS 10000
/* How often it is tried again to read tokens that could not be read. */
#define UNREAD_MS 500

/* --- turns of the loop --- */

static void stop_if_drained(void *ctx)
{
    struct server *s = ctx;
    if (s->stopping && s->undrained == 0 && (!s->backend || backend_is_idle(s->backend)) &&
        exporter_is_flushed(&s->exporter, stop_if_drained, s))
        uv_stop(&s->loop);
}

static void on_due(uv_timer_t *t);

static void on_at_once(uv_idle_t *i)
{
    (void)i;
}

static void forget_due(struct server *s)
{
    uv_timer_stop(&s->due);
    s->due_set = false;
}

/* If a turn is already due, the next round of I/O does not wait, and the turn follows it. A timer
 * would not work: one of 0 ms that restarts itself runs again and again before any I/O. */
static void set_due(struct server *s)
{
    instant at;
    bool some = backend_next_due(s->backend, &at);
    int64_t wait = some ? at.ms - serve_now(s).ms : 1;
    if (wait <= 0)
        uv_idle_start(&s->at_once, on_at_once);
    else
        uv_idle_stop(&s->at_once);
    if (!some || wait <= 0) {
        forget_due(s);
        return;
    }
    if (s->due_set && s->due_at.ms == at.ms)
        return;
    /* At most a second at a time, because the wall clock may be set forward. */
    wait = wait > 1000 ? 1000 : wait;
    uv_update_time(&s->loop);
    uv_timer_start(&s->due, on_due, (uint64_t)wait, 0);
    s->due_at = at;
    s->due_set = true;
}

/* Jobs that are handed out become answers at once: they wait where those have no room. */
static uint64_t room_for_jobs(struct server *s)
{
    return http_budget_room(s->replies, &s->loop, backend_holds_back(s->backend));
}

static struct err turn_of_backend(struct server *s)
{
    if (s->inbox)
        inbox_turn(s->inbox);
    backend_limit_handouts(s->backend, room_for_jobs(s));
    return backend_turn(s->backend);
}

void serve_turn(struct server *s)
{
    struct err err = err_none();
    if (!s->backend)
        return;
    if (s->cluster && cluster_is_over(s->cluster))
        err =
            err_make(ERR_FENCED, "this server owns the jobs no more: %s", cluster_why(s->cluster));
    else
        err = turn_of_backend(s);
    if (err.code != ERR_OK) {
        serve_fail(s, &err);
        return;
    }
    if (s->leaving && !s->stopping)
        serve_leave(s);
    if (serve_is_to_beat(s))
        backend_beat(s->backend);
    set_due(s);
    stop_if_drained(s);
}

static void on_due(uv_timer_t *t)
{
    struct server *s = t->data;
    s->due_set = false;
    serve_turn(s);
}

static void on_after_io(uv_check_t *c)
{
    struct server *s = c->data;
    rounds_next(&s->rounds, &s->loop);
    serve_turn(s);
}

/* Replies that were released early have left (net/conn.h) and nothing else has been read. Or there
 * is room for jobs that waited for it, since a connection was closed. */
static void on_before_poll(uv_prepare_t *p)
{
    struct server *s = p->data;
    if (!s->backend)
        return;
    if (backend_is_settling(s->backend) || (backend_holds_back(s->backend) && room_for_jobs(s) > 0))
        serve_turn(s);
}

static void on_wake(uv_async_t *w)
{
    serve_turn(w->data);
}

/* A turn follows every round. */
static void on_written(uv_poll_t *p, int status, int events)
{
    (void)p;
    (void)status;
    (void)events;
}

static void on_heartbeat(uv_timer_t *t)
{
    api_heartbeat(((struct server *)t->data)->api);
}

static void on_unread(uv_timer_t *t)
{
    struct server *s = t->data;
    if (!gate_retry(&s->retry, s->api, s->who.tokens, s->settings.root_dir))
        uv_timer_stop(t);
    serve_turn(s);
}
void serve_start_heartbeat(struct server *s)
{
    uint64_t beat = (uint64_t)s->settings.heartbeat_interval.ms;
    uv_timer_start(&s->heartbeat, on_heartbeat, beat, beat);
}

/* --- stopping --- */

static void on_drained(void *ctx)
{
    struct server *s = ctx;
    s->undrained--;
    stop_if_drained(s);
}

static int count_connections(const struct server *s)
{
    return listener_connections(&s->primary) + listener_connections(&s->admin);
}

static void drain(struct server *s, struct listener *l)
{
    s->undrained++;
    if (!listener_drain(l, on_drained, s))
        s->undrained--;
}

static void on_drain_limit(uv_timer_t *t)
{
    struct server *s = t->data;
    int count = count_connections(s);
    if (s->leaving)
        log_info("%d connections are closed", count);
    else if (count > 0)
        log_warn("%d connections did not end within %d s; closing them", count, DRAIN_MS / 1000);
    else
        log_warn("what is under way did not end within %d s; stopping", DRAIN_MS / 1000);
    uv_stop(&s->loop);
}

void serve_stop(struct server *s, uint64_t limit_ms)
{
    s->stopping = true;
    if (s->cluster && !s->backend)
        cluster_stand_aside(s->cluster);
    if (s->inbox)
        inbox_stop(s->inbox);
    if (s->backend)
        backend_stop(s->backend);
    if (s->api)
        api_stop(s->api);
    if (s->answers)
        task_api_drain(&s->tasks);
    uv_timer_start(&s->drain_limit, on_drain_limit, limit_ms, 0);
    drain(s, &s->primary);
    drain(s, &s->admin);
}

static void on_signal(uv_signal_t *h, int number)
{
    struct server *s = h->data;
    if (s->stopping) {
        s->leaving = false;
        uv_stop(&s->loop);
        return;
    }
    log_info("%s: draining", number == SIGTERM ? "SIGTERM" : "SIGINT");
    notify_manager("STOPPING=1");
    serve_stop(s, DRAIN_MS);
    serve_turn(s);
    stop_if_drained(s);
}

/* --- reading again --- */

/* Applies what can change at run time, and reports that the rest cannot. */
static void adopt(struct server *s, const struct settings *fresh)
{
    for (const struct option_def *d = settings_command.options; d->flag; d++) {
        if (!options_differ(d, &s->settings, fresh))
            continue;
        if (d->live)
            options_copy(d, &s->settings, fresh);
        else
            log_warn("SIGHUP: '%s' of %s has changed; that takes effect when the server is started "
                     "again",
                     d->flag, s->settings.config);
    }
    log_set((enum log_level)s->settings.log_level, (enum log_format)s->settings.log_format);
    struct backend_settings backend = settings_backend(&s->settings);
    backend_configure(s->backend, &backend);
    api_configure(s->api, s->settings.strict, s->settings.claim_wait_max);
    serve_start_heartbeat(s);
}

static void reload_settings(struct server *s)
{
    struct settings fresh;
    struct err err = settings_reload(&fresh);
    if (err.code == ERR_OK) {
        adopt(s, &fresh);
        retry_section_apply(s->backend, s->settings.config, fresh.file.retry, RETRY_SECTION_RELOAD,
                            NULL);
        log_info("SIGHUP: %s has been read again", s->settings.config);
    } else {
        log_error("SIGHUP: nothing has changed: %s", err.msg);
    }
    settings_free(&fresh);
}

static void on_reload(uv_signal_t *h, int number)
{
    (void)number;
    struct server *s = h->data;
    listener_reload(&s->primary, "primary");
    listener_reload(&s->admin, "admin");
    if (!s->answers)
        return;
    if (s->settings.config && !s->stopping)
        reload_settings(s);
    task_api_reload(&s->tasks, &s->settings);
    if (!s->stopping)
        identity_set_reload(&s->who, &s->settings, s->api);
    if (!s->stopping)
        gate_reload(s->api, s->who.tokens, s->settings.root_dir);
}

/* --- starting --- */

void serve_watch_writes(struct server *s)
{
    uv_poll_start(&s->written, UV_READABLE, on_written);
}

void serve_start_turns(struct server *s)
{
    uv_check_start(&s->after_io, on_after_io);
}

void serve_retry_tokens(struct server *s)
{
    uv_timer_start(&s->unread, on_unread, UNREAD_MS, UNREAD_MS);
}

void serve_catch_signals(struct server *s)
{
    uv_signal_start(&s->sigterm, on_signal, SIGTERM);
    uv_signal_start(&s->sigint, on_signal, SIGINT);
    uv_signal_start(&s->sighup, on_reload, SIGHUP);
}

void serve_open_loop(struct server *s)
{
    uv_loop_init(&s->loop);
    rounds_init(&s->rounds, &s->loop);
    uv_async_init(&s->loop, &s->wake, on_wake);
    uv_check_init(&s->loop, &s->after_io);
    uv_prepare_init(&s->loop, &s->before_poll);
    uv_timer_init(&s->loop, &s->due);
    uv_idle_init(&s->loop, &s->at_once);
    uv_timer_init(&s->loop, &s->heartbeat);
    uv_timer_init(&s->loop, &s->drain_limit);
    uv_timer_init(&s->loop, &s->unread);
    s->unread.data = s;
    uv_signal_init(&s->loop, &s->sigterm);
    uv_signal_init(&s->loop, &s->sigint);
    uv_signal_init(&s->loop, &s->sighup);
    s->wake.data = s->after_io.data = s->before_poll.data = s->due.data = s->heartbeat.data = s;
    /* Those that are started later run before it: so do the connections' own. */
    uv_prepare_start(&s->before_poll, on_before_poll);
    s->drain_limit.data = s->sigterm.data = s->sigint.data = s->sighup.data = s;
}
