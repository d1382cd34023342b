/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MEMBER_H
#define SERVER_MEMBER_H

/* This server as one of several on a PostgreSQL: a thread with a connection of its own, which says
 * that the server is there, takes the shard of jobs when nobody owns it any more, and renews the
 * lease while this server owns it (rules: postgres/pg_shard.h).
 *
 * A member is a standby at first, then perhaps the owner, and then it is over: whoever has owned a
 * shard begins anew with all that it knows (server/handover.h).
 *
 * The lease is renewed only while the owner gets somewhere: since the last renewal its loop has
 * learned that a batch is durable (member_turned), or it turns, and PostgreSQL says that the commit
 * under way waits for something that would stop any other owner as well. A thread that renews the
 * lease of a loop that hangs, or of a disk that takes nothing, would keep the others out.
 *
 * At every step the member compares PostgreSQL with the newest batch that it has seen. If that is
 * missing it raises the alarm (postgres/pg_alarm.h), and so it heeds that of others. */

#include <stddef.h>

#include "postgres/pg_alarm.h"

struct member;

struct member_settings {
    struct pg_settings pg;
    int shard;
    const char *name;    /* of this server: unique among them */
    const char *address; /* under which others reach it: a URL */
    span lease;
    mono not_before;     /* it takes the shard no sooner; 0: at once */
    bool patient;        /* it begins although PostgreSQL cannot be asked, and waits for it */
    bool accept;         /* it accepts that commits are lost, once, as it connects first */
    struct pg_seen seen; /* before its start */
    /* What was seen is to be kept; NULL: it is not. On the member's thread. */
    void (*keep)(void *ctx, const struct pg_seen *seen);
    /* Whether this server's disk has room for a copy; NULL: it has. Likewise. */
    bool (*room)(void *ctx);
    instant (*now)(void *ctx); /* the wall clock, from the member's thread */
    /* Something that member_read reports has changed: on the member's thread. */
    void (*changed)(void *ctx);
    void *ctx;
};

enum member_role {
    MEMBER_STANDBY,
    MEMBER_OWNER,
    MEMBER_OVER, /* it was the owner, and is no more */
};

#define MEMBER_SERVERS_MAX 64 /* further ones are not shown */

struct member_state {
    enum member_role role;
    uint64_t epoch;        /* of the owner */
    bool reached;          /* PostgreSQL answered when it was asked last */
    char why[200];         /* why not, or why the ownership is over; without secrets */
    bool lost;             /* PostgreSQL has lost commits, and nobody has accepted that */
    bool stalled;          /* the ownership is over as it got nowhere */
    bool leave;            /* its disk has no room for its copy, and that of another server has */
    struct pg_shard shard; /* as read last; address and owner as long as it is owned */
    struct pg_durability durability;
    size_t count; /* servers, this one included */
    struct pg_server servers[MEMBER_SERVERS_MAX];
    mono servers_at; /* when they were read */
    uint64_t looks;  /* of member_look: that one, or a try, has been made */
    /* What the servers of a PostgreSQL share: by it they know each other's requests. */
    unsigned char secret[PG_SECRET_BYTES];
    bool has_secret;
    uint64_t beats, missed; /* renewals of the lease, since the start; those that failed */
    span left;              /* of the lease */
    span clock_ahead;       /* how far PostgreSQL's clock was ahead of this server's */
    bool clock_compared;    /* iff that is known */
};

/* Connects, checks the schema, and begins. Unless it is patient: ERR_USAGE, ERR_POSTGRES_SCHEMA,
 * and other errors of postgres/pg.h. Texts of the settings must outlive the member. */
NODISCARD struct err member_start(const struct member_settings *settings, struct member **out);
void member_read(struct member *m, struct member_state *out);
/* By how much PostgreSQL's clock was ahead of this server's when they were compared last. */
span member_clock_ahead(struct member *m);
/* Until when this server owns the shard, at least; 0: it does not. m is the member. From any
 * thread. */
mono member_owned_until(void *m);
/* The owner's loop has made a turn, and knows that the batch `seq` is durable: whether it is to
 * commit one, if only an empty one, as none is since the last renewal. full: PostgreSQL had no room
 * for the last one, which no other server would mend. From any thread. */
bool member_turned(struct member *m, uint64_t seq, bool full);
/* The owner is about to have the jobs, and gets on with it. m is the member. From any thread. */
void member_works(void *m);
/* The owner's commits are on that backend's connection. Likewise. */
void member_logs_by(void *m, int backend);
/* Raises the alarm, on a connection of its own, within some seconds: what was found says `why`.
 * From any thread. */
NODISCARD struct err member_raise_alarm(struct member *m, const char *why);
/* How often this server has connected to PostgreSQL. m is the member. From any thread. */
uint64_t member_connections(void *m);
/* Gives the shard up, after the last commit; waits until PostgreSQL knows, or the lease is over. */
void member_release(struct member *m);
/* Looks who else is there, without waiting for that: the number of this look. changed() is called
 * when it is over. From any thread. */
uint64_t member_look(struct member *m);
/* It takes the shard no more. */
void member_stand_aside(struct member *m);
/* Ends the thread, and the server is gone from the list. NULL is fine. */
void member_stop(struct member *m);

#endif
