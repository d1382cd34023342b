/* SPDX-License-Identifier: Apache-2.0 */
#include "store/eventlog.h"

#include "base/must.h"
#include "core/trace.h"
#include "store/reader.h"
#include "store/writer.h"

/* The bytes of version 8; see store/writer.h for the parts.
 *
 *   EVENTS  byte version, opt time of the first event, varint count, varint bytes of all
 *           records before, opt time of the mark, id of the mark as 16 bytes big-endian, EVENTs
 *   EVENT   byte event, byte flags (FLAG_…), byte texts that are the same as in the event before
 *           (bit 0 queue, 1 type, 2 worker, 3 reason; 4 priority: the same as in the newest event
 *           that tells one, or it tells none; 5 traceparent; 6, of no text: a culprit follows; 7
 * likewise: a failure), byte n: how many leading bytes the id shares with the one before, 16 - n
 * bytes: the others, zigzag ms since the event before, those of queue, type, worker and reason that
 * are not the same, as texts; if FLAG_RUN varint run, varint attempt; if FLAG_READY zigzag ms to
 * ready_at; if FLAG_RULING text policy, zigzag rule, varint count, varint limit; if FLAG_DECIDER
 * byte who decided about a failure (enum decider); of an event of a group text its name, of a
 * change of its priority varint how many jobs; of a change of the priority varint the one before;
 * of a beginning varint the ms to the end of the lease + 1, or 0; of what tells it varint how many
 * runs had begun; of a file text its name; unless it is the same varint the priority; unless it is
 * the same text the traceparent; at last byte culprit, text evidence against it, and of a failure
 * text category, text subcategory, zigzag exit code, text message
 *
 * Version 1 has no FLAG_DECIDER, version 2 no events of groups, version 3 no changes of
 * priorities. Version 4 has no priority but that of a change, behind the one before, and nothing of
 * leases, numbers of runs, files, progress and changes of the priority of a group. Version 5 has no
 * traceparent, version 6 no culprit, version 7 no failure.
 *
 * Before the first event of a record all texts are empty and the id and the priority are 0. The
 * status after an event follows from the event and the status before. */

#define VERSION 8

#define FLAG_FROM    7u /* the status before, or STATUS_GONE */
#define FLAG_REMOVED 8u
#define FLAG_RUN     16u
#define FLAG_READY   32u
#define FLAG_RULING  64u
#define FLAG_DECIDER 128u

#define ID_LEN 16

/* These numbers are on disk; so are those of statuses (store/record.c). */
_Static_assert(EVENT_DUE == 0 && EVENT_POSTPONE == 1 && EVENT_TAKE == 2 && EVENT_SUCCEED == 3 &&
                   EVENT_RETRY == 4 && EVENT_RETRY_NOW == 5 && EVENT_EXHAUST == 6 &&
                   EVENT_RETURN == 7 && EVENT_CANCEL == 8 && EVENT_RERUN == 9 &&
                   EVENT_REMOVE == 10 && EVENT_PURGE == 11 && EVENT_ENQUEUE == 12 &&
                   EVENT_ENQUEUE_LATER == 13 && EVENT_POISON == 14,
               "stored events keep their numbers");
_Static_assert(DECIDER_NONE == 0 && DECIDER_KILL == 1 && DECIDER_RETRY_AT == 2 &&
                   DECIDER_RULE == 3 && DECIDER_NO_RULE == 4 && DECIDER_RULE_LIMIT == 5 &&
                   DECIDER_NO_POLICY == 6 && DECIDER_RETRY_LIMIT == 7 && DECIDER_GLOBAL_MAX == 8 &&
                   DECIDER_CULPRIT == 9 && DECIDER_RETRY_FOR == 10 && DECIDER_FAIL_FAST == 11 &&
                   DECIDER_DEADLINE == 12,
               "stored deciders keep their numbers");
_Static_assert((unsigned)STATUS_GONE <= FLAG_FROM, "a status fits into the flags");

enum { TEXT_QUEUE, TEXT_TYPE, TEXT_WORKER, TEXT_REASON, TEXTS };
#define SAME_TEXTS    ((1u << TEXTS) - 1)
#define SAME_PRIORITY (1u << TEXTS)
#define SAME_TRACE    (2u << TEXTS)
#define HAS_CULPRIT   (4u << TEXTS)
#define HAS_FAILURE   (8u << TEXTS)

/* --- keys --- */

struct record_key eventlog_key(uint64_t first)
{
    struct record_key k = {.len = 9};
    k.bytes[0] = 'V';
    for (int i = 0; i < 8; i++)
        k.bytes[1 + i] = (char)(first >> (56 - 8 * i));
    return k;
}

bool eventlog_key_is(struct str key, uint64_t *first)
{
    if (key.len != 9 || key.at[0] != 'V')
        return false;
    *first = 0;
    for (int i = 1; i < 9; i++)
        *first = *first << 8 | (unsigned char)key.at[i];
    return true;
}

/* --- writing --- */

void eventlog_writer_fini(struct eventlog_writer *w)
{
    buf_fini(&w->bytes);
}

void eventlog_reset(struct eventlog_writer *w)
{
    w->bytes.len = 0;
    w->count = 0;
    w->last = (struct id){0, 0};
    for (int i = 0; i < TEXTS; i++)
        w->texts[i].len = 0;
    w->trace.len = 0;
    w->priority = 0;
}

/* Of their beginnings, encoded. */
static size_t shared_bytes(struct id a, struct id b)
{
    if (a.hi != b.hi)
        return (size_t)__builtin_clzll(a.hi ^ b.hi) / 8;
    return a.lo != b.lo ? 8 + (size_t)__builtin_clzll(a.lo ^ b.lo) / 8 : ID_LEN;
}

static unsigned flags_of(const struct job_event *ev)
{
    return (unsigned)ev->from | (ev->removed ? FLAG_REMOVED : 0) | (ev->run >= 0 ? FLAG_RUN : 0) |
           (instant_is_set(ev->ready_at) ? FLAG_READY : 0) |
           (ev->ruling.limit >= 0 ? FLAG_RULING : 0) |
           (ev->ruling.by != DECIDER_NONE ? FLAG_DECIDER : 0);
}

/* The maximum number of bytes that an event can take. */
static size_t room_for(const struct job_event *ev)
{
    return 192 + ev->queue.len + ev->type.len + ev->worker.len + ev->reason.len +
           ev->ruling.policy.len + ev->group.len + ev->artifact.len + ev->traceparent.len +
           ev->culprit_evidence.len + ev->category.len + ev->subcategory.len + ev->message.len;
}

static void write_id(struct writer *out, struct id id, struct id before)
{
    uint8_t bytes[ID_LEN];
    id_encode(id, bytes);
    size_t n = shared_bytes(id, before);
    writer_byte(out, (unsigned)n);
    writer_bytes(out, bytes + n, ID_LEN - n);
}

/* What only some kinds of events have. */
static void write_kind(struct writer *out, const struct job_event *ev)
{
    if (event_is_of_group(ev->event))
        writer_text(out, ev->group);
    if (ev->event == EVENT_GROUP_REPRIORITIZE)
        writer_varint(out, ev->jobs);
    if (ev->event == EVENT_REPRIORITIZE)
        writer_varint(out, (uint64_t)ev->old_priority);
    if (ev->event == EVENT_TAKE)
        writer_varint(
            out, instant_is_set(ev->lease_end) ? (uint64_t)(ev->lease_end.ms - ev->at.ms) + 1 : 0);
    if (event_tells_runs(ev->event))
        writer_varint(out, ev->runs);
    if (ev->event == EVENT_ARTIFACT)
        writer_text(out, ev->artifact);
}

static void write_culprit(struct writer *out, const struct job_event *ev)
{
    if (!ev->culprit)
        return;
    writer_byte(out, ev->culprit);
    writer_text(out, ev->culprit_evidence);
}

static bool has_failure(const struct job_event *ev)
{
    return ev->category.len || ev->subcategory.len || ev->exit_code || ev->message.len;
}

static void write_failure(struct writer *out, const struct job_event *ev)
{
    if (!has_failure(ev))
        return;
    writer_text(out, ev->category);
    writer_text(out, ev->subcategory);
    writer_zigzag(out, ev->exit_code);
    writer_text(out, ev->message);
}

static void write_rest(struct writer *out, const struct job_event *ev)
{
    if (ev->run >= 0) {
        writer_varint(out, (uint64_t)ev->run);
        writer_varint(out, ev->attempt);
    }
    if (instant_is_set(ev->ready_at))
        writer_zigzag(out, ev->ready_at.ms - ev->at.ms);
    if (ev->ruling.limit >= 0) {
        writer_text(out, ev->ruling.policy);
        writer_zigzag(out, ev->ruling.rule);
        writer_varint(out, ev->ruling.count);
        writer_varint(out, (uint64_t)ev->ruling.limit);
    }
    if (ev->ruling.by != DECIDER_NONE)
        writer_byte(out, ev->ruling.by);
    write_kind(out, ev);
}

void eventlog_add(struct eventlog_writer *w, const struct job_event *ev)
{
    if (w->count == 0) {
        w->first = ev->number;
        w->began = w->at = ev->at;
    }
    must(ev->number == w->first + w->count && w->count < UINT32_MAX);
    must(ev->from <= STATUS_GONE && ev->event < EVENT_COUNT);
    size_t room = room_for(ev);
    struct writer out = writer_into(buf_room(&w->bytes, room), room);
    const struct str texts[TEXTS] = {ev->queue, ev->type, ev->worker, ev->reason};
    unsigned same = (ev->culprit ? HAS_CULPRIT : 0) | (has_failure(ev) ? HAS_FAILURE : 0);
    for (unsigned i = 0; i < TEXTS; i++)
        if (str_eq(texts[i], (struct str){w->bytes.at + w->texts[i].at, w->texts[i].len}))
            same |= 1u << i;
    if (!event_tells_priority(ev->event) || ev->priority == w->priority)
        same |= SAME_PRIORITY;
    if (str_eq(ev->traceparent, (struct str){w->bytes.at + w->trace.at, w->trace.len}))
        same |= SAME_TRACE;
    writer_byte(&out, ev->event);
    writer_byte(&out, flags_of(ev));
    writer_byte(&out, same);
    write_id(&out, ev->id, w->last);
    writer_zigzag(&out, ev->at.ms - w->at.ms);
    for (unsigned i = 0; i < TEXTS; i++) {
        if (same & 1u << i)
            continue;
        writer_text(&out, texts[i]);
        w->texts[i].at = w->bytes.len + out.len - texts[i].len;
        w->texts[i].len = texts[i].len;
    }
    write_rest(&out, ev);
    if (!(same & SAME_PRIORITY)) {
        must(ev->priority >= 0);
        writer_varint(&out, (uint64_t)ev->priority);
        w->priority = ev->priority;
    }
    if (!(same & SAME_TRACE)) {
        writer_text(&out, ev->traceparent);
        w->trace.at = w->bytes.len + out.len - ev->traceparent.len;
        w->trace.len = ev->traceparent.len;
    }
    write_culprit(&out, ev);
    write_failure(&out, ev);
    must(out.len <= room_for(ev));
    w->bytes.len += out.len;
    w->count++;
    w->at = ev->at;
    w->last = ev->id;
}

static void write_head(struct writer *out, const struct eventlog_writer *w,
                       const struct event_mark *mark)
{
    uint8_t id[ID_LEN];
    id_encode(mark->id, id);
    writer_byte(out, VERSION);
    writer_opt(out, w->began.ms);
    writer_varint(out, w->count);
    writer_varint(out, w->before);
    writer_opt(out, mark->at.ms);
    writer_bytes(out, id, sizeof id);
}

void eventlog_flush(struct eventlog_writer *w, const struct event_mark *mark, struct batch *b)
{
    if (w->count == 0)
        return;
    struct record_key key = eventlog_key(w->first);
    struct writer count = {0};
    write_head(&count, w, mark);
    size_t len = count.len + w->bytes.len;
    struct writer fill = writer_into(batch_put_room(b, record_key_view(&key), len), len);
    write_head(&fill, w, mark);
    writer_bytes(&fill, w->bytes.at, w->bytes.len);
    must(fill.len == len);
    w->before += key.len + len;
    eventlog_reset(w);
}

/* --- reading --- */

NODISCARD static struct err broken(const struct reader *r)
{
    return err_at(ERR_CORRUPT, (int64_t)r->pos,
                  "a record of events of %zu bytes is malformed at %s", r->value.len, r->bad);
}

static struct id read_id(struct reader *r, const char *part)
{
    const char *at = reader_bytes(r, part, ID_LEN);
    return at ? id_decode((const uint8_t *)at) : (struct id){0, 0};
}

struct err eventlog_open(struct str value, uint64_t first, struct eventlog_head *head,
                         struct eventlog_reader *out)
{
    struct reader r = {.value = value};
    unsigned version = reader_byte(&r, "its version", UINT8_MAX);
    if (version > VERSION)
        return err_make(ERR_VERSION,
                        "a record of events has version %u and was written by a newer tenax; this "
                        "one, tenax " TENAX_VERSION ", knows up to version %d: use the newer one",
                        version, VERSION);
    if (version == 0)
        reader_fault(&r, "its version");
    head->at = reader_instant(&r, "its time");
    head->count = (uint32_t)reader_varint(&r, "its count", UINT32_MAX);
    head->before = reader_varint(&r, "the bytes before it", UINT64_MAX);
    head->mark.at = reader_instant(&r, "its mark");
    head->mark.id = read_id(&r, "its mark");
    if (head->count == 0 || first == 0 || !instant_is_set(head->at))
        reader_fault(&r, "its head");
    *out = (struct eventlog_reader){.value = value,
                                    .pos = r.pos,
                                    .version = version,
                                    .left = head->count,
                                    .count = head->count,
                                    .last = {.number = first - 1}};
    out->last.at = head->at;
    return r.bad ? broken(&r) : err_none();
}

/* It shares as many leading bytes with the one before as possible, so that there is one
 * encoding. */
static struct id read_next_id(struct reader *r, struct id before)
{
    uint8_t bytes[ID_LEN];
    id_encode(before, bytes);
    size_t n = reader_byte(r, "an id", ID_LEN);
    const char *at = reader_bytes(r, "an id", ID_LEN - n);
    if (!at)
        return before;
    memcpy(bytes + n, at, ID_LEN - n);
    struct id id = id_decode(bytes);
    if (shared_bytes(id, before) != n)
        reader_fault(r, "an id");
    return id;
}

static void read_texts(struct reader *r, unsigned same, struct job_event *ev)
{
    static const char *const parts[TEXTS] = {"a queue", "a type", "a worker", "a reason"};
    struct str *texts[TEXTS] = {&ev->queue, &ev->type, &ev->worker, &ev->reason};
    for (unsigned i = 0; i < TEXTS; i++) {
        if (same & 1u << i)
            continue;
        struct str text = reader_text(r, parts[i]);
        if (str_eq(text, *texts[i]))
            reader_fault(r, parts[i]);
        *texts[i] = text;
    }
}

/* A time in milliseconds after another one. */
static instant read_later(struct reader *r, const char *part, instant from)
{
    instant at;
    if (__builtin_add_overflow(from.ms, reader_zigzag(r, part), &at.ms) || at.ms < 0) {
        reader_fault(r, part);
        return (instant){0};
    }
    return at;
}

static void read_rest(struct reader *r, unsigned flags, struct job_event *ev)
{
    ev->run = -1;
    ev->attempt = 0;
    ev->ready_at = INSTANT_NONE;
    ev->ruling = RULING_NONE;
    if (flags & FLAG_RUN) {
        ev->run = (int64_t)reader_varint(r, "a run", UINT32_MAX);
        ev->attempt = (uint32_t)reader_varint(r, "an attempt", UINT32_MAX);
    }
    if (flags & FLAG_READY)
        ev->ready_at = read_later(r, "a ready_at", ev->at);
    if (flags & FLAG_RULING) {
        ev->ruling.policy = reader_text(r, "a policy");
        ev->ruling.rule = reader_zigzag32(r, "a rule");
        ev->ruling.count = (uint32_t)reader_varint(r, "a count", UINT32_MAX);
        ev->ruling.limit = (int64_t)reader_varint(r, "a limit", INT64_MAX);
    }
    if (flags & FLAG_DECIDER) {
        ev->ruling.by = (enum decider)reader_byte(r, "who decided", DECIDER_COUNT - 1);
        if (ev->ruling.by == DECIDER_NONE)
            reader_fault(r, "who decided");
    }
}

/* Those that only some kinds of events have. */
static void read_kind(struct reader *r, unsigned version, struct job_event *ev)
{
    ev->group = ev->artifact = (struct str){0};
    ev->lease_end = INSTANT_NONE;
    ev->old_priority = 0;
    ev->jobs = ev->runs = 0;
    if (event_is_of_group(ev->event))
        ev->group = reader_text(r, "a group");
    if (ev->event == EVENT_GROUP_REPRIORITIZE)
        ev->jobs = reader_varint(r, "a number of jobs", UINT64_MAX);
    if (ev->event == EVENT_REPRIORITIZE)
        ev->old_priority = (int32_t)reader_varint(r, "a priority", UINT16_MAX);
    if (version < 5)
        return;
    if (ev->event == EVENT_TAKE) {
        int64_t lease = (int64_t)reader_varint(r, "a lease", INT64_MAX);
        if (lease && __builtin_add_overflow(ev->at.ms, lease - 1, &ev->lease_end.ms))
            reader_fault(r, "a lease");
    }
    if (event_tells_runs(ev->event))
        ev->runs = (uint32_t)reader_varint(r, "a number of runs", UINT32_MAX);
    if (ev->event == EVENT_ARTIFACT)
        ev->artifact = reader_text(r, "a file");
}

static void read_priority(struct reader *r, unsigned version, unsigned same, int32_t *latest,
                          struct job_event *ev)
{
    bool given = version < 5 ? ev->event == EVENT_REPRIORITIZE : !(same & SAME_PRIORITY);
    bool tells = version < 5 ? given : event_tells_priority(ev->event);
    if (given) {
        int32_t priority = (int32_t)reader_varint(r, "a priority", UINT16_MAX);
        if (!tells || (version >= 5 && priority == *latest))
            reader_fault(r, "a priority");
        *latest = priority;
    }
    ev->priority = tells ? *latest : -1;
}

static void read_trace(struct reader *r, unsigned version, unsigned same, struct job_event *ev)
{
    if (version < 6 || (same & SAME_TRACE))
        return;
    struct str text = reader_text(r, "a traceparent");
    if (str_eq(text, ev->traceparent) || (text.len && !trace_is_parent(text)))
        reader_fault(r, "a traceparent");
    ev->traceparent = text;
}

static void read_culprit(struct reader *r, unsigned same, struct job_event *ev)
{
    ev->culprit = CULPRIT_NONE;
    ev->culprit_evidence = (struct str){0};
    if (!(same & HAS_CULPRIT))
        return;
    ev->culprit = (enum culprit)reader_byte(r, "a culprit", CULPRIT_COUNT - 1);
    ev->culprit_evidence = reader_text(r, "the evidence against it");
    if (ev->culprit == CULPRIT_NONE)
        reader_fault(r, "a culprit");
}

static void read_failure(struct reader *r, unsigned same, struct job_event *ev)
{
    ev->category = ev->subcategory = ev->message = (struct str){0};
    ev->exit_code = 0;
    if (!(same & HAS_FAILURE))
        return;
    ev->category = reader_text(r, "a category");
    ev->subcategory = reader_text(r, "a subcategory");
    ev->exit_code = reader_zigzag32(r, "an exit code");
    ev->message = reader_text(r, "a message");
    if (!has_failure(ev))
        reader_fault(r, "a failure");
}

static unsigned known_same(unsigned version)
{
    return SAME_TEXTS | (version >= 5 ? SAME_PRIORITY : 0) | (version >= 6 ? SAME_TRACE : 0) |
           (version >= 7 ? HAS_CULPRIT : 0) | (version >= 8 ? HAS_FAILURE : 0);
}

/* The version from which on there are such events. */
static unsigned version_of(enum event e)
{
    if (e == EVENT_GROUP_REPRIORITIZE || e == EVENT_ARTIFACT || e == EVENT_PROGRESS)
        return 5;
    if (e == EVENT_REPRIORITIZE)
        return 4;
    return event_is_of_group(e) ? 3 : 1;
}

static void read_event(struct reader *r, unsigned version, int32_t *priority, struct job_event *ev)
{
    ev->number++;
    ev->event = (enum event)reader_byte(r, "an event", EVENT_COUNT - 1);
    unsigned flags = reader_byte(r, "flags", version >= 2 ? 255 : 127);
    unsigned same = reader_byte(r, "what is the same", known_same(version));
    ev->from = (enum status)(flags & FLAG_FROM);
    ev->removed = flags & FLAG_REMOVED;
    if (version < version_of(ev->event))
        reader_fault(r, "an event");
    if (!r->bad && (ev->from > STATUS_GONE || !lifecycle_next(ev->from, ev->event, &ev->to)))
        reader_fault(r, "a move");
    ev->id = read_next_id(r, ev->id);
    ev->at = read_later(r, "a time", ev->at);
    read_texts(r, same, ev);
    read_rest(r, flags, ev);
    read_kind(r, version, ev);
    read_priority(r, version, same, priority, ev);
    read_trace(r, version, same, ev);
    read_culprit(r, same, ev);
    read_failure(r, same, ev);
}

struct err eventlog_next(struct eventlog_reader *log, bool *more, struct job_event *ev)
{
    struct reader r = {.value = log->value, .pos = log->pos};
    instant began = log->last.at;
    *more = log->left > 0;
    if (!*more) {
        if (reader_left(&r) > 0)
            reader_fault(&r, "bytes after the last event");
        return r.bad ? broken(&r) : err_none();
    }
    read_event(&r, log->version, &log->priority, &log->last);
    if (log->left == log->count && log->last.at.ms != began.ms)
        reader_fault(&r, "the time of its first event");
    if (r.bad)
        return broken(&r);
    log->pos = r.pos;
    log->left--;
    *ev = log->last;
    return err_none();
}
