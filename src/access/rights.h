/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_RIGHTS_H
#define ACCESS_RIGHTS_H

/* Roles, the rights that they give, and which right each operation of each front end needs: the
 * tables of rights.def, and pure functions about them. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/glob.h"
#include "base/mark.h"
#include "base/str.h"

enum right {
    RIGHT_NONE, /* nothing is asked for */
#define RIGHT(name, word, meaning) RIGHT_##name,
#include "access/rights.def"
    RIGHT_COUNT
};

enum role {
#define ROLE(name, word, rights, meaning) ROLE_##name,
#include "access/rights.def"
    ROLE_COUNT
};

enum rights_front {
    RIGHTS_JOBS,
    RIGHTS_QUEUE,
    RIGHTS_OBJECT,
    RIGHTS_AUTH,
    RIGHTS_PURGE,
    RIGHTS_INDEX,
    RIGHTS_MANAGER,
    RIGHTS_FRONTS
};

/* What an identity that is limited to queues may do with an operation; see rights.def. */
enum rights_extent { RIGHTS_QUEUES, RIGHTS_SERVER, RIGHTS_ALIKE };

struct operation {
    enum rights_front front;
    const char *name;
    enum right right;
    enum rights_extent extent;
};

/* All of them, in the order of rights.def. */
extern const struct operation rights_operations[];
extern const size_t rights_operation_count;
/* NULL: there is none of that name. */
const struct operation *rights_find(enum rights_front front, const char *name);

/* "see". */
const char *rights_word(enum right r);
/* "see jobs, queues and settings": what one may do with it. */
const char *rights_meaning(enum right r);
/* "viewer". */
const char *rights_role_word(enum role r);
/* What it is for. */
const char *rights_role_meaning(enum role r);
/* False if no role has that name. */
bool rights_role_parse(struct str word, enum role *r);
/* What a role gives: bits 1 << enum right. */
unsigned rights_of_role(enum role r);

#define RIGHTS_PATTERNS_MAX    32
#define RIGHTS_PATTERN_LEN_MAX 128

/* What somebody may do. */
struct rights {
    unsigned set;            /* bits 1 << enum right */
    struct glob_list queues; /* to which it is limited; none: all */
    char mark[MARK_LEN];     /* iff it is limited: see access/shared_names.h */
};
extern const struct rights rights_all, rights_none;

/* ERR_BAD_VALUE unless it has 1 to RIGHTS_PATTERN_LEN_MAX bytes, and no comma or control
 * character. */
NODISCARD struct err rights_pattern_check(struct str pattern);

/* Whether the operation is allowed at all; if it is about queues, rights_queue decides about each
 * of them. ERR_NO_RIGHT says what is missing, ERR_UNIDENTIFIED that nobody has said who asks (who
 * is NULL). The message depends on nothing but the tables and `who`. */
NODISCARD struct err rights_check(const struct rights *who, const struct operation *op);
/* ERR_NO_RIGHT unless they reach to this queue; whether it exists makes no difference. */
NODISCARD struct err rights_queue(const struct rights *who, struct str queue);
bool rights_have(const struct rights *who, enum right r);

/* Jobs of this type are tasks of Taskcluster's API: who runs one gets credentials with the scopes
 * that it names. */
#define RIGHTS_TASK_TYPE "taskcluster-task"
/* ERR_NO_RIGHT unless they suffice to enqueue jobs of that type by themselves, without the checks
 * of that API: then they must have all the rights that its scopes could give. */
NODISCARD struct err rights_type(const struct rights *who, struct str type);
/* The same of a scope that a task is to hand on: one of this server's own (scopes.h) needs the
 * right to operate, in all queues. */
NODISCARD struct err rights_scope(const struct rights *who, struct str scope);

/* The tables in Markdown: docs/rights.md. */
void rights_markdown(struct buf *b);

#endif
