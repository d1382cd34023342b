/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"

#include "core/depend.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "trace.h"

void ledger_init(struct ledger *l, const struct engine_settings *settings, bool sync)
{
    *l = (struct ledger){.settings = *settings, .sync = sync, .seq = 1, .lost_at = INSTANT_NONE};
}

void ledger_fini(struct ledger *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        free((char *)(uintptr_t)m->payload.at);
        free(m->items);
        free(m->runs);
        free(m->ends);
        free(m);
    }
    free(l->jobs);
    free(l->tokens);
    free(l->boots);
    ledger_limits_free(l);
    ledger_budgets_free(l);
    free(l->settings_seen);
    idmap_fini(&l->by_id);
}

/* --- jobs --- */

struct mjob *ledger_add(struct ledger *l, const struct enqueue *spec, unsigned queue, unsigned type,
                        uint64_t group, instant now)
{
    struct mjob *m = ALLOC(struct mjob);
    m->serial = l->count;
    m->group = group;
    m->queue = queue;
    m->type = type;
    m->priority = m->first_priority = spec->priority;
    m->queues_asked = 1u << queue;
    m->asked_at = now;
    m->ready_at = instant_is_set(spec->ready_at) ? spec->ready_at : now;
    m->deadline = spec->options.deadline;
    m->retain_until = spec->options.retain_until;
    m->pending_runs = spec->options.pending_runs;
    m->hold = spec->options.hold;
    m->no_policy = (unsigned)spec->options.when_no_policy;
    m->retry_limit = spec->retry_limit;
    m->backoff = spec->backoff;
    m->completed_retention = spec->completed_retention;
    m->dead_retention = spec->dead_retention;
    m->payload = (struct str){alloc_text(spec->payload.at, spec->payload.len), spec->payload.len};
    m->key = spec->unique_while ? (unsigned)(spec->unique_key.at[1] - '0') : 0;
    m->unique_while = spec->unique_while;
    m->alias = spec->options.alias.len ? (unsigned)(spec->options.alias.at[1] - '0') : 0;
    const struct str *in = &spec->options.group;
    m->member_of = in->len ? (unsigned)(in->at[1] - '0') : 0;
    const struct str *ckey = &spec->options.concurrency_key;
    m->budget = ledger_budget_kind(spec->options.budgets);
    m->ckey = ckey->len ? (unsigned)(ckey->at[1] - '0') : 0;
    m->adds_policy = spec->options.retry_policies.len
                         ? (unsigned)(spec->options.retry_policies.at[1] - '0') + 1
                         : 0;
    m->gang = spec->options.gang.len ? (unsigned)strtoul(spec->options.gang.at + 1, NULL, 10) : 0;
    m->patched |= m->gang ? PATCH_READY_AT : 0; /* it also waits for the retries of others */
    m->batch = spec->batch.key.len ? (unsigned)(spec->batch.key.at[1] - '0') : 0;
    m->blind_renewal = m->terminated_at = INSTANT_NONE;
    m->exists = MAYBE;
    ALLOC_GROW(l->jobs, l->count, l->cap, 64);
    l->jobs[l->count++] = m;
    ledger_bulk_join(l, m);
    return m;
}

struct mjob *ledger_find(const struct ledger *l, struct id id)
{
    return idmap_get(&l->by_id, id);
}

static int64_t limit_of(const struct ledger *l, const struct mjob *m)
{
    return m->retry_limit == RETRY_LIMIT_DEFAULT ? l->settings.retry.limit : m->retry_limit;
}

bool ledger_limit_is_open(const struct ledger *l, const struct mjob *m)
{
    return l->has_policies || l->settings.lost_worker_limit || m->patched & PATCH_RETRY_LIMIT;
}

static span retention_of(const struct ledger *l, const struct mjob *m, enum status s)
{
    span own = s == STATUS_DEAD ? m->dead_retention : m->completed_retention;
    if (own.ms >= 0)
        return own;
    return s == STATUS_DEAD ? l->settings.dead_retention : l->settings.completed_retention;
}

/* The end of the retention of a job that ended at `at`. */
static instant purge_of(const struct ledger *l, const struct mjob *m, enum status s, instant at)
{
    if (m->retain_until.ms)
        return instant_max(m->retain_until, at);
    return instant_add(at, retention_of(l, m, s));
}

static void bind(struct ledger *l, struct mjob *m, struct id id)
{
    PROMISE(!id_is_none(id), "VALUE", "job %lu has no id", m->serial);
    PROMISE(id_is_none(m->id), "VALUE", "job %lu is there under two ids", m->serial);
    PROMISE(!ledger_find(l, id), "VALUE", "job %lu has the id of another job", m->serial);
    m->id = id;
    idmap_put(&l->by_id, id, m);
}

/* An enqueue whose answer was lost is recognised by its payload, which begins with its number. */
static struct mjob *find_by_payload(struct ledger *l, const struct job *job)
{
    unsigned long serial;
    char text[32] = {0};
    size_t n = job->payload.len < sizeof text - 1 ? job->payload.len : sizeof text - 1;
    memcpy(text, job->payload.at, n);
    unsigned entry;
    if (sscanf(text, "{\"c\":%u}", &entry) == 1) {
        struct mjob *tick = ledger_add_tick(l, entry, job);
        bind(l, tick, job->id);
        return tick;
    }
    PROMISE(sscanf(text, "{\"n\":%lu,", &serial) == 1 && serial < l->count, "VALUE",
            "a job that nobody enqueued");
    struct mjob *m = l->jobs[serial];
    bind(l, m, job->id);
    return m;
}

static void check_values(struct ledger *l, struct mjob *m, const struct job *job, bool with_payload,
                         instant now)
{
    bool queue = m->loose & PATCH_QUEUE || job->queue.at[1] == (char)('0' + m->queue);
    PROMISE(job->queue.len == 2 && queue, "VALUE", "job %lu has another queue", m->serial);
    PROMISE(job->type.len == 2 && job->type.at[1] == (char)('0' + m->type), "VALUE",
            "job %lu has another type", m->serial);
    PROMISE(m->loose & PATCH_PRIORITY || job->state.priority == m->priority, "VALUE",
            "job %lu has another priority", m->serial);
    PROMISE((m->loose & PATCH_RETRY_LIMIT || job->retry_limit == m->retry_limit) &&
                job->backoff.shape == m->backoff.shape &&
                job->completed_retention.ms == m->completed_retention.ms &&
                job->dead_retention.ms == m->dead_retention.ms,
            "VALUE", "job %lu has other settings", m->serial);
    bool same_key = job->unique_key.len == (m->key ? 2 : 0) &&
                    (!m->key || job->unique_key.at[1] == (char)('0' + m->key));
    PROMISE(same_key && job->unique_while == m->unique_while, "UNIQUE", "job %lu has another key",
            m->serial);
    PROMISE(ledger_budget_kind(job->options.budgets) == m->budget, "BUDGET",
            "job %lu draws on other budgets", m->serial);
    const struct str *alias = &job->options.alias;
    PROMISE(alias->len == (m->alias ? 2 : 0) &&
                (!m->alias || alias->at[1] == (char)('0' + m->alias)),
            "ALIAS", "job %lu has another alias", m->serial);
    if (with_payload && m->ticks)
        ledger_ticks_see(m, job->payload, now);
    else if (with_payload && m->batch)
        ledger_fold_see(l, m, job->payload);
    else
        PROMISE(!with_payload || str_eq(job->payload, m->payload), "VALUE",
                "job %lu has another payload", m->serial);
}

struct mjob *ledger_see(struct ledger *l, const struct job *job, bool with_payload, instant now)
{
    struct mjob *m = ledger_find(l, job->id);
    PROMISE(m || with_payload, "VALUE", "an answer about a job that nobody enqueued");
    if (!m)
        m = find_by_payload(l, job);
    check_values(l, m, job, with_payload, now);
    PROMISE(!m->gone_seq, "I2", "job %lu was removed and is there again", m->serial);
    PROMISE(!m->never, "I2", "job %lu was not stored and is there now", m->serial);
    PROMISE(m->asked_at.ms <= now.ms, "VALUE", "job %lu is from the future", m->serial);
    if (m->exists != YES) {
        m->exists = YES;
        m->seq = l->seq++;
    }
    return m;
}

void ledger_acked(struct ledger *l, struct mjob *m, const struct job *job, instant now)
{
    /* A list or a taker may have met it before the answer arrived. */
    if (!id_eq(m->id, job->id))
        bind(l, m, job->id);
    check_values(l, m, job, false, now);
    PROMISE(job->state.status != STATUS_BLOCKED || m->dep_count || m->hold, "DEPEND",
            "job %lu is blocked by nothing", m->serial);
    PROMISE(m->late || job->state.status ==
                           (m->ready_at.ms <= m->asked_at.ms ? STATUS_READY : STATUS_SCHEDULED),
            "VALUE", "job %lu was enqueued as %s", m->serial,
            lifecycle_status_name(job->state.status));
    PROMISE(m->late || job->state.ready_at.ms == m->ready_at.ms, "READY_AT",
            "job %lu has another ready_at", m->serial);
    m->shut = m->batch && job->state.status == STATUS_SCHEDULED;
    PROMISE(now.ms >= m->asked_at.ms, "REPLY", "job %lu was answered before it was asked for",
            m->serial);
    m->exists = YES;
    m->seq = l->seq++;
}

/* --- what may have happened to a job --- */

static const struct mend *end_ok(const struct mjob *m, uint64_t token)
{
    for (size_t i = 0; i < m->end_count; i++)
        if (m->ends[i].token == token && m->ends[i].how == OK)
            return &m->ends[i];
    return NULL;
}

static bool may_have_expired(const struct mjob *m, const struct mrun *r, instant now)
{
    return !r->stream && r->lease_min.ms <= now.ms && !end_ok(m, r->token);
}

static bool may_have_overrun(const struct mjob *m, instant now)
{
    return m->deadline.ms && m->deadline.ms <= now.ms;
}

bool ledger_may_wait_out(const struct ledger *l, const struct mjob *m)
{
    return (l->settings.hold_max.ms && m->hold && !m->deadline.ms) ||
           (l->settings.gang_wait_max.ms && m->gang);
}

/* Runs that failed, or whose lease may be over. */
static uint64_t failures_of(const struct mjob *m, instant now)
{
    uint64_t failures = m->ghosts + m->failures;
    for (size_t i = 0; i < m->end_count; i++) {
        const struct mend *e = &m->ends[i];
        failures += e->kind == END_FAIL && e->how != REFUSED && !e->old;
    }
    for (size_t i = 0; i < m->run_count; i++)
        failures += m->runs[i].index >= m->first_run && may_have_expired(m, &m->runs[i], now);
    return failures;
}

/* A gang has one account. */
static uint64_t failures_that_count(const struct ledger *l, const struct mjob *m, instant now)
{
    uint64_t failures = l->claims;
    for (size_t i = 0; m->gang && i < l->count; i++)
        failures +=
            l->jobs[i] != m && l->jobs[i]->gang == m->gang ? failures_of(l->jobs[i], now) : 0;
    return failures + failures_of(m, now);
}

static bool may_end_by_itself(const struct ledger *l, const struct mjob *m, enum status s,
                              instant now)
{
    if (ledger_is_foggy(m))
        return true;
    if (m->ended_seq)
        return m->ended == s;
    if (s == STATUS_DEAD && may_have_overrun(m, now))
        return true;
    for (size_t i = 0; i < m->end_count; i++) {
        const struct mend *e = &m->ends[i];
        if (e->how == REFUSED || e->old)
            continue;
        if (s == STATUS_DEAD && e->kind == END_CANCEL)
            return true;
        if (s == STATUS_COMPLETED && e->kind == END_SUCCEED)
            return true;
        bool final = e->kill || ledger_is_final(e->exception) ||
                     (m->no_policy == RETRY_FALLBACK_FAIL && !e->exception);
        if (s == STATUS_DEAD && e->kind == END_FAIL && final)
            return true;
    }
    if (s != STATUS_DEAD)
        return false;
    /* Streams may have lost it before they were told that they had it. */
    if (l->settings.lost_worker_limit || ledger_may_wait_out(l, m) ||
        (m->dep_count && m->depend_death != DEPEND_RUN))
        return true;
    uint64_t failures = failures_that_count(l, m, now);
    return ledger_limit_is_open(l, m) ? failures > 0 : failures > (uint64_t)limit_of(l, m);
}

bool ledger_may_fall(const struct ledger *l, const struct mjob *m, instant now)
{
    for (size_t i = 0; m->gang && i < l->count; i++) {
        const struct mjob *o = l->jobs[i];
        if (o == m || o->gang != m->gang)
            continue;
        if (o->rerun_ever ||
            may_end_by_itself(l, o, STATUS_DEAD, now)) /* it was dead before that */
            return true;
    }
    return false;
}

bool ledger_may_end(const struct ledger *l, const struct mjob *m, enum status s, instant now)
{
    if (may_end_by_itself(l, m, s, now))
        return true;
    return s == STATUS_DEAD && !m->ended_seq && ledger_may_fall(l, m, now);
}

/* Whether it may be deleted before its time once it has completed: only the default retention keeps
 * it, and there may be enough newer ones. One that holds a key or an alias as long as it exists may
 * not. */
static bool may_be_surplus(const struct ledger *l, const struct mjob *m)
{
    bool holds = m->alias || (m->key && m->unique_while == UNIQUE_EXISTS);
    return m->completed_retention.ms < 0 && !m->retain_until.ms && !holds &&
           l->settings.completed_kept_max;
}

/* Whether its retention may be over by now, if it ended at `at`. */
static bool is_purged(const struct ledger *l, const struct mjob *m, enum status s, instant at,
                      instant now)
{
    return (s == STATUS_COMPLETED && may_be_surplus(l, m)) || purge_of(l, m, s, at).ms <= now.ms;
}

/* Whether the retention of a terminal status may be over that nobody was told of. */
static bool may_be_purged(const struct ledger *l, const struct mjob *m, instant now)
{
    bool may_be_dead = ledger_may_end(l, m, STATUS_DEAD, now);
    for (size_t i = 0; i < m->end_count; i++) {
        const struct mend *e = &m->ends[i];
        if (e->how == REFUSED || e->old)
            continue;
        if (e->kind == END_SUCCEED && is_purged(l, m, STATUS_COMPLETED, e->at, now))
            return true;
        bool dead = e->kind == END_CANCEL || (e->kind == END_FAIL && may_be_dead);
        if (dead && is_purged(l, m, STATUS_DEAD, e->at, now))
            return true;
    }
    for (size_t i = 0; may_be_dead && i < m->run_count; i++)
        if (may_have_expired(m, &m->runs[i], now) &&
            is_purged(l, m, STATUS_DEAD, m->runs[i].lease_min, now))
            return true;
    if (may_have_overrun(m, now) && is_purged(l, m, STATUS_DEAD, m->deadline, now))
        return true;
    bool unseen = m->ghosts || l->claims || l->settings.lost_worker_limit || m->dep_count ||
                  ledger_may_wait_out(l, m);
    return may_be_dead && (unseen || m->gang) && is_purged(l, m, STATUS_DEAD, m->asked_at, now);
}

enum certainty ledger_there(const struct ledger *l, const struct mjob *m, instant now)
{
    if (m->gone_seq || m->never)
        return NO;
    if (ledger_is_foggy(m))
        return MAYBE;
    if (m->ended_seq && m->purge_at.ms <= now.ms)
        return m->awaited && m->ended == STATUS_DEAD ? MAYBE : NO;
    if (m->exists != YES || m->may_vanish)
        return MAYBE;
    return !m->ended_seq && may_be_purged(l, m, now) ? MAYBE : YES;
}

void ledger_ended(struct ledger *l, struct mjob *m, enum status s, instant at)
{
    if (ledger_is_foggy(m))
        return;
    PROMISE(!m->ended_seq || m->ended == s, "I4", "job %lu ended as %s and now as %s", m->serial,
            lifecycle_status_name(m->ended), lifecycle_status_name(s));
    m->may_vanish |= s == STATUS_COMPLETED && may_be_surplus(l, m);
    if (m->ended_seq)
        return;
    m->ended = s;
    m->ended_seq = l->seq++;
    m->purge_at = purge_of(l, m, s, at);
}

void ledger_gone(struct ledger *l, struct mjob *m)
{
    if (!m->gone_seq)
        m->gone_seq = l->seq++;
}

/* --- runs --- */

struct mrun *ledger_run(const struct mjob *m, uint64_t token)
{
    for (size_t i = 0; i < m->run_count; i++)
        if (m->runs[i].token == token)
            return &m->runs[i];
    return NULL;
}

enum certainty ledger_live(const struct mjob *m, const struct mrun *r, instant now)
{
    if (m->gone_seq || m->never || r->over_seq || r->over_for_good)
        return NO;
    if (m->ended_seq && !ledger_is_foggy(m))
        return NO;
    if (ledger_is_foggy(m) || r->doubt || r->end_asked || m->may_vanish || m->exists != YES)
        return MAYBE;
    if (m->gang) /* another member's failure may have ended it */
        return MAYBE;
    if (may_have_overrun(m, now))
        return MAYBE;
    return !r->stream && r->lease_min.ms <= now.ms ? MAYBE : YES;
}

static void note_token(struct ledger *l, uint64_t token)
{
    PROMISE(token != 0, "I3", "a run without a token");
    size_t lo = 0, hi = l->token_count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (l->tokens[mid] < token)
            lo = mid + 1;
        else
            hi = mid;
    }
    PROMISE(lo == l->token_count || l->tokens[lo] != token, "I3", "a token was given twice");
    ALLOC_GROW(l->tokens, l->token_count, l->token_cap, 256);
    memmove(l->tokens + lo + 1, l->tokens + lo, (l->token_count - lo) * sizeof *l->tokens);
    l->tokens[lo] = token;
    l->token_count++;
}

/* A new run means that the earlier ones are over. */
static void end_earlier_runs(struct ledger *l, struct mjob *m, const struct handout *h, instant at)
{
    for (size_t i = 0; i < m->run_count; i++) {
        struct mrun *r = &m->runs[i];
        if (r->doubt && r->index >= h->run) {
            r->over_for_good = true;
            continue;
        }
        PROMISE(r->index < h->run, "I3", "job %lu: run %u was handed out after run %u", m->serial,
                h->run, r->index);
        PROMISE(ledger_live(m, r, at) != YES, "I3",
                "job %lu: run %u was handed out while run %u is live", m->serial, h->run, r->index);
        if (!r->over_seq)
            r->over_seq = l->seq;
    }
}

static bool was_told_when(const struct mjob *m)
{
    for (size_t i = 0; i < m->end_count; i++)
        if (m->ends[i].kind == END_FAIL && m->ends[i].how != REFUSED &&
            instant_is_set(m->ends[i].retry_at))
            return true;
    return false;
}

static void check_handout(const struct ledger *l, const struct mjob *m, const struct handout *h,
                          const struct mstream *s, span lease, instant now)
{
    const struct job_state *st = &h->job.state;
    ledger_depend_handed(l, m, now);
    PROMISE(!m->ended_seq || ledger_is_foggy(m), "I4", "job %lu was handed out though it is %s",
            m->serial, lifecycle_status_name(m->ended));
    PROMISE(st->status == STATUS_IN_FLIGHT && st->runs == h->run + 1, "I3",
            "job %lu was handed out in a wrong state", m->serial);
    bool patched = m->patched & PATCH_READY_AT;
    bool in_time = m->rerun_ever || patched || st->dequeued_at.ms >= m->ready_at.ms;
    /* A claim that is sent again tells what a patch has made of the job since it was taken. */
    in_time &= (patched && !s) || st->dequeued_at.ms >= st->ready_at.ms;
    PROMISE(st->dequeued_at.ms <= now.ms && in_time, "READY_AT",
            "job %lu was handed out before its time", m->serial);
    PROMISE(st->forgiven == m->forgiven || ledger_is_foggy(m), "RERUN",
            "job %lu: %u attempts are forgiven", m->serial, st->forgiven);
    /* Of a gang the limit of the member counts that failed. */
    PROMISE(st->attempts - st->forgiven <= (uint64_t)limit_of(l, m) || was_told_when(m) ||
                ledger_limit_is_open(l, m) || m->gang,
            "RETRY", "job %lu was tried again after %u failures", m->serial, st->attempts);
    if (s)
        PROMISE(!instant_is_set(h->lease_end), "LEASE", "job %lu of a stream has a lease",
                m->serial);
    else
        PROMISE(h->lease_end.ms == st->dequeued_at.ms + lease.ms, "LEASE",
                "job %lu has another lease than was asked for", m->serial);
    PROMISE(!s || !s->queues || s->queues >> (h->job.queue.at[1] - '0') & 1, "ORDER",
            "job %lu is not of the stream's queues", m->serial);
}

void ledger_handed(struct ledger *l, const struct handout *h, struct mstream *s, span lease,
                   instant now)
{
    struct mjob *m = ledger_see(l, &h->job, true, now);
    note_token(l, h->token);
    check_handout(l, m, h, s, lease, now);
    end_earlier_runs(l, m, h, h->job.state.dequeued_at);
    ALLOC_GROW(m->runs, m->run_count, m->run_cap, 4);
    struct mrun *r = &m->runs[m->run_count++];
    *r = (struct mrun){.index = h->run,
                       .token = h->token,
                       .taken_at = h->job.state.dequeued_at,
                       .lease_end = h->lease_end,
                       .lease_min = h->lease_end,
                       .stream = s,
                       .seq = l->seq++};
    ledger_fold_whole(l, m, h->job.payload);
    ledger_ticks_whole(m, h->job.payload, now);
    m->final_seq = m->final_seq ? m->final_seq : r->seq;
    /* A report that names no run may have ended this one before it was known. */
    for (size_t i = 0; i < m->end_count; i++)
        if (m->ends[i].token == 0 && m->ends[i].how != REFUSED &&
            (m->ends[i].at.ms >= r->taken_at.ms || (m->ends[i].later && m->ends[i].how == ASKED)))
            r->end_asked = true;
    if (!s && m->blind_renewal.ms >= r->taken_at.ms)
        r->lease_min = r->taken_at;
    ledger_budget_handed(l, m, r->taken_at, now);
    ledger_limit_handed(l, m, (unsigned)(h->job.queue.at[1] - '0'), r->taken_at, now);
    PROMISE(!s || ledger_held(l, s, now) <= s->prefetch, "PREFETCH",
            "stream %lu holds %u jobs of %u", s->serial, ledger_held(l, s, now), s->prefetch);
}

uint32_t ledger_held(const struct ledger *l, const struct mstream *s, instant now)
{
    uint32_t held = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (m->run_count == 0)
            continue;
        const struct mrun *r = &m->runs[m->run_count - 1];
        held += r->stream == s && ledger_live(m, r, now) == YES;
    }
    return held;
}

uint32_t ledger_holds(const struct ledger *l, const struct mstream *s)
{
    uint32_t holds = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        holds += m->seen && m->status == STATUS_IN_FLIGHT && m->run_count &&
                 m->runs[m->run_count - 1].stream == s;
    }
    return holds;
}

void ledger_stream_over(struct ledger *l, const struct mstream *s)
{
    for (size_t i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->jobs[i]->run_count; k++)
            if (l->jobs[i]->runs[k].stream == s)
                l->jobs[i]->runs[k].over_for_good = true;
}

/* --- reports --- */

struct mend *ledger_ask_end(struct mjob *m, enum end_kind kind, uint64_t token, instant now)
{
    ALLOC_GROW(m->ends, m->end_count, m->end_cap, 4);
    struct mend *e = &m->ends[m->end_count++];
    *e = (struct mend){.kind = kind, .token = token, .at = now, .retry_at = INSTANT_NONE};
    for (size_t i = 0; i < m->run_count; i++)
        if (token == 0 || m->runs[i].token == token)
            m->runs[i].end_asked = true;
    return e;
}

enum outcome ledger_outcome(const struct mend *e)
{
    static const enum outcome outcomes[] = {[END_SUCCEED] = OUTCOME_COMPLETED,
                                            [END_FAIL] = OUTCOME_FAILED,
                                            [END_RELEASE] = OUTCOME_RETURNED,
                                            [END_CANCEL] = OUTCOME_CANCELED};
    return e->exception ? e->exception : outcomes[e->kind];
}

bool ledger_is_final(enum outcome o)
{
    return o == OUTCOME_MALFORMED_PAYLOAD || o == OUTCOME_RESOURCE_UNAVAILABLE ||
           o == OUTCOME_INTERNAL_ERROR || o == OUTCOME_SUPERSEDED;
}

void ledger_end_acked(struct ledger *l, struct mjob *m, size_t end)
{
    struct mend *e = &m->ends[end];
    const struct mend *other = e->token ? end_ok(m, e->token) : NULL;
    PROMISE(!other, "I3", "job %lu: two reports of one run were accepted", m->serial);
    e->how = OK;
    e->seq = l->seq++;
    struct mrun *r = e->token ? ledger_run(m, e->token) : NULL;
    if (r && !r->over_seq)
        r->over_seq = e->seq;
    if (e->kind == END_SUCCEED)
        ledger_ended(l, m, STATUS_COMPLETED, e->at);
}

void ledger_end_refused(struct mjob *m, size_t end, bool certain)
{
    m->ends[end].how = certain ? REFUSED : DOUBT;
}

bool ledger_was_reported(const struct mjob *m, size_t end)
{
    const struct mend *again = &m->ends[end];
    for (size_t i = 0; i < m->end_count; i++) {
        const struct mend *e = &m->ends[i];
        bool same =
            !e->token || e->token == again->token; /* without a token it was about any run */
        same &= e->kind == again->kind && e->exception == again->exception;
        if (i != end && same && e->how != REFUSED)
            return true;
    }
    return false;
}

/* --- faults --- */

void ledger_answers_lost(struct ledger *l, instant now, unsigned claims)
{
    l->lost_at = now;
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (!m->gone_seq && !m->ended_seq && !m->never)
            m->ghosts += claims;
    }
}

void ledger_synced(struct ledger *l)
{
    l->safe_seq = l->seq++;
}

static void forget_run(struct ledger *l, struct mrun *r)
{
    r->doubt |= r->seq > l->safe_seq;
    /* Renewals may be lost, and whatever had ended it. */
    r->end_asked = true;
    r->lease_min = r->stream ? r->lease_min : r->taken_at;
    if (r->over_seq > l->safe_seq)
        r->over_seq = 0;
}

void ledger_tail_lost(struct ledger *l)
{
    if (l->sync)
        return;
    ledger_folds_lost(l);
    ledger_settings_lost(l);
    ledger_limits_lost(l);
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (m->exists == YES && m->seq > l->safe_seq)
            m->exists = MAYBE;
        if (m->gone_seq > l->safe_seq) {
            m->gone_seq = 0;
            m->may_vanish = true;
        }
        ledger_changes_lost(l, m);
        if (!m->final_seq)
            m->ticks = m->ticks != 0;
        /* However they ended, they may be in flight again, with a lease that expires. */
        if (m->ghosts < m->unknown_runs)
            m->ghosts = m->unknown_runs;
        if (m->ended_seq > l->safe_seq)
            m->ended_seq = 0;
        for (size_t k = 0; k < m->end_count; k++)
            if (m->ends[k].how == OK && m->ends[k].seq > l->safe_seq)
                m->ends[k].how = DOUBT;
        for (size_t k = 0; k < m->run_count; k++)
            forget_run(l, &m->runs[k]);
    }
}

void ledger_missing(struct ledger *l, struct mjob *m, instant now)
{
    enum certainty there = ledger_there(l, m, now);
    PROMISE(there != YES, "I2", "job %lu is lost", m->serial);
    if (there == NO)
        return;
    if (m->exists != YES && !m->may_vanish && !may_be_purged(l, m, now))
        m->never = true;
    else
        ledger_gone(l, m);
}

void ledger_check_groups(const struct ledger *l)
{
    const struct mjob *a = NULL;
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *b = l->jobs[i];
        /* May be a duplicate that nobody was told of, or part of another job. */
        if (b->key || b->alias || b->batch)
            continue;
        bool told = a && (a->exists == YES || a->never);
        if (told && a->group == b->group && (b->exists == YES || b->never))
            PROMISE(a->never == b->never, "ATOMIC", "of jobs %lu and %lu only one was stored",
                    a->serial, b->serial);
        a = b;
    }
}
