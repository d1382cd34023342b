/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_HANDOVER_H
#define SERVER_HANDOVER_H

/* A server that owns the jobs no more begins anew, as the same process with the same sockets: what
 * it knew is of no use, and whoever connects meanwhile waits instead of being refused. */

#include "base/err.h"
#include "base/units.h"

enum handover_end {
    HANDOVER_ALARM, /* acknowledged commits are lost: it stops, and people decide */
    HANDOVER_ANEW,
    HANDOVER_STOP,
};

/* What follows when the turns of an owner have failed so. lost: PostgreSQL knows less than it did;
 * goes_on: the server is one of several, and was not told to stop. */
static inline enum handover_end handover_decide(enum err_code code, bool lost, bool goes_on)
{
    if (lost || code == ERR_POSTGRES_LOST)
        return HANDOVER_ALARM;
    return goes_on && (code == ERR_FENCED || code == ERR_POSTGRES) ? HANDOVER_ANEW : HANDOVER_STOP;
}

struct handover {
    int primary, admin; /* sockets that listen; 0: none */
    int64_t rest_ms;    /* how long it must not take the jobs over */
};

/* What the process before left behind; zeros if there was none. Before any thread. */
struct handover handover_take(void);
/* Whether this process goes on after another. */
bool handover_happened(const struct handover *h);
/* From now on SIGTERM and SIGINT are only noted. */
void handover_note_stops(void);
bool handover_is_stopped(void);
/* Begins anew, with the same arguments and environment. Returns only if that fails; the log says
 * why. */
void handover_go(const struct handover *h);

#endif
