/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "store/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like fuzz_record.c, for the records of cron groups. */

static const struct id ID = {1, 2};

/* True if the record was read. */
static bool is_read(struct err e)
{
    if (e.code == ERR_OK)
        return true;
    must(e.code == ERR_CORRUPT || e.code == ERR_VERSION);
    must(e.msg[0] != '\0');
    return false;
}

static void must_equal(const struct batch *b, struct record_key key, struct str value)
{
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    must(op && op->value.at && str_eq(op->value, value));
}

/* The first version of groups and entries lacks what is empty at the end of the second. */
static void must_follow(const struct batch *b, struct record_key key, struct str value)
{
    const struct batch_op *op = batch_find(b, record_key_view(&key));
    if (value.at[0] != 1) {
        must_equal(b, key, value);
        return;
    }
    must(op && op->value.len == value.len + 1 && op->value.at[value.len] == 0);
    must(memcmp(op->value.at + 1, value.at + 1, value.len - 1) == 0);
}

static void try_group(struct batch *b, struct str value)
{
    struct cron_group group;
    if (!is_read(record_read_cron_group(value, ID, &group)))
        return;
    record_put_cron_group(b, &group);
    must_follow(b, record_cron_group_key(ID), value);
}

static void try_entry(struct batch *b, struct str value)
{
    struct cron_entry entry;
    if (!is_read(record_read_cron_entry(value, ID, &entry)))
        return;
    record_put_cron_entry(b, &entry);
    must_follow(b, record_cron_entry_key(ID), value);
}

static void try_clock(struct batch *b, struct str value)
{
    struct cron_clock clock;
    if (!is_read(record_read_cron_clock(value, &clock)))
        return;
    record_put_cron_clock(b, ID, &clock);
    must_equal(b, record_cron_clock_key(ID), value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const tries[])(struct batch * b, struct str value) = {try_group, try_entry,
                                                                        try_clock};
    if (size == 0)
        return 0;
    static struct batch b;
    batch_reset(&b);
    tries[data[0] % COUNT(tries)](&b, (struct str){(const char *)data + 1, size - 1});
    return 0;
}
