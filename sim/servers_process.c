/* SPDX-License-Identifier: Apache-2.0 */

/* A process of a simulated server: its threads, and how it begins and ends, as server/serve*.c have
 * it. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "server/handover.h"
#include "servers_internal.h"
#include "trace.h"

/* How long leaving may take. */
#define LEAVE_MS 100

static struct snode *node_of(const struct process *p)
{
    return &sworld->nodes[p->node];
}

/* --- clocks --- */

struct process *servers_here(void)
{
    return fiber_context();
}

static int64_t local_ns(const struct process *p)
{
    const struct snode *n = node_of(p);
    return n->base_ns + sworld->now + sworld->now / 1000000 * n->drift_ppm;
}

/* For a process that is dead everything is too late. */
mono servers_mono(void)
{
    const struct process *p = servers_here();
    return (mono){p->dead ? (int64_t)1 << 60 : local_ns(p)};
}

/* When its clock shows that much more. */
static int64_t after_local(const struct process *p, int64_t ns)
{
    int64_t ppm = 1000000 + node_of(p)->drift_ppm;
    ns = ns < 0 ? 0 : ns > 3600 * 1000 * MS ? 3600 * 1000 * MS : ns;
    return sworld->now + ns / ppm * 1000000 + ns % ppm + 1000;
}

static instant wall_now(void *ctx)
{
    const struct process *p = ctx;
    return (instant){1700000000000 + sworld->now / MS + node_of(p)->wall_ms};
}

static int64_t ticks(void *ctx)
{
    return local_ns(ctx) / 1000;
}

/* --- threads --- */

void servers_sleep(span s)
{
    const struct process *p = servers_here();
    fiber_sleep(p->dead ? sworld->now : after_local(p, s.ms * MS));
}

void servers_sleep_some(void)
{
    fiber_sleep(sworld->now + (int64_t)servers_draw(2 * MS));
}

void servers_rest(void)
{
    fiber_sleep(sworld->now + MS);
}

void servers_await(const struct pstatement *s, mono end, span most)
{
    const struct process *p = servers_here();
    int64_t at = after_local(p, end.ns - local_ns(p)), soon = sworld->now + most.ms * MS;
    at = soon < at ? soon : at;
    if (s && s->answered && s->at < at)
        at = s->at;
    fiber_sleep(at);
}

static void wake_all(struct process *p, int64_t at)
{
    for (int i = 0; i < FIBERS; i++)
        fiber_wake(p->fibers[i], at);
}

static void wake_main(void *ctx)
{
    fiber_wake(((struct process *)ctx)->fibers[F_MAIN], sworld->now);
}

void servers_wake_commit(void)
{
    fiber_wake(servers_here()->fibers[F_COMMIT], sworld->now + (int64_t)servers_draw(MS / 10));
}

/* --- connections --- */

void servers_connected(struct pg *pg)
{
    struct process *p = servers_here();
    int i = 0;
    while (p->conns[i])
        must(++i < CONNS_MAX);
    p->conns[i] = pg;
}

void servers_disconnected(struct pg *pg)
{
    struct process *p = servers_process_of(pg);
    for (int i = 0; i < CONNS_MAX; i++)
        if (p->conns[i] == pg)
            p->conns[i] = NULL;
}

static void cut_connections(struct process *p)
{
    for (int i = 0; i < CONNS_MAX; i++)
        if (p->conns[i])
            servers_cut(p->conns[i]);
}

void servers_cut_all(void)
{
    for (int i = 0; i < NODES; i++)
        if (sworld->nodes[i].process)
            cut_connections(sworld->nodes[i].process);
}

int64_t servers_cut_off_for(const struct process *p)
{
    int64_t left = node_of(p)->cut_off_until - sworld->now;
    return left > 0 ? left : 0;
}

/* Whoever renews the lease of a loop that does nothing keeps all others out. */
void servers_leased(struct process *p, mono from)
{
    const struct snode *n = node_of(p);
    int64_t hung = sworld->now < n->hung_until ? sworld->now - n->hung_from : 0;
    PROMISE(!p->answers || hung <= n->lease.ms * MS, "PROGRESS",
            "server %d renews its lease, and its loop has hung for %ld ms", p->node,
            (long)(hung / MS));
    p->leased_from = from;
}

void servers_notify(void)
{
    for (int i = 0; i < NODES; i++)
        if (sworld->nodes[i].process)
            fiber_wake(sworld->nodes[i].process->fibers[F_MEMBER],
                       sworld->now + (int64_t)servers_draw(5 * MS));
}

/* --- the member and the other threads --- */

static void keep_seen(void *ctx, const struct pg_seen *seen)
{
    struct process *p = ctx;
    if (!p->dead)
        node_of(p)->seen = *seen;
}

static void changed(void *ctx)
{
    wake_main(ctx);
}

static void run_member(void *ctx)
{
    struct process *p = ctx;
    struct member *m = p->member;
    while (!p->dead && member_role_of(m) != MEMBER_OVER) {
        member_step(m);
        if (!p->dead && member_role_of(m) != MEMBER_OVER)
            servers_sleep((span){member_rest_ms(m)});
    }
    while (!p->dead)
        fiber_sleep(FIBER_NEVER);
}

static void run_commits(void *ctx)
{
    struct process *p = ctx;
    struct fiber *loop = p->fibers[F_MAIN]; /* it may wait for a commit after its end */
    while (!fiber_has_ended(loop)) {
        if (p->store)
            copy_commit_step(p->store);
        if (!fiber_has_ended(loop))
            fiber_sleep(FIBER_NEVER);
    }
}

NODISCARD static struct err look_into_inbox(struct process *p, struct pg **pg)
{
    if (!*pg)
        TRY(pg_open(&(struct pg_settings){.purpose = "inbox"}, pg));
    TRY(pg_double_inbox(*pg, p->inbox.rows, &p->inbox.count));
    p->inbox.read = p->inbox.count > 0;
    return err_none();
}

static void run_inbox(void *ctx)
{
    struct process *p = ctx;
    struct pg *pg = NULL;
    while (!p->dead) {
        if (p->answers && !p->stopping && !p->inbox.read && p->inbox.unanswered == 0) {
            struct err e = look_into_inbox(p, &pg);
            if (e.code != ERR_OK) {
                pg_close(pg);
                pg = NULL;
            }
            if (p->inbox.read)
                wake_main(p);
        }
        if (!p->dead)
            servers_sleep((span){20 + (int64_t)servers_draw(80)});
    }
    pg_close(pg);
}

/* --- the loop --- */

static bool has_lost(struct process *p)
{
    return p->member->state.lost;
}

/* A server that waits for the jobs. */
NODISCARD static struct err stand_by(struct process *p)
{
    while (!p->dead) {
        enum member_role role = member_role_of(p->member);
        if (role == MEMBER_OWNER)
            return err_none();
        if (role == MEMBER_OVER)
            return err_make(ERR_FENCED, "this server owns the jobs no more");
        if (has_lost(p))
            return err_make(ERR_POSTGRES_LOST, "a fail-over has lost commits");
        fiber_sleep(FIBER_NEVER);
    }
    return err_make(ERR_STORE, "killed");
}

/* A copy with batches that PostgreSQL lacks must not be among what the jobs are read from. */
static void check_copy(const struct process *p, const struct copy_mark *before)
{
    const struct prow *row = pdouble_row(pdouble, before->number);
    if (!before->own || p->accept || before->epoch <= sworld->pg.now.accepted)
        return;
    PROMISE(row && row->epoch == before->epoch, "LOST",
            "server %d goes on with a copy that has batch %lu of epoch %lu", p->node,
            before->number, before->epoch);
}

NODISCARD static struct err open_backend(struct process *p)
{
    struct snode *n = node_of(p);
    struct copy_mark before = n->copy.mark;
    p->epoch = p->member->state.epoch;
    const struct copy_settings copy = {.kept = &n->copy,
                                       .log = {.epoch = p->epoch,
                                               .owned_until = member_owned_until,
                                               .connections = member_connections,
                                               .ctx = p->member},
                                       .accept_loss = p->accept,
                                       .notify = wake_main,
                                       .ctx = p};
    TRY(copy_open(&copy, &p->store));
    check_copy(p, &before);
    p->acked = copy_durable(p->store);
    const struct env env = {.now = wall_now,
                            .ticks = ticks,
                            .ctx = p,
                            .rng = rng_from_seed(rng_next(&sworld->rng)),
                            .store = p->store};
    TRY(embedded_new(&sworld->settings, &env, &p->backend));
    p->answers = true;
    sworld->tally.owners++;
    trace_line("%d owns the jobs in epoch %lu, at batch %lu", p->node, p->epoch, p->acked);
    return err_none();
}

NODISCARD static struct err turn(struct process *p)
{
    clients_submit(p);
    if (pg_now().ns >= member_owned_until(p->member).ns)
        return err_make(ERR_FENCED, "this server owns the jobs no more");
    if (!p->stopping)
        clients_submit_inbox(p);
    TRY(backend_turn(p->backend));
    if (member_turned(p->member, copy_durable(p->store), copy_is_full(p->store)))
        backend_beat(p->backend);
    return err_none();
}

/* The wall clock may be anywhere: at most a second at a time. */
static void await_work(struct process *p)
{
    instant at;
    int64_t ms = 1000;
    if (backend_next_due(p->backend, &at)) {
        int64_t due = at.ms - wall_now(p).ms;
        ms = due < ms ? due : ms;
    }
    if (ms <= 0)
        fiber_sleep(sworld->now + 50000);
    else
        servers_sleep((span){ms});
}

NODISCARD static struct err serve(struct process *p)
{
    int64_t limit = 0;
    while (!p->dead) {
        TRY(turn(p));
        if (p->leaving && !p->stopping) {
            p->stopping = true;
            backend_stop(p->backend);
            limit = local_ns(p) + LEAVE_MS * MS;
        } else if (p->stopping && (backend_is_idle(p->backend) || local_ns(p) >= limit)) {
            break;
        } else {
            await_work(p);
        }
    }
    return err_none();
}

/* After the last answer. */
static void release(struct process *p)
{
    int64_t limit = local_ns(p) + node_of(p)->lease.ms * MS;
    p->answers = false;
    atomic_store(&p->member->release, true);
    fiber_wake(p->fibers[F_MEMBER], sworld->now);
    while (!p->dead && member_role_of(p->member) == MEMBER_OWNER && local_ns(p) < limit)
        servers_rest();
}

/* As member_raise_alarm. */
static void raise_alarm(struct process *p, const char *why)
{
    struct pg *pg;
    const struct pg_seen seen = {.epoch = p->epoch, .seq = p->acked};
    if (p->epoch == 0 || pg_open(&(struct pg_settings){.timeout = {5000}}, &pg).code != ERR_OK)
        return; /* whoever has not owned the jobs has raised it when it noticed */
    struct err e = pg_alarm_raise(pg, 0, "server", &seen, why);
    trace_line("%d raises the alarm: %s", p->node, e.code ? e.msg : "ok");
    pg_close(pg);
}

/* What follows, as server/serve_roles.c decides it. */
static void conclude(struct process *p, const struct err *e)
{
    struct snode *n = node_of(p);
    bool lost = e->code == ERR_POSTGRES_LOST || has_lost(p);
    trace_line("%d ends: %s, %s", p->node, e->code ? err_wire(e->code) : "ok",
               e->code ? e->msg : "");
    switch (handover_decide(e->code, lost, true)) {
    case HANDOVER_ALARM:
        PROMISE(sworld->pg.falls > 0, "LOST", "server %d says that commits are lost: %s", p->node,
                e->msg);
        sworld->tally.alarms++;
        raise_alarm(p, e->msg);
        n->accept = servers_chance(30); /* the operator has looked */
        sworld->tally.accepted += n->accept;
        n->start_at = sworld->now + (int64_t)servers_draw(3000 * MS);
        n->not_before_ms = 0;
        break;
    case HANDOVER_ANEW:
        sworld->tally.anew++;
        n->start_at = sworld->now + (int64_t)servers_draw(50 * MS);
        n->not_before_ms = p->answers && !p->member->state.stalled ? 0 : 2 * n->lease.ms;
        break;
    case HANDOVER_STOP:
        PROMISE(false, "I5", "server %d stops: %s", p->node, e->msg);
    }
}

static void run_main(void *ctx)
{
    struct process *p = ctx;
    struct err e = stand_by(p);
    if (e.code == ERR_OK)
        e = open_backend(p);
    if (e.code == ERR_OK)
        e = serve(p);
    if (e.code == ERR_OK && !p->dead) {
        release(p);
        e = err_make(ERR_FENCED, "it was given up");
    }
    if (!p->dead) {
        conclude(p, &e);
        process_kill(p);
    }
    backend_free(p->backend);
    if (p->store)
        store_close(p->store);
    p->store = NULL;
    fiber_wake(p->fibers[F_COMMIT], sworld->now);
}

/* --- beginning and end --- */

void process_start(int node)
{
    struct snode *n = &sworld->nodes[node];
    struct process *p = ALLOC(struct process);
    p->node = node;
    p->number = ++sworld->processes;
    p->accept = n->accept;
    n->accept = false;
    p->member = ALLOC(struct member);
    int64_t local = n->base_ns + sworld->now + sworld->now / 1000000 * n->drift_ppm;
    const struct member_settings settings = {.name = "server",
                                             .address = "address",
                                             .lease = n->lease,
                                             .accept = p->accept,
                                             .seen = n->seen,
                                             .keep = keep_seen,
                                             .not_before = {local + n->not_before_ms * MS},
                                             .patient = true,
                                             .changed = changed,
                                             .ctx = p};
    member_init(p->member, &settings, rng_next(&sworld->rng));
    p->fibers[F_MAIN] = fiber_new(run_main, p, sworld->now);
    p->fibers[F_MEMBER] = fiber_new(run_member, p, sworld->now + (int64_t)servers_draw(20 * MS));
    p->fibers[F_COMMIT] = fiber_new(run_commits, p, sworld->now);
    p->fibers[F_INBOX] = fiber_new(run_inbox, p, sworld->now);
    n->process = p;
    trace_line("%d starts", node);
}

void process_kill(struct process *p)
{
    p->dead = true;
    p->answers = false;
    clients_lost(p);
    cut_connections(p);
    wake_all(p, sworld->now);
}

bool process_has_ended(const struct process *p)
{
    bool ended = p->dead;
    for (int i = 0; i < FIBERS; i++)
        ended &= fiber_has_ended(p->fibers[i]);
    return ended;
}

void process_free(struct process *p)
{
    for (int i = 0; i < FIBERS; i++)
        fiber_free(p->fibers[i]);
    member_fini(p->member);
    free(p->member);
    free(p);
}
