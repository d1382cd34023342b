/* SPDX-License-Identifier: Apache-2.0 */

/* Payloads of batched jobs are {"n":N,"b":[N,...]}: the numbers of all items in them, in order of
 * arrival. */

#include "evaluator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/must.h"
#include "sim.h"
#include "trace.h"

const struct str evaluator_whens[EVALUATOR_WHENS] = {{"always", 6}, {"below 4", 7}, {"never", 5}};
const struct str evaluator_fold = {"append", 6}, evaluator_bad = {"bad", 3},
                 evaluator_even = {"even", 4};

struct question {
    struct list node;
    uint64_t serial;
    struct arena arena;
    struct eval_request r;
};

static struct err submit(struct evaluator *base, const struct eval_request *r)
{
    struct fake_evaluator *e = (struct fake_evaluator *)base;
    struct sim *s = e->sim;
    if (!s->quiet && sim_chance(s, 3))
        return err_make(sim_chance(s, 50) ? ERR_BUSY : ERR_INTERNAL, "the evaluator is unwell");
    struct question *q = ALLOC(struct question);
    q->serial = ++s->serials;
    q->r = *r;
    for (int i = 0; i < 2; i++)
        q->r.exprs[i] = arena_copy(&q->arena, r->exprs[i]);
    struct str *inputs = arena_get(&q->arena, r->count * sizeof *inputs + 1);
    for (size_t i = 0; i < r->count; i++)
        inputs[i] = arena_copy(&q->arena, r->inputs[i]);
    q->r.inputs = inputs;
    list_init(&q->node);
    list_append(&e->waiting, &q->node);
    e->count++;
    trace_line("question %lu of kind %d about %zu", q->serial, r->kind, r->count);
    return err_none();
}

void evaluator_init(struct fake_evaluator *e, struct sim *s)
{
    *e = (struct fake_evaluator){.base = {submit}, .sim = s};
    list_init(&e->waiting);
}

bool evaluator_is_idle(const struct fake_evaluator *e)
{
    return e->count == 0;
}

static void drop(struct fake_evaluator *e, struct question *q)
{
    list_unlink(&q->node);
    e->count--;
    arena_fini(&q->arena);
    free(q);
}

void evaluator_drop_all(struct fake_evaluator *e)
{
    while (!list_is_empty(&e->waiting))
        drop(e, LIST_OF(e->waiting.next, struct question, node));
}

/* --- answers --- */

bool evaluator_is_even(struct str payload)
{
    unsigned long n = 1;
    char text[32] = {0};
    memcpy(text, payload.at, payload.len < sizeof text - 1 ? payload.len : sizeof text - 1);
    return sscanf(text, "{\"n\":%lu", &n) == 1 && n % 2 == 0;
}

static size_t items_of(struct str payload)
{
    size_t n = 1;
    for (size_t i = 0; i < payload.len; i++)
        n += payload.at[i] == ',';
    return n - 1; /* one comma is before "b" */
}

static bool has_room(struct str when, struct str existing)
{
    if (str_eq(when, evaluator_whens[1]))
        return items_of(existing) < 4;
    return str_eq(when, evaluator_whens[0]);
}

static void append(struct buf *out, struct str existing, struct str added)
{
    const char *items = memchr(added.at, '[', added.len);
    must(items && existing.len > 2);
    buf_str(out, (struct str){existing.at, existing.len - 2}); /* without "]}" */
    buf_lit(out, ",");
    buf_str(out, (struct str){items + 1, (size_t)(added.at + added.len - items - 1)});
}

static struct err outcome(struct sim *s, const struct question *q)
{
    if (q->r.kind != EVAL_FILTER && str_eq(q->r.exprs[1], evaluator_bad))
        return err_make(ERR_UNPROCESSABLE, "bad expression");
    if (s->quiet || !sim_chance(s, 4))
        return err_none();
    return err_make(sim_chance(s, 50) ? ERR_UNPROCESSABLE : ERR_INTERNAL, "evaluation failed");
}

static void answer(struct fake_evaluator *e, struct question *q)
{
    struct sim *s = e->sim;
    const struct eval_request *r = &q->r;
    struct err err = outcome(s, q);
    struct eval_answer *answers = arena_zero(&q->arena, r->count * sizeof *answers + 1);
    struct buf payload = {0};
    size_t count = r->kind == EVAL_FILTER ? r->count : r->kind == EVAL_FOLD;
    for (size_t i = 0; r->kind == EVAL_FILTER && i < count; i++)
        answers[i].truth = evaluator_is_even(r->inputs[i]);
    if (r->kind == EVAL_FOLD && has_room(r->exprs[0], r->inputs[0])) {
        answers[0].truth = true;
        append(&payload, r->inputs[0], r->inputs[1]);
        answers[0].payload = buf_view(&payload);
        if (!s->quiet && sim_chance(s, 3))
            answers[0].payload.len--; /* no longer JSON */
    }
    trace_line("answer to question %lu: %d, %d", q->serial, err.code, count && answers[0].truth);
    s->arrived = true;
    s->calling = true;
    if (err.code == ERR_OK)
        r->done(r->ctx, &err, answers, count, (span){0});
    else
        r->done(r->ctx, &err, NULL, 0, (span){0});
    s->calling = false;
    buf_fini(&payload);
}

void evaluator_step(struct fake_evaluator *e)
{
    if (e->count == 0)
        return;
    struct list *n = e->waiting.next;
    for (uint64_t skip = sim_draw(e->sim, e->count); skip > 0; skip--)
        n = n->next;
    struct question *q = LIST_OF(n, struct question, node);
    /* Unlinked first: the answer may cause new questions. */
    list_unlink(&q->node);
    list_init(&q->node);
    answer(e, q);
    drop(e, q);
}
