/* SPDX-License-Identifier: Apache-2.0 */

/* What a waiting job costs in memory, at a million of them. */

#include "rig.h"

#define R    struct rig *r = *state
#define JOBS 1000000

static void assert_at_most_64_bytes_per_job(struct rig *r)
{
    struct engine_memory m = engine_memory(r->e);
    assert_int_equal(m.waiting_jobs, JOBS);
    assert_in_range(m.waiting_bytes / JOBS, 32, 64);
}

static void add_jobs(struct rig *r, void (*vary)(struct enqueue *spec, struct rig *r, int i))
{
    r->forgetful = true;
    for (int i = 0; i < JOBS; i++) {
        struct enqueue spec = rig_spec("q");
        vary(&spec, r, i);
        rig_add_spec(r, &spec);
        r->now.ms += i % 100 == 0;
    }
}

static void nothing(struct enqueue *spec, struct rig *r, int i)
{
    (void)spec, (void)r, (void)i;
}

static void any_priority(struct enqueue *spec, struct rig *r, int i)
{
    (void)r;
    spec->priority = (uint16_t)((uint32_t)i * 2654435761u >> 16);
}

static void any_time(struct enqueue *spec, struct rig *r, int i)
{
    spec->ready_at = (instant){r->now.ms + 1000000 + ((uint32_t)i * 2654435761u >> 8)};
}

static void a_million_ready_jobs_take_at_most_64_bytes_each(void **state)
{
    R;
    add_jobs(r, nothing);
    assert_at_most_64_bytes_per_job(r);
}

static void so_do_jobs_of_all_priorities(void **state)
{
    R;
    add_jobs(r, any_priority);
    assert_at_most_64_bytes_per_job(r);
}

static void so_do_scheduled_jobs_of_all_times(void **state)
{
    R;
    add_jobs(r, any_time);
    assert_at_most_64_bytes_per_job(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_million_ready_jobs_take_at_most_64_bytes_each),
        TEST(so_do_jobs_of_all_priorities),
        TEST(so_do_scheduled_jobs_of_all_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
