/* SPDX-License-Identifier: Apache-2.0 */
#include "server/migrate.h"

#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"

/* Options of Zizq's server, and what replaces them. */
static const struct {
    const char *flag, *why;
} settled[] = {
    {"reaper-check-interval", "jobs are deleted when their retention ends, not at a check"},
    {"enqueue-batch-size", "everything that arrives while the disk is busy is committed together"},
    {"complete-batch-size", "everything that arrives while the disk is busy is committed together"},
    {"license-key", "there is nothing to unlock"},
    {"license-key-check-interval", "there is nothing to unlock"},
};

/* Its variables that have no option here. */
static const struct {
    const char *variable, *why;
} unknown[] = {
    {"ZIZQ_LOG_FILTER", "use TENAX_LOG_LEVEL"},
    {"ZIZQ_JOURNAL_SIZE", "the store sizes its log itself"},
    {"ZIZQ_DATA_TABLE_SIZE", "the store sizes its tables itself"},
    {"ZIZQ_INDEX_TABLE_SIZE", "the store sizes its tables itself"},
    {"ZIZQ_SCHEDULER_BATCH_SIZE", "scheduled jobs become ready without a write"},
    {"ZIZQ_AUTO_COMPACT_THRESHOLD", "the store compacts itself; POST /compact does it at once"},
    {"ZIZQ_MAX_BUDGETS", "there are no budgets: queues have rates and limits of their own"},
};

/* For commands, not for the server. */
static const char *const of_clients[] = {"ZIZQ_URL",
                                         "ZIZQ_CA_CERT",
                                         "ZIZQ_CLIENT_CERT",
                                         "ZIZQ_CLIENT_KEY",
                                         "ZIZQ_ADMIN_URL",
                                         "ZIZQ_ADMIN_TLS_CA",
                                         "ZIZQ_ADMIN_TLS_CLIENT_CERT",
                                         "ZIZQ_ADMIN_TLS_CLIENT_KEY"};

static const char *why_settled(const char *flag)
{
    for (size_t i = 0; i < COUNT(settled); i++)
        if (strcmp(settled[i].flag, flag) == 0)
            return settled[i].why;
    return NULL;
}

bool migrate_has_no_effect(const char *flag)
{
    return why_settled(flag) != NULL;
}

static bool is_understood(const struct option_def *defs, const char *variable)
{
    for (const struct option_def *d = defs; d->flag; d++)
        if (d->alias && strcmp(d->alias, variable) == 0)
            return true;
    for (size_t i = 0; i < COUNT(of_clients); i++)
        if (strcmp(of_clients[i], variable) == 0)
            return true;
    return false;
}

static void tell_of_variable(const char *variable)
{
    for (size_t i = 0; i < COUNT(unknown); i++)
        if (strcmp(unknown[i].variable, variable) == 0) {
            log_warn("%s has no effect: %s", variable, unknown[i].why);
            return;
        }
    log_warn(
        "%s is set and not understood, it has no effect; `tenax help serve` names the settings",
        variable);
}

void migrate_tell(const struct option_def *defs, const struct options *o)
{
    for (size_t i = 0; defs[i].flag; i++) {
        const char *why = why_settled(defs[i].flag);
        if (why && o->source[i] > OPTION_FROM_DEFAULT)
            log_warn("--%s has no effect: %s", defs[i].flag, why);
    }
    for (char **e = environ; e && *e; e++) {
        char name[64];
        size_t len = strcspn(*e, "=");
        if (strncmp(*e, "ZIZQ_", 5) != 0 || len >= sizeof name || (*e)[len] != '=' ||
            !(*e)[len + 1])
            continue;
        memcpy(name, *e, len);
        name[len] = '\0';
        if (!is_understood(defs, name))
            tell_of_variable(name);
    }
}
