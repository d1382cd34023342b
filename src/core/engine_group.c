/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of jobs. A job is in its group from its enqueue until it is gone; the index of who is in
 * which group is made of the jobs themselves, 32 bytes each. Each change of a status is looked at
 * here (engine_group_moved): so the number of jobs that have not ended is always right, and the end
 * of the last of them is told in the same batch. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_undo_internal.h"

struct job_group {
    struct str name; /* the map's */
    uint64_t number; /* in group_members; unlike that of any other group */
    uint64_t jobs, unended;
    instant sealed_at, retain_until;
    size_t owner_len;
    char owner[];
};

static struct str owner_of(const struct job_group *g)
{
    return (struct str){g->owner, g->owner_len};
}

static struct job_group *find(const struct engine *e, struct str name)
{
    return name.len && e->groups.count ? strmap_get(&e->groups, name) : NULL;
}

struct job_group *engine_group_of(const struct engine *e, const struct job *job)
{
    return find(e, job->options.group);
}

struct str engine_group_name(const struct job_group *g)
{
    return g ? g->name : (struct str){0};
}

static struct job_group *add_group(struct engine *e, struct str name, struct str owner)
{
    struct job_group *g = alloc_zero(sizeof *g + owner.len);
    g->number = ++e->group_number;
    g->sealed_at = g->retain_until = INSTANT_NONE;
    g->owner_len = owner.len;
    if (owner.len)
        memcpy(g->owner, owner.at, owner.len);
    g->name = strmap_put(&e->groups, name, g);
    return g;
}

static struct group_record record_of(const struct job_group *g)
{
    return (struct group_record){g->name, owner_of(g), g->sealed_at, g->retain_until};
}

static void store(struct engine *e, const struct job_group *g)
{
    struct group_record record = record_of(g);
    e->port.put_group(e->port.ctx, &record);
}

static struct btree_entry entry_of(const struct job_group *g, struct id id)
{
    return (struct btree_entry){g->number, id.hi, id.lo, 0};
}

static void add_member(struct engine *e, struct job_group *g, struct id id)
{
    must(btree_put(&e->group_members, entry_of(g, id)));
    g->jobs++;
}

/* --- coming in --- */

/* Why the job may not come into that group. */
static struct err refusal(const struct job_options *o, struct str owner, bool sealed)
{
    if (!str_eq(o->group_owner, owner))
        return err_make(ERR_CONFLICT, "group '%.*s' belongs to '%.*s', not to '%.*s'",
                        NAME_ARG(o->group), NAME_ARG(owner), NAME_ARG(o->group_owner));
    if (sealed)
        return err_make(ERR_GROUP_SEALED, "group '%.*s' is sealed: it takes no further jobs",
                        NAME_ARG(o->group));
    return err_none();
}

/* An enqueue that adds nothing, for the job is there, changes no group. */
static struct err is_duplicate(struct engine *e, instant now, const struct enqueue *spec, bool *is)
{
    struct arena scratch = {0};
    struct job job;
    struct err err = err_none();
    *is = false;
    if (spec->unique_while)
        err = engine_unique_find(e, now, spec->unique_key, &scratch, &job, is);
    if (err.code == ERR_OK && !*is && spec->options.alias.len)
        err = engine_alias_find(e, now, spec->options.alias, &scratch, &job, is);
    arena_fini(&scratch);
    return err;
}

/* firsts: the first spec of each group that there is not yet. */
static struct err check_one(struct engine *e, instant now, const struct enqueue *spec,
                            struct strmap *firsts)
{
    const struct job_options *o = &spec->options;
    const struct job_group *g = find(e, o->group);
    struct err refused = err_none();
    bool duplicate;
    if (g) {
        refused = refusal(o, owner_of(g), instant_is_set(g->sealed_at));
    } else {
        const struct enqueue *first = strmap_get(firsts, o->group);
        if (first)
            refused = refusal(o, first->options.group_owner, false);
        else
            strmap_put(firsts, o->group, (void *)spec);
    }
    if (refused.code == ERR_OK)
        return refused;
    TRY(is_duplicate(e, now, spec, &duplicate));
    return duplicate ? err_none() : refused;
}

struct err engine_group_check(struct engine *e, instant now, const struct enqueue *specs,
                              size_t count)
{
    struct strmap firsts = {.seed = e->groups.seed};
    struct err err = err_none();
    for (size_t i = 0; i < count && err.code == ERR_OK; i++)
        if (specs[i].options.group.len)
            err = check_one(e, now, &specs[i], &firsts);
    strmap_fini(&firsts);
    return err;
}

void engine_group_join(struct engine *e, const struct job *job, struct str owner)
{
    struct job_group *g = engine_group_of(e, job);
    if (!job->options.group.len)
        return;
    bool is_new = !g;
    if (is_new)
        g = add_group(e, job->options.group, owner);
    add_member(e, g, job->id);
    instant until = job->options.retain_until.ms ? job->options.retain_until : INSTANT_NONE;
    if (!is_new && until.ms <= g->retain_until.ms)
        return;
    g->retain_until = instant_max(g->retain_until, until);
    store(e, g);
}

bool engine_group_takes_back(const struct engine *e, const struct group_record *was)
{
    const struct job_group *g = find(e, was->name);
    return !g || str_eq(owner_of(g), was->owner);
}

void engine_group_rejoin(struct engine *e, const struct job *job, const struct group_record *was)
{
    if (!job->options.group.len)
        return;
    if (!engine_group_of(e, job)) {
        engine_restore_group(e, was);
        store(e, engine_group_of(e, job));
    }
    engine_group_join(e, job, was->owner);
}

/* --- moving, and going --- */

static bool has_ended(enum status s)
{
    return s == STATUS_GONE || lifecycle_is_terminal(s);
}

struct job_group *engine_group_moved(struct engine *e, const struct job_event *ev, bool *resolved)
{
    enum status to = ev->removed ? STATUS_GONE : ev->to;
    bool was = !has_ended(ev->from), is = !has_ended(to);
    *resolved = false;
    if (was == is && to != STATUS_GONE)
        return NULL;
    struct job_group *g = find(e, ev->group);
    if (!g)
        return NULL;
    must(g->unended >= was);
    g->unended += (uint64_t)is - (uint64_t)was;
    *resolved = was && g->unended == 0;
    if (to == STATUS_GONE) {
        must(btree_remove(&e->group_members, entry_of(g, ev->id), NULL));
        g->jobs--;
    }
    return g;
}

static void drop(struct engine *e, struct job_group *g)
{
    e->port.delete_group(e->port.ctx, g->name);
    must(strmap_remove(&e->groups, g->name) == g);
    free(g);
}

void engine_group_drop_if_empty(struct engine *e, struct job_group *g)
{
    if (g->jobs == 0)
        drop(e, g);
}

/* --- commands --- */

static struct err not_found(struct str name)
{
    return err_make(ERR_NOT_FOUND, "there is no group '%.*s': no job of it exists", NAME_ARG(name));
}

struct err engine_group_read(const struct engine *e, struct str name, struct group_view *view)
{
    const struct job_group *g = find(e, name);
    if (!g)
        return not_found(name);
    *view = (struct group_view){record_of(g), g->jobs, g->unended};
    return err_none();
}

struct err engine_group_seal(struct engine *e, instant now, struct str name)
{
    struct job_group *g = find(e, name);
    if (!g)
        return not_found(name);
    if (instant_is_set(g->sealed_at))
        return err_none();
    g->sealed_at = now;
    store(e, g);
    struct job_event ev = engine_group_event(EVENT_GROUP_SEALED, g->name);
    engine_group_changed(e, now, &ev);
    return err_none();
}

struct err engine_group_reprioritized(struct engine *e, instant now, struct str name,
                                      uint16_t priority, uint64_t jobs)
{
    const struct job_group *g = find(e, name);
    if (!g)
        return not_found(name);
    struct job_event ev = engine_group_event(EVENT_GROUP_REPRIORITIZE, g->name);
    ev.priority = priority;
    ev.jobs = jobs;
    engine_group_changed(e, now, &ev);
    return err_none();
}

bool engine_next_in_group(const struct engine *e, struct str name, struct id_place from,
                          bool backwards, struct id *next)
{
    const struct job_group *g = find(e, name);
    if (!g)
        return false;
    struct btree_entry key = {g->number, from.id.hi, from.id.lo, 0}, found;
    if (!from.set)
        key = (struct btree_entry){.major = g->number + backwards};
    bool any = backwards ? btree_before(&e->group_members, key, &found)
                         : btree_after(&e->group_members, key, &found);
    if (!any || found.major != g->number)
        return false;
    *next = (struct id){found.hi, found.lo};
    return true;
}

/* --- recovery, and the self-check --- */

void engine_restore_group(struct engine *e, const struct group_record *record)
{
    struct job_group *g = add_group(e, record->name, record->owner);
    g->sealed_at = record->sealed_at;
    g->retain_until = record->retain_until;
}

void engine_group_restore_job(struct engine *e, const struct job *job)
{
    struct job_group *g = engine_group_of(e, job);
    if (!job->options.group.len)
        return;
    if (!g) /* its record is lost */
        g = add_group(e, job->options.group, (struct str){0});
    add_member(e, g, job->id);
    g->unended += !has_ended(job->state.status);
}

void engine_groups_restored(struct engine *e)
{
    struct job_group **empty = NULL;
    size_t count = 0, cap = 0;
    for (size_t i = 0; i < e->groups.cap; i++) {
        struct job_group *g = e->groups.slots[i].key ? e->groups.slots[i].val : NULL;
        if (!g || g->jobs)
            continue;
        ALLOC_GROW(empty, count, cap, 16);
        empty[count++] = g;
    }
    for (size_t i = 0; i < count; i++)
        drop(e, empty[i]);
    free(empty);
}

void engine_groups_check(const struct engine *e)
{
    size_t jobs = 0;
    for (size_t i = 0; i < e->groups.cap; i++) {
        const struct job_group *g = e->groups.slots[i].key ? e->groups.slots[i].val : NULL;
        if (!g)
            continue;
        must(g->unended <= g->jobs);
        jobs += g->jobs;
    }
    must(jobs == e->group_members.count);
    btree_check(&e->group_members);
}

void engine_groups_fini(struct engine *e)
{
    for (size_t i = 0; i < e->groups.cap; i++)
        if (e->groups.slots[i].key)
            free(e->groups.slots[i].val);
    strmap_fini(&e->groups);
    btree_fini(&e->group_members);
}

uint64_t engine_groups_bytes(const struct engine *e)
{
    return e->group_members.bytes + e->groups.count * sizeof(struct job_group) +
           e->groups.cap * sizeof(struct strmap_slot);
}
