/* SPDX-License-Identifier: Apache-2.0 */
#include "server/identity_report.h"

#include <stdio.h>

#include "client/subcommand.h"
#include "client/table.h"
#include "client/when.h"
#include "server/gate.h"

static void add_roles(struct table *t, unsigned roles, bool payloads)
{
    struct buf b = {0};
    for (int r = 0; r < ROLE_COUNT; r++)
        if (roles & 1u << r)
            buf_print(&b, "%s%s", b.len ? "," : "", rights_role_word((enum role)r));
    if (payloads)
        buf_lit(&b, "+payloads");
    table_add(t, TABLE_PLAIN, buf_view(&b));
    buf_fini(&b);
}

static void add_queues(struct table *t, const struct str *queues, size_t count)
{
    struct buf b = {0};
    for (size_t i = 0; i < count; i++)
        buf_print(&b, "%s%.*s", i ? "," : "", STR_ARG(queues[i]));
    table_add(t, TABLE_PLAIN, count ? buf_view(&b) : STR("all"));
    buf_fini(&b);
}

static void add_expiry(struct table *t, instant expires, instant now)
{
    struct buf b = {0};
    if (instant_is_set(expires))
        when_relative(&b, expires, now);
    else
        buf_lit(&b, "never");
    table_add(t, TABLE_PLAIN, buf_view(&b));
    buf_fini(&b);
}

static void add_tokens(struct table *t, const struct tokens *tokens, instant now)
{
    size_t at = 0;
    for (const struct token *one; (one = tokens_next(tokens, &at));) {
        table_print(t, TABLE_PLAIN, "token %.*s", TOKEN_ID_LEN, one->id);
        table_add(t, TABLE_PLAIN, one->name);
        add_roles(t, one->roles, one->payloads);
        add_queues(t, one->rights.queues.at, one->rights.queues.count);
        add_expiry(t, one->expires, now);
    }
}

static void add_who(struct table *t, const struct identity_rule *r)
{
    struct buf b = {0};
    if (r->kind == ACTOR_JWT)
        buf_print(&b, "jwt of %.*s", STR_ARG(r->issuer));
    else
        buf_print(&b, "%s %.*s",
                  r->kind == ACTOR_HAWK ? "client"
                  : r->by_name          ? "certificate named"
                                        : "certificate",
                  STR_ARG(r->pattern));
    for (size_t i = 0; i < r->claim_count; i++)
        buf_print(&b, "%s%.*s=%.*s", i ? ", " : " with ", STR_ARG(r->claims[i].name),
                  STR_ARG(r->claims[i].pattern));
    table_add(t, TABLE_PLAIN, buf_view(&b));
    buf_fini(&b);
}

static void add_rules(struct table *t, const struct identity_rules *rules)
{
    for (size_t i = 0; i < rules->rule_count; i++) {
        const struct identity_rule *r = &rules->rules[i];
        add_who(t, r);
        table_add(t, TABLE_PLAIN, r->name);
        add_roles(t, r->roles, r->payloads);
        add_queues(t, r->queues, r->queue_count);
        table_add(t, TABLE_PLAIN, STR("never"));
    }
}

static void add_listener(struct buf *out, const char *which, const char *host,
                         const struct settings_tls *tls)
{
    buf_print(out, "The %s listener is on %s, %s, %s.\n", which, host,
              gate_is_loopback(host) ? "which only this machine reaches"
                                     : "which other machines may reach",
              tls->client_ca ? "with TLS and client certificates"
              : tls->cert    ? "with TLS"
                             : "without TLS");
}

static void report(const struct identity_set *who, const struct settings *s, instant now,
                   struct buf *out)
{
    static const char *const headers[] = {"WHO", "NAME", "ROLES", "QUEUES", "EXPIRES", NULL};
    struct table t;
    add_listener(out, "primary", s->host, &s->tls);
    if (!s->no_admin)
        add_listener(out, "admin", s->admin_host, &s->admin_tls);
    if (identities_guard(who->identities))
        buf_lit(out, "Every request but GET / and GET /health needs credentials.\n\n");
    else
        buf_lit(out, "Nobody is an admin yet: whoever reaches the server may do everything.\n\n");
    table_init(&t, headers);
    add_tokens(&t, who->tokens, now);
    add_rules(&t, identities_rules(who->identities));
    table_write(&t, out, false, 0);
    table_fini(&t);
    if (s->taskcluster_clients)
        buf_print(out,
                  "\nClients of Taskcluster's API, with scopes of their own, are in %s; what is "
                  "said of them here limits them further.\n",
                  s->taskcluster_clients);
}

void identity_report(const struct identity_set *who, const struct settings *s, instant now)
{
    struct buf out = {0};
    struct err unread = tokens_unread(who->tokens);
    report(who, s, now, &out);
    if (unread.code != ERR_OK)
        buf_print(&out, "\nThe tokens cannot be read, and nobody is let in: %s\n", unread.msg);
    subcommand_print(stdout, &out);
    buf_fini(&out);
}
