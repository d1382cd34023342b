/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EXECUTOR_EXEC_RIG_H
#define TESTS_EXECUTOR_EXEC_RIG_H

/* The parts of an executor against a real HTTP server that a test answers for: it plays both
 * Tenax's server and the cluster's. No turn of the executor's loop comes of itself: tests take the
 * turns of the parts, at the time that they say. */

#include "executor/exec_internal.h"
#include "tests/kube/kube_rig.h"

#define NAME "tenax-one"

struct exec_rig {
    struct rig *rig;
    struct exec_settings settings;
    struct exec_queue queues[2];
    struct exec_namespace namespace;
    struct executor x;
    mono next; /* what the last turn said */
    /* Answers to all requests but those that `serve` answers. */
    int status;
    const char *body;
    bool (*serve)(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q);
};

int exec_rig_setup(void **state);
int exec_rig_teardown(void **state);
/* Opens the journal, with what an earlier one of the same rig has; closes it. Runs are kept. */
void exec_rig_open_journal(struct exec_rig *e);
void exec_rig_close_journal(struct exec_rig *e);
/* Forgets all runs and reports, as a process that ends. */
void exec_rig_forget(struct exec_rig *e);

/* The id of the n-th job, and its text, valid until the next call but three. */
struct id exec_rig_id(int n);
const char *exec_rig_text(int n);
/* A run of the n-th job whose lease is held. */
struct exec_run *exec_rig_run(struct exec_rig *e, int n, int64_t run);

/* The n-th request, from 0; "POST /path" with its query. */
const struct rig_request *exec_rig_request(struct exec_rig *e, int n);
void exec_rig_assert_request(struct exec_rig *e, int n, const char *words);
/* Whether its body has that text. */
bool exec_rig_body_has(struct exec_rig *e, int n, const char *text);

#endif
