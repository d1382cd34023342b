/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/catalog.h"

#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "cli/commands.h"
#include "server/serve.h"
#include "server/settings.h"
#include "top/top.h"

#define HEADING(text)                                                                              \
    {                                                                                              \
        .heading = (text)                                                                          \
    }

const struct catalog_row catalog[] = {
    HEADING("The server"),
    {&settings_command, serve_main},
    {&dev_command, dev_main},
    {&backup_command, backup_main},
    {&restore_command, restore_main},
    {&check_command, check_main},
    {&compact_command, compact_main},
    {&postgres_command, postgres_main},
    {&servers_command, servers_main},
    {&step_down_command, step_down_main},
    {&tls_command, tls_main},
    {&token_command, token_main},
    {&audit_command, audit_main},
    HEADING("Enqueueing and running jobs"),
    {&enqueue_command, enqueue_main},
    {&work_command, work_main},
    {&executor_command, executor_main},
    {&build_worker_command, build_worker_main},
    {&bridge_command, bridge_main},
    {&crons_command, crons_main},
    {&cron_command, cron_main},
    HEADING("Showing jobs and queues"),
    {&jobs_command, jobs_main},
    {&events_command, events_main},
    {&job_command, job_main},
    {&explain_command, explain_main},
    {&failures_command, failures_main},
    {&group_command, group_main},
    {&queues_command, queues_main},
    {&workers_command, workers_main},
    {&operations_command, operations_main},
    {&pods_command, pods_main},
    {&top_command, top_main},
    HEADING("Changing jobs"),
    {&release_command, release_main},
    {&retry_command, retry_main},
    {&cancel_command, cancel_main},
    {&patch_command, patch_main},
    {&delete_command, delete_main},
    HEADING("Retry policies, queues and budgets"),
    {&create_command, create_main},
    {&apply_command, apply_main},
    {&get_command, get_main},
    {&update_command, update_main},
    {&policy_command, policy_main},
    {&queue_command, queue_main},
    {&budgets_command, budgets_main},
    {&retry_settings_command, retry_settings_main},
    HEADING("This program"),
    {&context_command, context_main},
    {&version_command, version_main},
    {&completion_command, completion_main},
};

const size_t catalog_count = COUNT(catalog);

const struct catalog_row *catalog_find(const char *name)
{
    for (size_t i = 0; i < catalog_count; i++)
        if (catalog[i].page && strcmp(catalog[i].page->name, name) == 0)
            return &catalog[i];
    return NULL;
}

void catalog_visit_actions(const struct subcommand *c, catalog_visitor *visit, void *ctx)
{
    const char *words = c->words;
    struct str word;
    char name[40];
    while (c->page_of && options_next_word(&words, &word)) {
        must(word.len < sizeof name);
        memcpy(name, word.at, word.len);
        name[word.len] = '\0';
        visit(ctx, c->page_of(name));
    }
}

void catalog_visit(catalog_visitor *visit, void *ctx)
{
    for (size_t i = 0; i < catalog_count; i++) {
        if (!catalog[i].page)
            continue;
        visit(ctx, catalog[i].page);
        catalog_visit_actions(catalog[i].page, visit, ctx);
    }
}
