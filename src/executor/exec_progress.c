/* SPDX-License-Identifier: Apache-2.0 */

/* How far a pod is, as the progress of its job: "waiting: 0/3 nodes are available". Each phase is
 * told at once, and as an event. What a pod of one phase waits for may change often: that is looked
 * at again after 30 s, and for one that is being initialized 10 s later each time (seed 000). The
 * watch shows it, so that the cluster is not asked. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "client/when.h"
#include "executor/exec_internal.h"
#include "executor/pod_view.h"

#define CALL_TIMEOUT ((span){15000})
#define TELLING_MAX  ((size_t)32)
#define NOTE_MAX     500

struct telling {
    struct executor *x;
    struct id job;
    int64_t run;
    unsigned bit; /* of the phase that is told; 0: other words for it */
};

/* --- what there is to tell --- */

static mono look_again(const struct exec_run *r, mono now)
{
    enum kube_verdict_start start =
        r->phase == PLAN_POD_INITIALIZING ? KUBE_VERDICT_INITIALIZING : KUBE_VERDICT_WAITING;
    return when_after(now, kube_verdict_recheck(start, r->looks));
}

static unsigned bit_of(enum plan_pod phase)
{
    return 1u << phase;
}

static void write_note(const struct kube_pod *p, enum plan_pod phase, struct buf *b)
{
    const struct kube_pod_condition *scheduled = kube_pod_condition(p, "PodScheduled");
    struct str reason;
    switch (phase) {
    case PLAN_POD_WAITING:
        if (scheduled)
            buf_str(b, scheduled->message);
        break;
    case PLAN_POD_INITIALIZING:
        reason = pod_view_waits_for(p);
        buf_print(b, "%.*s%son node %.*s", STR_ARG(reason), reason.len ? " " : "",
                  STR_ARG(p->node));
        break;
    case PLAN_POD_RUNNING:
        if (p->node.len)
            buf_print(b, "on node %.*s", STR_ARG(p->node));
        break;
    default:
        break;
    }
    while (b->len > NOTE_MAX ||
           (b->len && ((unsigned char)b->at[b->len - 1] & 0xc0) == 0x80 && b->len > NOTE_MAX - 4))
        b->len--;
}

void exec_progress_note(struct exec_run *r, const struct kube_pod *p, enum plan_pod phase)
{
    struct buf note = {0};
    if (phase < PLAN_POD_WAITING || phase > PLAN_POD_RUNNING)
        return;
    write_note(p, phase, &note);
    bool first_words = !r->note && note.len, begins = r->phase != phase || first_words;
    bool other_words = note.len && !str_eq(buf_view(&note), str_from(r->note ? r->note : ""));
    if (begins || other_words) {
        free(r->note);
        r->note = note.len ? alloc_text(note.at, note.len) : NULL;
        r->reworded = !begins;
    }
    if (begins) {
        r->phase = phase;
        r->looks = 0;
        r->look_at = look_again(r, when_mono());
        /* Another pod of the run begins anew. */
        r->untold = (r->untold & (bit_of(phase) - 1)) | bit_of(phase);
    }
    buf_fini(&note);
}

void exec_progress_fault(struct exec_run *r, struct str why)
{
    if (r->phase != PLAN_POD_NONE || (r->note && str_eq(why, str_from(r->note))))
        return;
    free(r->note);
    r->note = alloc_text(why.at, utf8_whole(why, NOTE_MAX));
    r->reworded = true;
}

/* --- telling it --- */

static void on_told(void *ctx, const struct remote_answer *a)
{
    struct telling *t = ctx;
    struct executor *x = t->x;
    struct exec_run *r = exec_runs_find(x, t->job, t->run);
    unsigned bit = t->bit;
    free(t);
    x->telling--;
    exec_wake(x);
    if (!r)
        return;
    r->telling = false;
    if (a->result == CALL_GONE) {
        exec_runs_lose(x, r, "its lease is lost");
    } else if (a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER) {
        r->reworded |= bit == 0;
        if (bit <= bit_of(r->phase))
            r->untold |= bit;
        x->progress_not_before = when_after(when_mono(), exec_backoff(x, x->progress_tries++));
    } else {
        x->progress_tries = 0; /* also if it refuses it: progress is not worth more */
    }
}

/* Those that are over have no words any more. */
static enum plan_pod next_phase(const struct exec_run *r)
{
    enum plan_pod phase = PLAN_POD_WAITING;
    while (!(r->untold & bit_of(phase)))
        phase++;
    return phase;
}

static void tell(struct executor *x, struct exec_run *r)
{
    struct telling *t = ALLOC(struct telling);
    char path[64], job[ID_TEXT_LEN];
    struct buf note = {0}, body = {0};
    bool event = r->untold != 0;
    enum plan_pod phase = event ? next_phase(r) : r->phase;
    const char *words = phase == r->phase && r->note ? r->note : "";
    *t = (struct telling){x, r->job, r->run, event ? bit_of(phase) : 0};
    r->looks += !event;
    if (phase == r->phase) {
        r->reworded = false;
        r->look_at = look_again(r, when_mono());
    }
    id_format(r->job, job);
    snprintf(path, sizeof path, "/jobs/%.25s/progress", job);
    buf_print(&note, "%s%s%s", phase ? exec_plan_pod_name(phase) : "creating", *words ? ": " : "",
              words);
    buf_print(&body, "{\"run\":%" PRId64, r->run);
    if (*r->token)
        buf_print(&body, ",\"token\":\"%s\"", r->token);
    buf_print(&body, ",\"progress\":{\"value\":0%s,\"note\":", event ? ",\"event\":true" : "");
    json_write_string(&body, buf_view(&note));
    buf_lit(&body, "}}");
    r->telling = true;
    r->untold &= ~bit_of(phase);
    x->telling++;
    remote_ask(x->server, "POST", path, buf_view(&body), CALL_TIMEOUT, on_told, t);
    buf_fini(&note);
    buf_fini(&body);
}

void exec_progress_turn(struct executor *x, mono now, mono *next)
{
    if (x->server_down || x->stopping)
        return;
    if (x->progress_not_before.ns > now.ns) {
        exec_sooner(next, x->progress_not_before);
        return;
    }
    LIST_EACH (n, &x->runs) {
        struct exec_run *r = LIST_OF(n, struct exec_run, node);
        if (x->telling >= TELLING_MAX)
            return;
        if (r->telling || r->plan.lease != PLAN_HELD || !(r->untold || r->reworded))
            continue;
        if (r->untold || r->look_at.ns <= now.ns)
            tell(x, r);
        else
            exec_sooner(next, r->look_at);
    }
}
