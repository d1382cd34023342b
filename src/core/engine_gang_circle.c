/* SPDX-License-Identifier: Apache-2.0 */

/* Gangs that wait for themselves. A job can name only older ones as those that it waits for, so
 * dependencies alone make no circle; but every member of a gang waits for all others, too. A circle
 * is closed by a new member that waits for others, which is refused; what older versions let in, or
 * an undo brought back, is found when the gang has waited for long. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/depend.h"
#include "core/engine_gang_internal.h"

/* Jobs that are looked at for one request. */
#define LOOKS_MAX 2000

struct search {
    const struct engine *e;
    const struct enqueue *specs; /* new jobs, which depend_earlier names */
    size_t count;
    uint32_t *next;          /* the next of the new jobs in its gang, from 1; 0: none */
    struct strmap new_gangs; /* gang → the first of its new jobs, from 1 */
    struct str gang;         /* that is looked for */
    struct idmap seen;
    struct id *open;
    size_t open_count, open_cap;
    int looks_left;
};

static void push(struct search *s, struct id id)
{
    if (idmap_get(&s->seen, id))
        return;
    idmap_put(&s->seen, id, s);
    ALLOC_GROW(s->open, s->open_count, s->open_cap, 64);
    s->open[s->open_count++] = id;
}

static void push_list(struct search *s, struct str ids)
{
    for (size_t i = 0; i < depend_count(ids); i++)
        push(s, depend_at(ids, i));
}

/* The members of a gang wait for each other until it has been handed out. */
static void push_gang(struct search *s, struct str name)
{
    const struct gang *g = strmap_get(&s->e->gangs, name);
    if (g && !g->formed)
        for (const struct list *n = g->members.next; n != &g->members; n = n->next)
            push(s, LIST_OF(n, const struct gang_member, node)->id);
    uint32_t at = (uint32_t)(uintptr_t)strmap_get(&s->new_gangs, name);
    for (; at; at = s->next[at - 1])
        push(s, depend_earlier(at - 1));
}

/* The gang with which that job waits, or none; and adds what else it waits for. */
static struct str look_at(struct search *s, struct id id, struct arena *a)
{
    const struct gang_member *m;
    struct job job;
    struct job_extent extent;
    uint32_t index;
    if (depend_is_earlier(id, &index)) {
        must(index < s->count);
        push_list(s, s->specs[index].options.depends_on);
        return s->specs[index].options.gang;
    }
    struct err err = s->e->port.load_job(s->e->port.ctx, id, PORT_STATE, a, &job, &extent);
    if (err.code != ERR_OK)
        return (struct str){0};
    if (job.state.status == STATUS_BLOCKED)
        push_list(s, job.state.extras.waits_for);
    m = s->e->gang_members.count ? idmap_get(&s->e->gang_members, id) : NULL;
    return m && !m->gang->formed ? m->gang->name : (struct str){0};
}

/* Whether something that is open waits for a member of the gang. */
static bool reaches(struct search *s)
{
    struct arena scratch = {0};
    bool found = false;
    while (!found && s->open_count > 0 && s->looks_left-- > 0) {
        arena_reset(&scratch);
        struct str gang = look_at(s, s->open[--s->open_count], &scratch);
        found = gang.len && str_eq(gang, s->gang);
        if (gang.len && !found)
            push_gang(s, gang);
    }
    arena_fini(&scratch);
    return found;
}

static void search_reset(struct search *s, struct str gang)
{
    idmap_fini(&s->seen);
    s->open_count = 0;
    s->gang = gang;
}

static void search_fini(struct search *s)
{
    idmap_fini(&s->seen);
    strmap_fini(&s->new_gangs);
    free(s->open);
    free(s->next);
}

bool engine_gang_waits_for_itself(const struct engine *e, const struct gang *g)
{
    struct search s = {.e = e, .gang = g->name, .looks_left = LOOKS_MAX};
    struct arena scratch = {0};
    for (const struct list *n = g->members.next; n != &g->members; n = n->next)
        look_at(&s, LIST_OF(n, const struct gang_member, node)->id, &scratch);
    arena_fini(&scratch);
    bool found = reaches(&s);
    search_fini(&s);
    return found;
}

/* --- new members --- */

static bool any_depends(const struct enqueue *specs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (specs[i].options.gang.len && specs[i].options.depends_on.len)
            return true;
    return false;
}

static void list_gangs(struct search *s)
{
    s->next = alloc_zero(s->count * sizeof *s->next);
    for (size_t i = 0; i < s->count; i++) {
        struct str gang = s->specs[i].options.gang;
        if (!gang.len)
            continue;
        s->next[i] = (uint32_t)(uintptr_t)strmap_get(&s->new_gangs, gang);
        strmap_put(&s->new_gangs, gang, (void *)(uintptr_t)(i + 1));
    }
}

struct err engine_gang_check_circles(const struct engine *e, const struct enqueue *specs,
                                     size_t count)
{
    if (!any_depends(specs, count))
        return err_none();
    struct search s = {.e = e, .specs = specs, .count = count, .looks_left = LOOKS_MAX};
    struct err err = err_none();
    s.new_gangs.seed = e->gangs.seed;
    list_gangs(&s);
    for (size_t i = 0; i < count && err.code == ERR_OK; i++) {
        const struct job_options *o = &specs[i].options;
        if (!o->gang.len || !o->depends_on.len)
            continue;
        search_reset(&s, o->gang);
        push_list(&s, o->depends_on);
        if (reaches(&s))
            err = err_make(ERR_UNPROCESSABLE,
                           "gang '%.*s' could never run: a member of it would wait by depends_on "
                           "for another one, and all are handed out together",
                           NAME_ARG(o->gang));
    }
    search_fini(&s);
    return err;
}
