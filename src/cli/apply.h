/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_APPLY_H
#define CLI_APPLY_H

/* The verbs for resources, for the commands of the same names and for older commands that do the
 * same. */

#include "cli/manifest.h"

enum resources_verb {
    RESOURCES_CREATE, /* refuses what exists, unless the file is of Armada's form */
    RESOURCES_APPLY,
    RESOURCES_UPDATE, /* refuses what does not exist */
    RESOURCES_DELETE,
    RESOURCES_GET,
};

/* Reads all the files first; any fault in them ends it. Then applies the verb to each document and
 * reports that on standard output. If one is refused, the others are still done; the exit code is
 * that of the first refusal. only: documents of other kinds are refused; NULL: none are. */
int resources_files(struct client *c, enum resources_verb verb, const struct option_list *files,
                    const struct resource_kind *only, bool dry_run);
/* The same for the resources of a list. */
int resources_do(struct client *c, enum resources_verb verb, const struct resources *list,
                 bool dry_run);
/* Whether the word begins with a kind of resource. */
bool resources_meant(const char *word);
/* Reads "KIND NAME..." or "KIND/NAME..."; *all is the kind if it is "KIND" alone, otherwise NULL.
 * CLI_OK, or CLI_USAGE after printing the reason. */
int resources_words(const struct subcommand *command, char **words, int count, struct arena *a,
                    struct resources *list, const struct resource_kind **all);

#endif
