/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

struct err store_get(struct store *s, struct str key, bool *found, struct buf *value)
{
    return s->vt->get(s, key, found, value);
}

void store_commit(struct store *s, const struct batch *b, bool sync)
{
    s->vt->commit(s, b, sync);
}

bool store_is_durable(struct store *s)
{
    return s->vt->durable && s->vt->durable(s);
}

bool store_reap(struct store *s, struct err *result)
{
    return s->vt->reap(s, result);
}

void store_wait(struct store *s)
{
    s->vt->wait(s);
}

int store_wake_fd(const struct store *s)
{
    return s->vt->wake_fd ? s->vt->wake_fd(s) : -1;
}

struct err store_reopen(struct store *s)
{
    return s->vt->reopen(s);
}

uint64_t store_number(const struct store *s)
{
    return s->vt->number ? s->vt->number(s) : 0;
}

void store_hold(struct store *s, uint64_t number)
{
    if (s->vt->hold)
        s->vt->hold(s, number);
}

struct err store_replay(struct store *s, uint64_t from, store_replay_fn fn, void *ctx)
{
    if (!s->vt->replay)
        return err_make(ERR_NOT_FOUND, "this store keeps no batches");
    return s->vt->replay(s, from, fn, ctx);
}

struct err store_failure(const struct store *s)
{
    return s->vt->failure(s);
}

void store_damage(struct store *s, struct store_damage *out)
{
    *out = (struct store_damage){0};
    if (s->vt->damage)
        s->vt->damage(s, out);
}

struct store_cursor *store_cursor_new(struct store *s)
{
    return s->vt->cursor_new(s);
}

void store_cursor_seek(struct store_cursor *c, struct store *s, struct str key, bool backwards)
{
    s->vt->cursor_seek(c, key, backwards);
}

bool store_cursor_at(const struct store_cursor *c, const struct store *s, struct str *key,
                     struct str *value)
{
    return s->vt->cursor_at(c, key, value);
}

void store_cursor_step(struct store_cursor *c, struct store *s, bool backwards)
{
    s->vt->cursor_step(c, backwards);
}

struct err store_cursor_free(struct store_cursor *c, struct store *s)
{
    return s->vt->cursor_free(c);
}

int64_t store_free_space(struct store *s)
{
    return s->vt->free_space(s);
}

uint64_t store_disk_bytes(struct store *s)
{
    return s->vt->disk_bytes(s);
}

struct err store_compact(struct store *s)
{
    if (!s->vt->compact)
        return err_make(ERR_NOT_SUPPORTED, "this store has no tables");
    return s->vt->compact(s);
}

void store_compact_stop(struct store *s)
{
    if (s->vt->compact_stop)
        s->vt->compact_stop(s);
}

struct err store_snapshot(struct store *s, const char *dir)
{
    if (!s->vt->snapshot)
        return err_make(ERR_NOT_SUPPORTED, "this store cannot be copied while it is in use");
    return s->vt->snapshot(s, dir);
}

void store_close(struct store *s)
{
    s->vt->close(s);
}
