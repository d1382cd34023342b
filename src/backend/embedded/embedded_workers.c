/* SPDX-License-Identifier: Apache-2.0 */

/* Workers as something to see and to act on (core/workers.h). What is known of them is in memory;
 * which are quiet is on the disk, as entries beside those of front ends. A quiet worker's streams
 * are paused, and its claims wait at a queue that no job can be in. */

#include "backend/embedded/embedded_crew.h"
#include "backend/embedded/embedded_reach.h"

#include <stdlib.h>
#include <string.h>

#include "base/glob.h"
#include "base/mark.h"
#include "base/must.h"

#define SPACE STR("~quiet-workers")
/* Runs of a worker that is stopped that go back in one turn. */
#define STOP_PER_TURN 1000
/* Queues that are named of a worker that is known by its runs alone. */
#define TALLY_QUEUES_MAX 8

/* No queue of a job has such a name (job_check_name). */
const struct str embedded_nowhere = {"\1", 1};

void embedded_workers_report(struct embedded *b, struct run_ref ref)
{
    struct run run;
    uint64_t token;
    if (engine_live_run(b->engine, ref.id, &run, &token) && (!ref.token || ref.token == token))
        workers_heard(&b->workers, run.worker, b->now);
}

/* --- quiet ones --- */

struct err embedded_workers_recover(struct embedded *b)
{
    char room[RECORD_KV_KEY_MAX];
    struct str from = record_kv_key(SPACE, (struct str){0}, room), key, value, space, name;
    struct store_cursor *c = store_cursor_new(b->env.store);
    workers_unhush_all(&b->workers);
    store_cursor_seek(c, b->env.store, from, false);
    for (; store_cursor_at(c, b->env.store, &key, &value) && record_key_is_kv(key, &space, &name) &&
           str_eq(space, SPACE);
         store_cursor_step(c, b->env.store, false))
        (void)workers_hush(&b->workers, name, true);
    return store_cursor_free(c, b->env.store);
}

/* Operators know workers by the names that these give themselves. */
bool embedded_worker_is_quiet(const struct embedded *b, struct str worker)
{
    return workers_is_quiet(&b->workers, mark_bare(worker));
}

static struct err hush(struct embedded *b, struct str name, bool quiet)
{
    struct kv_entry e = {.space = SPACE, .key = name, .expires = INSTANT_NONE};
    if (workers_is_quiet(&b->workers, name) == quiet)
        return err_none();
    if (!workers_hush(&b->workers, name, quiet))
        return err_make(ERR_TOO_MANY, "%d workers are quiet already", WORKERS_QUIET_MAX);
    embedded_takers_hushed(b, name, quiet);
    if (quiet)
        embedded_kv_keep(b, &e);
    else
        embedded_kv_forget(b, &e);
    return err_none();
}

/* --- reading --- */

/* The runs of one worker. Of one that has not been heard of since the start, they tell which queues
 * it takes from, as far as anybody knows. */
struct tally {
    uint64_t runs;
    struct str queues[TALLY_QUEUES_MAX]; /* sorted */
    size_t queue_count;
};

struct counting {
    struct embedded *b;
    struct arena *arena;
    struct strmap by_name; /* struct tally */
};

static bool is_unheard(const struct embedded *b, struct str name)
{
    const struct worker *w = workers_find(&b->workers, name);
    return !w || !instant_is_set(w->last_seen);
}

static void add_queue(struct tally *t, struct str queue)
{
    size_t at = t->queue_count;
    while (at > 0 && str_cmp(t->queues[at - 1], queue) > 0)
        at--;
    if ((at > 0 && str_eq(t->queues[at - 1], queue)) || t->queue_count == TALLY_QUEUES_MAX)
        return;
    memmove(t->queues + at + 1, t->queues + at, (t->queue_count - at) * sizeof *t->queues);
    t->queues[at] = queue;
    t->queue_count++;
}

static void count_run(void *ctx, struct id id, struct str queue, struct str worker)
{
    struct counting *c = ctx;
    (void)id;
    if (!worker.len)
        return;
    struct tally *t = strmap_get(&c->by_name, worker);
    if (!t) {
        t = ARENA_NEW(c->arena, struct tally);
        *t = (struct tally){0};
        strmap_put(&c->by_name, worker, t);
    }
    t->runs++;
    if (is_unheard(c->b, worker))
        add_queue(t, queue);
}

static struct str join_queues(struct arena *a, const struct tally *t)
{
    struct buf text = {0};
    for (size_t i = 0; i < t->queue_count; i++)
        buf_print(&text, "%s%.*s", i ? "," : "", STR_ARG(t->queues[i]));
    struct str joined = arena_copy(a, buf_view(&text));
    buf_fini(&text);
    return joined;
}

static int by_name(const void *a, const void *b)
{
    struct str one = ((const struct worker_view *)a)->worker.name;
    struct str other = ((const struct worker_view *)b)->worker.name;
    int order = str_cmp(mark_bare(one), mark_bare(other));
    return order ? order : str_cmp(one, other);
}

static bool is_wanted(const struct workers_query *q, struct str name)
{
    struct str bare = mark_bare(name);
    return q->name.len ? str_eq(q->name, bare) : str_cmp(bare, q->after) > 0;
}

/* Who is limited to queues sees the workers that take from these and from no others: of any other
 * worker it would see what is done elsewhere. */
static bool is_within(struct glob_list reach, struct str queues)
{
    if (!reach.count)
        return true;
    for (const char *end = queues.at + queues.len; queues.len;) {
        const char *comma = memchr(queues.at, ',', queues.len);
        struct str one = {queues.at, (size_t)((comma ? comma : end) - queues.at)};
        if (!glob_list_matches(reach, one))
            return false;
        queues.at += one.len + (comma != NULL);
        queues.len = (size_t)(end - queues.at);
        if (!queues.len)
            return true;
    }
    return false; /* it takes from all, or it is not known from which */
}

/* A worker that is known only because its name was made quiet is left out where one of that name
 * has been heard of. */
static size_t leave_out_mentioned(const struct embedded *b, struct worker_view *all, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct str name = mark_bare(all[i].worker.name);
        all[i].worker.quiet = embedded_worker_is_quiet(b, name);
        bool another = (i + 1 < n && str_eq(mark_bare(all[i + 1].worker.name), name)) ||
                       (kept && str_eq(mark_bare(all[kept - 1].worker.name), name));
        if (!another || all[i].worker.since.ms || all[i].in_flight)
            all[kept++] = all[i];
    }
    return kept;
}

/* Names of queues have no comma. A text that was cut has lost whole names only. */
static bool takes_from(const struct worker *w, struct str queue)
{
    const char *at = w->queues.at, *end = at + w->queues.len;
    if (!w->queues.len)
        return true;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *next = comma ? comma : end;
        if (str_eq((struct str){at, (size_t)(next - at)}, queue))
            return true;
        at = next + 1;
    }
    return false;
}

size_t embedded_workers_of(void *embedded, struct str queue, crew_visitor *visit, void *ctx)
{
    const struct embedded *b = embedded;
    LIST_EACH (n, &b->workers.order) {
        const struct worker *w = LIST_OF(n, struct worker, order);
        if (instant_is_set(w->last_seen) && takes_from(w, queue) &&
            is_within(b->crew_reach, w->queues) && !embedded_worker_is_quiet(b, mark_bare(w->name)))
            visit(ctx, &(struct crew_member){w->name, w->last_seen, w->notice});
    }
    return b->workers.by_name.count;
}

/* Those that are known, and those that are known by their runs alone: since a restart they have not
 * been heard of. */
static size_t gather(struct counting *c, const struct workers_query *q, struct glob_list reach,
                     struct worker_view *all)
{
    size_t n = 0;
    LIST_EACH (node, &c->b->workers.order) {
        struct worker w = *LIST_OF(node, struct worker, order);
        const struct tally *t = strmap_get(&c->by_name, w.name);
        if (t && t->queue_count)
            w.queues = join_queues(c->arena, t);
        if (is_wanted(q, w.name) && is_within(reach, w.queues))
            all[n++] = (struct worker_view){w, t ? t->runs : 0};
    }
    for (size_t i = 0; i < c->by_name.cap; i++) {
        const struct strmap_slot *s = &c->by_name.slots[i];
        struct str name = {s->key, s->len};
        if (!s->key || !is_wanted(q, name) || workers_find(&c->b->workers, name))
            continue;
        const struct tally *t = s->val;
        struct worker w = {.name = name, .queues = join_queues(c->arena, t)};
        if (is_within(reach, w.queues))
            all[n++] = (struct worker_view){w, t->runs};
    }
    qsort(all, n, sizeof *all, by_name);
    return leave_out_mentioned(c->b, all, n);
}

/* Workers change before the reply leaves. */
static void own_texts(struct arena *a, struct worker *w)
{
    w->name = arena_copy(a, w->name);
    w->node = arena_copy(a, w->node);
    w->address = arena_copy(a, w->address);
    w->agent = arena_copy(a, w->agent);
    w->queues = arena_copy(a, w->queues);
    w->notice = arena_copy(a, w->notice);
}

static void read_workers(struct embedded *b, const struct workers_query *q, struct glob_list reach,
                         struct reply *r)
{
    struct arena *a = &b->building->arena, scratch = {0};
    struct counting c = {.b = b, .arena = &scratch, .by_name.seed = b->lanes.seed};
    engine_each_live(b->engine, count_run, &c);
    size_t most = b->workers.by_name.count + c.by_name.count;
    struct worker_view *all = arena_get(&scratch, most * sizeof *all + 1);
    size_t n = gather(&c, q, reach, all);
    r->more = n > q->limit;
    r->count = r->more ? q->limit : n;
    struct worker_view *shown = arena_get(a, r->count * sizeof *shown + 1);
    for (size_t i = 0; i < r->count; i++) {
        shown[i] = all[i];
        own_texts(a, &shown[i].worker);
    }
    r->workers = shown;
    arena_fini(&scratch);
    strmap_fini(&c.by_name);
}

static void read_one(struct embedded *b, struct str name, struct glob_list reach, struct reply *r)
{
    const struct workers_query q = {.name = name, .limit = 1};
    read_workers(b, &q, reach, r);
    if (r->count == 0)
        r->err = err_make(ERR_NOT_FOUND, "there is no worker '%.*s'", STR_ARG(name));
}

void embedded_workers_read(struct embedded *b, const struct command *c, struct reply *r)
{
    workers_trim(&b->workers, b->now, SIZE_MAX);
    if (c->workers->name.len)
        read_one(b, c->workers->name, c->reach, r);
    else
        read_workers(b, c->workers, c->reach, r);
}

/* --- changing --- */

void embedded_worker_hush(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = hush(b, c->worker.name, c->worker.quiet);
    if (r->err.code == ERR_OK && c->worker.quiet)
        read_one(b, c->worker.name, c->reach, r);
}

/* Known by what it says of itself, and only for as long as it does: nothing is stored. */
void embedded_worker_notice(struct embedded *b, const struct command *c, struct reply *r)
{
    if (!workers_greet(&b->workers, c->greeting, b->now))
        r->err = err_make(ERR_TOO_MANY, "%d workers are there already", WORKERS_MAX);
}

struct held_runs {
    struct str worker;
    struct id *ids; /* STOP_PER_TURN at most */
    size_t count;
    bool more;
};

static void gather_run(void *ctx, struct id id, struct str queue, struct str worker)
{
    struct held_runs *h = ctx;
    (void)queue;
    if (!str_eq(mark_bare(worker), h->worker))
        return;
    h->more = h->count == STOP_PER_TURN;
    if (!h->more)
        h->ids[h->count++] = id;
}

static int by_id(const void *a, const void *b)
{
    return id_cmp(*(const struct id *)a, *(const struct id *)b);
}

void embedded_worker_stop(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct held_runs h = {.worker = c->worker.name,
                          .ids = arena_get(a, STOP_PER_TURN * sizeof(struct id))};
    r->err = hush(b, h.worker, true);
    if (r->err.code != ERR_OK)
        return;
    engine_each_live(b->engine, gather_run, &h);
    qsort(h.ids, h.count, sizeof *h.ids, by_id); /* their order must not depend on hashes */
    for (size_t i = 0; i < h.count; i++)
        engine_stop_run(b->engine, b->now, h.ids[i]);
    r->count = h.count;
    r->more = h.more;
    if (!h.more)
        embedded_takers_end(b, h.worker);
}
