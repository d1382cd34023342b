/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXECUTOR_EXEC_INTERNAL_H
#define EXECUTOR_EXEC_INTERNAL_H

/* The parts of an executor, on one libuv loop and one thread. Answers of the server and of the
 * cluster only record what they say, and call exec_wake; a turn of the loop then asks exec_plan
 * about every run and does the next step of each (exec_loop.c). Nothing waits for anything else.
 *
 *   exec_cluster.c  the cluster as the settings say
 *   exec_leases.c   jobs from the server: claims, adoption after a restart, renewals
 *   exec_follow.c   the server's events: which runs are over although we did not end them
 *   exec_progress.c how far pods are, to the server
 *   exec_watch.c    pods as the cluster shows them
 *   exec_pods.c     creating and deleting them
 *   exec_access.c   whether the cluster lets this executor make any
 *   exec_finish.c   logs and events of a pod that has ended, and what is reported of it
 *   exec_reports.c  decisions: kept in the journal, delivered to the server
 *   exec_metrics.c  what is counted
 *   exec_runs.c     the table of runs that all of them share
 */

#include <uv.h>

#include "base/buf.h"
#include "base/id.h"
#include "base/idmap.h"
#include "base/list.h"
#include "base/rng.h"
#include "client/journal.h"
#include "executor/exec_access.h"
#include "executor/exec_metrics.h"
#include "executor/exec_plan.h"
#include "client/remote.h"
#include "executor/exec_settings.h"
#include "executor/pod_manifest.h"
#include "holder/holder.h"
#include "holder/renewals.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/kube_verdict.h"
#include "kube/kube_watch.h"

#define EXEC_TOKEN_LEN 16
#define EXEC_UID_MAX   40

struct executor;

/* How far the answers to questions before a pod's creation are. */
enum exec_ready { EXEC_READY_UNASKED, EXEC_READY_ASKING, EXEC_READY_ASKED };

/* What becomes of a run, on its way to the server. */
struct exec_report {
    struct list node;              /* in executor.reports, in the order of the decisions */
    struct journal_record *record; /* what the journal has */
    struct exec_run *run_of;       /* or NULL: of an earlier process, without its pod */
    struct id job;
    int64_t run;
    char token[EXEC_TOKEN_LEN + 1]; /* or empty: not known */
    const char *verb;               /* "success", "failure", "release" */
    bool held_back, preempted, ended, told, sending, delivered, plain;
    int64_t postponed_ms; /* of a release: how long the job shall stay away */
    bool postponed;
    mono not_before;
    uint32_t tries;
};

/* A run of a job: its lease, its pod, and what becomes of it. */
struct exec_run {
    struct list node;      /* in executor.runs */
    struct exec_run *next; /* an older run of the same job */
    struct id job;
    int64_t run;
    struct plan_run plan;
    char token[EXEC_TOKEN_LEN + 1]; /* or empty: not known */
    const struct exec_queue *queue; /* or NULL: not known */
    uint64_t gang;                  /* hash of its gang's id; 0: none */
    char *job_text;                 /* the job as handed out, until its pod exists; or NULL */
    uint64_t memory, cpu;           /* of its pod; thousandths of a processor */

    /* The lease. */
    int64_t taken_at; /* when the server handed it out, by its clock; 0: not known */
    mono renew_at;
    bool adopted, renewing;
    uint32_t renew_tries;
    const char *lost_why;

    /* The pod. */
    char *name;      /* or NULL */
    char *namespace; /* or NULL */
    char uid[EXEC_UID_MAX + 1];
    char *pod_text;  /* of one whose end is to be told of, until the decision; or NULL */
    mono overdue_at; /* when its node should have ended it; 0: it need not */
    enum exec_ready ready;
    bool ready_busy;     /* other executors' pods of the job are left */
    bool policies_on;    /* how retries are named */
    bool must_avoid;     /* its pod must stay off a node */
    bool replacing;      /* its pod is deleted to make way for a less demanding one */
    mono no_node_since;  /* the scheduler has found none since then; 0: it has not said so */
    mono registry_since; /* its registry has been away since then; 0: it is not */
    bool none_fits;      /* no node but the one to avoid would have it */
    bool asked_to_delete, cleared;
    bool timed;     /* its times are counted */
    bool gone;      /* its pod had ended, and is not there any more */
    bool said_over; /* a lost run; whether the server has heard of it does not matter */
    uint32_t tries;
    struct journal_record *pod_record;
    uint32_t faults;            /* creations in a row that failed by the cluster's fault */
    char *fault;                /* the words of the last one; or NULL */
    bool maybe_made;            /* one of them may have been acted on */
    const char *culprit;        /* of the refusal; a literal, or NULL */
    char *refusal;              /* why the cluster does not have the pod, and */
    bool too_large;             /* it will never fit into what this executor may use */
    bool malformed;             /* its payload makes no pod */
    struct exec_finish *finish; /* while its logs are read, until the decision */

    /* Progress: the newest phase with what is said of it, and those that the server has not been
     * told of, as bits: each is told, in their order, however quickly they follow each other. */
    enum plan_pod phase;
    char *note;
    unsigned untold;
    bool telling;
    /* The same phase with other words: told when the pod is looked at again, later each time. */
    bool reworded;
    uint32_t looks;
    mono look_at; /* since the phase began, or since it was last told */

    struct exec_report *report; /* the decision, or NULL */
};

struct exec_claims {
    struct holder_claims *of;
    mono probe_at; /* while the cluster is full: no sooner */
    size_t asked;  /* jobs of the claim under way */
    bool left_out; /* a queue was full when it began */
};

struct exec_namespace {
    struct executor *x;
    const char *name;
    struct kube_watch *watch;
    bool synced;       /* has been listed */
    bool failing;      /* that has been said */
    uint32_t failures; /* in a row */
    char *why;         /* the last one; NULL: there was none */
};

/* What the server is told of why no jobs are asked for. */
struct exec_notice {
    struct remote_call *call;
    char *why; /* as it was told; NULL: they are */
    mono tell_at, away_since;
    uint32_t tries;
};

struct exec_counters {
    uint64_t created, adopted, deleted, succeeded, failed, released, lost, reports, vanished;
    uint64_t refused, no_room, denied, faults;
};

struct executor {
    const struct exec_settings *settings;
    uv_loop_t *loop;
    struct rng rng;
    struct remote *server;
    struct holder *holder;     /* of claims; NULL: not started */
    struct renewals *renewals; /* of leases; iff holder */
    struct list renewals_sent; /* that are not answered; iff holder */
    struct journal *journal;
    struct kube_config config;
    struct kube_client *kube;
    struct exec_namespace *namespaces; /* the first is that of pods whose payload names none */
    size_t namespace_count;
    struct arena arena; /* of the style */
    struct pod_style style;

    struct list runs;
    struct idmap by_job; /* the newest run of each job */
    size_t run_count;
    struct list reports;
    size_t sending, renewing, creating, finishing, telling; /* requests under way */

    struct exec_claims claims;
    struct exec_access access;
    struct exec_notice notice;
    struct exec_follow *follow;
    struct exec_counters counters;
    struct exec_times times;
    struct exec_metrics *metrics;
    uint32_t no_room_streak; /* pods refused for a quota since the last one was created */
    uint64_t phases[PLAN_POD_NODE_LOST + 1];
    bool server_down;
    mono progress_not_before; /* the server could not be told of progress */
    uint32_t progress_tries;

    uv_timer_t turn, due;
    uv_signal_t sigterm, sigint;
    bool turn_set, stopping;
    int signals, code;
    mono stop_at;
};

/* --- exec_loop.c --- */

/* A turn follows soon: something may have to be done. */
void exec_wake(struct executor *x);
/* The same at that time, at the latest. */
void exec_wake_at(struct executor *x, mono t);
/* How long to wait after so many failed tries: 0.2 s to 15 s, with chance. */
span exec_backoff(struct executor *x, uint32_t tries);
/* Ends the executor with an error that no further try would mend. */
void exec_give_up(struct executor *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* --- exec_cluster.c --- */

/* Makes the client of the cluster, and sets namespaces and style, by the settings. */
NODISCARD struct err exec_cluster_open(struct executor *x);
/* Warns of namespaces that do not exist. */
void exec_cluster_look(struct executor *x);
/* Once the client is freed and its handles are closed. */
void exec_cluster_fini(struct executor *x);

/* --- exec_runs.c --- */

/* The run, or NULL. */
struct exec_run *exec_runs_find(const struct executor *x, struct id job, int64_t run);
/* Adds it; there is none. */
struct exec_run *exec_runs_add(struct executor *x, struct id job, int64_t run);
/* Forgets all of it. */
void exec_runs_remove(struct executor *x, struct exec_run *r);
/* Its lease is over; why is a literal. */
void exec_runs_lose(struct executor *x, struct exec_run *r, const char *why);
/* Runs that hold a lease without a result: they count against the limits. */
struct exec_load {
    size_t runs;
    uint64_t memory, cpu;
};
struct exec_load exec_runs_load(const struct executor *x, const struct exec_queue *queue);
/* Fills in what the plan has to know of the other runs of the job and the gang. */
void exec_runs_relate(struct executor *x, struct exec_run *r);

/* --- exec_leases.c, exec_follow.c --- */

/* Before the first turn, once there is a server. */
void exec_leases_start(struct executor *x);
/* Asks for jobs and renews leases, as far as something is due; sooner is set to when more is. */
void exec_leases_turn(struct executor *x, mono now, mono *next);
/* Asks for no further jobs. */
void exec_leases_stop(struct executor *x);
/* All leases are renewed now: some may be lost, and nothing has said so. */
void exec_leases_renew_all(struct executor *x);
/* The pod of a run that was taken away has ended: the gang of its job, which may wait for that,
 * need not wait until the lease is over. */
void exec_leases_say_over(struct executor *x, struct exec_run *r);
void exec_leases_free(struct executor *x);
/* Follows the server's events; again after a while whenever they end. */
void exec_follow_turn(struct executor *x, mono now, mono *next);
void exec_follow_free(struct executor *x);

/* --- exec_progress.c --- */

/* Tells the server how far the pods are whose phase has changed; next is set to when, at the
 * latest, there is more to do. */
void exec_progress_turn(struct executor *x, mono now, mono *next);
/* The pod is in that phase: a change is told, and the first words of why it waits. */
void exec_progress_note(struct exec_run *r, const struct kube_pod *p, enum plan_pod phase);
/* Its pod could not be created: that is told, with the words, and tried again. */
void exec_progress_fault(struct exec_run *r, struct str why);

/* --- exec_notice.c --- */

#define EXEC_NOTICE_MAX ((size_t)500) /* bytes; longer ones are refused */
/* Tells the server why no jobs are asked for, while that is so. */
void exec_notice_turn(struct executor *x, mono now, mono *next);
void exec_notice_fini(struct executor *x);

/* --- exec_watch.c --- */

/* Begins to watch the pods of this executor. */
void exec_watch_start(struct executor *x);
void exec_watch_stop(struct executor *x);
/* A pod's object, as the answer to a request showed it. */
void exec_watch_seen(struct executor *x, struct str object);
/* All namespaces have been listed. */
bool exec_watch_synced(const struct executor *x);
/* ... and are being watched now. */
bool exec_watch_live(const struct executor *x);
/* Pods may be made: all namespaces have been listed, and are being watched as far as is known. */
bool exec_watch_usable(const struct executor *x);
/* Says why they are not heard of, if that is known. */
bool exec_watch_say(const struct executor *x, struct buf *b);
/* A pod that should long be gone, and is not: its node does not answer. */
void exec_watch_check_overdue(struct exec_run *r, mono now, mono *next);
/* A pod whose registry has been away for too long. */
void exec_watch_check_registry(struct executor *x, struct exec_run *r, mono now, mono *next);
/* A pod that has found no node for a while, and must stay off one. */
void exec_watch_check_misfit(struct exec_run *r, mono now, mono *next);
/* It is known that the pod is not there any more. */
void exec_watch_gone(struct executor *x, struct exec_run *r);

/* --- exec_pods.c --- */

void exec_pods_create(struct executor *x, struct exec_run *r);
void exec_pods_clear(struct executor *x, struct exec_run *r);
void exec_pods_delete(struct executor *x, struct exec_run *r);
/* The same, to create another one of the run. */
void exec_pods_replace(struct executor *x, struct exec_run *r);

/* --- exec_finish.c --- */

/* Reads logs and events of the run's pod; plan.logs says when that is done. */
void exec_finish_read(struct executor *x, struct exec_run *r);
/* The members of the report of a run with that result, each preceded by a comma. */
void exec_finish_write(struct executor *x, struct exec_run *r, enum plan_result result,
                       struct buf *members);
void exec_finish_free(struct exec_run *r);

/* --- exec_reports.c --- */

/* Takes over what the journal has from earlier. */
void exec_reports_load(struct executor *x);
/* That became of the run: keeps it. */
void exec_reports_decide(struct executor *x, struct exec_run *r, const struct plan_step *s);
/* It is not held back any more. */
void exec_reports_deliver(struct executor *x, struct exec_run *r);
/* The preempted run has ended. */
void exec_reports_ended(struct executor *x, struct exec_run *r);
/* The pod exists: remembered, so that it is not created again when it is gone after a restart. */
void exec_reports_pod(struct executor *x, struct exec_run *r);
/* The journal has synced. */
void exec_reports_kept(void *executor);
void exec_reports_turn(struct executor *x, mono now, mono *next);
/* The server has all that is not held back. */
bool exec_reports_idle(const struct executor *x);

static inline void exec_sooner(mono *next, mono t)
{
    if (t.ns && (!next->ns || t.ns < next->ns))
        *next = t;
}

#endif
