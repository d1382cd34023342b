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

bool trace_is_sampled(struct str traceparent)
{
    static const char odd[] = "13579bdf";
    return traceparent.len == TRACE_PARENT_LEN &&
           memchr(odd, traceparent.at[TRACE_PARENT_LEN - 1], sizeof odd - 1);
}

struct str trace_id_of(struct str traceparent)
{
    return (struct str){traceparent.at + 3, 32};
}

struct str trace_parent_of(struct str traceparent)
{
    return (struct str){traceparent.at + 36, TRACE_SPAN_LEN};
}

/* The finalizer of splitmix64: every bit of what goes in changes half of what comes out. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void trace_span_id(struct id job, enum trace_part part, uint32_t run, char out[TRACE_SPAN_LEN])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t what = (uint64_t)run << 2 | (uint64_t)part;
    uint64_t hash = mix(mix(mix(job.hi) ^ job.lo) ^ what);
    hash += hash == 0; /* which would be no id */
    for (int i = 0; i < TRACE_SPAN_LEN; i++)
        out[i] = digits[hash >> (60 - 4 * i) & 15];
}

struct str trace_of_run(struct arena *a, struct str traceparent, struct id job, uint32_t run)
{
    char *copy = arena_get(a, TRACE_PARENT_LEN);
    memcpy(copy, traceparent.at, TRACE_PARENT_LEN);
    trace_span_id(job, TRACE_RUN, run, copy + 36);
    return (struct str){copy, TRACE_PARENT_LEN};
}
