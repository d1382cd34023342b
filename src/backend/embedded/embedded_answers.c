/* SPDX-License-Identifier: Apache-2.0 */

/* How much is kept of the answers to enqueues with an idempotency key. A key stays for its whole
 * time, but only so many bytes of answers do: beyond that the oldest are made brief, those that
 * expire first, in slices and after their batch is durable. Their bytes are counted in the batches
 * that change them, so that no start has to read them all. */

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"

/* In one turn: entries that are looked at, and bytes of answers that are made brief. */
#define LOOK_PER_TURN    256
#define SHORTEN_PER_TURN ((size_t)1 << 20)

static bool is_whole(const struct kv_entry *e)
{
    return str_eq(e->space, EMBEDDED_ANSWERS) && !record_answer_is_brief(e->value);
}

static void go_to(struct answers_state *s, struct str place)
{
    must(place.len <= sizeof s->room);
    memcpy(s->room, place.at, place.len);
    s->place = (struct str){s->room, place.len};
}

static void go_to_time(struct answers_state *s, instant time)
{
    char room[RECORD_KV_KEY_MAX];
    struct str none = {0};
    s->all.from = time;
    go_to(s, record_kv_expiry_key(time, none, none, room));
}

void embedded_answers_put(struct embedded *b, const struct kv_entry *e)
{
    struct answers_state *s = &b->answers;
    if (!is_whole(e))
        return;
    s->all.bytes += e->value.len;
    s->walked = false;
    if (e->expires.ms <= s->all.from.ms) /* the retention has become shorter */
        go_to_time(s, e->expires);
    record_put_answers(&b->building->batch, &s->all);
}

void embedded_answers_drop(struct embedded *b, const struct kv_entry *e)
{
    struct answers_state *s = &b->answers;
    if (!is_whole(e))
        return;
    /* An earlier version that was used in between has not counted. */
    s->all.bytes -= e->value.len < s->all.bytes ? e->value.len : s->all.bytes;
    record_put_answers(&b->building->batch, &s->all);
}

/* Others are made brief when they are durable; a burst of large ones does not wait for that. */
void embedded_answers_fit(struct embedded *b, struct kv_entry *e, struct arena *a)
{
    uint64_t most = b->settings.idempotency_bytes, bytes = b->answers.all.bytes + e->value.len;
    struct str brief;
    if (bytes <= most || bytes - most <= most)
        return;
    struct err err = record_shorten_answer(e->value, a, &brief);
    must(err.code == ERR_OK);
    e->value = brief;
    b->answers.shortened++;
}

/* --- the oldest --- */

static struct err shorten(struct embedded *b, struct kv_entry *e)
{
    struct arena scratch = {0};
    struct str brief;
    struct err err = record_shorten_answer(e->value, &scratch, &brief);
    e->value = brief;
    if (err.code == ERR_OK) {
        embedded_kv_keep(b, e);
        b->answers.shortened++;
    }
    arena_fini(&scratch);
    return err;
}

/* The entry of an expiry, unless it has another time by now, or is no answer that is whole. */
static struct err look_at(struct embedded *b, const struct kv_entry *due, size_t *bytes)
{
    struct arena scratch = {0};
    struct kv_entry e;
    struct err err = err_none();
    if (str_eq(due->space, EMBEDDED_ANSWERS))
        err = embedded_kv_load(b, due->space, due->key, &scratch, &e);
    if (err.code == ERR_OK && str_eq(due->space, EMBEDDED_ANSWERS) && e.version > 0 &&
        e.expires.ms == due->expires.ms && is_whole(&e)) {
        *bytes += e.value.len;
        err = shorten(b, &e);
    }
    arena_fini(&scratch);
    return err;
}

static struct err shorten_some(struct embedded *b, struct store_cursor *c, bool *more)
{
    struct answers_state *s = &b->answers;
    struct str key, value;
    struct kv_entry due;
    size_t bytes = 0;
    store_cursor_seek(c, b->env.store, s->place, false);
    for (int i = 0; s->all.bytes > b->settings.idempotency_bytes; i++) {
        s->walked = !store_cursor_at(c, b->env.store, &key, &value) ||
                    !record_key_is_kv_expiry(key, &due.expires, &due.space, &due.key);
        *more = !s->walked && (i == LOOK_PER_TURN || bytes >= SHORTEN_PER_TURN);
        if (s->walked || *more)
            break;
        go_to(s, key);
        s->all.from = due.expires;
        TRY(look_at(b, &due, &bytes));
        store_cursor_step(c, b->env.store, false);
    }
    return err_none();
}

struct err embedded_answers_shorten(struct embedded *b, bool *more)
{
    const struct answers_state *s = &b->answers;
    *more = false;
    if (s->walked || s->all.bytes <= b->settings.idempotency_bytes || b->committing ||
        b->health != HEALTH_GOOD)
        return err_none();
    struct store_cursor *c = store_cursor_new(b->env.store);
    struct err err = shorten_some(b, c, more);
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}

/* --- recovery --- */

/* An earlier version counted nothing. */
static struct err count_all(struct embedded *b, struct store_cursor *c)
{
    char room[RECORD_KV_KEY_MAX];
    struct str key, value, none = {0};
    struct kv_entry e;
    struct err err = err_none();
    store_cursor_seek(c, b->env.store, record_kv_key(EMBEDDED_ANSWERS, none, room), false);
    while (err.code == ERR_OK && store_cursor_at(c, b->env.store, &key, &value) &&
           record_key_is_kv(key, &e.space, &e.key) && str_eq(e.space, EMBEDDED_ANSWERS)) {
        err = record_read_kv(value, &e);
        if (err.code == ERR_OK && is_whole(&e))
            b->answers.all.bytes += e.value.len;
        store_cursor_step(c, b->env.store, false);
    }
    struct err read = store_cursor_free(c, b->env.store);
    return err.code == ERR_OK ? read : err;
}

struct err embedded_answers_recover(struct embedded *b)
{
    struct record_key key = record_answers_key();
    struct record_answers all = {.from = {0}};
    bool found;
    b->answers.walked = false;
    b->answers.all.bytes = 0;
    TRY(store_get(b->env.store, record_key_view(&key), &found, &b->scratch));
    if (found)
        TRY(record_read_answers(buf_view(&b->scratch), &all));
    go_to_time(&b->answers, all.from);
    b->answers.all.bytes = all.bytes;
    return found ? err_none() : count_all(b, store_cursor_new(b->env.store));
}
