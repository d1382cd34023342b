/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record.h"

#include <math.h>

#include "base/must.h"

/* The bytes of version 1.
 *
 *   byte     one byte
 *   varint   an unsigned number, 7 bits per byte, lowest first; the high bit says that
 *            more follow; at most 10 bytes and never longer than needed
 *   zigzag   a signed number n as the varint of 2n, or -2n - 1 if it is negative
 *   opt      a number from -1 up as the varint of n + 1; so "none" and "default" are 0
 *   text     varint length, then as many bytes
 *   double   8 bytes, IEEE 754, little-endian, finite
 *
 *   JOB      byte version, text queue, text type, opt retry_limit,
 *            byte shape of the backoff; if it is POWER: zigzag base ms, double exponent,
 *            zigzag jitter ms,
 *            opt completed retention ms, opt dead retention ms, byte unique scope, and if
 *            it is not 0 text unique key, byte 0 or, of a batched job, 1 if it is open and
 *            2 if not, then text batch key, text when, text fold, text retry policies,
 *            STATE without its version,
 *            byte 0 and text payload, or byte 1 if the payload is apart
 *   PAYLOAD  byte version, text payload
 *   STATE    byte version, byte status, byte resolution, varint priority, opt ready_at,
 *            opt dequeued_at, opt failed_at, opt completed_at, opt purge_at (all in ms),
 *            varint attempts, varint forgiven, varint runs, varint losses, text reason,
 *            varint token, opt lease_end, text worker, text retry counts, text node to avoid
 *   RUN      byte version, varint index, text worker, opt taken_at, opt lease_end,
 *            opt ended_at, byte outcome, varint attempt, opt retry_at, text reason,
 *            text message, text error type, text backtrace, zigzag exit code,
 *            zigzag signal, opt run time ms, byte condition, text node, text termination
 *            message, text category, text subcategory, varint count of containers, then for
 *            each: text name, byte 1 if it is an init container, zigzag exit code, text
 *            reason, text message
 *   TAKES    byte version, opt at, varint count, then for each: id as 16 bytes
 *            big-endian, varint run
 *   PAUSE    byte 0 or 1: paused, opt paused_at, opt resumed_at
 *   CRON GROUP  byte version, text name, PAUSE
 *   CRON ENTRY  byte version, id of the group as 16 bytes big-endian, varint position, text
 *            name, text expression, text zone, text queue, text type, varint priority, opt
 *            retry_limit, backoff as in JOB, opt completed retention ms, opt dead retention
 *            ms, unique scope and key as in JOB, text payload, text retry policies
 *   CRON CLOCK  byte version, opt next_at, opt last_at, PAUSE
 *   RESOURCE byte version, varint resource version, text body
 *
 * There is one encoding of a value and nothing follows it: a reader refuses all else. */

#define VERSION 1

enum { BATCH_NONE, BATCH_OPEN, BATCH_CLOSED };

/* These numbers are on disk. */
_Static_assert(STATUS_BLOCKED == 0 && STATUS_SCHEDULED == 1 && STATUS_READY == 2 &&
                   STATUS_IN_FLIGHT == 3 && STATUS_COMPLETED == 4 && STATUS_DEAD == 5,
               "stored statuses keep their numbers");
_Static_assert(RESOLUTION_NONE == 0 && RESOLUTION_FAILED == 1 && RESOLUTION_CLAIM_EXPIRED == 2 &&
                   RESOLUTION_CANCELED == 3 && RESOLUTION_POISON == 4,
               "stored resolutions keep their numbers");
_Static_assert(OUTCOME_RUNNING == 0 && OUTCOME_COMPLETED == 1 && OUTCOME_FAILED == 2 &&
                   OUTCOME_EXPIRED == 3 && OUTCOME_LOST == 4 && OUTCOME_RETURNED == 5 &&
                   OUTCOME_CANCELED == 6,
               "stored outcomes keep their numbers");
_Static_assert(UNIQUE_NONE == 0 && UNIQUE_QUEUED == 1 && UNIQUE_ACTIVE == 2 && UNIQUE_EXISTS == 3,
               "stored scopes keep their numbers");
_Static_assert(CONDITION_NONE == 0 && CONDITION_OOM_KILLED == 1 && CONDITION_EVICTED == 2 &&
                   CONDITION_PREEMPTED == 3 && CONDITION_DEADLINE_EXCEEDED == 4 &&
                   CONDITION_UNSCHEDULABLE == 5,
               "stored conditions keep their numbers");
_Static_assert(CURVE_NONE == 0 && CURVE_POWER == 1, "stored shapes keep their numbers");

/* --- keys --- */

static struct record_key key_of_id(char kind, struct id id)
{
    struct record_key k = {.len = 17};
    k.bytes[0] = kind;
    id_encode(id, (uint8_t *)k.bytes + 1);
    return k;
}

static void put_big_endian(char *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(v >> (8 * (bytes - 1 - i)));
}

static uint64_t get_big_endian(const char *at, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

struct record_key record_job_key(struct id id)
{
    return key_of_id('J', id);
}

struct record_key record_payload_key(struct id id)
{
    return key_of_id('P', id);
}

struct record_key record_state_key(struct id id)
{
    return key_of_id('S', id);
}

struct record_key record_run_key(struct id id, uint32_t run)
{
    struct record_key k = key_of_id('R', id);
    put_big_endian(k.bytes + k.len, run, 4);
    k.len += 4;
    return k;
}

struct record_key record_takes_key(uint64_t seq)
{
    struct record_key k = {.len = 9};
    k.bytes[0] = 'T';
    put_big_endian(k.bytes + 1, seq, 8);
    return k;
}

struct record_key record_cron_group_key(struct id id)
{
    return key_of_id('C', id);
}

struct record_key record_cron_entry_key(struct id id)
{
    return key_of_id('E', id);
}

struct record_key record_cron_clock_key(struct id id)
{
    return key_of_id('N', id);
}

struct str record_resource_key(char kind, struct str name, char room[RECORD_RESOURCE_KEY_MAX])
{
    must(name.len + 2 <= RECORD_RESOURCE_KEY_MAX);
    room[0] = 'D';
    room[1] = kind;
    if (name.len)
        memcpy(room + 2, name.at, name.len);
    return (struct str){room, name.len + 2};
}

struct record_key record_meta_key(struct str name)
{
    must(name.len > 0 && name.len < RECORD_KEY_MAX);
    struct record_key k = {.len = 1 + name.len};
    k.bytes[0] = 'M';
    memcpy(k.bytes + 1, name.at, name.len);
    return k;
}

static bool is_kind(struct str key, char kind, size_t len)
{
    return key.len == len && key.at[0] == kind;
}

static struct id id_in(struct str key)
{
    return id_decode((const uint8_t *)key.at + 1);
}

static bool is_id_key(struct str key, char kind, struct id *id)
{
    if (!is_kind(key, kind, 17))
        return false;
    *id = id_in(key);
    return true;
}

bool record_key_is_job(struct str key, struct id *id)
{
    return is_id_key(key, 'J', id);
}

bool record_key_is_payload(struct str key, struct id *id)
{
    return is_id_key(key, 'P', id);
}

bool record_key_is_cron_group(struct str key, struct id *id)
{
    return is_id_key(key, 'C', id);
}

bool record_key_is_cron_entry(struct str key, struct id *id)
{
    return is_id_key(key, 'E', id);
}

bool record_key_is_cron_clock(struct str key, struct id *id)
{
    return is_id_key(key, 'N', id);
}

bool record_key_is_resource(struct str key, char *kind, struct str *name)
{
    if (key.len < 2 || key.at[0] != 'D')
        return false;
    *kind = key.at[1];
    *name = (struct str){key.at + 2, key.len - 2};
    return true;
}

bool record_key_is_state(struct str key, struct id *id)
{
    return is_id_key(key, 'S', id);
}

bool record_key_is_run(struct str key, struct id *id, uint32_t *run)
{
    if (!is_kind(key, 'R', 21))
        return false;
    *id = id_in(key);
    *run = (uint32_t)get_big_endian(key.at + 17, 4);
    return true;
}

bool record_key_is_takes(struct str key, uint64_t *seq)
{
    if (!is_kind(key, 'T', 9))
        return false;
    *seq = get_big_endian(key.at + 1, 8);
    return true;
}

struct err record_check_format(struct str value)
{
    if (str_eq(value, STR(RECORD_FORMAT)))
        return err_none();
    return err_make(ERR_VERSION,
                    "the root directory has format %.*s and was written by a newer tenax; this "
                    "one, tenax " TENAX_VERSION ", knows format " RECORD_FORMAT
                    ": use the newer one",
                    (int)(value.len < 16 ? value.len : 16), value.at ? value.at : "");
}

/* --- writing ---
 * Every record is written twice by the same function: first with at == NULL, which
 * only counts, then into the room of that size. */

struct writer {
    char *at;
    size_t len;
};

static void write_bytes(struct writer *w, const void *bytes, size_t n)
{
    if (w->at && n)
        memcpy(w->at + w->len, bytes, n);
    w->len += n;
}

static void write_byte(struct writer *w, unsigned v)
{
    must(v <= UINT8_MAX);
    if (w->at)
        w->at[w->len] = (char)v;
    w->len++;
}

static void write_varint(struct writer *w, uint64_t v)
{
    while (v >= 0x80) {
        write_byte(w, (unsigned)(v & 0x7f) | 0x80);
        v >>= 7;
    }
    write_byte(w, (unsigned)v);
}

static void write_zigzag(struct writer *w, int64_t v)
{
    write_varint(w, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void write_opt(struct writer *w, int64_t v)
{
    must(v >= -1);
    write_varint(w, (uint64_t)v + 1);
}

static void write_text(struct writer *w, struct str s)
{
    write_varint(w, s.len);
    write_bytes(w, s.at, s.len);
}

static void write_double(struct writer *w, double v)
{
    must(isfinite(v));
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    for (int i = 0; i < 8; i++)
        write_byte(w, (unsigned)(bits >> (8 * i)) & 0xff);
}

static void write_state(struct writer *w, const struct job_state *s)
{
    must(s->status < STATUS_COUNT && s->resolution < RESOLUTION_COUNT);
    write_byte(w, s->status);
    write_byte(w, s->resolution);
    write_varint(w, s->priority);
    write_opt(w, s->ready_at.ms);
    write_opt(w, s->dequeued_at.ms);
    write_opt(w, s->failed_at.ms);
    write_opt(w, s->completed_at.ms);
    write_opt(w, s->purge_at.ms);
    write_varint(w, s->attempts);
    write_varint(w, s->forgiven);
    write_varint(w, s->runs);
    write_varint(w, s->losses);
    write_text(w, s->reason);
    write_varint(w, s->token);
    write_opt(w, s->lease_end.ms);
    write_text(w, s->worker);
    write_text(w, s->retry_counts);
    write_text(w, s->avoid_node);
}

static void write_curve(struct writer *w, const struct curve *c)
{
    write_byte(w, c->shape);
    if (c->shape == CURVE_NONE)
        return;
    must(c->shape == CURVE_POWER);
    write_zigzag(w, c->base.ms);
    write_double(w, c->exponent);
    write_zigzag(w, c->jitter.ms);
}

static bool goes_apart(const struct job *job)
{
    return job->payload.len > RECORD_APART_MIN;
}

static void write_batch(struct writer *w, const struct job_batch *b)
{
    must(b->key.len || !b->open);
    write_byte(w, b->key.len == 0 ? BATCH_NONE : b->open ? BATCH_OPEN : BATCH_CLOSED);
    if (!b->key.len)
        return;
    write_text(w, b->key);
    write_text(w, b->when);
    write_text(w, b->fold);
}

static void write_job(struct writer *w, const struct job *job)
{
    write_byte(w, VERSION);
    write_text(w, job->queue);
    write_text(w, job->type);
    write_opt(w, job->retry_limit);
    write_curve(w, &job->backoff);
    write_opt(w, job->completed_retention.ms);
    write_opt(w, job->dead_retention.ms);
    write_byte(w, job->unique_while);
    if (job->unique_while)
        write_text(w, job->unique_key);
    write_batch(w, &job->batch);
    write_text(w, job->retry_policies);
    write_state(w, &job->state);
    write_byte(w, goes_apart(job));
    if (!goes_apart(job))
        write_text(w, job->payload);
}

static void write_payload(struct writer *w, struct str payload)
{
    write_byte(w, VERSION);
    write_text(w, payload);
}

static void write_state_record(struct writer *w, const struct job_state *s)
{
    write_byte(w, VERSION);
    write_state(w, s);
}

static void write_container(struct writer *w, const struct container_result *c)
{
    write_text(w, c->name);
    write_byte(w, c->init);
    write_zigzag(w, c->exit_code);
    write_text(w, c->reason);
    write_text(w, c->message);
}

static void write_failure(struct writer *w, const struct failure *f)
{
    must(f->condition < CONDITION_COUNT);
    write_text(w, f->message);
    write_text(w, f->error_type);
    write_text(w, f->backtrace);
    write_zigzag(w, f->exit_code);
    write_zigzag(w, f->signal);
    write_opt(w, f->run_time.ms < 0 ? -1 : f->run_time.ms);
    write_byte(w, f->condition);
    write_text(w, f->node);
    write_text(w, f->termination_message);
    write_text(w, f->category);
    write_text(w, f->subcategory);
    write_varint(w, f->container_count);
    for (size_t i = 0; i < f->container_count; i++)
        write_container(w, &f->containers[i]);
}

static void write_run(struct writer *w, const struct run *r)
{
    must(r->outcome < OUTCOME_COUNT);
    write_byte(w, VERSION);
    write_varint(w, r->index);
    write_text(w, r->worker);
    write_opt(w, r->taken_at.ms);
    write_opt(w, r->lease_end.ms);
    write_opt(w, r->ended_at.ms);
    write_byte(w, r->outcome);
    write_varint(w, r->attempt);
    write_opt(w, r->retry_at.ms);
    write_text(w, r->reason);
    write_failure(w, &r->failure);
}

static void write_id(struct writer *w, struct id id)
{
    uint8_t bytes[16];
    id_encode(id, bytes);
    write_bytes(w, bytes, sizeof bytes);
}

static void write_takes(struct writer *w, instant at, const struct take *takes, size_t count)
{
    write_byte(w, VERSION);
    write_opt(w, at.ms);
    write_varint(w, count);
    for (size_t i = 0; i < count; i++) {
        write_id(w, takes[i].id);
        write_varint(w, takes[i].run);
    }
}

static void write_pause(struct writer *w, const struct cron_pause *p)
{
    write_byte(w, p->paused);
    write_opt(w, p->paused_at.ms);
    write_opt(w, p->resumed_at.ms);
}

static void write_cron_group(struct writer *w, const struct cron_group *g)
{
    write_byte(w, VERSION);
    write_text(w, g->name);
    write_pause(w, &g->pause);
}

/* A field that is missing here would be missing in the jobs of every tick. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct enqueue) == 224,
               "a new field of struct enqueue must be stored with a cron entry, or refused in it");

static void write_cron_entry(struct writer *w, const struct cron_entry *c)
{
    const struct enqueue *job = &c->job;
    must(!instant_is_set(job->ready_at));
    write_byte(w, VERSION);
    write_id(w, c->group);
    write_varint(w, c->position);
    write_text(w, c->name);
    write_text(w, c->expression);
    write_text(w, c->zone);
    write_text(w, job->queue);
    write_text(w, job->type);
    write_varint(w, job->priority);
    write_opt(w, job->retry_limit);
    write_curve(w, &job->backoff);
    write_opt(w, job->completed_retention.ms);
    write_opt(w, job->dead_retention.ms);
    write_byte(w, job->unique_while);
    if (job->unique_while)
        write_text(w, job->unique_key);
    write_text(w, job->payload);
    write_text(w, job->retry_policies);
}

static void write_cron_clock(struct writer *w, const struct cron_clock *c)
{
    write_byte(w, VERSION);
    write_opt(w, c->next_at.ms);
    write_opt(w, c->last_at.ms);
    write_pause(w, &c->pause);
}

static void write_resource(struct writer *w, uint64_t version, struct str body)
{
    write_byte(w, VERSION);
    write_varint(w, version);
    write_text(w, body);
}

/* Puts a record under key: call is what writes it, with the writer as its `w`. */
#define PUT(batch, key, call)                                                                      \
    do {                                                                                           \
        struct record_key key_ = (key);                                                            \
        struct writer count_ = {0}, *w = &count_;                                                  \
        call;                                                                                      \
        struct writer fill_ = {batch_put_room(batch, record_key_view(&key_), count_.len), 0};      \
        w = &fill_;                                                                                \
        call;                                                                                      \
        must(fill_.len == count_.len);                                                             \
    } while (0)

bool record_put_job(struct batch *b, const struct job *job)
{
    must(job->payload.at != NULL);
    PUT(b, record_job_key(job->id), write_job(w, job));
    if (!goes_apart(job))
        return false;
    PUT(b, record_payload_key(job->id), write_payload(w, job->payload));
    return true;
}

void record_put_state(struct batch *b, struct id id, const struct job_state *state)
{
    PUT(b, record_state_key(id), write_state_record(w, state));
}

void record_put_run(struct batch *b, struct id id, const struct run *run)
{
    PUT(b, record_run_key(id, run->index), write_run(w, run));
}

void record_put_takes(struct batch *b, uint64_t seq, instant at, const struct take *takes,
                      size_t count)
{
    PUT(b, record_takes_key(seq), write_takes(w, at, takes, count));
}

void record_put_cron_group(struct batch *b, const struct cron_group *group)
{
    PUT(b, record_cron_group_key(group->id), write_cron_group(w, group));
}

void record_put_cron_entry(struct batch *b, const struct cron_entry *entry)
{
    PUT(b, record_cron_entry_key(entry->id), write_cron_entry(w, entry));
}

void record_put_cron_clock(struct batch *b, struct id id, const struct cron_clock *clock)
{
    PUT(b, record_cron_clock_key(id), write_cron_clock(w, clock));
}

void record_put_resource(struct batch *b, char kind, struct str name, uint64_t version,
                         struct str body)
{
    char room[RECORD_RESOURCE_KEY_MAX];
    struct str key = record_resource_key(kind, name, room);
    struct writer count = {0};
    write_resource(&count, version, body);
    struct writer fill = {batch_put_room(b, key, count.len), 0};
    write_resource(&fill, version, body);
    must(fill.len == count.len);
}

/* --- reading --- */

/* After the first fault every read gives zero; `bad` names the part at fault, and
 * finish() turns it into an error. */
struct reader {
    struct str value;
    size_t pos;
    const char *bad;
};

static size_t left(const struct reader *r)
{
    return r->value.len - r->pos;
}

static void fault(struct reader *r, const char *part)
{
    if (!r->bad)
        r->bad = part;
}

static const char *read_bytes(struct reader *r, const char *part, size_t n)
{
    if (r->bad || left(r) < n) {
        fault(r, part);
        return NULL;
    }
    const char *at = r->value.at + r->pos;
    r->pos += n;
    return at;
}

/* A byte of 0 .. max. */
static unsigned read_byte(struct reader *r, const char *part, unsigned max)
{
    const char *at = read_bytes(r, part, 1);
    unsigned v = at ? (unsigned char)*at : 0;
    if (v <= max)
        return v;
    fault(r, part);
    return 0;
}

static uint64_t read_varint(struct reader *r, const char *part, uint64_t max)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const char *at = read_bytes(r, part, 1);
        if (!at)
            return 0;
        uint64_t bits = (unsigned char)*at & 0x7f;
        v |= bits << shift;
        if (*at & 0x80)
            continue;
        bool padded = shift > 0 && bits == 0;
        bool overflown = shift == 63 && bits > 1;
        if (padded || overflown || v > max)
            break;
        return v;
    }
    fault(r, part);
    return 0;
}

static int64_t read_zigzag(struct reader *r, const char *part)
{
    uint64_t v = read_varint(r, part, UINT64_MAX);
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}

static int32_t read_zigzag32(struct reader *r, const char *part)
{
    int64_t v = read_zigzag(r, part);
    if (v >= INT32_MIN && v <= INT32_MAX)
        return (int32_t)v;
    fault(r, part);
    return 0;
}

static int64_t read_opt(struct reader *r, const char *part, int64_t max)
{
    return (int64_t)(read_varint(r, part, (uint64_t)max + 1) - 1);
}

static instant read_instant(struct reader *r, const char *part)
{
    return (instant){read_opt(r, part, INT64_MAX)};
}

static span read_span(struct reader *r, const char *part)
{
    return (span){read_opt(r, part, INT64_MAX)};
}

static struct str read_text(struct reader *r, const char *part)
{
    size_t len = read_varint(r, part, SIZE_MAX);
    const char *at = read_bytes(r, part, len);
    return at ? (struct str){at, len} : (struct str){"", 0};
}

static double read_double(struct reader *r, const char *part)
{
    const char *at = read_bytes(r, part, 8);
    uint64_t bits = 0;
    for (int i = 0; at && i < 8; i++)
        bits |= (uint64_t)(unsigned char)at[i] << (8 * i);
    double v;
    memcpy(&v, &bits, sizeof v);
    if (isfinite(v))
        return v;
    fault(r, part);
    return 0;
}

static struct reader begin(struct str value)
{
    return (struct reader){.value = value};
}

/* Reads the version, which decides how the rest is read; there is one so far. */
NODISCARD static struct err read_version(struct reader *r, const char *what)
{
    unsigned version = read_byte(r, "version", UINT8_MAX);
    if (version > VERSION)
        return err_make(ERR_VERSION,
                        "a %s record has version %u and was written by a newer tenax; this one, "
                        "tenax " TENAX_VERSION ", knows up to version %d: use the newer one",
                        what, version, VERSION);
    if (version == 0)
        return err_at(ERR_CORRUPT, 0, "a %s record has no version", what);
    return err_none();
}

NODISCARD static struct err finish(struct reader *r, const char *what)
{
    if (r->bad)
        return err_at(ERR_CORRUPT, (int64_t)r->pos, "a %s record of %zu bytes is broken at its %s",
                      what, r->value.len, r->bad);
    if (left(r) > 0)
        return err_at(ERR_CORRUPT, (int64_t)r->pos, "a %s record has %zu bytes too many", what,
                      left(r));
    return err_none();
}

static void read_state(struct reader *r, struct job_state *s)
{
    s->status = (enum status)read_byte(r, "status", STATUS_COUNT - 1);
    s->resolution = (enum resolution)read_byte(r, "resolution", RESOLUTION_COUNT - 1);
    s->priority = (uint16_t)read_varint(r, "priority", UINT16_MAX);
    s->ready_at = read_instant(r, "ready_at");
    s->dequeued_at = read_instant(r, "dequeued_at");
    s->failed_at = read_instant(r, "failed_at");
    s->completed_at = read_instant(r, "completed_at");
    s->purge_at = read_instant(r, "purge_at");
    s->attempts = (uint32_t)read_varint(r, "attempts", UINT32_MAX);
    s->forgiven = (uint32_t)read_varint(r, "forgiven attempts", s->attempts);
    s->runs = (uint32_t)read_varint(r, "runs", UINT32_MAX);
    s->losses = (uint32_t)read_varint(r, "losses", UINT32_MAX);
    s->reason = read_text(r, "reason");
    s->token = read_varint(r, "token", UINT64_MAX);
    s->lease_end = read_instant(r, "lease_end");
    s->worker = read_text(r, "worker");
    s->retry_counts = read_text(r, "retry counts");
    s->avoid_node = read_text(r, "node to avoid");
}

static void read_curve(struct reader *r, struct curve *c)
{
    *c = (struct curve){.shape = (enum curve_shape)read_byte(r, "backoff", CURVE_POWER)};
    if (c->shape == CURVE_NONE)
        return;
    c->base.ms = read_zigzag(r, "backoff base");
    c->exponent = read_double(r, "backoff exponent");
    c->jitter.ms = read_zigzag(r, "backoff jitter");
}

static void read_batch(struct reader *r, struct job_batch *b)
{
    unsigned kind = read_byte(r, "batch", BATCH_CLOSED);
    *b = (struct job_batch){.open = kind == BATCH_OPEN};
    if (kind == BATCH_NONE)
        return;
    b->key = read_text(r, "batch key");
    if (b->key.len == 0)
        fault(r, "batch key");
    b->when = read_text(r, "batch when");
    b->fold = read_text(r, "batch fold");
}

struct err record_read_job(struct str value, struct id id, struct job *job, bool *payload_apart)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "job"));
    job->id = id;
    job->queue = read_text(&r, "queue");
    job->type = read_text(&r, "type");
    job->retry_limit = (int32_t)read_opt(&r, "retry limit", INT32_MAX);
    read_curve(&r, &job->backoff);
    job->completed_retention = read_span(&r, "completed retention");
    job->dead_retention = read_span(&r, "dead retention");
    job->unique_while = (enum unique)read_byte(&r, "unique scope", UNIQUE_COUNT - 1);
    job->unique_key = job->unique_while ? read_text(&r, "unique key") : (struct str){0};
    read_batch(&r, &job->batch);
    job->retry_policies = read_text(&r, "retry policies");
    read_state(&r, &job->state);
    *payload_apart = read_byte(&r, "payload", 1);
    job->payload = *payload_apart ? (struct str){NULL, 0} : read_text(&r, "payload");
    return finish(&r, "job");
}

struct err record_read_payload(struct str value, struct str *payload)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "payload"));
    *payload = read_text(&r, "payload");
    return finish(&r, "payload");
}

struct err record_read_state(struct str value, struct job_state *state)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "state"));
    read_state(&r, state);
    return finish(&r, "state");
}

static void read_container(struct reader *r, struct container_result *c)
{
    c->name = read_text(r, "container's name");
    c->init = read_byte(r, "container's kind", 1);
    c->exit_code = read_zigzag32(r, "container's exit code");
    c->reason = read_text(r, "container's reason");
    c->message = read_text(r, "container's message");
    c->condition = job_condition_of_container(c->reason);
}

static void read_failure(struct reader *r, struct arena *a, struct failure *f)
{
    f->message = read_text(r, "message");
    f->error_type = read_text(r, "error type");
    f->backtrace = read_text(r, "backtrace");
    f->exit_code = read_zigzag32(r, "exit code");
    f->signal = read_zigzag32(r, "signal");
    f->run_time = read_span(r, "run time");
    f->condition = (enum condition)read_byte(r, "condition", CONDITION_COUNT - 1);
    f->node = read_text(r, "node");
    f->termination_message = read_text(r, "termination message");
    f->category = read_text(r, "category");
    f->subcategory = read_text(r, "subcategory");
    /* A container takes at least 5 bytes: what is left bounds their number. */
    f->container_count = read_varint(r, "count of containers", left(r) / 5);
    if (f->container_count == 0)
        return;
    struct container_result *c = arena_zero(a, f->container_count * sizeof *c);
    f->containers = c;
    for (size_t i = 0; i < f->container_count && !r->bad; i++)
        read_container(r, &c[i]);
}

struct err record_read_run(struct str value, struct arena *a, struct run *run)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "run"));
    run->index = (uint32_t)read_varint(&r, "index", UINT32_MAX);
    run->worker = read_text(&r, "worker");
    run->taken_at = read_instant(&r, "taken_at");
    run->lease_end = read_instant(&r, "lease_end");
    run->ended_at = read_instant(&r, "ended_at");
    run->outcome = (enum outcome)read_byte(&r, "outcome", OUTCOME_COUNT - 1);
    run->attempt = (uint32_t)read_varint(&r, "attempt", UINT32_MAX);
    run->retry_at = read_instant(&r, "retry_at");
    run->reason = read_text(&r, "reason");
    run->failure = (struct failure){0};
    read_failure(&r, a, &run->failure);
    return finish(&r, "run");
}

static struct id read_id(struct reader *r)
{
    const char *id = read_bytes(r, "id", 16);
    return id ? id_decode((const uint8_t *)id) : (struct id){0};
}

static struct take read_take(struct reader *r)
{
    struct take t = {.id = read_id(r)};
    t.run = (uint32_t)read_varint(r, "run", UINT32_MAX);
    return t;
}

struct err record_read_takes(struct str value, instant *at, void (*each)(void *ctx, struct take t),
                             void *ctx)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "takes"));
    *at = read_instant(&r, "at");
    uint64_t count = read_varint(&r, "count", UINT64_MAX);
    struct reader again = r;
    for (uint64_t i = 0; i < count && !r.bad; i++)
        read_take(&r);
    TRY(finish(&r, "takes"));
    /* Only now: the caller acts on no part of a broken record. */
    for (uint64_t i = 0; i < count; i++)
        each(ctx, read_take(&again));
    return err_none();
}

static struct cron_pause read_pause(struct reader *r)
{
    struct cron_pause p;
    p.paused = read_byte(r, "pause", 1);
    p.paused_at = read_instant(r, "paused_at");
    p.resumed_at = read_instant(r, "resumed_at");
    return p;
}

struct err record_read_cron_group(struct str value, struct id id, struct cron_group *group)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "cron group"));
    group->id = id;
    group->name = read_text(&r, "name");
    group->pause = read_pause(&r);
    return finish(&r, "cron group");
}

struct err record_read_cron_entry(struct str value, struct id id, struct cron_entry *entry)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "cron entry"));
    *entry = (struct cron_entry){.id = id, .job.ready_at = INSTANT_NONE};
    entry->group = read_id(&r);
    entry->position = (uint32_t)read_varint(&r, "position", UINT32_MAX);
    entry->name = read_text(&r, "name");
    entry->expression = read_text(&r, "expression");
    entry->zone = read_text(&r, "zone");
    entry->job.queue = read_text(&r, "queue");
    entry->job.type = read_text(&r, "type");
    entry->job.priority = (uint16_t)read_varint(&r, "priority", UINT16_MAX);
    entry->job.retry_limit = (int32_t)read_opt(&r, "retry limit", INT32_MAX);
    read_curve(&r, &entry->job.backoff);
    entry->job.completed_retention = read_span(&r, "completed retention");
    entry->job.dead_retention = read_span(&r, "dead retention");
    entry->job.unique_while = (enum unique)read_byte(&r, "unique scope", UNIQUE_COUNT - 1);
    if (entry->job.unique_while)
        entry->job.unique_key = read_text(&r, "unique key");
    entry->job.payload = read_text(&r, "payload");
    entry->job.retry_policies = read_text(&r, "retry policies");
    return finish(&r, "cron entry");
}

struct err record_read_cron_clock(struct str value, struct cron_clock *clock)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "cron clock"));
    clock->next_at = read_instant(&r, "next_at");
    clock->last_at = read_instant(&r, "last_at");
    clock->pause = read_pause(&r);
    return finish(&r, "cron clock");
}

struct err record_read_resource(struct str value, uint64_t *version, struct str *body)
{
    struct reader r = begin(value);
    TRY(read_version(&r, "resource"));
    *version = read_varint(&r, "resource version", INT64_MAX);
    *body = read_text(&r, "body");
    return finish(&r, "resource");
}
