/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KEPT     30
#define LINE_MAX 256

static struct {
    uint64_t seed, step, hash, count;
    bool print;
    char lines[KEPT][LINE_MAX];
} trace;

static void print_newest(void)
{
    uint64_t first = trace.count > KEPT ? trace.count - KEPT : 0;
    for (uint64_t i = first; i < trace.count; i++)
        fprintf(stderr, "  %s\n", trace.lines[i % KEPT]);
    fprintf(stderr, "sim: to repeat it: make sim SEED=%llu\n", (unsigned long long)trace.seed);
}

/* A must() of the engine failed. */
static void on_abort(int signal_number)
{
    (void)signal_number;
    signal(SIGABRT, SIG_DFL);
    /* The abort comes from a failed must(), not from the middle of printing. */
    // NOLINTNEXTLINE(bugprone-signal-handler)
    fprintf(stderr, "sim: seed %llu step %llu: the program under test gave up\n",
            (unsigned long long)trace.seed, (unsigned long long)trace.step);
    print_newest();
    _exit(1);
}

void trace_begin(uint64_t seed, bool print)
{
    trace.seed = seed;
    trace.step = trace.count = 0;
    trace.hash = 0xcbf29ce484222325u;
    trace.print = print;
    signal(SIGABRT, on_abort);
}

void trace_step(uint64_t step)
{
    trace.step = step;
}

void trace_line(const char *fmt, ...)
{
    char *line = trace.lines[trace.count++ % KEPT];
    int n = snprintf(line, LINE_MAX, "%llu ", (unsigned long long)trace.step);
    va_list args;
    va_start(args, fmt);
    vsnprintf(line + n, LINE_MAX - (size_t)n, fmt, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        trace.hash = (trace.hash ^ (unsigned char)*c) * 0x100000001b3u;
    if (trace.print)
        puts(line);
}

uint64_t trace_hash(void)
{
    return trace.hash;
}

void trace_broken(const char *promise, const char *fmt, ...)
{
    fflush(stdout);
    fprintf(stderr,
            "sim: seed %llu step %llu: promise %s is broken: ", (unsigned long long)trace.seed,
            (unsigned long long)trace.step, promise);
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    print_newest();
    _exit(1);
}
