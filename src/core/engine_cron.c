/* SPDX-License-Identifier: Apache-2.0 */

/* Cron: groups, entries, ticks. */

#include "core/engine_cron.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/utf8.h"
#include "core/engine_internal.h"
#include "core/job_fields.h"

/* What does not come true within eight years, as 29 February always does but around 2100,
 * is taken for a mistake. */
#define HORIZON_MS    (INT64_C(2922) * 86400 * 1000)
#define HOLD_CHECK_MS 1000

struct set;

struct item {
    struct id id;
    struct set *set;
    uint32_t position;
    struct str name; /* owned */
    struct cron cron;
    const struct cron_zone *zone; /* NULL: not known, it does not tick */
    bool inherits;                /* the zone is that of the group */
    struct cron_clock clock;
    instant armed_at; /* of its deadline, or none */
    bool kept;        /* by the put under way */
};

/* A group. */
struct set {
    struct cron_group group; /* its name is owned by crons.names; owns its zone */
    struct item **items;     /* by position */
    size_t count, cap;
};

struct crons {
    struct strmap names; /* of struct set */
    struct idmap sets, items;
    bool held;
};

struct crons *engine_crons_new(uint64_t seed)
{
    struct crons *c = ALLOC(struct crons);
    c->names.seed = seed;
    return c;
}

static void text_free(struct str text)
{
    free((char *)(uintptr_t)text.at);
}

static void item_free(struct item *it)
{
    text_free(it->name);
    free(it);
}

static void set_free(struct set *s)
{
    text_free(s->group.zone);
    free(s->items);
    free(s);
}

void engine_crons_free(struct crons *c)
{
    for (size_t i = 0; i < c->sets.cap; i++) {
        struct set *s = c->sets.slots[i].val;
        if (!s)
            continue;
        for (size_t n = 0; n < s->count; n++)
            item_free(s->items[n]);
        set_free(s);
    }
    strmap_fini(&c->names);
    idmap_fini(&c->sets);
    idmap_fini(&c->items);
    free(c);
}

struct err cron_check_name(struct str name, const char *what)
{
    _Static_assert(CRON_NAME_MAX == JOB_NAME_MAX, "both are checked by one function");
    return job_check_name(name, what);
}

/* --- the index --- */

static struct str own_text(struct str text)
{
    return (struct str){text.len ? alloc_text(text.at, text.len) : NULL, text.len};
}

static struct set *set_add(struct engine *e, const struct cron_group *group)
{
    struct set *s = ALLOC(struct set);
    s->group = *group;
    s->group.name = strmap_put(&e->crons->names, group->name, s);
    s->group.zone = own_text(group->zone);
    idmap_put(&e->crons->sets, group->id, s);
    return s;
}

static struct item *find_item(const struct set *s, struct str name)
{
    for (size_t i = 0; i < s->count; i++)
        if (str_eq(s->items[i]->name, name))
            return s->items[i];
    return NULL;
}

/* Keeps the items of a group in the order of their positions. */
static void place(struct set *s, struct item *it)
{
    if (s->count == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 8;
        s->items = alloc_resize(s->items, s->cap * sizeof(struct item *));
    }
    size_t i = s->count++;
    for (; i > 0 && s->items[i - 1]->position > it->position; i--)
        s->items[i] = s->items[i - 1];
    s->items[i] = it;
}

static struct item *item_add(struct engine *e, struct set *s, struct id id, struct str name,
                             uint32_t position)
{
    struct item *it = ALLOC(struct item);
    it->id = id;
    it->set = s;
    it->position = position;
    it->name = (struct str){alloc_text(name.at, name.len), name.len};
    it->armed_at = INSTANT_NONE;
    idmap_put(&e->crons->items, id, it);
    place(s, it);
    return it;
}

static void arm(struct engine *e, struct item *it, instant at)
{
    if (instant_is_set(it->armed_at))
        engine_deadline_remove(e, it->armed_at, it->id);
    it->armed_at = at;
    if (instant_is_set(at))
        engine_deadline_add(e, at, it->id, DUE_VAL(DUE_CRON, 0, 0, 0));
}

/* Takes the item out of everything but its group's list. */
static void item_drop(struct engine *e, struct item *it)
{
    arm(e, it, INSTANT_NONE);
    e->port.delete_cron_entry(e->port.ctx, it->id);
    must(idmap_remove(&e->crons->items, it->id) == it);
    item_free(it);
}

static void set_drop(struct engine *e, struct set *s)
{
    for (size_t i = 0; i < s->count; i++)
        item_drop(e, s->items[i]);
    e->port.delete_cron_group(e->port.ctx, s->group.id);
    must(idmap_remove(&e->crons->sets, s->group.id) == s);
    must(strmap_remove(&e->crons->names, s->group.name) == s);
    set_free(s);
}

/* --- ticks --- */

static instant tick_after(const struct item *it, instant after)
{
    instant next;
    if (!it->zone || !cron_next(&it->cron, it->zone, after, &next))
        return INSTANT_NONE;
    return next;
}

static void set_next(struct engine *e, struct item *it, instant after)
{
    it->clock.next_at = tick_after(it, after);
    arm(e, it, it->clock.next_at);
}

static void put_clock(struct engine *e, const struct item *it)
{
    e->port.put_cron_clock(e->port.ctx, it->id, &it->clock);
}

static struct err load(struct engine *e, const struct item *it, struct arena *a,
                       struct cron_entry *out)
{
    return e->port.load_cron_entry(e->port.ctx, it->id, a, out);
}

static struct err enqueue(struct engine *e, instant now, struct item *it)
{
    struct arena scratch = {0};
    struct cron_entry entry;
    struct enqueued job; /* or the one that holds its unique key: the tick is done as well */
    struct err err = load(e, it, &scratch, &entry);
    if (err.code == ERR_OK)
        err = engine_enqueue(e, now, &entry.job, 1, &scratch, &job);
    if (err.code == ERR_OK)
        it->clock.last_at = now;
    arena_fini(&scratch);
    return err;
}

struct err engine_cron_due(struct engine *e, instant now, struct id id)
{
    struct item *it = idmap_get(&e->crons->items, id);
    must(it && instant_is_set(it->armed_at) && it->armed_at.ms <= now.ms);
    it->armed_at = INSTANT_NONE;
    if (e->crons->held) {
        arm(e, it, instant_add(now, (span){HOLD_CHECK_MS}));
        return err_none();
    }
    if (!it->clock.pause.paused && !it->set->group.pause.paused)
        TRY(enqueue(e, now, it));
    /* After now: all ticks that were missed have become this one. */
    set_next(e, it, instant_max(now, it->clock.next_at));
    put_clock(e, it);
    return err_none();
}

void engine_cron_hold(struct engine *e, bool held)
{
    e->crons->held = held;
}

/* --- recovery --- */

void engine_restore_cron_group(struct engine *e, const struct cron_group *group)
{
    id_seen(&e->ids, group->id);
    set_add(e, group);
}

struct err engine_restore_cron_entry(struct engine *e, const struct cron_entry *entry, bool *ticks)
{
    struct cron cron;
    struct set *s = idmap_get(&e->crons->sets, entry->group);
    if (!s)
        return err_make(ERR_CORRUPT, "the cron entry '%.*s' has no group",
                        (int)(entry->name.len < 80 ? entry->name.len : 80), entry->name.at);
    if (cron_parse(entry->expression, &cron).code != ERR_OK)
        return err_make(ERR_CORRUPT, "the cron entry '%.*s' has a broken expression",
                        (int)(entry->name.len < 80 ? entry->name.len : 80), entry->name.at);
    id_seen(&e->ids, entry->id);
    struct item *it = item_add(e, s, entry->id, entry->name, entry->position);
    it->cron = cron;
    it->inherits = entry->zone.len == 0;
    it->zone = e->port.zone(e->port.ctx, it->inherits ? s->group.zone : entry->zone);
    it->clock = entry->clock;
    *ticks = it->zone != NULL;
    if (it->zone)
        arm(e, it, it->clock.next_at);
    return err_none();
}

/* What was missed while the server was down stays due, or is passed over. What is not due
 * yet is computed again, for the rules of a zone may have changed; after the last tick that
 * was enqueued, for the clock may have gone back. */
static void restored(struct engine *e, instant now, struct item *it)
{
    bool missed = instant_is_set(it->clock.next_at) && it->clock.next_at.ms <= now.ms;
    if (!it->zone || (missed && !e->settings.cron_skip_missed))
        return;
    instant next = tick_after(it, instant_max(now, it->clock.last_at));
    if (next.ms == it->clock.next_at.ms)
        return;
    it->clock.next_at = next;
    arm(e, it, next);
    put_clock(e, it);
}

void engine_crons_restored(struct engine *e, instant now)
{
    for (size_t i = 0; i < e->crons->items.cap; i++)
        if (e->crons->items.slots[i].val)
            restored(e, now, e->crons->items.slots[i].val);
}

/* An entry without a zone stands still as before. */
static void turn_back(struct engine *e, instant now, struct item *it)
{
    it->clock.last_at = instant_min(it->clock.last_at, now);
    if (it->zone)
        set_next(e, it, now);
    put_clock(e, it);
}

void engine_cron_clock_back(struct engine *e, instant now)
{
    for (size_t i = 0; i < e->crons->items.cap; i++)
        if (e->crons->items.slots[i].val)
            turn_back(e, now, e->crons->items.slots[i].val);
}

/* --- pausing --- */

/* True if that changed something. */
static bool turn(struct cron_pause *p, instant now, enum cron_switch to)
{
    if (to == CRON_AS_IS || p->paused == (to == CRON_PAUSE))
        return false;
    p->paused = to == CRON_PAUSE;
    *(p->paused ? &p->paused_at : &p->resumed_at) = now;
    return true;
}

static const struct cron_pause running = {false, INSTANT_NONE, INSTANT_NONE};

/* --- put --- */

/* What is to become of one entry of a put. */
struct plan {
    struct cron cron;
    const struct cron_zone *zone;
    instant next;
    struct item *old; /* of that name, or NULL */
    bool same_times;  /* the expression and the zone are as stored */
    bool same;        /* and all else */
};

static bool same_curve(const struct curve *a, const struct curve *b)
{
    return a->shape == b->shape &&
           (a->shape == CURVE_NONE || (a->base.ms == b->base.ms && a->exponent == b->exponent &&
                                       a->jitter.ms == b->jitter.ms));
}

static bool same_job(const struct enqueue *a, const struct enqueue *b)
{
    return str_eq(a->queue, b->queue) && str_eq(a->type, b->type) &&
           str_eq(a->payload, b->payload) && a->priority == b->priority &&
           a->retry_limit == b->retry_limit && same_curve(&a->backoff, &b->backoff) &&
           a->completed_retention.ms == b->completed_retention.ms &&
           a->dead_retention.ms == b->dead_retention.ms && a->unique_while == b->unique_while &&
           str_eq(a->unique_key, b->unique_key) && job_options_eq(&a->options, &b->options);
}

#define NAME_ARG(name) (int)((name).len < 60 ? (name).len : 60), (name).at

static struct err find_zone(struct engine *e, struct str name, const struct cron_zone **zone)
{
    *zone = e->port.zone(e->port.ctx, name);
    if (*zone)
        return err_none();
    return err_make(ERR_BAD_ZONE,
                    "there is no time zone '%.*s'; an IANA name is meant, such as Europe/Berlin",
                    NAME_ARG(name));
}

/* group_zone: of the group once the put is done. */
static struct err make_plan(struct engine *e, instant now, const struct set *s,
                            const struct cron_spec *spec, struct str group_zone, struct arena *a,
                            struct plan *p)
{
    TRY(cron_check_name(spec->name, "the name of an entry"));
    TRY(cron_parse(spec->expression, &p->cron));
    if (spec->job.payload.len > CRON_PAYLOAD_MAX)
        return err_make(ERR_BAD_VALUE, "entry '%.*s': the payload has %zu bytes; %d are allowed",
                        NAME_ARG(spec->name), spec->job.payload.len, CRON_PAYLOAD_MAX);
    struct err err = find_zone(e, spec->zone.len ? spec->zone : group_zone, &p->zone);
    if (err.code != ERR_OK)
        return err_make(err.code, "entry '%.*s': %s", NAME_ARG(spec->name), err.msg);
    if (!cron_next(&p->cron, p->zone, now, &p->next) || p->next.ms > now.ms + HORIZON_MS)
        return err_make(ERR_BAD_CRON, "entry '%.*s': '%.*s' never comes within the next 8 years",
                        NAME_ARG(spec->name), NAME_ARG(spec->expression));
    p->old = s ? find_item(s, spec->name) : NULL;
    if (!p->old)
        return err_none();
    struct cron_entry old;
    TRY(load(e, p->old, a, &old));
    p->same_times = p->old->zone == p->zone && str_eq(old.expression, spec->expression) &&
                    str_eq(old.zone, spec->zone);
    p->same = p->same_times && same_job(&old.job, &spec->job);
    return err_none();
}

static struct err check_twice(const struct cron_put *put)
{
    for (size_t i = 0; i < put->count; i++)
        for (size_t n = 0; n < i; n++)
            if (str_eq(put->entries[i].name, put->entries[n].name))
                return err_make(ERR_BAD_VALUE,
                                "entries[%zu] and entries[%zu] have one name, '%.*s'", n, i,
                                NAME_ARG(put->entries[i].name));
    return err_none();
}

static struct err check_fresh(const struct cron_put *put, const struct plan *plans)
{
    for (size_t i = 0; put->fresh && i < put->count; i++)
        if (plans[i].old)
            return err_make(ERR_CONFLICT, "the cron group '%.*s' has an entry '%.*s' already",
                            NAME_ARG(put->group), NAME_ARG(put->entries[i].name));
    return err_none();
}

static struct err check_limits(const struct engine *e, const struct set *s,
                               const struct cron_put *put, const struct plan *plans)
{
    size_t before = s ? s->count : 0, added = 0;
    for (size_t i = 0; i < put->count; i++)
        added += !plans[i].old;
    size_t after = put->whole ? put->count : before + added;
    if (after > CRON_GROUP_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "a cron group has at most %d entries",
                        CRON_GROUP_ENTRIES_MAX);
    if (e->crons->items.count - before + after > CRON_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "all cron groups together have at most %d entries",
                        CRON_ENTRIES_MAX);
    if (!s && e->crons->sets.count >= CRON_GROUPS_MAX)
        return err_make(ERR_TOO_MANY, "there are at most %d cron groups", CRON_GROUPS_MAX);
    return err_none();
}

static void put_entry(struct engine *e, const struct item *it, const struct cron_spec *spec)
{
    struct cron_entry entry = {.id = it->id,
                               .group = it->set->group.id,
                               .position = it->position,
                               .name = it->name,
                               .expression = spec->expression,
                               .zone = spec->zone,
                               .job = spec->job};
    e->port.put_cron_entry(e->port.ctx, &entry);
}

static void apply_entry(struct engine *e, instant now, struct set *s, const struct cron_spec *spec,
                        const struct plan *p, uint32_t position)
{
    struct item *it = p->old;
    bool moved = it && it->position != position;
    if (!it) {
        it = item_add(e, s, id_next(&e->ids, now, &e->rng), spec->name, position);
        it->clock = (struct cron_clock){p->next, INSTANT_NONE, running};
    }
    it->position = position;
    it->kept = true;
    /* Whoever deploys another expression or job did not say that what is paused may run. */
    if (!p->same_times) {
        it->cron = p->cron;
        it->zone = p->zone;
        it->inherits = spec->zone.len == 0;
        it->clock.next_at = p->next;
        arm(e, it, p->next);
    }
    if (!p->same || moved)
        put_entry(e, it, spec);
    if (turn(&it->clock.pause, now, spec->paused) || !p->same_times)
        put_clock(e, it);
}

static int by_position(const void *a, const void *b)
{
    const struct item *x = *(struct item *const *)a, *y = *(struct item *const *)b;
    return (x->position > y->position) - (x->position < y->position);
}

/* Drops what the put did not name, if it was to name all; and puts the rest in order. */
static void settle(struct engine *e, struct set *s, bool whole)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct item *it = s->items[i];
        if (whole && !it->kept) {
            item_drop(e, it);
            continue;
        }
        it->kept = false;
        s->items[n++] = it;
    }
    s->count = n;
    if (n)
        qsort(s->items, n, sizeof(struct item *), by_position);
}

static struct str zone_after(const struct set *s, const struct cron_put *put)
{
    if (put->whole)
        return put->zone;
    return s ? s->group.zone : (struct str){0};
}

/* True if that changed something. */
static bool set_zone(struct set *s, struct str zone)
{
    if (str_eq(s->group.zone, zone))
        return false;
    text_free(s->group.zone);
    s->group.zone = own_text(zone);
    return true;
}

static struct set *apply_group(struct engine *e, instant now, struct set *s,
                               const struct cron_put *put)
{
    bool made = !s;
    struct str zone = zone_after(s, put);
    if (made) {
        struct cron_group group = {id_next(&e->ids, now, &e->rng), put->group, zone, running};
        s = set_add(e, &group);
    }
    bool moved = set_zone(s, zone);
    if (turn(&s->group.pause, now, put->paused) || made || moved)
        e->port.put_cron_group(e->port.ctx, &s->group);
    return s;
}

static void apply(struct engine *e, instant now, struct set *s, const struct cron_put *put,
                  const struct plan *plans)
{
    s = apply_group(e, now, s, put);
    uint32_t free_position = s->count ? s->items[s->count - 1]->position + 1 : 0;
    for (size_t i = 0; i < put->count; i++) {
        uint32_t position = put->whole     ? (uint32_t)i
                            : plans[i].old ? plans[i].old->position
                                           : free_position++;
        apply_entry(e, now, s, &put->entries[i], &plans[i], position);
    }
    settle(e, s, put->whole);
}

struct err engine_cron_put(struct engine *e, instant now, const struct cron_put *put,
                           struct arena *a, struct cron_view *out)
{
    must(put->whole || put->count == 1);
    TRY(cron_check_name(put->group, "the name of a cron group"));
    if (put->count > CRON_GROUP_ENTRIES_MAX)
        return err_make(ERR_TOO_MANY, "a cron group has at most %d entries; these are %zu",
                        CRON_GROUP_ENTRIES_MAX, put->count);
    struct set *s = strmap_get(&e->crons->names, put->group);
    struct plan *plans = arena_zero(a, put->count * sizeof *plans + 1);
    const struct cron_zone *zone;
    struct err err = find_zone(e, zone_after(s, put), &zone);
    if (err.code != ERR_OK && put->whole)
        return err_make(err.code, "timezone: %s", err.msg);
    for (size_t i = 0; i < put->count; i++)
        TRY(make_plan(e, now, s, &put->entries[i], zone_after(s, put), a, &plans[i]));
    TRY(check_twice(put));
    TRY(check_fresh(put, plans));
    TRY(check_limits(e, s, put, plans));
    apply(e, now, s, put, plans);
    struct str only = put->whole ? (struct str){0} : put->entries[0].name;
    return engine_cron_read(e, put->group, only, a, out);
}

/* --- the rest --- */

static struct err find_set(const struct engine *e, struct str name, struct set **s)
{
    *s = strmap_get(&e->crons->names, name);
    if (*s)
        return err_none();
    return err_make(ERR_NOT_FOUND, "there is no cron group '%.*s'", NAME_ARG(name));
}

static struct err find_entry(const struct set *s, struct str name, struct item **it)
{
    *it = find_item(s, name);
    if (*it)
        return err_none();
    return err_make(ERR_NOT_FOUND, "the cron group '%.*s' has no entry '%.*s'",
                    NAME_ARG(s->group.name), NAME_ARG(name));
}

static struct err add_to_view(struct engine *e, const struct item *it, struct arena *a,
                              struct cron_view *out)
{
    struct cron_entry *entry = &out->entries[out->count++];
    TRY(load(e, it, a, entry));
    entry->position = it->position;
    entry->clock = it->clock;
    return err_none();
}

struct err engine_cron_read(struct engine *e, struct str group, struct str entry, struct arena *a,
                            struct cron_view *out)
{
    struct set *s;
    struct item *only = NULL;
    *out = (struct cron_view){0};
    TRY(find_set(e, group, &s));
    if (entry.len)
        TRY(find_entry(s, entry, &only));
    out->group = s->group;
    out->group.name = arena_copy(a, s->group.name);
    out->group.zone = arena_copy(a, s->group.zone);
    out->entries = arena_get(a, s->count * sizeof *out->entries + 1);
    if (only)
        return add_to_view(e, only, a, out);
    for (size_t i = 0; i < s->count; i++)
        TRY(add_to_view(e, s->items[i], a, out));
    return err_none();
}

struct err engine_cron_switch(struct engine *e, instant now, struct str group, struct str entry,
                              enum cron_switch to, struct arena *a, struct cron_view *out)
{
    struct set *s;
    struct item *it;
    TRY(find_set(e, group, &s));
    if (entry.len) {
        TRY(find_entry(s, entry, &it));
        if (turn(&it->clock.pause, now, to))
            put_clock(e, it);
    } else if (turn(&s->group.pause, now, to)) {
        e->port.put_cron_group(e->port.ctx, &s->group);
    }
    return engine_cron_read(e, group, entry, a, out);
}

/* All that go by the zone of the group tick by the new one from now on. */
struct err engine_cron_rezone(struct engine *e, instant now, struct str group, struct str name)
{
    struct set *s;
    const struct cron_zone *zone;
    TRY(find_set(e, group, &s));
    TRY(find_zone(e, name, &zone));
    if (!set_zone(s, name))
        return err_none();
    e->port.put_cron_group(e->port.ctx, &s->group);
    for (size_t i = 0; i < s->count; i++) {
        struct item *it = s->items[i];
        if (!it->inherits || it->zone == zone)
            continue;
        it->zone = zone;
        set_next(e, it, now);
        put_clock(e, it);
    }
    return err_none();
}

static void remove_item(struct engine *e, struct set *s, struct item *it)
{
    size_t i = 0;
    while (s->items[i] != it)
        i++;
    s->count--;
    memmove(&s->items[i], &s->items[i + 1], (s->count - i) * sizeof(struct item *));
    item_drop(e, it);
}

static size_t remove_all(struct engine *e)
{
    struct arena scratch = {0};
    struct str *names;
    size_t n = engine_cron_names(e, &scratch, &names);
    for (size_t i = 0; i < n; i++)
        set_drop(e, strmap_get(&e->crons->names, names[i]));
    arena_fini(&scratch);
    return n;
}

struct err engine_cron_remove(struct engine *e, struct str group, struct str entry, size_t *removed)
{
    struct set *s;
    struct item *it;
    if (group.len == 0) {
        *removed = remove_all(e);
        return err_none();
    }
    TRY(find_set(e, group, &s));
    *removed = 1;
    if (entry.len == 0) {
        set_drop(e, s);
        return err_none();
    }
    TRY(find_entry(s, entry, &it));
    remove_item(e, s, it);
    return err_none();
}

size_t engine_cron_names(const struct engine *e, struct arena *a, struct str **names)
{
    size_t n = 0;
    *names = arena_get(a, e->crons->sets.count * sizeof **names + 1);
    for (size_t i = 0; i < e->crons->sets.cap; i++) {
        const struct set *s = e->crons->sets.slots[i].val;
        if (s)
            (*names)[n++] = arena_copy(a, s->group.name);
    }
    if (n)
        qsort(*names, n, sizeof **names, str_cmp_at);
    return n;
}

void engine_crons_check(const struct engine *e)
{
    const struct crons *c = e->crons;
    size_t items = 0;
    must(c->sets.count == c->names.count);
    for (size_t i = 0; i < c->sets.cap; i++) {
        const struct set *s = c->sets.slots[i].val;
        for (size_t n = 0; s && n < s->count; n++) {
            const struct item *it = s->items[n];
            struct btree_entry found, key = {(uint64_t)it->armed_at.ms, it->id.hi, it->id.lo, 0};
            must(it->set == s && idmap_get(&c->items, it->id) == it && !it->kept);
            must(n == 0 || s->items[n - 1]->position < it->position);
            must(!instant_is_set(it->armed_at) ||
                 (btree_at_least(&e->deadlines, key, &found) && found.major == key.major &&
                  found.hi == key.hi && found.lo == key.lo));
            items++;
        }
    }
    must(items == c->items.count);
}
