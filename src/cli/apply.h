/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_APPLY_H
#define CLI_APPLY_H

/* The verbs for resources, for the commands of that name and for those of older ones that do the
 * same. */

#include "cli/manifest.h"

enum resources_verb {
    RESOURCES_CREATE, /* refuses what there is */
    RESOURCES_APPLY,
    RESOURCES_UPDATE, /* refuses what there is not */
    RESOURCES_DELETE,
    RESOURCES_GET,
};

/* Reads all the files, or nothing happens; then does it to each document, and says so on
 * standard output. One that is refused does not keep the others from it; the exit code is
 * that of the first. only: documents of any other kind are refused; NULL: none are. */
int resources_files(struct client *c, enum resources_verb verb, const struct option_list *files,
                    const struct resource_kind *only, bool dry_run);
/* The same for one of the list. */
int resources_do(struct client *c, enum resources_verb verb, const struct resources *list,
                 bool dry_run);
/* Whether this word begins with a kind of resource. */
bool resources_meant(const char *word);
/* Reads "KIND NAME..." or "KIND/NAME..."; of "KIND" alone *all is the kind, else NULL. CLI_OK, or
 * CLI_USAGE after the reason was printed. */
int resources_words(const struct subcommand *command, char **words, int count, struct arena *a,
                    struct resources *list, const struct resource_kind **all);

#endif
