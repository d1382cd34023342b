/* SPDX-License-Identifier: Apache-2.0 */

/* Why a job is not running. */

#include "api/api_access.h"
#include "api/api_routes.h"
#include "api/api_words.h"

#define EXPLAINED(name, condition)                                                                 \
    static bool name(const void *explanation)                                                      \
    {                                                                                              \
        const struct explanation *x = explanation;                                                 \
        return condition;                                                                          \
    }
EXPLAINED(is_ready, x->job.state.status == STATUS_READY)
EXPLAINED(has_run, x->has_run)
EXPLAINED(has_progress, x->has_progress)
EXPLAINED(has_hint, x->has_run && x->run.failure.hint.len)

static const struct shape_member obstacle_members[] = {
    {MEMBER_WORD(struct obstacle, kind, "kind", ALWAYS, &api_obstacle_words, NULL)},
    {MEMBER(struct obstacle, until, "until", OR_NULL, "null: that is up to somebody")},
    {MEMBER(struct obstacle, text, "reason", ALWAYS, NULL)},
};
static const struct shape obstacle_shape = {SHAPE_MEMBERS(obstacle_members)};

static const struct shape_member workers_members[] = {
    {MEMBER(struct explanation, workers, "asking", ALWAYS, "streams and claims for its queue")},
    {MEMBER(struct explanation, with_room, "with_room", ALWAYS, "of them")},
    {MEMBER(struct explanation, crew.busy, "busy", ALWAYS, "workers that hold jobs of its queue")},
    {MEMBER(struct explanation, crew.runs, "in_flight", ALWAYS,
            "jobs of its queue that they hold")},
    {MEMBER(struct explanation, crew.elsewhere, "busy_elsewhere", ALWAYS,
            "workers of its queue that hold jobs of others only")},
    {MEMBER(struct explanation, crew.usual, "run_ms", OR_NULL,
            "how long a run of its queue takes, about")},
    {MEMBER(struct explanation, crew.left, "room_in_ms", OR_NULL,
            "when a slot should come free; null: nobody can say")},
};
static const struct shape workers_shape = {SHAPE_MEMBERS(workers_members)};

static void write_position(struct buf *b, const void *ahead)
{
    buf_int(b, (int64_t)(*(const uint64_t *)ahead + 1));
}

static void write_exact(struct buf *b, const void *ahead)
{
    bool exact = *(const uint64_t *)ahead < EXPLAIN_AHEAD_MAX;
    buf_str(b, exact ? STR("true") : STR("false"));
}

static const struct shape_member place_members[] = {
    {MEMBER_OTHER(struct explanation, ahead, "position", ALWAYS, "integer 1..", write_position,
                  "in its queue")},
    {MEMBER_OTHER(struct explanation, ahead, "position_exact", ALWAYS, "boolean", write_exact,
                  "false: at least there")},
    {MEMBER_INNER("workers", ALWAYS, &workers_shape, NULL)},
};
static const struct shape place_shape = {SHAPE_MEMBERS(place_members)};

static const struct shape_member explanation_members[] = {
    {MEMBER(struct explanation, job.id, "id", ALWAYS, NULL)},
    {MEMBER(struct explanation, job.queue, "queue", ALWAYS, NULL)},
    {MEMBER_WORD(struct explanation, job.state.status, "status", ALWAYS, &api_status_words, NULL)},
    {MEMBER(struct explanation, summary, "summary", ALWAYS, "all of it in one sentence")},
    {MEMBER(struct explanation, since, "since", OR_NULL, "when it came to be what it is")},
    {MEMBER(struct explanation, earliest, "earliest_at", OR_NULL,
            "first moment at which it could be handed out")},
    {MEMBER_OBJECTS(struct explanation, obstacles, obstacle_count, "waits_for", ALWAYS,
                    &obstacle_shape, NULL)},
    {MEMBERS_INNER(&place_shape), .is_set = is_ready},
    {MEMBER(struct explanation, job.state.reason, "reason", IF_SET,
            "the newest verdict, in words")},
    {MEMBER_WORD(struct explanation, job.state.resolution, "resolution", IF_SET,
                 &api_resolution_words, NULL)},
    {MEMBER(struct explanation, job.state.purge_at, "purge_at", IF_SET, "end of its retention")},
    {MEMBER_LIST(struct explanation, judges.policies, judges.count, "retry_policies", ALWAYS,
                 "those that judge its failures, or would if they were enabled, in that order: its "
                 "queue's, its own, or the server's default")},
    {MEMBER(struct explanation, judges.words, "judged_by", IF_SET,
            "who judges its failures, in words")},
    {MEMBER_LIST(struct explanation, judges.warnings, judges.warning_count, "warnings", ALWAYS,
                 "what is valid in those policies and the retry settings, and most likely not "
                 "meant")},
    {MEMBER(struct explanation, remedy, "remedy", IF_SET, "what would bring a dead job back")},
    {MEMBER(struct explanation, run.failure.hint, "hint", IF_SET,
            "of the rule that gave the newest failure its category", .is_set = has_hint)},
    {MEMBER_OBJECT(struct explanation, progress, "progress", IF_SET, &api_progress_shape,
                   "what the run said last", .is_set = has_progress)},
    {MEMBER_OBJECT(struct explanation, run, "newest_run", IF_SET, &api_run_shape, NULL,
                   .is_set = has_run)},
};
const struct shape api_explanation_shape = {.name = "Explanation",
                                            SHAPE_MEMBERS(explanation_members)};

static void on_explained(void *ctx, const struct reply *r)
{
    api_hide_logs(ctx, r);
    api_reply_part(ctx, r, 200, &api_explanation_shape, r->explanation);
}

void api_explain(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_EXPLAIN, .done = on_explained};
    struct err err = api_path_id(r->params->at[0], &c, &c.id);
    if (err.code == ERR_OK)
        err = api_check_media(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    c.ctx = api_call(a, r);
    api_send(a, r, &c);
}
