/* SPDX-License-Identifier: Apache-2.0 */

/* What the waiting jobs of a queue wait for, counted (core/backlog.h). Nothing is gone through that
 * grows with the number of jobs: of keys, lines and takers, which may be many, some are looked at,
 * and the work for one page is limited. */

#include <stdlib.h>

#include "base/must.h"
#include "core/backlog.h"
#include "core/engine_budget_internal.h"

/* For one page, in things looked at, which takes some milliseconds; a job that is read for its
 * concurrency key counts for many. */
#define STEPS_MAX     20000
#define STEPS_OF_READ 100

/* Who asks for jobs: how many have room, and the node on which all of these are. */
struct crowd {
    uint32_t workers, with_room;
    struct str node; /* iff same_node and with_room */
    bool same_node;
    bool cut; /* there are more, which were not looked at */
};

struct look {
    struct engine *e;
    instant now;
    struct arena *arena;
    struct backlog *out;
    struct crowd crowd[JOB_KINDS]; /* of takers of all queues; then with those of the queue */
    size_t steps;
    struct backlog_reason reasons[BACKLOG_REASONS_MAX]; /* of the queue that is looked at */
    size_t reason_count;
};

/* --- reasons --- */

static struct backlog_reason *add(struct look *l, enum obstacle_kind kind, uint64_t jobs)
{
    must(l->reason_count < BACKLOG_REASONS_MAX);
    struct backlog_reason *r = &l->reasons[l->reason_count++];
    *r = (struct backlog_reason){.kind = kind, .jobs = jobs, .until = INSTANT_NONE};
    return r;
}

static void add_if(struct look *l, enum obstacle_kind kind, uint64_t jobs)
{
    if (jobs)
        add(l, kind, jobs);
}

/* Things of one kind, by name: those with the most jobs, and the rest together. */
struct named {
    struct str name;
    uint64_t jobs;
};

struct names {
    struct named at[BACKLOG_LOOK_MAX];
    size_t count;
};

static void names_add(struct names *n, struct str name, uint64_t jobs)
{
    for (size_t i = 0; i < n->count; i++) {
        if (str_eq(n->at[i].name, name)) {
            n->at[i].jobs += jobs;
            return;
        }
    }
    must(n->count < BACKLOG_LOOK_MAX);
    n->at[n->count++] = (struct named){name, jobs};
}

static int by_jobs(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

static int compare_names(const void *a, const void *b)
{
    return by_jobs(((const struct named *)a)->jobs, ((const struct named *)b)->jobs);
}

static void names_report(struct look *l, struct names *n, enum obstacle_kind kind, bool complete)
{
    uint64_t rest = 0;
    qsort(n->at, n->count, sizeof n->at[0], compare_names);
    for (size_t i = 0; i < n->count; i++) {
        if (i >= BACKLOG_NAMES_MAX)
            rest += n->at[i].jobs;
        else
            add(l, kind, n->at[i].jobs)->name = arena_copy(l->arena, n->at[i].name);
    }
    if (rest || (!complete && n->count))
        add(l, kind, rest)->at_least = !complete;
}

/* --- what a queue has --- */

static void add_taker(struct crowd *c, const struct taker *t)
{
    c->workers++;
    if (!engine_taker_has_room(t))
        return;
    struct str node = engine_taker_node(t);
    c->same_node = c->with_room == 0 || (c->same_node && str_eq(c->node, node));
    c->node = node;
    c->with_room++;
}

static void look_at_takers(struct look *l, const struct list *subs)
{
    const struct list *n = subs->next;
    for (size_t i = 0; n != subs && i < BACKLOG_LOOK_MAX; n = n->next, i++, l->steps++) {
        const struct taker *t = LIST_OF(n, const struct sub, all)->taker;
        add_taker(&l->crowd[t->kind], t);
    }
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        l->crowd[k].cut |= n != subs;
}

/* The name of a key is in its jobs only. */
static struct err look_at_keys(struct look *l, const struct queue *q)
{
    struct key_parked most[BACKLOG_NAMES_MAX];
    uint64_t rest = q->parked.count;
    size_t n = engine_keys_parked(q, most, BACKLOG_NAMES_MAX, BACKLOG_LOOK_MAX, &l->steps);
    for (size_t i = 0; i < n; i++) {
        struct arena scratch = {0};
        struct job job;
        struct job_extent extent;
        struct err err = engine_read(l->e, l->now, most[i].first, false, &scratch, &job, &extent);
        l->steps += STEPS_OF_READ;
        if (err.code == ERR_OK) {
            struct str key = arena_copy(l->arena, job.options.concurrency_key);
            add(l, OBSTACLE_KEY, most[i].jobs)->name = key;
            rest -= most[i].jobs;
        }
        arena_fini(&scratch);
        if (err.code != ERR_OK && err.code != ERR_NOT_FOUND)
            return err;
    }
    add_if(l, OBSTACLE_KEY, rest);
    return err_none();
}

/* Whether all who have room are there. */
static bool is_node_of_all(const struct crowd *c, struct str node)
{
    return c->with_room && c->same_node && !c->cut && str_eq(node, c->node);
}

/* Lines that wait for budgets, and those of the node where everybody is who has room. Returns how
 * many of their jobs are kept back. */
static uint64_t look_at_lines(struct look *l, const struct queue *q)
{
    uint64_t shunned = 0, waiting = 0;
    struct str node = {0};
    if (list_is_empty(&q->lines))
        return 0;
    struct names *budgets = ARENA_NEW(l->arena, struct names);
    const struct list *i = q->lines.next;
    for (size_t n = 0; i != &q->lines && n < BACKLOG_LOOK_MAX; i = i->next, n++, l->steps++) {
        const struct line *line = LIST_OF(i, const struct line, node);
        const struct budget_wait *w = &line->wait;
        size_t part;
        if (w->set && engine_budget_lacks(l->now, w->set, &line->head, w, &part)) {
            names_add(budgets, w->set->parts[part].pool->budget.key, line->ready.count);
            waiting += line->ready.count;
            l->steps += budgets->count / 8;
        } else if (line->name.len && is_node_of_all(&l->crowd[line->kind], line->name)) {
            shunned += line->ready.count;
            node = line->name;
        }
    }
    names_report(l, budgets, OBSTACLE_BUDGET, i == &q->lines);
    if (shunned)
        add(l, OBSTACLE_NODE, shunned)->name = arena_copy(l->arena, node);
    return waiting + shunned;
}

/* --- what holds for all ready jobs of a queue --- */

static void look_at_limits(struct look *l, const struct queue *q)
{
    const struct queue_limits *lim = q->limits;
    uint64_t ready = l->out->ready;
    if (engine_in_flight_room(l->e) == 0)
        add(l, OBSTACLE_IN_FLIGHT, ready);
    if (!lim)
        return;
    if (lim->set.paused)
        add(l, OBSTACLE_PAUSE, ready);
    if (lim->set.concurrency && q->counts[STATUS_IN_FLIGHT] >= lim->set.concurrency)
        add(l, OBSTACLE_CONCURRENCY, ready);
    if (instant_is_set(lim->wake))
        add(l, OBSTACLE_RATE, ready)->until = lim->wake;
}

/* Whether all takers that were looked at are of the other kind. */
static bool is_unfit(const struct look *l, enum job_kind k)
{
    enum job_kind other = k == KIND_TASK ? KIND_JOB : KIND_TASK;
    return l->crowd[k].workers == 0 && l->crowd[other].workers > 0;
}

/* Of a mixture one kind may have workers and the other none. */
static void look_at_crowds(struct look *l, const struct queue *q)
{
    uint64_t tasks = q->tasks[STATUS_READY], none = 0, busy = 0;
    for (enum job_kind k = 0; k < JOB_KINDS; k++) {
        uint64_t ready = k == KIND_TASK ? tasks : l->out->ready - tasks;
        bool works =
            !l->crowd[k].workers && crew_is_busy_with(&l->out->crew, engine_kind_runs(q, k));
        bool full = l->crowd[k].workers && l->crowd[k].with_room == 0 && !l->crowd[k].cut;
        if (works || full)
            busy += ready;
        else if (ready && is_unfit(l, k))
            add(l, OBSTACLE_NO_WORKER, ready)->name = k == KIND_TASK ? STR("task") : STR("job");
        else if (l->crowd[k].workers == 0)
            none += ready;
    }
    add_if(l, OBSTACLE_NO_WORKER, none);
    add_if(l, OBSTACLE_BUSY, busy);
}

static struct err look_at_ready(struct look *l, const struct queue *q)
{
    struct backlog *b = l->out;
    if (b->ready == 0)
        return err_none();
    look_at_limits(l, q);
    bool limited = l->reason_count > 0;
    l->steps += engine_crew_of(l->e, q, l->now, l->arena, &b->crew);
    look_at_crowds(l, q);
    uint64_t apart = 0;
    for (size_t i = 0; i < l->reason_count && !limited; i++)
        apart += l->reasons[i].jobs;
    bool all_wait = limited || apart >= b->ready;
    apart += look_at_lines(l, q) + q->gang_ready + q->parked.count;
    TRY(look_at_keys(l, q));
    add_if(l, OBSTACLE_GANG, q->gang_ready);
    if (!all_wait && apart < b->ready)
        add(l, OBSTACLE_PLACE, b->ready - apart);
    return err_none();
}

/* --- words --- */

static const char *text_of(enum obstacle_kind kind, bool one)
{
    switch (kind) {
    case OBSTACLE_DEPENDENCY:
        return one ? "waits for other jobs, or is held" : "wait for other jobs, or are held";
    case OBSTACLE_TIME:
        return one ? "waits for its time" : "wait for their time";
    case OBSTACLE_PAUSE:
        return one ? "waits because the queue is paused" : "wait because the queue is paused";
    case OBSTACLE_CONCURRENCY:
        return one ? "waits for the concurrency limit of the queue"
                   : "wait for the concurrency limit of the queue";
    case OBSTACLE_KEY:
        return one ? "waits for another concurrency_key" : "wait for other concurrency keys";
    case OBSTACLE_IN_FLIGHT:
        return one ? "waits for the server's limit of jobs in flight"
                   : "wait for the server's limit of jobs in flight";
    case OBSTACLE_RATE:
        return one ? "waits for the rate of the queue" : "wait for the rate of the queue";
    case OBSTACLE_NO_WORKER:
        return one ? "waits for a worker" : "wait for a worker";
    case OBSTACLE_BUSY:
        return one ? "waits for a worker with room" : "wait for a worker with room";
    case OBSTACLE_GANG:
        return one ? "waits for the rest of its gang, or for room for all of it"
                   : "wait for the rest of their gangs, or for room for all of them";
    case OBSTACLE_BUDGET:
        return one ? "waits for another budget" : "wait for other budgets";
    default:
        return one ? "is next in line" : "wait for their turn";
    }
}

static void add_crew(struct buf *b, enum obstacle_kind kind, const struct crew *c, instant now)
{
    if (kind != OBSTACLE_BUSY && kind != OBSTACLE_NO_WORKER)
        return;
    if (kind == OBSTACLE_BUSY && !crew_is_busy(c))
        return;
    buf_lit(b, ": ");
    if (kind == OBSTACLE_BUSY)
        crew_write_busy(b, c, now);
    else
        crew_write_absent(b, c, now);
}

static void put_into_words(struct look *l, struct backlog_reason *r)
{
    struct arena *a = l->arena;
    struct buf b = {0};
    bool one = r->jobs == 1 && !r->at_least;
    buf_print(&b, "%s%llu ", r->at_least ? "at least " : "", (unsigned long long)r->jobs);
    if (r->kind == OBSTACLE_NODE)
        buf_print(&b, "must stay off node '%.*s', where everybody with room is", NAME_ARG(r->name));
    else if (r->kind == OBSTACLE_NO_WORKER && r->name.len)
        buf_print(&b, "%s %s: all who ask for jobs of the queue take %s", one ? "waits" : "wait",
                  str_eq(r->name, STR("task")) ? "for a worker of tasks"
                                               : "for a worker of other jobs than tasks",
                  str_eq(r->name, STR("task")) ? "no tasks" : "only tasks");
    else if (r->name.len)
        buf_print(&b, "%s for %s=%.*s", one ? "waits" : "wait", explain_kind_name(r->kind),
                  NAME_ARG(r->name));
    else
        buf_print(&b, "%s", text_of(r->kind, one));
    add_crew(&b, r->kind, &l->out->crew, l->now);
    r->text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
}

static int compare_reasons(const void *a, const void *b)
{
    const struct backlog_reason *x = a, *y = b;
    int c = by_jobs(x->jobs, y->jobs);
    if (c == 0)
        c = (int)x->kind - (int)y->kind;
    return c ? c : str_cmp(x->name, y->name);
}

/* --- queues --- */

static struct err look_at_queue(struct look *l, const struct queue *q)
{
    struct backlog *b = l->out;
    struct crowd any[JOB_KINDS];
    memcpy(any, l->crowd, sizeof any);
    l->reason_count = 0;
    b->blocked = q->counts[STATUS_BLOCKED];
    b->scheduled = q->counts[STATUS_SCHEDULED];
    b->ready = q->counts[STATUS_READY];
    look_at_takers(l, &q->takers);
    b->workers = l->crowd[KIND_JOB].workers + l->crowd[KIND_TASK].workers;
    b->with_room = l->crowd[KIND_JOB].with_room + l->crowd[KIND_TASK].with_room;
    struct err err = look_at_ready(l, q);
    add_if(l, OBSTACLE_DEPENDENCY, b->blocked);
    add_if(l, OBSTACLE_TIME, b->scheduled);
    qsort(l->reasons, l->reason_count, sizeof l->reasons[0], compare_reasons);
    b->reason_count = l->reason_count;
    b->reasons = arena_get(l->arena, l->reason_count * sizeof *b->reasons);
    memcpy(b->reasons, l->reasons, l->reason_count * sizeof *b->reasons);
    for (size_t i = 0; i < b->reason_count; i++)
        put_into_words(l, &b->reasons[i]);
    memcpy(l->crowd, any, sizeof any);
    return err;
}

static void begin(struct look *l, struct engine *e, instant now, struct arena *a)
{
    l->e = e;
    l->now = now;
    l->arena = a;
    memset(l->crowd, 0, sizeof l->crowd);
    l->steps = 0;
    look_at_takers(l, &e->any_takers);
}

struct err engine_backlog(struct engine *e, instant now, struct str name, struct arena *a,
                          struct backlog *b)
{
    const struct queue *q = engine_queue_find(e, name);
    struct look l;
    begin(&l, e, now, a);
    *b = (struct backlog){.queue = arena_copy(a, name), .crew = crew_none()};
    l.out = b;
    return q ? look_at_queue(&l, q) : err_none();
}

static bool waits(const struct queue *q)
{
    return q->counts[STATUS_BLOCKED] || q->counts[STATUS_SCHEDULED] || q->counts[STATUS_READY];
}

struct err engine_backlog_page(struct engine *e, instant now, const struct backlog_ask *ask,
                               struct arena *a, struct backlog_page *page)
{
    struct look l;
    begin(&l, e, now, a);
    const struct queue *q = engine_queue_after(e, ask->from);

    *page = (struct backlog_page){0};
    page->at = arena_get(a, ask->limit * sizeof *page->at);
    for (; q && page->count < ask->limit && l.steps < STEPS_MAX;
         q = engine_queue_after(e, q->name)) {
        l.steps++;
        page->next = q->name;
        if (!waits(q) || !glob_list_matches(ask->reach, q->name))
            continue;
        l.out = &page->at[page->count++];
        *l.out = (struct backlog){.queue = arena_copy(a, q->name), .crew = crew_none()};
        TRY(look_at_queue(&l, q));
    }
    page->more = q != NULL;
    page->next = page->more ? arena_copy(a, page->next) : (struct str){0};
    return err_none();
}
