/* SPDX-License-Identifier: Apache-2.0 */

/* Poll URLs (seed 002, first part): pollTaskUrls, and the queues of Azure that its URLs are for.
 * GET messages hands out messages that name pending runs; DELETE removes one by its receipt. The
 * tasks themselves are claimed by claimTask: a message that lingers changes nothing about them. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/base64.h"
#include "base/log.h"
#include "base/rfc3339.h"
#include "net/query.h"
#include "taskcluster/tc_azure.h"
#include "taskcluster/tc_handlers.h"
#include "taskcluster/tc_mailbox.h"
#include "taskcluster/tc_task.h"
#include "wire/field.h"

#define MESSAGES      "taskcluster/message"
#define MESSAGES_MAX  32     /* of one answer */
#define VISIBILITY_MS 300000 /* unless the request says less */
#define URLS_LIFE_MS  ((int64_t)2700 * 1000)
/* Handed out more often than that, somebody should look at the worker (seed 002). */
#define DEQUEUES_WARN 10
/* How often a request looks at a further part of the ready tasks. */
#define LOOKS_MAX    4
#define EXPIRE_SLICE 1000

/* --- what is signed --- */

/* The path of a queue and until when its URLs are good. */
static void sign(const struct taskcluster *t, struct str path, struct str expiry,
                 char mac[ACCESS_MAC_LEN])
{
    struct buf b = {0};
    buf_print(&b, "poll-url\n%.*s\n%.*s", STR_ARG(path), STR_ARG(expiry));
    access_sign(t->settings.access, buf_view(&b), mac);
    buf_fini(&b);
}

static void write_path(struct buf *b, struct str provisioner, struct str type, struct str level)
{
    buf_print(b, TC_PREFIX "/azure/%.*s/%.*s/%.*s/messages", STR_ARG(provisioner), STR_ARG(type),
              STR_ARG(level));
}

/* --- pollTaskUrls --- */

static void write_url(struct buf *b, struct tc_call *c, struct str path, const char *infix,
                      struct str expiry)
{
    char mac[ACCESS_MAC_LEN];
    sign(c->tc, path, expiry, mac);
    buf_print(b, "%.*s%.*s%sse=", STR_ARG(tc_root_url(c)), STR_ARG(path), infix);
    query_write(b, expiry);
    buf_lit(b, "&sp=p&sv=2014-02-14&sig=");
    query_write(b, (struct str){mac, sizeof mac});
}

static void write_urls(struct buf *b, struct tc_call *c, int level, struct str expiry)
{
    char text[2] = {(char)('0' + level), 0};
    struct buf path = {0};
    write_path(&path, tc_param(c, "provisionerId"), tc_param(c, "workerType"), str_from(text));
    buf_lit(b, "{\"signedPollUrl\":\"");
    write_url(b, c, buf_view(&path), "?visibilitytimeout=300&", expiry);
    buf_lit(b, "\",\"signedDeleteUrl\":\"");
    write_url(b, c, buf_view(&path), "/{{messageId}}?popreceipt={{popReceipt}}&", expiry);
    buf_lit(b, "\"}");
    buf_fini(&path);
}

void tc_poll_task_urls(struct tc_call *c)
{
    struct buf *b = tc_body(c), expiry = {0};
    rfc3339_write(&expiry, (instant){c->now.ms + URLS_LIFE_MS});
    buf_lit(b, "{\"queues\":[");
    for (int level = 0; level < TC_PRIORITIES; level++) {
        if (level)
            buf_byte(b, ',');
        write_urls(b, c, level, buf_view(&expiry));
    }
    buf_print(b, "],\"expires\":\"%.*s\"}", STR_ARG(buf_view(&expiry)));
    tc_reply(c, b);
    buf_fini(&expiry);
}

/* --- Azure's answers --- */

static void fail(struct tc_call *c, int status, const char *code, const char *words)
{
    tc_azure_fail(c, status, code, str_from(words));
}

static void write_date(struct buf *b, const char *name, instant t)
{
    char text[40];
    time_t seconds = (time_t)(t.ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    buf_print(b, "<%s>%s</%s>", name, text, name);
}

/* Three bytes whose Base64 must be encoded in a URL: who forgets it finds out with the first
 * receipt, not with one of many. */
static void write_receipt(struct buf *b, uint64_t receipt)
{
    unsigned char bytes[11] = {0xfb, 0xef, 0xff};
    for (int i = 0; i < 8; i++)
        bytes[3 + i] = (unsigned char)(receipt >> (56 - 8 * i));
    base64_write(b, (struct str){(const char *)bytes, sizeof bytes});
}

/* Who only looks at it gets nothing to delete it by. */
static void write_message(struct buf *b, const struct tc_message *m, bool peeked)
{
    struct buf text = {0};
    buf_print(&text, "{\"taskId\":\"%.*s\",\"runId\":%u}", STR_ARG(tc_message_task(m)), m->run);
    buf_print(b, "<QueueMessage><MessageId>%.*s</MessageId>", STR_ARG(tc_message_id(m)));
    write_date(b, "InsertionTime", m->inserted);
    write_date(b, "ExpirationTime", m->expires);
    if (!peeked) {
        buf_lit(b, "<PopReceipt>");
        write_receipt(b, m->receipt);
        buf_lit(b, "</PopReceipt>");
        write_date(b, "TimeNextVisible", m->visible_at);
    }
    buf_print(b, "<DequeueCount>%u</DequeueCount><MessageText>", m->count);
    base64_write(b, buf_view(&text));
    buf_lit(b, "</MessageText></QueueMessage>");
    buf_fini(&text);
}

/* --- who may --- */

static bool is_signed(struct tc_call *c)
{
    struct str expiry, given, level = tc_param(c, "level");
    char mac[ACCESS_MAC_LEN];
    struct buf path = {0};
    instant until;
    if (level.len != 1 || level.at[0] < '0' || level.at[0] >= '0' + TC_PRIORITIES) {
        fail(c, 404, "QueueNotFound", "There is no such queue.");
        return false;
    }
    write_path(&path, tc_param(c, "provisionerId"), tc_param(c, "workerType"), level);
    bool ok = tc_query_value(c, "se", &expiry) && tc_query_value(c, "sig", &given) &&
              rfc3339_parse(expiry, &until);
    if (ok) {
        sign(c->tc, buf_view(&path), expiry, mac);
        ok = access_same((struct str){mac, sizeof mac}, given) && until.ms > c->now.ms;
    }
    buf_fini(&path);
    if (!ok)
        fail(c, 403, "AuthenticationFailed",
             "The signature of the URL is missing, wrong or expired; ask pollTaskUrls for others.");
    return ok;
}

/* A number of the query within its range. */
static bool read_number(struct tc_call *c, const char *name, uint32_t most, uint32_t *v)
{
    struct str text;
    uint64_t n = 0;
    if (!tc_query_value(c, name, &text))
        return true;
    bool ok = text.len > 0;
    for (size_t i = 0; i < text.len && n <= most; i++) {
        ok = ok && text.at[i] >= '0' && text.at[i] <= '9';
        n = n * 10 + (uint64_t)(text.at[i] - '0');
    }
    ok = ok && n >= 1 && n <= most;
    if (ok)
        *v = (uint32_t)n;
    else
        fail(c, 400, "OutOfRangeQueryParameterValue",
             "One of the query parameters specified in the request URI is outside the "
             "permissible range.");
    return ok;
}

/* --- mailboxes --- */

/* "provisioner/worker-type level": by it the mailbox is found, and its entries begin with it. */
static struct str box_name(struct tc_call *c)
{
    struct buf b = {0};
    buf_print(&b, "%.*s/%.*s %.*s ", STR_ARG(tc_param(c, "provisionerId")),
              STR_ARG(tc_param(c, "workerType")), STR_ARG(tc_param(c, "level")));
    struct str name = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
    return name;
}

static struct tc_mailbox *open_box(struct taskcluster *t, struct str name)
{
    struct tc_mailbox *box = strmap_get(&t->boxes, name);
    if (box)
        return box;
    box = ALLOC(struct tc_mailbox);
    box->by_id.seed = box->by_run.seed = rng_next(&t->rng);
    strmap_put(&t->boxes, name, box);
    return box;
}

void tc_poll_free(struct taskcluster *t)
{
    for (size_t i = 0; i < t->boxes.cap; i++) {
        if (!t->boxes.slots[i].key)
            continue;
        tc_mailbox_fini(t->boxes.slots[i].val);
        free(t->boxes.slots[i].val);
    }
    strmap_fini(&t->boxes);
}

/* An entry for each message, so that its count and its receipt outlive a restart. */
static struct str entry_key(struct tc_call *c, struct str box, const struct tc_message *m)
{
    char *at = arena_get(c->arena, box.len + TC_MESSAGE_ID_LEN);
    memcpy(at, box.at, box.len);
    memcpy(at + box.len, m->id, TC_MESSAGE_ID_LEN);
    return (struct str){at, box.len + TC_MESSAGE_ID_LEN};
}

static void write_entry(struct buf *b, const struct tc_message *m)
{
    buf_print(b,
              "{\"task\":\"%.*s\",\"run\":%u,\"inserted\":%lld,\"visible\":%lld,\"count\":%u,"
              "\"receipt\":\"%llu\"%s}",
              STR_ARG(tc_message_task(m)), m->run, (long long)m->inserted.ms,
              (long long)m->visible_at.ms, m->count, (unsigned long long)m->receipt,
              m->deleted ? ",\"deleted\":true" : "");
}

struct stored {
    struct str task, receipt;
    int32_t run, count;
    instant inserted, visible;
    bool deleted;
};

#define STORED(json, reader, member)                                                               \
    {                                                                                              \
        .name = (json), .required = true, .read = (reader),                                        \
        .offset = offsetof(struct stored, member)                                                  \
    }
static const struct field stored_fields[] = {
    STORED("task", field_text, task),
    STORED("run", field_i32, run),
    STORED("inserted", field_instant, inserted),
    STORED("visible", field_instant, visible),
    STORED("count", field_i32, count),
    STORED("receipt", field_text, receipt),
    {.name = "deleted", .read = field_bool, .offset = offsetof(struct stored, deleted)},
};

static void restore(struct tc_mailbox *box, const struct kv_entry *e, struct arena *a)
{
    struct json_cursor j = json_open(e->value);
    struct stored s = {0};
    struct tc_message m = {0};
    char receipt[24];
    if (e->key.len < TC_MESSAGE_ID_LEN ||
        field_read_object(false, &j, a, stored_fields, COUNT(stored_fields), &s).code != ERR_OK ||
        !tc_is_slugid(s.task) || s.receipt.len >= sizeof receipt)
        return;
    memcpy(m.id, e->key.at + e->key.len - TC_MESSAGE_ID_LEN, TC_MESSAGE_ID_LEN);
    memcpy(receipt, s.receipt.at, s.receipt.len);
    receipt[s.receipt.len] = '\0';
    tc_message_name(&m, s.task, (uint32_t)s.run);
    m.inserted = s.inserted;
    m.visible_at = s.visible;
    m.expires = e->expires;
    m.count = (uint32_t)s.count;
    m.receipt = strtoull(receipt, NULL, 10);
    m.deleted = s.deleted;
    if (!strmap_get(&box->by_id, tc_message_id(&m)))
        tc_mailbox_add(box, &m);
}

/* --- GET messages --- */

struct poll {
    struct tc_call *call;
    struct str name, queue; /* of the mailbox, of the task queue */
    struct tc_mailbox *box;
    int level;
    bool peeks;               /* and changes nothing */
    uint32_t wanted, timeout; /* seconds */
    int looks;
    struct tc_message
        got[MESSAGES_MAX]; /* as they were handed out; they may be deleted meanwhile */
    uint32_t count;
    struct buf answer;
    void (*then)(struct poll *p); /* once the mailbox is loaded */
};

#define LIST_BEGIN "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList>"
#define LIST_END   "</QueueMessagesList>"

static void on_stored(void *ctx, const struct reply *r)
{
    struct poll *p = ctx;
    struct tc_call *c = p->call;
    struct buf answer = p->answer; /* p goes with its exchange */
    if (r->err.code != ERR_OK)
        fail(c, 503, "ServerBusy", "The server is currently unable to receive requests.");
    else
        tc_azure_reply(c, 200, buf_view(&answer));
    buf_fini(&answer);
}

static void warn_of(const struct tc_message *m)
{
    if (m->count == DEQUEUES_WARN + 1)
        log_warn("taskcluster: the message of task %.*s, run %u, was dequeued more than %d times "
                 "and never deleted: its workers claim without deleting, or fail to claim",
                 STR_ARG(tc_message_task(m)), m->run, DEQUEUES_WARN);
}

static void finish_peek(struct poll *p)
{
    struct buf *b = &p->answer;
    buf_lit(b, LIST_BEGIN);
    for (uint32_t i = 0; i < p->count; i++)
        write_message(b, &p->got[i], true);
    buf_lit(b, LIST_END);
    on_stored(p, &(struct reply){.err = err_none()});
}

/* The answer leaves when what it says is stored. While this poll was under way, for longer than its
 * messages were invisible, another one may have been given one of them: then the newer state is
 * stored, as nobody knows whether it is already. */
static void finish(struct poll *p)
{
    struct tc_call *c = p->call;
    struct kv_change changes[MESSAGES_MAX];
    size_t changed = 0;
    struct buf *b = &p->answer;
    if (p->peeks) {
        finish_peek(p);
        return;
    }
    buf_lit(b, LIST_BEGIN);
    for (uint32_t i = 0; i < p->count; i++) {
        const struct tc_message *m = &p->got[i];
        struct buf value = {0};
        write_message(b, m, false);
        warn_of(m);
        c->tc->polled.repeated += m->count == DEQUEUES_WARN + 1;
        const struct tc_message *newest = tc_mailbox_find(p->box, tc_message_id(m));
        if (!newest)
            continue;
        write_entry(&value, newest);
        changes[changed++] =
            (struct kv_change){.entry = {STR(MESSAGES), entry_key(c, p->name, m),
                                         arena_copy(c->arena, buf_view(&value)), m->expires, 0},
                               .when = KV_ANY};
        buf_fini(&value);
    }
    buf_lit(b, LIST_END);
    c->tc->polled.dequeued += p->count;
    struct command cmd = {
        .kind = CMD_KV_PUT, .kv_put = {changes, changed}, .done = on_stored, .ctx = p};
    if (changed)
        backend_submit(c->tc->backend, &cmd);
    else
        on_stored(p, &(struct reply){.err = err_none()});
}

static void take(struct poll *p, struct tc_message *m)
{
    instant until = {p->call->now.ms + (int64_t)p->timeout * 1000};
    tc_mailbox_hand_out(p->box, m, until, rng_next(&p->call->tc->rng));
    p->got[p->count++] = *m;
}

static void make_id(struct rng *rng, char id[TC_MESSAGE_ID_LEN])
{
    char text[TC_MESSAGE_ID_LEN + 1];
    uint64_t a = rng_next(rng), b = rng_next(rng);
    snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32),
             (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
             (unsigned)(0x8000 | (b >> 50 & 0x3fff)),
             (unsigned long long)(b & UINT64_C(0xffffffffffff)));
    memcpy(id, text, TC_MESSAGE_ID_LEN);
}

static void add(struct poll *p, const struct job *job)
{
    struct tc_message m = {
        .inserted = p->call->now, .expires = job->options.deadline, .visible_at = p->call->now};
    if (!str_eq(job->type, STR(TC_JOB_TYPE)) || !tc_is_slugid(job->options.alias) ||
        tc_mailbox_has(p->box, job->options.alias, job->state.runs))
        return;
    make_id(&p->call->tc->rng, m.id);
    tc_message_name(&m, job->options.alias, job->state.runs);
    m.receipt = rng_next(&p->call->tc->rng);
    struct tc_message *own = tc_mailbox_add(p->box, &m);
    if (p->peeks)
        p->got[p->count++] = *own;
    else
        take(p, own);
}

static void look(struct poll *p);

/* What comes after the last part; from the start again once the end was reached. */
static void on_peeked(void *ctx, const struct reply *r)
{
    struct poll *p = ctx;
    if (r->err.code != ERR_OK) {
        tc_fail_err(p->call, &r->err);
        return;
    }
    size_t i = 0;
    for (; i < r->count && p->count < p->wanted; i++)
        add(p, &r->jobs[i]);
    if (i == r->count)
        p->box->place = r->more ? r->place : (struct ready_place){0};
    if (p->count == p->wanted || !r->more || ++p->looks == LOOKS_MAX)
        finish(p);
    else
        look(p);
}

/* The priorities of jobs that are this level of tasks. */
static struct range range_of(int level)
{
    struct range r = {.set = true, .lo = 0, .hi = UINT16_MAX};
    if (level > 0)
        r.lo = tc_priority_to_job(level - 1) + 1;
    if (level < TC_PRIORITIES - 1)
        r.hi = tc_priority_to_job(level);
    return r;
}

static void look(struct poll *p)
{
    struct command cmd = {.kind = CMD_PEEK,
                          .peek = {.queue = p->queue,
                                   .priority = range_of(p->level),
                                   .from = p->box->place,
                                   .tasks = true,
                                   .limit = PEEK_MAX},
                          .done = on_peeked,
                          .ctx = p};
    backend_submit(p->call->tc->backend, &cmd);
}

static void gather(struct poll *p)
{
    struct tc_message *m;
    tc_mailbox_expire(p->box, p->call->now, EXPIRE_SLICE);
    if (p->peeks)
        p->count = tc_mailbox_peek(p->box, p->call->now, p->got, p->wanted);
    while (!p->peeks && p->count < p->wanted && (m = tc_mailbox_visible(p->box, p->call->now))) {
        if (m->expires.ms <= p->call->now.ms)
            tc_mailbox_remove(p->box, m);
        else
            take(p, m);
    }
    if (p->count == p->wanted)
        finish(p);
    else
        look(p);
}

/* --- loading a mailbox --- */

static void load(struct poll *p, struct str after);

/* Several may load it at once. What the last of them reads is older than what the first has done
 * with it since, such as deleting a message. */
static void on_loaded(void *ctx, const struct reply *r)
{
    struct poll *p = ctx;
    if (r->err.code != ERR_OK) {
        tc_fail_err(p->call, &r->err);
        return;
    }
    for (size_t i = 0; i < r->count && !p->box->loaded; i++)
        restore(p->box, &r->kv[i], p->call->arena);
    if (r->more && !p->box->loaded) {
        load(p, arena_copy(p->call->arena, r->kv_after));
        return;
    }
    p->box->loaded = true;
    p->then(p);
}

static void load(struct poll *p, struct str after)
{
    struct command cmd = {.kind = CMD_KV_LIST,
                          .kv = {.space = STR(MESSAGES),
                                 .key = p->name,
                                 .prefix = true,
                                 .after = after,
                                 .limit = KV_PAGE_MAX},
                          .done = on_loaded,
                          .ctx = p};
    backend_submit(p->call->tc->backend, &cmd);
}

static void open_loaded(struct poll *p, void (*then)(struct poll *p))
{
    p->name = box_name(p->call);
    p->box = open_box(p->call->tc, p->name);
    p->then = then;
    if (p->box->loaded)
        then(p);
    else
        load(p, (struct str){0});
}

void tc_poll_get(struct tc_call *c)
{
    struct poll *p = ARENA_NEW(c->arena, struct poll);
    struct str peeks;
    p->call = c;
    p->peeks = tc_query_value(c, "peekonly", &peeks) && str_eq(peeks, STR("true"));
    p->wanted = 1;
    p->timeout = VISIBILITY_MS / 1000;
    if (!is_signed(c) || !read_number(c, "numofmessages", MESSAGES_MAX, &p->wanted) ||
        !read_number(c, "visibilitytimeout", VISIBILITY_MS / 1000, &p->timeout))
        return;
    p->level = tc_param(c, "level").at[0] - '0';
    p->queue = tc_queue_of_path(c);
    open_loaded(p, gather);
}

/* --- DELETE messages/{id} --- */

static void on_deleted(void *ctx, const struct reply *r)
{
    struct tc_call *c = ctx;
    if (r->err.code != ERR_OK)
        fail(c, 503, "ServerBusy", "The server is currently unable to receive requests.");
    else
        tc_azure_reply(c, 204, (struct str){0});
}

static bool receipt_fits(struct tc_call *c, const struct tc_message *m)
{
    struct str given;
    struct buf b = {0};
    write_receipt(&b, m->receipt);
    bool fits = tc_query_value(c, "popreceipt", &given) && str_eq(given, buf_view(&b));
    buf_fini(&b);
    return fits;
}

/* A message that cannot be deleted comes again and again: whoever runs the workers should know. */
static void refuse_delete(struct tc_call *c, int status, const char *code, const char *words)
{
    c->tc->polled.undeleted++;
    log_warn("taskcluster: a message of %.*s/%.*s was not deleted: %s",
             STR_ARG(tc_param(c, "provisionerId")), STR_ARG(tc_param(c, "workerType")), code);
    fail(c, status, code, words);
}

/* The message that may be deleted; NULL: it has answered. */
static struct tc_message *find_deletable(struct poll *p)
{
    struct tc_call *c = p->call;
    struct tc_message *m = tc_mailbox_find(p->box, tc_param(c, "messageId"));
    if (!m || m->expires.ms <= c->now.ms) {
        refuse_delete(c, 404, "MessageNotFound", "The specified message does not exist.");
        return NULL;
    }
    if (!receipt_fits(c, m)) {
        refuse_delete(c, 400, "PopReceiptMismatch",
                      "The specified pop receipt did not match the pop receipt for a dequeued "
                      "message.");
        return NULL;
    }
    return m;
}

static void remove_message(struct poll *p, struct tc_message *m)
{
    struct tc_call *c = p->call;
    struct command cmd = {.kind = CMD_KV_REMOVE,
                          .kv = {.space = STR(MESSAGES), .key = entry_key(c, p->name, m)},
                          .done = on_deleted,
                          .ctx = c};
    tc_mailbox_remove(p->box, m);
    backend_submit(c->tc->backend, &cmd);
}

/* The run is still pending, so whoever looks for messages next would make another one for it, and
 * after a restart nobody would know that there had been one: that it was deleted is stored. */
static void bury_message(struct poll *p, struct tc_message *m)
{
    struct tc_call *c = p->call;
    struct buf value = {0};
    tc_mailbox_bury(p->box, m);
    write_entry(&value, m);
    const struct kv_change change = {.entry = {STR(MESSAGES), entry_key(c, p->name, m),
                                               arena_copy(c->arena, buf_view(&value)), m->expires,
                                               0},
                                     .when = KV_ANY};
    struct command cmd = {.kind = CMD_KV_PUT, .kv_put = {&change, 1}, .done = on_deleted, .ctx = c};
    buf_fini(&value);
    backend_submit(c->tc->backend, &cmd);
}

static void delete_of(struct tc_call *c, const struct tc_task *t)
{
    struct poll *p = c->state;
    struct tc_message *m = find_deletable(p); /* it may be gone by now */
    if (!m)
        return;
    bool waits = t && t->job.state.runs == m->run &&
                 (t->job.state.status == STATUS_READY || t->job.state.status == STATUS_SCHEDULED);
    c->tc->polled.deleted++;
    if (waits)
        bury_message(p, m);
    else
        remove_message(p, m);
}

static void delete_now(struct poll *p)
{
    struct tc_call *c = p->call;
    c->state = p;
    const struct tc_message *m = find_deletable(p);
    if (m)
        tc_task_find(c, arena_copy(c->arena, tc_message_task(m)), delete_of);
}

void tc_poll_delete(struct tc_call *c)
{
    struct poll *p = ARENA_NEW(c->arena, struct poll);
    p->call = c;
    if (is_signed(c))
        open_loaded(p, delete_now);
}

void taskcluster_read_polled(const struct taskcluster *t, struct taskcluster_polled *out)
{
    *out = t->polled;
}
