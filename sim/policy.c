/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies: made up once, before anything else happens; what changes later are the
 * server-wide settings. ledger_policy.c judges. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "sim.h"
#include "store/memory.h"
#include "trace.h"

static const char *const matchers[MATCHERS] = {
    "\"onExitCodes\":{\"operator\":\"In\",\"values\":[1]}",
    "\"onExitCodes\":{\"operator\":\"In\",\"values\":[2,137]}",
    "\"onExitCodes\":{\"operator\":\"NotIn\",\"values\":[1]}",
    "\"onConditions\":[\"Evicted\"]",
    "\"onConditions\":[\"Preempted\",\"OOMKilled\"]",
    "\"onExitCodes\":{\"operator\":\"In\",\"values\":[137]},\"onConditions\":[\"OOMKilled\"]",
};
static const struct str names[POLICIES] = {{"p0", 2}, {"p1", 2}, {"p2", 2}};

struct str policy_name(unsigned policy)
{
    return names[policy];
}

/* --- making them up --- */

static struct mbackoff some_backoff(struct sim *s)
{
    struct mbackoff b = {.stated = sim_chance(s, 50)};
    b.initial = 1 + (int64_t)sim_draw(s, 3000);
    b.most = b.initial + (int64_t)sim_draw(s, 5000);
    return b;
}

static int64_t some_limit(struct sim *s)
{
    return sim_chance(s, 40) ? -1 : (int64_t)sim_draw(s, 4);
}

static void make_up(struct sim *s, struct mpolicy *p)
{
    unsigned first = (unsigned)sim_draw(s, MATCHERS);
    p->limit = some_limit(s);
    p->backoff = some_backoff(s);
    p->default_action = (enum maction)sim_draw(s, 3);
    p->rule_count = 1 + (unsigned)sim_draw(s, POLICY_RULES);
    for (unsigned i = 0; i < p->rule_count; i++)
        p->rules[i] = (struct mrule){.matcher = (first + i) % MATCHERS,
                                     .action = sim_chance(s, 75) ? ACTION_RETRY : ACTION_FAIL,
                                     .limit = some_limit(s),
                                     .backoff = some_backoff(s)};
}

static void add_levels(struct buf *b, int64_t limit, const struct mbackoff *backoff)
{
    if (limit >= 0)
        buf_print(b, ",\"retryLimit\":%ld", (long)limit);
    if (backoff->stated)
        buf_print(b,
                  ",\"backoff\":{\"initialDelay\":\"%ldms\",\"maxDelay\":\"%ldms\","
                  "\"multiplier\":2}",
                  (long)backoff->initial, (long)backoff->most);
}

static void write(const struct mpolicy *p, unsigned number, struct buf *b)
{
    static const char *const actions[] = {"", "Retry", "Fail"};
    buf_print(b,
              "{\"apiVersion\":\"tenax.dev/v1\",\"kind\":\"RetryPolicy\","
              "\"metadata\":{\"name\":\"p%u\"},\"spec\":{\"rules\":[",
              number);
    for (unsigned i = 0; i < p->rule_count; i++) {
        const struct mrule *r = &p->rules[i];
        buf_print(b, "%s{\"action\":\"%s\",%s", i ? "," : "", actions[r->action],
                  matchers[r->matcher]);
        add_levels(b, r->limit, &r->backoff);
        buf_lit(b, "}");
    }
    buf_lit(b, "]");
    if (p->default_action)
        buf_print(b, ",\"defaultAction\":\"%s\"", actions[p->default_action]);
    add_levels(b, p->limit, &p->backoff);
    buf_lit(b, "}}");
}

/* --- storing them --- */

static void check_ok(struct ticket *t, const struct reply *r)
{
    PROMISE(r->err.code == ERR_OK, "POLICY", "#%lu: %s", t->serial, r->err.msg);
}

static void put(struct sim *s, enum command_kind kind, const struct command *c)
{
    struct ticket *t = ticket_new(s, kind, 0);
    t->then = check_ok;
    struct command copy = *c;
    ticket_submit(t, &copy);
}

static void put_policies(struct sim *s)
{
    for (unsigned i = 0; i < POLICIES; i++) {
        struct buf b = {0};
        make_up(s, &s->ledger.policies[i]);
        write(&s->ledger.policies[i], i, &b);
        struct command c = {
            .resource = {.name = names[i], .text = buf_view(&b), .format = DOCUMENT_JSON}};
        put(s, CMD_POLICY_PUT, &c);
        buf_fini(&b);
    }
}

static void put_queues(struct sim *s)
{
    static const struct str lists[] = {{"", 0}, {"p0", 2}, {"p1,p0", 5}, {"p2", 2}};
    static const unsigned meant[][2] = {{0, 0}, {1, 0}, {2, 1}, {3, 0}};
    for (unsigned q = 0; q < s->profile.queues; q++) {
        unsigned which = (unsigned)sim_draw(s, 4);
        memcpy(s->ledger.queue_policies[q], meant[which], sizeof meant[which]);
        struct command c = {.queue = {.name = sim_queue_name(q),
                                      .set = QUEUE_POLICIES,
                                      .retry_policies = lists[which]}};
        put(s, CMD_QUEUE_PUT, &c);
    }
}

/* --- settings --- */

static void settle(struct ticket *t, const struct reply *r)
{
    bool doubt = r->err.code == ERR_DISK_FULL || r->err.code == ERR_STORE;
    PROMISE(doubt || r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    if (!doubt)
        ledger_setting_acked(&t->sim->ledger, t->setting);
}

static void put_settings(struct sim *s, bool enabled, const char *more)
{
    char text[160];
    int64_t most = (int64_t)sim_draw(s, sim_chance(s, 30) ? 3 : 12);
    int n = snprintf(text, sizeof text, "{\"enabled\":%s,\"globalMaxRetries\":%ld%s}",
                     enabled ? "true" : "false", (long)most, more);
    struct ticket *t = ticket_new(s, CMD_RETRY_SETTINGS_PUT, 0);
    t->then = settle;
    t->setting = ledger_setting_asked(&s->ledger, enabled, most, s->now);
    trace_line("  %.*s", n, text);
    struct command c = {.resource = {.text = {text, (size_t)n}, .format = DOCUMENT_JSON}};
    ticket_submit(t, &c);
}

void policy_step(struct sim *s)
{
    put_settings(s, sim_chance(s, 80), "");
}

void policy_set_up(struct sim *s)
{
    s->quiet = true;
    s->ledger.has_policies = true;
    put_policies(s);
    put_queues(s);
    bool has_default = sim_chance(s, 50);
    s->ledger.default_policy = has_default ? 3 : 0;
    put_settings(s, sim_chance(s, 80), has_default ? ",\"defaultPolicyName\":\"p2\"" : "");
    sim_pump(s);
    memory_sync(disk_memory(s->disk));
    ledger_synced(&s->ledger);
    s->quiet = false;
}
