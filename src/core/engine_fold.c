/* SPDX-License-Identifier: Apache-2.0 */

/* Batched jobs: which job further enqueues with a batch key are folded into. The map
 * is only a hint where to look; whether a job can be folded into is what the job itself says,
 * so a stale entry does no harm. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_internal.h"

void engine_fold_open(struct engine *e, const struct job *job)
{
    must(job->batch.open && job->batch.key.len);
    struct id *at = strmap_get(&e->folds, job->batch.key);
    if (!at) {
        at = ALLOC(struct id);
        strmap_put(&e->folds, job->batch.key, at);
    }
    if (!id_is_none(*at))
        engine_odd_clear(e, *at, ODD_FOLD);
    *at = job->id;
    engine_odd_set(e, *at, ODD_FOLD);
}

void engine_fold_close(struct engine *e, const struct job *job)
{
    if (!job->batch.key.len)
        return;
    const struct id *at = strmap_get(&e->folds, job->batch.key);
    if (!at || !id_eq(*at, job->id))
        return;
    engine_odd_clear(e, job->id, ODD_FOLD);
    free(strmap_remove(&e->folds, job->batch.key));
}

void engine_fold_fini(struct engine *e)
{
    for (size_t i = 0; i < e->folds.cap; i++)
        if (e->folds.slots[i].key)
            free(e->folds.slots[i].val);
    strmap_fini(&e->folds);
}

struct err engine_fold_find(struct engine *e, instant now, struct str key, struct arena *a,
                            struct foldable *f, bool *found)
{
    struct job_extent extent;
    const struct id *at = strmap_get(&e->folds, key);
    *found = false;
    if (!at)
        return err_none();
    struct id id = *at;
    struct err err = engine_read(e, now, id, false, a, &f->now, &extent);
    if (err.code == ERR_NOT_FOUND)
        return err_none();
    TRY(err);
    const struct job_state *s = &f->now.state;
    *found = s->status == STATUS_READY && s->runs == 0 && f->now.batch.open &&
             str_eq(f->now.batch.key, key);
    if (!*found)
        return err_none();
    f->now.payload = (struct str){0};
    return e->port.load_job(e->port.ctx, id, PORT_PAYLOAD, a, &f->stored, &extent);
}

void engine_fold_rewrite(struct engine *e, const struct job *stored)
{
    must(stored->payload.at);
    e->port.rewrite_job(e->port.ctx, stored);
    if (!stored->batch.open)
        engine_fold_close(e, stored);
}
