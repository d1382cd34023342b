/* SPDX-License-Identifier: Apache-2.0 */
#include "store/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/cm.h"
#include "base/folder.h"
#include "store/rocks.h"

char *scratch_make(void)
{
    char name[] = "scratch-XXXXXX";
    must(mkdtemp(name));
    return alloc_text(name, strlen(name));
}

void scratch_remove(const char *dir)
{
    must(folder_remove(dir).code == ERR_OK);
}

struct err scratch_try_commit(struct store *s, struct batch *b, bool sync)
{
    store_commit(s, b, sync);
    store_wait(s);
    struct err result;
    must(store_reap(s, &result));
    batch_reset(b);
    return result;
}

void scratch_commit(struct store *s, struct batch *b)
{
    assert_ok(scratch_try_commit(s, b, true));
}

void scratch_put(struct store *s, const char *key, const char *value)
{
    struct batch b = {0};
    batch_put(&b, str_from(key), str_from(value));
    scratch_commit(s, &b);
    batch_fini(&b);
}

void scratch_expect(struct store *s, const char *key, const char *value)
{
    struct buf got = {0};
    bool found;
    assert_ok(store_get(s, str_from(key), &found, &got));
    assert_int_equal(found, value != NULL);
    if (value) {
        assert_int_equal(got.len, strlen(value));
        assert_memory_equal(got.at ? got.at : "", value, got.len);
    }
    buf_fini(&got);
}

void scratch_name_in(char *out, size_t size, const char *dir, const char *name)
{
    snprintf(out, size, "%s/%s", dir, name);
}

void scratch_no_notice(void *ctx)
{
    (void)ctx;
}

static bool no_ring;

void scratch_set_no_ring(bool on)
{
    no_ring = on;
}

struct err scratch_try_open(const char *dir, struct store **s)
{
    struct rocks_settings settings = {
        .dir = dir, .cache_bytes = 8 << 20, .no_ring = no_ring, .notify = scratch_no_notice};
    return rocks_open(&settings, s);
}

struct store *scratch_open_rocks(const char *dir)
{
    struct store *s = NULL;
    struct err e = scratch_try_open(dir, &s);
    if (e.code != ERR_OK)
        fprintf(stderr, "%s: %s\n", err_wire(e.code), e.msg);
    return s;
}

int scratch_set_up(void **state)
{
    *state = scratch_make();
    return 0;
}

int scratch_tear_down(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}
