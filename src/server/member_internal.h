/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MEMBER_INTERNAL_H
#define SERVER_MEMBER_INTERNAL_H

/* The parts of a member: what it decides at each step (member_step.c), whether PostgreSQL has lost
 * commits (member_alarm.c), and the thread that makes these steps (member.c) and compares clocks
 * (member_clock.c). The simulator makes them without one. */

#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "server/member.h"

struct member {
    struct member_settings settings;
    struct pg *pg; /* NULL: to be opened again */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t released; /* state.role is not OWNER any more, or the thread has ended */
    struct member_state state;
    _Atomic int64_t owned_until;
    _Atomic uint64_t connections, looks_wanted;
    _Atomic bool stop, release, aside;
    int wake; /* eventfd: one of the two above */
    struct rng rng;
    mono seen_since; /* since when (epoch, beat) are as in state.shard */
    mono noted;
    bool said; /* that it starts */
    bool complained;
    int beats_here;            /* of an owner that is not this server, and has its address */
    struct pg_seen seen, kept; /* kept: as settings.keep was told */
    bool accept;
    bool room;                  /* for a copy, as it was when servers were listed */
    _Atomic uint64_t acked;     /* the last batch that is durable, as the loop knows */
    _Atomic uint64_t epoch_had; /* in which this server has owned the jobs, or the newest it saw */
    _Atomic bool full;          /* PostgreSQL has no room, as the loop knows */
    _Atomic uint64_t turns;     /* of the loop, since it has the jobs */
    _Atomic uint64_t wanted;    /* a batch of this number or a later one is to be committed */
    _Atomic int64_t works_at;   /* when it last got on with having the jobs */
    _Atomic int backend;        /* on which it commits */
    uint64_t turns_at_beat;     /* when the lease was renewed last */
    bool waits;                 /* it was not, as nothing was committed since */
    mono compared;              /* when clocks were */
    bool clock_off;             /* it was said that PostgreSQL's is another one */
};

/* m is zeroed. The seed decides how long it rests. */
void member_init(struct member *m, const struct member_settings *settings, uint64_t seed);
void member_fini(struct member *m);

enum member_role member_role_of(struct member *m);
/* The first connection, and what is read once of it. */
NODISCARD struct err member_connect(struct member *m);
/* It connects again at the next step. */
void member_disconnect(struct member *m);
/* Looks, takes the shard, renews the lease or gives it up, as is due. One connection for all: what
 * breaks it is tried again until the lease is over. */
void member_step(struct member *m);
/* Asks PostgreSQL what time it is, if that is due: after a step, within its time. */
void member_compare_clocks(struct member *m);
/* Compares PostgreSQL with what was seen, and reads whether there is an alarm: ERR_POSTGRES_LOST.
 */
NODISCARD struct err member_heed_alarm(struct member *m);
/* It has seen that batch, when that was the newest epoch. */
void member_note_seen(struct member *m, uint64_t epoch, uint64_t seq);
/* How long it may rest until the next step, unless there is something to do before. */
int64_t member_rest_ms(struct member *m);
/* The server is gone from the list, if PostgreSQL answers soon. */
void member_say_farewell(struct member *m);

#endif
