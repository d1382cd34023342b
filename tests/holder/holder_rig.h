/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_HOLDER_HOLDER_RIG_H
#define TESTS_HOLDER_HOLDER_RIG_H

/* A holder against a real HTTP server whose answers a test writes down in advance. No turn of the
 * holder comes by itself: tests take them, at the time that they say. */

#include "holder/holder.h"
#include "tests/kube/kube_rig.h"

#define NAME      "one"
#define LEASE_MS  30000
#define LEASE_MAX 45000 /* later than any pause and any renewal */

enum { LOST = -1, HOLD = -2 };

struct holder_answer {
    const char *path; /* of the requests that it is for; NULL: of all but renewals */
    int status;       /* LOST: a page of something in between; HOLD: none for now */
    const char *body;
};

/* What a test keeps of a run, its mine. */
struct kept {
    struct holder_rig *rig;
    struct holder_run *run;
    bool again;
    int64_t index;
    int lost, reported;
    long status; /* of the last answer */
};

struct holder_rig {
    struct rig *rig;
    struct remote *server;
    struct holder *holder;
    struct holder_claims *claims;
    /* Answers to the next requests, in order; after these, each was done. */
    const struct holder_answer *answers;
    struct kept kept[8]; /* jobs that were handed out, in order */
    size_t kept_count;
    bool returns; /* they are given back instead */
    bool knows;   /* those in flight are known */
    int wakes, answered, refused;
    mono next;
};

int holder_rig_setup(void **state);
int holder_rig_teardown(void **state);
/* The holder, with claims of that scope. */
void holder_rig_start(struct holder_rig *t, const struct holder_scope *scope);
/* A turn at that time after now, whose requests are answered, except those that are held. */
void holder_rig_turn(struct holder_rig *t, int64_t after_ms);
/* A run that is held, of the n-th job. */
struct kept *holder_rig_hold(struct holder_rig *t, int n);
/* The id of the n-th job; valid until the next call but three. */
const char *holder_rig_id(int n);

/* The n-th request was "POST /path?query", and its body has, or lacks, that text. */
void holder_rig_assert(struct holder_rig *t, int n, const char *words);
bool holder_rig_has(struct holder_rig *t, int n, const char *text);

#endif
