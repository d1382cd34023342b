/* SPDX-License-Identifier: Apache-2.0 */

/* GET /metrics: what the server counts, in the text format of Prometheus (0.0.4), or in
 * OpenMetrics 1.0 for who prefers it. docs/metrics.md explains each; a test compares. */

#include <math.h>
#include <stdio.h>

#include "api/api_routes.h"
#include "base/array.h"
#include "core/culprit.h"
#include "core/verdict.h"

struct text {
    struct buf *b;
    bool open_metrics;
    const char *name; /* of the family that is being written, without _total */
};

/* --- writing --- */

/* Begins a family: its samples follow. type: counter, gauge or histogram. */
static void family(struct text *t, const char *name, const char *type, const char *help)
{
    const char *suffix = !t->open_metrics && strcmp(type, "counter") == 0 ? "_total" : "";
    t->name = name;
    buf_print(t->b, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
}

/* Numbers as both formats have them; whole ones without a fraction. */
static void add_number(struct buf *b, double v)
{
    if (isinf(v))
        buf_lit(b, "+Inf");
    else
        buf_print(b, "%.15g", v);
}

static void sample_begin(struct text *t, const char *suffix)
{
    buf_print(t->b, "%s%s", t->name, suffix);
}

/* The n-th label of a sample, from 0; its value may be anything. */
static void label(struct text *t, int n, const char *name, struct str value)
{
    buf_print(t->b, "%c%s=\"", n ? ',' : '{', name);
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];
        if (c == '\n')
            buf_lit(t->b, "\\n");
        else if (c == '"' || c == '\\')
            buf_print(t->b, "\\%c", c);
        else
            buf_byte(t->b, c);
    }
    buf_byte(t->b, '"');
}

static void sample_end(struct text *t, bool labelled, double value)
{
    buf_str(t->b, labelled ? STR("} ") : STR(" "));
    add_number(t->b, value);
    buf_byte(t->b, '\n');
}

/* One with a single label. */
static void sample_of(struct text *t, const char *suffix, const char *name, struct str of,
                      double value)
{
    sample_begin(t, suffix);
    label(t, 0, name, of);
    sample_end(t, true, value);
}

static void gauge(struct text *t, const char *name, const char *help, double value)
{
    family(t, name, "gauge", help);
    sample_begin(t, "");
    sample_end(t, false, value);
}

static void counter(struct text *t, const char *name, const char *help, double value)
{
    family(t, name, "counter", help);
    sample_begin(t, "_total");
    sample_end(t, false, value);
}

static void bucket(struct text *t, const char *label_name, const char *label_value, double upto,
                   uint64_t count)
{
    char le[32];
    if (isinf(upto))
        snprintf(le, sizeof le, "+Inf");
    else
        snprintf(le, sizeof le, "%.9g%s", upto, t->open_metrics && upto == floor(upto) ? ".0" : "");
    sample_begin(t, "_bucket");
    if (label_name)
        label(t, 0, label_name, str_from(label_value));
    label(t, label_name != NULL, "le", str_from(le));
    sample_end(t, true, (double)count);
}

/* One histogram of a family; label_name may be NULL. */
static void histogram(struct text *t, const struct histogram *h, const struct histogram_scale *s,
                      const char *label_name, const char *label_value)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= s->count; i++) {
        count += h->in[i];
        bucket(t, label_name, label_value,
               i < s->count ? (double)s->upto[i] * s->unit : (double)INFINITY, count);
    }
    const double values[] = {(double)h->sum * s->unit, (double)count};
    static const char *const suffixes[] = {"_sum", "_count"};
    for (int i = 0; i < 2; i++) {
        sample_begin(t, suffixes[i]);
        if (label_name)
            label(t, 0, label_name, str_from(label_value));
        sample_end(t, label_name != NULL, values[i]);
    }
}

/* --- jobs --- */

#define BIT(event) (1u << EVENT_##event)

/* X(name, events, help): each event of a job is in one of them at least. */
#define EVENT_COUNTERS(X)                                                                          \
    X("enqueued", BIT(ENQUEUE) | BIT(ENQUEUE_LATER) | BIT(ENQUEUE_BLOCKED), "Jobs added.")         \
    X("blocked", BIT(BLOCK) | BIT(ENQUEUE_BLOCKED), "Jobs that began to wait for other jobs.")     \
    X("unblocked", BIT(UNBLOCK), "Jobs that had no other job left to wait for.")                   \
    X("postponed", BIT(POSTPONE), "Jobs that were given another time.")                            \
    X("due", BIT(DUE), "Scheduled jobs that became ready.")                                        \
    X("taken", BIT(TAKE), "Runs: jobs handed to a worker.")                                        \
    X("completed", BIT(SUCCEED), "Jobs that a worker reported as done.")                           \
    X("failed", BIT(RETRY) | BIT(RETRY_NOW) | BIT(EXHAUST) | BIT(POISON),                          \
      "Runs that failed, whatever became of their jobs; leases that ran out among them.")          \
    X("retried", BIT(RETRY) | BIT(RETRY_NOW), "Runs that failed and will be retried.")             \
    X("dead", BIT(EXHAUST) | BIT(POISON) | BIT(ABANDON),                                           \
      "Jobs given up: no retry was left or wanted, or a job that they waited for has died.")       \
    X("overrun", BIT(OVERRUN), "Jobs given up as their deadline came before they had ended.")      \
    X("canceled", BIT(CANCEL), "Jobs canceled by a command.")                                      \
    X("returned", BIT(RETURN), "Runs given back, or whose stream closed, without a failure.")      \
    X("rerun", BIT(RERUN), "Dead jobs brought back by a command.")                                 \
    X("unretried", BIT(UNRETRY), "Jobs that are dead again, as their retry was undone.")           \
    X("deleted", BIT(REMOVE), "Jobs deleted by a command.")                                        \
    X("restored", BIT(RESTORE) | BIT(RESTORE_COMPLETED) | BIT(RESTORE_DEAD),                       \
      "Jobs that are back, as their deletion was undone.")                                         \
    X("reprioritized", BIT(REPRIORITIZE), "Jobs that a command gave another priority.")            \
    X("artifacts", BIT(ARTIFACT), "Files that runs of jobs have left.")                            \
    X("progressed", BIT(PROGRESS), "Reports of progress that were told as events.")                \
    X("last_of_group", BIT(GROUP_RESOLVED), "Jobs that were the last of their group to end.")      \
    X("purged", BIT(PURGE), "Ended jobs deleted as their retention was over.")

#define COUNTER_ROW(name, events, help) {"tenax_jobs_" name, events, help},
static const struct {
    const char *name;
    unsigned events;
    const char *help;
} event_counters[] = {EVENT_COUNTERS(COUNTER_ROW)};

#define COUNTER_BITS(name, events, help) | (events)
/* What happens to a group alone is no event of a job, nor of a queue. */
_Static_assert((0 EVENT_COUNTERS(COUNTER_BITS) | BIT(GROUP_SEALED) | BIT(GROUP_REPRIORITIZE)) ==
                   (1u << EVENT_COUNT) - 1,
               "every event of a job in lifecycle.def is counted");

/* The row that queues beyond the limit share. */
static struct str name_of(const struct meter *m, uint32_t row)
{
    return row < m->queues_max ? m->queues[row].name : STR("(other)");
}

static uint64_t sum_events(const struct meter_queue *q, unsigned events)
{
    uint64_t n = 0;
    for (int e = 0; e < EVENT_COUNT; e++)
        if (events >> e & 1)
            n += q->events[e];
    return n;
}

/* The next row that is in use, from row on; the shared one as soon as a queue could be put there,
 * so that what it counts begins at zero. */
static bool next_row(const struct backend_meter *r, uint32_t *row)
{
    const struct meter *m = r->counts;
    if (*row >= m->queue_count && *row < m->queues_max)
        *row = m->queues_max;
    if (*row < m->queues_max)
        return true;
    return *row == m->queues_max && m->queue_count == m->queues_max;
}

static void add_queues(struct text *t, const struct backend_meter *r)
{
    family(t, "tenax_jobs", "gauge", "Jobs by queue and status.");
    for (uint32_t row = 0; next_row(r, &row); row++) {
        for (unsigned s = 0; s < STATUS_COUNT; s++) {
            sample_begin(t, "");
            label(t, 0, "queue", name_of(r->counts, row));
            label(t, 1, "status", str_from(lifecycle_status_name((enum status)s)));
            sample_end(t, true, (double)r->jobs[row][s]);
        }
    }
    for (size_t i = 0; i < COUNT(event_counters); i++) {
        family(t, event_counters[i].name, "counter", event_counters[i].help);
        for (uint32_t row = 0; next_row(r, &row); row++) {
            uint64_t n = sum_events(&r->counts->queues[row], event_counters[i].events);
            sample_of(t, "_total", "queue", name_of(r->counts, row), (double)n);
        }
    }
}

/* A number of each queue; of the shared row only where it means something. */
static void queue_numbers(struct text *t, const struct backend_meter *r, const char *name,
                          const char *type, const char *help, bool shared,
                          double (*get)(const struct backend_meter *r, uint32_t row))
{
    family(t, name, type, help);
    for (uint32_t row = 0; next_row(r, &row) && (shared || row < r->counts->queues_max); row++) {
        sample_of(t, strcmp(type, "counter") == 0 ? "_total" : "", "queue", name_of(r->counts, row),
                  get(r, row));
    }
}

static double lost_of(const struct backend_meter *r, uint32_t row)
{
    return (double)r->counts->queues[row].lost;
}

static double expired_of(const struct backend_meter *r, uint32_t row)
{
    return (double)r->counts->queues[row].expired;
}

static double oldest_of(const struct backend_meter *r, uint32_t row)
{
    return (double)r->queues[row].oldest_ready.ms / 1000;
}

static double paused_of(const struct backend_meter *r, uint32_t row)
{
    return r->queues[row].paused;
}

static double concurrency_of(const struct backend_meter *r, uint32_t row)
{
    uint32_t most = r->queues[row].concurrency;
    return most ? most : (double)INFINITY;
}

/* Sum and count alone: a histogram of each queue would be most of what is sent. */
static void add_waits(struct text *t, const struct backend_meter *r)
{
    family(t, "tenax_queue_wait_seconds", "summary",
           "Time between a job's becoming ready and its being handed to a worker, by queue.");
    for (uint32_t row = 0; next_row(r, &row); row++) {
        const struct meter_queue *q = &r->counts->queues[row];
        const double values[] = {(double)q->waited_ms / 1000, (double)q->waits};
        static const char *const suffixes[] = {"_sum", "_count"};
        for (int i = 0; i < 2; i++)
            sample_of(t, suffixes[i], "queue", name_of(r->counts, row), values[i]);
    }
}

static void add_watched(struct text *t, const struct backend_meter *r)
{
    queue_numbers(t, r, "tenax_runs_lost", "counter",
                  "Runs that ended as the stream of their worker broke.", true, lost_of);
    queue_numbers(t, r, "tenax_leases_expired", "counter",
                  "Runs that ended as their lease was not renewed.", true, expired_of);
    queue_numbers(t, r, "tenax_queue_oldest_ready_seconds", "gauge",
                  "How long the oldest ready job waits; 0 if there is none.", true, oldest_of);
    queue_numbers(t, r, "tenax_queue_paused", "gauge", "Whether the queue is paused.", false,
                  paused_of);
    queue_numbers(t, r, "tenax_queue_concurrency", "gauge",
                  "Most jobs in flight that the queue may have.", false, concurrency_of);
    gauge(t, "tenax_in_flight_limit", "Most jobs in flight that all queues may have together.",
          r->in_flight_max ? (double)r->in_flight_max : (double)INFINITY);
    add_waits(t, r);
}

/* --- budgets --- */

static double allocation_of(const struct budget_view *v)
{
    return v->budget.policy.allocation;
}

static double available_of(const struct budget_view *v)
{
    return (double)v->available;
}

static double drawn_of(const struct budget_view *v)
{
    return (double)v->in_flight;
}

static double jobs_of(const struct budget_view *v)
{
    return (double)v->jobs;
}

static void add_budgets(struct text *t, const struct backend_meter *r)
{
    static const struct {
        const char *name, *help;
        double (*value)(const struct budget_view *v);
    } families[] = {
        {"tenax_budget_allocation", "Tokens that the budget has.", allocation_of},
        {"tenax_budget_available_tokens", "Tokens that are left.", available_of},
        {"tenax_budget_in_flight_tokens", "Tokens that jobs in flight have drawn.", drawn_of},
        {"tenax_budget_jobs", "Unfinished jobs that draw on the budget.", jobs_of},
    };
    gauge(t, "tenax_budgets", "Budgets that there are.", (double)r->budget_total);
    for (size_t f = 0; f < COUNT(families); f++) {
        family(t, families[f].name, "gauge", families[f].help);
        for (size_t i = 0; i < r->budget_count; i++) {
            sample_begin(t, "");
            label(t, 0, "budget", r->budgets[i].budget.key);
            sample_end(t, true, families[f].value(&r->budgets[i]));
        }
    }
}

static void add_times(struct text *t, const struct meter *m)
{
    family(t, "tenax_job_wait_seconds", "histogram",
           "Time between a job's becoming ready and its being handed to a worker.");
    histogram(t, &m->waits, &meter_times, NULL, NULL);
    family(t, "tenax_job_run_seconds", "histogram", "How long runs took, by how they ended.");
    histogram(t, &m->runs_good, &meter_times, "outcome", "success");
    histogram(t, &m->runs_bad, &meter_times, "outcome", "other");
    family(t, "tenax_job_lateness_seconds", "histogram",
           "Time between a scheduled job's ready_at and its being ready.");
    histogram(t, &m->lateness, &meter_times, NULL, NULL);
}

static void rule_labels(struct text *t, const struct meter_rule *r, bool shared)
{
    char rule[16] = "default";
    if (r->rule >= 0)
        snprintf(rule, sizeof rule, "%d", (int)r->rule + 1);
    label(t, 0, "policy", shared ? STR("(other)") : r->policy);
    label(t, 1, "rule", shared ? STR("") : str_from(rule));
}

static void add_rules(struct text *t, const struct meter *m)
{
    static const struct str decisions[METER_DECISIONS] = {
        [METER_RETRY] = {"retry", 5},
        [METER_FAIL] = {"fail", 4},
        [METER_RULE_LIMIT] = {"rule_limit", 10},
        [METER_GLOBAL_MAX] = {"global_max", 10},
        [METER_RETRY_FOR] = {"retry_for", 9},
    };
    family(t, "tenax_policy_retries", "counter",
           "Retries that rules of retry policies granted; rules count from 1, default is the "
           "policy's default action.");
    for (uint32_t i = 0; i <= METER_RULES_MAX; i++) {
        if (m->rules[i].decisions[METER_RETRY] == 0)
            continue;
        sample_begin(t, "_total");
        rule_labels(t, &m->rules[i], i == METER_RULES_MAX);
        sample_end(t, true, (double)m->rules[i].decisions[METER_RETRY]);
    }
    family(t, "tenax_policy_decisions", "counter",
           "What rules of retry policies decided about failures that they matched.");
    for (uint32_t i = 0; i <= METER_RULES_MAX; i++) {
        for (unsigned d = 0; d < METER_DECISIONS; d++) {
            if (m->rules[i].decisions[d] == 0)
                continue;
            sample_begin(t, "_total");
            rule_labels(t, &m->rules[i], i == METER_RULES_MAX);
            label(t, 2, "decision", decisions[d]);
            sample_end(t, true, (double)m->rules[i].decisions[d]);
        }
    }
}

static void add_verdicts(struct text *t, const struct meter *m)
{
    family(t, "tenax_failure_verdicts", "counter",
           "What was decided about failures, and by whom: the decided_by of events.");
    for (unsigned retry = 0; retry < 2; retry++) {
        for (unsigned d = DECIDER_NONE + 1; d < DECIDER_COUNT; d++) {
            if (m->verdicts[retry][d] == 0)
                continue;
            sample_begin(t, "_total");
            label(t, 0, "verdict", retry ? STR("retry") : STR("dead"));
            label(t, 1, "decided_by", str_from(verdict_decider_name((enum decider)d)));
            sample_end(t, true, (double)m->verdicts[retry][d]);
        }
    }
}

static void add_culprits(struct text *t, const struct meter *m)
{
    family(t, "tenax_runs_failed", "counter",
           "Runs that failed, or ended without a word of their worker, by whose fault it was.");
    for (int c = CULPRIT_NONE + 1; c < CULPRIT_COUNT; c++)
        sample_of(t, "_total", "culprit", str_from(culprit_name((enum culprit)c)),
                  (double)m->culprits[c]);
}

static void add_policies(struct text *t, const struct meter *m)
{
    add_culprits(t, m);
    add_rules(t, m);
    add_verdicts(t, m);
    family(t, "tenax_policy_missing", "counter",
           "Failures judged without a retry policy that is named for them but does not exist.");
    for (uint32_t i = 0; i <= METER_MISSING_MAX; i++) {
        if (m->missing[i].failures == 0)
            continue;
        sample_begin(t, "_total");
        label(t, 0, "policy", i == METER_MISSING_MAX ? STR("(other)") : m->missing[i].policy);
        sample_end(t, true, (double)m->missing[i].failures);
    }
    counter(t, "tenax_policy_pattern_give_ups",
            "Times that a regular expression of a policy or a category went over its budget for a "
            "failure and counted as no match.",
            (double)m->pattern_give_ups);
}

/* --- the machine --- */

static void add_start(struct text *t, const struct backend_meter *r)
{
    static const char *const names[] = {[INDEX_START_NONE] = "none",
                                        [INDEX_START_USED] = "used",
                                        [INDEX_START_REFUSED] = "refused",
                                        [INDEX_START_OFF] = "off"};
    family(t, "tenax_start_index_snapshot", "gauge",
           "Whether the start took the indexes from a snapshot: 1 for what became of it.");
    for (size_t i = 0; i < COUNT(names); i++)
        sample_of(t, "", "outcome", str_from(names[i]), i == r->index_start);
    gauge(t, "tenax_start_jobs_read", "Jobs that the start read from their records.",
          (double)r->index_jobs_read);
    counter(t, "tenax_index_snapshots", "Snapshots of the indexes written.",
            (double)r->index_written);
    counter(t, "tenax_index_snapshot_failures", "Snapshots of the indexes that were given up.",
            (double)r->index_failed);
}

static void add_store(struct text *t, const struct backend_meter *r)
{
    family(t, "tenax_commit_seconds", "histogram",
           "Time from closing a batch until it was known to be on the disk.");
    histogram(t, &r->commit_times, &backend_commit_times, NULL, NULL);
    family(t, "tenax_commit_records", "histogram", "Records in a batch, deletions included.");
    histogram(t, &r->commit_sizes, &backend_commit_sizes, NULL, NULL);
    counter(t, "tenax_commit_bytes", "Bytes of keys and values committed.",
            (double)r->commit_bytes);
    gauge(t, "tenax_store_bytes", "Size of the store on the disk.", (double)r->disk_bytes);
    gauge(t, "tenax_idempotency_bytes", "What whole answers to idempotency keys take.",
          (double)r->answer_bytes);
    counter(t, "tenax_idempotency_shortened", "Answers of which only the ids are kept.",
            (double)r->answers_shortened);
    gauge(t, "tenax_disk_free_bytes", "Room on the disk of the root directory.",
          (double)r->disk_free);
    gauge(t, "tenax_disk_reserve_bytes", "With less room on the disk no jobs are accepted.",
          (double)r->disk_reserve);
    gauge(t, "tenax_writable", "Whether new jobs are accepted; 0 while the disk is full.",
          r->writable);
    gauge(t, "tenax_index_bytes", "Memory for the index of waiting jobs.",
          (double)r->memory.waiting_bytes);
    add_start(t, r);
    gauge(t, "tenax_store_damaged_jobs",
          "Jobs that were set apart, as a part of them was lost by damage to the disk.",
          (double)r->damaged_jobs);
    gauge(t, "tenax_event_number", "Number of the newest event.", (double)r->newest_event);
}

static void listeners(struct text *t, const struct api_machine *m, const char *name,
                      const char *type, const char *help,
                      uint64_t (*get)(const struct http_stats *))
{
    static const char *const names[] = {"primary", "admin"};
    family(t, name, type, help);
    for (int i = 0; i < API_LISTENERS; i++) {
        sample_begin(t, strcmp(type, "counter") == 0 ? "_total" : "");
        label(t, 0, "listener", str_from(names[i]));
        sample_end(t, true, (double)get(&m->listeners[i]));
    }
}

static uint64_t open_of(const struct http_stats *s)
{
    return s->connections;
}

static uint64_t accepted_of(const struct http_stats *s)
{
    return s->accepted;
}

static void add_http(struct text *t, const struct api_machine *m, const struct backend_meter *r)
{
    listeners(t, m, "tenax_connections", "gauge", "Open connections.", open_of);
    listeners(t, m, "tenax_connections_accepted", "counter", "Connections accepted.", accepted_of);
    family(t, "tenax_http_responses", "counter", "Requests answered, by class of status.");
    for (int class = 2; class < HTTP_CLASSES; class ++) {
        uint64_t n = 0;
        for (int i = 0; i < API_LISTENERS; i++)
            n += m->listeners[i].replies[class];
        char code[8];
        snprintf(code, sizeof code, "%dxx", class);
        sample_begin(t, "_total");
        label(t, 0, "code", str_from(code));
        sample_end(t, true, (double)n);
    }
    gauge(t, "tenax_request_memory_bytes",
          "Memory of requests that have not arrived in full or wait for their turn.",
          (double)m->request_memory);
    gauge(t, "tenax_take_streams", "Open streams of jobs.", (double)r->streams);
    gauge(t, "tenax_claims_waiting", "Claims that wait for a job.", (double)r->claims);
}

/* Under the names that all of Prometheus' own libraries use. */
static void add_process(struct text *t, const struct api_machine *m)
{
    family(t, "tenax_build_info", "gauge", "Always 1; its label is the version.");
    sample_begin(t, "");
    label(t, 0, "version", STR(TENAX_VERSION));
    sample_end(t, true, 1);
    gauge(t, "tenax_uptime_seconds", "Time since the start of the server.", m->uptime_seconds);
    gauge(t, "process_start_time_seconds", "When the server started, since 1970.",
          m->start_seconds);
    counter(t, "process_cpu_seconds", "Processor time used.", m->cpu_seconds);
    gauge(t, "process_resident_memory_bytes", "Memory in use.", (double)m->resident_bytes);
    gauge(t, "process_open_fds", "Open file descriptors.", (double)m->open_fds);
    gauge(t, "process_max_fds", "File descriptors that may be open.", (double)m->max_fds);
}

/* --- several servers --- */

static void add_servers(struct text *t, const struct api *a)
{
    struct api_cluster c;
    if (!a->settings.cluster)
        return;
    a->settings.cluster(a->settings.cluster_ctx, &c);
    gauge(t, "tenax_owner", "1 if this server owns the jobs, 0 if it is a standby.",
          str_eq(c.role, STR("owner")));
    gauge(t, "tenax_epoch", "The epoch of the owner.", (double)c.epoch);
    gauge(t, "tenax_lease_left_seconds", "Until the owner must have renewed its lease.",
          (double)c.left.ms / 1000);
    counter(t, "tenax_lease_renewals", "Renewals of the lease.", (double)c.beats);
    counter(t, "tenax_lease_renewals_failed", "Renewals that PostgreSQL did not answer.",
            (double)c.missed);
    counter(t, "tenax_forwards_received", "Requests that other servers passed on.",
            (double)c.forwarded);
    gauge(t, "tenax_postgres_clock_ahead_seconds",
          "By how much PostgreSQL's clock is ahead of this server's.",
          (double)c.clock_ahead.ms / 1000);
    gauge(t, "tenax_postgres_batch", "The number of the last commit.", (double)c.seq);
    gauge(t, "tenax_postgres_batches_unflushed",
          "Commits that are in the log and not in the table records yet.",
          (double)(c.seq - c.flushed));
    gauge(t, "tenax_postgres_flush_lag_seconds", "How old what the table records shows is.",
          (double)c.flush_lag.ms / 1000);
    gauge(t, "tenax_postgres_log_bytes", "What the log takes in PostgreSQL.", (double)c.log_bytes);
    counter(t, "tenax_inbox_taken", "Jobs that applications enqueued by SQL.",
            (double)c.inbox_taken);
    counter(t, "tenax_inbox_refused", "Of these, those that were refused.",
            (double)c.inbox_refused);
    gauge(t, "tenax_servers", "Servers that were heard of.", (double)c.count);
}

/* --- the loop --- */

static const int64_t round_times[] = {100,    200,    500,    1000,    2000,    5000,
                                      10000,  20000,  30000,  40000,   50000,   75000,
                                      100000, 200000, 500000, 1000000, 2000000, 10000000};
const struct histogram_scale api_round_times = HISTOGRAM_SCALE(round_times, 1e-6);

static void add_loop(struct text *t, const struct api_machine *m)
{
    static const char *const clocks[] = {"wall", "cpu"};
    const double longest[] = {m->round_longest_seconds, m->round_longest_cpu_seconds};
    family(t, "tenax_loop_seconds", "histogram",
           "How long rounds of the loop took, without waiting; whoever asked meanwhile waited.");
    histogram(t, &m->rounds, &api_round_times, NULL, NULL);
    family(t, "tenax_loop_longest_seconds", "gauge",
           "The longest round since this was asked last, by the clock and in processor time.");
    for (int i = 0; i < 2; i++) {
        sample_begin(t, "");
        label(t, 0, "clock", str_from(clocks[i]));
        sample_end(t, true, longest[i]);
    }
}

static void add_polled(struct text *t, const struct api_machine *m)
{
    static const char *const whats[API_POLLED] = {"dequeued", "deleted", "repeated", "undeleted"};
    family(t, "tenax_poll_messages", "counter",
           "Messages of poll URLs: handed out, deleted, handed out more than 10 times, and not "
           "deleted because the receipt was wrong.");
    for (int i = 0; i < API_POLLED; i++)
        sample_of(t, "_total", "what", str_from(whats[i]), (double)m->polled[i]);
}

static void add_artifacts(struct text *t, const struct api_machine *m)
{
    gauge(
        t, "tenax_artifact_bytes",
        "Disk space that the bytes of artifacts take, with what uploads in progress have reserved.",
        (double)m->artifact_used);
    gauge(t, "tenax_artifact_limit_bytes", "Disk space that they may take.",
          (double)m->artifact_space);
    gauge(t, "tenax_artifact_uploads", "Uploads of artifacts in progress.",
          (double)m->artifact_uploads);
}

static void add_spans(struct text *t, const struct api_machine *m)
{
    static const char *const results[API_SPANS] = {"exported", "rejected", "dropped", "failed"};
    family(t, "tenax_otlp_spans", "counter",
           "Spans for the collector: taken by it, not wanted by it, dropped because too many "
           "waited, and lost because it refused or could not be reached.");
    for (int i = 0; i < API_SPANS; i++)
        sample_of(t, "_total", "result", str_from(results[i]), (double)m->spans[i]);
    gauge(t, "tenax_otlp_waiting_bytes", "Memory of spans that wait for the collector.",
          (double)m->spans_waiting);
}

/* --- the endpoint --- */

static const char plain_type[] = "text/plain; version=0.0.4; charset=utf-8";
static const char open_type[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/* Prometheus asks for what it prefers and takes either. */
static bool wants_open_metrics(struct str accept)
{
    const struct str type = STR("application/openmetrics-text");
    return accept.len >= type.len && memmem(accept.at, accept.len, type.at, type.len);
}

struct metrics_call {
    struct call call; /* must be first */
    bool open_metrics;
};

static void on_meter(void *ctx, const struct reply *r)
{
    struct metrics_call *c = ctx;
    struct api *a = c->call.api;
    if (api_reply_failed(c->call.x, r))
        return;
    struct text t = {.b = &a->scratch, .open_metrics = c->open_metrics};
    t.b->len = 0;
    add_queues(&t, r->meter);
    add_watched(&t, r->meter);
    add_budgets(&t, r->meter);
    add_times(&t, r->meter->counts);
    add_policies(&t, r->meter->counts);
    add_store(&t, r->meter);
    if (a->settings.machine) {
        struct api_machine machine = {0};
        a->settings.machine(a->settings.machine_ctx, &machine);
        add_http(&t, &machine, r->meter);
        add_polled(&t, &machine);
        add_artifacts(&t, &machine);
        add_spans(&t, &machine);
        add_loop(&t, &machine);
        add_servers(&t, a);
        add_process(&t, &machine);
    }
    if (t.open_metrics)
        buf_lit(t.b, "# EOF\n");
    http_reply(c->call.x, 200, str_from(t.open_metrics ? open_type : plain_type), buf_view(t.b),
               NULL);
}

const struct api_param api_metrics_params[] = {
    {"from", "string (owner): of several servers, the metrics of the one that owns the jobs"},
    {NULL, NULL}};

void api_metrics(struct api *a, const struct api_request *r)
{
    struct err err = api_read_owner_params(r, api_metrics_params);
    if (err.code != ERR_OK) {
        api_reply_error(r->x, &err, NULL);
        return;
    }
    struct metrics_call *call = arena_get(r->http->arena, sizeof *call);
    *call = (struct metrics_call){.call = {.api = a, .x = r->x},
                                  .open_metrics = wants_open_metrics(r->http->accept)};
    struct command c = {.kind = CMD_METER, .done = on_meter, .ctx = call};
    backend_submit(call->call.api->backend, &c);
}
