/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_recover.h"

#include "base/log.h"
#include "base/must.h"

/* Together with the fault they must not be longer than an error may be. */
#define REMEDY                                                                                     \
    "run 'tenax check --salvage', restore a backup, or start once with --commit-mode buffered"
#define UNSYNCED_REMEDY                                                                            \
    "after a power cut start once with --commit-mode buffered; see 'tenax check --salvage'"

/* A walk along the log. */
struct walk {
    const struct log_recovery *r;
    struct log_segment *segment;
    uint64_t at, generation, last, newest;
    const char *fault; /* why it ends before its end; NULL: it does not */
    bool unsynced;     /* and what is missing was never synced */
    uint64_t from;
    log_replay_fn fn; /* NULL: nobody is called */
    void *ctx;
};

/* --- along the segments --- */

/* To the end of one segment; *next is the generation where it goes on, or 0. */
NODISCARD static struct err walk_frames(struct walk *w, struct log_reader *reader,
                                        struct buf *contents, uint64_t *next)
{
    enum log_found found;
    struct log_frame f;
    *next = 0;
    for (;;) {
        TRY(log_reader_next(reader, &found, &f, contents));
        if (found != LOG_FOUND_BATCH)
            break;
        if (w->fn && reader->last >= w->from)
            TRY(w->fn(w->ctx, reader->last, buf_view(contents)));
    }
    if (found == LOG_FOUND_SEAL)
        *next = f.other;
    if (found == LOG_FOUND_DAMAGE || found == LOG_FOUND_UNSYNCED)
        w->fault = reader->fault;
    w->unsynced = found == LOG_FOUND_UNSYNCED;
    return err_none();
}

NODISCARD static struct err walk_segment(struct walk *w, uint64_t *next)
{
    struct log_reader reader;
    struct log_frame f;
    enum log_head head;
    struct buf contents = {0};
    struct log_segment *s = w->segment;
    struct err e = log_reader_open(&reader, s->name, s->plain, &head, &f);
    if (e.code == ERR_OK)
        e = walk_frames(w, &reader, &contents, next);
    if (e.code == ERR_OK && s->file_size < s->size && (!w->fault || w->unsynced)) {
        w->fault = "a segment is shorter than it was";
        w->unsynced = false;
    }
    s->visited = true;
    s->last = w->last = reader.last;
    w->at = reader.at;
    w->generation = reader.generation;
    if (w->generation > w->newest)
        w->newest = w->generation;
    log_reader_fini(&reader);
    buf_fini(&contents);
    return e;
}

static struct log_segment *find(const struct walk *w, uint64_t generation)
{
    for (size_t i = 0; i < w->r->count; i++) {
        struct log_segment *s = w->r->list[i];
        if (s->head >= LOG_HEAD_UNUSED && s->generation == generation && s->before == w->last &&
            s->other == w->generation)
            return s;
    }
    return NULL;
}

/* From the segment on, to the end. */
NODISCARD static struct err walk_along(struct walk *w)
{
    for (;;) {
        uint64_t next = 0;
        TRY(walk_segment(w, &next));
        if (w->fault || !next)
            return err_none();
        struct log_segment *s = find(w, next);
        if (!s) {
            w->fault = "a segment is missing or damaged";
            return err_none();
        }
        w->segment = s;
    }
}

/* --- its beginning --- */

/* The newest segment that begins before that batch, and is in use: an unused one counts only
 * if there is no other, for it may have been made by someone who was killed before he came to use
 * it. */
static struct log_segment *find_first(const struct log_recovery *r, uint64_t from,
                                      enum log_head head)
{
    for (size_t i = r->count; i > 0; i--) {
        struct log_segment *s = r->list[i - 1];
        if (s->head == head && s->before < from)
            return s;
    }
    return NULL;
}

/* Nothing may be left over that was written after the beginning. Of one that was begun and not used
 * the log may not know yet; but all before it was synced. */
static const char *find_stray(const struct log_recovery *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct log_segment *s = r->list[i];
        if (s->visited || s->head < LOG_HEAD_UNUSED || s->generation <= r->first->generation)
            continue;
        if (s->head == LOG_HEAD_USED)
            return "segments are missing between two that are there";
        if (s->before > r->last)
            return "the end of a segment is missing that another one follows";
    }
    return NULL;
}

static bool any_used(const struct log_recovery *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->list[i]->head != LOG_HEAD_BLANK)
            return true;
    return false;
}

/* --- the verdict --- */

NODISCARD static struct err give_up(struct log_recovery *r, const char *fault, bool unsynced)
{
    if (!fault)
        return err_none();
    bool may = r->lossy || (unsynced && r->unsynced);
    if (!may && unsynced)
        return err_make(ERR_CORRUPT,
                        "the log in %.40s lacks batches after %llu that were never "
                        "synced: " UNSYNCED_REMEDY,
                        r->dir, (unsigned long long)r->last);
    if (!may)
        return err_make(ERR_CORRUPT, "the log in %.40s is damaged after batch %llu: %s: " REMEDY,
                        r->dir, (unsigned long long)r->last, fault);
    log_warn("the log in %s is damaged: %s; what was committed after batch %llu, and is not in "
             "tables, is lost",
             r->dir, fault, (unsigned long long)r->last);
    r->lost = true;
    return err_none();
}

static void free_the_rest(struct log_recovery *r)
{
    for (size_t i = 0; i < r->count; i++)
        r->list[i]->free = !r->list[i]->visited;
}

static void begin_anew(struct log_recovery *r)
{
    r->first = r->current = NULL;
    r->last = r->from - 1;
    for (size_t i = 0; i < r->count; i++)
        r->list[i]->visited = false;
}

/* There is none that could be the log's. */
NODISCARD static struct err find_nothing(struct log_recovery *r)
{
    const char *fault = any_used(r) ? "the segment with the oldest batches is missing or damaged"
                        : r->reached >= r->from || r->found ? "there is none"
                                                            : NULL;
    r->last = r->from - 1;
    return give_up(r, fault, false);
}

/* Along the log from the segment with that batch on, if there is one: r->first. */
NODISCARD static struct err walk_from(struct log_recovery *r, uint64_t from, struct walk *w)
{
    for (size_t i = 0; i < r->count; i++)
        r->list[i]->visited = false;
    r->first = find_first(r, from, LOG_HEAD_USED);
    if (!r->first)
        r->first = find_first(r, from, LOG_HEAD_UNUSED);
    *w = (struct walk){.r = r, .segment = r->first, .newest = r->newest};
    return r->first ? walk_along(w) : err_none();
}

/* What is wanted although tables hold it may be missing: then the log begins later. */
NODISCARD static struct err walk_all(struct log_recovery *r, struct walk *w)
{
    if (r->keep && r->keep < r->from) {
        TRY(walk_from(r, r->keep, w));
        if (r->first && !w->fault && w->last + 1 >= r->from)
            return err_none();
    }
    return walk_from(r, r->from, w);
}

struct err log_recover(struct log_recovery *r)
{
    struct walk w;
    must(r->from > 0);
    for (size_t i = 0; i < r->count; i++)
        if (r->list[i]->head >= LOG_HEAD_UNUSED && r->list[i]->generation > r->newest)
            r->newest = r->list[i]->generation;
    TRY(walk_all(r, &w));
    if (!r->first) {
        free_the_rest(r);
        return find_nothing(r);
    }
    r->current = w.segment;
    r->at = w.at;
    r->generation = w.generation;
    r->newest = w.newest;
    r->last = w.last;
    const char *stray = find_stray(r);
    const char *fault = w.fault ? w.fault : stray;
    /* Tables may be ahead of a log that was not synced: they hold what it lacks. */
    uint64_t tables = r->unsynced ? 0 : r->from - 1;
    uint64_t least = r->reached >= r->from ? r->reached : tables;
    if (!fault && r->last < least)
        fault = "it ends too early";
    TRY(give_up(r, fault, w.unsynced && !stray && r->last >= least));
    /* Where tables are ahead of what is left of the log, it begins anew behind them. */
    if (r->last + 1 < r->from)
        begin_anew(r);
    free_the_rest(r);
    return err_none();
}

struct err log_recover_replay(const struct log_recovery *r, uint64_t from, log_replay_fn fn,
                              void *ctx)
{
    if (from > r->last)
        return err_none();
    if (!r->first || r->first->before >= from)
        return err_make(ERR_CORRUPT, "the log in %.60s begins after batch %llu", r->dir,
                        (unsigned long long)from);
    struct walk w = {.r = r, .segment = r->first, .from = from, .fn = fn, .ctx = ctx};
    TRY(walk_along(&w));
    if (w.last < r->last)
        return err_make(ERR_CORRUPT, "the log in %.60s cannot be read a second time", r->dir);
    return err_none();
}
