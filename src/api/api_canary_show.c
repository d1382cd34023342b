/* SPDX-License-Identifier: Apache-2.0 */

/* Retries with canaries as the API shows them. */

#include "api/api_canary_internal.h"
#include "api/api_routes.h"

static const char *state_at(int i)
{
    static const char *const names[STATES] = {"canary", "rest", "done", "failed", "stopped"};
    return names[i];
}

static const char *outcome_at(int i)
{
    return i ? "succeeded" : "waiting";
}

static const struct shape_words state_words = {.count = STATES, .word = state_at};

struct shown_job {
    struct id id;
    enum { SHOWN_WAITING, SHOWN_SUCCEEDED } outcome;
};
static const struct shape_words outcome_words = {.count = 2, .word = outcome_at};

struct shown {
    uint64_t number, retried;
    enum canary_state state;
    instant began, ended;
    uint32_t rate;
    struct str query, reason, by;
    const struct shown_job *jobs;
    size_t count;
};

static const struct shape_member job_members[] = {
    {MEMBER(struct shown_job, id, "id", ALWAYS, NULL)},
    {MEMBER_WORD(struct shown_job, outcome, "outcome", ALWAYS, &outcome_words, NULL)},
};
static const struct shape job_shape = {SHAPE_MEMBERS(job_members)};

static const struct shape_member canary_members[] = {
    {MEMBER(struct shown, number, "id", ALWAYS, "counted from 1 on", .type = "integer 1..")},
    {MEMBER_WORD(struct shown, state, "state", ALWAYS, &state_words, NULL)},
    {MEMBER(struct shown, query, "filter", ALWAYS, "which dead jobs, as in the query")},
    {MEMBER(struct shown, rate, "rate", IF_SET, "of the rest, how many a second become ready")},
    {MEMBER(struct shown, began, "began_at", ALWAYS, NULL)},
    {MEMBER(struct shown, ended, "ended_at", OR_NULL, "null: it goes on")},
    {MEMBER_OBJECTS(struct shown, jobs, count, "canaries", ALWAYS, &job_shape, NULL)},
    {MEMBER(struct shown, retried, "retried", ALWAYS, "of the rest")},
    {MEMBER(struct shown, reason, "reason", IF_SET, "why it has failed")},
    {MEMBER_JSON(struct shown, by, "by", IF_SET, "who asked for it, as in the audit")},
};
const struct shape api_canary_shape = {.name = "CanaryRetry", SHAPE_MEMBERS(canary_members)};

struct shown_list {
    const struct shown *at;
    size_t count;
};
static const struct shape_member list_members[] = {
    {MEMBER_OBJECTS(struct shown_list, at, count, "canary_retries", ALWAYS, &api_canary_shape,
                    "the newest first")},
};
const struct shape api_canary_list_shape = {.name = "CanaryRetries", SHAPE_MEMBERS(list_members)};

static struct shown shown_of(const struct canary *c, struct arena *a)
{
    struct shown_job *jobs = arena_get(a, c->count * sizeof *jobs + 1);
    for (size_t i = 0; i < c->count; i++)
        jobs[i] = (struct shown_job){c->jobs[i].id,
                                     c->jobs[i].succeeded ? SHOWN_SUCCEEDED : SHOWN_WAITING};
    return (struct shown){.number = c->number,
                          .retried = c->retried,
                          .state = c->state,
                          .began = c->began,
                          .ended = c->ended,
                          .rate = c->rate,
                          .query = str_from(c->query),
                          .reason = str_from(c->reason),
                          .by = str_from(c->by),
                          .jobs = jobs,
                          .count = c->count};
}

static void answer(struct http_exchange *x, int status, struct api *a, const struct shape *shape,
                   const void *owner)
{
    a->scratch.len = 0;
    shape_write(&a->scratch, shape, owner, SHAPE_AS_IT_IS);
    api_reply_json(x, status, &a->scratch);
}

const char *api_canary_state_name(enum canary_state s)
{
    return state_at((int)s);
}

void api_canary_answer(struct http_exchange *x, int status, struct api *a, const struct canary *c)
{
    struct arena scratch = {0};
    struct shown shown = shown_of(c, &scratch);
    answer(x, status, a, &api_canary_shape, &shown);
    arena_fini(&scratch);
}

void api_canary_list(struct api *a, const struct api_request *r)
{
    struct shown *list =
        arena_get(r->http->arena, (CANARY_KEPT_MAX + CANARY_ACTIVE_MAX + 1) * sizeof *list);
    struct shown_list l = {.at = list};
    for (struct list *n = a->canaries->all.prev;
         n != &a->canaries->all && l.count <= CANARY_KEPT_MAX; n = n->prev) {
        const struct canary *c = LIST_OF(n, struct canary, node);
        if (c->known)
            list[l.count++] = shown_of(c, r->http->arena);
    }
    answer(r->x, 200, a, &api_canary_list_shape, &l);
}
