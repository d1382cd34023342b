/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/json.h"
#include "base/must.h"
#include "store/audit_record.h"
#include "store/eventlog.h"
#include "store/record.h"

const char *audit_wire(enum audit_kind k)
{
    static const char *const wires[] = {
#define AUDIT_WIRE(name, wire, meaning) wire,
        AUDIT_TABLE(AUDIT_WIRE)
#undef AUDIT_WIRE
    };
    must(k < AUDIT_KINDS);
    return wires[k];
}

const char *audit_meaning(enum audit_kind k)
{
    static const char *const meanings[] = {
#define AUDIT_MEANING(name, wire, meaning) (meaning),
        AUDIT_TABLE(AUDIT_MEANING)
#undef AUDIT_MEANING
    };
    must(k < AUDIT_KINDS);
    return meanings[k];
}

struct audit {
    struct store *store;
    audit_fn found;
    void *ctx;
    struct audit_counts *counts;
    struct buf scratch;
    bool readable;
    struct idmap leased; /* jobs of which a run goes on */
    uint64_t apart;      /* jobs that were set apart */
    struct {
        uint64_t number, before; /* expected of the next record; 0: none so far */
    } events;
    uint64_t history; /* number of the previous entry; 0: none so far */
};

static void tell(struct audit *a, enum audit_kind kind, struct id job, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static void tell(struct audit *a, enum audit_kind kind, struct id job, const char *fmt, ...)
{
    char what[320];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    a->counts->problems++;
    a->found(a->ctx, &(struct audit_problem){kind, job, what});
}

static const struct id NO_JOB = {0, 0};

static void tell_unreadable(struct audit *a, const struct err *e)
{
    a->readable = false;
    tell(a, AUDIT_UNREADABLE, NO_JOB, "%s", e->msg);
}

/* Reports a record that could not be decoded. */
static void tell_broken(struct audit *a, struct id job, const struct err *e)
{
    tell(a, e->code == ERR_VERSION ? AUDIT_NEWER : AUDIT_BROKEN, job, "%s", e->msg);
}

/* --- each record by itself --- */

static bool is_json(struct str payload)
{
    struct json_cursor c = json_open(payload);
    return json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK;
}

static void check_payload(struct audit *a, struct id id, struct str payload)
{
    if (!is_json(payload))
        tell(a, AUDIT_BAD_PAYLOAD, id, "its payload of %zu bytes is not JSON", payload.len);
}

static void check_name(struct audit *a, struct id id, struct str name, const char *what)
{
    struct err e = job_check_name(name, what);
    if (e.code != ERR_OK)
        tell(a, AUDIT_BAD_NAME, id, "%s", e.msg);
}

/* Each checks one record; true if the key is of its kind. */

static bool look_at_job(struct audit *a, struct str key, struct str value)
{
    struct id id;
    struct job job;
    bool apart;
    if (!record_key_is_job(key, &id))
        return false;
    struct err e = record_read_job(value, id, &job, &apart);
    if (e.code != ERR_OK) {
        tell_broken(a, id, &e);
        return true;
    }
    check_name(a, id, job.queue, "queue");
    check_name(a, id, job.type, "type");
    if (!apart)
        check_payload(a, id, job.payload);
    return true;
}

static bool look_at_payload(struct audit *a, struct str key, struct str value)
{
    struct id id;
    struct str payload;
    if (!record_key_is_payload(key, &id))
        return false;
    a->counts->payloads++;
    struct err e = record_read_payload(value, &payload);
    if (e.code != ERR_OK)
        tell_broken(a, id, &e);
    else
        check_payload(a, id, payload);
    return true;
}

static bool look_at_state(struct audit *a, struct str key, struct str value)
{
    struct id id;
    struct job_state state;
    if (!record_key_is_state(key, &id))
        return false;
    a->counts->states++;
    struct err e = record_read_state(value, &state);
    if (e.code != ERR_OK)
        tell_broken(a, id, &e);
    return true;
}

static bool look_at_run(struct audit *a, struct str key, struct str value)
{
    struct id id;
    uint32_t index;
    struct run run;
    if (!record_key_is_run(key, &id, &index))
        return false;
    a->counts->runs++;
    struct arena memory = {0};
    struct err e = record_read_run(value, &memory, &run);
    arena_fini(&memory);
    if (e.code != ERR_OK)
        tell_broken(a, id, &e);
    else if (run.index != index)
        tell(a, AUDIT_BROKEN, id, "under the key of run %u lies run %u", index, run.index);
    else if (run.outcome == OUTCOME_RUNNING || !instant_is_set(run.ended_at))
        tell(a, AUDIT_BROKEN, id, "run %u is stored, but has not ended", index);
    return true;
}

static bool look_at_note(struct audit *a, struct str key, struct str value)
{
    struct id id;
    enum note_kind kind;
    struct note note;
    if (!record_key_is_note(key, &id, &kind))
        return false;
    struct err e = record_read_note(value, &note);
    if (e.code != ERR_OK)
        tell_broken(a, id, &e);
    else if (kind != NOTE_PROGRESS && !is_json(note.text))
        tell(a, AUDIT_BROKEN, id, "its checkpoint or result of %zu bytes is not JSON",
             note.text.len);
    return true;
}

static void pass_take(void *ctx, struct take t)
{
    (void)ctx;
    (void)t;
}

static void pass_lease(void *ctx, const struct lease *l)
{
    (void)ctx;
    (void)l;
}

static bool look_at_apart(struct audit *a, struct str key, struct str value)
{
    struct id id;
    struct record_apart apart;
    if (!record_key_is_apart(key, &id))
        return false;
    a->apart++;
    struct err e = record_read_apart(value, &apart);
    if (e.code != ERR_OK)
        tell_broken(a, id, &e);
    else if (apart.table)
        tell(a, AUDIT_APART, id, "its %s was lost with %06llu.sst", record_apart_name(apart.part),
             (unsigned long long)apart.table);
    else
        tell(a, AUDIT_APART, id, "its %s is lost", record_apart_name(apart.part));
    return true;
}

static bool look_at_takes(struct audit *a, struct str key, struct str value)
{
    uint64_t seq;
    instant at;
    if (!record_key_is_takes(key, &seq))
        return false;
    a->counts->takes++;
    struct err e = record_is_leases(value) ? record_read_leases(value, pass_lease, NULL)
                                           : record_read_takes(value, &at, pass_take, NULL);
    if (e.code != ERR_OK)
        tell_broken(a, NO_JOB, &e);
    return true;
}

/* Those that say nothing of one job. */
static bool look_at_other(struct audit *a, struct str key, struct str value)
{
    struct err e;
    if (!audit_record_check(key, value, &e))
        return false;
    if (e.code != ERR_OK)
        tell_broken(a, NO_JOB, &e);
    return true;
}

static struct err read_events(struct str value, uint64_t first, struct eventlog_head *head)
{
    struct eventlog_reader r;
    struct job_event ev;
    bool more = true;
    TRY(eventlog_open(value, first, head, &r));
    while (more)
        TRY(eventlog_next(&r, &more, &ev));
    return err_none();
}

static bool look_at_events(struct audit *a, struct str key, struct str value)
{
    uint64_t first;
    struct eventlog_head head;
    if (!eventlog_key_is(key, &first))
        return false;
    struct err e = read_events(value, first, &head);
    if (e.code != ERR_OK) {
        tell_broken(a, NO_JOB, &e);
        a->events.number = 0;
        return true;
    }
    if (a->events.number && (a->events.number != first || a->events.before != head.before))
        tell(a, AUDIT_BAD_EVENTS, NO_JOB,
             "events from number %llu on follow those up to number %llu", (unsigned long long)first,
             (unsigned long long)a->events.number - 1);
    a->events.number = first + head.count;
    a->events.before = head.before + key.len + value.len;
    return true;
}

static bool look_at_history(struct audit *a, struct str key, struct str value)
{
    uint64_t number;
    struct history_entry entry;
    struct arena memory = {0};
    if (!record_key_is_history(key, &number))
        return false;
    struct err e = record_read_history(value, &memory, &entry);
    arena_fini(&memory);
    if (e.code != ERR_OK)
        tell_broken(a, NO_JOB, &e);
    else if (a->history && number != a->history + 1)
        tell(a, AUDIT_BROKEN, NO_JOB, "entry %llu of the failure history follows entry %llu",
             (unsigned long long)number, (unsigned long long)a->history);
    a->history = number;
    return true;
}

static bool look_at_meta(struct audit *a, struct str key, struct str value)
{
    struct record_key format = record_meta_key(RECORD_FORMAT_KEY);
    if (!str_eq(key, record_key_view(&format)))
        return key.len > 1 && key.at[0] == 'M';
    struct err e = record_check_format(value);
    if (e.code != ERR_OK)
        tell_broken(a, NO_JOB, &e);
    return true;
}

static void look_at(struct audit *a, struct str key, struct str value)
{
    static bool (*const looks[])(struct audit *, struct str, struct str) = {
        look_at_job,    look_at_payload, look_at_state, look_at_run,   look_at_note, look_at_takes,
        look_at_events, look_at_history, look_at_apart, look_at_other, look_at_meta,
    };
    a->counts->records++;
    a->counts->bytes += key.len + value.len;
    for (size_t i = 0; i < COUNT(looks); i++)
        if (looks[i](a, key, value))
            return;
    unsigned first = key.len ? (unsigned char)key.at[0] : 0;
    tell(a, AUDIT_UNKNOWN, NO_JOB, "a key of %zu bytes that begins with byte 0x%02x", key.len,
         first);
}

static void look_at_all(struct audit *a)
{
    struct store_cursor *c = store_cursor_new(a->store);
    store_cursor_seek(c, a->store, STR(""), false);
    struct str key, value;
    for (; store_cursor_at(c, a->store, &key, &value); store_cursor_step(c, a->store, false))
        look_at(a, key, value);
    struct err e = store_cursor_free(c, a->store);
    if (e.code != ERR_OK)
        tell_unreadable(a, &e);
}

/* --- how records fit together --- */

/* Walks the records of one kind, in the order of the jobs they belong to. */
struct side {
    struct store_cursor *cursor;
    bool (*is)(struct str key, struct id *id, uint32_t *run);
    const char *what;
};

static bool is_payload(struct str key, struct id *id, uint32_t *run)
{
    (void)run;
    return record_key_is_payload(key, id);
}

static bool is_state(struct str key, struct id *id, uint32_t *run)
{
    (void)run;
    return record_key_is_state(key, id);
}

static bool is_note(struct str key, struct id *id, uint32_t *kind)
{
    enum note_kind k = NOTE_PROGRESS;
    bool is = record_key_is_note(key, id, &k);
    *kind = k;
    return is;
}

static struct side side_open(struct audit *a, struct record_key first, const char *what,
                             bool (*is)(struct str, struct id *, uint32_t *))
{
    struct side s = {store_cursor_new(a->store), is, what};
    store_cursor_seek(s.cursor, a->store, record_key_view(&first), false);
    return s;
}

static void side_close(struct audit *a, struct side *s)
{
    struct err e = store_cursor_free(s->cursor, a->store);
    if (e.code != ERR_OK && a->readable)
        tell_unreadable(a, &e);
}

static bool side_at(struct audit *a, struct side *s, struct id *id, uint32_t *run,
                    struct str *value)
{
    struct str key;
    return store_cursor_at(s->cursor, a->store, &key, value) && s->is(key, id, run);
}

static void side_step(struct audit *a, struct side *s)
{
    store_cursor_step(s->cursor, a->store, false);
}

/* Set apart, which is reported elsewhere. */
static bool is_apart(struct audit *a, struct id id)
{
    bool found;
    struct record_key key = record_apart_key(id);
    if (!a->apart)
        return false;
    return store_get(a->store, record_key_view(&key), &found, &a->scratch).code == ERR_OK && found;
}

/* Moves to the first record of the job `to`, or past its place; true if there is one. The records
 * passed belong to no job. If `to` is NULL, moves to the end. */
static bool side_find(struct audit *a, struct side *s, const struct id *to, struct str *value)
{
    struct id id;
    uint32_t run;
    for (; side_at(a, s, &id, &run, value); side_step(a, s)) {
        int order = to ? id_cmp(id, *to) : -1;
        if (order >= 0)
            return order == 0;
        if (!is_apart(a, id))
            tell(a, AUDIT_ORPHAN, id, "there is a %s record, but no such job", s->what);
    }
    return false;
}

struct sides {
    struct side jobs, payloads, states, runs, notes;
};

static void match_payload(struct audit *a, struct side *payloads, struct id id, bool apart)
{
    struct str value;
    bool there = side_find(a, payloads, &id, &value);
    if (apart && !there)
        tell(a, AUDIT_PAYLOAD_MISSING, id, "its payload is stored apart, but is missing");
    if (!apart && there)
        tell(a, AUDIT_ORPHAN, id, "it has its payload twice");
    if (there)
        side_step(a, payloads);
}

/* The fault of a state, or NULL. */
static const char *fault_of(const struct job_state *s)
{
    switch (s->status) {
    case STATUS_SCHEDULED:
    case STATUS_READY:
        if (!instant_is_set(s->ready_at))
            return "it waits, but has no time";
        break;
    case STATUS_IN_FLIGHT:
        if (s->token == 0 || !instant_is_set(s->lease_end) || s->runs == 0)
            return "it is claimed, but has no lease";
        break;
    case STATUS_COMPLETED:
        if (!instant_is_set(s->completed_at) || !instant_is_set(s->purge_at))
            return "it is completed, but it does not say when or until when it is kept";
        break;
    case STATUS_DEAD:
        if (s->resolution == RESOLUTION_NONE || !instant_is_set(s->purge_at))
            return "it is dead, but it does not say why or until when it is kept";
        break;
    case STATUS_BLOCKED:
        if (s->extras.waits_for.len == 0 || s->extras.waits_for.len % DEPEND_ID_LEN)
            return "it is blocked, but waits for no job";
        break;
    case STATUS_COUNT:
        return "it has a status that this version does not use";
    }
    return s->attempts > s->runs ? "it has more failures than runs" : NULL;
}

static uint32_t runs_ended(const struct job_state *s)
{
    return s->status == STATUS_IN_FLIGHT && s->runs ? s->runs - 1 : s->runs;
}

static void match_runs(struct audit *a, struct side *runs, struct id id,
                       const struct job_state *state)
{
    struct str value;
    struct id at;
    uint32_t run, next = 0, ended = runs_ended(state);
    bool there = side_find(a, runs, &id, &value);
    while (there) {
        if (!side_at(a, runs, &at, &run, &value) || id_cmp(at, id) != 0)
            break;
        if (run >= ended)
            tell(a, AUDIT_RUN_UNEXPECTED, id, "run %u is stored, but only %u have ended", run,
                 ended);
        else if (run > next)
            tell(a, AUDIT_RUN_MISSING, id, "of %u runs that have ended, %u to %u are missing",
                 ended, next, run - 1);
        next = run + 1;
        side_step(a, runs);
    }
    if (next < ended)
        tell(a, AUDIT_RUN_MISSING, id, "of %u runs that have ended, %u to %u are missing", ended,
             next, ended - 1);
}

/* The state says which notes exist. */
static void match_notes(struct audit *a, struct side *notes, struct id id, uint64_t said)
{
    struct str value;
    struct id at;
    uint32_t kind;
    uint64_t found = 0;
    bool there = side_find(a, notes, &id, &value);
    for (; there && side_at(a, notes, &at, &kind, &value) && id_eq(at, id); side_step(a, notes))
        found |= NOTE_BIT(kind);
    if (found & ~said)
        tell(a, AUDIT_ORPHAN, id, "it has a note that its state does not mention");
    if (said & ~found)
        tell(a, AUDIT_BAD_STATE, id, "a note that its state mentions is missing");
}

/* The job or its state is corrupt, which was reported: the rest of its records cannot be judged. */
static void pass_sides(struct audit *a, struct sides *s, struct id id)
{
    struct side *all[] = {&s->payloads, &s->states, &s->runs, &s->notes};
    for (size_t i = 0; i < COUNT(all); i++) {
        struct str value;
        while (side_find(a, all[i], &id, &value))
            side_step(a, all[i]);
    }
}

static void match_job(struct audit *a, struct sides *s, struct id id, struct str value)
{
    struct job job;
    bool apart;
    if (is_apart(a, id) || record_read_job(value, id, &job, &apart).code != ERR_OK) {
        pass_sides(a, s, id);
        return;
    }
    match_payload(a, &s->payloads, id, apart);
    bool readable = true, has_state = side_find(a, &s->states, &id, &value);
    if (has_state) {
        readable = record_read_state(value, &job.state).code == ERR_OK;
        side_step(a, &s->states);
    } else if (job.state.status != STATUS_READY && job.state.status != STATUS_SCHEDULED &&
               job.state.status != STATUS_BLOCKED) {
        tell(a, AUDIT_BAD_STATE, id, "it was enqueued as %s",
             lifecycle_status_name(job.state.status));
    }
    if (!readable) {
        pass_sides(a, s, id);
        return;
    }
    const char *fault = fault_of(&job.state);
    if (fault)
        tell(a, AUDIT_BAD_STATE, id, "%s", fault);
    a->counts->jobs[job.state.status]++;
    match_runs(a, &s->runs, id, &job.state);
    match_notes(a, &s->notes, id, job.state.extras.notes);
}

static bool is_job(struct str key, struct id *id, uint32_t *run)
{
    (void)run;
    return record_key_is_job(key, id);
}

static void match_all(struct audit *a)
{
    struct id none = {0};
    struct sides s = {
        .jobs = side_open(a, record_job_key(none), "job", is_job),
        .payloads = side_open(a, record_payload_key(none), "payload", is_payload),
        .states = side_open(a, record_state_key(none), "state", is_state),
        .runs = side_open(a, record_run_key(none, 0), "run", record_key_is_run),
        .notes = side_open(a, record_note_key(none, NOTE_PROGRESS), "note", is_note),
    };
    struct id id;
    uint32_t run;
    struct str value;
    for (; side_at(a, &s.jobs, &id, &run, &value); side_step(a, &s.jobs))
        match_job(a, &s, id, value);
    struct side *all[] = {&s.jobs, &s.payloads, &s.states, &s.runs, &s.notes};
    for (size_t i = 0; i < COUNT(all); i++) {
        if (i > 0)
            side_find(a, all[i], NULL, &value);
        side_close(a, all[i]);
    }
}

/* --- jobs that streams held, and those with a lease --- */

/* The newest state of a job; false if it is gone or cannot be read, which was reported. */
static bool state_now(struct audit *a, struct id id, struct job_state *state)
{
    struct job job;
    bool found, apart;
    struct record_key key = record_job_key(id);
    struct err e = store_get(a->store, record_key_view(&key), &found, &a->scratch);
    if (e.code != ERR_OK || !found ||
        record_read_job(buf_view(&a->scratch), id, &job, &apart).code != ERR_OK)
        return false;
    *state = job.state;
    key = record_state_key(id);
    e = store_get(a->store, record_key_view(&key), &found, &a->scratch);
    if (e.code != ERR_OK)
        return false;
    return !found || record_read_state(buf_view(&a->scratch), state).code == ERR_OK;
}

/* Whether that run goes on, of a job whose state is from before it. A note may be about a job that
 * is gone, or a run that has ended since. */
static bool match_run(struct audit *a, struct id id, uint32_t run, struct job_state *s)
{
    if (!state_now(a, id, s) || run < s->runs)
        return false;
    if (run > s->runs)
        tell(a, AUDIT_BAD_TAKE, id, "run %u was handed out, but it has only had %u", run, s->runs);
    else if (s->status == STATUS_IN_FLIGHT || lifecycle_is_terminal(s->status))
        tell(a, AUDIT_BAD_TAKE, id, "run %u was handed out, but it is %s", run,
             lifecycle_status_name(s->status));
    else
        return true;
    return false;
}

static void match_take(void *ctx, struct take t)
{
    struct audit *a = ctx;
    struct job_state s;
    a->counts->streamed += match_run(a, t.id, t.run, &s);
}

/* A lease that was renewed may still be in its older record, too. */
static void match_lease(void *ctx, const struct lease *l)
{
    struct audit *a = ctx;
    struct job_state s;
    if (idmap_get(&a->leased, l->id) || !match_run(a, l->id, l->run, &s))
        return;
    idmap_put(&a->leased, l->id, a);
    a->counts->jobs[s.status]--;
    a->counts->jobs[STATUS_IN_FLIGHT]++;
}

static void match_takes(struct audit *a)
{
    struct store_cursor *c = store_cursor_new(a->store);
    struct record_key first = record_takes_key(0);
    store_cursor_seek(c, a->store, record_key_view(&first), false);
    struct str key, value;
    uint64_t seq;
    instant at;
    for (; store_cursor_at(c, a->store, &key, &value) && record_key_is_takes(key, &seq);
         store_cursor_step(c, a->store, false)) {
        struct err told = record_is_leases(value) ? record_read_leases(value, match_lease, a)
                                                  : record_read_takes(value, &at, match_take, a);
        (void)told;
    }
    struct err e = store_cursor_free(c, a->store);
    if (e.code != ERR_OK)
        tell_unreadable(a, &e);
}

void audit_run(struct store *s, audit_fn found, void *ctx, struct audit_counts *counts)
{
    *counts = (struct audit_counts){0};
    struct audit a = {.store = s, .found = found, .ctx = ctx, .counts = counts, .readable = true};
    look_at_all(&a);
    if (a.readable)
        match_all(&a);
    if (a.readable)
        match_takes(&a);
    buf_fini(&a.scratch);
    idmap_fini(&a.leased);
}
