/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/must.h"
#include "store/record.h"

static struct record_key key_of_id(char kind, struct id id)
{
    struct record_key k = {.len = 17};
    k.bytes[0] = kind;
    id_encode(id, (uint8_t *)k.bytes + 1);
    return k;
}

static void put_big_endian(char *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (char)(v >> (8 * (bytes - 1 - i)));
}

static uint64_t get_big_endian(const char *at, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

struct record_key record_job_key(struct id id)
{
    return key_of_id('J', id);
}

struct record_key record_payload_key(struct id id)
{
    return key_of_id('P', id);
}

struct record_key record_state_key(struct id id)
{
    return key_of_id('S', id);
}

struct record_key record_apart_key(struct id id)
{
    return key_of_id('X', id);
}

struct record_key record_run_key(struct id id, uint32_t run)
{
    struct record_key k = key_of_id('R', id);
    put_big_endian(k.bytes + k.len, run, 4);
    k.len += 4;
    return k;
}

struct record_key record_note_key(struct id id, enum note_kind kind)
{
    struct record_key k = key_of_id('O', id);
    k.bytes[k.len++] = (char)kind;
    return k;
}

static struct record_key key_of_seq(char kind, uint64_t seq)
{
    struct record_key k = {.len = 9};
    k.bytes[0] = kind;
    put_big_endian(k.bytes + 1, seq, 8);
    return k;
}

struct record_key record_takes_key(uint64_t seq)
{
    return key_of_seq('T', seq);
}

struct record_key record_ended_key(uint64_t seq)
{
    return key_of_seq('W', seq);
}

struct record_key record_history_key(uint64_t number)
{
    return key_of_seq('F', number);
}

struct record_key record_cron_group_key(struct id id)
{
    return key_of_id('C', id);
}

struct record_key record_cron_entry_key(struct id id)
{
    return key_of_id('E', id);
}

struct record_key record_cron_clock_key(struct id id)
{
    return key_of_id('N', id);
}

struct str record_resource_key(char kind, struct str name, char room[RECORD_RESOURCE_KEY_MAX])
{
    must(name.len + 2 <= RECORD_RESOURCE_KEY_MAX);
    room[0] = 'D';
    room[1] = kind;
    if (name.len)
        memcpy(room + 2, name.at, name.len);
    return (struct str){room, name.len + 2};
}

static struct str key_of_name(char kind, struct str name, char room[JOB_NAME_MAX + 1])
{
    must(name.len > 0 && name.len <= JOB_NAME_MAX);
    room[0] = kind;
    memcpy(room + 1, name.at, name.len);
    return (struct str){room, name.len + 1};
}

struct str record_queue_key(struct str name, char room[RECORD_QUEUE_KEY_MAX])
{
    return key_of_name('Q', name, room);
}

struct str record_budget_key(struct str key, char room[RECORD_BUDGET_KEY_MAX])
{
    return key_of_name('B', key, room);
}

struct record_key record_clock_key(void)
{
    return record_meta_key(STR("clock"));
}

struct record_key record_meta_key(struct str name)
{
    must(name.len > 0 && name.len < RECORD_KEY_MAX);
    struct record_key k = {.len = 1 + name.len};
    k.bytes[0] = 'M';
    memcpy(k.bytes + 1, name.at, name.len);
    return k;
}

static bool is_kind(struct str key, char kind, size_t len)
{
    return key.len == len && key.at[0] == kind;
}

static struct id id_in(struct str key)
{
    return id_decode((const uint8_t *)key.at + 1);
}

static bool is_id_key(struct str key, char kind, struct id *id)
{
    if (!is_kind(key, kind, 17))
        return false;
    *id = id_in(key);
    return true;
}

bool record_key_is_job(struct str key, struct id *id)
{
    return is_id_key(key, 'J', id);
}

bool record_key_is_payload(struct str key, struct id *id)
{
    return is_id_key(key, 'P', id);
}

bool record_key_is_cron_group(struct str key, struct id *id)
{
    return is_id_key(key, 'C', id);
}

bool record_key_is_cron_entry(struct str key, struct id *id)
{
    return is_id_key(key, 'E', id);
}

bool record_key_is_cron_clock(struct str key, struct id *id)
{
    return is_id_key(key, 'N', id);
}

bool record_key_is_resource(struct str key, char *kind, struct str *name)
{
    if (key.len < 2 || key.at[0] != 'D')
        return false;
    *kind = key.at[1];
    *name = (struct str){key.at + 2, key.len - 2};
    return true;
}

static bool is_name_key(struct str key, char kind, struct str *name)
{
    if (key.len < 2 || key.len > JOB_NAME_MAX + 1 || key.at[0] != kind)
        return false;
    *name = (struct str){key.at + 1, key.len - 1};
    return true;
}

bool record_key_is_queue(struct str key, struct str *name)
{
    return is_name_key(key, 'Q', name);
}

bool record_key_is_budget(struct str key, struct str *name)
{
    return is_name_key(key, 'B', name);
}

bool record_key_is_state(struct str key, struct id *id)
{
    return is_id_key(key, 'S', id);
}

bool record_key_is_apart(struct str key, struct id *id)
{
    return is_id_key(key, 'X', id);
}

bool record_key_is_run(struct str key, struct id *id, uint32_t *run)
{
    if (!is_kind(key, 'R', 21))
        return false;
    *id = id_in(key);
    *run = (uint32_t)get_big_endian(key.at + 17, 4);
    return true;
}

bool record_key_is_note(struct str key, struct id *id, enum note_kind *kind)
{
    if (!is_kind(key, 'O', 18) || (unsigned char)key.at[17] >= NOTE_KINDS)
        return false;
    *id = id_in(key);
    *kind = (enum note_kind)key.at[17];
    return true;
}

static bool is_seq_key(struct str key, char kind, uint64_t *seq)
{
    if (!is_kind(key, kind, 9))
        return false;
    *seq = get_big_endian(key.at + 1, 8);
    return true;
}

bool record_key_is_takes(struct str key, uint64_t *seq)
{
    return is_seq_key(key, 'T', seq);
}

bool record_key_is_ended(struct str key, uint64_t *seq)
{
    return is_seq_key(key, 'W', seq);
}

bool record_key_is_history(struct str key, uint64_t *number)
{
    return is_seq_key(key, 'F', number);
}
