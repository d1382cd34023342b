/* SPDX-License-Identifier: Apache-2.0 */

/* A gang that has been handed out cannot go on without a member that is dead for good: the others
 * are dead as well. */

#include "base/buf.h"
#include "base/utf8.h"
#include "core/engine_gang_internal.h"

static struct str words_of(const struct gang *g, struct id id, struct str why, struct arena *a)
{
    char text[ID_TEXT_LEN];
    struct buf words = {0};
    id_format(id, text);
    buf_print(&words, "dead: %.25s, another member of its gang '%.*s', is: %.*s", text,
              STR_ARG(g->name), STR_ARG(why));
    words.len = utf8_whole(buf_view(&words), RETRY_REASON_MAX - 1);
    struct str own = arena_copy(a, buf_view(&words));
    buf_fini(&words);
    return own;
}

static struct err end_member(struct engine *e, instant now, struct id id, struct str words)
{
    static const struct run_abort how = {EVENT_ABANDON, RESOLUTION_GANG, OUTCOME_GANG};
    struct arena scratch = {0};
    struct job job;
    struct job_extent extent;
    struct live *l = idmap_get(&e->live, id);
    struct err err = engine_read(e, now, id, false, &scratch, &job, &extent);
    job.state.reason = words;
    if (err.code == ERR_OK && l)
        engine_abort_run(e, now, l, &job.state, &how);
    else if (err.code == ERR_OK)
        engine_end_waiting(e, now, &job, &extent, how.event, how.resolution);
    arena_fini(&scratch);
    return err;
}

struct err engine_gang_fall(struct engine *e, instant now, struct id id, struct str why)
{
    const struct gang_member *m = e->gang_members.count ? idmap_get(&e->gang_members, id) : NULL;
    if (!m || !m->gang->formed)
        return err_none();
    struct arena scratch = {0};
    const struct gang *g = m->gang;
    const uint32_t count = g->count;
    const struct id *ids = engine_gang_ids(g, &scratch);
    struct str words = words_of(g, id, why, &scratch);
    struct err err = err_none();
    for (uint32_t i = 0; i < count && err.code == ERR_OK; i++)
        if (!id_eq(ids[i], id))
            err = end_member(e, now, ids[i], words);
    arena_fini(&scratch);
    return err;
}
