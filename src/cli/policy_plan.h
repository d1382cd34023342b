/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_POLICY_PLAN_H
#define CLI_POLICY_PLAN_H

/* `tenax policy simulate` and `schedule`: the effect of policies before they are applied. */

#include "client/client.h"

/* globalMaxRetries of a server whose settings were never changed. */
#define POLICY_PLAN_GLOBAL_MAX 20

struct policy_plan {
    struct option_list files; /* of policies */
    const char *queue, *type; /* "a,b", or NULL */
    int64_t limit;
    const char *failures; /* a file, or NULL: those stored on the server */
    int64_t global_max;   /* negative: the server's; for schedule: 20 */
    const char *backoff;  /* of a job, "15s,4,30s", or NULL */
    int64_t retry_limit;  /* of that job */
    bool strict;          /* lint: warnings are errors */
};

/* Reads the files of policies; CLI_USAGE after saying what is wrong with them. */
struct resources;
int policy_plan_load(struct client *c, const struct policy_plan *p, struct resources *list);
/* All return an enum cli_exit. */
int policy_plan_simulate(struct client *c, const struct policy_plan *p);
int policy_plan_schedule(struct client *c, const struct policy_plan *p);
/* What the last failures would have become with these settings (a body of PUT /settings/retry) and
 * policies switched on, and which queues have no policy. */
int policy_plan_settings(struct client *c, struct str settings);

/* policy_lint.c: the warnings about policies in files, without a server. */
int policy_lint(struct client *c, const struct policy_plan *p);

#endif
