/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_NEWJOB_H
#define CLI_NEWJOB_H

/* The body of a job to be enqueued, composed from options and a payload, or from a line of bulk
 * input. */

#include "client/client.h"
#include "core/curve.h"

struct enqueue_args {
    struct client_args client;
    const char *queue, *type;
    const char *file;
    bool text;
    span delay;
    const char *at;
    int64_t priority, retry_limit;
    const char *backoff;
    span retain_completed, retain_dead, max_run, retry_for;
    const char *unique_key;
    const char *idempotency_key;
    int unique_while; /* index into queued|active|exists */
    const char *concurrency_key;
    struct option_list budgets; /* KEY[=COST] */
    const char *alias;
    const char *deadline; /* a time, or a duration from now */
    const char *memory;   /* in the spelling of Kubernetes: 4Gi */
    const char *cpu;      /* likewise: 1500m */
    const char *batch_key, *batch_when, *batch_fold;
    const char *group, *group_owner;
    const char *gang;           /* ID,CARDINALITY */
    const char *retry_policies; /* names, separated by commas */
    const char *depends_on;     /* ids, separated by commas */
    int depends_when;           /* index into all_completed|all_ended */
    int on_dependency_death;    /* index into block|run|die */
    bool bulk;
    int64_t batch;
};

/* The options that apply to every job, rendered once: `"queue":"mail"` and so on, NULL if not
 * given. */
enum newjob_field {
    NEWJOB_QUEUE,
    NEWJOB_TYPE,
    NEWJOB_PRIORITY,
    NEWJOB_READY_AT,
    NEWJOB_RETRY_LIMIT,
    NEWJOB_BACKOFF,
    NEWJOB_RETENTION,
    NEWJOB_UNIQUE_KEY,
    NEWJOB_UNIQUE_WHILE,
    NEWJOB_CONCURRENCY_KEY,
    NEWJOB_BUDGETS,
    NEWJOB_ALIAS,
    NEWJOB_DEADLINE,
    NEWJOB_BATCH,
    NEWJOB_DEPENDS_ON,
    NEWJOB_WHEN,
    NEWJOB_ON_DEATH,
    NEWJOB_RESOURCES,
    NEWJOB_GANG,
    NEWJOB_RETRY_POLICIES,
    NEWJOB_GROUP,
    NEWJOB_GROUP_OWNER,
    NEWJOB_MAX_RUN,
    NEWJOB_RETRY_FOR,
    NEWJOB_FIELDS
};

struct newjob_defaults {
    struct buf member[NEWJOB_FIELDS];
};

/* ERR_USAGE or ERR_BAD_VALUE with a message for the user. now is the time from which a delay
 * counts. */
NODISCARD struct err newjob_init(struct newjob_defaults *d, const struct enqueue_args *args,
                                 const struct options *o, instant now);
void newjob_fini(struct newjob_defaults *d);

/* "15s,4,30s" */
NODISCARD struct err newjob_curve(const char *text, struct curve *c);

/* Adds the JSON object of a job with this payload, which is valid JSON. */
void newjob_single(struct buf *b, const struct newjob_defaults *d, struct str payload);

/* Adds the object of a line, with the defaults for the fields that the line omits. The bytes of the
 * line are kept as they are. The offset of an error is relative to line. */
NODISCARD struct err newjob_from_line(struct buf *b, const struct newjob_defaults *d,
                                      struct str line);

#endif
