/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/policy_plan.h"
#include "cli/listing.h"

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "client/input.h"
#include "cli/newjob.h"
#include "cli/manifest.h"
#include "client/view.h"
#include "policy/policy_document.h"

/* Only policies can be tried out. */
int policy_plan_load(struct client *c, const struct policy_plan *p, struct resources *list)
{
    for (size_t i = 0; i < p->files.count; i++) {
        int code = resource_load(c->command, p->files.at[i], &c->arena, list);
        if (code != CLI_OK)
            return code;
    }
    for (const struct resource *r = list->first; r; r = r->next)
        if (r->kind != resource_kind_of(STR("retrypolicy"))) {
            fprintf(stderr, "tenax policy: %s, line %u: a %s cannot be tried out\n", r->file,
                    r->line, r->kind->kind);
            return CLI_USAGE;
        }
    return CLI_OK;
}

/* --- simulate --- */

static int add_failures(struct client *c, const char *file, struct buf *body)
{
    struct buf raw = {0};
    struct str value;
    int code = input_read(c->command, file, DOCUMENT_TEXT_MAX, &raw);
    if (code == CLI_OK && view_check(buf_view(&raw), &value).code != ERR_OK) {
        fprintf(stderr, "tenax policy: %s is not valid JSON\n", file);
        code = CLI_USAGE;
    } else if (code == CLI_OK) {
        buf_lit(body, ",\"failures\":");
        buf_str(body, value);
    }
    buf_fini(&raw);
    return code;
}

static int write_body(struct client *c, const struct policy_plan *p, const struct resources *list)
{
    struct buf *b = &c->call.body;
    buf_lit(b, "{\"policies\":[");
    for (const struct resource *r = list->first; r; r = r->next) {
        buf_str(b, r == list->first ? STR("") : STR(","));
        buf_str(b, r->body);
    }
    buf_byte(b, ']');
    if (p->queue) {
        buf_lit(b, ",\"queues\":");
        input_names(b, p->queue);
    }
    if (p->type) {
        buf_lit(b, ",\"types\":");
        input_names(b, p->type);
    }
    if (p->global_max >= 0)
        buf_print(b, ",\"settings\":{\"globalMaxRetries\":%lld}", (long long)p->global_max);
    buf_print(b, ",\"limit\":%lld", (long long)p->limit);
    int code = p->failures ? add_failures(c, p->failures, b) : CLI_OK;
    buf_byte(b, '}');
    return code;
}

/* "exit 137, OOMKilled, culprit job: killed" */
static void add_failure(struct client *c, struct table *t, struct str f)
{
    struct arena *a = &c->arena;
    struct buf text = {0};
    struct str exit = view_text(a, f, "exit_code"), signal = view_text(a, f, "signal");
    struct str condition = view_text(a, f, "condition"), message = view_text(a, f, "message");
    struct str culprit = view_text(a, f, "culprit");
    if (signal.len)
        buf_print(&text, "signal %.*s", STR_ARG(signal));
    else if (exit.len)
        buf_print(&text, "exit %.*s", STR_ARG(exit));
    if (condition.len)
        buf_print(&text, "%s%.*s", text.len ? ", " : "", STR_ARG(condition));
    if (culprit.len)
        buf_print(&text, "%sculprit %.*s", text.len ? ", " : "", STR_ARG(culprit));
    if (message.len)
        buf_print(&text, "%s%.*s", text.len ? ": " : "", (int)(message.len < 32 ? message.len : 32),
                  message.at);
    table_add(t, TABLE_PLAIN, buf_view(&text));
    buf_fini(&text);
}

/* "retry 1 of 3 in 30 s, infra rule 1", "dead, infra rule 2", or a dash if the job was already
 * dead. */
static void add_verdict(struct client *c, struct table *t, struct str v)
{
    struct arena *a = &c->arena;
    struct buf text = {0};
    struct str policy = view_text(a, v, "policy"), rule = view_text(a, v, "rule");
    int64_t count, limit, delay;
    if (!v.len) {
        table_add(t, TABLE_FAINT, STR("-"));
        return;
    }
    bool retry = view_int(v, "delay_ms", &delay);
    buf_str(&text, retry ? STR("retry") : STR("dead"));
    if (retry && view_int(v, "count", &count) && view_int(v, "limit", &limit))
        buf_print(&text, " %lld of %lld", (long long)count, (long long)limit);
    if (retry && delay == 0)
        buf_lit(&text, " at once");
    else if (retry) {
        buf_lit(&text, " in ");
        duration_write(&text, (span){delay});
    }
    if (policy.len && rule.len)
        buf_print(&text, ", %.*s rule %.*s", STR_ARG(policy), STR_ARG(rule));
    else if (policy.len)
        buf_print(&text, ", %.*s default", STR_ARG(policy));
    table_add(t, retry ? TABLE_GOOD : TABLE_BAD, buf_view(&text));
    buf_fini(&text);
}

static size_t add_job(struct client *c, struct table *t, struct str job)
{
    struct arena *a = &c->arena;
    struct view_list l = view_list(view_get(job, "failures"));
    struct str id = view_text(a, job, "job");
    size_t n = 0;
    for (struct str f; view_next(&l, &f); n++) {
        struct str run = view_text(a, f, "run");
        table_add(t, TABLE_PLAIN, n ? STR("") : id.len ? id : STR("given"));
        table_add(t, TABLE_PLAIN, n ? STR("") : view_text(a, job, "queue"));
        table_add(t, TABLE_PLAIN, run);
        add_failure(c, t, f);
        add_verdict(c, t, view_get(f, "today"));
        add_verdict(c, t, view_get(f, "draft"));
    }
    return n;
}

static void write_side(struct buf *out, const char *name, struct str side)
{
    int64_t retries = 0, dead = 0, window = 0;
    (void)view_int(side, "retries", &retries);
    (void)view_int(side, "dead", &dead);
    (void)view_int(side, "window_ms", &window);
    bool more = str_eq(view_get(side, "more"), STR("true"));
    buf_print(out, "%-6s %s%lld %s, %lld %s in the end; the longest window is ", name,
              more ? "more than " : "", (long long)retries, retries == 1 ? "retry" : "retries",
              (long long)dead, dead == 1 ? "job dead" : "jobs dead");
    duration_write(out, (span){window});
    buf_byte(out, '\n');
}

/* There is none for failures that were given. */
static void write_history(struct str h, struct buf *out)
{
    int64_t kept = 0, looked_at = 0, deleted = 0, cut = 0;
    if (!view_int(h, "kept", &kept) || !view_int(h, "looked_at", &looked_at))
        return;
    (void)view_int(h, "deleted", &deleted);
    (void)view_int(h, "cut", &cut);
    buf_print(out,
              "%lld of the jobs %s deleted by now. Evaluated %lld of %lld entries of the failure "
              "history.\n",
              (long long)deleted, deleted == 1 ? "is" : "are", (long long)looked_at,
              (long long)kept);
    if (cut)
        buf_print(out, "%lld more %s left out: the history no longer has the first failures.\n",
                  (long long)cut, cut == 1 ? "job is" : "jobs are");
}

static void write_summary(struct str s, struct buf *out)
{
    int64_t jobs = 0, failures = 0, extra = 0, lost = 0;
    (void)view_int(s, "jobs", &jobs);
    (void)view_int(s, "failures", &failures);
    (void)view_int(s, "extra_attempts", &extra);
    (void)view_int(s, "lost_completions", &lost);
    buf_print(out, "\n%lld %s of %lld %s%s. If they keep failing in the same way:\n",
              (long long)failures, failures == 1 ? "failure" : "failures", (long long)jobs,
              jobs == 1 ? "job" : "jobs",
              str_eq(view_get(s, "truncated"), STR("true")) ? ", and there are more" : "");
    write_side(out, "today", view_get(s, "today"));
    write_side(out, "draft", view_get(s, "draft"));
    buf_print(out, "That is %lld %s %s.\n", (long long)(extra < 0 ? -extra : extra),
              extra == 1 || extra == -1 ? "attempt" : "attempts", extra < 0 ? "fewer" : "more");
    if (lost)
        buf_print(out, "%lld completed %s would have been dead before.\n", (long long)lost,
                  lost == 1 ? "job" : "jobs");
    write_history(view_get(s, "history"), out);
}

static void show(struct client *c)
{
    static const char *const headers[] = {"JOB",   "QUEUE", ">RUN", "FAILURE",
                                          "TODAY", "DRAFT", NULL};
    struct table t;
    struct buf out = {0};
    size_t n = 0;
    table_init(&t, headers);
    struct view_list l = view_list(view_get(client_answer(c), "jobs"));
    for (struct str job; view_next(&l, &job);)
        n += add_job(c, &t, job);
    if (n) {
        table_write(&t, &out, c->colour, 0);
        write_summary(view_get(client_answer(c), "summary"), &out);
    }
    subcommand_print(stdout, &out);
    if (!n)
        fputs("There are no failures to evaluate.\n", stderr);
    buf_fini(&out);
    table_fini(&t);
}

int policy_plan_simulate(struct client *c, const struct policy_plan *p)
{
    struct resources list = {0};
    int code = policy_plan_load(c, p, &list);
    if (code == CLI_OK)
        code = write_body(c, p, &list);
    if (code == CLI_OK)
        code = client_ask(c, "POST", "/retry-policies/simulate");
    if (code != CLI_OK)
        return code;
    if (client_for_people(c))
        show(c);
    else
        client_print_answer(c);
    return code;
}

/* --- settings --- */

/* The names of queues without a policy, and the path of the next page. */
static int add_bare_queues(struct client *c, struct buf *path, struct buf *names)
{
    int code = client_ask(c, "GET", client_path(path));
    if (code != CLI_OK)
        return code;
    struct str page = client_answer(c);
    struct view_list l = view_list(view_get(page, "queues"));
    for (struct str queue; view_next(&l, &queue);) {
        struct str policies = view_get(queue, "retry_policies");
        if (policies.len > 2) /* not [] */
            continue;
        buf_str(names, names->len ? STR(", ") : STR(""));
        buf_str(names, view_text(&c->arena, queue, "name"));
    }
    struct str next = view_text(&c->arena, view_get(page, "pages"), "next");
    path->len = 0;
    buf_str(path, next);
    return CLI_OK;
}

static struct str setting(struct client *c, struct str drafted, const char *name)
{
    struct str value = view_text(&c->arena, drafted, name);
    return view_get(drafted, name).len ? value : view_text(&c->arena, client_answer(c), name);
}

static int show_bare_queues(struct client *c, struct str drafted)
{
    int code = client_ask(c, "GET", "/settings/retry");
    if (code != CLI_OK)
        return code;
    struct str by_default = setting(c, drafted, "defaultPolicyName");
    bool fails = str_eq(setting(c, drafted, "whenNoPolicy"), STR("fail"));
    struct buf path = {0}, names = {0};
    buf_lit(&path, "/queues?details=true&limit=2000");
    do
        code = add_bare_queues(c, &path, &names);
    while (code == CLI_OK && path.len);
    if (code == CLI_OK && names.len && by_default.len)
        printf("Queues without a policy, to which %.*s applies: %.*s\n", STR_ARG(by_default),
               STR_ARG(buf_view(&names)));
    else if (code == CLI_OK && names.len)
        printf("Queues without a policy, whose jobs %s: %.*s\n",
               fails ? "die at their first failure unless they name one" : "keep their own retries",
               STR_ARG(buf_view(&names)));
    buf_fini(&path);
    buf_fini(&names);
    return code;
}

int policy_plan_settings(struct client *c, struct str settings)
{
    struct str drafted = arena_copy(&c->arena, settings);
    struct buf *b = &c->call.body;
    b->len = 0;
    buf_print(b, "{\"policies\":[],\"settings\":%.*s}", STR_ARG(drafted));
    int code = client_ask(c, "POST", "/retry-policies/simulate");
    if (code != CLI_OK)
        return code;
    if (!client_for_people(c)) {
        client_print_answer(c);
        return CLI_OK;
    }
    show(c);
    b->len = 0;
    return show_bare_queues(c, drafted);
}

/* --- schedule --- */

#define ROWS_MAX 30

struct schedule {
    struct client *client;
    struct buf out;
    bool first;
};

static void add_span(struct table *t, span d)
{
    struct buf text = {0};
    duration_write(&text, d);
    table_add(t, TABLE_PLAIN, buf_view(&text));
    buf_fini(&text);
}

static void add_delay(struct table *t, bool jitter, span least, span most, span from, span to)
{
    add_span(t, least);
    if (jitter)
        add_span(t, most);
    add_span(t, from);
    if (jitter)
        add_span(t, to);
}

static const struct curve at_once = {.shape = CURVE_EXPONENTIAL, .exponent = 1};

static void write_rows(struct schedule *s, const struct curve *curve, int64_t limit)
{
    static const char *const plain[] = {">RETRY", ">WAIT", ">IN ALL", NULL};
    static const char *const ranges[] = {">RETRY",        ">SHORTEST WAIT", ">LONGEST",
                                         ">SHORTEST ALL", ">LONGEST ALL",   NULL};
    bool jitter = curve->shape == CURVE_POWER || curve_is_random(curve);
    const struct curve *c = curve->shape == CURVE_NONE ? &at_once : curve;
    struct table t;
    span least, most, from = {0}, to = {0};
    table_init(&t, jitter ? ranges : plain);
    int64_t n = 1;
    for (; n <= limit && n <= ROWS_MAX; n++) {
        curve_range(c, (uint32_t)n, &least, &most);
        from.ms += least.ms;
        to.ms += most.ms;
        table_print(&t, TABLE_PLAIN, "%lld", (long long)n);
        add_delay(&t, jitter, least, most, from, to);
    }
    table_write(&t, &s->out, s->client->colour, 0);
    table_fini(&t);
    if (n > limit)
        return;
    for (; n <= limit && to.ms < SPAN_MAX_MS / 2; n++) {
        curve_range(c, (uint32_t)n, &least, &most);
        from.ms += least.ms;
        to.ms += most.ms;
    }
    buf_print(&s->out, "and %lld more; in total ", (long long)(limit - ROWS_MAX));
    duration_write(&s->out, from);
    if (jitter) {
        buf_lit(&s->out, " to ");
        duration_write(&s->out, to);
    }
    buf_byte(&s->out, '\n');
}

static void write_json_rows(struct schedule *s, const struct curve *curve, int64_t limit)
{
    const struct curve *c = curve->shape == CURVE_NONE ? &at_once : curve;
    buf_lit(&s->out, ",\"delays_ms\":[");
    for (int64_t n = 1; n <= limit && n <= ROWS_MAX; n++) {
        span least, most;
        curve_range(c, (uint32_t)n, &least, &most);
        buf_print(&s->out, "%s[%lld,%lld]", n > 1 ? "," : "", (long long)least.ms,
                  (long long)most.ms);
    }
    buf_print(&s->out, "],\"limit\":%lld}", (long long)limit);
}

static void write_one(struct schedule *s, struct str policy, size_t rule, struct str what,
                      const struct curve *curve, int64_t limit)
{
    struct buf *b = &s->out;
    bool json = !client_for_people(s->client);
    if (json) {
        buf_str(b, s->first ? STR("[{\"policy\":") : STR(",\n {\"policy\":"));
        json_write_string(b, policy);
        buf_print(b, ",\"rule\":%zu,\"matches\":", rule);
        json_write_string(b, what);
        write_json_rows(s, curve, limit);
    } else {
        buf_str(b, s->first ? STR("") : STR("\n"));
        if (policy.len && rule)
            buf_print(b, "%.*s, rule %zu (", STR_ARG(policy), rule);
        else if (policy.len)
            buf_print(b, "%.*s, default action (", STR_ARG(policy));
        table_harmless(b, what);
        buf_print(b, "%s: %lld %s\n", policy.len ? ")" : "", (long long)limit,
                  limit == 1 ? "retry" : "retries");
        if (limit)
            write_rows(s, curve, limit);
    }
    s->first = false;
}

/* How many of the retries begin within the time for them, at the earliest; runs take none. */
static int64_t limit_in_time(const struct curve *curve, int64_t limit, span most)
{
    span least, longest, all = {0};
    if (!most.ms || curve->shape == CURVE_NONE)
        return limit;
    for (int64_t n = 1; n <= limit; n++) {
        curve_range(curve, (uint32_t)n, &least, &longest);
        all.ms += least.ms;
        if (all.ms > most.ms)
            return n - 1;
        if (least.ms == 0 && curve->base.ms == 0)
            break; /* nor will it ever wait */
    }
    return limit;
}

/* What the schedule of a rule, or of the default action, shows. The total over all rules is below
 * the global limit, so each rule's count is, too. */
static int64_t shown_limit(const struct policy *p, const struct policy_rule *r,
                           const struct policy_settings *settings)
{
    int64_t limit = policy_limit(p, r, settings);
    limit = limit < settings->global_max_retries ? limit : settings->global_max_retries;
    return limit_in_time(policy_backoff(p, r, settings), limit, policy_retry_for(p, r));
}

static void write_policy(struct schedule *s, const struct policy *p,
                         const struct policy_settings *settings)
{
    struct buf what = {0};
    for (size_t i = 0; i < p->rule_count; i++) {
        const struct policy_rule *r = &p->rules[i];
        int64_t limit = r->action == POLICY_FAIL ? 0 : shown_limit(p, r, settings);
        what.len = 0;
        matcher_describe(&r->match, &what);
        write_one(s, p->name, i + 1, buf_view(&what), policy_backoff(p, r, settings), limit);
    }
    if (p->default_action == POLICY_RETRY)
        write_one(s, p->name, 0, STR("whatever no rule matches"), policy_backoff(p, NULL, settings),
                  shown_limit(p, NULL, settings));
    buf_fini(&what);
}

static void write_policies(struct schedule *s, const struct policy_plan *p,
                           const struct resources *list)
{
    struct policy_settings settings = {
        .global_max_retries = p->global_max >= 0 ? p->global_max : POLICY_PLAN_GLOBAL_MAX};
    for (const struct resource *r = list->first; r; r = r->next) {
        struct policy_document d;
        struct document_fault fault;
        if (!policy_document_parse(r->body, DOCUMENT_JSON, &d, &fault))
            continue; /* already read */
        write_policy(s, &d.policy, &settings);
        policy_document_free(&d);
    }
}

static void print_rows(struct client *c, struct schedule *s)
{
    static const struct listing_kind kind = {NULL, "policy", NULL};
    struct listing l;
    buf_str(&s->out, s->first ? STR("[]") : STR("]"));
    listing_init(&l, c, &kind);
    listing_add_all(&l, buf_view(&s->out));
    listing_end(&l);
}

int policy_plan_schedule(struct client *c, const struct policy_plan *p)
{
    struct schedule s = {.client = c, .first = true};
    struct resources list = {0};
    struct curve curve;
    if (p->backoff) {
        struct err e = newjob_curve(p->backoff, &curve);
        if (e.code != ERR_OK)
            return subcommand_usage(c->command, "%s", e.msg);
        write_one(&s, (struct str){0}, 0, STR("a job's own backoff"), &curve, p->retry_limit);
    } else {
        int code = policy_plan_load(c, p, &list);
        if (code != CLI_OK)
            return code;
        write_policies(&s, p, &list);
    }
    if (client_for_people(c))
        subcommand_print(stdout, &s.out);
    else
        print_rows(c, &s);
    buf_fini(&s.out);
    return CLI_OK;
}
