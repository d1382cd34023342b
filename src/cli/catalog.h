/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CATALOG_H
#define CLI_CATALOG_H

/* The one list of tenax's commands. The overview, the manual and the completions of shells are all
 * generated from it, so none of them can miss a command or an option. */

#include "client/subcommand.h"

/* A heading of the overview, or a command below it. */
struct catalog_row {
    const struct subcommand *page; /* NULL: a heading */
    int (*run)(int argc, char **argv);
    const char *heading;
};

extern const struct catalog_row catalog[];
extern const size_t catalog_count;

/* The row of a command, or NULL. */
const struct catalog_row *catalog_find(const char *name);

typedef void catalog_visitor(void *ctx, const struct subcommand *page);

/* Calls visit for the pages of a command's actions, such as "tls init" of tls. */
void catalog_visit_actions(const struct subcommand *c, catalog_visitor *visit, void *ctx);
/* Calls visit for every page in the order of the list: each command, followed by its actions. */
void catalog_visit(catalog_visitor *visit, void *ctx);

#endif
