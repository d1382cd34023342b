/* SPDX-License-Identifier: Apache-2.0 */

/* Lists, counts and removals over many jobs, in slices of bounded work, so that a walk over a
 * million jobs never delays a report. A slice continues after the last id of the one before, so
 * jobs that move meanwhile are neither skipped nor seen twice. */

#include <stdlib.h>

#include "backend/embedded/embedded_reach.h"
#include "backend/embedded/embedded_undo.h"
#include "base/alloc.h"
#include "base/must.h"
#include "store/record.h"

/* The work of a turn, for all scans together: some milliseconds. A job that is read costs more than
 * one that is passed over, and one that is changed, and kept so that this can be undone, most. */
#define SLICE        1024
#define COST_CHANGED 12
#define COST_READ    4
#define COST_PASSED  1

/* The limit in bytes that are read and written: a slice ends after the job that reaches it. */
#define SLICE_BYTES ((uint64_t)4 << 20)

#define ALL_STATUSES ((1u << STATUS_COUNT) - 1)
#define BIT(status)  (1u << STATUS_##status)
/* Statuses whose jobs the engine indexes by id. */
#define INDEXED_STATUSES (BIT(BLOCKED) | BIT(IN_FLIGHT) | BIT(COMPLETED) | BIT(DEAD))

/* --- where the next id comes from --- */

enum source { SOURCE_IDS, SOURCE_GROUP, SOURCE_STATUSES, SOURCE_STORE };

struct walk {
    enum source source;
    struct embedded *b;
    struct scan *scan;
    struct store_cursor *cursor; /* of SOURCE_STORE */
};

/* Narrow filters have an index; others walk the store. */
static enum source source_of(const struct job_filter *f)
{
    unsigned statuses = f->statuses ? f->statuses : ALL_STATUSES;
    if (f->id_count)
        return SOURCE_IDS;
    if (f->group.len)
        return SOURCE_GROUP;
    return statuses & ~INDEXED_STATUSES ? SOURCE_STORE : SOURCE_STATUSES;
}

static void walk_open(struct walk *w, struct embedded *b, struct scan *scan)
{
    *w = (struct walk){.source = source_of(&scan->list.filter), .b = b, .scan = scan};
    if (w->source != SOURCE_STORE)
        return;
    bool back = scan->list.backwards;
    struct id at = scan->at.id;
    if (!scan->at.set)
        at = back ? (struct id){UINT64_MAX, UINT64_MAX} : (struct id){0};
    struct record_key key = record_job_key(at);
    w->cursor = store_cursor_new(b->env.store);
    store_cursor_seek(w->cursor, b->env.store, record_key_view(&key), back);
}

static struct err walk_close(struct walk *w)
{
    return w->cursor ? store_cursor_free(w->cursor, w->b->env.store) : err_none();
}

/* How many of the ids, which are sorted and distinct, come before that one, or are it. */
static size_t count_upto(const struct id *ids, size_t count, struct id at, bool or_it)
{
    size_t lo = 0, hi = count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = id_cmp(ids[mid], at);
        if (order < 0 || (or_it && order == 0))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool next_given(const struct job_filter *f, struct id_place at, bool back, struct id *next)
{
    size_t n = f->id_count;
    if (at.set)
        n = count_upto(f->ids, n, at.id, !back);
    else
        n = back ? n : 0;
    if (back ? n == 0 : n == f->id_count)
        return false;
    *next = f->ids[back ? n - 1 : n];
    return true;
}

/* The nearest of those in the indexes of the statuses. */
static bool next_of_statuses(const struct walk *w, struct id *next)
{
    const struct list_command *l = &w->scan->list;
    bool found = false;
    for (unsigned s = 0; s < STATUS_COUNT; s++) {
        struct id id;
        if (!(l->filter.statuses & 1u << s) ||
            !engine_next_of(w->b->engine, (enum status)s, w->scan->at, l->backwards, &id))
            continue;
        if (!found || (l->backwards ? id_cmp(id, *next) > 0 : id_cmp(id, *next) < 0))
            *next = id;
        found = true;
    }
    return found;
}

/* What the job's first record says is enough to pass over most of those that are not wanted,
 * without reading it once more. */
static bool may_match(const struct job_filter *f, struct id id, struct str record)
{
    struct job job;
    bool apart;
    if ((!f->queue_count && !f->type_count && !f->depends_on.set) ||
        record_read_job(record, id, &job, &apart).code != ERR_OK)
        return true;
    return embedded_match_enqueued(f, &job);
}

static bool next_stored(struct walk *w, struct id *next, bool *maybe)
{
    struct store *s = w->b->env.store;
    struct str key, value;
    struct id_place at = w->scan->at;
    for (;;) {
        if (!store_cursor_at(w->cursor, s, &key, &value) || !record_key_is_job(key, next))
            return false;
        *maybe = may_match(&w->scan->list.filter, *next, value);
        store_cursor_step(w->cursor, s, w->scan->list.backwards);
        if (!at.set || !id_eq(*next, at.id)) /* the seek finds `from` itself, which is exclusive */
            return true;
    }
}

/* maybe: whether it is worth looking at. */
static bool walk_next(struct walk *w, struct id *next, bool *maybe)
{
    const struct list_command *l = &w->scan->list;
    *maybe = true;
    switch (w->source) {
    case SOURCE_IDS:
        return next_given(&l->filter, w->scan->at, l->backwards, next);
    case SOURCE_GROUP:
        return engine_next_in_group(w->b->engine, l->filter.group, w->scan->at, l->backwards, next);
    case SOURCE_STATUSES:
        return next_of_statuses(w, next);
    case SOURCE_STORE:
        return next_stored(w, next, maybe);
    }
    must(false);
    return false;
}

/* --- what is done with each job --- */

/* When the next of many jobs that are brought back becomes ready. */
static instant rerun_at(const struct scan *scan)
{
    uint64_t rate = scan->list.per_second;
    int64_t later = rate ? (int64_t)(scan->count * 1000 / rate) : 0;
    return instant_add(scan->started, (span){later});
}

struct err embedded_scan_change(struct embedded *b, struct scan *scan, struct id id,
                                struct arena *scratch)
{
    struct job job;
    switch (scan->kind) {
    case CMD_REMOVE_WHERE:
        return embedded_remove_job(b, id, scan->list.undo.ms <= 0);
    case CMD_PATCH_WHERE:
        return engine_patch(b->engine, b->now, id, scan->list.patch, scratch, &job);
    case CMD_CANCEL_WHERE:
        if (scan->id_count < scan->list.ids_max) {
            ARENA_GROW(&scan->arena, scan->ids, scan->id_count, scan->id_cap, 64);
            scan->ids[scan->id_count++] = id;
        }
        return engine_cancel(b->engine, b->now, id, scratch, &job);
    default:
        must(scan->kind == CMD_RERUN_WHERE);
        return engine_rerun(b->engine, b->now, id, (struct rerun){.at = rerun_at(scan)}, scratch,
                            &job);
    }
}

/* Whether the next matching job is to be shown: in a dry run only some, and none that is too large.
 * The job after a full page is not shown, it only tells that there are more. */
static bool keeps_next(const struct scan *scan)
{
    if (scan->kind != CMD_LIST && (!scan->list.dry_run || scan->bytes >= PAGE_BYTES_MAX))
        return false;
    return scan->kept < scan->list.limit;
}

bool embedded_scan_use(struct embedded *b, struct scan *scan, const struct job *job,
                       struct arena *scratch, struct err *err)
{
    bool reruns = scan->kind == CMD_RERUN_WHERE || scan->list.may_rerun;
    if (reruns && engine_rerun_check(b->engine, b->now, job, false).code != ERR_OK)
        return false;
    if (scan->kind == CMD_LIST && scan->count == scan->list.limit) {
        scan->full = true;
        return true;
    }
    if (scan->kind == CMD_CANCEL_WHERE && lifecycle_is_terminal(job->state.status))
        return false;
    bool keep = scan->kind == CMD_LIST || scan->list.dry_run;
    if (scan->kind == CMD_LIST && scan->kept > 0 &&
        scan->bytes + job->payload.len > PAGE_BYTES_MAX) {
        scan->full = true;
        return true;
    }
    scan->bytes += keep ? job->payload.len : 0;
    if (keeps_next(scan))
        scan->jobs[scan->kept++] = *job;
    else if (!keep && scan->kind != CMD_COUNT)
        *err = scan->list.undo.ms ? embedded_undo_change(b, scan, job->id, scratch)
                                  : embedded_scan_change(b, scan, job->id, scratch);
    scan->count++;
    return err->code != ERR_OK;
}

struct err embedded_scan_read(struct embedded *b, struct scan *scan, struct id id,
                              struct arena *scratch, struct job *job, bool *wanted)
{
    struct job_extent extent;
    bool keep = keeps_next(scan);
    struct err err = engine_read(b->engine, b->now, id, scan->chunk != NULL, scratch, job, &extent);
    *wanted = false;
    if (err.code == ERR_OK)
        err = embedded_match(b, &scan->list.filter, job, &extent, scratch, wanted);
    /* Only jobs that are kept are copied into the scan's memory, because a filter that few jobs
     * match would otherwise collect all the others' payloads there. */
    if (*wanted && keep)
        err =
            engine_read(b->engine, b->now, id, !scan->list.no_payload, &scan->arena, job, &extent);
    if (*wanted && keep && err.code == ERR_OK && !scan->list.no_payload)
        err = embedded_add_error(b, job, &extent, scratch, &scan->arena);
    /* Deleted since the index or the cursor was read: not an error. */
    return err.code == ERR_NOT_FOUND ? err_none() : err;
}

/* Only the payloads of jobs that match otherwise are kept. */
static struct err collect(struct embedded *b, struct scan *scan, struct id id,
                          struct arena *scratch)
{
    struct job job;
    struct job_extent extent;
    struct arena *a = embedded_chunk_arena(scan->chunk);
    struct err err = engine_read(b->engine, b->now, id, false, scratch, &job, &extent);
    bool wanted = false;
    if (err.code == ERR_NOT_FOUND)
        return err_none();
    if (err.code == ERR_OK)
        err = embedded_match(b, &scan->list.filter, &job, &extent, scratch, &wanted);
    if (err.code != ERR_OK || !wanted)
        return err;
    TRY(engine_read(b->engine, b->now, id, true, a, &job, &extent));
    embedded_chunk_add(scan, &job);
    return err;
}

/* Whether more of a job must be known than its id, queue and status. */
static bool looks_into_jobs(const struct job_filter *f)
{
    return f->type_count || f->expression.len || f->priority.set || f->ready_at.set ||
           f->attempts.set || f->resolutions || f->since.ms || f->worker_count || f->budget_count ||
           f->error.len || f->error_type.len || f->failure_group || f->failed_at.set ||
           f->enqueued_at.set || f->depends_on.set || f->group.len || f->reach.count;
}

/* Jobs that were set apart are deleted by their ids, or together with all others; not so that it
 * could be undone. */
static bool deletes_apart(const struct scan *scan)
{
    const struct job_filter *f = &scan->list.filter;
    return scan->kind == CMD_REMOVE_WHERE && !scan->list.dry_run && !scan->list.undo.ms &&
           !f->queue_count && !f->statuses && !looks_into_jobs(f);
}

static struct err delete_apart(struct embedded *b, struct scan *scan, struct id id)
{
    scan->count++;
    return embedded_apart_remove(b, id);
}

static struct err look_at(struct embedded *b, struct scan *scan, struct id id,
                          struct arena *scratch)
{
    struct job job;
    bool wanted;
    if (deletes_apart(scan) && embedded_is_apart(b, id))
        return delete_apart(b, scan, id);
    if (scan->chunk)
        return collect(b, scan, id, scratch);
    struct err err = embedded_scan_read(b, scan, id, scratch, &job, &wanted);
    if (err.code == ERR_OK && wanted)
        scan->ended = embedded_scan_use(b, scan, &job, scratch, &err);
    return err;
}

static uint64_t work_done(const struct embedded *b)
{
    return b->bytes_read + b->building->batch.bytes;
}

/* What was collected is judged first. */
static bool has_looked_enough(struct scan *scan)
{
    uint32_t most = scan->list.look_max;
    if (!most || ++scan->looked < most || scan->ended)
        return false;
    scan->cut = true;
    if (scan->chunk)
        embedded_chunk_at_end(scan);
    else
        scan->ended = true;
    return true;
}

static struct err walk_on(struct embedded *b, struct scan *scan, struct arena *scratch)
{
    struct walk w;
    struct id next;
    bool maybe;
    struct err err = err_none();
    walk_open(&w, b, scan);
    uint64_t began = work_done(b);
    for (int spent = 0; spent < SLICE && !scan->ended && err.code == ERR_OK;) {
        if (work_done(b) - began >= SLICE_BYTES)
            break;
        if (scan->chunk && embedded_chunk_is_due(scan))
            break;
        if (!walk_next(&w, &next, &maybe)) {
            const struct damage *d = &b->damage;
            if (deletes_apart(scan) && !scan->list.filter.id_count && d->count) {
                err = delete_apart(b, scan, d->jobs[d->count - 1].id);
                spent += COST_READ;
                continue;
            }
            if (scan->chunk)
                embedded_chunk_at_end(scan);
            else
                scan->ended = true;
            break;
        }
        spent += maybe ? COST_READ : COST_PASSED;
        size_t count = scan->count;
        if (maybe)
            err = look_at(b, scan, next, scratch);
        if (scan->operation && scan->count > count)
            spent += COST_CHANGED;
        scan->at = (struct id_place){true, next};
        scan->seen++;
        if (has_looked_enough(scan))
            break;
    }
    struct err closed = walk_close(&w);
    return err.code == ERR_OK ? closed : err;
}

static struct err slice(struct embedded *b, struct scan *scan)
{
    if (scan->undoes)
        return embedded_undo_slice(b, scan);
    struct arena scratch = {0};
    struct err err = scan->failed;
    b->copy_reads = true;
    if (err.code == ERR_OK && scan->chunk)
        err = embedded_chunk_use(b, scan, &scratch);
    if (err.code == ERR_OK && !scan->ended)
        err = walk_on(b, scan, &scratch);
    b->copy_reads = false;
    arena_fini(&scratch);
    return err;
}

/* --- a scan's life --- */

static void scan_free(struct scan *scan)
{
    embedded_chunk_free(scan->chunk);
    arena_fini(&scan->arena);
    free(scan->jobs);
    free(scan);
}

static void on_scan_reply(void *ctx, const struct reply *r)
{
    struct scan *scan = ctx;
    scan->done(scan->ctx, r);
    list_unlink(&scan->node);
    scan_free(scan);
}

/* Of a change of the jobs of a group alone. */
static void tell_priority(struct embedded *b, const struct scan *scan)
{
    const struct list_command *l = &scan->list;
    if (scan->kind != CMD_PATCH_WHERE || l->dry_run || !l->filter.group.len ||
        !(l->patch->set & PATCH_PRIORITY))
        return;
    struct err gone = engine_group_reprioritized(b->engine, b->now, l->filter.group,
                                                 l->patch->priority, scan->count);
    (void)gone; /* with its last job: then nobody waits for its priority */
}

static void answer(struct embedded *b, struct scan *scan, struct err err)
{
    if (err.code == ERR_OK)
        tell_priority(b, scan);
    if (err.code == ERR_OK && scan->trail)
        embedded_trail_end(b, scan->trail, scan->count);
    embedded_operation_end(b, scan, &err);
    list_unlink(&scan->node);
    list_append(&b->answered, &scan->node);
    embedded_reach_scanned(b, scan);
    struct reply *r = embedded_effect(b, on_scan_reply, scan);
    *r = scan->reply;
    r->err = err;
    r->more = scan->full || scan->cut;
    if (scan->cut && !scan->full)
        r->upto = scan->at;
    r->jobs = scan->jobs;
    r->count = scan->count;
    r->sampled = scan->kept;
    if (scan->kind == CMD_CANCEL_WHERE && !scan->list.dry_run) {
        r->ids = scan->ids;
        r->sampled = scan->id_count;
    }
    if (scan->list.undo.ms)
        r->operation = scan->operation;
    if (scan->undoes && err.code == ERR_OK)
        embedded_operation_show(b, scan->undoes, r);
}

static const struct str *copy_names(struct arena *a, const struct str *names, size_t count)
{
    struct str *copies = arena_get(a, count * sizeof *copies + 1);
    for (size_t i = 0; i < count; i++)
        copies[i] = arena_copy(a, names[i]);
    return copies;
}

static int compare_ids(const void *a, const void *b)
{
    return id_cmp(*(const struct id *)a, *(const struct id *)b);
}

/* Sorted, without duplicates. */
static const struct id *copy_ids(struct arena *a, const struct id *ids, size_t *count)
{
    struct id *copies = arena_get(a, *count * sizeof *copies + 1);
    size_t n = 0;
    if (*count)
        memcpy(copies, ids, *count * sizeof *copies);
    qsort(copies, *count, sizeof *copies, compare_ids);
    for (size_t i = 0; i < *count; i++)
        if (n == 0 || !id_eq(copies[n - 1], copies[i]))
            copies[n++] = copies[i];
    *count = n;
    return copies;
}

static bool is_group_alone(const struct job_filter *f)
{
    struct job_filter rest = *f;
    rest.group = (struct str){0};
    return f->group.len && !f->id_count && !f->queue_count && !f->statuses &&
           !looks_into_jobs(&rest);
}

/* Counters answer a count by queue and status without reading a single job. */
static bool count_at_once(struct embedded *b, const struct list_command *l, size_t *count)
{
    const struct job_filter *f = &l->filter;
    struct group_view group;
    if (is_group_alone(f)) {
        *count = engine_group_read(b->engine, f->group, &group).code == ERR_OK ? group.jobs : 0;
        return true;
    }
    if (f->id_count || looks_into_jobs(f))
        return false;
    struct str all = {0};
    const struct str *queues = f->queue_count ? f->queues : &all;
    size_t n = f->queue_count ? f->queue_count : 1;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t counts[STATUS_COUNT];
        engine_count(b->engine, queues[i], counts);
        for (unsigned s = 0; s < STATUS_COUNT; s++)
            if (!f->statuses || f->statuses & (1u << s))
                *count += counts[s];
    }
    return true;
}

struct scan *embedded_scan_new(struct embedded *b, const struct command *c)
{
    struct scan *scan = ALLOC(struct scan);
    scan->kind = c->kind;
    scan->done = c->done;
    scan->ctx = c->ctx;
    scan->reach = embedded_reach_own(&scan->arena, c->reach);
    scan->failed = scan->reply.err = err_none();
    scan->started = b->now;
    if (c->trail.len)
        scan->trail = embedded_trail_begin(b, c->trail, true);
    list_init(&scan->node);
    list_append(&b->scans, &scan->node);
    return scan;
}

/* Lists the change as an operation, if it is one; that can be undone, if that is wanted. */
static struct err begin_operation(struct embedded *b, const struct command *c, uint64_t *number)
{
    *number = 0;
    bool undo = c->list.undo.ms && embedded_operation_is(c);
    if (undo)
        TRY(embedded_undo_check(b, c->list.undo));
    *number = embedded_operation_begin(b, c);
    return undo ? embedded_undo_begin(b, *number, c->list.undo) : err_none();
}

void embedded_scan(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)r;
    size_t count;
    uint64_t operation;
    if (c->kind == CMD_COUNT && count_at_once(b, &c->list, &count)) {
        embedded_effect(b, c->done, c->ctx)->count = count;
        return;
    }
    bool keeps = c->kind == CMD_LIST || c->list.dry_run;
    must(!keeps || (c->list.limit > 0 && c->list.limit <= BACKEND_PAGE_MAX));
    struct err refused = begin_operation(b, c, &operation);
    if (refused.code != ERR_OK) {
        embedded_effect(b, c->done, c->ctx)->err = refused;
        return;
    }
    struct command unrecorded = *c;
    if (keeps || c->kind == CMD_COUNT)
        unrecorded.trail = (struct str){0};
    struct scan *scan = embedded_scan_new(b, &unrecorded);
    scan->list = c->list;
    scan->at = c->list.from;
    if (!embedded_operation_is(c))
        scan->list.undo = (span){0};
    struct job_filter *f = &scan->list.filter;
    f->queues = copy_names(&scan->arena, f->queues, f->queue_count);
    f->types = copy_names(&scan->arena, f->types, f->type_count);
    f->workers = copy_names(&scan->arena, f->workers, f->worker_count);
    f->budgets = copy_names(&scan->arena, f->budgets, f->budget_count);
    f->reach.at = copy_names(&scan->arena, f->reach.at, f->reach.count);
    f->error = arena_copy(&scan->arena, f->error);
    f->error_type = arena_copy(&scan->arena, f->error_type);
    f->group = arena_copy(&scan->arena, f->group);
    f->ids = copy_ids(&scan->arena, f->ids, &f->id_count);
    if (c->list.patch) {
        struct patch *patch = arena_get(&scan->arena, sizeof *patch);
        *patch = *c->list.patch;
        patch->queue = arena_copy(&scan->arena, patch->queue);
        scan->list.patch = patch;
    }
    scan->operation = operation;
    f->expression = arena_copy(&scan->arena, f->expression);
    if (f->expression.len)
        scan->chunk = embedded_chunk_new(b);
    if (keeps)
        scan->jobs = alloc_get(c->list.limit * sizeof *scan->jobs);
}

struct err embedded_scan_step(struct embedded *b)
{
    if (list_is_empty(&b->scans))
        return err_none();
    struct scan *scan = LIST_OF(b->scans.next, struct scan, node);
    struct err err = slice(b, scan);
    if (err.code == ERR_OK && !scan->ended && scan->chunk && embedded_chunk_is_due(scan)) {
        err = embedded_chunk_ask(b, scan);
        if (err.code == ERR_OK)
            return err;
    }
    if (err.code != ERR_OK || scan->ended) {
        answer(b, scan, embedded_met(b, &err));
        return err_none();
    }
    embedded_operation_goes_on(b, scan);
    /* Takes turns, so that a long scan does not delay a short one. */
    list_unlink(&scan->node);
    list_append(&b->scans, &scan->node);
    return err_none();
}

static struct scan *find_operation(struct list *scans, uint64_t operation)
{
    LIST_EACH (n, scans)
        if (LIST_OF(n, struct scan, node)->operation == operation)
            return LIST_OF(n, struct scan, node);
    return NULL;
}

bool embedded_scan_stop(struct embedded *b, uint64_t operation)
{
    struct scan *scan = find_operation(&b->scans, operation);
    if (!scan)
        scan = find_operation(&b->asking, operation);
    if (!scan)
        return false;
    embedded_chunk_free(scan->chunk);
    scan->chunk = NULL;
    scan->reply.stopped = true;
    answer(b, scan, err_none());
    return true;
}

static void abort_list(struct embedded *b, struct list *scans, const struct err *why)
{
    while (!list_is_empty(scans)) {
        struct scan *scan = LIST_OF(scans->next, struct scan, node);
        /* It may be waiting for an answer, which will be ignored. */
        embedded_chunk_free(scan->chunk);
        scan->chunk = NULL;
        scan->count = 0;
        answer(b, scan, *why);
    }
}

void embedded_scan_abort_all(struct embedded *b, const struct err *why)
{
    abort_list(b, &b->scans, why);
    abort_list(b, &b->asking, why);
}

static void free_list(struct list *scans)
{
    while (!list_is_empty(scans)) {
        struct scan *scan = LIST_OF(scans->next, struct scan, node);
        list_unlink(&scan->node);
        scan_free(scan);
    }
}

void embedded_scan_free_all(struct embedded *b)
{
    free_list(&b->scans);
    free_list(&b->asking);
    free_list(&b->answered);
}

/* --- what is next --- */

/* Reads the job at that place, unless it is gone; false if the page was already full. */
static bool add_next(struct embedded *b, const struct peek_command *c, struct ready_place place,
                     struct reply *r, size_t *bytes)
{
    struct arena *a = &b->building->arena;
    struct job *job = &r->jobs[r->count];
    struct job_extent extent;
    struct err err = engine_read(b->engine, b->now, place.id, c->with_payload, a, job, &extent);
    if (err.code != ERR_OK && err.code != ERR_NOT_FOUND) {
        r->err = err;
        return false;
    }
    if (err.code == ERR_OK) {
        *bytes += job->payload.len;
        if (r->count > 0 && *bytes > PAGE_BYTES_MAX)
            return false;
        r->count++;
    }
    r->place = place;
    return true;
}

void embedded_peek(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct peek_command *c = &command->peek;
    struct ready_place places[PEEK_MAX + 1];
    size_t bytes = 0, i = 0;
    must(c->limit > 0 && c->limit <= PEEK_MAX);
    size_t n = engine_peek(b->engine, c, c->limit + 1, places);
    r->jobs = arena_get(&b->building->arena, c->limit * sizeof *r->jobs);
    while (i < n && i < c->limit && add_next(b, c, places[i], r, &bytes))
        i++;
    r->more = r->err.code == ERR_OK && i < n;
}
