/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMQP_SESSION_H
#define AMQP_SESSION_H

/* One connection to a RabbitMQ, over librabbitmq (AMQP 0-9-1): opened, closed, and its errors as
 * sentences. Every call here blocks, at most for the time-outs of the settings; whoever has a loop
 * uses amqp_link.h, which runs a session on a thread of its own. */

#include <amqp.h>
/* Needs the types of amqp.h. */
#include <amqp_framing.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define AMQP_CHANNEL 1 /* for all traffic */
#define AMQP_CONTROL 2 /* for questions that the broker may answer by closing the channel */

struct amqp_address {
    const char *host;
    int port;
};

/* PEM files. */
struct amqp_tls {
    const char *ca_file;   /* NULL: the system's certificate authorities */
    const char *cert_file; /* NULL: no client certificate; else with its key */
    const char *key_file;
    bool unverified; /* accepts any certificate */
};

/* Borrowed as long as a session or a link uses them. */
struct amqp_settings {
    const struct amqp_address *addresses;
    size_t address_count;
    const char *vhost, *user, *password;
    const struct amqp_tls *tls; /* NULL: not encrypted */
    span connect_timeout;       /* also of each question to the broker */
    span heartbeat;             /* whole seconds; 0: none */
    const char *name;           /* how the broker's operators see the connection */
};

struct amqp_session {
    amqp_connection_state_t state; /* NULL: closed */
    char peer[128];                /* "host:port" */
    bool control;                  /* AMQP_CONTROL is open */
};

/* Connects to the address of that index, logs in and opens AMQP_CHANNEL. On an error, which names
 * the address and never a password, the session is closed. */
NODISCARD struct err amqp_session_open(struct amqp_session *s, const struct amqp_settings *settings,
                                       size_t address);
/* Closes the connection; politely waits for the broker's word, else the socket is just closed. */
void amqp_session_close(struct amqp_session *s, bool politely);
/* Opens AMQP_CONTROL unless it is open. */
NODISCARD struct err amqp_session_control(struct amqp_session *s);

/* Whether the last question was answered as it should be; else ERR_BROKER with a sentence that
 * begins with `what` and contains the broker's text. */
NODISCARD struct err amqp_session_check(const struct amqp_session *s, amqp_rpc_reply_t reply,
                                        const char *what);
/* Answers the broker, which has closed AMQP_CONTROL. */
void amqp_session_control_closed(struct amqp_session *s);
/* The reply code (404, 406, …) with which the broker closed a channel; 0 for any other reply. */
int amqp_session_refusal(amqp_rpc_reply_t reply, struct str *text);

static inline amqp_bytes_t amqp_session_bytes(struct str s)
{
    return (amqp_bytes_t){s.len, (void *)(uintptr_t)s.at};
}

static inline struct str amqp_session_str(amqp_bytes_t b)
{
    return (struct str){b.bytes, b.len};
}

#endif
