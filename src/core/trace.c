/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace.h"

#include <string.h>

#include "base/alloc.h"
#include "base/must.h"

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* Hexadecimal digits [from, to), followed by a dash or the end; zero: may all be 0. */
static bool is_field(struct str text, size_t from, size_t to, bool zero)
{
    bool any = zero;
    for (size_t i = from; i < to; i++) {
        if (!is_hex(text.at[i]))
            return false;
        any |= text.at[i] != '0';
    }
    return any && (to == text.len || text.at[to] == '-');
}

bool trace_is_parent(struct str text)
{
    return text.len == TRACE_PARENT_LEN && text.at[0] == '0' && text.at[1] == '0' &&
           is_field(text, 0, 2, true) && is_field(text, 3, 35, false) &&
           is_field(text, 36, 52, false) && is_field(text, 53, 55, true);
}

bool trace_is_state(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.at[i] < ' ' || text.at[i] > '~')
            return false;
    return text.len > 0 && text.len <= TRACE_STATE_MAX;
}

char *trace_copy(struct str traceparent)
{
    if (!traceparent.len)
        return NULL;
    must(traceparent.len == TRACE_PARENT_LEN);
    char *copy = alloc_get(TRACE_PARENT_LEN);
    memcpy(copy, traceparent.at, TRACE_PARENT_LEN);
    return copy;
}
