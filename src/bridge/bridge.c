/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "bridge/bridge_internal.h"
#include "client/subcommand.h"

#define STOP_WITHIN_MS 10000
#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 15000

span bridge_backoff(struct bridge *b, uint32_t tries)
{
    int64_t full = (int64_t)BACKOFF_MIN_MS << (tries < 7 ? tries : 7);
    full = full > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : full;
    return (span){full / 2 + (int64_t)rng_below(&b->rng, (uint64_t)full / 2 + 1)};
}

/* It answers, but not to what it was asked: it does not know who asks, or is no such server. */
static bool is_no_use(const struct remote_answer *a)
{
    bool gone = str_eq(a->code, STR("not_found")) || str_eq(a->code, STR("not_in_flight"));
    return a->status == 401 || a->status == 403 || a->status == 405 || a->status == 415 ||
           a->status == 421 || (a->status == 404 && !gone);
}

static void note_down(struct bridge *b, enum bridge_way way, struct str why)
{
    char text[sizeof b->said];
    bool other = (b->down & ~(1u << way)) != 0;
    b->down |= 1u << way;
    snprintf(text, sizeof text, "%.*s", STR_ARG(why));
    if (other && strcmp(text, b->said) == 0)
        return; /* it was said for the other way */
    memcpy(b->said, text, sizeof text);
    log_warn("%.*s; it is tried again until it works", STR_ARG(why));
}

void bridge_note_server(struct bridge *b, enum bridge_way way, const struct remote_answer *a)
{
    bool down = a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER || is_no_use(a);
    if (down == ((b->down & 1u << way) != 0))
        return;
    if (down) {
        note_down(b, way, a->why);
        return;
    }
    b->down &= ~(1u << way);
    if (!b->down)
        log_info("%s answers again", b->settings->server);
}

/* --- the end --- */

static bool is_idle(const struct bridge *b)
{
    return (!b->in || bridge_in_is_idle(b->in)) && (!b->out || bridge_out_is_idle(b->out)) &&
           (!b->events || bridge_events_is_idle(b->events));
}

void bridge_idle(struct bridge *b)
{
    if (b->stopping && is_idle(b))
        uv_stop(b->loop);
}

static void on_impatient(uv_timer_t *t)
{
    struct bridge *b = t->data;
    log_warn("not everything was confirmed in time: it is done again after the next start");
    uv_stop(b->loop);
}

static void stop(struct bridge *b)
{
    if (b->stopping) {
        uv_stop(b->loop);
        return;
    }
    b->stopping = true;
    uv_timer_start(&b->patience, on_impatient, STOP_WITHIN_MS, 0);
    if (b->in)
        bridge_in_stop(b->in);
    if (b->out)
        bridge_out_stop(b->out);
    if (b->events)
        bridge_events_stop(b->events);
    bridge_idle(b);
}

static void on_signal(uv_signal_t *s, int number)
{
    log_info("%s: ending", number == SIGINT ? "SIGINT" : "SIGTERM");
    stop(s->data);
}

void bridge_give_up(struct bridge *b, const char *fmt, ...)
{
    char text[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_error("%s", text);
    b->code = CLI_REFUSED;
    if (!b->stopping)
        stop(b);
}

/* --- the beginning --- */

static void open_handles(struct bridge *b)
{
    must(uv_timer_init(b->loop, &b->patience) == 0);
    must(uv_signal_init(b->loop, &b->sigterm) == 0);
    must(uv_signal_init(b->loop, &b->sigint) == 0);
    b->patience.data = b->sigterm.data = b->sigint.data = b;
    uv_signal_start(&b->sigterm, on_signal, SIGTERM);
    uv_signal_start(&b->sigint, on_signal, SIGINT);
}

static void on_kept(void *ctx)
{
    const struct bridge *b = ctx;
    if (b->events)
        bridge_events_kept(b->events);
}

static struct err start(struct bridge *b)
{
    const struct bridge_settings *s = b->settings;
    /* Its lock also keeps out a second bridge of this name, which would claim the same jobs. */
    if (s->from || s->events)
        TRY(journal_open(b->loop, s->state_dir, on_kept, b, &b->journal));
    TRY(bridge_http_start(b));
    b->remote = remote_new(b->loop, s->server, &s->tls, s->name);
    if (s->from_rabbitmq)
        bridge_in_start(b);
    if (s->from)
        bridge_out_start(b);
    if (s->events)
        bridge_events_start(b);
    return err_none();
}

static void close_all(struct bridge *b)
{
    bridge_http_stop(b);
    if (b->out)
        bridge_out_free(b->out);
    if (b->remote)
        remote_free(b->remote);
    if (b->in)
        bridge_in_free(b->in);
    if (b->events)
        bridge_events_free(b->events);
    b->in = NULL;
    b->out = NULL;
    b->events = NULL;
    if (b->journal)
        journal_close(b->journal);
    uv_close((uv_handle_t *)&b->patience, NULL);
    uv_close((uv_handle_t *)&b->sigterm, NULL);
    uv_close((uv_handle_t *)&b->sigint, NULL);
    uv_run(b->loop, UV_RUN_DEFAULT);
}

int bridge_run(const struct bridge_settings *settings)
{
    struct bridge b = {.settings = settings, .loop = uv_default_loop(), .code = CLI_OK};
    uint64_t seed = 0;
    must(getrandom(&seed, sizeof seed, 0) == (ssize_t)sizeof seed);
    b.rng = rng_from_seed(seed);
    snprintf(b.process, sizeof b.process, "%016" PRIx64, rng_next(&b.rng));
    signal(SIGPIPE, SIG_IGN);
    open_handles(&b);
    struct err e = start(&b);
    if (e.code == ERR_OK) {
        uv_run(b.loop, UV_RUN_DEFAULT);
    } else {
        log_error("%s", e.msg);
        b.code = CLI_REFUSED;
    }
    close_all(&b);
    return b.code;
}
