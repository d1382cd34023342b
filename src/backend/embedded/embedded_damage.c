/* SPDX-License-Identifier: Apache-2.0 */

/* Jobs that were set apart: a part of each could not be read, so that nobody knows what is to
 * become of it. A record says so of each, and it is in no index: it is neither handed out nor
 * listed, and who asks for it by its id is told. It can be deleted.
 *
 * What is found damaged while the server is at work is set apart as everything is recovered: by
 * dropping memory and reading the store again. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"

#define NAMED_MAX 20

/* The place of the id, or where it belongs. */
static size_t place_of(const struct damage *d, struct id id)
{
    size_t lo = 0, hi = d->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (id_cmp(d->jobs[mid].id, id) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool embedded_is_apart(const struct embedded *b, struct id id)
{
    const struct damage *d = &b->damage;
    size_t at = d->count ? place_of(d, id) : 0;
    return at < d->count && id_eq(d->jobs[at].id, id);
}

static bool add(struct damage *d, struct id id, struct record_apart apart, bool stored)
{
    size_t at = place_of(d, id);
    if (at < d->count && id_eq(d->jobs[at].id, id)) {
        d->jobs[at].stored |= stored;
        return false;
    }
    if (d->count == d->cap) {
        d->cap = d->cap ? d->cap * 2 : 64;
        d->jobs = alloc_resize(d->jobs, d->cap * sizeof *d->jobs);
    }
    memmove(d->jobs + at + 1, d->jobs + at, (d->count - at) * sizeof *d->jobs);
    d->jobs[at] = (struct damaged_job){id, apart, stored};
    d->count++;
    return true;
}

void embedded_set_apart(struct embedded *b, struct id id, enum apart_part part)
{
    if (add(&b->damage, id, (struct record_apart){.part = part}, false))
        b->damage.fresh++;
}

struct err embedded_apart_error(const struct embedded *b, struct id id)
{
    char text[ID_TEXT_LEN];
    id_format(id, text);
    enum apart_part part = b->damage.jobs[place_of(&b->damage, id)].apart.part;
    return err_make(ERR_DAMAGED,
                    "job %.25s was set apart: its %s was lost by damage to the disk; restore a "
                    "backup, or delete it",
                    text, record_apart_name(part));
}

/* --- recovery --- */

struct err embedded_damage_recover(struct embedded *b)
{
    struct store *s = b->env.store;
    struct store_cursor *c = store_cursor_new(s);
    struct record_key first = record_apart_key((struct id){0});
    struct str key, value;
    struct id id;
    struct err err = err_none();
    store_cursor_seek(c, s, record_key_view(&first), false);
    for (;
         err.code == ERR_OK && store_cursor_at(c, s, &key, &value) && record_key_is_apart(key, &id);
         store_cursor_step(c, s, false)) {
        struct record_apart apart;
        err = record_read_apart(value, &apart);
        if (err.code == ERR_OK)
            add(&b->damage, id, apart, true);
    }
    struct err read = store_cursor_free(c, s);
    return err.code == ERR_OK ? read : err;
}

static void tell(const struct embedded *b)
{
    struct buf names = {0};
    size_t named = 0;
    for (size_t i = 0; i < b->damage.count && named < NAMED_MAX; i++) {
        const struct damaged_job *j = &b->damage.jobs[i];
        char text[ID_TEXT_LEN];
        if (j->stored)
            continue;
        id_format(j->id, text);
        buf_print(&names, "%s%.25s (its %s)", named++ ? ", " : "", text,
                  record_apart_name(j->apart.part));
    }
    log_error("%zu jobs are set apart, as a part of each is missing or broken: %.*s%s",
              b->damage.fresh, (int)names.len, names.at ? names.at : "",
              b->damage.fresh > named ? " and others" : "");
    buf_fini(&names);
}

void embedded_damage_recovered(struct embedded *b)
{
    struct damage *d = &b->damage;
    if (d->fresh)
        tell(b);
    d->fresh = 0;
    for (size_t i = 0; b->health == HEALTH_GOOD && i < d->count; i++)
        if (!d->jobs[i].stored)
            record_put_apart(&b->building->batch, d->jobs[i].id, &d->jobs[i].apart);
    struct store_damage store;
    store_damage(b->env.store, &store);
    d->tables = store.tables;
}

bool embedded_can_heal(struct embedded *b)
{
    struct store_damage found;
    store_damage(b->env.store, &found);
    return found.found || b->damage.fresh > 0;
}

struct err embedded_met(struct embedded *b, const struct err *err)
{
    if (err->code == ERR_CORRUPT && embedded_can_heal(b))
        b->hurt = true;
    return *err;
}

/* --- deleting --- */

static struct err delete_runs(struct embedded *b, struct id id)
{
    struct store *s = b->env.store;
    struct store_cursor *c = store_cursor_new(s);
    struct record_key first = record_run_key(id, 0);
    struct str key, value;
    struct id at;
    uint32_t run;
    store_cursor_seek(c, s, record_key_view(&first), false);
    for (;
         store_cursor_at(c, s, &key, &value) && record_key_is_run(key, &at, &run) && id_eq(at, id);
         store_cursor_step(c, s, false))
        batch_delete(&b->building->batch, key);
    return store_cursor_free(c, s);
}

struct err embedded_apart_remove(struct embedded *b, struct id id)
{
    struct damage *d = &b->damage;
    TRY(delete_runs(b, id));
    struct record_key keys[] = {record_job_key(id), record_payload_key(id), record_state_key(id),
                                record_apart_key(id)};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        batch_delete(&b->building->batch, record_key_view(&keys[i]));
    for (int kind = 0; kind < NOTE_KINDS; kind++) {
        struct record_key key = record_note_key(id, (enum note_kind)kind);
        batch_delete(&b->building->batch, record_key_view(&key));
    }
    size_t at = place_of(d, id);
    memmove(d->jobs + at, d->jobs + at + 1, (d->count - at - 1) * sizeof *d->jobs);
    d->count--;
    engine_gone(b->engine, id);
    return err_none();
}

void embedded_damage_fini(struct embedded *b)
{
    free(b->damage.jobs);
}
