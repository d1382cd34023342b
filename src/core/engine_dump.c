/* SPDX-License-Identifier: Apache-2.0 */

/* All that the indexes say of jobs, as sorted lines of text. What depends on the way by which it
 * was restored is left out: numbers of queues and types, hashes, addresses. */

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "core/engine_gang_internal.h"
#include "core/engine_snapshot.h"

struct dump {
    const struct engine *e;
    struct buf line;
    struct str *lines;
    size_t count, cap;
};

static void end_line(struct dump *d)
{
    ALLOC_GROW(d->lines, d->count, d->cap, 64);
    d->lines[d->count++] = (struct str){alloc_text(d->line.at, d->line.len), d->line.len};
    d->line.len = 0;
}

#define LINE(d, ...)                                                                               \
    do {                                                                                           \
        buf_print(&(d)->line, __VA_ARGS__);                                                        \
        end_line(d);                                                                               \
    } while (0)

#define ID_FMT     "%016" PRIx64 "%016" PRIx64
#define ID_ARG(id) (id).hi, (id).lo

/* --- queues --- */

static void dump_order(struct dump *d, const struct queue *q, const char *what,
                       const struct btree *t, struct str node)
{
    struct btree_entry e;
    for (bool more = btree_first(t, &e); more; more = btree_after(t, e, &e))
        LINE(d, "%s %.*s rank %" PRIu64 " " ID_FMT " %" PRIu64 " %.*s", what, STR_ARG(q->name),
             e.major & ((1u << RANK_BITS) - 1), ID_ARG(e), e.val, STR_ARG(node));
}

static void dump_queue(struct dump *d, const struct queue *q)
{
    buf_print(&d->line, "queue %.*s", STR_ARG(q->name));
    for (int s = 0; s < STATUS_COUNT; s++)
        buf_print(&d->line, " %" PRIu64, q->counts[s]);
    LINE(d, " gangs %" PRIu64 " lined %" PRIu64 " tasks %" PRIu64, q->gang_ready, q->lined,
         q->tasks[STATUS_READY]);
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        LINE(d, "head %d %d " ID_FMT, (int)k, q->has_head[k], q->has_head[k] ? q->head[k].hi : 0,
             q->has_head[k] ? q->head[k].lo : 0);
    dump_order(d, q, "ready", &q->ready, (struct str){0});
    dump_order(d, q, "parked", &q->parked, (struct str){0});
    for (const struct list *n = q->lines.next; n != &q->lines; n = n->next) {
        const struct line *l = LIST_OF(n, const struct line, node);
        dump_order(d, q, "line", &l->ready, l->name);
    }
}

static struct str queue_of(const struct dump *d, uint64_t index)
{
    const struct queue *q = index < d->e->queue_cap ? d->e->queues[index] : NULL;
    return q ? q->name : (struct str){0};
}

static void dump_due(struct dump *d, const struct btree_entry *e)
{
    enum due_kind kind = DUE_VAL_KIND(e->val);
    if (kind == DUE_AVOID || kind == DUE_RATE || kind == DUE_BUDGET || kind == DUE_WAIT) {
        LINE(d, "due %" PRIu64 " kind %d", e->major, kind);
        return;
    }
    if (kind == DUE_CRON) {
        LINE(d, "due %" PRIu64 " cron " ID_FMT, e->major, ID_ARG(*e));
        return;
    }
    struct str q = queue_of(d, DUE_VAL_QUEUE(e->val));
    struct str type = kind == DUE_READY ? d->e->types[DUE_VAL_TYPE(e->val)] : (struct str){0};
    LINE(d, "due %" PRIu64 " kind %d " ID_FMT " queue %.*s type %.*s %d %u %d", e->major, kind,
         ID_ARG(*e), STR_ARG(q), STR_ARG(type), (int)DUE_VAL_STATE(e->val), DUE_VAL_RANK(e->val),
         (e->val & DUE_VAL_ANNOUNCED) != 0);
}

static void dump_deadlines(struct dump *d)
{
    struct btree_entry e;
    const struct btree *t = &d->e->deadlines;
    for (bool more = btree_first(t, &e); more; more = btree_after(t, e, &e))
        dump_due(d, &e);
    for (int dead = 0; dead < 2; dead++) {
        t = &d->e->ended[dead];
        for (bool more = btree_first(t, &e); more; more = btree_after(t, e, &e))
            LINE(d, "ended %d " ID_FMT " %.*s", dead, ID_ARG(e), STR_ARG(queue_of(d, e.val)));
    }
}

/* --- what only some jobs have --- */

static void dump_ids(struct dump *d, const char *what, const struct btree *t)
{
    struct btree_entry e;
    for (bool more = btree_first(t, &e); more; more = btree_after(t, e, &e))
        LINE(d, "%s " ID_FMT, what, ID_ARG(e));
}

static void dump_live(struct dump *d)
{
    for (size_t i = 0; i < d->e->live.cap; i++) {
        const struct live *l = d->e->live.slots[i].val;
        if (!l)
            continue;
        LINE(d,
             "live " ID_FMT " %.*s %.*s token %" PRIu64 " ready %" PRId64 " taken %" PRId64
             " end %" PRId64 " limit %" PRId64
             " run %u %u %u %u priority %u %d %d %.*s key %d group %.*s budgets %d",
             ID_ARG(l->id), STR_ARG(l->queue->name), STR_ARG(d->e->types[l->type]), l->token,
             l->ready_at.ms, l->taken_at.ms, engine_lease_end(d->e, l).ms,
             engine_overtime_at(d->e, l).ms, l->run, l->attempts, l->forgiven, l->losses,
             l->priority, l->has_state, l->payload_apart, (int)l->worker->len, l->worker->bytes,
             l->key != NULL, STR_ARG(engine_group_name(l->member_of)), l->budgets != NULL);
    }
}

static void dump_avoids(struct dump *d)
{
    for (size_t i = 0; i < d->e->avoids.cap; i++) {
        struct str node;
        instant until;
        struct id id = d->e->avoids.slots[i].id;
        if (d->e->avoids.slots[i].val && engine_avoid_of(d->e, id, &node, &until))
            LINE(d, "avoids " ID_FMT " %.*s %" PRId64, ID_ARG(id), STR_ARG(node), until.ms);
    }
}

static void dump_gangs(struct dump *d)
{
    for (size_t i = 0; i < d->e->gang_members.cap; i++) {
        const struct gang_member *m = d->e->gang_members.slots[i].val;
        if (!m)
            continue;
        const struct gang *g = m->gang;
        LINE(d,
             "gang %.*s %" PRIu64 " %" PRIu64 " %d %u %u %u member " ID_FMT " %" PRIu64
             " %d %d rank %" PRIu64,
             STR_ARG(g->name), g->size, g->generation, g->formed, g->count, g->ready, g->live,
             ID_ARG(m->id), m->generation, m->ready, m->live, m->ready ? m->entry.major : 0);
    }
}

static void dump_budgets(struct dump *d)
{
    for (size_t i = 0; i < d->e->budget_jobs.cap; i++) {
        const struct budget_set *s = d->e->budget_jobs.slots[i].val;
        if (s)
            LINE(d, "draws " ID_FMT " %.*s of %" PRIu64, ID_ARG(d->e->budget_jobs.slots[i].id),
                 STR_ARG(s->key), s->jobs);
    }
}

static void dump_groups(struct dump *d)
{
    for (size_t i = 0; i < d->e->groups.cap; i++) {
        struct group_view v;
        struct id_place at = {0};
        struct str name = d->e->groups.slots[i].key ? engine_group_name(d->e->groups.slots[i].val)
                                                    : (struct str){0};
        if (!name.len || engine_group_read(d->e, name, &v).code != ERR_OK)
            continue;
        LINE(d, "group %.*s %" PRIu64 " %" PRIu64 " %" PRId64, STR_ARG(name), v.jobs, v.unended,
             v.record.sealed_at.ms);
        while (engine_next_in_group(d->e, name, at, false, &at.id)) {
            at.set = true;
            LINE(d, "in group %.*s " ID_FMT, STR_ARG(name), ID_ARG(at.id));
        }
    }
}

static void dump_folds(struct dump *d)
{
    for (size_t i = 0; i < d->e->folds.cap; i++)
        if (d->e->folds.slots[i].key) {
            const struct id *id = d->e->folds.slots[i].val;
            LINE(d, "fold " ID_FMT, ID_ARG(*id));
        }
}

/* --- all of it --- */

static void dump_rest(struct dump *d)
{
    const struct engine *e = d->e;
    dump_ids(d, "unique", &e->unique);
    dump_ids(d, "alias", &e->aliases);
    dump_ids(d, "made", &e->made);
    dump_ids(d, "waits", &e->waiting_for);
    dump_ids(d, "flies", &e->live_order);
    struct btree_entry at;
    for (bool more = btree_first(&e->end_by, &at); more; more = btree_after(&e->end_by, at, &at))
        LINE(d, "end by %" PRIu64 " " ID_FMT, at.major, ID_ARG(at));
    for (bool more = btree_first(&e->odd, &at); more; more = btree_after(&e->odd, at, &at))
        LINE(d, "odd " ID_FMT " %" PRIu64, ID_ARG(at), at.val);
    for (size_t i = 0; i < e->restored_count; i++)
        LINE(d, "taken %" PRIu64 " " ID_FMT " %u", e->restored[i].seq,
             ID_ARG(e->restored[i].take.id), e->restored[i].take.run);
    for (int s = 0; s < STATUS_COUNT; s++)
        LINE(d, "total %d %" PRIu64, s, e->totals[s]);
    LINE(d, "newest " ID_FMT, ID_ARG(e->ids.last));
    LINE(d, "event %" PRIu64 " mark %" PRId64 " " ID_FMT, e->next_event, e->mark.at.ms,
         ID_ARG(e->mark.id));
    LINE(d, "queues %u, dirty %d", e->queue_count, !list_is_empty(&e->dirty));
}

static int compare_lines(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

void engine_dump(const struct engine *e, struct buf *out)
{
    struct dump d = {.e = e};
    const struct queue *q = engine_queue_after(e, (struct str){0});
    for (; q; q = engine_queue_after(e, q->name))
        dump_queue(&d, q);
    dump_deadlines(&d);
    dump_live(&d);
    dump_avoids(&d);
    dump_gangs(&d);
    dump_budgets(&d);
    dump_groups(&d);
    dump_folds(&d);
    dump_rest(&d);
    qsort(d.lines, d.count, sizeof *d.lines, compare_lines);
    for (size_t i = 0; i < d.count; i++) {
        buf_str(out, d.lines[i]);
        buf_byte(out, '\n');
        free((char *)(uintptr_t)d.lines[i].at);
    }
    free(d.lines);
    buf_fini(&d.line);
}
