/* SPDX-License-Identifier: Apache-2.0 */
#include "access/rights.h"

#include <string.h>

#include "access/shared_names.h"
#include "base/array.h"

#define BIT(right) (1u << RIGHT_##right)

static const struct {
    const char *word, *meaning;
} rights[RIGHT_COUNT] = {
    [RIGHT_NONE] = {"none", "nothing: everybody may, also without credentials"},
#define RIGHT(name, word, meaning) [RIGHT_##name] = {word, meaning},
#include "access/rights.def"
};

static const struct {
    const char *word, *meaning;
    unsigned rights;
} roles[ROLE_COUNT] = {
#define ROLE(name, word, rights, meaning) [ROLE_##name] = {word, meaning, rights},
#include "access/rights.def"
};

const struct operation rights_operations[] = {
#define OPERATION(front, name, right, extent)                                                      \
    {RIGHTS_##front, name, RIGHT_##right, RIGHTS_##extent},
#include "access/rights.def"
};
const size_t rights_operation_count = COUNT(rights_operations);

const struct operation *rights_find(enum rights_front front, const char *name)
{
    for (size_t i = 0; i < rights_operation_count; i++)
        if (rights_operations[i].front == front && strcmp(rights_operations[i].name, name) == 0)
            return &rights_operations[i];
    return NULL;
}

const char *rights_word(enum right r)
{
    return rights[r].word;
}

const char *rights_meaning(enum right r)
{
    return rights[r].meaning;
}

const char *rights_role_word(enum role r)
{
    return roles[r].word;
}

const char *rights_role_meaning(enum role r)
{
    return roles[r].meaning;
}

unsigned rights_of_role(enum role r)
{
    return roles[r].rights;
}

bool rights_role_parse(struct str word, enum role *r)
{
    for (int i = 0; i < ROLE_COUNT; i++) {
        if (!str_eq(word, str_from(roles[i].word)))
            continue;
        *r = (enum role)i;
        return true;
    }
    return false;
}

/* --- queues --- */

struct err rights_pattern_check(struct str pattern)
{
    if (pattern.len < 1 || pattern.len > RIGHTS_PATTERN_LEN_MAX)
        return err_make(ERR_BAD_VALUE, "a pattern of queues has 1 to %d bytes, not %zu",
                        RIGHTS_PATTERN_LEN_MAX, pattern.len);
    for (size_t i = 0; i < pattern.len; i++)
        if ((unsigned char)pattern.at[i] < 0x20 || pattern.at[i] == ',' || pattern.at[i] == 0x7f)
            return err_at(ERR_BAD_VALUE, (int64_t)i,
                          "a pattern of queues has no commas and no control characters");
    return err_none();
}

struct err rights_queue(const struct rights *who, struct str queue)
{
    if (glob_list_matches(who->queues, queue))
        return err_none();
    return err_make(ERR_NO_RIGHT, "these credentials are limited to other queues than '%.*s'",
                    (int)(queue.len < 64 ? queue.len : 64), queue.at);
}

/* --- operations --- */

const struct rights rights_all = {.set = ~0u};
const struct rights rights_none = {.set = 0};

bool rights_have(const struct rights *who, enum right r)
{
    return r == RIGHT_NONE || who->set & 1u << r;
}

struct err rights_check(const struct rights *who, const struct operation *op)
{
    if (op->right == RIGHT_NONE)
        return err_none();
    if (!who)
        return err_make(ERR_UNIDENTIFIED, "this request needs credentials: Authorization: Bearer "
                                          "TOKEN");
    if (!rights_have(who, op->right))
        return err_make(ERR_NO_RIGHT, "these credentials lack the right '%s', to %s",
                        rights_word(op->right), rights_meaning(op->right));
    if (op->extent == RIGHTS_SERVER && who->queues.count)
        return err_make(ERR_NO_RIGHT,
                        "these credentials are limited to some queues, and this is about all");
    return err_none();
}

/* --- what would give other rights --- */

/* Whoever may operate may do all that the scopes of Taskcluster's API allow. */
static bool has_all_scopes(const struct rights *who)
{
    return rights_have(who, RIGHT_OPERATE) && !who->queues.count;
}

struct err rights_type(const struct rights *who, struct str type)
{
    if (has_all_scopes(who) || !str_eq(type, STR(RIGHTS_TASK_TYPE)))
        return err_none();
    return err_make(ERR_NO_RIGHT,
                    "jobs of the type '" RIGHTS_TASK_TYPE "' are created over Taskcluster's API: "
                    "these credentials lack the right '%s' in all queues",
                    rights_word(RIGHT_OPERATE));
}

static bool begins(struct str text, struct str with)
{
    return text.len >= with.len && memcmp(text.at, with.at, with.len) == 0;
}

/* Whether it permits, or may be part of what permits, something that this server checks. */
static bool is_own_scope(struct str scope)
{
    static const struct str own[] = {STR("queue:"),
                                     STR("object:"),
                                     STR("auth:"),
                                     STR("worker-manager:"),
                                     STR("assume:scheduler-id:"),
                                     STR("assume:worker-type:")};
    bool star = scope.len && scope.at[scope.len - 1] == '*';
    struct str head = {scope.at, scope.len - star};
    for (size_t i = 0; i < COUNT(own); i++)
        if (begins(scope, own[i]) || (star && begins(own[i], head)))
            return true;
    return false;
}

struct err rights_scope(const struct rights *who, struct str scope)
{
    if (has_all_scopes(who) || !is_own_scope(scope))
        return err_none();
    return err_make(ERR_NO_RIGHT,
                    "to hand on the scope '%.*s' to a task these credentials lack the right '%s'",
                    (int)(scope.len < 64 ? scope.len : 64), scope.at, rights_word(RIGHT_OPERATE));
}

/* --- the document --- */

static void write_roles(struct buf *b)
{
    buf_lit(b, "| Right | Allows to |");
    for (int r = 0; r < ROLE_COUNT; r++)
        buf_print(b, " `%s` |", rights_role_word((enum role)r));
    buf_lit(b, "\n|---|---|");
    for (int r = 0; r < ROLE_COUNT; r++)
        buf_lit(b, "---|");
    for (int i = RIGHT_NONE + 1; i < RIGHT_COUNT; i++) {
        buf_print(b, "\n| `%s` | %s |", rights[i].word, rights[i].meaning);
        for (int r = 0; r < ROLE_COUNT; r++)
            buf_print(b, " %s |", roles[r].rights & 1u << i ? "yes" : "");
    }
    buf_lit(b, "\n");
}

static void write_operations(struct buf *b, enum rights_front front)
{
    static const char *const reach[] = {
        [RIGHTS_QUEUES] = "in its queues", [RIGHTS_SERVER] = "no", [RIGHTS_ALIKE] = "yes"};
    buf_lit(b, "| Operation | Right | Limited to queues |\n|---|---|---|\n");
    for (size_t i = 0; i < rights_operation_count; i++) {
        const struct operation *op = &rights_operations[i];
        if (op->front == front)
            buf_print(b, "| `%s` | %s%s%s | %s |\n", op->name, op->right ? "`" : "",
                      rights_word(op->right), op->right ? "`" : "",
                      op->right ? reach[op->extent] : "yes");
    }
}

void rights_markdown(struct buf *b)
{
    static const char *const titles[] = {[RIGHTS_JOBS] = "Jobs API",
                                         [RIGHTS_QUEUE] = "Taskcluster's queue",
                                         [RIGHTS_OBJECT] = "Taskcluster's object service",
                                         [RIGHTS_AUTH] = "Taskcluster's auth service",
                                         [RIGHTS_PURGE] = "Taskcluster's purge-cache service",
                                         [RIGHTS_INDEX] = "Taskcluster's index service",
                                         [RIGHTS_MANAGER] = "Taskcluster's worker-manager service"};
    write_roles(b);
    buf_lit(b, "\n## Names that senders share\n\n");
    shared_names_markdown(b);
    for (int f = 0; f < RIGHTS_FRONTS; f++) {
        buf_print(b, "\n## %s\n\n", titles[f]);
        write_operations(b, (enum rights_front)f);
    }
}
