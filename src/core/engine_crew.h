/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_ENGINE_CREW_H
#define CORE_ENGINE_CREW_H

/* Names of workers and nodes, each stored once, with the number of runs that a worker holds; and
 * who works on a queue (core/crew.h). Part of engine_internal.h. */

#include "base/list.h"
#include "core/crew.h"
#include "core/job.h"

struct engine;
struct live;
struct queue;

/* A name, shared by all that have it. */
struct worker_name {
    uint32_t refs;
    uint32_t runs; /* in flight, that this worker holds */
    size_t len;
    char bytes[];
};

/* What a queue knows of its runs. */
struct queue_pace {
    struct list runs; /* struct live.beside, those that began last at the end */
    span usual;       /* a moving average of what ended runs took; iff measured */
    bool measured;
};

/* The name with one reference more. */
struct worker_name *engine_worker_ref(struct engine *e, struct str name);
void engine_worker_unref(struct engine *e, struct worker_name *w);
void engine_crew_fini(struct engine *e);

/* A run has its worker now; it is over. */
void engine_crew_begin(struct queue *q, struct live *l);
void engine_crew_end(struct live *l);
/* The queue that its job is of is another one now. */
void engine_crew_move(struct queue *to, struct live *l);
void engine_crew_check(const struct queue *q);
/* The run has ended by its worker's report: it counts for how long one takes. */
void engine_crew_measure(struct live *l, instant now);

/* The runs of a queue that are of jobs of this kind. */
uint64_t engine_kind_runs(const struct queue *q, enum job_kind kind);

/* Texts are in the arena. Returns how many things were looked at. */
size_t engine_crew_of(struct engine *e, const struct queue *q, instant now, struct arena *a,
                      struct crew *c);

#endif
