/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ACCESS_SCOPE_SETS_H
#define TESTS_ACCESS_SCOPE_SETS_H

/* Sets of scopes, written down: SET("a", "b:*"). They live until the test's teardown. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "access/scopes.h"

static struct arena arena;

static inline int teardown(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static inline struct scope_set set_of(const char *const *texts)
{
    struct str list[64];
    size_t n = 0;
    for (; texts[n]; n++)
        list[n] = str_from(texts[n]);
    struct scope_set s;
    struct err err = scope_set_make(list, n, &arena, &s, NULL);
    assert_int_equal(err.code, ERR_OK);
    return s;
}

#define SET(...) set_of((const char *const[]){__VA_ARGS__, NULL})

#endif
