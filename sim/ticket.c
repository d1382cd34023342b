/* SPDX-License-Identifier: Apache-2.0 */

/* Answers, judged one by one. */

#include <stdlib.h>

#include "base/alloc.h"
#include "sim.h"
#include "trace.h"

struct ticket *ticket_new(struct sim *s, enum command_kind kind, size_t count)
{
    struct ticket *t = ALLOC(struct ticket);
    t->sim = s;
    t->serial = ++s->serials;
    t->kind = kind;
    t->at = s->now;
    t->resets = s->resets;
    t->batch = disk_begun(s->disk);
    t->count = count;
    t->jobs = alloc_zero((count + 1) * sizeof(struct mjob *));
    t->ends = alloc_zero((count + 1) * sizeof *t->ends);
    t->live = alloc_zero((count + 1) * sizeof *t->live);
    t->held = alloc_zero((count + 1) * sizeof *t->held);
    t->leased = alloc_zero((count + 1) * sizeof *t->leased);
    t->seq = s->ledger.seq;
    t->there = alloc_zero((count + 1) * sizeof *t->there);
    list_init(&t->node);
    list_append(&s->tickets, &t->node);
    return t;
}

static bool ends_run(enum command_kind kind, enum end_kind *end)
{
    switch (kind) {
    case CMD_SUCCEED:
    case CMD_SUCCEED_MANY:
        *end = END_SUCCEED;
        return true;
    case CMD_FAIL:
        *end = END_FAIL;
        return true;
    case CMD_RELEASE:
        *end = END_RELEASE;
        return true;
    case CMD_CANCEL:
    case CMD_CANCEL_WHERE:
        *end = END_CANCEL;
        return true;
    default:
        return false;
    }
}

/* What is known about the run that the token names; 0 names any live run. */
static enum certainty live_now(const struct sim *s, const struct mjob *m, uint64_t token)
{
    if (token) {
        const struct mrun *r = ledger_run(m, token);
        return r ? ledger_live(m, r, s->now) : NO;
    }
    if (m->gone_seq || m->never || (m->ended_seq && !ledger_is_foggy(m)))
        return NO;
    const struct mrun *last = m->run_count ? &m->runs[m->run_count - 1] : NULL;
    return last && ledger_live(m, last, s->now) == YES ? YES : MAYBE;
}

/* Whether the run that is live for certain is a claim's. */
static bool is_leased(const struct mjob *m, enum certainty live)
{
    return live == YES && m->run_count && !m->runs[m->run_count - 1].stream;
}

void ticket_about(struct ticket *t, size_t i, struct mjob *m, uint64_t token)
{
    struct sim *s = t->sim;
    enum end_kind end;
    t->jobs[i] = m;
    t->token = token;
    t->known_run = token && ledger_run(m, token);
    t->there[i] = ledger_there(&s->ledger, m, s->now);
    t->live[i] = live_now(s, m, token);
    t->leased[i] = is_leased(m, t->live[i]);
    t->ended = m->ended_seq && !ledger_is_foggy(m);
    t->ended_as = m->ended;
    if (ends_run(t->kind, &end)) {
        ledger_ask_end(m, end, token, s->now);
        t->ends[i] = m->end_count - 1;
    }
}

void ticket_submit(struct ticket *t, struct command *c)
{
    struct sim *s = t->sim;
    c->kind = t->kind;
    if (s->profile.aliases)
        alias_use(t, c);
    c->done = ticket_answer;
    c->ctx = t;
    trace_line("ask #%lu kind %d about %zu, first %ld", t->serial, t->kind, t->count,
               t->count && t->jobs[0] ? (long)t->jobs[0]->serial : -1L);
    s->arrived = true;
    s->calling = true;
    if (!together_submit(t, c))
        backend_submit(s->backend, c);
    s->calling = false;
}

void ticket_drop_all(struct sim *s)
{
    while (!list_is_empty(&s->tickets)) {
        struct ticket *t = LIST_OF(s->tickets.next, struct ticket, node);
        enum end_kind end;
        for (size_t i = 0; i < t->count; i++) {
            if (ends_run(t->kind, &end))
                ledger_end_refused(t->jobs[i], t->ends[i], false);
            if (t->kind == CMD_PATCH)
                t->jobs[i]->patching--;
            if (t->kind == CMD_RERUN)
                ledger_rerun_over(t->jobs[i], true);
            if (t->kind == CMD_REMOVE || t->kind == CMD_REMOVE_WHERE)
                t->jobs[i]->removals--;
            for (size_t k = 0; t->kind == CMD_RENEW && k < t->jobs[i]->run_count; k++)
                t->jobs[i]->runs[k].renewals = 0;
        }
        if (t->kind == CMD_CRON_PUT)
            cron_was_put(s, t);
        t->answered = true;
        list_unlink(&t->node);
        list_append(&s->answered, &t->node);
    }
    s->sweeps = 0;
    ledger_bulk_end(&s->ledger);
}

/* --- judging --- */

static bool is_of_the_store(enum err_code code)
{
    return code == ERR_DISK_FULL || code == ERR_STORE;
}

bool ticket_is_in_doubt(const struct ticket *t, enum err_code code)
{
    const struct sim *s = t->sim;
    bool reset = s->resetting || s->resets != t->resets;
    return is_of_the_store(code) || (reset && code == ERR_BUSY);
}

static void check_durable(const struct ticket *t, bool stored)
{
    const struct store *disk = t->sim->disk;
    uint64_t need = t->batch + stored;
    PROMISE(disk_ended(disk) >= need && (!stored || disk_failed(disk) != need), "I1",
            "answer #%lu left before its batch was durable", t->serial);
}

void ticket_check_there(const struct ticket *t, size_t i, bool found)
{
    const struct mjob *m = t->jobs[i];
    if (found)
        PROMISE(t->there[i] != NO, "I2", "#%lu: job %lu is gone and was found", t->serial,
                m->serial);
    else
        PROMISE(t->there[i] != YES, "I2", "#%lu: job %lu is lost", t->serial, m->serial);
}

static void judge_refused(struct ticket *t, enum err_code code)
{
    if (is_of_the_store(code))
        return;
    /* Its dependencies may be gone, or its gang may be full. */
    bool lacks = (t->needs_others && code == ERR_UNPROCESSABLE) ||
                 (code == ERR_GROUP_SEALED && group_may_refuse(t));
    PROMISE(
        lacks || ticket_is_in_doubt(t, code) ||
            (t->batched && (code == ERR_UNPROCESSABLE || code == ERR_BUSY || code == ERR_INTERNAL)),
        "REPLY", "#%lu: answer %s", t->serial, err_wire(code));
    for (size_t i = 0; i < t->count; i++)
        ledger_refused(t->jobs[i]);
}

static void judge_enqueue(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    if (r->err.code != ERR_OK) {
        judge_refused(t, r->err.code);
        return;
    }
    PROMISE(r->count == t->count, "ATOMIC", "#%lu: %zu jobs of %zu", t->serial, r->count, t->count);
    struct id last = {0};
    for (size_t i = 0; i < t->count; i++) {
        const struct enqueued *e = &r->enqueued[i];
        PROMISE(e->duplicate || !t->held[i], "UNIQUE", "#%lu: job %lu has the key of another",
                t->serial, t->jobs[i]->serial);
        if (e->duplicate) {
            ledger_duplicate(&s->ledger, t->jobs[i], &e->job, t->seq, t->at);
            continue;
        }
        if (e->folded) {
            ledger_folded(&s->ledger, t->jobs[i], &e->job, t->seq);
            continue;
        }
        ledger_acked(&s->ledger, t->jobs[i], &e->job, s->now);
        PROMISE(id_cmp(last, e->job.id) < 0, "ORDER", "#%lu: ids are not in the order of the jobs",
                t->serial);
        last = e->job.id;
    }
}

static void judge_remove(struct ticket *t, const struct reply *r)
{
    struct mjob *m = t->jobs[0];
    m->removals--;
    if (ticket_is_in_doubt(t, r->err.code))
        return;
    PROMISE(r->err.code == ERR_OK || r->err.code == ERR_NOT_FOUND, "REPLY", "#%lu: answer %s",
            t->serial, err_wire(r->err.code));
    ticket_check_there(t, 0, r->err.code == ERR_OK);
    if (r->err.code == ERR_OK || m->exists == YES)
        ledger_gone(&t->sim->ledger, m);
}

static void judge_sweep(struct ticket *t, const struct reply *r)
{
    t->sim->sweeps--;
    for (size_t i = 0; i < t->count; i++)
        t->jobs[i]->removals--;
    PROMISE(r->err.code == ERR_OK || ticket_is_in_doubt(t, r->err.code), "REPLY", "#%lu: answer %s",
            t->serial, err_wire(r->err.code));
}

static void judge_read(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    if (ticket_is_in_doubt(t, r->err.code))
        return;
    ticket_check_there(t, 0, r->err.code == ERR_OK);
    if (r->err.code != ERR_OK) {
        PROMISE(r->err.code == ERR_NOT_FOUND, "REPLY", "#%lu: answer %s", t->serial,
                err_wire(r->err.code));
        return;
    }
    struct mjob *m = ledger_see(&s->ledger, &r->jobs[0], true, s->now);
    PROMISE(m == t->jobs[0], "VALUE", "#%lu: another job was read", t->serial);
    ledger_check_status(&s->ledger, m, &r->jobs[0], s->now);
    if (t->live[0] == YES)
        PROMISE(r->has_live && r->jobs[0].state.status == STATUS_IN_FLIGHT, "I3",
                "#%lu: the live run of job %lu is gone", t->serial, m->serial);
    uint32_t runs = r->jobs[0].state.runs;
    PROMISE(!r->runs || (r->run_count == runs && (!runs || r->runs[runs - 1].index == runs - 1)),
            "LIST", "#%lu: job %lu was read with %zu of %u runs", t->serial, m->serial,
            r->run_count, runs);
    trace_line("  job %lu is %s, run %u, attempt %u", m->serial,
               lifecycle_status_name(r->jobs[0].state.status), r->jobs[0].state.runs,
               r->jobs[0].state.attempts);
}

static void judge_explain(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    if (ticket_is_in_doubt(t, r->err.code))
        return;
    ticket_check_there(t, 0, r->err.code == ERR_OK);
    if (r->err.code != ERR_OK) {
        PROMISE(r->err.code == ERR_NOT_FOUND, "REPLY", "#%lu: answer %s", t->serial,
                err_wire(r->err.code));
        return;
    }
    const struct explanation *x = r->explanation;
    enum status status = x->job.state.status;
    struct mjob *m = ledger_see(&s->ledger, &x->job, false, s->now);
    PROMISE(m == t->jobs[0], "VALUE", "#%lu: another job was explained", t->serial);
    bool runs = x->has_run && x->run.outcome == OUTCOME_RUNNING;
    bool waits = status == STATUS_BLOCKED || status == STATUS_SCHEDULED;
    PROMISE(runs == (status == STATUS_IN_FLIGHT), "VALUE", "#%lu: the run of job %lu", t->serial,
            m->serial);
    PROMISE(!waits || x->obstacle_count > 0, "VALUE", "#%lu: job %lu waits for nothing", t->serial,
            m->serial);
    trace_line("  job %lu: %.*s", m->serial, STR_ARG(x->summary));
}

static void end_walk(struct sim *s)
{
    for (size_t i = 0; i < s->ledger.count; i++) {
        const struct mjob *m = s->ledger.jobs[i];
        if (m->exists != YES || m->seq >= s->walk.start_seq ||
            ledger_there(&s->ledger, m, s->now) != YES)
            continue;
        PROMISE(m->walked == s->walk.number, "LIST", "job %lu was skipped", m->serial);
    }
    s->walk.start_seq = 0;
}

static void judge_page(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    bool mine = t->walk && t->walk == s->walk.number && s->walk.start_seq;
    if (r->err.code != ERR_OK) {
        PROMISE(ticket_is_in_doubt(t, r->err.code), "REPLY", "#%lu: answer %s", t->serial,
                err_wire(r->err.code));
        if (mine)
            s->walk.start_seq = 0;
        return;
    }
    PROMISE(r->count <= t->limit, "LIST", "#%lu: %zu jobs on a page of %u", t->serial, r->count,
            t->limit);
    struct id last = t->from;
    for (size_t i = 0; i < r->count; i++) {
        struct mjob *m = ledger_see(&s->ledger, &r->jobs[i], true, s->now);
        PROMISE(id_cmp(r->jobs[i].id, last) > 0, "LIST", "#%lu: job %lu came again", t->serial,
                m->serial);
        last = r->jobs[i].id;
        m->walked = mine ? t->walk : m->walked;
    }
    if (!mine)
        return;
    s->walk.waiting = false;
    s->walk.at = last;
    if (!r->more)
        end_walk(s);
}

static bool is_before(const struct job *a, const struct job *b)
{
    if (a->state.priority != b->state.priority)
        return a->state.priority < b->state.priority;
    return id_cmp(a->id, b->id) < 0;
}

/* It may be passed by, or pass others by. */
static bool is_apart(const struct job *job)
{
    return gang_is_member(job) || job->options.budgets.len;
}

/* Whether the i-th may come after those before it, except for members of gangs. Granted retries of
 * one queue are in order among themselves, and so are all other jobs; which of the two kinds comes
 * first is decided only by the priority and the share (quiet_order). */
static bool is_ordered(const struct reply *r, size_t i)
{
    const struct job *job = &r->handouts[i].job;
    for (size_t k = 0; k < i && !is_apart(job); k++) {
        const struct job *other = &r->handouts[k].job;
        if (is_apart(other))
            continue;
        bool granted = job->state.extras.granted;
        bool alike = granted == (other->state.extras.granted != 0) &&
                     (!granted || str_eq(job->queue, other->queue));
        if (alike ? !is_before(other, job) : other->state.priority > job->state.priority)
            return false;
    }
    return true;
}

static void judge_claim(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    client_claim_over(s, t);
    if (r->err.code != ERR_OK) {
        PROMISE(ticket_is_in_doubt(t, r->err.code), "REPLY", "#%lu: answer %s", t->serial,
                err_wire(r->err.code));
        return;
    }
    PROMISE(r->count <= t->limit, "PREFETCH", "#%lu: %zu jobs of %u", t->serial, r->count,
            t->limit);
    PROMISE(r->count || t->canceled || s->stopping || s->now.ms >= t->until.ms, "REPLY",
            "#%lu: the wait ended too early", t->serial);
    for (size_t i = 0; i < r->count; i++) {
        const struct handout *h = &r->handouts[i];
        client_handed(t, h);
        const struct mjob *m = ledger_find(&s->ledger, h->job.id);
        PROMISE(t->again || !t->queues || t->queues >> (h->job.queue.at[1] - '0') & 1, "ORDER",
                "#%lu: job of another queue", t->serial);
        PROMISE(disk_has_take(s->disk, h->job.id, h->run), "I1",
                "#%lu: job %lu left before its lease was durable", t->serial, m->serial);
        trace_line("  leased job %lu run %u token %lx", m->serial, h->run, h->token);
        PROMISE(t->again || is_ordered(r, i), "ORDER", "#%lu: jobs of one claim are out of order",
                t->serial);
    }
    client_claimed_again(t);
}

static void judge(struct ticket *t, const struct reply *r)
{
    if (t->is_claim) {
        judge_claim(t, r);
        return;
    }
    switch (t->kind) {
    case CMD_ENQUEUE:
        judge_enqueue(t, r);
        return;
    case CMD_SUCCEED:
    case CMD_FAIL:
    case CMD_RELEASE:
        report_judge(t, r);
        return;
    case CMD_SUCCEED_MANY:
        report_judge_many(t, r);
        return;
    case CMD_RENEW:
        report_judge_renewal(t, r);
        return;
    case CMD_CLAIM_JOB:
        client_job_claimed(t, r);
        return;
    case CMD_REMOVE:
        judge_remove(t, r);
        return;
    case CMD_REMOVE_WHERE:
        judge_sweep(t, r);
        return;
    case CMD_READ:
        judge_read(t, r);
        return;
    case CMD_EXPLAIN:
        judge_explain(t, r);
        return;
    case CMD_LIST:
        judge_page(t, r);
        return;
    case CMD_TERMINATED:
        grace_judge(t, r);
        return;
    case CMD_PATCH_WHERE:
    case CMD_RERUN_WHERE:
        bulk_judge(t, r);
        return;
    case CMD_PATCH:
        change_judge_patch(t, r);
        return;
    case CMD_CANCEL:
        change_judge_cancel(t, r);
        return;
    case CMD_RERUN:
        change_judge_rerun(t, r);
        return;
    case CMD_CRON_PUT:
        cron_was_put(t->sim, t);
        return;
    case CMD_PROGRESS:
    case CMD_RENEW_MANY:  /* its ticket is one of RENEW */
    case CMD_REPORT_MANY: /* its tickets are those of its reports */
    case CMD_COUNT:
    case CMD_RUNS:
    case CMD_QUEUES:
    case CMD_STATUS:
    case CMD_CLOCK_RESET:
    case CMD_METER:
    case CMD_RECORD:
    case CMD_EVENTS_PLACE:
    case CMD_CRON_READ:
    case CMD_CRON_SWITCH:
    case CMD_CRON_REMOVE:
    case CMD_POLICY_PUT:
    case CMD_POLICY_READ:
    case CMD_POLICY_SIMULATE:
    case CMD_POLICY_REMOVE:
    case CMD_FAILURES:
    case CMD_OPERATIONS:
    case CMD_OPERATION_STOP:
    case CMD_OPERATION_UNDO:
    case CMD_WORKERS:
    case CMD_WORKER_HUSH:
    case CMD_WORKER_NOTICE:
    case CMD_WORKER_STOP:
    case CMD_HISTORY_READ:
    case CMD_HISTORY_CLEAR:
    case CMD_CATEGORIES_PUT:
    case CMD_CATEGORIES_READ:
    case CMD_CATEGORIES_REMOVE:
    case CMD_QUEUE_PUT:
    case CMD_QUEUE_READ:
    case CMD_QUEUE_LIST:
    case CMD_BACKLOG:
    case CMD_BUDGET_PUT:
    case CMD_BUDGET_READ:
    case CMD_BUDGET_REMOVE:
    case CMD_QUEUE_REMOVE:
    case CMD_RETRY_SETTINGS_PUT:
    case CMD_RETRY_SETTINGS_READ:
    case CMD_PEEK:
    case CMD_WINDOW:
    case CMD_CANCEL_WHERE:
    case CMD_GROUP_READ:
    case CMD_GROUP_SEAL:
    case CMD_GROUP_REPRIORITIZED:
    case CMD_KV_PUT:
    case CMD_KV_READ:
    case CMD_KV_LIST:
    case CMD_KV_REMOVE:
    case CMD_ALIASES:
        return;
    }
}

static bool has_added(const struct reply *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (!r->enqueued[i].duplicate)
            return true;
    return false;
}

static bool has_stored(const struct ticket *t, const struct reply *r)
{
    switch (t->kind) {
    case CMD_ENQUEUE:
        return has_added(r);
    case CMD_SUCCEED:
    case CMD_FAIL:
    case CMD_RENEW:
    case CMD_RELEASE:
    case CMD_REMOVE:
    case CMD_PATCH:
    case CMD_CANCEL:
    case CMD_RERUN:
    case CMD_CLAIM_JOB:
        return !t->is_claim && !r->repeated &&
               !(t->together && t->kind != CMD_RENEW && report_may_be_repeated(t, 0));
    case CMD_SUCCEED_MANY:
        return report_stored_some(t, r);
    default:
        return false;
    }
}

void ticket_answer(void *ctx, const struct reply *r)
{
    struct ticket *t = ctx;
    struct sim *s = t->sim;
    PROMISE(!t->answered, "REPLY", "#%lu was answered twice", t->serial);
    PROMISE(!s->calling, "REPLY", "#%lu was answered from inside the call", t->serial);
    t->answered = true;
    list_unlink(&t->node);
    list_append(&s->answered, &t->node);
    trace_line("answer #%lu %s, %zu", t->serial,
               r->err.code == ERR_OK ? "ok" : err_wire(r->err.code), r->count);
    PROMISE(!is_of_the_store(r->err.code) || s->may_fail, "I5", "#%lu: the store fails", t->serial);
    if (r->err.code == ERR_OK)
        check_durable(t, has_stored(t, r));
    if (r->err.code == ERR_OK && s->settings.sync && has_stored(t, r))
        s->stored_at = t->at;
    if (t->then)
        t->then(t, r);
    else
        judge(t, r);
    client_react(s);
}
