/* SPDX-License-Identifier: Apache-2.0 */

/* Budgets, and what jobs draw on them. */

#include "api/api_routes.h"
#include "api/api_words.h"
#include "base/array.h"
#include "core/budgets.h"
#include "wire/field_list.h"

/* --- answers --- */

static bool is_timed(const void *policy)
{
    return ((const struct budget_policy *)policy)->strategy == BUDGET_TIME_BASED;
}

static const struct shape_member strategy_members[] = {
    {MEMBER_WORD(struct budget_policy, strategy, "type", ALWAYS, &api_strategy_words, NULL)},
    {MEMBER(struct budget_policy, duration, "duration_ms", IF_SET,
            "time_based: as many tokens as the allocation come in each", .is_set = is_timed)},
    {MEMBER(struct budget_policy, burst, "burst", IF_SET,
            "time_based: as many tokens are saved up at most; else as many as the allocation")},
};
static const struct shape strategy_shape = {.name = "BudgetStrategy",
                                            SHAPE_MEMBERS(strategy_members)};

static const struct shape_member usage_members[] = {
    {MEMBER(struct budget_view, available, "available", ALWAYS,
            "tokens; below 0 while more are drawn than a lowered allocation has")},
    {MEMBER(struct budget_view, in_flight, "in_flight", ALWAYS,
            "tokens that jobs in flight have drawn")},
    {MEMBER(struct budget_view, jobs, "jobs", ALWAYS, "unfinished ones that draw on it")},
    {MEMBER(struct budget_view, crons, "cron_entries", ALWAYS, "whose jobs will")},
};
static const struct shape usage_shape = {SHAPE_MEMBERS(usage_members)};

static const struct shape_member budget_members[] = {
    {MEMBER(struct budget_view, budget.key, "key", ALWAYS, NULL)},
    {MEMBER(struct budget_view, budget.policy.allocation, "allocation", ALWAYS, "tokens")},
    {MEMBER_OBJECT(struct budget_view, budget.policy, "strategy", ALWAYS, &strategy_shape, NULL)},
    {MEMBER(struct budget_view, budget.created_at, "created_at", ALWAYS, NULL)},
    {MEMBER(struct budget_view, budget.updated_at, "updated_at", ALWAYS, NULL)},
    {MEMBER_INNER("usage", ALWAYS, &usage_shape, "where it stands now")},
};
const struct shape api_budget_shape = {.name = "Budget", SHAPE_MEMBERS(budget_members)};

static const struct shape_member list_members[] = {
    {MEMBER_OBJECTS(struct reply, budgets, count, "budgets", ALWAYS, &api_budget_shape, "by key")},
};
const struct shape api_budgets_shape = {.name = "Budgets", SHAPE_MEMBERS(list_members)};

static const struct shape_member binding_members[] = {
    {MEMBER(struct budget_binding, key, "key", ALWAYS, NULL)},
    {MEMBER(struct budget_binding, cost, "cost", ALWAYS, "tokens", .type = "integer 1..")},
};
const struct shape api_budget_binding_shape = {.name = "BudgetBinding",
                                               SHAPE_MEMBERS(binding_members)};

void api_encode_budgets(struct buf *b, struct str bindings)
{
    struct budget_binding one;
    buf_byte(b, '[');
    for (bool first = true; budgets_next(&bindings, &one); first = false) {
        if (!first)
            buf_byte(b, ',');
        shape_write(b, &api_budget_binding_shape, &one, SHAPE_AS_IT_IS);
    }
    buf_byte(b, ']');
}

/* --- policies from bodies --- */

struct strategy_fields {
    unsigned set; /* bits of enum budget_field; must be first */
    struct budget_policy policy;
};

struct budget_fields {
    struct strategy_fields strategy; /* must be first */
    struct json_cursor at;           /* where the strategy begins */
    bool has_strategy;
};

/* null has a meaning for what has a default, and for nothing else. */
static struct err meet(struct json_cursor *c, struct strategy_fields *f, unsigned field, bool *null)
{
    f->set |= field;
    return json_take_null(c, null);
}

static struct err refuse_null(bool null)
{
    return null ? err_make(ERR_UNPROCESSABLE, "cannot be null") : err_none();
}

static struct err read_tokens(struct json_cursor *c, uint32_t *tokens)
{
    int64_t v;
    TRY(json_read_int(c, 1, BUDGET_TOKENS_MAX, &v));
    *tokens = (uint32_t)v;
    return err_none();
}

static struct err read_allocation(struct json_cursor *c, struct arena *a, void *out)
{
    struct strategy_fields *f = out;
    bool null;
    (void)a;
    TRY(meet(c, f, BUDGET_ALLOCATION, &null));
    TRY(refuse_null(null));
    return read_tokens(c, &f->policy.allocation);
}

static struct err read_type(struct json_cursor *c, struct arena *a, void *out)
{
    struct strategy_fields *f = out;
    struct str name;
    bool null;
    TRY(meet(c, f, BUDGET_STRATEGY, &null));
    TRY(refuse_null(null));
    TRY(field_text(c, a, &name));
    if (budgets_strategy_parse(name, &f->policy.strategy))
        return err_none();
    return err_make(ERR_BAD_VALUE, "while_in_flight or time_based, not '%.*s'",
                    (int)(name.len < 32 ? name.len : 32), name.at);
}

static struct err read_duration(struct json_cursor *c, struct arena *a, void *out)
{
    struct strategy_fields *f = out;
    bool null;
    (void)a;
    TRY(meet(c, f, BUDGET_DURATION, &null));
    return null ? err_none() : json_read_int(c, 1, BUDGET_DURATION_MAX.ms, &f->policy.duration.ms);
}

static struct err read_burst(struct json_cursor *c, struct arena *a, void *out)
{
    struct strategy_fields *f = out;
    bool null;
    (void)a;
    TRY(meet(c, f, BUDGET_BURST, &null));
    return null ? err_none() : read_tokens(c, &f->policy.burst);
}

static struct err mark_strategy(struct json_cursor *c, struct arena *a, void *out)
{
    struct budget_fields *f = out;
    bool null;
    (void)a;
    TRY(json_take_null(c, &null));
    TRY(refuse_null(null));
    f->at = *c;
    f->has_strategy = true;
    return json_skip(c, NULL);
}

static struct err pass_over(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    (void)out;
    return json_skip(c, NULL);
}

#define DURATION "integer 1..$?: time_based, and then required: milliseconds"
#define BURST    "integer 1..$?: time_based: by default as much as the allocation"
#define TOKENS   "integer 1..$: tokens"

static const struct field strategy_table[] = {
    {"type", true, read_type, 0, .doc = "string (while_in_flight|time_based)"},
    {"duration_ms", false, read_duration, 0, .doc = DURATION, .most = RATE_PER_MAX_MS},
    {"burst", false, read_burst, 0, .doc = BURST, .most = BUDGET_TOKENS_MAX},
};
const struct api_body api_strategy_body = {.name = "BudgetStrategyInput",
                                           API_FIELDS(strategy_table)};

static const struct field strategy_patch_table[] = {
    {"type", false, read_type, 0, .doc = "string (while_in_flight|time_based)"},
    {"duration_ms", false, read_duration, 0, .doc = DURATION, .most = RATE_PER_MAX_MS},
    {"burst", false, read_burst, 0, .doc = BURST, .most = BUDGET_TOKENS_MAX},
};
const struct api_body api_strategy_patch_body = {.name = "BudgetStrategyPatch",
                                                 API_FIELDS(strategy_patch_table)};

/* What an answer has besides, which may be sent back. */
#define OF_AN_ANSWER                                                                               \
    {"key", false, pass_over, 0,                                                                   \
     .doc = "any: of an answer that is sent back; without effect: the path names the budget"},     \
        {"created_at", false, pass_over, 0, .doc = "any: likewise"},                               \
        {"updated_at", false, pass_over, 0, .doc = "any: likewise"},                               \
    {                                                                                              \
        "usage", false, pass_over, 0, .doc = "any: likewise"                                       \
    }

static const struct field budget_table[] = {
    {"allocation", true, read_allocation, 0, .doc = TOKENS, .most = BUDGET_TOKENS_MAX},
    {"strategy", true, mark_strategy, 0, .doc = "BudgetStrategyInput"},
    OF_AN_ANSWER,
};
const struct api_body api_budget_body = {.name = "BudgetInput", API_FIELDS(budget_table)};

static const struct field budget_patch_table[] = {
    {"allocation", false, read_allocation, 0, .doc = TOKENS, .most = BUDGET_TOKENS_MAX},
    {"strategy", false, mark_strategy, 0, .doc = "BudgetStrategyPatch"},
    OF_AN_ANSWER,
};
const struct api_body api_budget_patch_body = {API_FIELDS(budget_patch_table)};

static struct err read_strategy(bool strict, struct budget_fields *f, const struct field *table,
                                size_t count, struct arena *arena)
{
    if (!f->has_strategy)
        return err_none();
    struct err err = field_read_object(strict, &f->at, arena, table, count, &f->strategy);
    return err.code == ERR_OK ? err : field_in(err, "strategy");
}

/* --- bindings of jobs --- */

struct binding_fields {
    struct budget_binding binding;
    struct json_cursor at; /* where create_with begins */
    bool has_create;
};

static struct err read_key(struct json_cursor *c, struct arena *a, void *out)
{
    struct binding_fields *f = out;
    TRY(field_text(c, a, &f->binding.key));
    return budgets_check_key(f->binding.key);
}

static struct err read_cost(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return read_tokens(c, &((struct binding_fields *)out)->binding.cost);
}

static struct err mark_create(struct json_cursor *c, struct arena *a, void *out)
{
    struct binding_fields *f = out;
    (void)a;
    f->at = *c;
    f->has_create = true;
    return json_skip(c, NULL);
}

static const struct field binding_table[] = {
    {"key", true, read_key, 0, .doc = "string 1..$", .most = BUDGET_KEY_MAX},
    {"cost", false, read_cost, 0, true, "integer 1..$: tokens; by default 1", BUDGET_TOKENS_MAX},
    {"create_with", false, mark_create, 0, true, "BudgetInput: what it is unless it is there"},
};
const struct api_body api_binding_body = {.name = "BudgetBindingInput", API_FIELDS(binding_table)};

static struct err read_create(bool strict, struct binding_fields *f, struct arena *arena,
                              struct budget_create *create)
{
    struct budget_fields b = {0};
    create->key = f->binding.key;
    TRY(field_read_object(strict, &f->at, arena, budget_table, COUNT(budget_table), &b));
    TRY(read_strategy(strict, &b, strategy_table, COUNT(strategy_table), arena));
    create->policy = b.strategy.policy;
    return budgets_check_policy(&create->policy);
}

/* What a job draws on, while it is read. */
struct bindings {
    bool strict;
    struct arena *arena;
    struct buf text;
    size_t count;
    struct budget_create *creates;
    size_t create_count;
};

static struct err read_binding(void *ctx, struct json_cursor *c)
{
    struct bindings *l = ctx;
    struct binding_fields f = {.binding.cost = 1};
    if (l->count++ == BUDGET_BINDINGS_MAX)
        return err_make(ERR_TOO_MANY, "a job draws on at most %d budgets", BUDGET_BINDINGS_MAX);
    TRY(field_read_object(l->strict, c, l->arena, binding_table, COUNT(binding_table), &f));
    if (budgets_has(buf_view(&l->text), f.binding.key))
        return err_make(ERR_UNPROCESSABLE, "budget '%.*s' is named twice", NAME_ARG(f.binding.key));
    budgets_bind(&l->text, &f.binding);
    if (!f.has_create)
        return err_none();
    struct err err = read_create(l->strict, &f, l->arena, &l->creates[l->create_count++]);
    return err.code == ERR_OK ? err : field_in(err, "create_with");
}

struct err api_decode_budgets(const struct api *a, struct json_cursor *c, struct arena *arena,
                              struct enqueue *spec)
{
    struct bindings l = {.strict = a->strict, .arena = arena};
    size_t count;
    l.creates = arena_get(arena, BUDGET_BINDINGS_MAX * sizeof *l.creates);
    struct err err = field_list(c, read_binding, &l, &count);
    if (err.code == ERR_OK)
        spec->options.budgets = arena_copy(arena, buf_view(&l.text));
    spec->budget_creates = l.creates;
    spec->budget_create_count = l.create_count;
    buf_fini(&l.text);
    return err;
}

/* --- handlers --- */

static void reply_one(const struct call *c, const struct reply *r, int status)
{
    struct buf *b = api_reply_body(c->api, c->x, r);
    if (!b)
        return;
    shape_write(b, &api_budget_shape, r->budgets, SHAPE_AS_IT_IS);
    api_reply_json(c->x, status, b);
}

static void on_budget(void *ctx, const struct reply *r)
{
    reply_one(ctx, r, 200);
}

static void on_created(void *ctx, const struct reply *r)
{
    reply_one(ctx, r, 201);
}

static void on_budgets(void *ctx, const struct reply *r)
{
    api_reply_shape(ctx, r, 200, &api_budgets_shape);
}

static struct err decode(const struct api *a, const struct http_request *req,
                         struct budget_command *out)
{
    struct budget_fields f = {0};
    bool merge = out->how == BUDGET_MERGE;
    TRY(api_decode_body(a, req, merge ? budget_patch_table : budget_table,
                        merge ? COUNT(budget_patch_table) : COUNT(budget_table), false, &f));
    TRY(read_strategy(a->strict, &f, merge ? strategy_patch_table : strategy_table,
                      merge ? COUNT(strategy_patch_table) : COUNT(strategy_table), req->arena));
    out->set = f.strategy.set;
    out->policy = f.strategy.policy;
    return err_none();
}

static void change(struct api *a, const struct api_request *r, enum budget_how how, reply_fn done)
{
    struct command c = {
        .kind = CMD_BUDGET_PUT, .done = done, .budget = {.key = r->params->at[0], .how = how}};
    api_submit(a, r, &c, decode(a, r->http, &c.budget));
}

void api_budget_create(struct api *a, const struct api_request *r)
{
    change(a, r, BUDGET_CREATE, on_created);
}

void api_budget_put(struct api *a, const struct api_request *r)
{
    change(a, r, BUDGET_REPLACE, on_budget);
}

void api_budget_patch(struct api *a, const struct api_request *r)
{
    change(a, r, BUDGET_MERGE, on_budget);
}

static void ask(struct api *a, const struct api_request *r, enum command_kind kind, reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .budget.key = r->params->at[0]};
    api_submit(a, r, &c, api_check_media(r->http));
}

void api_budget_read(struct api *a, const struct api_request *r)
{
    ask(a, r, CMD_BUDGET_READ, on_budget);
}

void api_budget_remove(struct api *a, const struct api_request *r)
{
    ask(a, r, CMD_BUDGET_REMOVE, api_reply_empty);
}

void api_budgets(struct api *a, const struct api_request *r)
{
    struct command c = {.kind = CMD_BUDGET_READ, .done = on_budgets};
    api_submit(a, r, &c, api_check_media(r->http));
}
