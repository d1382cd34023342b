/* SPDX-License-Identifier: Apache-2.0 */

/* Ready jobs that not every taker may have at once: those that must stay off a node, and those that
 * draw on budgets. They are not in the ready order of their queue but in lines of jobs that are
 * alike: if the first of a line may not be handed out, the others may not either. Tasks, which only
 * takers of their kind are given, stand in lines of their own, too.
 *
 * The next job for a taker on a node is the first of the ready order and of all lines but those of
 * its own node. A further order, of the heads of lines, finds it in two steps however many lines
 * there are. A line whose budgets cannot pay is taken out of that order as a whole until they can:
 * so however many jobs wait for a budget, nobody looks at them. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_budget_internal.h"

static struct line *of_head(uint64_t val)
{
    return (struct line *)(uintptr_t)val;
}

bool engine_is_before(const struct btree_entry *a, const struct btree_entry *b)
{
    if (a->major != b->major)
        return a->major < b->major;
    return id_cmp((struct id){a->hi, a->lo}, (struct id){b->hi, b->lo}) < 0;
}

static bool is_same(const struct btree_entry *a, const struct btree_entry *b)
{
    return a->major == b->major && a->hi == b->hi && a->lo == b->lo;
}

static struct id id_of(const struct btree_entry *entry)
{
    return (struct id){entry->hi, entry->lo};
}

/* --- lines --- */

static void write_key(const struct queue *q, const struct budget_set *set, struct btree_entry entry,
                      struct str node, struct buf *key)
{
    uint64_t alike = (entry.major & RANK_OTHERS) | (uint64_t)READY_VAL_KIND(entry.val) << 1;
    const uint64_t numbers[] = {q->index, set ? set->number : 0, alike};
    buf_add(key, numbers, sizeof numbers);
    buf_str(key, node);
}

static void set_open(struct engine *e, struct line *l, bool open)
{
    e->open_lines += open;
    e->open_lines -= !list_is_empty(&l->open);
    list_unlink(&l->open);
    if (open)
        list_append(&l->queue->open_lines, &l->open);
}

static struct line *line_new(struct engine *e, struct queue *q, struct budget_set *set,
                             struct str key, enum job_kind kind)
{
    size_t fixed = 3 * sizeof(uint64_t);
    struct line *l = ALLOC(struct line);
    l->queue = q;
    l->kind = kind;
    l->key = strmap_put(&e->lines, key, l);
    l->name = (struct str){l->key.at + fixed, l->key.len - fixed};
    engine_budget_wait_init(&l->wait, set, false);
    list_init(&l->node);
    list_init(&l->open);
    list_append(&q->lines, &l->node);
    if (set) {
        set->refs++;
        set_open(e, l, true);
    }
    return l;
}

static void line_drop(struct engine *e, struct line *l)
{
    engine_budget_wait_end(e, &l->wait);
    if (l->wait.set)
        engine_budget_set_unref(e, l->wait.set);
    list_unlink(&l->node);
    set_open(e, l, false);
    e->order_bytes -= l->ready.bytes;
    btree_fini(&l->ready);
    must(strmap_remove(&e->lines, l->key) == l);
    free(l);
}

/* Where the job belongs; with `make` the line is made if it is not there. */
static struct line *line_of(struct engine *e, struct queue *q, struct btree_entry entry,
                            struct str node, bool make)
{
    struct budget_set *set = engine_budget_set_of(e, id_of(&entry));
    enum job_kind kind = READY_VAL_KIND(entry.val);
    if (!set && !node.len && kind == KIND_JOB)
        return NULL;
    struct buf key = {0};
    write_key(q, set, entry, node, &key);
    struct line *l = strmap_get(&e->lines, buf_view(&key));
    if (!l && make)
        l = line_new(e, q, set, buf_view(&key), kind);
    buf_fini(&key);
    return l;
}

/* Keeps what knows the first job of the line in step with it. */
static void update(struct engine *e, struct line *l)
{
    struct btree_entry was = l->head;
    struct btree *heads = &l->queue->line_heads[l->kind];
    if (was.val && !engine_budget_waits(&l->wait))
        must(btree_remove(heads, was, NULL));
    if (!btree_first(&l->ready, &l->head)) {
        line_drop(e, l);
        return;
    }
    if (was.val && engine_is_before(&was, &l->head))
        l->wait.moves = 0; /* it is about another job now */
    l->head.val = (uint64_t)(uintptr_t)l;
    if (!engine_budget_waits(&l->wait))
        must(btree_put(heads, l->head));
    else if (!is_same(&was, &l->head))
        engine_budget_wait_move(e, &l->wait, &l->head);
}

/* Whether struct queue counts its jobs among those that only budgets let go. */
static bool is_lined(const struct line *l)
{
    return l->wait.set && l->kind == KIND_JOB;
}

bool engine_line_add(struct engine *e, struct queue *q, struct btree_entry entry)
{
    struct str node = engine_avoid_enter(e, id_of(&entry), q, (uint32_t)entry.major);
    struct line *l = line_of(e, q, entry, node, true);
    if (!l)
        return false;
    must(engine_order_put(e, &l->ready, entry));
    q->lined += is_lined(l);
    update(e, l);
    return true;
}

/* Completes it, if the line has it. */
static bool find_entry(const struct line *l, struct btree_entry *entry)
{
    struct btree_entry found;
    if (!btree_at_least(&l->ready, *entry, &found) || !is_same(entry, &found))
        return false;
    *entry = found;
    return true;
}

/* The line that has the entry, which is completed; NULL if none does. */
static struct line *line_with(struct engine *e, struct queue *q, struct btree_entry *entry)
{
    struct str node = engine_avoid_node(e, id_of(entry));
    for (enum job_kind k = 0; k < JOB_KINDS; k++) {
        struct btree_entry at = *entry;
        if (k == KIND_TASK && q->tasks[STATUS_READY] == 0)
            break;
        at.val = engine_val_of(k, false);
        struct line *l = line_of(e, q, at, node, false);
        if (!l || !find_entry(l, &at))
            continue;
        *entry = at;
        return l;
    }
    return NULL;
}

bool engine_line_remove(struct engine *e, struct queue *q, struct btree_entry *entry)
{
    struct line *l = line_with(e, q, entry);
    if (!l)
        return false;
    must(engine_order_remove(e, &l->ready, *entry));
    engine_avoid_exit(e, id_of(entry));
    q->lined -= is_lined(l);
    update(e, l);
    return true;
}

bool engine_line_is_for(const struct engine *e, struct id id)
{
    return engine_budget_set_of(e, id) || engine_avoid_node(e, id).len > 0;
}

static const struct line *find(const struct engine *e, const struct queue *q,
                               struct btree_entry entry)
{
    /* Nothing is made, so that neither is changed. */
    return line_with((struct engine *)(uintptr_t)e, (struct queue *)(uintptr_t)q, &entry);
}

bool engine_line_has(const struct engine *e, const struct queue *q, struct btree_entry entry)
{
    return find(e, q, entry) != NULL;
}

size_t engine_line_rank(const struct engine *e, const struct queue *q, struct btree_entry entry,
                        size_t most)
{
    const struct line *l = find(e, q, entry);
    return l && engine_budget_waits(&l->wait) ? btree_rank(&l->ready, entry, most) : 0;
}

/* --- waiting for tokens --- */

static void wait_for(struct engine *e, struct line *l, size_t part)
{
    must(btree_remove(&l->queue->line_heads[l->kind], l->head, NULL));
    set_open(e, l, false);
    engine_budget_wait(e, &l->wait, part, &l->head);
    engine_queue_refresh(e, l->queue);
}

void engine_line_opened(struct engine *e, struct line *l)
{
    must(btree_put(&l->queue->line_heads[l->kind], l->head));
    set_open(e, l, true);
    engine_queue_offers(e, l->queue);
}

uint64_t engine_line_next(struct engine *e, instant now, struct queue *q, struct line **at)
{
    struct list *n = *at ? (*at)->open.next : q->open_lines.next;
    while (n != &q->open_lines) {
        struct line *l = LIST_OF(n, struct line, open);
        size_t part;
        n = n->next;
        if (engine_budget_lacks(now, l->wait.set, &l->head, NULL, &part)) {
            wait_for(e, l, part);
            continue;
        }
        uint64_t units = engine_budget_units(now, l->wait.set, &l->head);
        *at = l;
        return units < l->ready.count ? units : l->ready.count;
    }
    return 0;
}

bool engine_line_pays(struct engine *e, instant now, struct queue *q, struct btree_entry entry,
                      bool wait)
{
    if (list_is_empty(&q->open_lines) || !engine_budget_set_of(e, id_of(&entry)))
        return true;
    struct btree_entry head = {0};
    struct line *l = of_head(entry.val & ~(uint64_t)READY_VAL_BITS);
    size_t part;
    must(l && l->head.hi == entry.hi && l->head.lo == entry.lo);
    head = l->head;
    if (!engine_budget_lacks(now, l->wait.set, &head, NULL, &part))
        return true;
    if (wait)
        wait_for(e, l, part);
    return false;
}

/* --- the first ready job --- */

static bool first_from(const struct btree *t, const struct btree_entry *from,
                       struct btree_entry *first)
{
    return from ? btree_at_least(t, *from, first) : btree_first(t, first);
}

/* The first for a taker on that node: of all or, past the granted retries of the lowest priority,
 * from that place on. Lines whose first entry is before it hold such retries only. */
static bool first_for(const struct queue *q, enum job_kind kind, struct str node,
                      const struct btree_entry *from, struct btree_entry *first)
{
    struct btree_entry head;
    const struct btree *heads = &q->line_heads[kind];
    bool found = kind == KIND_JOB && first_from(&q->ready, from, first);
    bool has = heads->count && first_from(heads, from, &head);
    for (; has && node.len; has = btree_after(heads, head, &head))
        if (!str_eq(of_head(head.val)->name, node))
            break;
    if (!has || (found && engine_is_before(first, &head)))
        return found;
    must(btree_first(&of_head(head.val)->ready, first));
    first->val |= head.val; /* addresses are even */
    return true;
}

bool engine_ready_first(const struct queue *q, enum job_kind kind, struct str node,
                        struct btree_entry *first)
{
    if (q->limits && !engine_limits_allow(q->limits))
        return false;
    if (!first_for(q, kind, node, NULL, first))
        return false;
    if (q->retries_credit >= 0 || first->major & RANK_OTHERS)
        return true;
    struct btree_entry from = {.major = first->major | RANK_OTHERS}, other;
    if (first_for(q, kind, node, &from, &other) && other.major == from.major)
        *first = other;
    else
        first->major = from.major; /* no other queue's jobs are kept waiting for it either */
    return true;
}

/* However many lines there are, only those are looked at that have a job before the place. */
size_t engine_ready_rank(const struct queue *q, enum job_kind kind, struct str node,
                         struct btree_entry place, size_t most)
{
    size_t n = kind == KIND_JOB ? btree_rank(&q->ready, place, most) : 0;
    struct btree_entry head;
    const struct btree *heads = &q->line_heads[kind];
    bool more = btree_first(heads, &head);
    for (; more && n < most && engine_is_before(&head, &place);
         more = btree_after(heads, head, &head)) {
        const struct line *l = of_head(head.val);
        if (!node.len || !str_eq(l->name, node))
            n += btree_rank(&l->ready, place, most - n);
    }
    return n;
}

/* Adds those of one order that come before the last of a full list, which is in order. */
static size_t add_first(const struct btree *ready, struct btree_entry after, uint32_t rank_max,
                        struct ready_place *places, size_t n, size_t limit)
{
    struct btree_entry at = after;
    while (btree_after(ready, at, &at) && at.major <= rank_max) {
        size_t i = n;
        struct btree_entry last = {0};
        if (n == limit)
            last = (struct btree_entry){places[n - 1].rank, places[n - 1].id.hi,
                                        places[n - 1].id.lo, 0};
        if (n == limit && !engine_is_before(&at, &last))
            break;
        n += n < limit;
        for (i -= i == limit; i > 0; i--) {
            const struct ready_place *p = &places[i - 1];
            if (p->rank < at.major ||
                (p->rank == at.major && id_cmp(p->id, (struct id){at.hi, at.lo}) < 0))
                break;
            places[i] = *p;
        }
        places[i] = (struct ready_place){true, (uint32_t)at.major, {at.hi, at.lo}};
    }
    return n;
}

/* Whether nothing from that place on comes before the last of a full list. */
static bool is_past(const struct btree_entry *at, const struct ready_place *places, size_t n,
                    size_t limit)
{
    if (n < limit)
        return false;
    struct btree_entry last = {places[n - 1].rank, places[n - 1].id.hi, places[n - 1].id.lo, 0};
    return !engine_is_before(at, &last);
}

static size_t add_lines(const struct queue *q, enum job_kind kind, struct btree_entry after,
                        uint32_t rank_max, struct ready_place *places, size_t n, size_t limit)
{
    struct btree_entry head;
    bool more = btree_first(&q->line_heads[kind], &head);
    for (; more && !is_past(&head, places, n, limit);
         more = btree_after(&q->line_heads[kind], head, &head))
        n = add_first(&of_head(head.val)->ready, after, rank_max, places, n, limit);
    return n;
}

size_t engine_peek(const struct engine *e, const struct peek_command *c, size_t limit,
                   struct ready_place *places)
{
    const struct queue *q = engine_queue_find(e, c->queue);
    struct btree_entry after = {0};
    if (!q || limit == 0)
        return 0;
    uint32_t least = c->priority.set ? RANK(c->priority.lo, true) : 0;
    uint32_t most = c->priority.set ? RANK(c->priority.hi, false) : UINT32_MAX;
    after.major = least; /* no job has the id 0 */
    if (c->from.set && c->from.rank >= least)
        after = (struct btree_entry){c->from.rank, c->from.id.hi, c->from.id.lo, 0};
    size_t n = 0;
    if (!c->tasks)
        n = add_first(&q->ready, after, most, places, 0, limit);
    for (enum job_kind k = c->tasks ? KIND_TASK : KIND_JOB; k < JOB_KINDS; k++)
        n = add_lines(q, k, after, most, places, n, limit);
    return n;
}

/* Of very many lines only the first are looked at: those that came to be first. */
#define LINES_MAX 1000

struct id engine_line_oldest(const struct queue *q)
{
    struct id oldest = {0};
    int left = LINES_MAX;
    for (const struct list *i = q->lines.next; i != &q->lines && left > 0; i = i->next, left--) {
        const struct line *l = LIST_OF(i, const struct line, node);
        struct id id = engine_line_is_tasks(l) ? engine_order_oldest(&l->ready) : id_of(&l->head);
        if (id_is_none(oldest) || id_cmp(id, oldest) < 0)
            oldest = id;
    }
    return oldest;
}

bool engine_line_is_tasks(const struct line *l)
{
    return l->kind == KIND_TASK && !l->wait.set && l->name.len == 0;
}

/* --- the check, and the end --- */

static void check_line(const struct engine *e, const struct line *l)
{
    struct btree_entry first;
    must(btree_first(&l->ready, &first) && is_same(&first, &l->head));
    must(strmap_get(&e->lines, l->key) == l);
    must(l->wait.set || !engine_budget_waits(&l->wait));
    must((l->wait.set && !engine_budget_waits(&l->wait)) == !list_is_empty(&l->open));
    btree_check(&l->ready);
}

void engine_line_check(const struct engine *e, const struct queue *q)
{
    uint64_t ready = q->ready.count + q->parked.count + q->gang_ready;
    uint64_t lined = 0, tasks = 0, seen[JOB_KINDS] = {0};
    for (const struct list *n = q->lines.next; n != &q->lines; n = n->next) {
        const struct line *l = LIST_OF(n, const struct line, node);
        check_line(e, l);
        seen[l->kind] += !engine_budget_waits(&l->wait);
        ready += l->ready.count;
        lined += is_lined(l) ? l->ready.count : 0;
        tasks += l->kind == KIND_TASK ? l->ready.count : 0;
    }
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        must(seen[k] == q->line_heads[k].count);
    must(lined == q->lined && tasks == q->tasks[STATUS_READY]);
    must(ready == q->counts[STATUS_READY]);
}

uint64_t engine_line_bytes(const struct queue *q)
{
    uint64_t bytes = 0;
    for (const struct list *n = q->lines.next; n != &q->lines; n = n->next)
        bytes += LIST_OF(n, const struct line, node)->ready.bytes;
    return bytes;
}

void engine_line_queue_fini(struct engine *e, struct queue *q)
{
    while (!list_is_empty(&q->lines))
        line_drop(e, LIST_OF(q->lines.next, struct line, node));
    for (enum job_kind k = 0; k < JOB_KINDS; k++)
        btree_fini(&q->line_heads[k]);
}
