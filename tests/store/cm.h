/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_STORE_CM_H
#define TESTS_STORE_CM_H

/* cmocka and what it needs to be included before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"

#define assert_ok(expr)                                                                            \
    do {                                                                                           \
        struct err ok_ = (expr);                                                                   \
        if (ok_.code != ERR_OK)                                                                    \
            fail_msg("%s: %s: %s", #expr, err_wire(ok_.code), ok_.msg);                            \
    } while (0)

#define assert_code(expr, expected) assert_int_equal((expr).code, expected)

#define assert_str(s, literal)                                                                     \
    do {                                                                                           \
        struct str s_ = (s), literal_ = STR(literal);                                              \
        assert_int_equal(s_.len, literal_.len);                                                    \
        assert_memory_equal(s_.at, literal_.at, literal_.len);                                     \
    } while (0)

static inline void assert_hex(struct str s, const char *expected)
{
    struct buf hex = {0};
    for (size_t i = 0; i < s.len; i++)
        buf_print(&hex, "%02x", (unsigned char)s.at[i]);
    buf_byte(&hex, '\0');
    assert_string_equal(hex.at, expected);
    buf_fini(&hex);
}

#endif
