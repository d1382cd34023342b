/* SPDX-License-Identifier: Apache-2.0 */
#include "store/records_import.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "store/cm.h"
#include "store/place.h"
#include "store/rocks.h"
#include "store/scratch.h"

#define KEYS 20000

static void fill(struct store *s)
{
    struct batch b = {0};
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        batch_put(&b, str_from(key), str_from(key));
    }
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void expect_all(struct store *s)
{
    for (int i = 0; i < KEYS; i += 7) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        scratch_expect(s, key, key);
    }
}

/* A root directory without PostgreSQL that has them. */
static char *make_root(void)
{
    char *dir = scratch_make();
    struct store *s = scratch_open_rocks(dir);
    fill(s);
    store_close(s);
    return dir;
}

static struct err import(const char *dir, int shard, uint64_t *count)
{
    struct store *s;
    struct pg *pg = pg_node_open(&place_node);
    assert_ok(rocks_open_reader(dir, 8 << 20, &s));
    struct err e = records_import(pg, shard, s, count);
    store_close(s);
    pg_close(pg);
    return e;
}

static void a_root_directory_comes_to_postgresql(void **state)
{
    struct place p;
    uint64_t count;
    char *dir = make_root();
    (void)state;
    place_init(&p, pg_node_shard(&place_node));
    assert_ok(import(dir, p.shard, &count));
    assert_int_equal(count, KEYS);
    place_open(&p);
    expect_all(p.s);
    scratch_put(p.s, "more", "1");
    place_open_again(&p);
    scratch_expect(p.s, "more", "1");
    place_fini(&p);
    scratch_remove(dir);
    free(dir);
}

static void where_jobs_are_none_are_added(void **state)
{
    struct place p;
    uint64_t count;
    char *dir = make_root();
    (void)state;
    place_init(&p, pg_node_shard(&place_node));
    place_open(&p);
    assert_code(import(dir, p.shard, &count), ERR_CONFLICT); /* it is owned */
    place_fini(&p);
    p.shard = pg_node_shard(&place_node);
    assert_ok(import(dir, p.shard, &count));
    assert_code(import(dir, p.shard, &count), ERR_CONFLICT);
    scratch_remove(dir);
    free(dir);
}

static void a_snapshot_is_a_root_directory_without_postgresql(void **state)
{
    struct place *p = *state;
    char *dir = scratch_make(), path[128];
    fill(p->s);
    scratch_name_in(path, sizeof path, dir, "snapshot");
    assert_ok(store_snapshot(p->s, path));
    struct store *s = scratch_open_rocks(path);
    expect_all(s);
    scratch_put(s, "more", "1");
    store_close(s);
    s = scratch_open_rocks(path);
    scratch_expect(s, "more", "1");
    expect_all(s);
    store_close(s);
    scratch_remove(dir);
    free(dir);
}

#define T(test) cmocka_unit_test_setup_teardown(test, place_set_up, place_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_root_directory_comes_to_postgresql),
        cmocka_unit_test(where_jobs_are_none_are_added),
        T(a_snapshot_is_a_root_directory_without_postgresql),
    };
    pg_node_start(&place_node, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pg_node_remove(&place_node);
    return failed;
}
