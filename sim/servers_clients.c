/* SPDX-License-Identifier: Apache-2.0 */

/* Clients of the simulated servers, and the ledger that judges what they are told. */

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "servers_internal.h"
#include "trace.h"

/* Without an answer. */
#define TICKETS_MAX 12
#define PAGE        200
/* Until all is done that can be. */
#define FINISH_MS ((int64_t)600 * 1000)

/* --- what counts --- */

/* Any answer, and any delivery. */
static void judge_moment(const struct process *p)
{
    int64_t lease = sworld->nodes[p->node].lease.ms * MS;
    int64_t left = p->leased_from.ns + lease - pg_now().ns;
    PROMISE(p->answers, "LEASE", "server %d answers without the jobs", p->node);
    PROMISE(left > 0, "LEASE", "server %d answers %ld ms after its lease", p->node,
            (long)(-left / MS));
    PROMISE(!sworld->alike || sworld->pg.falls || p->epoch >= sworld->taken, "LEASE",
            "server %d answers in epoch %lu, and %lu was taken", p->node, p->epoch, sworld->taken);
    PROMISE(!p->ahead_since || sworld->now - p->ahead_since <= 2 * lease, "LOST",
            "server %d answers, and PostgreSQL has lost what it had acknowledged %ld ms ago",
            p->node, (long)((sworld->now - p->ahead_since) / MS));
    sworld->tally.answers++;
}

/* The last batch of which an answer may tell; 0: PostgreSQL has lost it meanwhile. */
static uint64_t bound_of(struct process *p)
{
    const struct pstate *n = &sworld->pg.now;
    uint64_t durable = copy_durable(p->store);
    const struct prow *row = pdouble_row(&sworld->pg, durable);
    bool known = false;
    for (unsigned i = 0; i < n->epoch_count; i++)
        known |= n->epochs[i].epoch == p->epoch;
    p->acked = durable;
    return known && row && row->epoch <= p->epoch ? durable : 0;
}

/* One of the inbox that nobody has taken yet may be unknown. */
static bool must_be_there(const struct sjob *j)
{
    return j->there == SURE && j->there_by != UINT64_MAX;
}

static struct sjob *job_of(const struct job *job)
{
    unsigned serial = 0;
    char text[32];
    snprintf(text, sizeof text, "%.*s", STR_ARG(job->payload));
    must(sscanf(text, "{\"n\":%u}", &serial) == 1);
    PROMISE(serial < sworld->job_count, "I2", "job %u never was", serial);
    struct sjob *j = &sworld->jobs[serial];
    PROMISE(j->there != NEVER, "I2", "job %u was rolled back, and is there", serial);
    return j;
}

/* It was seen in an answer. */
static void note_there(struct sjob *j, struct id id, uint64_t bound)
{
    j->id = id;
    if (bound && (j->there != SURE || bound < j->there_by)) {
        j->there = SURE;
        j->there_by = bound;
    }
}

static void note_completed(struct sjob *j, uint64_t token, uint64_t bound)
{
    j->completed_token = token;
    if (bound && j->completed != SURE) {
        j->completed = SURE;
        j->completed_by = bound;
    }
}

/* --- answers --- */

static void judge_handouts(const struct reply *r, uint64_t bound)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct handout *h = &r->handouts[i];
        struct sjob *j = job_of(&h->job);
        PROMISE(j->completed != SURE, "I3", "job %ld is completed, and handed out",
                (long)(j - sworld->jobs));
        note_there(j, h->job.id, bound);
        j->token = h->token;
    }
}

static void judge_success(const struct sticket *t, const struct reply *r, uint64_t bound)
{
    struct sjob *j = &sworld->jobs[t->serial];
    bool before = j->completed == SURE;
    if (r->err.code == ERR_OK) {
        PROMISE(!before || (r->repeated && j->completed_token == t->token), "I3",
                "job %u is completed twice", t->serial);
        note_completed(j, t->token, bound);
    } else if (r->err.code == ERR_STALE || r->err.code == ERR_NOT_FOUND) {
        PROMISE(!before || j->completed_token != t->token, "I3",
                "the report of job %u was accepted, and is not known: %s", t->serial, r->err.msg);
        PROMISE(r->err.code != ERR_NOT_FOUND || !must_be_there(j), "I2", "job %u is lost",
                t->serial);
    }
}

static void see(struct sjob *j, const struct job *job, uint64_t bound)
{
    PROMISE(j->completed != SURE || job->state.status == STATUS_COMPLETED, "I3",
            "job %ld was completed, and is %s", (long)(j - sworld->jobs),
            lifecycle_status_name(job->state.status));
    note_there(j, job->id, bound);
    j->seen = true;
    if (job->state.status != STATUS_COMPLETED)
        sworld->unfinished++;
}

static void judge_list(const struct reply *r, uint64_t bound)
{
    for (size_t i = 0; i < r->count; i++) {
        see(job_of(&r->jobs[i]), &r->jobs[i], bound);
        sworld->list_after = r->jobs[i].id;
    }
    sworld->listed = !r->more;
}

static void judge(const struct sticket *t, const struct reply *r, uint64_t bound)
{
    bool ok = r->err.code == ERR_OK;
    switch (t->kind) {
    case ASK_ENQUEUE_JOB:
        if (ok)
            note_there(&sworld->jobs[t->serial], r->enqueued[0].job.id, bound);
        break;
    case ASK_CLAIM_SOME:
        if (ok)
            judge_handouts(r, bound);
        break;
    case ASK_SUCCEED:
        judge_success(t, r, bound);
        break;
    case ASK_READ:
        PROMISE(r->err.code != ERR_NOT_FOUND || !must_be_there(&sworld->jobs[t->serial]), "I2",
                "job %u is lost", t->serial);
        if (ok)
            see(&sworld->jobs[t->serial], &r->jobs[0], bound);
        break;
    case ASK_LIST:
        if (ok)
            judge_list(r, bound);
        break;
    case ASK_RENEW:
    case ASK_EVENTS_PAGE:
        break;
    }
}

static void on_answer(void *ctx, const struct reply *r)
{
    struct sticket *t = ctx;
    struct process *p = t->process;
    if (!p)
        return;
    judge_moment(p);
    trace_line("%d answers %d about %u: %s", p->node, t->kind, t->serial,
               r->err.code ? err_wire(r->err.code) : "ok");
    judge(t, r, r->err.code == ERR_OK ? bound_of(p) : 0);
    list_unlink(&t->node);
    t->process = NULL;
}

static void judge_event(const struct job_event *e, uint64_t bound)
{
    must(e->number < SEVENTS_MAX);
    struct sevent *k = &sworld->events[e->number];
    if (k->by)
        PROMISE(id_eq(k->job, e->id) && k->kind == (int)e->event && k->run == e->run, "EVENTS",
                "event %lu is another now", e->number);
    else if (bound)
        *k = (struct sevent){e->id, (int)e->event, e->run, bound};
}

static void on_events(void *ctx, const struct event_page *page)
{
    struct sticket *t = ctx;
    struct process *p = t->process;
    if (!p)
        return;
    judge_moment(p);
    list_unlink(&t->node);
    t->process = NULL;
    if (page->err.code != ERR_OK)
        return;
    uint64_t bound = bound_of(p);
    PROMISE(page->missed_to == 0, "EVENTS", "events up to %lu are gone", page->missed_to);
    for (size_t i = 0; i < page->count; i++) {
        PROMISE(page->events[i].number == t->since + 1 + i, "EVENTS", "event %lu follows %lu",
                page->events[i].number, t->since + i);
        judge_event(&page->events[i], bound);
    }
    if (bound && t->since == sworld->events_since)
        sworld->events_since = t->since + page->count;
    sworld->events_ended = !page->more;
}

/* --- asking --- */

static struct sticket *ticket_of(enum sask kind, struct process *p)
{
    struct sticket *t = ALLOC(struct sticket);
    t->kind = kind;
    t->process = p;
    list_append(&sworld->tickets, &t->node);
    fiber_wake(p->fibers[F_MAIN], sworld->now + (int64_t)servers_draw(MS));
    return t;
}

static void submit_enqueue(struct process *p, struct sticket *t, struct id id, uint64_t receipt,
                           reply_fn done, void *ctx)
{
    char text[32];
    int n = snprintf(text, sizeof text, "{\"n\":%u}", t->serial);
    struct enqueue spec = {.id = id,
                           .receipt = receipt,
                           .queue = STR("q"),
                           .type = STR("t"),
                           .payload = {text, (size_t)n},
                           .priority = JOB_PRIORITY_DEFAULT,
                           .ready_at = INSTANT_NONE,
                           .retry_limit = RETRY_LIMIT_DEFAULT,
                           .completed_retention = RETENTION_DEFAULT,
                           .dead_retention = RETENTION_DEFAULT};
    struct command c = {
        .kind = CMD_ENQUEUE, .enqueue = {.specs = &spec, .count = 1}, .done = done, .ctx = ctx};
    backend_submit(p->backend, &c);
}

static void submit_claim(struct process *p, struct sticket *t)
{
    struct claim_spec spec = {.count = 1 + (uint32_t)servers_draw(4),
                              .worker = STR("worker"),
                              .lease = {200 + (int64_t)servers_draw(4000)},
                              .wait = {(int64_t)servers_draw(500)},
                              .done = on_answer,
                              .ctx = t};
    backend_claim(p->backend, &spec);
}

static void submit_events(struct process *p, struct sticket *t)
{
    struct event_read_spec spec = {
        .since = t->since, .limit = 1 + (uint32_t)servers_draw(PAGE), .done = on_events, .ctx = t};
    backend_events(p->backend, &spec);
}

static void submit(struct process *p, struct sticket *t)
{
    struct command c = {.done = on_answer, .ctx = t};
    struct run_ref run = {.id = t->id, .token = t->token};
    t->submitted = true;
    switch (t->kind) {
    case ASK_ENQUEUE_JOB:
        submit_enqueue(p, t, (struct id){0}, 0, on_answer, t);
        return;
    case ASK_CLAIM_SOME:
        submit_claim(p, t);
        return;
    case ASK_EVENTS_PAGE:
        submit_events(p, t);
        return;
    case ASK_SUCCEED:
        c.kind = CMD_SUCCEED;
        c.run = run;
        break;
    case ASK_RENEW:
        c.kind = CMD_RENEW;
        c.renew.run = run;
        c.renew.lease.ms = 1000;
        break;
    case ASK_READ:
        c.kind = CMD_READ;
        c.read.id = t->id;
        break;
    case ASK_LIST:
        c.kind = CMD_LIST;
        c.list.from = (struct id_place){!id_is_none(t->id), t->id};
        c.list.limit = PAGE;
        break;
    }
    backend_submit(p->backend, &c);
}

void clients_submit(struct process *p)
{
    for (struct list *at = sworld->tickets.next, *next; at != &sworld->tickets; at = next) {
        next = at->next;
        struct sticket *t = LIST_OF(at, struct sticket, node);
        if (t->process == p && !t->submitted)
            submit(p, t);
    }
}

static void on_inbox(void *ctx, const struct reply *r)
{
    struct process *p = ctx;
    (void)r; /* what was refused stays where it is */
    p->inbox.unanswered--;
}

void clients_submit_inbox(struct process *p)
{
    if (!p->inbox.read)
        return;
    p->inbox.read = false;
    for (size_t i = 0; i < p->inbox.count; i++) {
        const struct pinbox *row = &p->inbox.rows[i];
        struct sticket t = {.serial = row->serial};
        p->inbox.unanswered++;
        submit_enqueue(p, &t, row->job, (uint64_t)row->number, on_inbox, p);
    }
}

void clients_lost(const struct process *p)
{
    for (struct list *at = sworld->tickets.next, *next; at != &sworld->tickets; at = next) {
        next = at->next;
        struct sticket *t = LIST_OF(at, struct sticket, node);
        if (t->process != p)
            continue;
        list_unlink(&t->node);
        t->process = NULL; /* what it had asked for may have been done */
    }
}

void clients_fell_back(uint64_t seq)
{
    struct sworld *w = sworld;
    for (unsigned i = 0; i < w->job_count; i++) {
        struct sjob *j = &w->jobs[i];
        if (j->there == SURE && j->there_by > seq)
            j->there = UNSURE;
        if (j->completed == SURE && j->completed_by > seq)
            j->completed = UNSURE;
    }
    for (uint64_t n = 0; n < SEVENTS_MAX; n++)
        if (w->events[n].by > seq)
            w->events[n].by = 0;
    while (w->events_since && w->events[w->events_since].by == 0)
        w->events_since--;
}

/* --- what clients do --- */

static struct process *some_owner(void)
{
    int first = (int)servers_draw(NODES);
    for (int i = 0; i < NODES; i++) {
        struct process *p = sworld->nodes[(first + i) % NODES].process;
        if (p && p->answers)
            return p;
    }
    return NULL;
}

/* A transaction of an application. */
static void enqueue_by_sql(void)
{
    struct sworld *w = sworld;
    bool rollback = servers_chance(30);
    struct sjob *j = &w->jobs[w->job_count];
    int64_t ms = 1700000000000 + w->now / MS;
    struct id id = {(uint64_t)ms << 16, w->job_count + 1};
    if (!pdouble_enqueue(&w->pg, w->now, id, w->job_count, rollback))
        return;
    trace_line("job %u by SQL, %s", w->job_count, rollback ? "rolled back" : "committed");
    *j = (struct sjob){.there = rollback ? NEVER : SURE,
                       .there_by = UINT64_MAX,
                       .id = rollback ? (struct id){0} : id};
    w->job_count++;
}

static struct sjob *some_job(void)
{
    const struct sworld *w = sworld;
    unsigned count = w->job_count, newest = count > 30 && servers_chance(80) ? 30 : count;
    struct sjob *j = count ? &w->jobs[count - 1 - servers_draw(newest)] : NULL;
    return j && !id_is_none(j->id) ? j : NULL;
}

static void ask_about_job(enum sask kind, struct process *p)
{
    struct sjob *j = some_job();
    if (!j || (kind != ASK_READ && !j->token))
        return;
    /* Again, perhaps of a server that does not know of it, by the token that was accepted. */
    bool again = kind == ASK_SUCCEED && j->completed_token && servers_chance(50);
    struct sticket *t = ticket_of(kind, p);
    t->serial = (unsigned)(j - sworld->jobs);
    t->id = j->id;
    t->token = again ? j->completed_token : j->token;
}

static void ask_for_events(struct process *p)
{
    struct sticket *t = ticket_of(ASK_EVENTS_PAGE, p);
    uint64_t to = sworld->events_since;
    t->since = to && servers_chance(20) ? servers_draw(to) : to;
}

static void ask(struct process *p)
{
    uint64_t what = servers_draw(100);
    if (what < 30 && !sworld->healing && sworld->job_count < SJOBS_MAX)
        ticket_of(ASK_ENQUEUE_JOB, p)->serial = sworld->job_count++;
    else if (what < 55)
        ticket_of(ASK_CLAIM_SOME, p);
    else if (what < 80)
        ask_about_job(ASK_SUCCEED, p);
    else if (what < 84)
        ask_about_job(ASK_RENEW, p);
    else if (what < 92)
        ask_about_job(ASK_READ, p);
    else
        ask_for_events(p);
}

static size_t tickets(void)
{
    size_t n = 0;
    for (const struct list *at = sworld->tickets.next; at != &sworld->tickets; at = at->next)
        n++;
    return n;
}

void clients_step(void)
{
    struct process *p = some_owner();
    if (!sworld->healing && servers_chance(15) && sworld->job_count < SJOBS_MAX)
        enqueue_by_sql();
    for (size_t n = 1 + servers_draw(3); p && n-- > 0 && tickets() < TICKETS_MAX;)
        ask(p);
}

/* --- the end --- */

static bool is_owner(unsigned number)
{
    const struct process *p = some_owner();
    return p && p->number == number;
}

/* Pages of all jobs, by one and the same owner. */
static bool list_all(void)
{
    struct sworld *w = sworld;
    struct process *p = some_owner();
    w->list_after = (struct id){0};
    w->listed = false;
    w->unfinished = 0;
    for (unsigned i = 0; i < w->job_count; i++)
        w->jobs[i].seen = false;
    for (unsigned number = p ? p->number : 0; is_owner(number) && !w->listed;) {
        ticket_of(ASK_LIST, p)->id = w->list_after;
        while (tickets() > 0)
            servers_pass(5 * MS);
    }
    return w->listed;
}

static bool read_all_events(void)
{
    struct sworld *w = sworld;
    struct process *p = some_owner();
    w->events_since = 0;
    w->events_ended = false;
    for (unsigned number = p ? p->number : 0; is_owner(number) && !w->events_ended;) {
        ticket_of(ASK_EVENTS_PAGE, p)->since = w->events_since;
        while (tickets() > 0)
            servers_pass(5 * MS);
    }
    return w->events_ended;
}

/* Workers take what is there and report at once. */
static void work(void)
{
    struct sworld *w = sworld;
    struct process *p = some_owner();
    for (unsigned i = 0; p && i < w->job_count; i++) {
        const struct sjob *j = &w->jobs[i];
        if (j->completed == SURE || !j->token || tickets() >= TICKETS_MAX)
            continue;
        struct sticket *t = ticket_of(ASK_SUCCEED, p);
        t->serial = i;
        t->id = j->id;
        t->token = j->token;
        w->jobs[i].token = 0;
    }
    for (int i = 0; p && i < 3; i++)
        ticket_of(ASK_CLAIM_SOME, p);
}

void clients_finish(void)
{
    struct sworld *w = sworld;
    int64_t limit = w->now + FINISH_MS * MS;
    for (bool done = false; !done;) {
        PROMISE(w->now < limit, "I5", "%u jobs do not come to their end", w->unfinished);
        work();
        servers_pass(200 * MS);
        while (tickets() > 0)
            servers_pass(20 * MS);
        bool taken = w->pg.now.inbox_count == 0; /* before the list, which must have them */
        done = list_all() && w->unfinished == 0 && taken;
    }
    for (unsigned i = 0; i < w->job_count; i++)
        PROMISE(w->jobs[i].there != SURE || w->jobs[i].seen, "I2", "job %u is lost", i);
    while (!read_all_events()) {
        PROMISE(w->now < limit, "I5", "nobody tells the events");
        servers_pass(200 * MS);
    }
}
