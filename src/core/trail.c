/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trail.h"

#include "base/json.h"

void trail_key(uint64_t number, char room[TRAIL_KEY_LEN])
{
    for (int i = 0; i < TRAIL_KEY_LEN; i++)
        room[i] = (char)(~number >> (8 * (TRAIL_KEY_LEN - 1 - i)));
}

void trail_write(const struct trail_entry *e, struct buf *b)
{
    buf_print(b, "{\"v\":1,\"at\":%lld,\"open\":%s", (long long)e->at.ms,
              e->open ? "true" : "false");
    if (e->counted)
        buf_print(b, ",\"count\":%llu", (unsigned long long)e->count);
    buf_lit(b, ",\"note\":");
    buf_str(b, e->note);
    buf_byte(b, '}');
}

static struct err read_member(struct json_cursor *c, struct str name, struct trail_entry *e)
{
    int64_t number;
    if (str_eq(name, STR("v")))
        return json_read_int(c, 1, 1, &number);
    if (str_eq(name, STR("at")))
        return json_read_int(c, 0, INSTANT_MAX_MS, &e->at.ms);
    if (str_eq(name, STR("open")))
        return json_read_bool(c, &e->open);
    if (str_eq(name, STR("note")))
        return json_skip(c, &e->note);
    if (!str_eq(name, STR("count")))
        return json_skip(c, NULL);
    TRY(json_read_int(c, 0, INT64_MAX, &number));
    e->counted = true;
    e->count = (uint64_t)number;
    return err_none();
}

static struct err read_value(struct str value, struct trail_entry *e)
{
    struct json_cursor c = json_open(value);
    TRY(json_enter_object(&c));
    for (bool more;;) {
        struct json_string key;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return json_close(&c);
        TRY(read_member(&c, key.raw, e));
    }
}

struct err trail_read(struct str key, struct str value, struct trail_entry *e)
{
    *e = (struct trail_entry){.at = INSTANT_NONE};
    if (key.len != TRAIL_KEY_LEN)
        return err_make(ERR_CORRUPT, "not an entry of the audit: its key");
    for (size_t i = 0; i < TRAIL_KEY_LEN; i++)
        e->number = e->number << 8 | (unsigned char)key.at[i];
    e->number = ~e->number;
    struct err err = read_value(value, e);
    if (err.code == ERR_OK && e->note.len && instant_is_set(e->at))
        return err;
    return err_make(ERR_CORRUPT, "not an entry of the audit: %.160s", err.msg);
}
