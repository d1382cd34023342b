/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CORE_CRON_RIG_H
#define TESTS_CORE_CRON_RIG_H

/* An engine that only has cron entries: a clock that only the test moves, and a port that keeps the
 * stored data in arrays, twice, so that a crash can lose what was not durable. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/engine_cron.h"

#define CRON_RIG_START ((instant){1767225600000}) /* 2026-01-01 00:00:00 UTC, a Thursday */
#define MINUTE         INT64_C(60000)
#define HOUR           (60 * MINUTE)
#define CRON_RIG_MAX   16

/* What is stored; strings live in the rig's arena. */
struct cron_disk {
    unsigned jobs;
    char types[64][16]; /* of the jobs, in order */
    struct cron_group groups[CRON_RIG_MAX];
    struct cron_entry entries[CRON_RIG_MAX];
    struct cron_clock clocks[CRON_RIG_MAX];
    struct id clock_ids[CRON_RIG_MAX];
};

struct cron_rig {
    struct engine *e;
    struct engine_settings settings;
    instant now;
    uint64_t seed;
    struct cron_disk disk;    /* including what the turn has written */
    struct cron_disk durable; /* without that */
    struct arena arena;
    unsigned writes;
    int64_t offset;    /* of the zone Test/Moving */
    bool moving_known; /* whether that zone exists */
};

#define assert_code(expr, want) assert_int_equal((expr).code, (want))
#define assert_ok(expr)         assert_code((expr), ERR_OK)

int cron_rig_setup(void **state);
int cron_rig_teardown(void **state);

/* Makes everything written so far durable. */
void cron_rig_commit(struct cron_rig *r);
/* Fires what is due, and makes it durable. */
void cron_rig_turn(struct cron_rig *r);
void cron_rig_turn_after(struct cron_rig *r, int64_t ms);
/* The process dies: what is not durable is lost. Returns how many entries are stopped. */
size_t cron_rig_crash(struct cron_rig *r);

/* An entry whose jobs have its name as their type. */
struct cron_spec cron_rig_spec(const char *name, const char *expression);
/* Puts entries of the group "g": only adds to it, unless whole. */
struct err cron_rig_try_put(struct cron_rig *r, const struct cron_spec *specs, size_t count,
                            bool whole, struct cron_view *view);
/* Puts the whole group, durably. */
struct cron_view cron_rig_put(struct cron_rig *r, const struct cron_spec *specs, size_t count);
struct cron_view cron_rig_put_one(struct cron_rig *r, const char *name, const char *expression);
struct cron_entry cron_rig_read_entry(struct cron_rig *r, const char *name);
/* Pauses or resumes the group, or one entry of it. */
void cron_rig_flip(struct cron_rig *r, const char *entry, enum cron_switch to);

#define assert_jobs(r, n)     assert_int_equal((r)->disk.jobs, (n))
#define assert_at(t, from, d) assert_int_equal((t).ms, (from).ms + (d))

#define CRON_RIG_TEST(name) cmocka_unit_test_setup_teardown(name, cron_rig_setup, cron_rig_teardown)

#endif
