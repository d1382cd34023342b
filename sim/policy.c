/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies: invented once, before anything else happens; only the server-wide settings change
 * later. ledger_policy.c judges. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/must.h"
#include "policy/policy_document.h"
#include "policy/settings_document.h"
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
    "\"onConditions\":[\"LeaseExpired\",\"DeadlineExceeded\"]",
};
static const struct str names[POLICIES] = {{"p0", 2}, {"p1", 2}, {"p2", 2}};

struct str policy_name(unsigned policy)
{
    return names[policy];
}

/* --- inventing them --- */

static struct mbackoff some_backoff(struct sim *s)
{
    struct mbackoff b = {.stated = sim_chance(s, 50)};
    b.initial = 1 + (int64_t)sim_draw(s, 3000);
    b.most = b.initial + (int64_t)sim_draw(s, 5000);
    b.full = sim_chance(s, 50);
    return b;
}

static int64_t some_limit(struct sim *s)
{
    return sim_chance(s, 40) ? -1 : (int64_t)sim_draw(s, 4);
}

static int64_t some_avoid(struct sim *s)
{
    if (s->profile.nodes)
        return 10000 + (int64_t)sim_draw(s, 20000);
    if (sim_chance(s, 60))
        return AVOID_UNSTATED;
    return sim_chance(s, 25) ? AVOID_NOT : (int64_t)sim_draw(s, 20000);
}

static void make_up(struct sim *s, struct mpolicy *p)
{
    unsigned first = (unsigned)sim_draw(s, MATCHERS);
    p->limit = some_limit(s);
    p->backoff = some_backoff(s);
    p->avoid = some_avoid(s);
    p->default_action = (enum maction)sim_draw(s, 3);
    p->rule_count = 1 + (unsigned)sim_draw(s, POLICY_RULES);
    for (unsigned i = 0; i < p->rule_count; i++)
        p->rules[i] = (struct mrule){.matcher = (first + i) % MATCHERS,
                                     .action = sim_chance(s, 75) ? ACTION_RETRY : ACTION_FAIL,
                                     .limit = some_limit(s),
                                     .backoff = some_backoff(s),
                                     .avoid = some_avoid(s)};
}

static void add_levels(struct buf *b, int64_t limit, const struct mbackoff *backoff, int64_t avoid)
{
    if (avoid >= 0)
        buf_print(b, ",\"antiAffinity\":{\"mode\":\"node\",\"requiredFor\":\"%ldms\"}",
                  (long)avoid);
    else if (avoid == AVOID_NOT)
        buf_lit(b, ",\"antiAffinity\":{\"mode\":\"none\"}");
    if (limit >= 0)
        buf_print(b, ",\"retryLimit\":%ld", (long)limit);
    if (backoff->stated)
        buf_print(b,
                  ",\"backoff\":{\"initialDelay\":\"%ldms\",\"maxDelay\":\"%ldms\","
                  "\"multiplier\":2%s}",
                  (long)backoff->initial, (long)backoff->most,
                  backoff->full ? "" : ",\"jitter\":\"none\"");
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
        add_levels(b, r->limit, &r->backoff, r->avoid);
        buf_lit(b, "}");
    }
    buf_lit(b, "]");
    if (p->default_action)
        buf_print(b, ",\"defaultAction\":\"%s\"", actions[p->default_action]);
    add_levels(b, p->limit, &p->backoff, p->avoid);
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
        struct policy_document d;
        struct document_fault fault = {0};
        bool good = policy_document_parse(buf_view(&b), DOCUMENT_JSON, &d, &fault);
        must(good);
        struct command c = {.resource = {.name = names[i], .policy = &d.policy}};
        put(s, CMD_POLICY_PUT, &c);
        policy_document_free(&d);
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
        s->ledger.queue_fallback[q] = (enum retry_fallback)sim_draw(s, RETRY_FALLBACK_FAIL + 1);
        struct command c = {.queue = {.name = sim_queue_name(q),
                                      .set = QUEUE_POLICIES | QUEUE_NO_POLICY,
                                      .settings.when_no_policy = s->ledger.queue_fallback[q],
                                      .retry_policies = lists[which]}};
        put(s, CMD_QUEUE_PUT, &c);
    }
}

/* --- settings --- */

/* Which section of a file is known to have been applied last; UNKNOWN when in doubt. */
enum { NONE = -1, UNKNOWN = -2 };

static void settle(struct ticket *t, const struct reply *r)
{
    struct sim *s = t->sim;
    bool doubt = ticket_is_in_doubt(t, r->err.code);
    PROMISE(doubt || r->err.code == ERR_OK, "REPLY", "#%lu: %s", t->serial, err_wire(r->err.code));
    if (t->section != NONE && s->section_asked == t->serial)
        s->section = doubt ? UNKNOWN : t->section;
    if (!doubt && t->settles)
        ledger_setting_acked(&s->ledger, t->setting);
}

static struct msetting some_setting(struct sim *s, bool enabled)
{
    return (struct msetting){.enabled = enabled,
                             .most = (int64_t)sim_draw(s, sim_chance(s, 30) ? 3 : 12),
                             .exempt = sim_chance(s, 60) ? 0 : (unsigned)sim_draw(s, 4),
                             .when_no_policy =
                                 sim_chance(s, 50) ? RETRY_FALLBACK_FAIL : RETRY_FALLBACK_DEFAULT};
}

/* section: NONE, or which section of a file it is. A section that has not changed has no effect; a
 * crash may forget what the section was. */
static void put_settings(struct sim *s, const struct msetting *m, int section, const char *more)
{
    static const char *const exempt[] = {"", "\"defaultBackoff\"", "\"leaseExpired\"",
                                         "\"leaseExpired\",\"defaultBackoff\""};
    char text[240];
    int n = snprintf(text, sizeof text,
                     "{\"enabled\":%s,\"globalMaxRetries\":%ld,\"globalMaxRetriesExempt\":[%s],"
                     "\"whenNoPolicy\":\"%s\"%s}",
                     m->enabled ? "true" : "false", (long)m->most, exempt[m->exempt],
                     m->when_no_policy == RETRY_FALLBACK_FAIL ? "fail" : "default", more);
    struct ticket *t = ticket_new(s, CMD_RETRY_SETTINGS_PUT, 0);
    bool same = section != NONE && section == s->section, may_be = s->section == UNKNOWN;
    t->then = settle;
    t->section = section;
    if (!same) {
        t->setting = ledger_setting_asked(&s->ledger, m, s->now);
        t->settles = section == NONE || !may_be;
    }
    if (section != NONE && !same) {
        s->section_asked = t->serial;
        s->section = UNKNOWN;
    }
    trace_line("  %.*s%s", n, text, same ? ", unchanged in the file" : "");
    struct arena tree = {0};
    struct policy_change change;
    struct document_fault fault = {0};
    bool good = settings_document_parse((struct str){text, (size_t)n}, &tree, &change, &fault);
    must(good);
    struct command c = {.retry_settings = {.change = &change, .from_file = section != NONE}};
    ticket_submit(t, &c);
    arena_fini(&tree);
}

#define SECTIONS 2

/* The file is read again. */
static void reload(struct sim *s)
{
    int section = (int)sim_draw(s, SECTIONS);
    put_settings(s, &s->sections[section], section, "");
}

void policy_step(struct sim *s)
{
    struct msetting m = some_setting(s, sim_chance(s, 80));
    if (sim_chance(s, 30))
        reload(s);
    else
        put_settings(s, &m, NONE, "");
}

void policy_lost(struct sim *s)
{
    s->section = UNKNOWN;
}

/* An unchanged file has no effect, so its sections must differ. */
static bool is_same(const struct msetting *a, const struct msetting *b)
{
    return a->enabled == b->enabled && a->most == b->most && a->exempt == b->exempt &&
           a->when_no_policy == b->when_no_policy;
}

void policy_set_up(struct sim *s)
{
    s->quiet = true;
    s->ledger.has_policies = true;
    put_policies(s);
    put_queues(s);
    bool has_default = sim_chance(s, 50);
    s->ledger.default_policy = has_default ? 3 : 0;
    s->section = NONE;
    for (int i = 0; i < SECTIONS; i++)
        s->sections[i] = some_setting(s, sim_chance(s, 80));
    s->sections[1].most += is_same(&s->sections[0], &s->sections[1]);
    struct msetting m = some_setting(s, sim_chance(s, 80));
    put_settings(s, &m, NONE, has_default ? ",\"defaultPolicyName\":\"p2\"" : "");
    sim_pump(s);
    disk_sync(s->disk);
    ledger_synced(&s->ledger);
    s->quiet = false;
}
