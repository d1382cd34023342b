/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_SHARD_H
#define POSTGRES_PG_SHARD_H

/* Who owns a shard of jobs, and which servers there are.
 *
 * The owner holds a lease in an epoch. Epochs rise with every owner, by random steps. A lease is
 * renewed by a beat; it ends, for the owner, one lease after the moment *before* it asked for the
 * renewal, by its own monotonic clock (pg_now). A server that would take it over waits until it has
 * seen the same (epoch, beat) for a whole lease, by its own clock since it *got* the first of them,
 * or until nobody owns it. No two clocks are compared. What a lease cannot promise, the epoch
 * does: every commit names its own, and is refused when there is a later one.
 *
 * All functions block, until pg_until at most. Errors: postgres/pg.h. */

#include "postgres/pg.h"

#define PG_OWNER_MAX   255 /* bytes of a server's name, and a NUL more in the structs */
#define PG_ADDRESS_MAX 255 /* HOST:PORT, or a URL */

struct pg_shard {
    uint64_t epoch, beat;
    uint64_t seq;     /* the last batch */
    uint64_t flushed; /* records hold everything up to this one */
    bool owned;
    char owner[PG_OWNER_MAX + 1], address[PG_ADDRESS_MAX + 1]; /* if owned */
    span lease;                                                /* of the last owner */
};

/* ERR_NOT_FOUND: there is no such shard. */
NODISCARD struct err pg_shard_read(struct pg *pg, int shard, struct pg_shard *out);
/* Takes the shard, if (epoch, beat) are still what was seen: *epoch is the new one. All earlier
 * commits are durable then, and no commit of an earlier epoch is possible any more. ERR_CONFLICT if
 * they are not, ERR_POSTGRES_LOST if there is an alarm. After ERR_POSTGRES it may have been taken:
 * read it. */
NODISCARD struct err pg_shard_take(struct pg *pg, int shard, const struct pg_shard *seen,
                                   const char *owner, const char *address, span lease,
                                   uint64_t *epoch);
/* Renews the lease of an owner to which batch `seq` was acknowledged. ERR_FENCED: another server
 * has taken the shard, or it was given up; ERR_POSTGRES_LOST: PostgreSQL has forgotten the epoch or
 * the batch, or there is an alarm (pg_alarm.h). */
NODISCARD struct err pg_shard_beat(struct pg *pg, int shard, uint64_t epoch, uint64_t seq);
/* Gives it up, after the last commit. Others are told by NOTIFY on PG_LEASE_CHANNEL. That it was
 * not held any more is no error. */
NODISCARD struct err pg_shard_release(struct pg *pg, int shard, uint64_t epoch);
/* Waits until everything committed so far is as durable as PostgreSQL makes it, and checks the
 * epoch; *seq is the last batch. ERR_FENCED, ERR_POSTGRES_LOST. */
NODISCARD struct err pg_shard_settle(struct pg *pg, int shard, uint64_t epoch, uint64_t *seq);

/* Whether that backend of PostgreSQL works on a statement and waits for something else: a lock, a
 * disk, a standby of its own. Another one would wait for that as well. */
NODISCARD struct err pg_shard_waits(struct pg *pg, int backend, bool *waits);

#define PG_LEASE_CHANNEL "tenax_lease"

/* By what the servers of a shard know each other: made with the schema, known to nobody who may not
 * read that. */
#define PG_SECRET_BYTES 32
NODISCARD struct err pg_shard_secret(struct pg *pg, int shard, unsigned char out[PG_SECRET_BYTES]);

/* --- servers --- */

struct pg_server {
    char name[PG_OWNER_MAX + 1], address[PG_ADDRESS_MAX + 1], version[33], role[17];
    span since_started, since_seen; /* by PostgreSQL's clock */
    bool room;                      /* its disk has room for a copy */
};

/* What a server says of itself. */
struct pg_servers_self {
    const char *name, *address, *version, *role; /* role: "owner" or "standby" */
    bool room, starting;
};

/* "I am here": to be repeated. A server that starts again says so by `starting`. */
NODISCARD struct err pg_servers_note(struct pg *pg, int shard, const struct pg_servers_self *self);
NODISCARD struct err pg_servers_forget(struct pg *pg, int shard, const char *name);
/* Calls fn for each, in the order of the names. */
NODISCARD struct err pg_servers_each(struct pg *pg, int shard,
                                     struct err (*fn)(void *ctx, const struct pg_server *server),
                                     void *ctx);

/* --- what an acknowledgement is worth --- */

struct pg_durability {
    char synchronous_commit[16]; /* as PostgreSQL spells it: on, off, local, remote_apply, … */
    bool fsync;
    bool standbys_wanted; /* commits wait for standbys (synchronous_standby_names) */
    int standbys;         /* synchronous ones that are connected; -1: the role may not see that */
    char text[192];       /* a sentence about it */
};

/* As the settings of this connection are. */
NODISCARD struct err pg_durability_read(struct pg *pg, struct pg_durability *out);

#endif
