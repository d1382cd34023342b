/* SPDX-License-Identifier: Apache-2.0 */

#include "contract_examples.h"
#include "contract_reports.h"

#include "core/categorize.h"
#include "core/failure_groups.h"
#include "core/history.h"
#include "core/operations.h"
#include "core/workers.h"

#define MINUTE ((span){60000})

/* A policy and a list of categories with one rule each. */
static const int64_t codes[] = {42};
#define ON_CODE                                                                                    \
    {                                                                                              \
        .exit_operator = MATCHER_IN, .exit_codes = codes, .exit_code_count = 1                     \
    }
static const struct policy_rule rules[] = {
    {.match = ON_CODE, .action = POLICY_FAIL, .retry_limit = POLICY_NO_LIMIT}};
static const struct policy policy = {
    .name = {"p", 1}, .retry_limit = POLICY_NO_LIMIT, .rules = rules, .rule_count = 1};
static const struct categorize_rule category_rules[] = {
    {.match = ON_CODE, .category = {"full", 4}}};
static const struct categorizer categories = {
    .name = {"c", 1}, .rules = category_rules, .rule_count = 1};

/* --- their subjects --- */

static struct run_ref held(struct fixture *f, struct id *id)
{
    struct answer claim = {0};
    *id = fixture_add(f, "held");
    fixture_claim(f, "held", 1, (span){0}, &claim);
    fixture_settle(f);
    assert_int_equal(claim.count, 1);
    return (struct run_ref){*id, claim.tokens[0]};
}

static void must_do(struct fixture *f, struct command c)
{
    struct answer a;
    fixture_ask(f, c, &a);
    assert_ok(a.err);
}

static void put_cron(struct fixture *f, struct parts *p)
{
    (void)f;
    const struct str hourly = STR("0 * * * *");
    p->cron = (struct cron_spec){STR("e"), .expression = hourly, .job = answers_spec("ticks")};
    p->c.cron_put = (struct cron_put){STR("g"), .entries = &p->cron, .count = 1, .whole = true};
}

static void with_cron(struct fixture *f, struct parts *p)
{
    struct parts put = {.c.kind = CMD_CRON_PUT};
    put_cron(f, &put);
    must_do(f, put.c);
    p->c.cron = (struct cron_command){.group = STR("g")};
}

static void put_resource(struct fixture *f, struct parts *p)
{
    (void)f;
    p->c.resource.policy = &policy;
    p->c.resource.categories = &categories;
}

static void with_policy(struct fixture *f, struct parts *p)
{
    must_do(f, (struct command){.kind = CMD_POLICY_PUT, .resource.policy = &policy});
    p->c.resource.name = STR("p");
}

static void with_categories(struct fixture *f, struct parts *p)
{
    must_do(f, (struct command){.kind = CMD_CATEGORIES_PUT, .resource.categories = &categories});
    p->c.resource.name = STR("c");
}

/* --- the commands --- */

static void nothing(struct fixture *f, struct parts *p)
{
    (void)f;
    (void)p;
}

static void enqueue(struct fixture *f, struct parts *p)
{
    (void)f;
    p->spec = answers_spec("q");
    p->c.enqueue.specs = &p->spec;
    p->c.enqueue.count = 1;
}

static void run(struct fixture *f, struct parts *p)
{
    p->c.run = held(f, &p->ids[0]);
}

static void progress(struct fixture *f, struct parts *p)
{
    run(f, p);
    p->news = (struct news){.has_progress = true, .progress = 0.5};
    p->c.news = &p->news;
}

static void succeed_many(struct fixture *f, struct parts *p)
{
    p->runs[0] = held(f, &p->ids[0]);
    p->runs[1] = (struct run_ref){.id = fixture_add(f, "q")};
    p->c.succeed_many.at = p->runs;
    p->c.succeed_many.count = 2;
}

static void report_failure(struct fixture *f, struct parts *p)
{
    p->c.fail = (struct failure_report){.ref = held(f, &p->ids[0]),
                                        .failure = {.message = STR("no"), .run_time = {-1}},
                                        .retry_at = INSTANT_NONE};
}

static void terminated(struct fixture *f, struct parts *p)
{
    struct parts first = {.c.kind = CMD_FAIL};
    report_failure(f, &first);
    first.c.fail.failure.condition = CONDITION_PREEMPTED;
    first.c.fail.grace = MINUTE;
    must_do(f, first.c);
    p->c.terminated.run = first.c.fail.ref;
}

static void renew(struct fixture *f, struct parts *p)
{
    p->c.renew.run = held(f, &p->ids[0]);
    p->c.renew.lease = MINUTE;
}

static void renew_many(struct fixture *f, struct parts *p)
{
    p->renewals[0] = (struct renewal){held(f, &p->ids[0]), MINUTE};
    p->renewals[1] = (struct renewal){{.id = fixture_add(f, "q"), .token = 1}, MINUTE};
    p->c.renew_many.at = p->renewals;
    p->c.renew_many.count = 2;
}

static void report_many(struct fixture *f, struct parts *p)
{
    contract_reports(held(f, &p->ids[0]), fixture_add(f, "q"), &p->c);
}

static void of_job(struct fixture *f, struct parts *p)
{
    p->c.id = fixture_add(f, "q");
}

static void claim_job(struct fixture *f, struct parts *p)
{
    p->c.claim_job =
        (struct job_claim){.id = fixture_add(f, "q"), .any_run = true, .lease = MINUTE};
}

static void of_dead_job(struct fixture *f, struct parts *p)
{
    p->c.id = fixture_add(f, "q");
    must_do(f, (struct command){.kind = CMD_CANCEL, .id = p->c.id});
}

static void with_failure(struct fixture *f, struct parts *p)
{
    struct failure_report r = {.failure = {.message = STR("m"), .run_time = {-1}},
                               .retry_at = INSTANT_NONE};
    r.ref = held(f, &p->ids[0]);
    must_do(f, (struct command){.kind = CMD_FAIL, .fail = r});
    p->c.history.limit = 10; /* of HISTORY_READ */
}

static void failures(struct fixture *f, struct parts *p)
{
    static const struct failures_query query = {.limit = 10};
    with_failure(f, p);
    p->c.failures = &query;
}

static void workers(struct fixture *f, struct parts *p)
{
    static const struct workers_query query = {.limit = 10};
    run(f, p);
    p->c.workers = &query;
}

static void with_worker(struct fixture *f, struct parts *p)
{
    run(f, p);
    p->c.worker.name = STR("w");
    p->c.worker.quiet = true;
}

static void with_notice(struct fixture *f, struct parts *p)
{
    static const struct worker_greeting greeting = {.name = {"w", 1}, .notice = {"why", 3}};
    run(f, p);
    p->c.greeting = &greeting;
}

static void on_operations(void *ctx, const struct reply *r)
{
    uint64_t *newest = ctx;
    *newest = r->count ? r->operations[0].number : 0;
}

static void with_operation(struct fixture *f, struct parts *p)
{
    (void)p;
    must_do(f, (struct command){.kind = CMD_REMOVE_WHERE});
}

/* One that goes on: it was sent, and there has been no turn. */
static void running_operation(struct fixture *f, struct parts *p)
{
    static struct answer removed;
    uint64_t newest = 0;
    struct command list = {.kind = CMD_OPERATIONS, .done = on_operations, .ctx = &newest};
    backend_submit(f->b, &list);
    fixture_settle(f);
    removed = (struct answer){0};
    fixture_send(f, (struct command){.kind = CMD_REMOVE_WHERE}, &removed);
    p->c.operation = newest + 1;
}

/* The deletion of a job, which can be undone: the first operation. */
static void undoable_operation(struct fixture *f, struct parts *p)
{
    (void)fixture_add(f, "q");
    must_do(f, (struct command){.kind = CMD_REMOVE_WHERE, .list.undo = {60000}});
    p->c.operation = 1;
}

static void of_jobs(struct fixture *f, struct parts *p)
{
    (void)fixture_add(f, "q");
    p->c.list.limit = 10;
}

static void peek(struct fixture *f, struct parts *p)
{
    (void)fixture_add(f, "q");
    p->c.peek = (struct peek_command){.queue = STR("q"), .limit = 10, .with_payload = true};
}

static void of_dead_jobs(struct fixture *f, struct parts *p)
{
    of_dead_job(f, p);
    p->c.list = (struct list_command){.filter.statuses = 1u << STATUS_DEAD};
}

static void patch_where(struct fixture *f, struct parts *p)
{
    of_jobs(f, p);
    p->patch = (struct patch){.set = PATCH_PRIORITY, .priority = 7};
    p->c.list.patch = &p->patch;
}

static void patch(struct fixture *f, struct parts *p)
{
    p->patch = (struct patch){.set = PATCH_PRIORITY, .priority = 7};
    p->c.patch.id = fixture_add(f, "q");
    p->c.patch.patch = &p->patch;
}

static void runs(struct fixture *f, struct parts *p)
{
    (void)held(f, &p->ids[0]);
    p->c.runs = (struct runs_command){.id = p->ids[0], .from = -1, .limit = 10};
}

static void newest_place(struct fixture *f, struct parts *p)
{
    (void)fixture_add(f, "q");
    p->c.events_since = EVENTS_NEWEST;
}

static void switch_cron(struct fixture *f, struct parts *p)
{
    with_cron(f, p);
    p->c.cron.to = CRON_PAUSE;
}

static void simulate(struct fixture *f, struct parts *p)
{
    (void)f;
    p->job = (struct job){.queue = STR("q"), .retry_limit = RETRY_LIMIT_DEFAULT};
    p->run = (struct run){.outcome = OUTCOME_FAILED, .failure.run_time = {-1}};
    p->simulate = (struct simulate_job){.job = &p->job, .failed = &p->run, .failures = 1};
    p->c.simulate.what = &p->simulate;
}

static void queue_put(struct fixture *f, struct parts *p)
{
    (void)f;
    p->c.queue = (struct queue_command){.name = STR("q"), .set = QUEUE_PAUSED, .limit = 10};
    p->c.queue.settings = QUEUE_SETTINGS_DEFAULT;
    p->c.queue.settings.paused = true;
}

static void with_queue(struct fixture *f, struct parts *p)
{
    struct parts put = {.c.kind = CMD_QUEUE_PUT};
    queue_put(f, &put);
    must_do(f, put.c);
    p->c.queue = (struct queue_command){.name = STR("q")};
}

static void queue_list(struct fixture *f, struct parts *p)
{
    with_queue(f, p);
    p->c.queue = (struct queue_command){.limit = 10};
}

static void backlog(struct fixture *f, struct parts *p)
{
    with_queue(f, p);
    memset(&p->c.backlog, 0, sizeof p->c.backlog);
    p->c.backlog.limit = 10;
}

static void budget_put(struct fixture *f, struct parts *p)
{
    (void)f;
    p->c.budget = (struct budget_command){.key = STR("b"), .policy = {.allocation = 3}};
}

static void with_budget(struct fixture *f, struct parts *p)
{
    struct parts put = {.c.kind = CMD_BUDGET_PUT};
    budget_put(f, &put);
    must_do(f, put.c);
    p->c.budget = (struct budget_command){.key = STR("b")};
}

static void put_settings(struct fixture *f, struct parts *p)
{
    (void)f;
    p->change = (struct policy_change){POLICY_SET_MAX, {.global_max_retries = 7}};
    p->c.retry_settings.change = &p->change;
    p->c.retry_settings.by = STR("w");
}

static void kv_put(struct fixture *f, struct parts *p)
{
    (void)f;
    p->change_of_entry.entry = (struct kv_entry){
        .space = STR("s"), .key = STR("k"), .value = STR("v"), .expires = INSTANT_NONE};
    p->c.kv_put = (struct kv_put){&p->change_of_entry, 1};
}

static void with_entry(struct fixture *f, struct parts *p)
{
    struct parts put = {.c.kind = CMD_KV_PUT};
    kv_put(f, &put);
    must_do(f, put.c);
    p->c.kv = (struct kv_query){.space = STR("s"), .key = STR("k"), .limit = 10};
}

static void with_alias(struct fixture *f, struct parts *p)
{
    struct enqueue spec = answers_spec("q");
    p->alias = STR("the-one");
    spec.options.alias = p->alias;
    must_do(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {.specs = &spec, .count = 1}});
    p->c.aliases.at = &p->alias;
    p->c.aliases.count = 1;
}

static void with_group(struct fixture *f, struct parts *p)
{
    p->spec = answers_spec("q");
    p->spec.options.group = STR("g");
    must_do(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {&p->spec, 1}});
    p->c.group = STR("g");
}

static void group_reprioritized(struct fixture *f, struct parts *p)
{
    with_group(f, p);
    p->c.group_reprioritized = (struct group_reprioritized){STR("g"), 5, 1};
}

static void cancel_where(struct fixture *f, struct parts *p)
{
    with_group(f, p);
    (void)fixture_add(f, "other");
    p->c.list = (struct list_command){.filter.group = STR("g"), .ids_max = 10};
}

/* --- the replies --- */

static bool one_enqueued(const struct reply *r)
{
    return r->count == 1 && r->enqueued[0].job.state.status == STATUS_READY;
}

static bool one_handout(const struct reply *r)
{
    return r->count == 1 && r->handouts[0].token && r->handouts[0].lease_end.ms > 0;
}

static bool one_attempt(const struct reply *r)
{
    return r->count == 1 && r->jobs[0].state.attempts == 1;
}

static bool a_lease(const struct reply *r)
{
    return r->lease_end.ms > 0;
}

static bool a_payload(const struct reply *r)
{
    return r->count == 1 && str_eq(r->jobs[0].payload, STR("{\"n\":1}")) && r->notes;
}

static bool one_job(const struct reply *r)
{
    return r->count == 1 && str_eq(r->jobs[0].queue, STR("q"));
}

static bool the_next_job(const struct reply *r)
{
    return one_job(r) && r->jobs[0].payload.len && r->place.set && !r->more;
}

static bool one_counted(const struct reply *r)
{
    return r->count == 1;
}

static bool of_priority(const struct reply *r)
{
    return r->count == 1 && r->jobs[0].state.priority == 7;
}

static bool a_canceled_job(const struct reply *r)
{
    return r->count == 1 && r->jobs[0].state.status == STATUS_DEAD;
}

static bool a_ready_job(const struct reply *r)
{
    return r->count == 1 && r->jobs[0].state.status == STATUS_READY;
}

static bool one_run(const struct reply *r)
{
    return r->count == 1 && r->runs[0].outcome == OUTCOME_RUNNING && r->has_live;
}

static bool an_explanation(const struct reply *r)
{
    return r->explanation->summary.len > 0;
}

static bool one_name(const struct reply *r)
{
    return r->count == 1 && str_eq(r->names[0], STR("q"));
}

static bool a_status(const struct reply *r)
{
    return r->status.writable && r->status.jobs[STATUS_READY] == 1;
}

static bool a_time(const struct reply *r)
{
    return r->clock.to.ms > 0;
}

static bool a_meter(const struct reply *r)
{
    return r->meter->counts && r->meter->writable;
}

static bool a_place(const struct reply *r)
{
    return r->events_since > 0 && r->events_since != EVENTS_NEWEST;
}

static bool a_cron(const struct reply *r)
{
    return r->cron->count == 1 && str_eq(r->cron->group.name, STR("g"));
}

static bool a_paused_cron(const struct reply *r)
{
    return r->cron->group.pause.paused;
}

static bool one_resource(const struct reply *r, const char *name)
{
    const struct resource_view *v = r->resources;
    return r->count == 1 && str_eq(v->name, str_from(name)) && v->version > 0 && !v->broken.len;
}

static bool a_policy(const struct reply *r)
{
    return one_resource(r, "p") && r->resources->policy->rule_count == 1 &&
           r->resources->policy->rules[0].match.exit_codes[0] == 42;
}

static bool a_categorizer(const struct reply *r)
{
    return one_resource(r, "c") && r->resources->categories->rule_count == 1 &&
           str_eq(r->resources->categories->rules[0].category, STR("full"));
}

static bool changed_settings(const struct reply *r)
{
    const struct policy_settings_view *v = r->retry_settings;
    return v->settings.global_max_retries == 7 && v->last && str_eq(v->last->by, STR("w"));
}

static bool initial_settings(const struct reply *r)
{
    const struct policy_settings_view *v = r->retry_settings;
    return v->settings.global_max_retries == POLICY_GLOBAL_MAX && !v->last;
}

static bool a_simulation(const struct reply *r)
{
    return r->simulated->count == 1 && r->simulated->steps[0].today.asked &&
           (r->simulated->draft.dead || r->simulated->draft.more) && r->simulated->today.dead;
}

static bool a_failure(const struct reply *r)
{
    const struct history_page *h = r->history;
    return h->kept == 1 && h->count == 1 && str_eq(h->entries[0].run.failure.message, STR("m"));
}

static bool a_failure_group(const struct reply *r)
{
    const struct failures_page *page = r->failures;
    return page->count == 1 && page->total == 1 && page->groups[0].group.count == 1;
}

static bool a_worker(const struct reply *r)
{
    const struct worker_view *w = r->workers;
    return r->count == 1 && str_eq(w->worker.name, STR("w")) && w->in_flight == 1;
}

static bool a_quiet_worker(const struct reply *r)
{
    return a_worker(r) && r->workers->worker.quiet;
}

static bool some_operations(const struct reply *r)
{
    return r->count > 0 && r->operations[0].state == OPERATION_DONE;
}

static bool an_operation(const struct reply *r)
{
    return r->count == 1 && r->operations[0].kind == OPERATION_DELETE &&
           r->operations[0].state == OPERATION_STOPPED;
}

static bool an_undone_operation(const struct reply *r)
{
    return r->operations[0].kind == OPERATION_DELETE && r->operations[0].undo.state == UNDO_ENDED &&
           r->operations[0].undo.outcomes[UNDO_DONE] == 1;
}

static bool a_queue(const struct reply *r)
{
    return r->count == 1 && r->queues[0].view.settings.paused;
}

static bool a_backlog(const struct reply *r)
{
    return r->backlogs->count == 0 && !r->backlogs->more; /* nothing waits */
}

static bool an_id(const struct reply *r)
{
    return r->count == 1 && !id_is_none(r->ids[0]);
}

static bool a_group(const struct reply *r)
{
    return r->group->jobs == 1 && r->group->unended == 1 && str_eq(r->group->record.name, STR("g"));
}

static bool a_sealed_group(const struct reply *r)
{
    return a_group(r) && instant_is_set(r->group->record.sealed_at);
}

static bool one_canceled(const struct reply *r)
{
    return r->count == 1 && r->sampled == 1 && !id_is_none(r->ids[0]);
}

static bool a_budget(const struct reply *r)
{
    const struct budget_view *v = r->budgets;
    return r->count == 1 && str_eq(v->budget.key, STR("b")) && v->available == 3 && v->jobs == 0;
}

static bool an_entry(const struct reply *r)
{
    return r->count == 1 && str_eq(r->kv[0].value, STR("v")) && r->kv[0].version > 0;
}

static void with_trail(struct fixture *f, struct parts *p)
{
    (void)f;
    p->c.trail = STR("{\"actor\":\"a\"}");
}

const struct example contract_examples[COMMAND_COUNT] = {
    [CMD_ENQUEUE] = {enqueue, one_enqueued},
    [CMD_SUCCEED] = {run, NULL},
    [CMD_SUCCEED_MANY] = {succeed_many, contract_one_left_out},
    [CMD_FAIL] = {report_failure, one_attempt},
    [CMD_TERMINATED] = {terminated, one_attempt},
    [CMD_RENEW] = {renew, a_lease},
    [CMD_RENEW_MANY] = {renew_many, contract_one_renewed},
    [CMD_REPORT_MANY] = {report_many, contract_one_reported},
    [CMD_PROGRESS] = {progress, NULL},
    [CMD_RELEASE] = {run, NULL},
    [CMD_CLAIM_JOB] = {claim_job, one_handout},
    [CMD_REMOVE] = {of_job, NULL},
    [CMD_READ] = {of_job, a_payload},
    [CMD_ALIASES] = {with_alias, an_id},
    [CMD_LIST] = {of_jobs, one_job},
    [CMD_PEEK] = {peek, the_next_job},
    [CMD_WINDOW] = {contract_window, contract_is_window},
    [CMD_COUNT] = {of_jobs, one_counted},
    [CMD_REMOVE_WHERE] = {of_jobs, one_counted},
    [CMD_PATCH] = {patch, of_priority},
    [CMD_PATCH_WHERE] = {patch_where, one_counted},
    [CMD_CANCEL_WHERE] = {cancel_where, one_canceled},
    [CMD_GROUP_READ] = {with_group, a_group},
    [CMD_GROUP_SEAL] = {with_group, a_sealed_group},
    [CMD_GROUP_REPRIORITIZED] = {group_reprioritized, NULL},
    [CMD_CANCEL] = {of_job, a_canceled_job},
    [CMD_RERUN] = {of_dead_job, a_ready_job},
    [CMD_RERUN_WHERE] = {of_dead_jobs, one_counted},
    [CMD_RUNS] = {runs, one_run},
    [CMD_EXPLAIN] = {of_job, an_explanation},
    [CMD_QUEUES] = {of_jobs, one_name},
    [CMD_STATUS] = {of_jobs, a_status},
    [CMD_CLOCK_RESET] = {nothing, a_time},
    [CMD_METER] = {nothing, a_meter},
    [CMD_EVENTS_PLACE] = {newest_place, a_place},
    [CMD_KV_PUT] = {kv_put, an_entry},
    [CMD_KV_READ] = {with_entry, an_entry},
    [CMD_KV_LIST] = {with_entry, an_entry},
    [CMD_KV_REMOVE] = {with_entry, one_counted},
    [CMD_CRON_PUT] = {put_cron, a_cron},
    [CMD_CRON_READ] = {with_cron, a_cron},
    [CMD_CRON_SWITCH] = {switch_cron, a_paused_cron},
    [CMD_CRON_REMOVE] = {with_cron, one_counted},
    [CMD_POLICY_PUT] = {put_resource, a_policy},
    [CMD_POLICY_READ] = {with_policy, a_policy},
    [CMD_POLICY_REMOVE] = {with_policy, NULL},
    [CMD_POLICY_SIMULATE] = {simulate, a_simulation},
    [CMD_FAILURES] = {failures, a_failure_group},
    [CMD_WORKERS] = {workers, a_worker},
    [CMD_WORKER_NOTICE] = {with_notice, NULL},
    [CMD_WORKER_HUSH] = {with_worker, a_quiet_worker},
    [CMD_WORKER_STOP] = {with_worker, one_counted},
    [CMD_OPERATIONS] = {with_operation, some_operations},
    [CMD_OPERATION_STOP] = {running_operation, an_operation},
    [CMD_OPERATION_UNDO] = {undoable_operation, an_undone_operation},
    [CMD_HISTORY_READ] = {with_failure, a_failure},
    [CMD_HISTORY_CLEAR] = {with_failure, NULL},
    [CMD_CATEGORIES_PUT] = {put_resource, a_categorizer},
    [CMD_CATEGORIES_READ] = {with_categories, a_categorizer},
    [CMD_CATEGORIES_REMOVE] = {with_categories, NULL},
    [CMD_QUEUE_PUT] = {queue_put, a_queue},
    [CMD_QUEUE_READ] = {with_queue, a_queue},
    [CMD_QUEUE_LIST] = {queue_list, a_queue},
    [CMD_BACKLOG] = {backlog, a_backlog},
    [CMD_QUEUE_REMOVE] = {with_queue, NULL},
    [CMD_BUDGET_PUT] = {budget_put, a_budget},
    [CMD_BUDGET_READ] = {with_budget, a_budget},
    [CMD_BUDGET_REMOVE] = {with_budget, one_counted},
    [CMD_RETRY_SETTINGS_PUT] = {put_settings, changed_settings},
    [CMD_RETRY_SETTINGS_READ] = {nothing, initial_settings},
    [CMD_RECORD] = {with_trail, NULL},
};
