/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SERVERS_INTERNAL_H
#define SIM_SERVERS_INTERNAL_H

/* The parts of the simulation of several servers (servers.h). */

#include "backend/embedded/embedded.h"
#include "base/list.h"
#include "copy.h"
#include "fiber.h"
#include "pg_double.h"
#include "server/member_internal.h"
#include "servers.h"

#define NODES       3
#define SJOBS_MAX   4000
#define SEVENTS_MAX 60000
#define CONNS_MAX   16

enum { F_MAIN, F_MEMBER, F_COMMIT, F_INBOX, FIBERS };

/* From its start until it ends, or begins anew. */
struct process {
    int node;
    unsigned number; /* from 1; no other has it */
    bool dead;       /* it has no effect any more */
    bool answers, leaving, stopping;
    struct member *member;
    struct fiber *fibers[FIBERS];
    struct pg *conns[CONNS_MAX];
    uint64_t epoch;
    struct backend *backend;
    struct store *store;
    mono leased_from;    /* before the newest renewal was asked for; 0: there was none */
    uint64_t acked;      /* the last batch of which something was acknowledged */
    bool accept;         /* it may go on with what PostgreSQL has */
    int64_t ahead_since; /* PostgreSQL has lost what it had acknowledged; 0: it has not */
    struct {
        struct pinbox rows[INBOX_MAX];
        size_t count, unanswered;
        bool read; /* rows are for the loop */
    } inbox;
};

struct snode {
    int64_t base_ns, drift_ppm; /* of the monotonic clock: ns + ppm of the world's time */
    int64_t wall_ms;            /* of the wall clock before the world's */
    struct copy copy;           /* on its disk */
    struct process *process;    /* NULL: it does not run */
    int64_t start_at, not_before_ms;
    int64_t frozen_until, cut_off_until;
    int64_t hung_from, hung_until; /* its loop alone */
    span lease;
    struct pg_seen seen; /* on its disk */
    bool accept;         /* its next start is told to go on with what PostgreSQL has */
    bool machine_lost;   /* its disk is empty when the process has ended */
};

enum knowledge { UNSURE, SURE, NEVER };

struct sjob {
    enum knowledge there;     /* SURE: its enqueue was acknowledged; NEVER: it was rolled back */
    enum knowledge completed; /* never NEVER */
    uint64_t there_by, completed_by; /* batches, at the latest */
    struct id id;                    /* if it is known */
    uint64_t token; /* of the run that completed it, or of the newest one that was seen */
    uint64_t completed_token;
    bool seen; /* in the audit */
};

struct sevent {
    struct id job;
    int kind;
    int64_t run;
    uint64_t by; /* batch, at the latest; 0: not seen */
};

enum sask {
    ASK_ENQUEUE_JOB,
    ASK_CLAIM_SOME,
    ASK_SUCCEED,
    ASK_RENEW,
    ASK_READ,
    ASK_EVENTS_PAGE,
    ASK_LIST
};

/* What a client asks of a server. */
struct sticket {
    struct list node; /* in sworld.tickets */
    enum sask kind;
    struct process *process; /* NULL: no answer will come */
    bool submitted;
    unsigned serial;
    uint64_t token, since;
    struct id id; /* of the job; of a list: after which it begins */
};

struct sworld {
    uint64_t seed;
    struct rng rng;
    int64_t now; /* nanoseconds */
    struct pdouble pg;
    struct snode nodes[NODES];
    span lease; /* about which those of the servers are */
    struct backend_settings settings;
    unsigned faults; /* percent of steps in which something may go wrong */
    bool falls;      /* PostgreSQL may lose commits */
    bool alike;      /* clocks run about as fast as each other */
    bool healing;    /* all is well from now on */
    uint64_t taken;  /* the newest epoch */
    struct list tickets;
    unsigned processes;
    struct sjob *jobs;
    unsigned job_count;
    struct sevent *events; /* by number */
    uint64_t event_count;
    uint64_t events_since;     /* the last page ended there */
    bool listed, events_ended; /* the audit is through */
    struct id list_after;
    unsigned unfinished; /* jobs of the list so far */
    struct {
        unsigned owners, alarms, accepted, anew, kills, freezes, hangs, answers;
    } tally;
};

/* --- servers.c: the world --- */
extern struct sworld *sworld;
uint64_t servers_draw(uint64_t n);
bool servers_chance(unsigned percent);
int64_t servers_now(void);
/* Time passes, and what is due happens. */
void servers_pass(int64_t ns);

/* --- servers_process.c: for what runs in a process --- */
void process_start(int node);
/* It ends at once, as by SIGKILL; what it has sent may arrive. */
void process_kill(struct process *p);
/* Everything of it has ended. */
bool process_has_ended(const struct process *p);
void process_free(struct process *p);
struct process *servers_here(void);
mono servers_mono(void);
void servers_sleep(span s);
void servers_sleep_some(void);
/* Until somebody wakes it, or for a millisecond. */
void servers_rest(void);
void servers_wake_commit(void);
/* Until the answer is there, that end by the server's clock, or the time is over. NULL: there will
 * be none. */
void servers_await(const struct pstatement *s, mono end, span most);

/* --- what the double tells --- */
void servers_committed(int node, const struct prow *row);
void servers_taken(int node, uint64_t epoch);
void servers_answered(struct pg *pg, const struct pstatement *s);
void servers_notify(void);
void servers_cut_all(void);
void servers_cut(struct pg *pg);
/* --- what calls tell --- */
struct process *servers_process_of(const struct pg *pg);
void servers_break(struct pg *pg);
void servers_connected(struct pg *pg);
void servers_disconnected(struct pg *pg);
/* In nanoseconds. */
int64_t servers_cut_off_for(const struct process *p);
void servers_leased(struct process *p, mono from);

/* --- servers_clients.c: clients, and the ledger that judges --- */
void clients_step(void);
/* In the loop of that process: what has arrived since. */
void clients_submit(struct process *p);
void clients_submit_inbox(struct process *p);
/* No answers of it will come. */
void clients_lost(const struct process *p);
/* PostgreSQL has lost the batches after that one. */
void clients_fell_back(uint64_t seq);
/* All is well: everything is asked for, and compared. */
void clients_finish(void);

#endif
