/* SPDX-License-Identifier: Apache-2.0 */

/* What was asked and told, and whether it can be. */

#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "tasks.h"
#include "trace.h"

/* How late a deadline or the end of a claim may be noticed. */
#define SLACK_MS 5000

#define NONE ((struct str){0})

/* --- reading answers --- */

struct answer {
    struct arena arena;
    const struct document_node *root;
};

static void read_answer(struct answer *r, struct str body)
{
    struct document_list all;
    struct document_fault fault;
    *r = (struct answer){0};
    bool ok = document_read(body, DOCUMENT_JSON, &r->arena, &all, &fault) &&
              document_only(&all, &r->root, &fault);
    PROMISE(ok, "REPLY", "an answer is no JSON: %.*s", STR_ARG(body));
}

static int64_t number(const struct document_node *map, const char *key)
{
    const struct document_node *n = document_member(map, key);
    PROMISE(n && n->type == DOCUMENT_NUMBER, "REPLY", "an answer has no number %s", key);
    return strtoll(n->text.at, NULL, 10);
}

static instant when(const struct document_node *map, const char *key)
{
    instant t = INSTANT_NONE;
    struct str text = document_text(map, key);
    PROMISE(text.len == 0 || rfc3339_parse(text, &t), "REPLY", "no time: %.*s", STR_ARG(text));
    return t;
}

static bool is(struct str s, const char *text)
{
    return str_eq(s, str_from(text));
}

static struct str keep(struct tworld *w, struct str s)
{
    return arena_copy(&w->arena, s);
}

static struct ttask *task_of(struct tworld *w, struct str id)
{
    unsigned n = id.len > 8 ? (unsigned)strtoul(id.at, NULL, 10) : UINT32_MAX;
    PROMISE(n < w->task_count && is(id, w->tasks[n].id), "I2", "there is no task %.*s",
            STR_ARG(id));
    return &w->tasks[n];
}

/* From when on the server may be held to be in time. */
static instant in_time_from(const struct tworld *w, instant t)
{
    return (instant){instant_max(t, w->up_since).ms + SLACK_MS};
}

/* --- runs --- */

static bool is_resolved(struct str state)
{
    return !is(state, "pending") && !is(state, "running");
}

/* Somebody must have wanted it so, or time. */
static void check_end(struct tworld *w, const struct ttask *t, unsigned i,
                      const struct document_node *r)
{
    const struct trun *run = &t->runs[i];
    struct str end = document_text(r, "reasonResolved");
    instant resolved = when(r, "resolved"), taken_until = when(r, "takenUntil");
    if (is(end, "claim-expired")) {
        PROMISE(resolved.ms >= taken_until.ms, "I3", "run %u expired early", i);
        PROMISE(taken_until.ms >= run->until.ms, "I1", "run %u lost its reclaim", i);
        PROMISE(resolved.ms <= in_time_from(w, taken_until).ms, "I5", "run %u expired late", i);
    } else if (is(end, "deadline-exceeded")) {
        PROMISE(resolved.ms >= t->deadline.ms, "I4", "its deadline is not over");
        PROMISE(resolved.ms <= in_time_from(w, t->deadline).ms, "I5", "its deadline came late");
    } else if (is(end, "canceled")) {
        PROMISE(t->cancel, "I4", "run %u of task %u was canceled by nobody", i, t->number);
    } else if (!is(end, "worker-shutdown") || run->report.len) {
        /* Of a claim that its worker has left the server makes that. */
        PROMISE(str_eq(run->report, end), "I3", "run %u of task %u is %.*s, not %.*s", i, t->number,
                STR_ARG(end), STR_ARG(run->report));
    } else {
        PROMISE(!run->worker, "I3", "nobody reported run %u of task %u", i, t->number);
    }
}

static unsigned worker_of(const struct document_node *n)
{
    struct str id = document_text(n, "workerId");
    return id.len > 1 && id.at[0] == 'w' ? (unsigned)strtoul(id.at + 1, NULL, 10) : 0;
}

static void see_run(struct tworld *w, struct ttask *t, unsigned i, const struct document_node *r,
                    instant asked)
{
    struct trun *run = &t->runs[i];
    struct str state = document_text(r, "state");
    PROMISE(number(r, "runId") == i, "I3", "run %u has another number", i);
    PROMISE(is_resolved(state) || !r->next, "I3", "run %u of task %u is live beside another", i,
            t->number);
    if (run->worker && !is(state, "pending"))
        PROMISE(worker_of(r) == run->worker, "I3", "run %u of task %u is of w%u, not of w%u", i,
                t->number, worker_of(r), run->worker);
    if (is_resolved(state)) {
        struct str end = document_text(r, "reasonResolved");
        PROMISE(!run->end.len || str_eq(run->end, end), "I4", "run %u of task %u was %.*s", i,
                t->number, STR_ARG(run->end));
        if (!run->end.len)
            check_end(w, t, i, r);
        run->end = keep(w, end);
    } else if (is(state, "running")) {
        PROMISE(asked.ms <= in_time_from(w, when(r, "takenUntil")).ms, "I5",
                "run %u of task %u outlives its claim", i, t->number);
    }
}

/* --- the status of a task --- */

static void check_retries(const struct ttask *t, const struct document_node *s)
{
    /* Of claims that expired and that nobody is known to have reclaimed. */
    int64_t used = 0, free_most = 0;
    unsigned i = 0;
    for (const struct document_node *r = document_member(s, "runs")->first; r; r = r->next, i++) {
        struct str created = document_text(r, "reasonCreated");
        const struct trun *before = i ? &t->runs[i - 1] : NULL;
        bool left = before && is(before->end, "worker-shutdown") && !before->report.len;
        if (is(created, "rerun")) {
            used = free_most = 0;
        } else if (i && !left) {
            used++;
            free_most += before && is(before->end, "claim-expired") && !before->confirmed;
        }
    }
    int64_t told = t->retries - (int64_t)number(s, "retriesLeft");
    PROMISE(told <= t->retries && told <= used && told >= used - free_most, "I3",
            "task %u has used %ld of %d retries, and says %ld", t->number, (long)used, t->retries,
            (long)told);
}

static void see(struct ask *a, struct ttask *t, const struct document_node *s)
{
    const struct document_node *runs = document_member(s, "runs"), *last = runs->last;
    struct str state = document_text(s, "state");
    bool ends = is(state, "completed") || is(state, "failed") || is(state, "exception");
    unsigned i = 0;
    PROMISE(is(document_text(s, "taskId"), t->id), "REPLY", "this is task %u", t->number);
    PROMISE(runs->count <= TASK_RUNS, "I3", "task %u has %zu runs", t->number, runs->count);
    t->certain = true;
    for (const struct document_node *r = runs->first; r; r = r->next)
        see_run(a->w, t, i++, r, a->at);
    check_retries(t, s);
    PROMISE(!last || ends == is_resolved(document_text(last, "state")), "I4",
            "task %u is %.*s, its last run is not", t->number, STR_ARG(state));
    PROMISE(ends || a->at.ms <= in_time_from(a->w, t->deadline).ms, "I5",
            "task %u outlives its deadline", t->number);
    if (ends && !t->rerun)
        t->ended = keep(a->w, state);
}

/* With nothing under way: all that was acknowledged must show. */
static void see_at_rest(struct ask *a, struct ttask *t, const struct document_node *s)
{
    struct str state = document_text(s, "state");
    size_t count = document_member(s, "runs")->count;
    const struct document_node *r = document_member(s, "runs")->first;
    t->rerun = false;
    PROMISE(!t->ended.len || str_eq(t->ended, state), "I4", "task %u was %.*s and is %.*s",
            t->number, STR_ARG(t->ended), STR_ARG(state));
    see(a, t, s);
    for (unsigned i = 0; i < TASK_RUNS; i++, r = r ? r->next : NULL) {
        const struct trun *run = &t->runs[i];
        struct str is_now = r ? document_text(r, "state") : NONE;
        PROMISE(!run->end.len || (r && is_resolved(is_now)), "I1", "run %u of task %u is undone", i,
                t->number);
        PROMISE(!run->worker || (r && !is(is_now, "pending")), "I1",
                "the claim of run %u of task %u is lost", i, t->number);
        PROMISE(!run->worker || !is(is_now, "running") || when(r, "takenUntil").ms >= run->until.ms,
                "I1", "the reclaim of run %u of task %u is lost", i, t->number);
    }
    if (is(state, "unscheduled"))
        PROMISE(t->needs && !is(t->needs->ended, "completed") &&
                    !(t->needs_any && t->needs->ended.len),
                "I5", "task %u waits for nothing", t->number);
    t->pending = is(state, "pending") ? (int)count - 1 : -1;
    t->unscheduled = is(state, "unscheduled");
}

/* --- claims --- */

static void claimed(struct ask *a, const struct document_node *c)
{
    const struct document_node *s = document_member(c, "status");
    struct ttask *t = task_of(a->w, document_text(s, "taskId"));
    int64_t index = number(c, "runId");
    instant until = when(c, "takenUntil");
    PROMISE(index >= 0 && index < TASK_RUNS, "I3", "there is no run %ld", (long)index);
    struct trun *run = &t->runs[index];
    PROMISE(worker_of(c) == a->worker, "I3", "w%u got the claim of w%u", a->worker, worker_of(c));
    PROMISE(!run->worker || (a->kind == ASK_CLAIM && run->worker == a->worker), "I3",
            "run %ld of task %u was given to w%u and to w%u", (long)index, t->number, run->worker,
            a->worker);
    PROMISE(a->turned_at.ms < t->deadline.ms, "I5", "task %u was given out after its deadline",
            t->number);
    PROMISE(until.ms <= instant_add(a->w->now, CLAIM_SPAN).ms, "I3", "a claim is too long");
    run->worker = a->worker;
    run->until = instant_max(run->until, until);
    see(a, t, s);
    a->given++;
}

/* Whether that claim, as its worker knows it, may be over by now. */
static bool may_be_over(const struct ask *a)
{
    const struct trun *run = &a->task->runs[a->run];
    int64_t now = a->w->now.ms;
    return now >= run->until.ms || now >= a->task->deadline.ms || a->task->cancel ||
           run->report.len || run->end.len;
}

static void reclaimed(struct ask *a, int status, const struct document_node *r)
{
    struct trun *run = &a->task->runs[a->run];
    if (status != 200) {
        PROMISE(status == 409 && may_be_over(a), "I3", "a good claim was not renewed: %d", status);
        return;
    }
    instant until = when(r, "takenUntil");
    PROMISE(run->longer || a->turned_at.ms < run->until.ms, "I3",
            "a claim was renewed after its end");
    PROMISE(until.ms >= instant_add(a->turned_at, CLAIM_SPAN).ms, "I3", "a claim is too short");
    run->confirmed = true;
    run->until = instant_max(run->until, until);
    see(a, a->task, document_member(r, "status"));
}

static void reported(struct ask *a, int status, const struct document_node *r)
{
    const struct trun *run = &a->task->runs[a->run];
    bool first = str_eq(run->report, a->end);
    if (status != 200) {
        PROMISE(status == 409 && (!first || may_be_over(a)), "I3", "a report was refused: %d",
                status);
        return;
    }
    see(a, a->task, document_member(r, "status"));
    PROMISE(str_eq(run->end, a->end), "I3", "%.*s was acknowledged of a run that is %.*s",
            STR_ARG(a->end), STR_ARG(run->end));
}

/* Whether a worker that has no answer yet may have that run. */
static bool others_ask(const struct ask *a)
{
    for (const struct list *node = a->w->asks.next; node != &a->w->asks; node = node->next) {
        const struct ask *other = LIST_OF(node, struct ask, node);
        if (other->kind == ASK_WORK || (other->kind == ASK_CLAIM && other->task == a->task))
            return true;
    }
    return a->w->strangers;
}

static void task_claimed(struct ask *a, int status, const struct document_node *r)
{
    const struct ttask *t = a->task;
    if (status == 200) {
        claimed(a, r);
        return;
    }
    bool over = a->count || t->cancel || t->rerun || a->w->now.ms >= t->deadline.ms ||
                t->runs[a->run].worker || t->runs[a->run].end.len || others_ask(a);
    PROMISE(status == 409 || (status == 404 && !a->message), "REPLY", "claimTask: %d", status);
    PROMISE(!a->message || over, "I5", "run %u of task %u has a message and cannot be claimed",
            a->run, t->number);
}

/* --- messages --- */

static struct tmessage *message_of(struct tworld *w, struct str id)
{
    return strmap_get(&w->by_message, id);
}

/* What lies between the tags, and *at moves behind it. */
static struct str between(const char **at, const char *tag)
{
    char open[40], close[40];
    snprintf(open, sizeof open, "<%s>", tag);
    snprintf(close, sizeof close, "</%s>", tag);
    const char *from = strstr(*at, open);
    const char *to = from ? strstr(from, close) : NULL;
    PROMISE(to, "REPLY", "a message has no %s", tag);
    *at = to;
    from += strlen(open);
    return (struct str){from, (size_t)(to - from)};
}

static void copy(char to[40], struct str s)
{
    PROMISE(s.len < 40, "REPLY", "too long: %.*s", STR_ARG(s));
    memcpy(to, s.at, s.len);
    to[s.len] = '\0';
}

static struct tmessage *new_message(struct ask *a, struct str id, struct ttask *t, unsigned run)
{
    struct tworld *w = a->w;
    PROMISE(w->message_count < MESSAGES_MAX, "REPLY", "too many messages");
    for (unsigned i = 0; i < w->message_count; i++) {
        const struct tmessage *m = &w->messages[i];
        PROMISE(m->task != t || m->run != run || m->box != a->box || m->deleted != NOT_DELETED ||
                    w->now.ms >= t->deadline.ms,
                "I2", "run %u of task %u has a second message", run, t->number);
    }
    struct tmessage *m = &w->messages[w->message_count++];
    *m = (struct tmessage){.task = t, .run = run, .box = a->box};
    copy(m->id, id);
    strmap_put(&w->by_message, id, m);
    return m;
}

/* Two that are under way for longer than the message is invisible may both be given it, and be
 * answered in any order. */
static void note_handout(struct ask *a, struct tmessage *m, int64_t count, struct str receipt)
{
    bool late = a->at.ms < m->asked.ms;
    PROMISE(count != m->count && (count > m->count || late), "I1",
            "message %u of task %u comes for the %ldth time after %ld", m->run, m->task->number,
            (long)count, (long)m->count);
    if (count < m->count)
        return;
    PROMISE(a->at.ms >= m->visible.ms, "I3", "a message came while it was invisible");
    memcpy(m->before, m->receipt, sizeof m->before);
    copy(m->receipt, receipt);
    m->count = count;
    m->asked = a->at;
    m->visible = instant_add(a->at, a->timeout);
}

static void see_message(struct ask *a, const char **at)
{
    struct tworld *w = a->w;
    struct answer r;
    struct str id = between(at, "MessageId"), receipt = between(at, "PopReceipt");
    struct str count = between(at, "DequeueCount"), text = between(at, "MessageText"), json;
    struct arena arena = {0};
    PROMISE(base64_read(text, &arena, &json), "REPLY", "the text of a message is no Base64");
    read_answer(&r, json);
    struct ttask *t = task_of(w, document_text(r.root, "taskId"));
    unsigned run = (unsigned)number(r.root, "runId");
    struct tmessage *m = message_of(w, id);
    if (!m)
        m = new_message(a, id, t, run);
    PROMISE(m->task == t && m->run == run && m->box == a->box, "I2", "a message is another one");
    PROMISE(m->deleted != DELETED, "I1", "message %u of task %u comes after it was deleted", run,
            t->number);
    PROMISE(a->at.ms < t->deadline.ms, "I5", "a message outlives the deadline of its task");
    m->seen = true;
    a->given++;
    note_handout(a, m, strtoll(count.at, NULL, 10), receipt);
    arena_fini(&arena);
    arena_fini(&r.arena);
}

static void polled(struct ask *a, int status, struct str body)
{
    char *text = strndup(body.at, body.len);
    must(text);
    const char *at = text;
    PROMISE(status == 200, "REPLY", "a poll URL answered %d: %s", status, text);
    while (strstr(at, "<QueueMessage>"))
        see_message(a, &at);
    PROMISE(a->given <= a->count, "REPLY", "too many messages");
    free(text);
    a->w->given = a->given;
}

static void deleted(struct ask *a, int status)
{
    struct tmessage *m = a->message;
    enum certainty_of_deletion before = (enum certainty_of_deletion)a->given;
    bool stale = strcmp(a->receipt, m->receipt) != 0;
    if (status == 204) {
        PROMISE(!a->stale, "I3", "a stale receipt deleted a message");
        m->deleted = DELETED;
        return;
    }
    bool late = a->w->now.ms >= m->task->deadline.ms;
    bool again = a->w->now.ms >= m->visible.ms || a->w->hidden_until[m->box].ms > m->visible.ms;
    PROMISE(status == 404 || status == 400, "REPLY", "a message was not deleted: %d", status);
    if (status == 404)
        PROMISE(late || before != NOT_DELETED || m->deleted == DELETED, "I2",
                "message %u of task %u is lost", m->run, m->task->number);
    else
        PROMISE(stale || a->stale || again, "I3", "a good receipt is refused");
    if (status == 400 && m->deleted == MAYBE_DELETED)
        m->deleted = before;
}

static void got_urls(struct ask *a, const struct document_node *r)
{
    static const unsigned places[TASK_LEVELS] = {2, 6}; /* of the priorities of tasks */
    const struct document_node *q = document_member(r, "queues")->first;
    for (unsigned i = 0, level = 0; q && level < TASK_LEVELS; i++, q = q->next) {
        if (i != places[level])
            continue;
        unsigned box = a->queue * TASK_LEVELS + level++;
        static const char *const names[] = {"signedPollUrl", "signedDeleteUrl"};
        for (int k = 0; k < 2; k++) {
            struct str url = document_text(q, names[k]);
            PROMISE(url.len > 16 && memcmp(url.at, "http://localhost", 16) == 0, "REPLY", "no URL");
            snprintf(a->w->urls[box][k], sizeof a->w->urls[box][k], "%.*s", (int)url.len - 16,
                     url.at + 16);
        }
    }
    a->w->urls_at[a->queue] = a->w->now;
}

/* --- answers --- */

/* Of methods that change a task: as it is then. */
static void changed(struct ask *a, int status, const struct document_node *r)
{
    const struct ttask *t = a->task;
    bool late = a->w->now.ms >= t->deadline.ms;
    bool runs_out = a->kind == ASK_RERUN && t->runs[49].end.len;
    bool refusable = late || runs_out || (a->kind == ASK_PRIORITY && (t->ended.len || t->rerun)) ||
                     t->cancel || a->kind == ASK_PRIORITY;
    if (status == 200)
        see(a, a->task, document_member(r, "status"));
    else
        PROMISE(status == 409 && refusable, "REPLY", "a change answered %d", status);
}

static void worked(struct ask *a, int status, const struct document_node *r)
{
    const struct document_node *tasks = document_member(r, "tasks");
    PROMISE(status == 200 && tasks && tasks->count <= a->count, "REPLY", "claimWork: %d", status);
    for (const struct document_node *c = tasks->first; c; c = c->next)
        claimed(a, c);
    a->w->given = a->given;
}

/* One whose answer took until its deadline may not exist. */
static void created(struct ask *a, int status, const struct document_node *r)
{
    if (status == 200)
        see(a, a->task, document_member(r, "status"));
    else
        PROMISE(status == 400 && a->w->now.ms >= a->task->deadline.ms, "REPLY", "createTask: %d",
                status);
}

static void judge(struct ask *a, int status, const struct document_node *r)
{
    switch (a->kind) {
    case ASK_CREATE:
        created(a, status, r);
        break;
    case ASK_WORK:
        worked(a, status, r);
        break;
    case ASK_CLAIM:
        task_claimed(a, status, r);
        break;
    case ASK_RECLAIM:
        reclaimed(a, status, r);
        break;
    case ASK_REPORT:
        reported(a, status, r);
        break;
    case ASK_STATUS:
        PROMISE(status == 200 || (status == 404 && !a->task->certain), "I2", "task %u is lost: %d",
                a->task->number, status);
        a->task->never = status == 404 && a->w->resting;
        if (status == 200 && a->w->resting)
            see_at_rest(a, a->task, document_member(r, "status"));
        else if (status == 200)
            see(a, a->task, document_member(r, "status"));
        break;
    case ASK_PENDING:
        PROMISE(status == 200, "REPLY", "pendingTasks: %d", status);
        a->w->given = (uint64_t)number(r, "pendingTasks");
        break;
    case ASK_URLS:
        PROMISE(status == 200, "REPLY", "pollTaskUrls: %d", status);
        got_urls(a, r);
        break;
    default:
        changed(a, status, r);
    }
}

void tledger_answer(struct ask *a, int status, struct str body)
{
    struct answer r;
    if (status >= 500) {
        PROMISE(a->w->faults, "I5", "answered %d: %.*s", status, STR_ARG(body));
        tledger_lost(a);
    } else if (a->kind == ASK_POLL) {
        polled(a, status, body);
    } else if (a->kind == ASK_DELETE) {
        deleted(a, status);
    } else {
        read_answer(&r, body);
        judge(a, status, r.root);
        arena_fini(&r.arena);
    }
}

void tledger_lost(struct ask *a)
{
    struct tworld *w = a->w;
    if (a->kind == ASK_WORK || a->kind == ASK_CLAIM)
        w->strangers = true;
    if (a->kind == ASK_RECLAIM)
        a->task->runs[a->run].longer = true;
    if (a->kind == ASK_POLL)
        w->hidden_until[a->box] =
            instant_max(w->hidden_until[a->box], instant_add(a->at, a->timeout));
}

/* --- at rest --- */

static void check_messages(struct tworld *w, unsigned box, instant from)
{
    for (unsigned i = 0; i < w->message_count; i++) {
        const struct tmessage *m = &w->messages[i];
        bool due = m->box == box && m->deleted == NOT_DELETED && m->task->deadline.ms > w->now.ms &&
                   m->expected;
        PROMISE(!due || m->seen || w->hidden_until[box].ms > from.ms, "I2",
                "the message of run %u of task %u does not come again", m->run, m->task->number);
    }
}

/* Every pending task has a message, which is seen now or was handed out, unless somebody deleted
 * it: then it gets no other one for that run. */
static void check_pending(struct tworld *w, const struct ttask *t)
{
    bool found = false;
    for (unsigned i = 0; i < w->message_count; i++) {
        const struct tmessage *m = &w->messages[i];
        found = found || (m->task == t && (int)m->run == t->pending);
    }
    for (unsigned i = 0; i < TASK_LEVELS; i++)
        found = found || w->hidden_until[t->queue * TASK_LEVELS + i].ms > w->now.ms;
    PROMISE(found, "I5", "no message leads to task %u", t->number);
}

static void look(struct tworld *w, unsigned box)
{
    instant from = w->now;
    for (unsigned i = 0; i < w->message_count; i++) {
        w->messages[i].seen = false;
        w->messages[i].expected = w->messages[i].visible.ms <= from.ms;
    }
    do {
        w->given = 0;
        actor_poll(w, box, 32, 1 + (unsigned)tasks_draw(w, 300));
        tasks_settle(w);
    } while (w->given);
    check_messages(w, box, from);
}

static void read_all(struct tworld *w)
{
    uint64_t pending[TASK_QUEUES] = {0};
    w->resting = true;
    for (unsigned i = 0; i < w->task_count; i++)
        if (!w->tasks[i].never)
            actor_status(w, &w->tasks[i]);
    tasks_settle(w);
    w->resting = false;
    for (unsigned i = 0; i < w->task_count; i++)
        pending[w->tasks[i].queue] += !w->tasks[i].never && w->tasks[i].pending >= 0;
    for (unsigned i = 0; i < TASK_QUEUES; i++) {
        actor_pending(w, i);
        tasks_settle(w);
        PROMISE(w->given == pending[i], "I2", "%lu tasks are pending, it says %lu", pending[i],
                w->given);
    }
}

/* No task ends by time while this goes on. */
void tledger_audit(struct tworld *w)
{
    bool faults = w->faults;
    tasks_settle(w);
    w->faults = false;
    tasks_pass(w, (span){SLACK_MS + 1000});
    tasks_settle(w);
    read_all(w);
    for (unsigned i = 0; i < TASK_QUEUES * TASK_LEVELS; i++)
        look(w, i);
    for (unsigned i = 0; i < w->task_count; i++)
        if (!w->tasks[i].never && w->tasks[i].pending >= 0)
            check_pending(w, &w->tasks[i]);
    w->faults = faults;
}

/* --- the end --- */

static void report_all(struct tworld *w)
{
    for (unsigned i = 0; i < w->task_count; i++)
        for (unsigned run = 0; run < TASK_RUNS; run++)
            if (w->tasks[i].runs[run].worker && !w->tasks[i].runs[run].end.len &&
                !w->tasks[i].runs[run].report.len)
                actor_report(w, &w->tasks[i], run, STR("completed"));
    tasks_settle(w);
}

static void work_all(struct tworld *w, unsigned queue)
{
    do {
        report_all(w); /* it may free others */
        w->given = 0;
        actor_work(w, queue, 1, 32);
        tasks_settle(w);
    } while (w->given);
}

/* Who polls finds every task by its message. */
static void poll_all(struct tworld *w, unsigned queue)
{
    for (unsigned i = 0; i < TASK_LEVELS; i++)
        look(w, queue * TASK_LEVELS + i);
    for (unsigned i = 0; i < w->message_count; i++) {
        struct tmessage *m = &w->messages[i];
        if (m->box / TASK_LEVELS == queue && (int)m->run == m->task->pending)
            actor_claim(w, m->task, m->run, 1, NULL);
    }
    tasks_settle(w);
    report_all(w);
}

static unsigned left(struct tworld *w)
{
    unsigned n = 0;
    read_all(w);
    for (unsigned i = 0; i < w->task_count; i++) {
        struct ttask *t = &w->tasks[i];
        n += !t->never && !t->ended.len;
        if (!t->never && t->unscheduled && t->needs->ended.len)
            actor_end(w, t, true);
    }
    tasks_settle(w);
    return n;
}

/* Whoever asked for work until there was none has left none. */
static void check_idle(struct tworld *w, unsigned queue)
{
    read_all(w);
    for (unsigned i = 0; i < w->task_count; i++)
        PROMISE(w->tasks[i].queue != queue || w->tasks[i].never || w->tasks[i].pending < 0, "I5",
                "task %u waits though a worker does", i);
}

void tledger_finish(struct tworld *w)
{
    w->faults = false;
    tasks_settle(w);
    for (unsigned round = 0; left(w); round++) {
        PROMISE(round < 20, "I5", "tasks are forgotten");
        work_all(w, 0);
        check_idle(w, 0);
        poll_all(w, 1);
        if (round % 2)
            tasks_pass(w, CLAIM_SPAN);
    }
}
