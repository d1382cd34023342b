/* SPDX-License-Identifier: Apache-2.0 */

/* Cron: its commands, its part of the port, and its recovery. */

#include "backend/embedded/embedded_internal.h"
#include "base/log.h"
#include "base/must.h"
#include "store/record.h"

/* --- commands --- */

static struct cron_view *reply_view(struct embedded *b, struct reply *r)
{
    return r->cron = arena_zero(&b->building->arena, sizeof *r->cron);
}

void embedded_cron_put(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err =
        engine_cron_put(b->engine, b->now, &c->cron_put, &b->building->arena, reply_view(b, r));
}

void embedded_cron_read(struct embedded *b, const struct command *c, struct reply *r)
{
    struct arena *a = &b->building->arena;
    if (c->cron.group.len == 0)
        r->count = engine_cron_names(b->engine, a, &r->names);
    else
        r->err = engine_cron_read(b->engine, c->cron.group, c->cron.entry, a, reply_view(b, r));
}

void embedded_cron_switch(struct embedded *b, const struct command *c, struct reply *r)
{
    if (c->cron.zone_given)
        r->err = engine_cron_rezone(b->engine, b->now, c->cron.group, c->cron.zone);
    if (r->err.code == ERR_OK)
        r->err = engine_cron_switch(b->engine, b->now, c->cron.group, c->cron.entry, c->cron.to,
                                    &b->building->arena, reply_view(b, r));
}

void embedded_cron_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = engine_cron_remove(b->engine, c->cron.group, c->cron.entry, &r->count);
}

/* --- the port --- */

static struct err load_entry(void *ctx, struct id id, struct arena *a, struct cron_entry *out)
{
    struct embedded *b = ctx;
    bool found;
    struct str value;
    TRY(embedded_read_key(b, record_cron_entry_key(id), a, &found, &value));
    if (!found)
        return err_make(ERR_CORRUPT, "a cron entry is missing from the store");
    return record_read_cron_entry(value, id, out);
}

static void put_group(void *ctx, const struct cron_group *group)
{
    struct embedded *b = ctx;
    record_put_cron_group(&b->building->batch, group);
}

static void put_entry(void *ctx, const struct cron_entry *entry)
{
    struct embedded *b = ctx;
    record_put_cron_entry(&b->building->batch, entry);
}

static void put_clock(void *ctx, struct id id, const struct cron_clock *clock)
{
    struct embedded *b = ctx;
    record_put_cron_clock(&b->building->batch, id, clock);
}

static void delete_key(struct embedded *b, struct record_key key)
{
    batch_delete(&b->building->batch, record_key_view(&key));
}

static void delete_group(void *ctx, struct id id)
{
    delete_key(ctx, record_cron_group_key(id));
}

static void delete_entry(void *ctx, struct id id)
{
    delete_key(ctx, record_cron_entry_key(id));
    delete_key(ctx, record_cron_clock_key(id));
}

static const struct cron_zone *zone(void *ctx, struct str name)
{
    struct embedded *b = ctx;
    if (b->env.zone)
        return b->env.zone(b->env.zones, name);
    return name.len == 0 || str_eq(name, STR("UTC")) ? &cron_utc : NULL;
}

void embedded_cron_port(struct port *port)
{
    port->load_cron_entry = load_entry;
    port->put_cron_group = put_group;
    port->put_cron_entry = put_entry;
    port->put_cron_clock = put_clock;
    port->delete_cron_group = delete_group;
    port->delete_cron_entry = delete_entry;
    port->zone = zone;
}

/* --- recovery --- */

static struct err recover_groups(struct embedded *b, struct store_cursor *c)
{
    struct store *s = b->env.store;
    struct record_key first = record_cron_group_key((struct id){0});
    struct str key, value;
    struct id id;
    store_cursor_seek(c, s, record_key_view(&first), false);
    for (; store_cursor_at(c, s, &key, &value) && record_key_is_cron_group(key, &id);
         store_cursor_step(c, s, false)) {
        struct cron_group group;
        TRY(record_read_cron_group(value, id, &group));
        engine_restore_cron_group(b->engine, &group);
    }
    return err_none();
}

static struct err recover_entry(struct embedded *b, struct cron_entry *entry)
{
    bool found, ticks;
    struct record_key key = record_cron_clock_key(entry->id);
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    struct err err = err_make(ERR_CORRUPT, "its clock is missing");
    if (found)
        err = record_read_cron_clock(buf_view(&b->scratch), &entry->clock);
    if (err.code == ERR_OK)
        err = engine_restore_cron_entry(b->engine, b->now, entry, &ticks);
    if (err.code == ERR_CORRUPT) {
        /* It is as good as not there, and may be defined again. */
        log_error("cron entry '%.*s' is damaged and stands still: %s; define it again",
                  STR_ARG(entry->name), err.msg);
        return err_none();
    }
    TRY(err);
    if (entry->classic && cron_days_differ(entry->expression))
        log_warn("cron entry '%.*s': '%.*s' still means that both days must agree, as when it was "
                 "put; once it is put again either will do, unless the day of the week begins "
                 "with '+'",
                 STR_ARG(entry->name), STR_ARG(entry->expression));
    if (!ticks)
        log_warn("cron entry '%.*s' stands still: there is no time zone '%.*s' here",
                 STR_ARG(entry->name), STR_ARG(entry->zone));
    return err_none();
}

static struct err recover_entries(struct embedded *b, struct store_cursor *c)
{
    struct store *s = b->env.store;
    struct record_key first = record_cron_entry_key((struct id){0});
    struct str key, value;
    struct id id;
    store_cursor_seek(c, s, record_key_view(&first), false);
    for (; store_cursor_at(c, s, &key, &value) && record_key_is_cron_entry(key, &id);
         store_cursor_step(c, s, false)) {
        struct cron_entry entry;
        TRY(record_read_cron_entry(value, id, &entry));
        TRY(recover_entry(b, &entry));
    }
    return err_none();
}

struct err embedded_cron_recover(struct embedded *b)
{
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = recover_groups(b, c);
    if (err.code == ERR_OK)
        err = recover_entries(b, c);
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}
