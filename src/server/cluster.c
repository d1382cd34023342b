/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cluster.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "net/forward.h"
#include "net/query.h"
#include "net/reply.h"
#include "postgres/pg.h"
#include "server/forwarded.h"
#include "server/owner_probe.h"
#include "store/seen_file.h"

/* There is one shard of jobs so far. */
#define SHARD 0
/* A server that was not heard of for so long is not counted on. */
#define ALIVE_MS 5000
/* Of a connection to the owner, which is another machine of the same network. */
#define CONNECT_MS 2000
/* A lease must outlast a busy moment of PostgreSQL, and a user the wait for its end. */
#define LEASE_MIN_MS 500
#define LEASE_MAX_MS 60000

/* Whoever waits for a look at who else is there. */
struct leaving {
    struct list link;
    uint64_t look; /* its number */
    void (*done)(void *asker, const struct err *err);
    void *asker;
};

struct cluster {
    struct cluster_settings settings;
    struct pg_settings pg;
    struct member *member;
    char address[PG_ADDRESS_MAX + 1]; /* of this server: a URL */
    const char *name;                 /* part of it */
    uv_async_t wake;
    struct member_state state; /* as read last */
    struct forwarder *forwarder;
    struct owner_probe *probe;
    struct fetch_tls tls;
    uint64_t admitted;     /* requests that others have passed on */
    struct list leaving;   /* struct leaving.link */
    struct seen_file seen; /* the member's thread writes it */
};

/* --- settings --- */

static bool is_any(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0 || !*host;
}

struct err cluster_check(const struct settings *set)
{
    if (!set->postgres) {
        const char *lonely = set->advertise     ? "--advertise"
                             : set->servers_ca  ? "--servers-ca"
                             : set->pg_password ? "--postgres-password-file"
                                                : NULL;
        return lonely ? err_make(ERR_USAGE, "%s needs --postgres", lonely) : err_none();
    }
    if (pg_has_password(set->postgres))
        return err_make(ERR_USAGE, "--postgres must not hold a password, which others could see; "
                                   "--postgres-password-file or PGPASSWORD does");
    if (set->lease.ms < LEASE_MIN_MS || set->lease.ms > LEASE_MAX_MS)
        return err_make(ERR_USAGE, "--lease must be from 500ms to 60s");
    if (set->commit_mode != SETTINGS_FSYNC)
        return err_make(ERR_USAGE, "--commit-mode buffered is for jobs on this machine's disk: "
                                   "with --postgres, PostgreSQL's synchronous_commit decides");
    if (!set->advertise && is_any(set->host))
        return err_make(ERR_USAGE,
                        "other servers cannot reach %s: say by --advertise HOST:PORT how they can",
                        set->host);
    if (set->advertise && (strlen(set->advertise) > PG_ADDRESS_MAX - 16 ||
                           strpbrk(set->advertise, "/@ ?#") || !*set->advertise))
        return err_make(ERR_USAGE, "--advertise is HOST:PORT");
    return err_none();
}

/* Whether HOST:PORT has its port: IPv6 is in brackets then. */
static bool has_port(const char *address)
{
    const char *colon = strrchr(address, ':');
    const char *bracket = strchr(address, ']');
    return colon && (!bracket || colon > bracket) && (bracket || strchr(address, ':') == colon);
}

static void write_address(struct cluster *c)
{
    const struct settings *set = c->settings.set;
    const char *host = set->advertise ? set->advertise : set->host;
    const char *scheme = set->tls.cert ? "https://" : "http://";
    bool bare = strchr(host, ':') && !has_port(host) && host[0] != '[';
    int port = c->settings.port;
    if (set->advertise && has_port(host))
        snprintf(c->address, sizeof c->address, "%s%.230s", scheme, host);
    else
        snprintf(c->address, sizeof c->address, bare ? "%s[%.230s]:%d" : "%s%.230s:%d", scheme,
                 host, port);
    c->name = c->address + strlen(scheme);
}

/* --- the member --- */

static void on_member(void *ctx)
{
    uv_async_send(&((struct cluster *)ctx)->wake);
}

static instant wall_clock(void *ctx)
{
    const struct cluster *c = ctx;
    return c->settings.now(c->settings.ctx);
}

static void keep_seen(void *ctx, const struct pg_seen *seen)
{
    seen_file_keep(&((struct cluster *)ctx)->seen, seen);
}

/* As new jobs would be refused by the engine. A file system that does not say has room. */
static bool has_room(void *ctx)
{
    const struct settings *set = ((struct cluster *)ctx)->settings.set;
    struct statvfs v;
    return statvfs(set->root_dir, &v) != 0 || v.f_bavail * v.f_frsize >= set->min_free_space;
}

static void answer_leaving(struct cluster *c);
static const char *owner_of(const struct cluster *c);

static void on_wake(uv_async_t *wake)
{
    struct cluster *c = wake->data;
    uint64_t before = c->state.shard.epoch;
    member_read(c->member, &c->state);
    /* One that is frozen never ends what it was asked. */
    if (c->state.role != MEMBER_STANDBY || c->state.shard.epoch != before)
        forwarder_give_up(c->forwarder);
    owner_probe_at(c->probe, owner_of(c));
    answer_leaving(c);
    c->settings.changed(c->settings.ctx);
}

/* --- refusing --- */

static void refuse(void *ctx, struct http_exchange *x, const struct err *err)
{
    (void)ctx;
    struct buf body = {0};
    reply_error_body(&body, err);
    http_reply(x, err_status(err->code), STR("application/json"), buf_view(&body),
               err_retryable(err->code) ? "Retry-After: 1\r\n" : NULL);
    buf_fini(&body);
}

struct err cluster_open(const struct cluster_settings *settings, struct cluster **out)
{
    const struct settings *set = settings->set;
    struct cluster *c = ALLOC(struct cluster);
    c->settings = *settings;
    list_init(&c->leaving);
    c->pg = (struct pg_settings){
        .url = set->postgres, .password_file = set->pg_password, .purpose = "serve"};
    c->tls = (struct fetch_tls){.ca_file = set->servers_ca,
                                .cert_file = set->tls.client_ca ? set->tls.cert : NULL,
                                .key_file = set->tls.client_ca ? set->tls.key : NULL};
    write_address(c);
    must(uv_async_init(settings->loop, &c->wake, on_wake) == 0);
    c->wake.data = c;
    const struct forwarder_settings forward = {.loop = settings->loop,
                                               .tls = &c->tls,
                                               .connect_timeout = {CONNECT_MS},
                                               .refuse = refuse,
                                               .ctx = c};
    c->forwarder = forwarder_new(&forward);
    c->probe = owner_probe_new(settings->loop, &c->tls);
    *out = c;
    struct member_settings member = {
        .pg = c->pg,
        .shard = SHARD,
        .name = c->name,
        .address = c->address,
        .lease = set->lease,
        .not_before = pg_after(pg_now(), (span){settings->before->rest_ms}),
        .patient = handover_happened(settings->before),
        .accept = set->accept_lost_commits && !handover_happened(settings->before),
        .keep = keep_seen,
        .room = has_room,
        .now = wall_clock,
        .changed = on_member,
        .ctx = c};
    member.pg.purpose = "member";
    seen_file_open(&c->seen, set->root_dir, &member.seen);
    TRY(member_start(&member, &c->member));
    member_read(c->member, &c->state);
    log_info("%s is one of the servers on PostgreSQL%s%s", c->address,
             *c->state.durability.text ? ": " : "", c->state.durability.text);
    return err_none();
}

void cluster_close(struct cluster *c)
{
    if (!c)
        return;
    cluster_release(c);
    member_stop(c->member);
    c->member = NULL;
    forwarder_free(c->forwarder);
    c->forwarder = NULL;
    owner_probe_free(c->probe);
    c->probe = NULL;
    uv_close((uv_handle_t *)&c->wake, NULL);
}

void cluster_free(struct cluster *c)
{
    if (c)
        seen_file_close(&c->seen);
    while (c && !list_is_empty(&c->leaving)) {
        struct leaving *l = LIST_OF(c->leaving.next, struct leaving, link);
        list_unlink(&l->link);
        free(l);
    }
    free(c);
}

enum member_role cluster_role(const struct cluster *c)
{
    return c->state.role;
}

mono cluster_owned_until(void *ctx)
{
    return member_owned_until(((struct cluster *)ctx)->member);
}

uint64_t cluster_connections(void *ctx)
{
    return member_connections(((struct cluster *)ctx)->member);
}

void cluster_works(void *ctx)
{
    member_works(((struct cluster *)ctx)->member);
}

void cluster_logs_by(void *ctx, int backend)
{
    member_logs_by(((struct cluster *)ctx)->member, backend);
}

bool cluster_turned(struct cluster *c, uint64_t seq, bool full)
{
    return member_turned(c->member, seq, full);
}

bool cluster_is_to_leave(const struct cluster *c)
{
    return c->state.leave;
}

bool cluster_has_stalled(struct cluster *c)
{
    member_read(c->member, &c->state);
    return c->state.stalled;
}

void cluster_raise_alarm(struct cluster *c, const char *why)
{
    struct err e = member_raise_alarm(c->member, why);
    if (e.code != ERR_OK)
        log_error("the alarm could not be raised in PostgreSQL, other servers may go on: %s",
                  e.msg);
}

const char *cluster_why(struct cluster *c)
{
    member_read(c->member, &c->state);
    return c->state.why;
}

bool cluster_is_over(struct cluster *c)
{
    return pg_now().ns >= cluster_owned_until(c).ns;
}

/* It is made right after this server has taken the jobs. */
#define FIRST_COMPARISON_MS 1000

bool cluster_clock_ahead(struct cluster *c, span *ahead)
{
    struct member_state now;
    member_read(c->member, &now);
    for (int i = 0; i < FIRST_COMPARISON_MS && !now.clock_compared; i++) {
        poll(NULL, 0, 1);
        member_read(c->member, &now);
    }
    *ahead = now.clock_ahead;
    return now.clock_compared;
}

bool cluster_has_lost(struct cluster *c)
{
    member_read(c->member, &c->state);
    return c->state.lost;
}

uint64_t cluster_epoch(const struct cluster *c)
{
    return c->state.epoch;
}

const struct pg_settings *cluster_postgres(const struct cluster *c)
{
    return &c->pg;
}

void cluster_release(struct cluster *c)
{
    if (!c->member)
        return;
    member_read(c->member, &c->state);
    if (c->state.role == MEMBER_OWNER)
        member_release(c->member);
}

void cluster_stand_aside(struct cluster *c)
{
    member_stand_aside(c->member);
}

/* --- leaving --- */

NODISCARD static struct err may_leave(const struct cluster *c)
{
    int64_t age = (pg_now().ns - c->state.servers_at.ns) / 1000000;
    for (size_t i = 0; i < c->state.count; i++) {
        int64_t silent = c->state.servers[i].since_seen.ms + age;
        /* One that was seen in the future has died before PostgreSQL's clock was set back. */
        if (strcmp(c->state.servers[i].name, c->name) != 0 && silent < ALIVE_MS &&
            silent > -ALIVE_MS)
            return err_none();
    }
    return err_make(ERR_CONFLICT, "no other server is there to take the jobs over");
}

void cluster_leave(struct cluster *c, void (*done)(void *asker, const struct err *err), void *asker)
{
    struct leaving *l = ALLOC(struct leaving);
    l->done = done;
    l->asker = asker;
    l->look = member_look(c->member);
    list_append(&c->leaving, &l->link);
}

static void answer_leaving(struct cluster *c)
{
    while (!list_is_empty(&c->leaving)) {
        struct leaving *l = LIST_OF(c->leaving.next, struct leaving, link);
        if (l->look > c->state.looks)
            return;
        struct err err = may_leave(c);
        if (err.code == ERR_OK)
            c->settings.leave(c->settings.ctx);
        list_unlink(&l->link);
        l->done(l->asker, &err);
        free(l);
    }
}

/* --- a standby's own answers --- */

static bool is_get(const struct http_request *req, const char *path)
{
    return (req->method == HTTP_GET || req->method == HTTP_HEAD) &&
           str_eq(req->path, str_from(path));
}

/* Where the owner is, if that is known, and is another server. */
static const char *owner_of(const struct cluster *c)
{
    const struct pg_shard *s = &c->state.shard;
    return c->state.role == MEMBER_STANDBY && s->owned && *s->address &&
                   strcmp(s->address, c->address) != 0
               ? s->address
               : NULL;
}

/* Whether that parameter of the query is "owner". */
static bool says_owner(const struct http_request *req, struct str param)
{
    struct query_cursor q = query_open(req->query, req->arena);
    struct str name, value;
    bool more = true;
    while (query_next(&q, &more, &name, &value).code == ERR_OK && more)
        if (str_eq(name, param) && str_eq(value, STR("owner")))
            return true;
    return false;
}

static void write_failure(const struct cluster *c, const struct owner_health *heard, struct buf *b)
{
    const char *why = !c->state.reached ? c->state.why
                      : heard->silent   ? "the owner does not answer this server"
                                        : NULL;
    if (why) {
        buf_lit(b, ",\"failure\":");
        json_write_string(b, str_from(why));
    }
    if (heard->silent || *heard->status) {
        buf_lit(b, ",\"owner_status\":");
        json_write_string(b, heard->silent ? STR("silent") : str_from(heard->status));
    }
}

static void answer_health(struct cluster *c, struct http_exchange *x,
                          const struct http_request *req)
{
    struct buf b = {0};
    const char *owner = owner_of(c);
    struct owner_health heard = {0};
    if (owner)
        owner_probe_read(c->probe, owner, &heard);
    bool known = owner && c->state.reached, good = known && !heard.silent && !heard.bad;
    buf_lit(&b, "{\"status\":");
    json_write_string(&b, good           ? STR("ok")
                          : !known       ? STR("no_owner")
                          : heard.silent ? STR("owner_silent")
                                         : str_from(*heard.status ? heard.status : "no_owner"));
    write_failure(c, &heard, &b);
    buf_lit(&b, ",\"role\":\"standby\"");
    if (owner) {
        buf_lit(&b, ",\"owner\":");
        json_write_string(&b, str_from(owner));
    }
    buf_print(&b, ",\"epoch\":%llu,\"durability\":", (unsigned long long)c->state.shard.epoch);
    json_write_string(&b, str_from(c->state.durability.text));
    buf_print(&b, ",\"postgres_clock_ahead_ms\":%lld}",
              (long long)member_clock_ahead(c->member).ms);
    http_reply(x, good && !says_owner(req, STR("role")) ? 200 : 503, STR("application/json"),
               buf_view(&b), NULL);
    buf_fini(&b);
}

static void metric(struct buf *b, const char *name, const char *type, const char *help, uint64_t v)
{
    buf_print(b, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
              (unsigned long long)v);
}

static void answer_metrics(struct cluster *c, struct http_exchange *x)
{
    struct buf b = {0};
    struct forwarder_counts f;
    forwarder_read(c->forwarder, &f);
    metric(&b, "tenax_owner", "gauge", "1 if this server owns the jobs, 0 if it is a standby.", 0);
    metric(&b, "tenax_epoch", "gauge", "The epoch of the owner.", c->state.shard.epoch);
    metric(&b, "tenax_postgres_up", "gauge", "Whether PostgreSQL answered when asked last.",
           c->state.reached);
    buf_print(&b,
              "# HELP tenax_postgres_clock_ahead_seconds By how much PostgreSQL's clock is ahead "
              "of this server's.\n# TYPE tenax_postgres_clock_ahead_seconds gauge\n"
              "tenax_postgres_clock_ahead_seconds %.3f\n",
              (double)member_clock_ahead(c->member).ms / 1000);
    metric(&b, "tenax_forwarded_total", "counter", "Requests passed on to the owner.", f.sent);
    metric(&b, "tenax_forwarded_refused_total", "counter", "Of these, those that did not reach it.",
           f.refused);
    metric(&b, "tenax_forwarded_lost_total", "counter",
           "Of these, those whose outcome is not known.", f.lost);
    metric(&b, "tenax_forwards_under_way", "gauge", "Requests that the owner works on.",
           f.under_way);
    http_reply(x, 200, STR("text/plain; version=0.0.4"), buf_view(&b), NULL);
    buf_fini(&b);
}

static struct str secret_of(const struct cluster *c)
{
    return (struct str){(const char *)c->state.secret, PG_SECRET_BYTES};
}

static void pass_on(struct cluster *c, const char *owner, struct http_exchange *x,
                    const struct http_request *req, bool admin)
{
    struct buf header = {0};
    if (req->method == HTTP_OTHER) { /* its name is not kept, and the owner has none such either */
        const struct err err = err_make(ERR_NOT_SUPPORTED, "no path has a method of that name");
        refuse(c, x, &err);
        return;
    }
    const struct forwarded f = {
        .admin = admin, .tls = http_is_tls(x), .host = req->host, .peer = *http_peer(x)};
    forwarded_write(&header, &f, c->state.shard.epoch, secret_of(c), req);
    forwarder_send(c->forwarder, owner, header.at, x, req);
    buf_fini(&header);
}

void cluster_answer(struct cluster *c, struct http_exchange *x, const struct http_request *req,
                    bool admin)
{
    const char *owner = owner_of(c);
    bool own = !owner || !says_owner(req, STR("from"));
    if (is_get(req, "/health") && own) {
        answer_health(c, x, req);
    } else if (is_get(req, "/metrics") && own) {
        answer_metrics(c, x);
    } else if (req->websocket && admin) {
        const struct err err =
            err_make(ERR_NO_OWNER, "a standby passes no WebSocket on: connect to "
                                   "the server that keeps the jobs");
        refuse(c, x, &err);
    } else if (req->forwarded.at || !owner || !c->state.has_secret) {
        struct err err =
            req->forwarded.at ? err_make(ERR_NO_OWNER, "this server keeps the jobs no more")
            : c->state.reached
                ? err_make(ERR_NO_OWNER, "no server keeps the jobs at this moment")
                : err_make(ERR_NO_OWNER, "PostgreSQL cannot be reached, so that no server keeps "
                                         "the jobs");
        refuse(c, x, &err);
    } else {
        pass_on(c, owner, x, req, admin);
    }
}

void cluster_refuse(struct http_exchange *x, const char *why)
{
    const struct err err = err_make(ERR_NO_OWNER, "%s", why);
    refuse(NULL, x, &err);
}

/* --- the owner --- */

bool cluster_admit(struct cluster *c, struct http_exchange *x, const struct http_request *req,
                   struct http_request *real, bool *admin)
{
    struct forwarded *f = ARENA_NEW(req->arena, struct forwarded);
    struct err err = forwarded_read(req, c->state.epoch, secret_of(c), f);
    if (err.code != ERR_OK) {
        refuse(c, x, &err);
        return false;
    }
    c->admitted++;
    *real = *req;
    real->forwarded = (struct str){0};
    real->host = f->host;
    if (!real->forwarded_proto.at)
        real->forwarded_proto = f->tls ? STR("https") : STR("http");
    http_set_peer(x, &f->peer);
    *admin = f->admin;
    return true;
}

static instant ago(instant now, span since, span more)
{
    return (instant){now.ms - since.ms - more.ms};
}

void cluster_read(struct cluster *c, struct api_cluster *out)
{
    instant now = c->settings.now(c->settings.ctx);
    member_read(c->member, &c->state);
    const struct member_state *s = &c->state;
    span age = {(pg_now().ns - s->servers_at.ns) / 1000000};
    *out = (struct api_cluster){.several = true,
                                .role = s->role == MEMBER_OWNER ? STR("owner") : STR("standby"),
                                .epoch = s->epoch,
                                .durability = str_from(s->durability.text),
                                .lease = c->settings.set->lease,
                                .left = s->left,
                                .beats = s->beats,
                                .missed = s->missed,
                                .forwarded = c->admitted,
                                .clock_ahead = s->clock_ahead,
                                .count = s->count};
    for (size_t i = 0; i < s->count; i++) {
        const struct pg_server *from = &s->servers[i];
        out->servers[i] = (struct api_peer){.name = str_from(from->name),
                                            .address = str_from(from->address),
                                            .version = str_from(from->version),
                                            .role = str_from(from->role),
                                            .started = ago(now, from->since_started, age),
                                            .seen = ago(now, from->since_seen, age)};
    }
}
