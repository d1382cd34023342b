/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that wait for others. What a blocked job still waits for is part of its state; who waits for
 * a job is an index of pairs, made from that. When a job ends, those who wait for it are looked at
 * before the turn is committed, so that the end of the one and what follows for the others
 * are one batch. If there are very many of them the rest is done in the next turns, and a record
 * says so until it is: the job itself may be gone by then. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/depend.h"
#include "core/engine_undo_internal.h"

/* --- the index --- */

/* By a hash, for a pair of ids is longer than a key. Should two jobs that one waits for ever have
 * the same, the pair is looked at twice, which does no harm. */
static uint64_t hash_of(const struct engine *e, struct id id)
{
    char bytes[DEPEND_ID_LEN];
    id_encode(id, (uint8_t *)bytes);
    return strmap_hash(e->unique_seed, (struct str){bytes, sizeof bytes});
}

static struct btree_entry pair_of(const struct engine *e, struct id awaited, struct id who)
{
    return (struct btree_entry){hash_of(e, awaited), who.hi, who.lo, 0};
}

void engine_blocked_add(struct engine *e, struct queue *q, const struct job *job)
{
    struct str ids = job->state.extras.waits_for;
    must(job->state.status == STATUS_BLOCKED && (ids.len || job->state.extras.held));
    q->counts[STATUS_BLOCKED]++;
    engine_odd_set(e, job->id, ODD_BLOCKED);
    engine_waits_hold(e, job);
    for (size_t i = 0; i < depend_count(ids); i++)
        btree_put(&e->waiting_for, pair_of(e, depend_at(ids, i), job->id));
}

void engine_blocked_remove(struct engine *e, struct queue *q, const struct job *job)
{
    struct str ids = job->state.extras.waits_for;
    q->counts[STATUS_BLOCKED]--;
    engine_odd_clear(e, job->id, ODD_BLOCKED);
    engine_waits_free(e, job);
    for (size_t i = 0; i < depend_count(ids); i++)
        btree_remove(&e->waiting_for, pair_of(e, depend_at(ids, i), job->id), NULL);
}

/* --- the beginning of a job --- */

/* Whether the end of one of them, if it has come, is as good as its completion. Gone is one that
 * was deleted before it ended. */
static bool is_met(const struct job_options *o, enum status status)
{
    if (status == STATUS_COMPLETED)
        return true;
    return (status == STATUS_DEAD || status == STATUS_GONE) &&
           (o->depend_when == DEPEND_ALL_ENDED || o->depend_death == DEPEND_RUN);
}

/* --- ends of which dependants are to be notified --- */

/* A job has ended; those who wait for it are notified in the order of their ids. */
struct settling {
    struct list node; /* in engine->settling */
    uint64_t seq;     /* of its record */
    struct id id;
    enum depend_end end;
    struct id at, upto; /* notified last; the last to be notified */
    bool stored;
};

static void add_settling(struct engine *e, const struct settling *what)
{
    struct settling *s = ALLOC(struct settling);
    *s = *what;
    list_init(&s->node);
    list_append(&e->settling, &s->node);
}

/* The last of those who may wait for it; false if nobody does. */
static bool last_dependant(const struct engine *e, struct id id, struct btree_entry *last)
{
    if (e->waiting_for.count == 0)
        return false;
    struct btree_entry key = pair_of(e, id, (struct id){UINT64_MAX, UINT64_MAX});
    return btree_before(&e->waiting_for, key, last) && last->major == key.major;
}

bool engine_depend_is_awaited(const struct engine *e, struct id id)
{
    struct btree_entry last;
    return last_dependant(e, id, &last);
}

void engine_depend_ended(struct engine *e, struct id id, enum depend_end end)
{
    struct btree_entry last;
    if (!last_dependant(e, id, &last))
        return;
    struct settling s = {.seq = e->settle_seq++, .id = id, .end = end, .upto = {last.hi, last.lo}};
    add_settling(e, &s);
}

bool engine_has_dependants(const struct engine *e)
{
    return e->waiting_for.count > 0;
}

void engine_gone(struct engine *e, struct id id)
{
    engine_depend_ended(e, id, DEPEND_GONE);
}

void engine_depend_tell(struct engine *e, struct id id, enum depend_end end, struct id who)
{
    struct settling s = {.seq = e->settle_seq++, .id = id, .end = end, .upto = who};
    s.at = who.lo ? (struct id){who.hi, who.lo - 1} : (struct id){who.hi - 1, UINT64_MAX};
    add_settling(e, &s);
}

void engine_depend_hold_back(struct job *job)
{
    job->state.extras.held = 1;
    job->state.status = lifecycle_move(STATUS_SCHEDULED, EVENT_BLOCK);
}

struct err engine_depend_begin(struct engine *e, instant now, const struct enqueued *earlier,
                               struct arena *a, struct job *job)
{
    struct str given = job->options.depends_on;
    struct str ids = depend_new(a, depend_count(given)), left = depend_new(a, depend_count(given));
    for (size_t i = 0; i < depend_count(given); i++) {
        struct id id = depend_at(given, i);
        enum status status;
        uint32_t index;
        if (depend_is_earlier(id, &index)) {
            id = earlier[index].job.id;
            status = earlier[index].job.state.status;
        } else {
            TRY(engine_depend_status(e, now, id, &status));
        }
        if (depend_has(ids, id))
            continue;
        depend_add(&ids, id);
        if (is_met(&job->options, status))
            continue;
        depend_add(&left, id);
        if (status == STATUS_DEAD || status == STATUS_GONE)
            engine_depend_tell(e, id, status == STATUS_DEAD ? DEPEND_DEAD : DEPEND_GONE, job->id);
    }
    job->options.depends_on = ids;
    job->state.extras.waits_for = left;
    if (left.len)
        job->state.status = lifecycle_move(STATUS_SCHEDULED, EVENT_BLOCK);
    return err_none();
}

struct err engine_depend_again(struct engine *e, instant now, const struct job *job,
                               struct arena *a, struct str *waits_for)
{
    struct str ids = job->state.extras.waits_for;
    *waits_for = depend_new(a, depend_count(ids));
    for (size_t i = 0; i < depend_count(ids); i++) {
        enum status status;
        struct err err = engine_depend_status(e, now, depend_at(ids, i), &status);
        if (err.code != ERR_OK && err.code != ERR_NOT_FOUND)
            return err;
        if (err.code == ERR_OK && status != STATUS_GONE && !is_met(&job->options, status))
            depend_add(waits_for, depend_at(ids, i));
    }
    return err_none();
}

struct err engine_depend_resume(struct engine *e, instant now, struct job *job, struct arena *a)
{
    struct str left;
    TRY(engine_depend_again(e, now, job, a, &left));
    for (size_t i = 0; i < depend_count(left); i++) {
        enum status status;
        TRY(engine_depend_status(e, now, depend_at(left, i), &status));
        if (status == STATUS_DEAD)
            engine_depend_tell(e, depend_at(left, i), DEPEND_DEAD, job->id);
    }
    job->state.extras.waits_for = left;
    return err_none();
}

void engine_restore_ended(struct engine *e, uint64_t seq, struct id id, enum depend_end end)
{
    struct settling s = {
        .seq = seq, .id = id, .end = end, .upto = {UINT64_MAX, UINT64_MAX}, .stored = true};
    add_settling(e, &s);
    if (seq >= e->settle_seq)
        e->settle_seq = seq + 1;
}

void engine_depend_fini(struct engine *e)
{
    while (!list_is_empty(&e->settling)) {
        struct settling *s = LIST_OF(e->settling.next, struct settling, node);
        list_unlink(&s->node);
        free(s);
    }
    btree_fini(&e->waiting_for);
    engine_waits_fini(e);
}

/* --- notifying dependants --- */

static const char *words_of(enum depend_end end)
{
    return end == DEPEND_GONE      ? "has not completed and is no longer there"
           : end == DEPEND_REMOVED ? "was deleted"
                                   : "is dead";
}

void engine_unblock(struct engine *e, instant now, struct queue *q, struct job *job)
{
    struct job_state *s = &job->state;
    s->ready_at = instant_max(s->ready_at, now);
    s->reason = (struct str){0};
    struct job_event ev = engine_event(EVENT_UNBLOCK, STATUS_BLOCKED, job);
    ev.ready_at = s->ready_at;
    engine_changed(e, now, &ev);
    s->status = lifecycle_move(STATUS_BLOCKED, EVENT_UNBLOCK);
    if (s->ready_at.ms <= now.ms) {
        ev = engine_event(EVENT_DUE, s->status, job);
        ev.ready_at = s->ready_at;
        engine_changed(e, now, &ev);
        s->status = lifecycle_move(s->status, EVENT_DUE);
    }
    engine_wait_add(e, q, engine_rank(s), job->id, engine_val(job, true), s->ready_at, now,
                    engine_type(e, q, job->type));
}

/* The job no longer waits for `id`. */
static void meet(struct engine *e, instant now, struct queue *q, struct id id, struct job *job,
                 struct arena *a)
{
    struct job_state *s = &job->state;
    char text[ID_TEXT_LEN];
    id_format(id, text);
    btree_remove(&e->waiting_for, pair_of(e, id, job->id), NULL);
    s->extras.waits_for = depend_without(s->extras.waits_for, id, a);
    if (s->extras.waits_for.len == 0 && !s->extras.held) {
        q->counts[STATUS_BLOCKED]--;
        engine_odd_clear(e, job->id, ODD_BLOCKED);
        engine_unblock(e, now, q, job);
    } else if (s->reason.len && memmem(s->reason.at, s->reason.len, text, sizeof text)) {
        s->reason = (struct str){0}; /* "blocked: job ... is dead" no longer holds */
    }
    e->port.put_state(e->port.ctx, job->id, s);
}

static void notify_one(struct engine *e, instant now, const struct settling *t, struct job *job,
                       const struct job_extent *extent, struct arena *a)
{
    const struct job_options *o = &job->options;
    struct queue *q = engine_queue_find(e, job->queue);
    char text[ID_TEXT_LEN], words[RETRY_REASON_MAX];
    must(q);
    if (is_met(o, t->end == DEPEND_COMPLETED ? STATUS_COMPLETED : STATUS_DEAD)) {
        meet(e, now, q, t->id, job, a);
        return;
    }
    /* A task has a deadline, by which it ends; its API knows no other end of one that waits. */
    bool die =
        o->depend_death == DEPEND_DIE || (t->end == DEPEND_GONE && job_kind(job) != KIND_TASK);
    id_format(t->id, text);
    snprintf(words, sizeof words, "%s: job %.25s, which it %s for, %s", die ? "dead" : "blocked",
             text, die ? "waited" : "waits", words_of(t->end));
    job->state.reason = str_from(words);
    if (die)
        engine_end_waiting(e, now, job, extent, EVENT_ABANDON, RESOLUTION_DEPENDENCY);
    else
        e->port.put_state(e->port.ctx, job->id, &job->state);
}

/* The index only says that this job may wait for it; its own state decides. */
static struct err notify(struct engine *e, instant now, const struct settling *t, struct id who)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct err err = e->port.load_job(e->port.ctx, who, PORT_STATE, &scratch, &job, &extent);
    if (err.code == ERR_OK && job.state.status == STATUS_BLOCKED &&
        depend_has(job.state.extras.waits_for, t->id))
        notify_one(e, now, t, &job, &extent, &scratch);
    arena_fini(&scratch);
    return err;
}

/* The next job that waits for it; false if there is none left. */
static bool next_to_notify(const struct engine *e, const struct settling *t, struct id *who)
{
    struct btree_entry next, at = pair_of(e, t->id, t->at);
    if (!btree_after(&e->waiting_for, at, &next) || next.major != at.major)
        return false;
    *who = (struct id){next.hi, next.lo};
    return id_cmp(*who, t->upto) <= 0;
}

static struct err settle(struct engine *e, instant now, struct settling *t, size_t *most)
{
    struct id who;
    while (*most > 0 && next_to_notify(e, t, &who)) {
        TRY(notify(e, now, t, who));
        t->at = who;
        --*most;
    }
    if (*most == 0 && next_to_notify(e, t, &who))
        return err_none();
    if (t->stored)
        e->port.delete_ended(e->port.ctx, t->seq);
    list_unlink(&t->node);
    free(t);
    return err_none();
}

struct err engine_settle(struct engine *e, instant now, size_t most, bool *more)
{
    while (most > 0 && !list_is_empty(&e->settling))
        TRY(settle(e, now, LIST_OF(e->settling.next, struct settling, node), &most));
    for (struct list *n = e->settling.next; n != &e->settling; n = n->next) {
        struct settling *t = LIST_OF(n, struct settling, node);
        if (!t->stored)
            e->port.put_ended(e->port.ctx, t->seq, t->id, t->end);
        t->stored = true;
    }
    *more = !list_is_empty(&e->settling);
    return err_none();
}
