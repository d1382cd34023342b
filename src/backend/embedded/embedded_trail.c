/* SPDX-License-Identifier: Apache-2.0 */

/* The audit (core/trail.h): a change and who asked for it are of one batch. */

#include <stdlib.h>

#include "backend/embedded/embedded_internal.h"
#include "base/must.h"
#include "core/trail.h"

/* The newest number has an entry of its own: it outlives all others. */
#define NEWEST_SPACE STR("~audited")
#define NEWEST_KEY   STR("newest")

#define REMOVED_AT_ONCE 4 /* of those that are too many, with each new one */

static struct kv_entry entry_of(uint64_t number, char room[TRAIL_KEY_LEN])
{
    trail_key(number, room);
    return (struct kv_entry){
        .space = TRAIL_SPACE, .key = {room, TRAIL_KEY_LEN}, .expires = INSTANT_NONE};
}

static void write_entry(struct embedded *b, const struct trail_entry *e)
{
    char room[TRAIL_KEY_LEN];
    struct buf value = {0};
    struct kv_entry entry = entry_of(e->number, room);
    trail_write(e, &value);
    entry.value = buf_view(&value);
    entry.expires = instant_add(e->at, b->settings.audit_retention);
    embedded_kv_keep(b, &entry);
    buf_fini(&value);
}

static void write_newest(struct embedded *b)
{
    struct buf value = {0};
    buf_print(&value, "%llu", (unsigned long long)b->trail.newest);
    struct kv_entry entry = {.space = NEWEST_SPACE,
                             .key = NEWEST_KEY,
                             .value = buf_view(&value),
                             .expires = INSTANT_NONE};
    embedded_kv_keep(b, &entry);
    buf_fini(&value);
}

/* Those that had a shorter retention are gone already. */
static void remove_old(struct embedded *b)
{
    char room[TRAIL_KEY_LEN];
    uint64_t most = b->settings.audit_max;
    for (int i = 0; i < REMOVED_AT_ONCE && most && b->trail.newest - b->trail.removed > most; i++) {
        struct kv_entry entry = entry_of(++b->trail.removed, room);
        embedded_kv_forget(b, &entry);
    }
}

uint64_t embedded_trail_begin(struct embedded *b, struct str note, bool open)
{
    must(note.len > 0 && note.len <= TRAIL_NOTE_MAX);
    const struct trail_entry e = {
        .number = ++b->trail.newest, .at = b->now, .open = open, .note = note};
    write_entry(b, &e);
    write_newest(b);
    remove_old(b);
    return e.number;
}

void embedded_trail_end(struct embedded *b, uint64_t number, uint64_t count)
{
    char room[TRAIL_KEY_LEN];
    struct arena scratch = {0};
    struct kv_entry entry = entry_of(number, room);
    struct trail_entry e;
    struct err err = embedded_kv_load(b, entry.space, entry.key, &scratch, &entry);
    if (err.code == ERR_OK && entry.version)
        err = trail_read(entry.key, entry.value, &e);
    /* Without it the change stays recorded as one that was not finished. */
    if (err.code == ERR_OK && entry.version) {
        e.open = false;
        e.counted = true;
        e.count = count;
        write_entry(b, &e);
    }
    arena_fini(&scratch);
}

struct err embedded_trail_recover(struct embedded *b)
{
    struct arena scratch = {0};
    struct kv_entry entry = {.space = NEWEST_SPACE, .key = NEWEST_KEY};
    struct err err = embedded_kv_load(b, entry.space, entry.key, &scratch, &entry);
    b->trail = (struct trail_state){0};
    for (size_t i = 0; err.code == ERR_OK && i < entry.value.len; i++) {
        unsigned digit = (unsigned char)entry.value.at[i] - (unsigned)'0';
        if (digit > 9 || b->trail.newest > UINT64_MAX / 100)
            err = err_make(ERR_CORRUPT, "the newest number of the audit is not a number");
        b->trail.newest = b->trail.newest * 10 + digit;
    }
    arena_fini(&scratch);
    /* What a lower limit leaves behind is deleted when its time is over. */
    uint64_t most = b->settings.audit_max;
    b->trail.removed = most && b->trail.newest > most ? b->trail.newest - most : 0;
    return err;
}

/* What records the trail of any command does it. */
void embedded_record(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)b;
    (void)r;
    must(c->trail.len > 0);
}
