/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/* Errors by value: what went wrong (a code of errors.def), a sentence for a
 * person, and, where the fault is in a text, the byte offset of it. Only
 * outside faults are errors; a programmer's fault is must(). */

#include <stdbool.h>
#include <stdint.h>

#define NODISCARD __attribute__((warn_unused_result))

enum err_code {
    ERR_OK = 0,
#define ERR(name, wire, status, retryable, meaning) ERR_##name,
#include "base/errors.def"
#undef ERR
    ERR_COUNT
};

struct err {
    enum err_code code;
    int64_t offset; /* in bytes into the text at fault; -1 if there is none */
    char msg[208];  /* only valid when code != ERR_OK */
};

/* Success. msg is left as it is: the hot path must not clear 200 bytes. */
static inline struct err err_none(void)
{
    struct err e;
    e.code = ERR_OK;
    return e;
}

/* An error with a printf-style message, cut off if it is too long. */
NODISCARD struct err err_make(enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with the offset of the fault. */
NODISCARD struct err err_at(enum err_code code, int64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Static facts of a code: its name on the wire, HTTP status, whether the same
 * request may succeed later, and what it means in words. */
const char *err_wire(enum err_code code);
int err_status(enum err_code code);
bool err_retryable(enum err_code code);
const char *err_meaning(enum err_code code);

/* Returns the error to the caller's caller. Only where nothing needs releasing. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        struct err try_ = (expr);                                                                  \
        if (__builtin_expect(try_.code != ERR_OK, 0))                                              \
            return try_;                                                                           \
    } while (0)

#endif
