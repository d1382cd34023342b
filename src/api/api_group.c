/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of jobs. */

#include "api/api_routes.h"

static const struct shape_member group_members[] = {
    {MEMBER(struct group_view, record.name, "name", ALWAYS, NULL)},
    {MEMBER(struct group_view, record.owner, "owner", IF_SET, "given by all of its jobs")},
    {MEMBER(struct group_view, record.sealed_at, "sealed_at", IF_SET,
            "since when it takes no further jobs")},
    {MEMBER(struct group_view, record.retain_until, "retain_until", IF_SET,
            "the latest of its jobs'")},
    {MEMBER(struct group_view, jobs, "jobs", ALWAYS, "how many there are")},
    {MEMBER(struct group_view, unended, "unended", ALWAYS, "how many of them have not ended")},
};
const struct shape api_group_shape = {.name = "Group", SHAPE_MEMBERS(group_members)};

static void on_group(void *ctx, const struct reply *r)
{
    api_reply_part(ctx, r, 200, &api_group_shape, r->group);
}

static void submit(struct api *a, const struct api_request *r, enum command_kind kind)
{
    struct command c = {.kind = kind, .group = r->params->at[0], .done = on_group};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_group_read(struct api *a, const struct api_request *r)
{
    submit(a, r, CMD_GROUP_READ);
}

void api_group_seal(struct api *a, const struct api_request *r)
{
    submit(a, r, CMD_GROUP_SEAL);
}
