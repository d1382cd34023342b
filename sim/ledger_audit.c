/* SPDX-License-Identifier: Apache-2.0 */

/* Judges a job by everything that the server says about it. */

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "ledger.h"
#include "trace.h"

/* A retry that waits for the end of a preempted run. */
static bool waits_for_end(const struct run *run)
{
    return run->grace_end.ms > 0 && run->retry_at.ms == run->grace_end.ms;
}

static bool is_poisoned(const struct run *run)
{
    static const char words[] = "dead: its worker was lost in ";
    return run->reason.len > sizeof words && memcmp(run->reason.at, words, sizeof words - 1) == 0;
}

static bool has_words(const struct run *run, const char *words)
{
    return memmem(run->reason.at, run->reason.len, words, strlen(words)) != NULL;
}

static bool is_retry_in_window(const struct ledger *l, const struct mjob *m, const struct run *run)
{
    const struct curve *c =
        m->backoff.shape != CURVE_NONE ? &m->backoff : &l->settings.retry.backoff;
    double waited = (double)(run->retry_at.ms - run->ended_at.ms);
    if (waits_for_end(run)) /* which takes longer than the backoff */
        return true;
    /* A rerun resets the count. */
    for (uint32_t i = m->rerun_ever ? 1 : run->attempt; i <= run->attempt; i++) {
        double n = i, least = (double)c->base.ms + pow(n, c->exponent) * 1000.0;
        if (waited >= least - 1.0 && waited <= least + n * (double)c->jitter.ms + 1.0)
            return true;
    }
    return false;
}

static int64_t limit_of(const struct ledger *l, const struct mjob *m)
{
    return m->retry_limit == RETRY_LIMIT_DEFAULT ? l->settings.retry.limit : m->retry_limit;
}

/* Whether the job's own limits say so, or the server's. */
static bool is_by_own_limits(const struct ledger *l, const struct mjob *m, const struct mend *e,
                             const struct run *run)
{
    bool retry = instant_is_set(run->retry_at);
    bool in_time = e->exception ? run->retry_at.ms == run->ended_at.ms || waits_for_end(run)
                                : is_retry_in_window(l, m, run);
    if (ledger_is_final(e->exception))
        return !retry;
    if (m->no_policy == RETRY_FALLBACK_FAIL && !e->exception)
        return !retry && has_words(run, "when_no_policy says fail");
    if (m->rerun_ever || m->patched & PATCH_RETRY_LIMIT)
        return !retry || in_time;
    if (run->attempt > limit_of(l, m))
        return !retry;
    return retry && in_time;
}

/* Whether the verdict on the run is what this report asked for. */
static bool is_verdict_of(const struct ledger *l, const struct mjob *m, const struct mend *e,
                          const struct run *run)
{
    bool retry = instant_is_set(run->retry_at);
    instant grace_end = instant_add(e->at, e->grace);
    if (e->kill)
        return !retry;
    if (ledger_is_too_late(m, run))
        return true; /* judged elsewhere */
    if (retry && e->grace.ms &&
        (run->grace_end.ms != grace_end.ms || run->retry_at.ms < grace_end.ms))
        return false;
    if (instant_is_set(e->retry_at) && !(l->has_policies && has_words(run, "globalMaxRetries")))
        return run->retry_at.ms == e->retry_at.ms || waits_for_end(run);
    return l->has_policies /* judged elsewhere */ || is_by_own_limits(l, m, e, run);
}

/* A report that explains how the run ended. */
/* Whether it is the node that the report named, or else that of the worker, if it is known. */
static bool is_node(const struct mrun *known, unsigned reported, const struct run *run)
{
    unsigned node = reported ? reported : known ? known->node : 0;
    struct str is = run->failure.node;
    if (!reported && !known)
        return true;
    return node ? is.len == 2 && is.at[1] == (char)('0' + node) : is.len == 0;
}

static bool is_its_time(const struct mend *e, const struct run *run)
{
    return e->later ? e->at.ms <= run->ended_at.ms : e->at.ms == run->ended_at.ms;
}

static bool is_explained(const struct ledger *l, const struct mjob *m, const struct mrun *known,
                         const struct run *run, enum end_kind kind)
{
    for (size_t i = 0; i < m->end_count; i++) {
        const struct mend *e = &m->ends[i];
        if (e->kind != kind || e->how == REFUSED || !is_its_time(e, run) ||
            ledger_outcome(e) != run->outcome)
            continue;
        if (e->token && (!known || e->token != known->token))
            continue;
        bool same = kind != END_FAIL ||
                    (e->exit_code == run->failure.exit_code &&
                     e->condition == run->failure.condition && is_node(known, e->node, run));
        if (same && (kind != END_FAIL || is_verdict_of(l, m, e, run)))
            return true;
    }
    return false;
}

static const struct mrun *known_run(const struct mjob *m, const struct run *run)
{
    const struct mrun *found = NULL;
    for (size_t i = 0; i < m->run_count; i++)
        if (m->runs[i].index == run->index && m->runs[i].taken_at.ms == run->taken_at.ms)
            found = &m->runs[i];
    /* A run that was lost with an unsynced tail, and another in its place at the same time. */
    if (found && found->doubt && instant_is_set(run->lease_end) == (found->stream != NULL))
        return NULL;
    return found;
}

/* A claim of which its holder said nothing: nobody is charged for it. */
static bool is_uncharged(const struct run *run)
{
    return run->outcome == OUTCOME_EXPIRED && run->attempt == 0 && !is_poisoned(run);
}

/* So many in a row are not charged where lost workers have no limit. */
#define UNCONFIRMED_MAX 6

/* Each that counts must have been confirmed, or come after too many that were not. */
static void check_charges(const struct ledger *l, const struct mjob *m, const struct reply *runs)
{
    uint32_t row = 0, limit = l->settings.lost_worker_limit;
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->runs[i];
        const struct mrun *known = known_run(m, run);
        bool lost = run->outcome == OUTCOME_LOST || run->outcome == OUTCOME_EXPIRED;
        row = lost ? row + 1 : run->outcome == OUTCOME_GANG ? row : 0;
        if (run->outcome != OUTCOME_EXPIRED || !known)
            continue;
        PROMISE(!is_uncharged(run) || !known->confirmed || instant_is_set(l->lost_at), "CHARGE",
                "job %lu: run %u was confirmed and is not charged", m->serial, run->index);
        PROMISE(is_uncharged(run) || known->spoken || instant_is_set(m->blind_renewal) ||
                    m->rerun_ever || row >= (limit ? limit : UNCONFIRMED_MAX),
                "CHARGE", "job %lu: run %u was never confirmed and is charged", m->serial,
                run->index);
    }
}

static void check_expired(const struct ledger *l, const struct mjob *m, const struct mrun *known,
                          const struct run *run)
{
    PROMISE(instant_is_set(run->lease_end) && run->ended_at.ms >= run->lease_end.ms, "LEASE",
            "job %lu: run %u expired before its lease ended", m->serial, run->index);
    PROMISE(!known || run->ended_at.ms >= known->lease_min.ms, "LEASE",
            "job %lu: run %u expired before the lease that was granted", m->serial, run->index);
    if (is_uncharged(run))
        return;
    bool retry = instant_is_set(run->retry_at);
    PROMISE(is_node(known, 0, run), "NODE", "job %lu: run %u expired on another node", m->serial,
            run->index);
    PROMISE(m->rerun_ever || ledger_limit_is_open(l, m) ||
                retry == (run->attempt <= limit_of(l, m)),
            "RETRY", "job %lu: expired run %u: retry limit not kept", m->serial, run->index);
    bool judged = l->has_policies && has_words(run, " by rule ");
    PROMISE(!retry || judged || run->retry_at.ms == run->ended_at.ms, "RETRY",
            "job %lu: expired run %u is not tried again at once", m->serial, run->index);
}

static void check_outcome(const struct ledger *l, const struct mjob *m, const struct mrun *known,
                          const struct run *run)
{
    const char *name = job_outcome_name(run->outcome);
    switch (run->outcome) {
    case OUTCOME_RUNNING:
        return;
    case OUTCOME_COMPLETED:
        PROMISE(is_explained(l, m, known, run, END_SUCCEED), "I3",
                "job %lu: nobody completed run %u", m->serial, run->index);
        return;
    case OUTCOME_WORKER_SHUTDOWN:
    case OUTCOME_INTERMITTENT_TASK:
    case OUTCOME_MALFORMED_PAYLOAD:
    case OUTCOME_RESOURCE_UNAVAILABLE:
    case OUTCOME_INTERNAL_ERROR:
    case OUTCOME_SUPERSEDED:
    case OUTCOME_FAILED:
        PROMISE(is_explained(l, m, known, run, END_FAIL), "RETRY",
                "job %lu: run %u: no report explains the verdict", m->serial, run->index);
        return;
    case OUTCOME_EXPIRED:
        check_expired(l, m, known, run);
        return;
    case OUTCOME_RETURNED:
        PROMISE(is_explained(l, m, known, run, END_RELEASE), "I3",
                "job %lu: nobody returned run %u", m->serial, run->index);
        return;
    case OUTCOME_LOST:
        PROMISE(!instant_is_set(run->lease_end), "I3", "job %lu: leased run %u is %s", m->serial,
                run->index, name);
        PROMISE(!known || !known->stream || !known->stream->open, "I3",
                "job %lu: run %u is %s, but its stream is open", m->serial, run->index, name);
        return;
    case OUTCOME_CANCELED:
        PROMISE(is_explained(l, m, known, run, END_CANCEL) ||
                    (m->uncanceled && !instant_is_set(run->taken_at)),
                "CANCEL", "job %lu: nobody canceled run %u", m->serial, run->index);
        return;
    case OUTCOME_DEADLINE:
        PROMISE(m->deadline.ms && run->ended_at.ms >= m->deadline.ms, "DEADLINE",
                "job %lu: run %u ended for a deadline before it", m->serial, run->index);
        return;
    case OUTCOME_GANG:
        PROMISE(m->gang, "GANG", "job %lu: run %u ended for a gang", m->serial, run->index);
        return;
    case OUTCOME_COUNT:
        break;
    }
    PROMISE(false, "VALUE", "job %lu: run %u has no outcome", m->serial, run->index);
}

/* A run that nobody was told of. */
static void check_unknown(const struct ledger *l, const struct mjob *m, const struct run *run)
{
    bool lost = instant_is_set(l->lost_at) && run->taken_at.ms <= l->lost_at.ms;
    bool ended_first =
        is_explained(l, m, NULL, run, END_SUCCEED) || is_explained(l, m, NULL, run, END_FAIL) ||
        is_explained(l, m, NULL, run, END_RELEASE) || is_explained(l, m, NULL, run, END_CANCEL);
    if (instant_is_set(run->lease_end))
        PROMISE(lost, "REPLY", "job %lu: run %u was leased to nobody", m->serial, run->index);
    else
        PROMISE(lost || ended_first || run->outcome == OUTCOME_LOST ||
                    run->outcome == OUTCOME_GANG || run->outcome == OUTCOME_DEADLINE,
                "REPLY", "job %lu: run %u was delivered to nobody", m->serial, run->index);
}

/* What is stored about the run must be what was acknowledged. */
static void check_known(const struct mjob *m, const struct mrun *known, const struct run *run)
{
    PROMISE(instant_is_set(run->lease_end) == !known->stream, "LEASE",
            "job %lu: run %u is held in another way", m->serial, run->index);
    for (size_t i = 0; i < m->end_count; i++) {
        const struct mend *e = &m->ends[i];
        if (e->how != OK || e->token != known->token)
            continue;
        if (m->gang && run->outcome == OUTCOME_GANG && e->kind == END_FAIL)
            continue; /* it failed as well */
        PROMISE(run->outcome == ledger_outcome(e) && run->ended_at.ms == e->at.ms, "I1",
                "job %lu: run %u is %s, another end was acknowledged", m->serial, run->index,
                job_outcome_name(run->outcome));
    }
}

static bool never_began(const struct run *run)
{
    return run->outcome != OUTCOME_RUNNING && !instant_is_set(run->taken_at);
}

/* A run that no worker ever had: recorded of a job that asks for it and ended while it waited. */
static void check_pending(const struct ledger *l, const struct mjob *m, const struct run *run,
                          instant since)
{
    bool canceled = run->outcome == OUTCOME_CANCELED;
    PROMISE(m->pending_runs && (canceled || run->outcome == OUTCOME_DEADLINE), "VALUE",
            "job %lu: run %u never began and is %s", m->serial, run->index,
            job_outcome_name(run->outcome));
    PROMISE(run->worker.len == 0 && !instant_is_set(run->lease_end) && run->attempt == 0 &&
                run->ready_at.ms <= run->ended_at.ms,
            "VALUE", "job %lu: run %u never began, but somebody had it", m->serial, run->index);
    PROMISE(!instant_is_set(run->ready_at) || run->ready_at.ms >= since.ms, "READY_AT",
            "job %lu: run %u says that it was ready at another time", m->serial, run->index);
    check_outcome(l, m, NULL, run);
}

/* It must be there, and be the last, of a job that ended while it waited. */
static void check_counted(const struct mjob *m, const struct run *last, const struct job_state *s)
{
    bool expected = s->resolution == RESOLUTION_CANCELED || s->resolution == RESOLUTION_DEADLINE;
    bool there = last && (last->outcome == OUTCOME_CANCELED || last->outcome == OUTCOME_DEADLINE);
    there |= last && ledger_is_too_late(m, last);
    PROMISE(!m->pending_runs || !expected || there, "VALUE",
            "job %lu ended without a run that says so", m->serial);
}

static void check_run(const struct ledger *l, const struct mjob *m, const struct run *runs,
                      size_t i, size_t count)
{
    const struct run *run = &runs[i];
    const struct mrun *known = known_run(m, run);
    bool over = run->outcome != OUTCOME_RUNNING;
    PROMISE(run->index == i, "I3", "job %lu: run %u is missing", m->serial, (unsigned)i);
    PROMISE(over || i + 1 == count, "I3", "job %lu: run %u is not the last and live", m->serial,
            run->index);
    PROMISE(!over || run->reason.len, "REASON", "job %lu: run %u ended without a reason", m->serial,
            run->index);
    PROMISE(!over || run->ended_at.ms >= run->taken_at.ms, "VALUE",
            "job %lu: run %u ended before it began", m->serial, run->index);
    instant since = i > 0 ? runs[i - 1].ended_at : m->asked_at;
    if (never_began(run)) {
        check_pending(l, m, run, since);
        return;
    }
    PROMISE(run->ready_at.ms <= run->taken_at.ms &&
                (!instant_is_set(run->ready_at) || run->ready_at.ms >= since.ms),
            "READY_AT", "job %lu: run %u says that it was ready at another time", m->serial,
            run->index);
    if (i > 0) {
        const struct run *before = &runs[i - 1];
        PROMISE(run->taken_at.ms >= before->ended_at.ms &&
                    (!instant_is_set(before->retry_at) || m->patched & PATCH_READY_AT ||
                     m->rerun_ever || run->taken_at.ms >= before->retry_at.ms ||
                     (waits_for_end(before) && instant_is_set(m->terminated_at) &&
                      run->taken_at.ms >= m->terminated_at.ms)),
                "READY_AT", "job %lu: run %u began too early", m->serial, run->index);
    }
    if (known)
        check_known(m, known, run);
    else
        check_unknown(l, m, run);
    check_outcome(l, m, known, run);
}

/* What it died of: the outcome of its newest run, unless others ended it. */
static void check_resolution(const struct mjob *m, const struct run *last,
                             const struct job_state *s)
{
    static const enum resolution by_run[OUTCOME_COUNT] = {
        [OUTCOME_FAILED] = RESOLUTION_FAILED,
        [OUTCOME_EXPIRED] = RESOLUTION_CLAIM_EXPIRED,
        [OUTCOME_WORKER_SHUTDOWN] = RESOLUTION_WORKER_SHUTDOWN,
        [OUTCOME_INTERMITTENT_TASK] = RESOLUTION_INTERMITTENT_TASK,
        [OUTCOME_MALFORMED_PAYLOAD] = RESOLUTION_MALFORMED_PAYLOAD,
        [OUTCOME_RESOURCE_UNAVAILABLE] = RESOLUTION_RESOURCE_UNAVAILABLE,
        [OUTCOME_INTERNAL_ERROR] = RESOLUTION_INTERNAL_ERROR,
        [OUTCOME_SUPERSEDED] = RESOLUTION_SUPERSEDED,
    };
    bool by_others = s->resolution == RESOLUTION_CANCELED || s->resolution == RESOLUTION_DEADLINE ||
                     s->resolution == RESOLUTION_DEPENDENCY || s->resolution == RESOLUTION_POISON ||
                     s->resolution == RESOLUTION_WAIT || s->resolution == RESOLUTION_GANG;
    PROMISE(s->status == STATUS_DEAD || s->resolution == RESOLUTION_NONE, "VALUE",
            "job %lu is not dead and has a resolution", m->serial);
    by_others |= m->gang && last && last->outcome == OUTCOME_GANG; /* it failed as well, for good */
    PROMISE(s->status != STATUS_DEAD || by_others ||
                (last && s->resolution == by_run[last->outcome]),
            "VALUE", "job %lu is dead as %s", m->serial, job_resolution_name(s->resolution));
}

static enum status status_after(const struct mjob *m, const struct run *last,
                                const struct job_state *s, instant now)
{
    if (last && last->index < m->first_run)
        last = NULL;
    if (s->status == STATUS_BLOCKED)
        return STATUS_BLOCKED; /* judged elsewhere, as are jobs that die with another */
    if (s->status == STATUS_DEAD &&
        (s->resolution == RESOLUTION_DEPENDENCY || s->resolution == RESOLUTION_WAIT ||
         s->resolution == RESOLUTION_GANG))
        return STATUS_DEAD;
    if (s->status == STATUS_DEAD && m->gang && last && last->outcome == OUTCOME_GANG)
        return STATUS_DEAD;
    if (s->status == STATUS_DEAD && s->resolution == RESOLUTION_CANCELED)
        return STATUS_DEAD; /* whether somebody canceled it is judged elsewhere */
    if (s->status == STATUS_DEAD && s->resolution == RESOLUTION_DEADLINE &&
        !(last && ledger_is_too_late(m, last)))
        return m->deadline.ms && m->deadline.ms <= now.ms ? STATUS_DEAD : STATUS_READY;

    if (last && last->outcome == OUTCOME_RUNNING)
        return STATUS_IN_FLIGHT;
    if (last && last->outcome == OUTCOME_COMPLETED)
        return STATUS_COMPLETED;
    if (last && last->outcome == OUTCOME_CANCELED &&
        (!m->uncanceled || instant_is_set(last->taken_at)))
        return STATUS_DEAD;
    if (last && (last->attempt || is_poisoned(last)) && !instant_is_set(last->retry_at))
        return STATUS_DEAD;
    return s->ready_at.ms <= now.ms ? STATUS_READY : STATUS_SCHEDULED;
}

/* Whether a start of the server may have found the lease expired, or cut off the answer to a claim
 * that nobody confirmed: then its worker does not count as lost. */
static bool may_have_lapsed(const struct ledger *l, const struct run *run)
{
    /* A failed commit is followed by a start, perhaps some time later. */
    if (instant_is_set(l->lost_at) && run->ended_at.ms > run->lease_end.ms)
        return true;
    /* Or at the very moment when the lease expires. */
    if (instant_is_set(l->lost_at) && l->lost_at.ms >= run->taken_at.ms &&
        run->ended_at.ms == run->lease_end.ms)
        return true;
    for (size_t i = 0; i < l->boot_count; i++)
        if (l->boots[i].ms >= run->taken_at.ms && l->boots[i].ms <= run->ended_at.ms)
            return true;
    return false;
}

void ledger_poison_audit(const struct ledger *l, const struct mjob *m, const struct job *job,
                         const struct reply *runs)
{
    static const char closed[] = "the worker's stream closed";
    uint32_t least = 0, most = 0, limit = l->settings.lost_worker_limit;
    PROMISE(limit || job->state.resolution != RESOLUTION_POISON, "POISON", "job %lu is poison",
            m->serial);
    for (size_t i = 0; i < runs->count && limit; i++) {
        const struct run *run = &runs->runs[i];
        bool poisoned = is_poisoned(run);
        /* A cancel of a waiting job, undone: the job is what it was, with its count. */
        if (m->uncanceled && run->outcome == OUTCOME_CANCELED && never_began(run))
            continue;
        bool gone = poisoned || (run->reason.len && memmem(run->reason.at, run->reason.len, closed,
                                                           sizeof closed - 1));
        span held = instant_diff(run->ended_at, run->taken_at);
        if (run->outcome == OUTCOME_LOST) {
            gone &= held.ms >= l->settings.lost_worker_min_held.ms;
            PROMISE(gone || !poisoned, "POISON", "job %lu is poison after %lld ms", m->serial,
                    (long long)held.ms);
            least += gone;
            most += gone;
        } else if (run->outcome == OUTCOME_EXPIRED) {
            most++;
            least += !may_have_lapsed(l, run) || poisoned;
        } else if (run->outcome != OUTCOME_GANG) { /* which says nothing about its worker */
            least = most = 0;
        }
        /* A rerun resets the count; nothing in the runs says when. */
        if (m->rerun_ever)
            least = poisoned ? limit : 0;
        PROMISE(!poisoned || (most >= limit && !instant_is_set(run->retry_at)), "POISON",
                "job %lu: run %u is called poison after %u losses of %u", m->serial, run->index,
                most, limit);
        bool budgeted = run->outcome == OUTCOME_EXPIRED && m->no_policy == RETRY_FALLBACK_FAIL;
        PROMISE(!budgeted || !poisoned, "POISON", "job %lu: an expired lease is no poison",
                m->serial);
        bool counted = gone || (run->outcome == OUTCOME_EXPIRED && !budgeted);
        PROMISE(poisoned || !counted || least < limit, "POISON",
                "job %lu goes on after %u losses of %u", m->serial, least, limit);
        if (poisoned)
            least = most = 0; /* after a rerun */
    }
}

/* Attempts are numbered from 1; the newest retry says when the job is ready. */
static void check_attempts(const struct ledger *l, const struct mjob *m, const struct job *job,
                           const struct reply *runs)
{
    uint32_t attempts = 0;
    instant ready_at = m->ready_at;
    bool shortened = false;
    check_charges(l, m, runs);
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->runs[i];
        bool counts = run->outcome == OUTCOME_FAILED || job_outcome_is_exception(run->outcome) ||
                      (run->outcome == OUTCOME_EXPIRED && !is_uncharged(run));
        bool in_order = counts ? run->attempt == attempts + 1 : run->attempt == 0;
        in_order |= counts && m->gang && run->attempt > attempts; /* it has one account */
        PROMISE(in_order, "RETRY", "job %lu: run %u is attempt %u", m->serial, run->index,
                run->attempt);
        attempts = counts ? run->attempt : attempts;
        if (instant_is_set(run->retry_at))
            ready_at = run->retry_at;
        if (waits_for_end(run) && instant_is_set(m->terminated_at))
            shortened = true;
        if (waits_for_end(run) && job->state.extras.terminated_at.ms)
            PROMISE(i + 1 < runs->count || job->state.ready_at.ms <= run->retry_at.ms, "GRACE",
                    "job %lu waits longer for run %u, which has ended", m->serial, run->index);
    }
    PROMISE(job->state.attempts == attempts || (m->gang && job->state.attempts > attempts), "RETRY",
            "job %lu counts %u attempts of %u", m->serial, job->state.attempts, attempts);
    PROMISE(m->rerun_ever || m->patched & PATCH_READY_AT || shortened ||
                job->state.ready_at.ms == ready_at.ms,
            "READY_AT", "job %lu has another ready_at", m->serial);
}

/* Everything that was requested has happened by now or never will. */
static void settle_ends(struct ledger *l, struct mjob *m, const struct reply *runs)
{
    for (size_t i = 0; i < m->end_count; i++) {
        struct mend *e = &m->ends[i];
        if (e->how == OK || e->how == REFUSED)
            continue;
        e->how = e->kind == END_CANCEL && m->status == STATUS_DEAD ? DOUBT : REFUSED;
        for (size_t k = 0; k < runs->count; k++) {
            const struct run *run = &runs->runs[k];
            if (run->outcome == ledger_outcome(e) && is_its_time(e, run))
                e->how = DOUBT;
        }
    }
    (void)l;
}

static void settle_runs(struct ledger *l, struct mjob *m, const struct reply *runs)
{
    const struct run *last = runs->count ? &runs->runs[runs->count - 1] : NULL;
    bool live = last && last->outcome == OUTCOME_RUNNING;
    m->ghosts = m->unknown_runs = 0;
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->runs[i];
        if (known_run(m, run) || never_began(run))
            continue;
        m->unknown_runs++;
        m->ghosts += run->outcome == OUTCOME_EXPIRED || run->outcome == OUTCOME_RUNNING;
    }
    for (size_t i = 0; i < m->run_count; i++) {
        struct mrun *r = &m->runs[i];
        if (live && r->token == runs->token) {
            PROMISE(!r->over_for_good && !r->over_seq, "I3",
                    "job %lu: run %u is live again after its end", m->serial, r->index);
            r->end_asked = r->doubt = false;
            r->lease_end = r->lease_min = last->lease_end;
        } else if (!r->over_seq) {
            r->over_seq = l->seq++;
        }
    }
}

void ledger_check_status(struct ledger *l, struct mjob *m, const struct job *job, instant now)
{
    enum status s = job->state.status;
    const char *name = lifecycle_status_name(s);
    PROMISE(!m->ended_seq || s == m->ended || ledger_is_foggy(m), "I4",
            "job %lu is %s after it was %s", m->serial, name, lifecycle_status_name(m->ended));
    if (lifecycle_is_terminal(s)) {
        PROMISE(ledger_may_end(l, m, s, now), "I2", "job %lu is %s, which nothing explains: %.*s",
                m->serial, name, STR_ARG(job->state.reason));
        PROMISE(instant_is_set(job->state.purge_at), "VALUE", "job %lu is kept for ever",
                m->serial);
    }
    PROMISE(s != STATUS_DEAD || job->state.reason.len, "REASON", "job %lu is dead without a reason",
            m->serial);
    PROMISE(s != STATUS_BLOCKED || m->dep_count || m->hold, "DEPEND", "job %lu is blocked",
            m->serial);
}

void ledger_audit(struct ledger *l, struct mjob *m, const struct reply *read,
                  const struct reply *runs, instant now)
{
    const struct job *job = &read->jobs[0];
    m->status = job->state.status;
    m->run_total = job->state.runs;
    m->gang_generation = job->state.extras.gang_generation;
    m->avoid_until = job->state.extras.avoid_until;
    m->gang_alone = job->state.extras.gang_alone != 0;
    m->dequeued_at = job->state.dequeued_at;
    ledger_check_status(l, m, job, now);
    PROMISE(!runs->more && job->state.runs == runs->count, "I3", "job %lu has %u runs, %zu listed",
            m->serial, job->state.runs, runs->count);
    PROMISE(read->has_live == (job->state.status == STATUS_IN_FLIGHT), "I3",
            "job %lu is in flight without a run or the other way round", m->serial);
    for (size_t i = 0; i < runs->count; i++)
        check_run(l, m, runs->runs, i, runs->count);
    check_attempts(l, m, job, runs);
    ledger_policy_audit(l, m, job, runs);
    ledger_poison_audit(l, m, job, runs);
    const struct run *last = runs->count ? &runs->runs[runs->count - 1] : NULL;
    check_counted(m, last, &job->state);
    check_resolution(m, last, &job->state);
    ledger_clear_up(l, m, job);
    PROMISE(job->state.forgiven == m->forgiven, "RERUN", "job %lu: %u attempts are forgiven",
            m->serial, job->state.forgiven);
    enum status expected = status_after(m, last, &job->state, now);
    PROMISE(job->state.status == expected, "I2", "job %lu is %s and should be %s", m->serial,
            lifecycle_status_name(job->state.status), lifecycle_status_name(expected));
    settle_ends(l, m, runs);
    settle_runs(l, m, runs);
    m->may_vanish = m->removals > 0;
    if (lifecycle_is_terminal(expected))
        ledger_ended(l, m, expected, last ? last->ended_at : now);
    ledger_depend_note(m, job);
    bool ended_waiting = job->state.resolution == RESOLUTION_CANCELED ||
                         job->state.resolution == RESOLUTION_DEADLINE ||
                         job->state.resolution == RESOLUTION_DEPENDENCY ||
                         job->state.resolution == RESOLUTION_WAIT ||
                         job->state.resolution == RESOLUTION_GANG;
    if (expected == STATUS_DEAD && ended_waiting)
        m->purge_at = job->state.purge_at; /* there may have been no run to end */
}
