/* SPDX-License-Identifier: Apache-2.0 */
#include "server/rounds.h"

#include <time.h>

static int64_t cpu_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void rounds_init(struct rounds *r, uv_loop_t *loop)
{
    *r = (struct rounds){0};
    /* Without this the loop does not count the time that it sleeps. */
    uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
}

static void add(struct rounds *r, int64_t ns, int64_t cpu)
{
    histogram_add(&r->times, &api_round_times, ns / 1000);
    if (ns > r->longest_ns)
        r->longest_ns = ns;
    if (cpu > r->longest_cpu_ns)
        r->longest_cpu_ns = cpu;
}

void rounds_next(struct rounds *r, uv_loop_t *loop)
{
    int64_t now = (int64_t)uv_hrtime(), idle = (int64_t)uv_metrics_idle_time(loop), cpu = cpu_ns();
    if (r->since_ns)
        add(r, now - r->since_ns - (idle - r->idle_ns), cpu - r->cpu_ns);
    r->since_ns = now;
    r->idle_ns = idle;
    r->cpu_ns = cpu;
}

void rounds_read(struct rounds *r, struct api_machine *m)
{
    m->rounds = r->times;
    m->round_longest_seconds = (double)r->longest_ns / 1e9;
    m->round_longest_cpu_seconds = (double)r->longest_cpu_ns / 1e9;
    r->longest_ns = r->longest_cpu_ns = 0;
}
