/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of jobs: their commands, their part of the port, and their recovery. */

#include "backend/embedded/embedded_internal.h"

/* --- commands --- */

static void show(struct embedded *b, struct str name, struct reply *r)
{
    struct arena *a = &b->building->arena;
    struct group_view *view = ARENA_NEW(a, struct group_view);
    r->err = engine_group_read(b->engine, name, view);
    if (r->err.code != ERR_OK)
        return;
    view->record.name = arena_copy(a, view->record.name);
    view->record.owner = arena_copy(a, view->record.owner);
    r->group = view;
}

void embedded_group_read(struct embedded *b, const struct command *c, struct reply *r)
{
    show(b, c->group, r);
}

void embedded_group_seal(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = engine_group_seal(b->engine, b->now, c->group);
    if (r->err.code == ERR_OK)
        show(b, c->group, r);
}

void embedded_group_reprioritized(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct group_reprioritized *g = &c->group_reprioritized;
    r->err = engine_group_reprioritized(b->engine, b->now, g->name, g->priority, g->jobs);
}

/* --- the port --- */

static void put_group(void *ctx, const struct group_record *group)
{
    struct embedded *b = ctx;
    record_put_group(&b->building->batch, group);
}

static void delete_group(void *ctx, struct str name)
{
    struct embedded *b = ctx;
    char room[RECORD_GROUP_KEY_MAX];
    batch_delete(&b->building->batch, record_group_key(name, room));
}

void embedded_group_port(struct port *port)
{
    port->put_group = put_group;
    port->delete_group = delete_group;
}

/* --- recovery --- */

struct err embedded_group_recover(struct embedded *b)
{
    struct store *s = b->env.store;
    struct str key, value, name;
    struct err err = err_none();
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR("G"), false);
    for (; err.code == ERR_OK && store_cursor_at(c, s, &key, &value) &&
           record_key_is_group(key, &name);
         store_cursor_step(c, s, false)) {
        struct group_record group;
        err = record_read_group(value, name, &group);
        if (err.code == ERR_OK)
            engine_restore_group(b->engine, &group);
    }
    struct err read = store_cursor_free(c, s);
    return err.code == ERR_OK ? read : err;
}
