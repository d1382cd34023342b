/* SPDX-License-Identifier: Apache-2.0 */

/* Keys and records of the entries that front ends keep.
 *
 *   'K' space 0 key           KV       byte version, varint version of the entry, opt expires, then
 *                                      the value up to the end
 *   'L' time space 0 key      EXPIRY   byte version. Of each entry that expires, so that what is
 *                                      due comes first
 *   'M' "kv"                  NEWEST   byte version, varint newest version of an entry */

#include "base/must.h"
#include "store/record_parts.h"

#define TIME_LEN 8

static struct str finish_key(struct str space, struct str key, char *room, size_t used)
{
    must(space.len <= KV_SPACE_MAX && key.len <= KV_KEY_MAX);
    struct writer w = {room, used, RECORD_KV_KEY_MAX};
    writer_bytes(&w, space.at, space.len);
    if (space.len)
        writer_byte(&w, 0);
    writer_bytes(&w, key.at, key.len);
    return (struct str){room, w.len};
}

struct str record_kv_key(struct str space, struct str key, char room[RECORD_KV_KEY_MAX])
{
    must(space.len > 0 || key.len == 0);
    room[0] = 'K';
    return finish_key(space, key, room, 1);
}

struct str record_kv_expiry_key(instant expires, struct str space, struct str key,
                                char room[RECORD_KV_KEY_MAX])
{
    must(instant_is_set(expires) && (space.len > 0 || key.len == 0));
    room[0] = 'L';
    for (int i = 0; i < TIME_LEN; i++)
        room[1 + i] = (char)((uint64_t)expires.ms >> (8 * (TIME_LEN - 1 - i)));
    return finish_key(space, key, room, 1 + TIME_LEN);
}

/* The space and the key, which follow on `from` bytes. */
static bool split_key(struct str whole, size_t from, struct str *space, struct str *key)
{
    if (whole.len <= from)
        return false;
    const char *at = whole.at + from, *end = memchr(at, 0, whole.len - from);
    if (!end)
        return false;
    *space = (struct str){at, (size_t)(end - at)};
    *key = (struct str){end + 1, whole.len - from - space->len - 1};
    return space->len > 0 && space->len <= KV_SPACE_MAX && key->len > 0 && key->len <= KV_KEY_MAX;
}

bool record_key_is_kv(struct str whole, struct str *space, struct str *key)
{
    return whole.len > 1 && whole.at[0] == 'K' && split_key(whole, 1, space, key);
}

bool record_key_is_kv_expiry(struct str whole, instant *expires, struct str *space, struct str *key)
{
    if (whole.len <= 1 + TIME_LEN || whole.at[0] != 'L')
        return false;
    uint64_t ms = 0;
    for (int i = 0; i < TIME_LEN; i++)
        ms = ms << 8 | (unsigned char)whole.at[1 + i];
    expires->ms = (int64_t)ms;
    return expires->ms >= 0 && split_key(whole, 1 + TIME_LEN, space, key);
}

static void write_entry(struct writer *w, const struct kv_entry *e)
{
    writer_byte(w, RECORD_VERSION);
    writer_varint(w, e->version);
    writer_opt(w, e->expires.ms);
    writer_bytes(w, e->value.at, e->value.len);
}

void record_put_kv(struct batch *b, const struct kv_entry *e)
{
    char room[RECORD_KV_KEY_MAX];
    struct writer count = {0};
    must(e->version > 0);
    write_entry(&count, e);
    struct writer fill =
        writer_into(batch_put_room(b, record_kv_key(e->space, e->key, room), count.len), count.len);
    write_entry(&fill, e);
    must(fill.len == count.len);
    if (!instant_is_set(e->expires))
        return;
    const char version = RECORD_VERSION;
    batch_put(b, record_kv_expiry_key(e->expires, e->space, e->key, room),
              (struct str){&version, 1});
}

void record_delete_kv(struct batch *b, const struct kv_entry *e)
{
    char room[RECORD_KV_KEY_MAX];
    batch_delete(b, record_kv_key(e->space, e->key, room));
    if (instant_is_set(e->expires))
        batch_delete(b, record_kv_expiry_key(e->expires, e->space, e->key, room));
}

struct err record_read_kv(struct str value, struct kv_entry *e)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "key-value"));
    e->version = reader_varint(&r, "version of the entry", UINT64_MAX);
    e->expires = reader_instant(&r, "expiry");
    size_t left = r.bad ? 0 : reader_left(&r);
    const char *at = reader_bytes(&r, "value", left);
    e->value = (struct str){at ? at : "", left};
    if (e->version == 0) /* how long it may be is for the writer to say */
        reader_fault(&r, "value");
    return record_finish(&r, "key-value");
}

struct err record_check_kv_expiry(struct str value)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "expiry"));
    return record_finish(&r, "expiry");
}

struct record_key record_kv_newest_key(void)
{
    return record_meta_key(STR("kv"));
}

static void write_newest(struct writer *w, uint64_t version)
{
    writer_byte(w, RECORD_VERSION);
    writer_varint(w, version);
}

void record_put_kv_newest(struct batch *b, uint64_t version)
{
    RECORD_PUT(b, record_kv_newest_key(), write_newest(w, version));
}

struct err record_read_kv_newest(struct str value, uint64_t *version)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "newest key-value"));
    *version = reader_varint(&r, "version", UINT64_MAX);
    return record_finish(&r, "newest key-value");
}
