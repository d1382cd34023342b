/* SPDX-License-Identifier: Apache-2.0 */

/* tenax policy lint: the warnings about policies in files, without a server, for a commit hook or a
 * pipeline. */

#include <stdio.h>

#include "base/json.h"
#include "cli/listing.h"
#include "cli/manifest.h"
#include "cli/policy_plan.h"
#include "policy/policy_warning.h"

struct lint {
    struct client *client;
    struct buf out;
    size_t policies, warnings;
};

static void write_for_people(struct lint *l, const struct resource *r, struct str warning)
{
    buf_print(&l->out, "%s, line %u: ", r->file, r->line);
    table_harmless(&l->out, r->name);
    buf_lit(&l->out, ": ");
    table_harmless(&l->out, warning);
    buf_byte(&l->out, '\n');
}

static void write_json(struct lint *l, const struct resource *r, struct str warning)
{
    buf_str(&l->out, l->warnings ? STR(",{\"policy\":") : STR("[{\"policy\":"));
    json_write_string(&l->out, r->name);
    buf_lit(&l->out, ",\"file\":");
    json_write_string(&l->out, str_from(r->file));
    buf_print(&l->out, ",\"line\":%u,\"warning\":", r->line);
    json_write_string(&l->out, warning);
    buf_byte(&l->out, '}');
}

static void look_at_policy(struct lint *l, const struct resource *r,
                           const struct policy_settings *settings)
{
    struct policy_document d;
    struct document_fault fault;
    if (!policy_document_parse(r->body, DOCUMENT_JSON, &d, &fault))
        return; /* policy_plan_load has read it */
    d.of_armada = r->of_armada;
    l->policies++;
    policy_warning_settings(&d, settings);
    for (const struct document_node *n = d.warnings->first; n; n = n->next, l->warnings++) {
        if (client_for_people(l->client))
            write_for_people(l, r, n->text);
        else
            write_json(l, r, n->text);
    }
    policy_document_free(&d);
}

static void print_all(struct lint *l)
{
    static const struct listing_kind kind = {NULL, "policy", NULL};
    struct listing all;
    if (client_for_people(l->client)) {
        subcommand_print(stdout, &l->out);
        if (!l->warnings)
            printf("no warnings about %zu %s\n", l->policies,
                   l->policies == 1 ? "policy" : "policies");
        return;
    }
    buf_str(&l->out, l->warnings ? STR("]") : STR("[]"));
    listing_init(&all, l->client, &kind);
    listing_add_all(&all, buf_view(&l->out));
    listing_end(&all);
}

int policy_lint(struct client *c, const struct policy_plan *p)
{
    struct policy_settings settings = {
        .global_max_retries = p->global_max >= 0 ? p->global_max : POLICY_PLAN_GLOBAL_MAX};
    struct lint l = {.client = c};
    struct resources list = {0};
    int code = policy_plan_load(c, p, &list);
    if (code != CLI_OK)
        return code;
    for (const struct resource *r = list.first; r; r = r->next)
        look_at_policy(&l, r, &settings);
    print_all(&l);
    buf_fini(&l.out);
    return p->strict && l.warnings ? CLI_REFUSED : CLI_OK;
}
