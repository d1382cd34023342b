/* SPDX-License-Identifier: Apache-2.0 */

/* Cron: groups, entries, ticks. What is put is in engine_cron_put.c. */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/engine_cron_internal.h"

#define HOLD_CHECK_MS 1000

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

static void set_free(struct cron_set *s)
{
    text_free(s->group.zone);
    strmap_fini(&s->names);
    free(s->items);
    free(s);
}

void engine_crons_free(struct crons *c)
{
    for (size_t i = 0; i < c->sets.cap; i++) {
        struct cron_set *s = c->sets.slots[i].val;
        if (!s)
            continue;
        for (size_t n = 0; n < s->count; n++)
            free(s->items[n]);
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

struct cron_set *engine_cron_set_add(struct engine *e, const struct cron_group *group)
{
    struct cron_set *s = ALLOC(struct cron_set);
    s->group = *group;
    s->group.name = strmap_put(&e->crons->names, group->name, s);
    s->group.zone = own_text(group->zone);
    s->names.seed = e->crons->names.seed;
    idmap_put(&e->crons->sets, group->id, s);
    return s;
}

struct cron_item *engine_cron_find_item(const struct cron_set *s, struct str name)
{
    return strmap_get(&s->names, name);
}

/* Keeps the items of a group in the order of their positions. */
static void place(struct cron_set *s, struct cron_item *it)
{
    ALLOC_GROW(s->items, s->count, s->cap, 8);
    size_t i = s->count++;
    for (; i > 0 && s->items[i - 1]->position > it->position; i--)
        s->items[i] = s->items[i - 1];
    s->items[i] = it;
}

struct cron_item *engine_cron_item_add(struct engine *e, struct cron_set *s, struct id id,
                                       struct str name, uint32_t position)
{
    struct cron_item *it = ALLOC(struct cron_item);
    it->id = id;
    it->set = s;
    it->position = position;
    it->name = strmap_put(&s->names, name, it);
    it->armed_at = INSTANT_NONE;
    idmap_put(&e->crons->items, id, it);
    place(s, it);
    return it;
}

void engine_cron_arm(struct engine *e, struct cron_item *it, instant at)
{
    it->tick = 0; /* one whose job is to come does not count any more */
    if (instant_is_set(it->armed_at))
        engine_deadline_remove(e, it->armed_at, it->id);
    it->armed_at = at;
    if (instant_is_set(at))
        engine_deadline_add(e, at, it->id, DUE_VAL(DUE_CRON, 0, 0, 0));
}

void engine_cron_item_drop(struct engine *e, struct cron_item *it)
{
    engine_cron_arm(e, it, INSTANT_NONE);
    engine_budget_hold(e, INSTANT_NONE, (struct str){0}, &it->budgets);
    e->port.delete_cron_entry(e->port.ctx, it->id);
    must(idmap_remove(&e->crons->items, it->id) == it);
    must(strmap_remove(&it->set->names, it->name) == it);
    free(it);
}

static void set_drop(struct engine *e, struct cron_set *s)
{
    for (size_t i = 0; i < s->count; i++)
        engine_cron_item_drop(e, s->items[i]);
    e->port.delete_cron_group(e->port.ctx, s->group.id);
    must(idmap_remove(&e->crons->sets, s->group.id) == s);
    must(strmap_remove(&e->crons->names, s->group.name) == s);
    set_free(s);
}

/* --- ticks --- */

static instant tick_after(const struct cron_item *it, instant after)
{
    instant next;
    if (!it->zone || !cron_next(&it->cron, it->zone, after, &next))
        return INSTANT_NONE;
    return next;
}

static void set_next(struct engine *e, struct cron_item *it, instant after)
{
    it->clock.next_at = tick_after(it, after);
    engine_cron_arm(e, it, it->clock.next_at);
}

void engine_cron_put_clock(struct engine *e, const struct cron_item *it)
{
    e->port.put_cron_clock(e->port.ctx, it->id, &it->clock);
}

struct err engine_cron_load(struct engine *e, const struct cron_item *it, struct arena *a,
                            struct cron_entry *out)
{
    return e->port.load_cron_entry(e->port.ctx, it->id, a, out);
}

/* The tick is over. All that were missed until now have become this one. */
static void step(struct engine *e, instant now, struct cron_item *it)
{
    set_next(e, it, instant_max(now, it->clock.next_at));
    engine_cron_put_clock(e, it);
}

/* The job of a batched entry comes later, and with it the next tick: until then this one is due,
 * and so it is after a crash. */
static struct err enqueue(struct engine *e, instant now, struct cron_item *it)
{
    struct arena scratch = {0};
    struct cron_entry entry;
    struct enqueued job; /* or the one that holds its unique key: the tick is done as well */
    struct err err = engine_cron_load(e, it, &scratch, &entry);
    if (err.code == ERR_OK && entry.job.batch.key.len) {
        it->tick = ++e->crons->ticks;
        e->sink.tick(e->sink.ctx, it->id, it->tick, &entry.job);
    } else if (err.code == ERR_OK) {
        err = engine_enqueue(e, now, &entry.job, 1, &scratch, &job);
        if (err.code == ERR_OK) {
            it->clock.last_at = now;
            step(e, now, it);
        }
    }
    arena_fini(&scratch);
    return err;
}

static bool is_paused(const struct cron_item *it)
{
    return it->clock.pause.paused || it->set->group.pause.paused;
}

struct err engine_cron_due(struct engine *e, instant now, struct id id)
{
    struct cron_item *it = idmap_get(&e->crons->items, id);
    must(it && instant_is_set(it->armed_at) && it->armed_at.ms <= now.ms);
    it->armed_at = INSTANT_NONE;
    if (e->crons->held) {
        engine_cron_arm(e, it, instant_add(now, (span){HOLD_CHECK_MS}));
        return err_none();
    }
    if (!is_paused(it))
        return enqueue(e, now, it);
    step(e, now, it);
    return err_none();
}

bool engine_cron_awaits(struct engine *e, instant now, struct id entry, uint64_t number)
{
    struct cron_item *it = idmap_get(&e->crons->items, entry);
    if (!it || it->tick != number)
        return false;
    if (!is_paused(it))
        return true;
    step(e, now, it);
    return false;
}

void engine_cron_ticked(struct engine *e, instant now, struct id entry)
{
    struct cron_item *it = idmap_get(&e->crons->items, entry);
    must(it && it->tick);
    it->clock.last_at = now;
    step(e, now, it);
}

void engine_cron_put_off(struct engine *e, instant now, struct id entry)
{
    struct cron_item *it = idmap_get(&e->crons->items, entry);
    must(it && it->tick);
    engine_cron_arm(e, it, instant_add(now, (span){HOLD_CHECK_MS}));
}

void engine_cron_hold(struct engine *e, bool held)
{
    e->crons->held = held;
}

/* --- recovery --- */

void engine_restore_cron_group(struct engine *e, const struct cron_group *group)
{
    id_seen(&e->ids, group->id);
    engine_cron_set_add(e, group);
}

struct err engine_restore_cron_entry(struct engine *e, instant now, const struct cron_entry *entry,
                                     bool *ticks)
{
    struct cron cron;
    struct cron_set *s = idmap_get(&e->crons->sets, entry->group);
    if (!s)
        return err_make(ERR_CORRUPT, "the cron entry '%.*s' has no group",
                        (int)(entry->name.len < 80 ? entry->name.len : 80), entry->name.at);
    if (engine_cron_find_item(s, entry->name))
        return err_make(ERR_CORRUPT, "its group has another entry '%.*s'",
                        (int)(entry->name.len < 80 ? entry->name.len : 80), entry->name.at);
    struct err parsed = entry->classic ? cron_parse_classic(entry->expression, &cron)
                                       : cron_parse(entry->expression, &cron);
    if (parsed.code != ERR_OK)
        return err_make(ERR_CORRUPT, "the cron entry '%.*s' has a broken expression",
                        (int)(entry->name.len < 80 ? entry->name.len : 80), entry->name.at);
    id_seen(&e->ids, entry->id);
    struct cron_item *it = engine_cron_item_add(e, s, entry->id, entry->name, entry->position);
    it->cron = cron;
    engine_budget_hold(e, now, entry->job.options.budgets, &it->budgets);
    it->inherits = entry->zone.len == 0;
    it->zone = e->port.zone(e->port.ctx, it->inherits ? s->group.zone : entry->zone);
    it->clock = entry->clock;
    *ticks = it->zone != NULL;
    if (it->zone)
        engine_cron_arm(e, it, it->clock.next_at);
    return err_none();
}

/* What was missed while the server was down stays due, or is passed over. What is not due
 * yet is computed again, for the rules of a zone may have changed; after the last tick that
 * was enqueued, for the clock may have gone back. */
static void restored(struct engine *e, instant now, struct cron_item *it)
{
    bool missed = instant_is_set(it->clock.next_at) && it->clock.next_at.ms <= now.ms;
    if (!it->zone || (missed && !e->settings.cron_skip_missed))
        return;
    instant next = tick_after(it, instant_max(now, it->clock.last_at));
    if (next.ms == it->clock.next_at.ms)
        return;
    it->clock.next_at = next;
    engine_cron_arm(e, it, next);
    engine_cron_put_clock(e, it);
}

void engine_crons_restored(struct engine *e, instant now)
{
    for (size_t i = 0; i < e->crons->items.cap; i++)
        if (e->crons->items.slots[i].val)
            restored(e, now, e->crons->items.slots[i].val);
}

/* An entry without a zone stands still as before. */
static void turn_back(struct engine *e, instant now, struct cron_item *it)
{
    it->clock.last_at = instant_min(it->clock.last_at, now);
    if (it->zone)
        set_next(e, it, now);
    engine_cron_put_clock(e, it);
}

void engine_cron_clock_back(struct engine *e, instant now)
{
    for (size_t i = 0; i < e->crons->items.cap; i++)
        if (e->crons->items.slots[i].val)
            turn_back(e, now, e->crons->items.slots[i].val);
}

/* --- pausing --- */

bool engine_cron_turn(struct cron_pause *p, instant now, enum cron_switch to)
{
    if (to == CRON_AS_IS || p->paused == (to == CRON_PAUSE))
        return false;
    p->paused = to == CRON_PAUSE;
    *(p->paused ? &p->paused_at : &p->resumed_at) = now;
    return true;
}

/* --- zones --- */

struct err engine_cron_find_zone(struct engine *e, struct str name, const struct cron_zone **zone)
{
    *zone = e->port.zone(e->port.ctx, name);
    if (*zone)
        return err_none();
    return err_make(ERR_BAD_ZONE,
                    "there is no time zone '%.*s'; an IANA name is meant, such as Europe/Berlin",
                    NAME_ARG(name));
}

bool engine_cron_set_zone(struct cron_set *s, struct str zone)
{
    if (str_eq(s->group.zone, zone))
        return false;
    text_free(s->group.zone);
    s->group.zone = own_text(zone);
    return true;
}

/* --- the rest --- */

static struct err find_set(const struct engine *e, struct str name, struct cron_set **s)
{
    *s = strmap_get(&e->crons->names, name);
    if (*s)
        return err_none();
    return err_make(ERR_NOT_FOUND, "there is no cron group '%.*s'", NAME_ARG(name));
}

static struct err find_entry(const struct cron_set *s, struct str name, struct cron_item **it)
{
    *it = engine_cron_find_item(s, name);
    if (*it)
        return err_none();
    return err_make(ERR_NOT_FOUND, "the cron group '%.*s' has no entry '%.*s'",
                    NAME_ARG(s->group.name), NAME_ARG(name));
}

static struct err add_to_view(struct engine *e, const struct cron_item *it, struct arena *a,
                              struct cron_view *out)
{
    struct cron_entry *entry = &out->entries[out->count++];
    TRY(engine_cron_load(e, it, a, entry));
    entry->position = it->position;
    entry->clock = it->clock;
    return err_none();
}

struct err engine_cron_read(struct engine *e, struct str group, struct str entry, struct arena *a,
                            struct cron_view *out)
{
    struct cron_set *s;
    struct cron_item *only = NULL;
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
    struct cron_set *s;
    struct cron_item *it;
    TRY(find_set(e, group, &s));
    if (entry.len) {
        TRY(find_entry(s, entry, &it));
        if (engine_cron_turn(&it->clock.pause, now, to))
            engine_cron_put_clock(e, it);
    } else if (engine_cron_turn(&s->group.pause, now, to)) {
        e->port.put_cron_group(e->port.ctx, &s->group);
    }
    return engine_cron_read(e, group, entry, a, out);
}

/* All that go by the zone of the group tick by the new one from now on. */
struct err engine_cron_rezone(struct engine *e, instant now, struct str group, struct str name)
{
    struct cron_set *s;
    const struct cron_zone *zone;
    TRY(find_set(e, group, &s));
    TRY(engine_cron_find_zone(e, name, &zone));
    if (!engine_cron_set_zone(s, name))
        return err_none();
    e->port.put_cron_group(e->port.ctx, &s->group);
    for (size_t i = 0; i < s->count; i++) {
        struct cron_item *it = s->items[i];
        if (!it->inherits || it->zone == zone)
            continue;
        it->zone = zone;
        set_next(e, it, now);
        engine_cron_put_clock(e, it);
    }
    return err_none();
}

static void remove_item(struct engine *e, struct cron_set *s, struct cron_item *it)
{
    size_t i = 0;
    while (s->items[i] != it)
        i++;
    s->count--;
    memmove(&s->items[i], &s->items[i + 1], (s->count - i) * sizeof(struct cron_item *));
    engine_cron_item_drop(e, it);
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
    struct cron_set *s;
    struct cron_item *it;
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
        const struct cron_set *s = e->crons->sets.slots[i].val;
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
        const struct cron_set *s = c->sets.slots[i].val;
        for (size_t n = 0; s && n < s->count; n++) {
            const struct cron_item *it = s->items[n];
            struct btree_entry found, key = {(uint64_t)it->armed_at.ms, it->id.hi, it->id.lo, 0};
            must(it->set == s && idmap_get(&c->items, it->id) == it && !it->kept);
            must(engine_cron_find_item(s, it->name) == it && s->names.count == s->count);
            must(n == 0 || s->items[n - 1]->position < it->position);
            must(!instant_is_set(it->armed_at) ||
                 (btree_at_least(&e->deadlines, key, &found) && found.major == key.major &&
                  found.hi == key.hi && found.lo == key.lo));
            items++;
        }
    }
    must(items == c->items.count);
}
