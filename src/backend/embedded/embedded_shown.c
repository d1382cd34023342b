/* SPDX-License-Identifier: Apache-2.0 */

/* What senders that are limited to queues are shown of their jobs: these may wait for jobs of other
 * queues, if somebody said so who is not limited, and words may name those. Neither their ids nor
 * what became of them is told. */

#include <string.h>

#include "backend/embedded/embedded_reach.h"
#include "base/glob.h"

/* Jobs that are looked up for one answer, which takes some milliseconds; what more are named are
 * not shown. */
#define LOOKED_UP_MAX 1000

struct looker {
    struct embedded *b;
    struct glob_list reach;
    size_t left;
};

static bool is_seen(struct looker *l, struct id id)
{
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    if (l->left == 0)
        return false;
    l->left--;
    struct embedded *b = l->b;
    struct err err = engine_read(b->engine, b->now, id, false, &scratch, &job, &extent);
    bool seen = err.code == ERR_OK && glob_list_matches(l->reach, job.queue);
    arena_fini(&scratch);
    return seen;
}

static void show_ids(struct looker *l, struct str *ids)
{
    size_t count = depend_count(*ids);
    if (!count)
        return;
    struct str seen = depend_new(&l->b->building->arena, count);
    for (size_t i = 0; i < count; i++)
        if (is_seen(l, depend_at(*ids, i)))
            depend_add(&seen, depend_at(*ids, i));
    *ids = seen;
}

/* --- words --- */

static void show_words(struct looker *l, struct id own, struct str *text)
{
    struct buf shown = {0};
    struct str rest = *text;
    struct id id;
    size_t at;
    while (id_find(rest, &at, &id)) {
        bool seen = id_eq(id, own) || is_seen(l, id);
        buf_str(&shown, (struct str){rest.at, at});
        buf_str(&shown, seen ? (struct str){rest.at + at, ID_TEXT_LEN} : STR("of another queue"));
        rest.at += at + ID_TEXT_LEN;
        rest.len -= at + ID_TEXT_LEN;
    }
    if (shown.len) {
        buf_str(&shown, rest);
        *text = arena_copy(&l->b->building->arena, buf_view(&shown));
    }
    buf_fini(&shown);
}

/* --- jobs --- */

static void show_job(struct looker *l, struct job *job)
{
    show_ids(l, &job->options.depends_on);
    show_ids(l, &job->state.extras.waits_for);
    if (job->state.reason.len)
        show_words(l, job->id, &job->state.reason);
}

static struct looker looker_of(struct embedded *b, struct glob_list reach)
{
    return (struct looker){b, reach, LOOKED_UP_MAX};
}

void embedded_reach_handouts(struct embedded *b, struct glob_list reach, struct handout *h,
                             size_t count)
{
    struct looker l = looker_of(b, reach);
    for (size_t i = 0; reach.count && i < count; i++)
        show_job(&l, &h[i].job);
}

void embedded_reach_scanned(struct embedded *b, const struct scan *scan)
{
    struct looker l = looker_of(b, scan->reach);
    size_t count = scan->kind == CMD_LIST ? scan->count : scan->kept;
    for (size_t i = 0; l.reach.count && scan->jobs && i < count; i++)
        show_job(&l, &scan->jobs[i]);
}

void embedded_reach_reply(struct embedded *b, const struct command *c, struct reply *r)
{
    struct looker l = looker_of(b, c->reach);
    if (!c->reach.count || r->err.code != ERR_OK)
        return;
    for (size_t i = 0; r->jobs && i < r->count; i++)
        show_job(&l, &r->jobs[i]);
    for (size_t i = 0; r->enqueued && i < r->count; i++)
        if (r->enqueued[i].duplicate || r->enqueued[i].folded)
            show_job(&l, &r->enqueued[i].job);
    for (size_t i = 0; r->handouts && i < r->count; i++)
        show_job(&l, &r->handouts[i].job);
}

/* --- explanations --- */

static void show_obstacle(struct looker *l, struct explanation *x, struct obstacle *o,
                          size_t hidden)
{
    struct arena *a = &l->b->building->arena;
    size_t seen = depend_count(x->job.state.extras.waits_for);
    char text[ID_TEXT_LEN];
    if (o->kind == OBSTACLE_IN_FLIGHT)
        o->text = STR("as many jobs are in flight in all as the server allows");
    if (o->kind != OBSTACLE_DEPENDENCY || !hidden)
        return;
    if (!seen) {
        o->text = STR("it waits for jobs of other queues");
        return;
    }
    id_format(depend_at(x->job.state.extras.waits_for, 0), text);
    struct buf words = {0};
    buf_print(&words,
              "it waits for %zu of the jobs that it may see, among them %.25s, and for "
              "jobs of other queues",
              seen, text);
    o->text = arena_copy(a, buf_view(&words));
    buf_fini(&words);
}

void embedded_reach_explanation(struct embedded *b, struct glob_list reach, struct explanation *x)
{
    struct looker l = looker_of(b, reach);
    if (!reach.count)
        return;
    size_t count = depend_count(x->job.state.extras.waits_for);
    show_job(&l, &x->job);
    size_t hidden = count - depend_count(x->job.state.extras.waits_for);
    for (size_t i = 0; i < x->obstacle_count; i++) {
        show_obstacle(&l, x, &x->obstacles[i], hidden);
        show_words(&l, x->job.id, &x->obstacles[i].text);
    }
    if (x->has_run)
        show_words(&l, x->job.id, &x->run.reason);
}
