/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BRIDGE_BRIDGE_INTERNAL_H
#define BRIDGE_BRIDGE_INTERNAL_H

/* The parts of a bridge, each a file: bridge_in.c, bridge_out.c, bridge_events.c; bridge_link.c,
 * their connections; bridge_http.c, what it says of itself; bridge.c, which owns them. */

#include <uv.h>

#include "amqp/amqp_link.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/rng.h"
#include "bridge/bridge.h"
#include "client/journal.h"
#include "client/remote.h"

#define BRIDGE_CALL_TIMEOUT ((span){60000})

struct bridge_in;
struct bridge_out;
struct bridge_events;
struct probes;

struct bridge_counters {
    uint64_t in_messages, in_duplicates, in_unkeyed, in_refused;
    uint64_t out_published, out_failed, out_lost;
    uint64_t events_published, events_refused, events_missed;
};

enum bridge_way { BRIDGE_IN, BRIDGE_OUT, BRIDGE_EVENTS };

struct bridge {
    const struct bridge_settings *settings;
    uv_loop_t *loop;
    struct remote *remote;
    struct journal *journal;
    struct rng rng;
    uv_signal_t sigterm, sigint;
    uv_timer_t patience; /* for the end */
    bool stopping;
    unsigned down;  /* for these ways, bits 1 << enum bridge_way, the server is away or refuses */
    char said[160]; /* why, as it was said last */
    int code;
    char process[17]; /* which no other process has */
    struct bridge_in *in;
    struct bridge_out *out;
    struct bridge_events *events;
    struct probes *http;
    struct bridge_counters counters;
};

/* How long to wait before the next try; half of it is random. */
span bridge_backoff(struct bridge *b, uint32_t tries);
/* Says once that the server is away, or refuses what one way needs, and that it is back. What one
 * way may do says nothing of what another may. */
void bridge_note_server(struct bridge *b, enum bridge_way way, const struct remote_answer *a);
/* Ends the bridge for a reason that no further try would mend. */
void bridge_give_up(struct bridge *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* To be called when a part may have become idle: ends the loop if all are, and it is to end. */
void bridge_idle(struct bridge *b);

/* --- connections --- */

struct bridge_link {
    struct bridge *b;
    struct amqp_link *amqp;
    const char *what; /* "from RabbitMQ" */
    const char *queue;
    struct amqp_link_settings settings;
    bool up, blocked;
    char why[256]; /* it is down, as it was said last */
};

/* Connects. queue: to be consumed, or NULL. */
void bridge_link_open(struct bridge_link *l, struct bridge *b, const char *what, const char *queue,
                      const struct amqp_link_user *user, void *ctx);
/* To be called by the user's callbacks. */
void bridge_link_is_up(struct bridge_link *l);
void bridge_link_is_down(struct bridge_link *l, const char *why);
/* Messages would be taken now, as far as is known. */
bool bridge_link_takes(const struct bridge_link *l);
void bridge_link_close(struct bridge_link *l);
/* What RabbitMQ is to have, declared on each new connection (amqp_link_settings.prepare). */
struct err bridge_declare(void *bridge_settings, struct amqp_session *s);

/* --- the parts ---
 * _start begins; _stop takes nothing new; _is_idle: nothing is left that would have to be waited
 * for; _is_well: it moves, or would move, messages; _free when there is no
 * remote any more. */

void bridge_in_start(struct bridge *b);
void bridge_in_stop(struct bridge_in *in);
bool bridge_in_is_idle(const struct bridge_in *in);
bool bridge_in_is_well(const struct bridge_in *in);
/* How many messages are held since they cannot be jobs. */
size_t bridge_in_held(const struct bridge_in *in);
void bridge_in_free(struct bridge_in *in);

void bridge_out_start(struct bridge *b);
void bridge_out_stop(struct bridge_out *o);
bool bridge_out_is_idle(const struct bridge_out *o);
bool bridge_out_is_well(const struct bridge_out *o);
void bridge_out_free(struct bridge_out *o);

void bridge_events_start(struct bridge *b);
void bridge_events_stop(struct bridge_events *e);
bool bridge_events_is_idle(const struct bridge_events *e);
bool bridge_events_is_well(const struct bridge_events *e);
/* The newest event of which everything up to it is published; negative: not known yet. */
int64_t bridge_events_place(const struct bridge_events *e);
/* The journal has kept records. */
void bridge_events_kept(struct bridge_events *e);
void bridge_events_free(struct bridge_events *e);

/* --- metrics and health --- */

NODISCARD struct err bridge_http_start(struct bridge *b);
void bridge_http_stop(struct bridge *b);

#endif
