/* SPDX-License-Identifier: Apache-2.0 */

/* Names that senders share (access/shared_names.h) in what the Jobs API is sent: they become the
 * sender's own before the backend sees them. */

#include "access/shared_names.h"
#include "api/api_access.h"
#include "base/array.h"
#include "core/budgets.h"
#include "core/job.h"

static const struct {
    enum shared_kind kind;
    size_t at; /* in struct enqueue */
    size_t most;
    const char *field;
} names[] = {
    {SHARED_GANG, offsetof(struct enqueue, options.gang), JOB_NAME_MAX, "gang"},
    {SHARED_GROUP, offsetof(struct enqueue, options.group), JOB_GROUP_MAX, "group"},
    {SHARED_UNIQUE_KEY, offsetof(struct enqueue, unique_key), JOB_UNIQUE_KEY_MAX, "unique_key"},
    {SHARED_ALIAS, offsetof(struct enqueue, options.alias), JOB_ALIAS_MAX, "alias"},
    {SHARED_BATCH_KEY, offsetof(struct enqueue, batch.key), JOB_BATCH_KEY_MAX, "batch"},
};

static struct err own_budgets(const struct api_request *r, struct enqueue *spec)
{
    struct arena *a = r->http->arena;
    struct str rest = spec->options.budgets;
    struct budget_create *creates = arena_get(a, spec->budget_create_count * sizeof *creates + 1);
    struct budget_binding one;
    struct buf text = {0};
    struct err err = err_none();
    while (err.code == ERR_OK && budgets_next(&rest, &one)) {
        err = shared_names_own(SHARED_BUDGET, r->rights, BUDGET_KEY_MAX, a, &one.key);
        budgets_bind(&text, &one);
    }
    spec->options.budgets = arena_copy(a, buf_view(&text));
    buf_fini(&text);
    for (size_t i = 0; err.code == ERR_OK && i < spec->budget_create_count; i++) {
        creates[i] = spec->budget_creates[i];
        err = shared_names_own(SHARED_BUDGET, r->rights, BUDGET_KEY_MAX, a, &creates[i].key);
    }
    spec->budget_creates = creates;
    return err.code == ERR_OK ? err : field_in(err, "budgets");
}

static struct err own_names(const struct api_request *r, struct enqueue *spec)
{
    for (size_t i = 0; i < COUNT(names); i++) {
        struct str *name = (struct str *)((char *)spec + names[i].at);
        struct err err =
            shared_names_own(names[i].kind, r->rights, names[i].most, r->http->arena, name);
        if (err.code != ERR_OK)
            return field_in(err, names[i].field);
    }
    return spec->options.budgets.len ? own_budgets(r, spec) : err_none();
}

struct err api_own_names(const struct api_request *r, struct enqueue *specs, size_t count)
{
    for (size_t i = 0; r->rights->queues.count && i < count; i++)
        TRY(own_names(r, &specs[i]));
    return err_none();
}

struct err api_own_worker(const struct api_request *r, struct str *name)
{
    struct err err = shared_names_own(SHARED_WORKER, r->rights, JOB_NAME_MAX, r->http->arena, name);
    return err.code == ERR_OK ? err : field_in(err, "worker");
}

void api_own_alias(const struct api_request *r, struct str *alias)
{
    /* One that is too long is nobody's. */
    struct err err = shared_names_own(SHARED_ALIAS, r->rights, SIZE_MAX, r->http->arena, alias);
    (void)err;
}

struct err api_own_group(const struct api_request *r, struct str *group)
{
    struct err err =
        shared_names_own(SHARED_GROUP, r->rights, JOB_GROUP_MAX, r->http->arena, group);
    return err.code == ERR_OK ? err : field_in(err, "group");
}

bool api_is_same_tenant(const struct rights *a, const struct rights *b)
{
    return str_eq(shared_names_mark_of(a), shared_names_mark_of(b));
}

/* Of the budgets that enqueues make, unless the credentials say otherwise. */
#define BUDGETS_OF_LIMITED 1000

struct enqueue_quota api_quota(const struct api_request *r)
{
    struct str mark = shared_names_mark_of(r->rights);
    const struct token_quota none = {0}, *own = r->token ? &r->token->quota : &none;
    return (struct enqueue_quota){
        .mark = mark,
        .maker = own->waiting || own->keys ? token_number(r->token) : 0,
        .waiting = own->waiting,
        .keys = own->keys,
        .budgets = own->budgets ? own->budgets
                   : mark.len   ? BUDGETS_OF_LIMITED
                                : 0,
        .operates = rights_have(r->rights, RIGHT_OPERATE),
    };
}

struct str api_own_words(struct str text, struct id own, struct buf *words)
{
    struct str rest = text;
    struct id id;
    size_t at;
    while (id_find(rest, &at, &id)) {
        buf_str(words, (struct str){rest.at, at});
        buf_str(words, id_eq(id, own) ? (struct str){rest.at + at, ID_TEXT_LEN} : STR("…"));
        rest.at += at + ID_TEXT_LEN;
        rest.len -= at + ID_TEXT_LEN;
    }
    if (!words->len)
        return text;
    buf_str(words, rest);
    return buf_view(words);
}
