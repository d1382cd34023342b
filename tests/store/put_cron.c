/* SPDX-License-Identifier: Apache-2.0 */

/* put_cron ROOT_DIR EXPRESSION: writes the cron group "old" with one entry, "e", into the root
 * directory of a stopped server, as a version did in whose time two fields of days that are not
 * both restricted had to agree. For tests of what such entries mean to this one. */

#include <stdio.h>

#include "base/must.h"
#include "store/record.h"
#include "store/rocks.h"

static const struct id GROUP = {1, 1}, ENTRY = {1, 2};

static void notify(void *ctx)
{
    (void)ctx;
}

static struct cron_entry entry(struct str expression)
{
    return (struct cron_entry){.id = ENTRY,
                               .group = GROUP,
                               .name = STR("e"),
                               .expression = expression,
                               .zone = STR("UTC"),
                               .job = {.queue = STR("q"),
                                       .type = STR("t"),
                                       .payload = STR("1"),
                                       .ready_at = INSTANT_NONE,
                                       .retry_limit = RETRY_LIMIT_DEFAULT,
                                       .completed_retention = RETENTION_DEFAULT,
                                       .dead_retention = RETENTION_DEFAULT}};
}

/* Version 2 lacks the last byte of version 3. */
static void put_version_2(struct batch *to, const struct cron_entry *e)
{
    struct batch newest = {0};
    struct record_key key = record_cron_entry_key(e->id);
    record_put_cron_entry(&newest, e);
    struct str value = batch_find(&newest, record_key_view(&key))->value;
    must(value.at[0] == 3 && value.at[value.len - 1] == 0);
    char *old = batch_put_room(to, record_key_view(&key), value.len - 1);
    memcpy(old, value.at, value.len - 1);
    old[0] = 2;
    batch_fini(&newest);
}

int main(int argc, char **argv)
{
    struct batch b = {0};
    struct store *s;
    must(argc == 3);
    const struct rocks_settings settings = {
        .dir = argv[1], .cache_bytes = 8 << 20, .notify = notify};
    const struct cron_group group = {
        .id = GROUP, .name = STR("old"), .pause = {false, INSTANT_NONE, INSTANT_NONE}};
    const struct cron_entry e = entry(str_from(argv[2]));
    const struct cron_clock clock = {INSTANT_NONE, INSTANT_NONE, group.pause};
    struct err err = rocks_open(&settings, &s);
    if (err.code == ERR_OK) {
        record_put_cron_group(&b, &group);
        put_version_2(&b, &e);
        record_put_cron_clock(&b, ENTRY, &clock);
        store_commit(s, &b, true);
        store_wait(s);
        must(store_reap(s, &err));
        store_close(s);
    }
    batch_fini(&b);
    if (err.code != ERR_OK)
        fprintf(stderr, "put_cron: %s\n", err.msg);
    return err.code != ERR_OK;
}
