/* SPDX-License-Identifier: Apache-2.0 */

/* What the server says of itself: health, version. */

#include <stdlib.h>

#include "api/api_access.h"
#include "api/api_routes.h"
#include "base/rfc3339.h"
#include "policy/standing.h"

/* Jobs by status. */
struct counts {
    uint64_t of[STATUS_COUNT];
};

static void submit(struct api *a, const struct api_request *r, enum command_kind kind,
                   reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .ctx = api_call(a, r)};
    struct err err = api_check_media(r->http);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        api_send(a, r, &c);
}

static const struct shape_member reset_members[] = {
    {MEMBER(struct reply, clock.from, "from", ALWAYS, "the time that it was")},
    {MEMBER(struct reply, clock.to, "to", ALWAYS, "the time that it is")},
    {MEMBER(struct reply, clock.corrected, "corrected", ALWAYS,
            "so many jobs had times that are yet to come")},
};
const struct shape api_clock_reset_shape = {.name = "ClockReset", SHAPE_MEMBERS(reset_members)};

static void on_clock_reset(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_clock_reset_shape);
}

void api_clock_reset(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_CLOCK_RESET, .done = on_clock_reset};
    struct err err = api_check_media(r->http);
    if (err.code == ERR_OK && r->http->body.len)
        err = api_decode_body(a, r->http, NULL, 0, true, NULL);
    api_submit(a, r, &c, err);
}

static const struct shape_member counts_members[] = {
#define STATUS(name, wire, meaning)                                                                \
    {MEMBER(struct counts, of[STATUS_##name], wire, ALWAYS, meaning)},
#include "core/lifecycle.def"
#undef STATUS
};
const struct shape api_counts_shape = {.name = "Counts", SHAPE_MEMBERS(counts_members)};

static const struct shape_member damaged_members[] = {
    {MEMBER(struct reply, status.damaged_jobs, "jobs", ALWAYS, "jobs of which a part is lost")},
    {MEMBER(struct reply, status.damaged_tables, "tables", ALWAYS,
            "files of the store, kept in the folder damaged")},
};
static const struct shape damaged_shape = {SHAPE_MEMBERS(damaged_members)};

static bool has_jumped(const void *reply)
{
    return ((const struct reply *)reply)->status.clock.jump.ms != 0;
}

static const struct shape_member clock_members[] = {
    {MEMBER(struct reply, status.clock.now, "time", ALWAYS, "the time that jobs go by")},
    {MEMBER(struct reply, status.clock.wall, "system", ALWAYS, "the system's clock")},
    {MEMBER(struct reply, status.clock.ahead, "ahead_ms", ALWAYS,
            "how far that time is ahead of the clock; negative: behind it, for the clock jumped "
            "ahead and is not followed",
            .type = "integer")},
    {MEMBER(struct reply, status.clock.jump, "jump_ms", ALWAYS,
            "the newest jump of the clock ahead by more than --clock-jump-limit; 0: none")},
    {MEMBER(struct reply, status.clock.jumped_at, "jumped_at", IF_SET,
            "to this time; iff there was one", .is_set = has_jumped)},
};
static const struct shape clock_shape = {SHAPE_MEMBERS(clock_members)};

/* A commit that takes longer is said to hang. */
#define COMMIT_MS 500

static bool commits_hang(const void *reply)
{
    return ((const struct reply *)reply)->status.committing.ms >= COMMIT_MS;
}

struct health {
    struct reply reply; /* must be first */
    struct api_cluster servers;
    bool guarded; /* without credentials nothing is asked here but this: it names nothing */
};

/* An owner's clock and PostgreSQL's may differ by so much before its health says so. */
#define POSTGRES_CLOCK_OFF_MS 60000

static bool is_off_postgres(const struct health *h)
{
    return h->servers.several && llabs(h->servers.clock_ahead.ms) > POSTGRES_CLOCK_OFF_MS;
}

static bool is_clock_off(const struct health *h)
{
    return h->reply.status.clock.off || is_off_postgres(h);
}

static void write_health(struct buf *b, const void *health)
{
    const struct reply *r = health;
    buf_str(b, !r->status.readable    ? STR("\"unreadable\"")
               : !r->status.writable  ? STR("\"read_only\"")
               : commits_hang(r)      ? STR("\"commits_hang\"")
               : is_clock_off(health) ? STR("\"clock\"")
                                      : STR("\"ok\""));
}

/* Both clocks by name, and what is to be done. */
static void say_clock(struct buf *b, const struct health *h)
{
    const struct clock_state *c = &h->reply.status.clock;
    buf_lit(b, "the system's clock says ");
    rfc3339_write(b, c->wall);
    if (c->off) {
        buf_lit(b, " and is not followed; jobs go by ");
        rfc3339_write(b, c->now);
        buf_lit(b, ": set the clock right or, if it is right, run `tenax crons --reset-clock`");
        return;
    }
    buf_lit(b, ", and PostgreSQL's ");
    rfc3339_write(b, instant_add(c->wall, h->servers.clock_ahead));
    buf_lit(b, ": one of them is wrong; jobs go by ");
    rfc3339_write(b, c->now);
}

static bool has_peers(const void *health)
{
    return ((const struct health *)health)->servers.several;
}

/* This is written by a server that has the jobs; what a standby says is in server/cluster.c. */
static bool has_jobs(const void *health)
{
    (void)health;
    return true;
}

static bool is_standby(const void *health)
{
    (void)health;
    return false;
}

static void write_warnings(struct buf *b, const void *health)
{
    const struct health *h = health;
    const struct standing_warnings w = h->reply.status.warnings;
    struct buf words = {0};
    buf_byte(b, '[');
    for (size_t i = 0; i < w.count; i++) {
        words.len = 0;
        standing_write(&words, &w.list[i], !h->guarded);
        buf_str(b, i ? STR(",") : STR(""));
        json_write_string(b, buf_view(&words));
    }
    buf_byte(b, ']');
    buf_fini(&words);
}

static const struct shape_member health_members[] = {
    {MEMBER_MADE(
        "status", ALWAYS,
        "string (ok|clock|read_only|unreadable|commits_hang|"
        "no_owner|owner_silent)",
        write_health,
        "clock: the system's clock is wrong, and what it makes due is held back; no_owner: this "
        "server is a standby, and nobody has the jobs; owner_silent: and the owner does not "
        "answer")},
    {MEMBER(struct reply, status.failure, "failure", IF_SET, "why it is not ok")},
    {MEMBER(struct reply, status.committing, "commit_under_way_ms", IF_SET,
            "if it takes longer than half a second, and answers wait for it",
            .is_set = commits_hang)},
    {MEMBER_OBJECT(struct reply, status.jobs, "jobs", IF_SET, &api_counts_shape, NULL,
                   .is_set = has_jobs)},
    {MEMBER(struct reply, status.memory.waiting_bytes, "index_bytes", IF_SET, NULL,
            .is_set = has_jobs)},
    {MEMBER(struct reply, status.disk_bytes, "disk_bytes", IF_SET, NULL, .is_set = has_jobs)},
    {MEMBER_INNER("damaged", IF_SET, &damaged_shape,
                  "what was set apart, as bytes on the disk are not what was written",
                  .is_set = has_jobs)},
    {MEMBER_INNER("clock", IF_SET, &clock_shape, "the time that jobs go by, and the system's clock",
                  .is_set = has_jobs)},
    {MEMBER_MADE("warnings", IF_SET, "string[]", write_warnings,
                 "what is valid in retry policies, failure categories and retry settings, and most "
                 "likely not meant; without the documents' names where credentials are needed",
                 .is_set = has_jobs)},
    {MEMBER(struct reply, status.warnings.total, "warning_count", IF_SET,
            "how many there are; the first ones are shown", .is_set = has_jobs)},
    {MEMBER(struct health, servers.role, "role", IF_SET,
            "of several servers: owner; standby: it passes requests on to the owner",
            .is_set = has_peers)},
    {MEMBER(struct health, servers.role, "owner", IF_SET,
            "of a standby: the URL of the owner, if there is one", .is_set = is_standby)},
    {MEMBER(struct health, servers.role, "owner_status", IF_SET,
            "of a standby: the status that the owner gives itself; silent: it does not answer",
            .is_set = is_standby)},
    {MEMBER(struct health, servers.epoch, "epoch", IF_SET, "of the owner", .is_set = has_peers)},
    {MEMBER(struct health, servers.durability, "durability", IF_SET,
            "what an acknowledgement is worth", .is_set = has_peers)},
    {MEMBER(struct health, servers.clock_ahead, "postgres_clock_ahead_ms", IF_SET,
            "by so much PostgreSQL's clock is ahead of this server's; negative: behind it",
            .type = "integer", .is_set = has_peers)},
};
const struct shape api_health_shape = {.name = "Health", SHAPE_MEMBERS(health_members)};

static bool is_guarded(const struct api *a)
{
    return a->settings.identities && identities_guard(a->settings.identities);
}

static void on_status(void *ctx, const struct reply *r)
{
    const struct call *c = ctx;
    struct health health = {.reply = *r, .guarded = is_guarded(c->api)};
    if (c->api->settings.cluster)
        c->api->settings.cluster(c->api->settings.cluster_ctx, &health.servers);
    struct buf why = {0};
    if (health.reply.status.failure.len == 0 && is_clock_off(&health)) {
        say_clock(&why, &health);
        health.reply.status.failure = buf_view(&why);
    }
    /* A balancer must send enqueues elsewhere while nothing can be stored. */
    api_reply_part(c, r, r->status.writable && !commits_hang(r) ? 200 : 503, &api_health_shape,
                   &health);
    buf_fini(&why);
}

const struct api_param api_health_params[] = {
    {"role", "string (owner): 503 from a server that passes requests on to the owner"},
    {"from", "string (owner): of several servers, what the one says that owns the jobs"},
    {NULL, NULL}};

static bool is_of(const struct api_param *params, struct str name)
{
    while (params->name && !str_eq(name, str_from(params->name)))
        params++;
    return params->name;
}

/* Here they change nothing: a standby has judged them (server/cluster.c). */
struct err api_read_owner_params(const struct api_request *r, const struct api_param *params)
{
    struct query_cursor c = query_open(r->http->query, r->http->arena);
    struct str name, value;
    bool more;
    unsigned seen = 0;
    for (;;) {
        TRY(query_next(&c, &more, &name, &value));
        if (!more)
            return err_none();
        TRY(api_param_once(name, params, &seen));
        if (!is_of(params, name))
            return api_unknown_param(name);
        if (!str_eq(value, STR("owner")))
            return err_make(ERR_BAD_VALUE, "%.*s is owner", STR_ARG(name));
    }
}

void api_health(struct api *a, const struct api_request *r)
{
    struct err err = api_read_owner_params(r, api_health_params);
    if (err.code != ERR_OK)
        api_reply_error(r->x, &err, NULL);
    else
        submit(a, r, CMD_STATUS, on_status);
}

struct version {
    struct str version, server;
};

static const struct shape_member version_members[] = {
    {MEMBER(struct version, version, "version", ALWAYS, NULL)},
    {MEMBER(struct version, server, "server", ALWAYS, NULL)},
};
const struct shape api_version_shape = {.name = "Version", SHAPE_MEMBERS(version_members)};

void api_version(struct api *a, const struct api_request *r)
{
    const struct version version = {STR(TENAX_VERSION), STR("tenax")};
    a->scratch.len = 0;
    shape_write(&a->scratch, &api_version_shape, &version, SHAPE_AS_IT_IS);
    api_reply_json(r->x, 200, &a->scratch);
}

void api_openapi(struct api *a, const struct api_request *r)
{
    (void)a;
    struct err err = api_check_media(r->http);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    const struct buf text = {.at = (char *)api_openapi_text, .len = api_openapi_text_len};
    api_reply_json(r->x, 200, &text);
}
