/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_SCOPE_EXPR_H
#define ACCESS_SCOPE_EXPR_H

/* What a method requires: a scope, or all or any of several expressions, with placeholders for
 * parameters of the request. Expressions are tables, at file scope:
 *
 *     static const struct scope_expr claim_work = SCOPE_ALL_OF(
 *         SCOPE("queue:claim-work:<taskQueueId>"),
 *         SCOPE("queue:worker-id:<workerGroup>/<workerId>"));
 *     static const struct scope_expr create_task = SCOPE_ALL_OF(
 *         SCOPE_EACH("route", "routes", "queue:route:<route>"),
 *         SCOPE_ANY_OF(SCOPE_EACH("priority", "priorities", "queue:create-task:<priority>:x/y")));
 *
 * The caller must give every parameter that the expression names. */

#include <stdbool.h>
#include <stddef.h>

#include "access/scopes.h"
#include "base/buf.h"
#include "base/str.h"

enum scope_op {
    SCOPE_OP_ONE,  /* text */
    SCOPE_OP_EACH, /* text, once for each element of a list, as parts of the enclosing expression */
    SCOPE_OP_ALL_OF, /* satisfied if there are no parts */
    SCOPE_OP_ANY_OF, /* not satisfied if there are no parts */
};

struct scope_expr {
    enum scope_op op;
    const char *text;        /* with <name> as the placeholder of a parameter */
    const char *each, *list; /* EACH: the name of the element; the parameter that is the list */
    const struct scope_expr *parts;
    size_t count;
};

#define SCOPE(template_)                                                                           \
    {                                                                                              \
        .op = SCOPE_OP_ONE, .text = (template_)                                                    \
    }
#define SCOPE_EACH(name, list_, template_)                                                         \
    {                                                                                              \
        .op = SCOPE_OP_EACH, .each = (name), .list = (list_), .text = (template_)                  \
    }
#define SCOPE_PARTS(op_, ...)                                                                      \
    {                                                                                              \
        .op = (op_), .parts = (const struct scope_expr[]){__VA_ARGS__},                            \
        .count = sizeof((const struct scope_expr[]){__VA_ARGS__}) / sizeof(struct scope_expr)      \
    }
#define SCOPE_ALL_OF(...) SCOPE_PARTS(SCOPE_OP_ALL_OF, __VA_ARGS__)
#define SCOPE_ANY_OF(...) SCOPE_PARTS(SCOPE_OP_ANY_OF, __VA_ARGS__)

struct scope_param {
    const char *name;
    struct str value;
    const struct str *list; /* for a parameter that is a list: its elements */
    size_t count;
};

struct scope_params {
    const struct scope_param *at;
    size_t count;
};

/* Whether the set satisfies the expression. A scope made from parameters may have any length and
 * any characters: only those of sets are checked. */
bool scope_expr_satisfied(const struct scope_expr *e, const struct scope_params *p,
                          const struct scope_set *have);

/* The expression with its parameters filled in, as JSON: a string, {"AllOf": […]} or {"AnyOf":
 * […]}. Of lists only the first SCOPE_EXPR_SHOWN parts, followed by the number of the others. */
void scope_expr_write(const struct scope_expr *e, const struct scope_params *p, struct buf *b);
/* The same without the parts that are satisfied; "null" if all of it is. */
void scope_expr_write_missing(const struct scope_expr *e, const struct scope_params *p,
                              const struct scope_set *have, struct buf *b);

#define SCOPE_EXPR_SHOWN 32

#endif
