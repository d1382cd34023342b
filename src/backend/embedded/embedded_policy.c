/* SPDX-License-Identifier: Apache-2.0 */

/* Retry policies: their commands, their part of the port, and their recovery. */

#include "backend/embedded/embedded_internal.h"
#include "base/log.h"
#include "base/must.h"
#include "policy/settings_document.h"
#include "store/record.h"

/* --- commands --- */

static void put_resource(void *ctx, char kind, struct str name, uint64_t version, struct str body)
{
    struct embedded *b = ctx;
    char room[RECORD_RESOURCE_KEY_MAX];
    if (body.at)
        record_put_resource(&b->building->batch, kind, name, version, body);
    else
        batch_delete(&b->building->batch, record_resource_key(kind, name, room));
}

/* The section of a file was passed over, although the settings are not what it says. */
static void log_kept(const struct retry_settings_command *c, const struct policy_settings_view *now,
                     enum policies_fate fate)
{
    struct str last = now->last ? now->last->by : (struct str){0};
    if (fate == POLICIES_UNCHANGED)
        log_warn("%.*s: retryPolicy has not changed since it was last applied, so the settings "
                 "stay as '%.*s' has set them; a changed section takes effect",
                 STR_ARG(c->by), STR_ARG(last));
    else
        log_warn("%.*s: retryPolicy is not used: '%.*s' has changed the settings since; SIGHUP "
                 "makes the file count",
                 STR_ARG(c->by), STR_ARG(last));
}

static void log_applied(const struct retry_settings_command *c, const struct policy_settings *old,
                        const struct policy_settings_view *now, struct arena *a)
{
    struct str before = settings_document_text(old, a);
    struct str after = settings_document_text(&now->settings, a);
    if (!c->from_file || !str_eq(before, after))
        log_warn("retry settings changed by '%.*s': %.*s, before: %.*s", STR_ARG(c->by),
                 STR_ARG(after), STR_ARG(before));
    if (now->default_missing)
        log_warn("defaultPolicyName: there is no retry policy '%.*s' yet; until it is made, jobs "
                 "without policies have none",
                 STR_ARG(now->settings.default_policy));
    if (now->above_count)
        log_warn("globalMaxRetries is now %lld: %zu retry %s a retryLimit above it, '%.*s' first",
                 (long long)now->settings.global_max_retries, now->above_count,
                 now->above_count == 1 ? "policy states" : "policies state", STR_ARG(now->above));
}

void embedded_retry_settings_put(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct retry_settings_command *c = &command->retry_settings;
    struct arena *a = &b->building->arena;
    enum policies_fate fate;
    const struct policy_settings_view *old = policies_settings_read(b->policies, a);
    const struct policies_settings put = {c->change, c->by, c->ahead, c->from_file, c->at_start};
    r->err = policies_settings_put(b->policies, &put, b->now, a, &fate);
    if (r->err.code != ERR_OK)
        return;
    r->retry_settings = policies_settings_read(b->policies, a);
    r->repeated = fate != POLICIES_APPLIED;
    if (fate == POLICIES_APPLIED)
        log_applied(c, &old->settings, r->retry_settings, a);
    else
        log_kept(c, r->retry_settings, fate);
}

void embedded_policy_simulate(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct simulate_command *c = &command->simulate;
    struct arena *a = &b->building->arena;
    struct simulate_result *result = ARENA_NEW(a, struct simulate_result);
    const struct policies_draft draft = {c->drafts, c->draft_count, c->settings};
    const struct verdict_rules own = engine_queue_rules(b->engine, c->what->job->queue);
    r->err = policies_simulate(b->policies, &draft, c->what, &own, a, result);
    r->simulated = result;
}

void embedded_retry_settings_read(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)c;
    r->retry_settings = policies_settings_read(b->policies, &b->building->arena);
}

static struct policies_put what_to_put(const struct resource_command *c, const void *value)
{
    return (struct policies_put){c->name, value, c->version, c->create};
}

/* What a view shows does not lie in the arena, and is still to be written out. */
static void show(struct embedded *b, struct reply *r, struct err err, size_t count)
{
    r->err = err;
    r->count = err.code == ERR_OK ? count : 0;
    for (size_t i = 0; i < r->count; i++)
        b->gathered += r->resources[i].bytes;
}

struct standing_warnings embedded_policy_warnings(struct embedded *b, struct standing_warnings of,
                                                  size_t most)
{
    struct arena *a = &b->building->arena;
    size_t n = of.total < most ? of.total : most;
    struct standing_warning *list = arena_get(a, (n + 1) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        list[i] = (struct standing_warning){of.list[i].kind, arena_copy(a, of.list[i].name),
                                            arena_copy(a, of.list[i].text)};
        b->gathered += list[i].text.len;
    }
    return (struct standing_warnings){list, n, of.total};
}

/* Of all documents, or of the one that is read. */
static void show_warnings(struct embedded *b, struct reply *r, bool categories)
{
    for (size_t i = 0; i < r->count; i++) {
        struct resource_view *view = &r->resources[i];
        struct standing one;
        policies_standing_of(b->policies, categories, view->name, &one);
        const struct standing_warnings of = {one.list, one.count, one.count};
        view->warnings = embedded_policy_warnings(b, of, SIZE_MAX);
        standing_fini(&one);
    }
}

void embedded_policy_put(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct policies_put put = what_to_put(&c->resource, c->resource.policy);
    show(b, r, policies_put(b->policies, &put, &b->building->arena, &r->resources), 1);
    r->retry_settings = policies_settings_read(b->policies, &b->building->arena);
}

void embedded_policy_read(struct embedded *b, const struct command *c, struct reply *r)
{
    size_t n = 0;
    struct err err =
        policies_read(b->policies, c->resource.name, &b->building->arena, &r->resources, &n);
    show(b, r, err, n);
    show_warnings(b, r, false);
}

void embedded_policy_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = policies_remove(b->policies, c->resource.name, c->resource.detach);
}

void embedded_categories_put(struct embedded *b, const struct command *c, struct reply *r)
{
    const struct policies_put put = what_to_put(&c->resource, c->resource.categories);
    show(b, r, policies_categories_put(b->policies, &put, &b->building->arena, &r->resources), 1);
}

void embedded_categories_read(struct embedded *b, const struct command *c, struct reply *r)
{
    size_t n = 0;
    struct err err = policies_categories_read(b->policies, c->resource.name, &b->building->arena,
                                              &r->resources, &n);
    show(b, r, err, n);
    show_warnings(b, r, true);
}

void embedded_categories_remove(struct embedded *b, const struct command *c, struct reply *r)
{
    r->err = policies_categories_remove(b->policies, c->resource.name);
}

struct err embedded_policy_check(const struct embedded *b, const struct command *c)
{
    if (c->kind == CMD_ENQUEUE)
        for (size_t i = 0; i < c->enqueue.count; i++)
            TRY(policies_check_names(b->policies, c->enqueue.specs[i].options.retry_policies));
    if (c->kind == CMD_CRON_PUT)
        for (size_t i = 0; i < c->cron_put.count; i++)
            TRY(policies_check_names(b->policies,
                                     c->cron_put.entries[i].job.options.retry_policies));
    return err_none();
}

void embedded_judges_warn(struct embedded *b, const struct job *job, struct judges *j)
{
    enum retry_fallback own = (enum retry_fallback)job->options.when_no_policy;
    if (own == RETRY_FALLBACK_UNSET)
        own = engine_queue_rules(b->engine, job->queue).when_no_policy;
    const struct standing_judged of = {job->queue, job->options.retry_policies, own};
    j->warning_count = standing_judging(b->policies, &of, &b->building->arena, &j->warnings);
}

/* --- the port --- */

/* Once in a while for each list of names: failures may come by the thousand. */
static void log_missing(struct embedded *b, struct str queue, struct str missing)
{
    uint64_t hash = policy_name_hash(missing);
    struct missing_logged *oldest = b->missing_logged;
    for (size_t i = 0; i < MISSING_LOGGED_MAX; i++) {
        struct missing_logged *t = &b->missing_logged[i];
        if (t->hash == hash && b->now.ms - t->at.ms < MISSING_LOGGED_MS)
            return;
        if (t->hash == hash || t->at.ms < oldest->at.ms)
            oldest = t;
        if (t->hash == hash)
            break;
    }
    *oldest = (struct missing_logged){hash, b->now};
    log_warn(
        "retry policy '%.*s' is missing: a job of queue '%.*s' has failed that it is named for, "
        "and is judged without it",
        STR_ARG(missing), STR_ARG(queue));
}

static void effective(void *ctx, struct str queue, struct str added, struct arena *a,
                      struct verdict_rules *rules)
{
    struct embedded *b = ctx;
    policies_effective(b->policies, queue, added, a, rules);
    if (rules->missing.len && rules->settings->enabled && !rules->only_shown)
        log_missing(b, queue, rules->missing);
}

static size_t categorizers(void *ctx, struct arena *a, const struct categorizer *const **list)
{
    struct embedded *b = ctx;
    return policies_categorizers(b->policies, a, list);
}

void embedded_policy_port(struct port *port)
{
    port->categorizers = categorizers;
    port->policies = effective;
}

/* --- recovery --- */

/* Whatever is wrong with one of them, the server starts: it does without. */
static void restore(struct embedded *b, struct str key, struct str value)
{
    char kind;
    struct str name, body;
    uint64_t version;
    must(record_key_is_resource(key, &kind, &name));
    struct err err = record_read_resource(value, &version, &body);
    if (err.code != ERR_OK) { /* shown as broken, for there is something of that name */
        version = 0;
        body = (struct str){"", 0};
    }
    err = policies_restore(b->policies, kind, name, version, body);
    if (err.code != ERR_OK)
        log_error("retry policies: '%.*s' of kind %c is stored, but cannot be read any more and "
                  "counts as absent: %s",
                  STR_ARG(name), kind, err.msg);
}

struct err embedded_policy_recover(struct embedded *b)
{
    struct policies_sink sink = {b, put_resource};
    struct store *s = b->env.store;
    struct str key, value, name;
    char kind;
    struct policy_settings initial = POLICY_SETTINGS_DEFAULT;
    initial.enabled = b->settings.retry_policy_enabled;
    if (b->settings.when_no_policy != RETRY_FALLBACK_UNSET)
        initial.when_no_policy = b->settings.when_no_policy;
    policies_free(b->policies);
    b->policies = policies_new(&initial, &sink);
    struct store_cursor *c = store_cursor_new(s);
    store_cursor_seek(c, s, STR("D"), false);
    for (; store_cursor_at(c, s, &key, &value) && record_key_is_resource(key, &kind, &name);
         store_cursor_step(c, s, false))
        restore(b, key, value);
    return store_cursor_free(c, s);
}
