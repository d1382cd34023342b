/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_survey.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "store/log_segment.h"

/* A frame, whole or not. */
struct sight {
    enum log_frame_kind kind;
    bool whole;
    uint64_t last;    /* the log had come so far before it */
    uint64_t durable; /* of these, so many were durable */
    uint64_t next;    /* of a seal: the generation in which the log goes on */
    struct log_survey_batch batch;
};

struct sights {
    struct sight *list;
    size_t count, cap;
};

/* --- looking --- */

static void add_sight(struct sights *all, const struct log_frame *f, bool whole,
                      const struct log_segment *s, uint64_t at)
{
    uint64_t last = f->kind == LOG_BATCH && f->number ? f->number - 1 : f->number;
    uint64_t durable = f->durable;
    /* One of an earlier version does not say so. */
    if (!durable && last > LOG_UNDER_WAY_MAX)
        durable = last - LOG_UNDER_WAY_MAX;
    ALLOC_GROW(all->list, all->count, all->cap, 64);
    struct sight *sight = &all->list[all->count++];
    *sight = (struct sight){.kind = f->kind, .whole = whole, .last = last, .durable = durable};
    sight->batch =
        (struct log_survey_batch){f->number, f->generation, s->name, at, log_frame_size(0)};
    if (whole && f->kind == LOG_BATCH)
        sight->batch.size = f->size;
    if (f->kind == LOG_SEAL)
        sight->next = f->other;
}

static struct log_reader reader_of(const struct log_segment *s)
{
    return (struct log_reader){.fd = s->plain, .segment = s->name, .size = s->file_size};
}

NODISCARD static struct err look_at_segment(const struct log_segment *s, struct sights *all)
{
    struct log_reader r = reader_of(s);
    struct buf contents = {0};
    struct err e = err_none();
    for (uint64_t at = 0; e.code == ERR_OK && at + LOG_BLOCK <= r.size;) {
        struct log_frame f = {0};
        bool whole;
        e = log_reader_peek(&r, at, &whole, &f, &contents);
        if (e.code == ERR_OK && f.kind)
            add_sight(all, &f, whole, s, at);
        at += whole && f.kind == LOG_BATCH ? f.size : LOG_BLOCK;
    }
    log_reader_fini(&r);
    buf_fini(&contents);
    return e;
}

static void free_list(struct log_segment **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        log_segment_free(list[i]);
    free(list);
}

/* The newest that is in use is shorter than it was. */
static bool is_cut_off(struct log_segment *const *list, size_t count)
{
    for (size_t i = count; i > 0; i--)
        if (list[i - 1]->head == LOG_HEAD_USED)
            return list[i - 1]->file_size < list[i - 1]->size;
    return false;
}

NODISCARD static struct err look_at_all(const char *dir, struct sights *all, bool *cut_off)
{
    struct log_segment **list;
    size_t count;
    struct err e = log_segment_list(dir, true, true, &list, &count);
    for (size_t i = 0; i < count && e.code == ERR_OK; i++)
        e = look_at_segment(list[i], all);
    *cut_off = e.code == ERR_OK && is_cut_off(list, count);
    free_list(list, count);
    return e;
}

/* --- what counts --- */

/* The newest generation first, and in it the highest number. */
static int compare(const void *a, const void *b)
{
    const struct log_survey_batch *x = &((const struct sight *)a)->batch,
                                  *y = &((const struct sight *)b)->batch;
    if (x->generation != y->generation)
        return x->generation < y->generation ? 1 : -1;
    return (x->number < y->number) - (x->number > y->number);
}

/* A batch that a later generation did not begin behind was given up before that: under way when the
 * process was killed, or behind damage. */
static void choose(const struct sights *all, struct log_survey *out)
{
    uint64_t limit = UINT64_MAX, next_limit = UINT64_MAX, generation = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct sight *s = &all->list[i];
        if (s->batch.generation != generation)
            limit = next_limit;
        generation = s->batch.generation;
        if (s->last < next_limit)
            next_limit = s->last;
        uint64_t durable = s->durable < limit ? s->durable : limit;
        if (durable > out->last)
            out->last = durable;
        if (s->kind == LOG_BATCH && s->whole && s->batch.number >= out->from &&
            s->batch.number <= limit)
            out->batches[out->count++] = s->batch;
    }
}

/* A seal leads to a segment of which nothing is there. */
static bool leads_nowhere(const struct sights *all)
{
    uint64_t newest = 0, next = 0;
    for (size_t i = 0; i < all->count; i++) {
        const struct sight *s = &all->list[i];
        newest = s->batch.generation > newest ? s->batch.generation : newest;
        next = s->next > next ? s->next : next;
    }
    return next > newest;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct log_survey_batch *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Once each; what lies behind a batch that may never have been is not there either. */
static void settle(struct log_survey *s)
{
    size_t kept = 0;
    uint64_t next = s->from;
    if (s->count)
        qsort(s->batches, s->count, sizeof *s->batches, compare_numbers);
    for (size_t i = 0; i < s->count; i++) {
        uint64_t number = s->batches[i].number;
        if (number < next)
            continue;
        if (number != next && next > s->last)
            break;
        s->missing += number - next;
        next = number + 1;
        s->batches[kept++] = s->batches[i];
    }
    s->count = kept;
    if (next <= s->last)
        s->missing += s->last + 1 - next;
    else
        s->last = next - 1;
}

struct err log_survey_make(const char *dir, uint64_t from, uint64_t reached, struct log_survey *out)
{
    struct sights all = {0};
    *out = (struct log_survey){.from = from};
    struct err e = look_at_all(dir, &all, &out->end_missing);
    if (e.code == ERR_OK && all.count) {
        out->end_missing = out->end_missing || leads_nowhere(&all);
        qsort(all.list, all.count, sizeof *all.list, compare);
        out->batches = alloc_get(all.count * sizeof *out->batches);
        choose(&all, out);
    }
    bool told = out->last >= reached; /* by the frames */
    out->last = told ? out->last : reached;
    settle(out);
    if (!told && (!out->count || out->batches[out->count - 1].number < reached))
        out->end_missing = true;
    free(all.list);
    return e;
}

void log_survey_fini(struct log_survey *s)
{
    free(s->batches);
    *s = (struct log_survey){0};
}

bool log_survey_missing(const struct log_survey *s, uint64_t from, uint64_t *first, uint64_t *last,
                        const struct log_survey_batch **before)
{
    uint64_t next = s->from;
    *before = NULL;
    for (size_t i = 0; i <= s->count; i++) {
        uint64_t number = i < s->count ? s->batches[i].number : s->last + 1;
        if (next >= from && number > next) {
            *first = next;
            *last = number - 1;
            return true;
        }
        if (i < s->count)
            *before = &s->batches[i];
        next = number + 1;
    }
    return false;
}

/* --- reading --- */

NODISCARD static struct err read_one(const struct log_segment *s, const struct log_survey_batch *b,
                                     log_replay_fn fn, void *ctx)
{
    struct log_reader r = reader_of(s);
    struct buf contents = {0};
    struct log_frame f;
    bool whole;
    struct err e = log_reader_peek(&r, b->at, &whole, &f, &contents);
    if (e.code == ERR_OK && !(whole && f.number == b->number && f.generation == b->generation))
        e = err_make(ERR_CORRUPT, "batch %llu cannot be read a second time",
                     (unsigned long long)b->number);
    if (e.code == ERR_OK)
        e = fn(ctx, b->number, buf_view(&contents));
    log_reader_fini(&r);
    buf_fini(&contents);
    return e;
}

struct err log_survey_read(const struct log_survey *s, const char *dir, log_replay_fn fn, void *ctx)
{
    struct log_segment **list;
    size_t count;
    struct err e = log_segment_list(dir, true, true, &list, &count);
    for (size_t i = 0; i < s->count && e.code == ERR_OK; i++)
        for (size_t k = 0; k < count && e.code == ERR_OK; k++)
            if (list[k]->name == s->batches[i].segment)
                e = read_one(list[k], &s->batches[i], fn, ctx);
    free_list(list, count);
    return e;
}
