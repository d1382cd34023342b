/* SPDX-License-Identifier: Apache-2.0 */

/* What a member decides, and what it asks PostgreSQL for it: no thread, no sleep. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "postgres/pg_schema.h"
#include "server/member_internal.h"

/* Looked at, or renewed, so often in a lease. */
#define STEPS 5
/* How often a server says that it is there, and reads who else is. */
#define NOTE_MS 1000
/* While it is stopped it waits so long for PostgreSQL at most. */
#define FAREWELL_MS 1000
/* No statement may take longer: a peer that is gone must be noticed within a lease. */
#define TIMEOUT_MIN_MS 500
/* A server that was not heard of for so long is not counted on. */
#define ALIVE_MS 5000
/* A server that takes the jobs over may read for so long without a sign of it. */
#define OPENING_MS 300000
/* The first may be of a server that was killed: it was under way. */
#define BEATS_OF_ANOTHER 3

/* --- beginning and end --- */

void member_init(struct member *m, const struct member_settings *settings, uint64_t seed)
{
    pthread_condattr_t clock;
    m->settings = *settings;
    m->wake = -1;
    m->rng = rng_from_seed(seed);
    m->state.reached = m->room = true;
    m->seen = m->kept = settings->seen;
    m->accept = settings->accept;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&m->released, &clock);
    pthread_condattr_destroy(&clock);
}

/* --- what others see --- */

static void change(struct member *m)
{
    m->settings.changed(m->settings.ctx);
}

static void set_reached(struct member *m, const struct err *err)
{
    pthread_mutex_lock(&m->lock);
    bool was = m->state.reached;
    m->state.reached = err->code == ERR_OK;
    if (err->code != ERR_OK)
        snprintf(m->state.why, sizeof m->state.why, "%s", err->msg);
    pthread_mutex_unlock(&m->lock);
    if (err->code != ERR_OK && (was || !m->complained))
        log_warn("PostgreSQL: %s", err->msg);
    else if (err->code == ERR_OK && !was && m->complained)
        log_warn("PostgreSQL answers again");
    m->complained = err->code != ERR_OK;
    if (was != (err->code == ERR_OK))
        change(m);
}

static void set_role(struct member *m, enum member_role role, uint64_t epoch, const char *why)
{
    pthread_mutex_lock(&m->lock);
    m->state.role = role;
    m->state.epoch = epoch;
    if (why)
        snprintf(m->state.why, sizeof m->state.why, "%s", why);
    if (role != MEMBER_OWNER)
        pthread_cond_broadcast(&m->released);
    pthread_mutex_unlock(&m->lock);
    change(m);
}

enum member_role member_role_of(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    enum member_role role = m->state.role;
    pthread_mutex_unlock(&m->lock);
    return role;
}

mono member_owned_until(void *m)
{
    return (mono){atomic_load(&((struct member *)m)->owned_until)};
}

uint64_t member_connections(void *m)
{
    return atomic_load(&((struct member *)m)->connections);
}

bool member_turned(struct member *m, uint64_t seq, bool full)
{
    atomic_store(&m->acked, seq);
    atomic_store(&m->full, full);
    atomic_fetch_add(&m->turns, 1);
    return seq < atomic_load(&m->wanted);
}

void member_works(void *m)
{
    atomic_store(&((struct member *)m)->works_at, pg_now().ns);
}

void member_logs_by(void *m, int backend)
{
    atomic_store(&((struct member *)m)->backend, backend);
}

/* The lease was asked for, or renewed, after `from`. It is not used to its very end: what is on its
 * way then needs time, too. */
static void own_from(struct member *m, mono from)
{
    int64_t ms = m->settings.lease.ms;
    atomic_store(&m->owned_until, pg_after(from, (span){ms - ms / 10}).ns);
}

static bool has_passed(mono at)
{
    return pg_now().ns >= at.ns;
}

/* --- the connection --- */

/* For an owner a statement ends with its lease. */
static mono deadline(void *ctx)
{
    struct member *m = ctx;
    int64_t ms = m->settings.lease.ms / 2;
    mono patient = pg_after(pg_now(), (span){ms < TIMEOUT_MIN_MS ? TIMEOUT_MIN_MS : ms});
    mono own = member_owned_until(m);
    return own.ns && own.ns < patient.ns ? own : patient;
}

/* All that is read here may have changed in between, even to another PostgreSQL. */
static struct err prepare(struct member *m)
{
    struct pg_durability durability;
    unsigned char secret[PG_SECRET_BYTES];
    TRY(pg_schema_require(m->pg));
    TRY(pg_listen(m->pg, PG_LEASE_CHANNEL));
    TRY(pg_durability_read(m->pg, &durability));
    TRY(pg_shard_secret(m->pg, m->settings.shard, secret));
    TRY(member_heed_alarm(m));
    pthread_mutex_lock(&m->lock);
    m->state.durability = durability;
    memcpy(m->state.secret, secret, sizeof secret);
    m->state.has_secret = true;
    pthread_mutex_unlock(&m->lock);
    atomic_fetch_add(&m->connections, 1);
    return err_none();
}

/* What waits for a lock would be left waiting at each new connection, were it not given up. */
static struct err open_within(const struct member *m, span timeout, struct pg **out)
{
    struct pg_settings pg = m->settings.pg;
    pg.timeout = timeout;
    pg.bound = m->settings.lease;
    return pg_open(&pg, out);
}

struct err member_connect(struct member *m)
{
    TRY(open_within(m, m->settings.pg.timeout, &m->pg));
    return prepare(m);
}

void member_disconnect(struct member *m)
{
    pg_close(m->pg);
    m->pg = NULL;
}

static struct err connect_again(struct member *m)
{
    TRY(open_within(m, (span){(deadline(m).ns - pg_now().ns) / 1000000 + 1}, &m->pg));
    pg_until(m->pg, deadline(m));
    struct err err = prepare(m);
    if (err.code != ERR_OK)
        member_disconnect(m);
    return err;
}

/* --- the list of servers --- */

struct gathering {
    struct pg_server at[MEMBER_SERVERS_MAX];
    size_t count;
};

static struct err gather(void *ctx, const struct pg_server *server)
{
    struct gathering *g = ctx;
    if (g->count < MEMBER_SERVERS_MAX)
        g->at[g->count++] = *server;
    return err_none();
}

static struct err note(struct member *m)
{
    const struct member_settings *s = &m->settings;
    struct gathering *g = ALLOC(struct gathering);
    bool room = !s->room || s->room(s->ctx);
    const struct pg_servers_self self = {.name = s->name,
                                         .address = s->address,
                                         .version = TENAX_VERSION,
                                         .role = member_role_of(m) == MEMBER_OWNER ? "owner"
                                                                                   : "standby",
                                         .room = room,
                                         .starting = !m->said};
    struct err err = pg_servers_note(m->pg, s->shard, &self);
    if (err.code == ERR_OK)
        err = pg_servers_each(m->pg, s->shard, gather, g);
    if (err.code == ERR_OK) {
        m->said = true;
        m->room = room;
        m->noted = pg_now();
        pthread_mutex_lock(&m->lock);
        memcpy(m->state.servers, g->at, g->count * sizeof *g->at);
        m->state.count = g->count;
        m->state.servers_at = m->noted;
        pthread_mutex_unlock(&m->lock);
    }
    free(g);
    return err;
}

static struct err note_if_due(struct member *m)
{
    bool recent = m->said && !has_passed(pg_after(m->noted, (span){NOTE_MS}));
    bool wanted = atomic_load(&m->looks_wanted) > m->state.looks;
    return recent && !wanted ? err_none() : note(m);
}

/* Whether the disk of another server that is there has room for a copy, and that of this one has
 * none. Only this thread writes the list. */
static bool has_better(const struct member *m)
{
    bool better = false;
    for (size_t i = 0; i < m->state.count && !m->room; i++) {
        const struct pg_server *o = &m->state.servers[i];
        better |= strcmp(o->name, m->settings.name) != 0 && o->room &&
                  o->since_seen.ms < ALIVE_MS && o->since_seen.ms > -ALIVE_MS;
    }
    return better;
}

/* Those that were wanted before the step. */
static void end_looks(struct member *m, uint64_t wanted)
{
    if (wanted == m->state.looks)
        return;
    pthread_mutex_lock(&m->lock);
    m->state.looks = wanted;
    pthread_mutex_unlock(&m->lock);
    change(m);
}

/* --- a standby --- */

/* The owner goes on renewing its lease, and other servers find this one at its address, which they
 * and this one would ask in vain. One that was killed here before may have been heard once more. */
static void doubt_address(struct member *m, const struct pg_shard *was, const struct pg_shard *now)
{
    if (!now->owned || strcmp(now->address, m->settings.address) != 0 || was->epoch != now->epoch)
        m->beats_here = 0;
    else if (was->beat != now->beat && ++m->beats_here == BEATS_OF_ANOTHER)
        log_error("another server owns the jobs and says as well that it is at %s, so that nobody "
                  "can be led to it: give each server an --advertise of its own",
                  now->address);
}

/* Reads the shard; what is new of it counts from the moment at which it was there. */
static struct err look(struct member *m, struct pg_shard *now)
{
    TRY(pg_shard_read(m->pg, m->settings.shard, now));
    if (m->seen_since.ns)
        doubt_address(m, &m->state.shard, now); /* which only this thread writes */
    pthread_mutex_lock(&m->lock);
    const struct pg_shard *was = &m->state.shard;
    bool first = m->seen_since.ns == 0;
    bool same = !first && was->epoch == now->epoch && was->beat == now->beat;
    bool moved = first || was->owned != now->owned || strcmp(was->address, now->address) != 0;
    m->state.shard = *now;
    pthread_mutex_unlock(&m->lock);
    if (!same)
        m->seen_since = pg_now();
    member_note_seen(m, now->epoch, now->seq);
    atomic_store(&m->epoch_had, now->epoch);
    if (moved)
        change(m);
    return err_none();
}

static void begin_to_own(struct member *m, uint64_t epoch, mono from)
{
    own_from(m, from);
    member_works(m);
    atomic_store(&m->epoch_had, epoch);
    log_info("this server owns the jobs now, in epoch %llu", (unsigned long long)epoch);
    set_role(m, MEMBER_OWNER, epoch, NULL);
    m->noted = (mono){0}; /* others are told at once */
}

/* If the outcome is not known, and it was taken, nobody renews that lease: it is taken again. */
static struct err take(struct member *m, const struct pg_shard *seen)
{
    const struct member_settings *s = &m->settings;
    uint64_t epoch;
    mono from = pg_now();
    struct err err = pg_shard_take(m->pg, s->shard, seen, s->name, s->address, s->lease, &epoch);
    if (err.code == ERR_OK)
        begin_to_own(m, epoch, from);
    else if (err.code == ERR_CONFLICT)
        return err_none();
    return err;
}

static struct err stand_by(struct member *m)
{
    struct pg_shard now;
    TRY(note_if_due(m)); /* whoever says that it is a standby is in the list */
    TRY(member_heed_alarm(m));
    TRY(look(m, &now));
    bool free = !now.owned;
    bool silent = has_passed(pg_after(m->seen_since, now.lease));
    if ((free || silent) && has_passed(m->settings.not_before) && !atomic_load(&m->aside) &&
        !has_better(m))
        return take(m, &now);
    return err_none();
}

/* --- the owner --- */

static void end_of_owning(struct member *m, const struct err *why)
{
    atomic_store(&m->owned_until, 1);
    pthread_mutex_lock(&m->lock);
    m->state.lost = m->state.lost || why->code == ERR_POSTGRES_LOST;
    pthread_mutex_unlock(&m->lock);
    log_error("this server owns the jobs no more: %s", why->msg);
    set_role(m, MEMBER_OVER, 0, why->msg);
}

/* Whether the owner gets somewhere. Before its loop has the jobs it reads for a while. */
NODISCARD static struct err may_renew(struct member *m, bool *may)
{
    uint64_t turns = atomic_load(&m->turns);
    *may = atomic_load(&m->acked) >= atomic_load(&m->wanted);
    if (turns == 0)
        *may = !has_passed(pg_after((mono){atomic_load(&m->works_at)}, (span){OPENING_MS}));
    if (*may || turns == m->turns_at_beat)
        return err_none();
    *may = atomic_load(&m->full);
    if (*may)
        return err_none();
    return pg_shard_waits(m->pg, atomic_load(&m->backend), may);
}

/* Errors are those of the connection. */
static struct err beat(struct member *m)
{
    mono from = pg_now();
    uint64_t acked = atomic_load(&m->acked), turns = atomic_load(&m->turns);
    struct err err = pg_shard_beat(m->pg, m->settings.shard, m->state.epoch, acked);
    if (err.code == ERR_FENCED || err.code == ERR_POSTGRES_LOST) {
        end_of_owning(m, &err);
        return err_none();
    }
    if (err.code == ERR_OK) {
        own_from(m, from);
        m->turns_at_beat = turns;
        atomic_store(&m->wanted, acked + 1);
        member_note_seen(m, m->state.epoch, acked);
        change(m); /* the loop makes a turn, and commits something */
    }
    pthread_mutex_lock(&m->lock);
    m->state.beats += err.code == ERR_OK;
    m->state.missed += err.code != ERR_OK;
    pthread_mutex_unlock(&m->lock);
    return err;
}

static struct err let_go(struct member *m)
{
    struct err err = pg_shard_release(m->pg, m->settings.shard, m->state.epoch);
    if (err.code == ERR_OK) {
        atomic_store(&m->owned_until, 1);
        set_role(m, MEMBER_OVER, 0, "it was given up");
    }
    return err;
}

static void leave_if_better(struct member *m)
{
    if (m->state.leave || atomic_load(&m->turns) == 0 || !has_better(m))
        return;
    log_warn("the disk has no room for the copy of the jobs, and that of another server has: it is "
             "to have the jobs");
    pthread_mutex_lock(&m->lock);
    m->state.leave = true;
    pthread_mutex_unlock(&m->lock);
    change(m);
}

static struct err own(struct member *m)
{
    if (atomic_load(&m->release))
        return let_go(m);
    bool may;
    m->waits = true;
    TRY(may_renew(m, &may));
    if (may)
        TRY(beat(m));
    m->waits = !may;
    TRY(note_if_due(m));
    leave_if_better(m);
    return err_none();
}

/* --- steps --- */

/* People have to decide. */
static void raise(struct member *m, const struct err *err)
{
    if (member_role_of(m) == MEMBER_OWNER) {
        end_of_owning(m, err);
        return;
    }
    pthread_mutex_lock(&m->lock);
    bool again = m->state.lost;
    m->state.lost = true;
    snprintf(m->state.why, sizeof m->state.why, "%s", err->msg);
    pthread_mutex_unlock(&m->lock);
    if (!again)
        change(m);
}

static void end_with_lease(struct member *m, const struct err *err)
{
    bool stalled = err->code == ERR_OK && atomic_load(&m->acked) < atomic_load(&m->wanted);
    struct err over =
        stalled
            ? err_make(ERR_FENCED, "its lease ended, as it could commit nothing in that time")
            : err_make(ERR_FENCED, "its lease ended, as PostgreSQL could not be asked in time: %s",
                       err->code == ERR_OK ? "this machine was stopped or overloaded" : err->msg);
    pthread_mutex_lock(&m->lock);
    m->state.stalled = stalled;
    pthread_mutex_unlock(&m->lock);
    end_of_owning(m, &over);
}

void member_step(struct member *m)
{
    uint64_t looks = atomic_load(&m->looks_wanted);
    struct err err = m->pg ? err_none() : connect_again(m);
    if (err.code == ERR_OK) {
        pg_until(m->pg, deadline(m));
        err = member_role_of(m) == MEMBER_OWNER ? own(m) : stand_by(m);
    }
    if (err.code == ERR_POSTGRES_LOST)
        raise(m, &err);
    else
        set_reached(m, &err);
    end_looks(m, looks);
    if (err.code != ERR_OK && m->pg && pg_is_broken(m->pg))
        member_disconnect(m);
    if (member_role_of(m) == MEMBER_OWNER && has_passed(member_owned_until(m)))
        end_with_lease(m, &err);
}

int64_t member_rest_ms(struct member *m)
{
    int64_t ms = m->settings.lease.ms / STEPS;
    if (m->waits) /* what was not renewed for want of a commit is as soon as there is one */
        ms /= STEPS;
    /* Standbys look at different moments, so that one of them takes over first. */
    ms -= (int64_t)(rng_next(&m->rng) % (uint64_t)(ms / 4 + 1));
    if (member_role_of(m) == MEMBER_OWNER) {
        int64_t left = (member_owned_until(m).ns - pg_now().ns) / 1000000 + 1;
        ms = left < ms ? left : ms;
    }
    return ms < 1 ? 1 : ms;
}

void member_say_farewell(struct member *m)
{
    if (!m->pg)
        return;
    pg_until(m->pg, pg_after(pg_now(), (span){FAREWELL_MS}));
    struct err err = pg_servers_forget(m->pg, m->settings.shard, m->settings.name);
    if (err.code != ERR_OK)
        log_info("PostgreSQL was not told that this server ends: %s", err.msg);
}

void member_fini(struct member *m)
{
    pg_close(m->pg);
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->released);
}
