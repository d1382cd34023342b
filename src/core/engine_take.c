/* SPDX-License-Identifier: Apache-2.0 */

/* Handing out: which taker gets which ready job. A taker with room is pending in a turn in which
 * something may have changed for it, and waits otherwise. After a dispatch no queue has both a
 * ready job and a taker that waits for it (promise I5). */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_grace.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"
#include "core/trace.h"

/* Queues of a taker that are looked through about as fast as one job is handed out. */
#define SUBS_PER_STEP 100

#define SPARE_LIVES_MAX ((size_t)4096)

/* --- runs --- */

/* One that is kept, or a new one. */
static struct live *spare_live(struct engine *e)
{
    struct list *n = e->spare_lives.next;
    if (n == &e->spare_lives)
        return ALLOC(struct live);
    struct live *l = LIST_OF(n, struct live, held);
    list_unlink(n);
    e->spare_count--;
    *l = (struct live){0};
    return l;
}

/* Runs begin and end all the time: some are kept for those that come. */
static void keep_live(struct engine *e, struct live *l)
{
    if (e->spare_count == SPARE_LIVES_MAX) {
        free(l);
        return;
    }
    list_unlink(&l->held);
    list_append(&e->spare_lives, &l->held);
    e->spare_count++;
}

struct live *engine_live_new(struct engine *e, struct id id, struct queue *q, enum job_kind kind)
{
    struct live *l = spare_live(e);
    l->id = id;
    l->queue = q;
    l->kind = kind;
    engine_snapshot_moved(e, id);
    list_init(&l->held);
    idmap_put(&e->live, id, l);
    must(btree_put(&e->live_order, (struct btree_entry){.hi = id.hi, .lo = id.lo}));
    q->counts[STATUS_IN_FLIGHT]++;
    q->tasks[STATUS_IN_FLIGHT] += kind == KIND_TASK;
    if (q->limits)
        engine_queue_refresh(e, q);
    return l;
}

void engine_take_leave(struct engine *e, struct live *l)
{
    struct take_group *g = l->group;
    if (g && g == e->leases)
        list_unlink(&l->held);
    if (!g || --g->live > 0)
        return;
    /* The groups of this very turn are written, and dropped if empty, by engine_flush. */
    if (g == e->group || g == e->leases)
        return;
    e->port.delete_takes(e->port.ctx, g->seq);
    free(g);
}

void engine_live_end(struct engine *e, struct live *l)
{
    must(idmap_remove(&e->live, l->id) == l);
    must(btree_remove(&e->live_order, (struct btree_entry){.hi = l->id.hi, .lo = l->id.lo}, NULL));
    l->queue->counts[STATUS_IN_FLIGHT]--;
    l->queue->tasks[STATUS_IN_FLIGHT] -= l->kind == KIND_TASK;
    if (l->key)
        engine_key_end(e, l->key);
    engine_budget_end(e, l->budgets);
    if (l->queue->limits) {
        engine_queue_refresh(e, l->queue);
        engine_gangs_limits(e, l->queue);
    }
    engine_in_flight_changed(e);
    engine_lease_drop(e, l);
    engine_overtime_drop(e, l);
    engine_repeat_remove(e, l);
    engine_take_leave(e, l);
    if (l->taker) {
        list_unlink(&l->held);
        l->taker->held_count--;
        engine_taker_pending(e, l->taker);
        engine_gangs_room(e, l->taker);
    }
    engine_crew_end(l);
    engine_worker_unref(e, l->worker);
    free(l->extras);
    free(l->trace);
    keep_live(e, l);
}

/* --- waking --- */

/* The oldest waiter of a kind that the queue has a job for: they may all have to stay off a
 * waiter's node. */
static struct sub *oldest_waiter(const struct queue *q, const struct list *waiters)
{
    for (struct list *n = waiters->next; n != waiters; n = n->next) {
        struct sub *s = LIST_OF(n, struct sub, node);
        struct btree_entry first;
        if (engine_ready_first(q, s->taker->kind, engine_taker_node(s->taker), &first))
            return s;
    }
    return NULL;
}

/* The taker that has waited longest for this queue, by its name or for all queues. */
static struct taker *next_waiter(struct engine *e, struct queue *q, enum job_kind k)
{
    struct sub *named = oldest_waiter(q, &q->waiters[k]);
    struct sub *any = oldest_waiter(q, &e->all_waiters[k]);
    if (!named)
        return any ? any->taker : NULL;
    if (!any)
        return named->taker;
    return named->taker->ticket < any->taker->ticket ? named->taker : any->taker;
}

/* How many ready ones may be handed out whatever budgets have. */
static uint64_t free_jobs(const struct queue *q, enum job_kind k)
{
    uint64_t tasks = q->tasks[STATUS_READY];
    return k == KIND_TASK
               ? tasks
               : q->counts[STATUS_READY] - q->gang_ready - q->parked.count - q->lined - tasks;
}

/* Wakes takers that wait for this queue: one per job, for should a taker have room for more, the
 * others find nothing and wait again. False if there are none. */
static bool wake_for(struct engine *e, instant now, struct queue *q, enum job_kind k)
{
    bool woken = false;
    struct taker *t;
    struct line *line = NULL;
    uint64_t room = q->limits ? engine_limits_room(q->limits) : UINT64_MAX;
    uint64_t jobs = free_jobs(q, k);
    for (; q->has_head[k] && room > 0 && (t = next_waiter(e, q, k)); room--, jobs--) {
        if (jobs == 0)
            jobs = engine_line_next(e, now, q, &line);
        if (jobs == 0)
            break;
        engine_taker_idle(e, t);
        engine_taker_pending(e, t);
        woken = true;
    }
    return woken;
}

/* Wakes takers that wait for queues that got ready jobs; false if there are none. */
static bool wake_waiters(struct engine *e, instant now)
{
    bool woken = false;
    for (struct list *n = e->dirty.next; n != &e->dirty; n = n->next)
        for (enum job_kind k = 0; k < JOB_KINDS; k++)
            woken |= wake_for(e, now, LIST_OF(n, struct queue, dirty_node), k);
    return woken;
}

/* While no more may be in flight: whoever may have one of these jobs later stands in line for a
 * place, so that nobody has to look for them when there is one. */
static void wake_all_waiters(struct engine *e)
{
    for (struct list *n = e->dirty.next; n != &e->dirty; n = n->next) {
        struct queue *q = LIST_OF(n, struct queue, dirty_node);
        struct taker *t;
        for (enum job_kind k = 0; k < JOB_KINDS; k++) {
            while (q->has_head[k] && (t = next_waiter(e, q, k))) {
                engine_taker_idle(e, t);
                engine_taker_pending(e, t);
            }
        }
    }
}

static void forget_dirty(struct engine *e)
{
    while (!list_is_empty(&e->dirty)) {
        struct queue *q = LIST_OF(e->dirty.next, struct queue, dirty_node);
        list_unlink(&q->dirty_node);
        q->dirty = false;
        engine_queue_drop_if_unused(e, q);
    }
}

/* --- handing out --- */

/* Goes on past the first queue only if its first job must stay off the taker's node. */
static bool best_of_all(struct engine *e, struct taker *t, struct queue **q,
                        struct btree_entry *entry)
{
    struct btree_entry head;
    const struct btree *heads = &e->heads[t->kind];
    bool found = false, more = btree_first(heads, &head);
    while (more && (!found || engine_is_before(&head, entry))) {
        struct btree_entry first;
        struct queue *one = e->queues[head.val];
        if (engine_ready_first(one, t->kind, engine_taker_node(t), &first) &&
            (!found || engine_is_before(&first, entry))) {
            *entry = first;
            *q = one;
            found = true;
        }
        if (found && !engine_is_before(&head, entry))
            return true;
        more = btree_after(heads, head, &head);
    }
    return found;
}

/* The job of lowest (rank, id) in the taker's queues. */
static bool best_for(struct engine *e, struct taker *t, struct queue **q, struct btree_entry *entry)
{
    if (t->sub_count == 1 && !t->subs[0].queue)
        return best_of_all(e, t, q, entry);
    bool found = false;
    for (size_t i = 0; i < t->sub_count; i++) {
        struct btree_entry first;
        if (!engine_ready_first(t->subs[i].queue, t->kind, engine_taker_node(t), &first))
            continue;
        if (!found || engine_is_before(&first, entry)) {
            *entry = first;
            *q = t->subs[i].queue;
            found = true;
        }
    }
    return found;
}

static void note_take(struct engine *e, struct live *l)
{
    if (!e->group) {
        e->group = ALLOC(struct take_group);
        e->group->seq = e->take_seq++;
    }
    ALLOC_GROW(e->takes, e->take_count, e->take_cap, 64);
    e->takes[e->take_count++] = (struct take){l->id, l->run};
    l->group = e->group;
    e->group->live++;
}

/* A claim outlives this process, so all of its lease is stored. A stream ends with the process; of
 * its jobs it is enough to store that they were taken. */
static void hold(struct engine *e, struct taker *t, struct live *l, struct handout *h)
{
    if (!t->claim) {
        l->taker = t;
        t->held_count++;
        list_append(&t->held, &l->held);
        note_take(e, l);
        return;
    }
    engine_lease_set(e, l->taken_at, l, t->lease);
    engine_repeat_add(e, l, t->key);
    h->lease_end = engine_lease_end(e, l);
    h->job.state.token = l->token;
    h->job.state.lease_end = h->lease_end;
    h->job.state.worker = (struct str){l->worker->bytes, l->worker->len};
    engine_lease_store(e, l);
}

/* The job with payload and, if there is one, its checkpoint. */
static struct err load_handout(struct engine *e, struct arena *a, struct btree_entry entry,
                               struct handout *h, struct job_extent *extent)
{
    struct id id = {entry.hi, entry.lo};
    unsigned want = PORT_PAYLOAD | (entry.val & READY_VAL_STATE ? PORT_STATE : 0);
    TRY(e->port.load_job(e->port.ctx, id, want, a, &h->job, extent));
    h->checkpoint = (struct note){0};
    if (h->job.state.extras.notes & NOTE_BIT(NOTE_CHECKPOINT))
        TRY(e->port.load_note(e->port.ctx, id, NOTE_CHECKPOINT, a, &h->checkpoint));
    return err_none();
}

/* Takes the job out of all that a ready job is in, and charges the limits of its queue. */
static void leave_ready(struct engine *e, instant now, struct queue *q, const struct job *job)
{
    must(engine_ready_remove(e, q, engine_rank(&job->state), job->id));
    engine_avoid_end(e, job->id);
    engine_gang_taken(e, job->id);
    engine_fold_close(e, job);
    if (q->limits)
        engine_limits_draw(e, now, q->limits);
}

/* The run that begins now; what the job's state no longer says once it runs is cleared in it. */
static struct live *live_of(struct engine *e, instant now, struct arena *a, const struct taker *t,
                            struct queue *q, struct job *job, const struct job_extent *extent)
{
    struct job_state *s = &job->state;
    struct live *l = engine_live_new(e, job->id, q, job_kind(job));
    l->token = rng_next(&e->rng) | 1;
    l->taken_at = now;
    l->lease_due = l->limit_due = INSTANT_NONE;
    l->ready_at = s->ready_at;
    l->ready_since = engine_ready_since(job, now);
    l->failed_at = s->failed_at;
    l->completed_retention = job->completed_retention;
    l->dead_retention = job->dead_retention;
    l->retain_until = job->options.retain_until;
    l->run = s->runs;
    l->attempts = s->attempts;
    l->forgiven = s->forgiven;
    l->losses = s->losses;
    l->priority = s->priority;
    l->has_state = extent->has_state;
    l->payload_apart = extent->payload_apart;
    l->worker = t->worker;
    l->worker->refs++;
    engine_crew_begin(q, l);
    l->unique = engine_unique_ref(e, job);
    l->type = engine_type(e, q, job->type);
    s->extras.node = arena_copy(a, engine_taker_node(t));
    engine_grace_clear(&s->extras);
    l->extras = job_extras_new(&s->extras);
    l->trace = trace_copy(job->options.traceparent);
    l->key = engine_key_begin(e, q, job);
    l->member_of = engine_group_of(e, job);
    l->budgets = engine_budget_begin(e, now, job->id);
    engine_unique_move(e, l->unique, job->id, STATUS_READY, STATUS_IN_FLIGHT);
    return l;
}

static void announce_take(struct engine *e, instant now, const struct taker *t,
                          const struct live *l)
{
    struct job_event ev = engine_live_event(e, EVENT_TAKE, l);
    ev.from = STATUS_READY;
    /* It was taken before, and came back without a failure: that is no wait of its own. */
    bool back = l->extras && l->extras->returned_at.ms == l->ready_since.ms;
    ev.since = back ? INSTANT_NONE : l->ready_since;
    ev.waited_from = l->ready_since;
    if (t->claim)
        ev.lease_end = engine_overtime_ends(e, l, instant_add(now, t->lease));
    engine_changed(e, now, &ev);
}

void engine_trace_handout(const struct engine *e, struct arena *a, struct handout *h)
{
    struct str *trace = &h->job.options.traceparent;
    if (e->settings.trace_runs && trace_is_sampled(*trace))
        *trace = trace_of_run(a, *trace, h->job.id, h->run);
}

struct err engine_run_begin(struct engine *e, instant now, struct arena *a, struct taker *t,
                            struct queue *q, struct btree_entry entry, struct handout *h)
{
    struct job_extent extent;
    struct job_state *s = &h->job.state;
    TRY(load_handout(e, a, entry, h, &extent));
    leave_ready(e, now, q, &h->job);
    struct live *l = live_of(e, now, a, t, q, &h->job, &extent);
    engine_overtime_begin(e, now, l, q, t->max_run, &h->job.options);
    announce_take(e, now, t, l);
    s->status = lifecycle_move(STATUS_READY, EVENT_TAKE);
    s->dequeued_at = now;
    s->runs++;
    h->run = l->run;
    h->token = l->token;
    h->lease_end = INSTANT_NONE;
    hold(e, t, l, h);
    engine_trace_handout(e, a, h);
    return err_none();
}

enum choice { CHOICE_NONE, CHOICE_JOB, CHOICE_LATER };

/* The best job that may be handed out. Those before it whose keys are full are parked, and lines
 * whose budgets cannot pay wait; if they are too many for one dispatch, it will be known later. */
static struct err choose(struct engine *e, instant now, struct taker *t, struct queue **q,
                         struct btree_entry *entry, enum choice *choice)
{
    for (bool parked = true; parked;) {
        *choice = best_for(e, t, q, entry) ? CHOICE_JOB : CHOICE_NONE;
        if (*choice == CHOICE_NONE)
            return err_none();
        bool spent = engine_keys_budget_spent(e);
        bool pays = engine_line_pays(e, now, *q, *entry, !spent);
        if (spent && (!pays || (*q)->full_keys > 0)) {
            *choice = CHOICE_LATER;
            return err_none();
        }
        if (pays)
            TRY(engine_key_check(e, *q, *entry, &parked));
        else
            e->moves++;
    }
    return err_none();
}

bool engine_hand_outs_budget_spent(const struct engine *e)
{
    const struct engine_settings *s = &e->settings;
    uint64_t jobs = s->hand_out_max ? s->hand_out_max : ENGINE_HAND_OUT_MAX;
    uint64_t bytes = s->hand_out_bytes_max ? s->hand_out_bytes_max : ENGINE_HAND_OUT_BYTES_MAX;
    return e->given >= jobs || e->given_bytes >= bytes;
}

/* Choosing among very many queues is work, too. */
static void charge(struct engine *e, const struct taker *t, const struct handout *h)
{
    e->given += 1 + t->sub_count / SUBS_PER_STEP;
    e->given_bytes += handout_bytes(h);
}

struct err engine_give(struct engine *e, instant now, struct arena *a, struct taker *t,
                       struct queue *q, struct btree_entry entry)
{
    if (t->claim) {
        if (!t->got)
            t->got = arena_get(a, t->limit * sizeof *t->got);
        TRY(engine_run_begin(e, now, a, t, q, entry, &t->got[t->got_count]));
        engine_ready_taken(e, q, entry.major);
        charge(e, t, &t->got[t->got_count++]);
        return err_none();
    }
    struct handout *h = arena_get(a, sizeof *h);
    TRY(engine_run_begin(e, now, a, t, q, entry, h));
    engine_ready_taken(e, q, entry.major);
    charge(e, t, h);
    e->sink.deliver(e->sink.ctx, t->ctx, h);
    return err_none();
}

/* Gives t one job, if there is one for it. */
static struct err serve_one(struct engine *e, instant now, struct arena *a, struct taker *t,
                            enum choice *choice)
{
    struct queue *q = NULL;
    struct btree_entry entry;
    TRY(choose(e, now, t, &q, &entry, choice));
    return *choice == CHOICE_JOB ? engine_give(e, now, a, t, q, entry) : err_none();
}

void engine_flush(struct engine *e, instant now)
{
    engine_leases_flush(e, now);
    if (!e->group)
        return;
    if (e->group->live == 0) {
        free(e->group);
    } else {
        e->port.put_takes(e->port.ctx, e->group->seq, now, e->takes, e->take_count);
    }
    e->group = NULL;
    e->take_count = 0;
}

/* A claim that got jobs is answered with this turn, although more may come. */
static void answer_what_was_got(struct engine *e)
{
    for (struct list *n = e->pending.next, *next; n != &e->pending; n = next) {
        struct taker *t = LIST_OF(n, struct taker, pending);
        next = n->next;
        if (t->got_count > 0)
            engine_claim_answer(e, t);
    }
}

static void move_all(struct list *from, struct list *to)
{
    while (!list_is_empty(from)) {
        struct list *n = from->next;
        list_unlink(n);
        list_append(to, n);
    }
}

/* Takers for whom there was no job may still have got members of a gang. */
static void settle_unserved(struct engine *e, instant now)
{
    while (!list_is_empty(&e->unserved)) {
        struct taker *t = LIST_OF(e->unserved.next, struct taker, pending);
        list_unlink(&t->pending);
        t->state = TAKER_IDLE;
        engine_taker_rest(e, now, t);
    }
}

/* No more may be in flight: those with room stand in line, but for claims that are due. */
static void stall(struct engine *e, instant now)
{
    wake_all_waiters(e);
    while (!list_is_empty(&e->pending)) {
        struct taker *t = LIST_OF(e->pending.next, struct taker, pending);
        if (t->claim && (t->got_count > 0 || t->wait_end.ms <= now.ms)) {
            engine_claim_answer(e, t);
            continue;
        }
        list_unlink(&t->pending);
        list_append(&e->stalled, &t->pending);
        if (!t->wait_armed)
            engine_taker_arm(e, t);
    }
}

static bool may_give(const struct engine *e)
{
    return !engine_hand_outs_budget_spent(e) && engine_in_flight_room(e) > 0;
}

static struct taker *next_pending(const struct engine *e)
{
    const struct list *from = list_is_empty(&e->stalled) ? &e->pending : &e->stalled;
    return list_is_empty(from) ? NULL : LIST_OF(from->next, struct taker, pending);
}

/* Serves pending takers in turn. One whose job will be known later stays pending, and does not hold
 * up the others. */
static struct err serve_pending(struct engine *e, instant now, struct arena *a)
{
    struct list later;
    struct err err = err_none();
    struct taker *t;
    list_init(&later);
    while (err.code == ERR_OK && may_give(e) && (t = next_pending(e))) {
        enum choice choice;
        err = serve_one(e, now, a, t, &choice);
        if (err.code != ERR_OK)
            break;
        list_unlink(&t->pending);
        /* To the end of the list after each job, so that takers with much room do not
         * starve the others. */
        if (choice == CHOICE_LATER) {
            list_append(&later, &t->pending);
        } else if (engine_taker_has_room(t)) {
            list_append(choice == CHOICE_JOB ? &e->pending : &e->unserved, &t->pending);
        } else {
            t->state = TAKER_IDLE;
            engine_taker_rest(e, now, t);
        }
    }
    move_all(&later, &e->pending);
    return err;
}

/* Gives takers single jobs, until there are none for them. */
static struct err serve_all(struct engine *e, instant now, struct arena *a)
{
    bool woken, offered;
    unsigned pass = 1;
    do {
        woken = wake_waiters(e, now);
        TRY(serve_pending(e, now, a));
        offered = engine_budgets_release(e, now, pass++);
        if (offered)
            move_all(&e->unserved, &e->pending); /* there may be a job for them now */
        /* A taker that was woken for one queue may have found a better job in
         * another: then someone else must be woken for the first. */
    } while ((woken || offered) && may_give(e) && !engine_keys_budget_spent(e));
    return err_none();
}

struct err engine_dispatch(struct engine *e, instant now, struct arena *a)
{
    e->given = e->given_bytes = 0;
    engine_keys_release(e);
    engine_budgets_release(e, now, 0);
    TRY(engine_gangs_dispatch(e, now, a, false));
    TRY(serve_all(e, now, a));
    if (!engine_hand_outs_budget_spent(e))
        TRY(engine_gangs_dispatch(e, now, a, true));
    TRY(serve_pending(e, now, a)); /* takers that got members of a gang and have room left */
    if (engine_gangs_budget_spent(e) || engine_hand_outs_budget_spent(e))
        move_all(&e->unserved, &e->pending); /* there may be a gang for them */
    else
        settle_unserved(e, now);
    if (engine_in_flight_room(e) == 0)
        stall(e, now);
    else if (engine_dispatch_again(e))
        answer_what_was_got(e);
    if (!engine_keys_budget_spent(e) && !engine_hand_outs_budget_spent(e))
        forget_dirty(e);
    engine_flush(e, now);
    engine_limits_flush(e);
    return err_none();
}
