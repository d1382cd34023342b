/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/must.h"

static const struct {
    const char *wire;
    int status;
    bool retryable;
    const char *meaning;
} facts[ERR_COUNT] = {
    [ERR_OK] = {"ok", 200, false, "no error"},
#define ERR(name, wire, status, retryable, meaning)                                                \
    [ERR_##name] = {wire, status, retryable, meaning},
#include "base/errors.def"
#undef ERR
};

static struct err make(enum err_code code, int64_t offset, const char *fmt, va_list ap)
{
    struct err e = {.code = code, .offset = offset};
    vsnprintf(e.msg, sizeof e.msg, fmt, ap);
    return e;
}

struct err err_make(enum err_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct err e = make(code, -1, fmt, ap);
    va_end(ap);
    return e;
}

struct err err_at(enum err_code code, int64_t offset, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    struct err e = make(code, offset, fmt, ap);
    va_end(ap);
    return e;
}

const char *err_wire(enum err_code code)
{
    must(code < ERR_COUNT);
    return facts[code].wire;
}

int err_status(enum err_code code)
{
    must(code < ERR_COUNT);
    return facts[code].status;
}

bool err_retryable(enum err_code code)
{
    must(code < ERR_COUNT);
    return facts[code].retryable;
}

const char *err_meaning(enum err_code code)
{
    must(code < ERR_COUNT);
    return facts[code].meaning;
}
