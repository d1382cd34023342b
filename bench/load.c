/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/array.h"

static const char usage[] =
    "usage: load MODE [options]\n"
    "\n"
    "  enqueue          closed loop of single enqueues\n"
    "  bulk             the same with many jobs in a request\n"
    "  drain            take streams, and reports of success beside them\n"
    "  claim            claims, each followed by its report of success\n"
    "  tasks            tasks of Taskcluster's API: created, claimed by 32, completed\n"
    "  latency          open loop at a fixed rate, enqueue to delivery\n"
    "  due              fills in scheduled jobs, of which --rate a second fall due for\n"
    "                   --seconds (10): how late those are delivered\n"
    "  broker-put       enqueue against another queue, by its own protocol\n"
    "  broker-latency   latency, likewise\n"
    "  fsync DIR        write and fdatasync on this disk, no server\n"
    "  log DIR          batches of --payload bytes appended to the log of commits, no server\n"
    "  get PATH         prints the body of one GET request\n"
    "\n"
    "  --port N         of the server (needed)    --host ADDR      127.0.0.1\n"
    "  --queue NAME     bench                     --timeout SEC    120\n"
    "  --queues N       1; more: NAME-000000 and so on, by chance; streams take from all\n"
    "  --connections N  64                        --depth N        1, requests under way on each\n"
    "  --jobs N         100000                    --seconds S      instead of --jobs\n"
    "  --batch N        1000, jobs in a bulk enqueue or claim\n"
    "  --streams N      1, take streams           --prefetch N     4000, of each stream\n"
    "  --consumers N    0, streams of events that are read beside enqueues\n"
    "  --ackers N       4, connections that report success, claim or fill in\n"
    "  --acks N         1000, ids in a report at most; 1 reports each job by itself\n"
    "  --rate R         1000, jobs a second that latency starts, or that fall due\n"
    "  --payload N      200, bytes                --json           print one JSON object\n"
    "  --broker KIND    beanstalkd, redis, rabbitmq-quorum or rabbitmq-classic\n"
    "  --tls            the server speaks TLS; its certificate is not checked\n";

static const struct {
    const char *name;
    void (*run)(const struct load_options *, struct load_line *);
} modes[] = {
    {"enqueue", enqueue_run},
    {"bulk", bulk_run},
    {"drain", drain_run},
    {"claim", claim_run},
    {"latency", latency_run},
    {"fsync", fsync_run},
    {"due", due_run},
    {"tasks", tasks_run},
    {"log", log_run},
    {"broker-put", broker_put_run},
    {"broker-latency", broker_latency_run},
};

static void add_name(struct load_line *l, const char *name)
{
    if (l->text.len)
        buf_byte(&l->text, l->json ? ',' : ' ');
    buf_print(&l->text, l->json ? "\"%s\":" : "%s=", name);
}

void load_number(struct load_line *l, const char *name, double value, int decimals)
{
    add_name(l, name);
    buf_print(&l->text, "%.*f", decimals, value);
}

void load_times(struct load_line *l, const char *name, const struct hist *h)
{
    static const struct {
        const char *name;
        double share;
    } points[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};
    for (size_t i = 0; i < COUNT(points); i++) {
        char full[64];
        snprintf(full, sizeof full, "%s_%s_us", name, points[i].name);
        load_number(l, full, (double)hist_at(h, points[i].share) / 1e3, 1);
    }
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void load_pace(struct load_line *l, uint64_t jobs, uint64_t ns)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double seconds = (double)ns / 1e9;
    load_number(l, "jobs", (double)jobs, 0);
    load_number(l, "seconds", seconds, 3);
    load_number(l, "jobs_per_s", seconds > 0 ? (double)jobs / seconds : 0, 0);
    load_number(l, "load_cpu_s", seconds_of(used.ru_utime) + seconds_of(used.ru_stime), 3);
}

static _Noreturn void bad_usage(const char *what, const char *value)
{
    fprintf(stderr, "load: %s: %s\n%s", what, value, usage);
    exit(2);
}

static double read_number(const char *name, const char *text, double lo, double hi)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno || end == text || *end || !(v >= lo && v <= hi))
        bad_usage(name, text);
    return v;
}

static bool read_option(struct load_options *o, const char *name, const char *value)
{
    const struct {
        const char *name;
        uint64_t *to;
        double lo, hi;
    } counts[] = {
        {"--connections", &o->connections, 1, 10000},
        {"--depth", &o->depth, 1, 10000},
        {"--jobs", &o->jobs, 1, 1e9},
        {"--batch", &o->batch, 1, 1e5},
        {"--streams", &o->streams, 1, 10000},
        {"--queues", &o->queues, 1, 1e6},
        {"--consumers", &o->consumers, 0, 10000},
        {"--prefetch", &o->prefetch, 1, 1e6},
        {"--ackers", &o->ackers, 1, 10000},
        {"--acks", &o->acks, 1, 1e5},
        {"--payload", &o->payload, 2, 1e6},
        {"--timeout", &o->timeout, 1, 86400},
    };
    for (size_t i = 0; i < COUNT(counts); i++)
        if (strcmp(name, counts[i].name) == 0) {
            *counts[i].to = (uint64_t)read_number(name, value, counts[i].lo, counts[i].hi);
            return true;
        }
    if (strcmp(name, "--port") == 0)
        o->to.port = (int)read_number(name, value, 1, 65535);
    else if (strcmp(name, "--seconds") == 0)
        o->seconds = read_number(name, value, 0.01, 86400);
    else if (strcmp(name, "--rate") == 0)
        o->rate = read_number(name, value, 0.1, 1e6);
    else if (strcmp(name, "--host") == 0)
        o->to.host = value;
    else if (strcmp(name, "--queue") == 0)
        o->queue = value;
    else if (strcmp(name, "--broker") == 0)
        o->broker = value;
    else
        return false;
    return true;
}

static void read_options(struct load_options *o, char **args)
{
    for (; *args; args++) {
        if (strcmp(*args, "--json") == 0)
            o->json = true;
        else if (strcmp(*args, "--tls") == 0)
            o->to.tls = true;
        else if (**args != '-' && !o->target)
            o->target = *args;
        else if (!args[1] || !read_option(o, args[0], args[1]))
            bad_usage("not understood", *args);
        else
            args++;
    }
}

static int get(const struct load_options *o)
{
    if (!o->target)
        bad_usage("get", "needs a path");
    struct buf body = crew_get(o->to, str_from(o->target), o->timeout * 1000000000u);
    printf("%.*s\n", (int)body.len, body.at);
    buf_fini(&body);
    return 0;
}

static int run_mode(const char *mode, const struct load_options *o)
{
    for (size_t i = 0; i < COUNT(modes); i++) {
        if (strcmp(mode, modes[i].name) != 0)
            continue;
        struct load_line l = {.json = o->json};
        modes[i].run(o, &l);
        printf(o->json ? "{%.*s}\n" : "%.*s\n", (int)l.text.len, l.text.at);
        buf_fini(&l.text);
        return 0;
    }
    bad_usage("no such mode", mode);
}

int main(int argc, char **argv)
{
    struct load_options o = {
        .to = {.host = "127.0.0.1"},
        .queue = "bench",
        .queues = 1,
        .connections = 64,
        .depth = 1,
        .jobs = 100000,
        .batch = 1000,
        .streams = 1,
        .prefetch = 4000,
        .ackers = 4,
        .acks = 1000,
        .rate = 1000,
        .payload = 200,
        .timeout = 120,
    };
    if (argc < 2)
        bad_usage("missing", "MODE");
    read_options(&o, argv + 2);
    if (o.to.port == 0 && strcmp(argv[1], "fsync") != 0 && strcmp(argv[1], "log") != 0)
        bad_usage("missing", "--port");
    return strcmp(argv[1], "get") == 0 ? get(&o) : run_mode(argv[1], &o);
}
