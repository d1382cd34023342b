/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_STANDING_H
#define POLICY_STANDING_H

/* All that is valid in the stored retry policies, failure categories and retry settings, and most
 * likely not meant. It is found once after each change and kept, so that health, which shows it,
 * costs nothing. In memory only. */

#include "base/arena.h"
#include "core/policy.h"
#include "core/standing_warning.h"
#include "policy/shelf.h"

/* Valid until it is found anew; zero: nothing was found yet. */
struct standing {
    struct arena memory;
    struct standing_warning *list; /* the settings', then policies' and categories', by name */
    size_t count, cap;
    bool found;
    uint64_t version; /* what it was found for */
    size_t documents;
};

struct standing_source {
    const struct shelf *policies, *categories;
    const struct policy_settings *settings;
    bool default_missing; /* the settings name a default policy that is not there */
    uint64_t version;     /* another after each change, unless the number of documents is another */
};

/* Finds the warnings unless they are known already. */
void standing_find(struct standing *s, const struct standing_source *from);
/* Those about one document, without a look at the others; then s is to be ended. */
void standing_find_one(struct standing *s, const struct standing_source *from, bool categories,
                       struct str name);
void standing_fini(struct standing *s);

/* In one sentence; named: with the name of the document. */
void standing_write(struct buf *b, const struct standing_warning *w, bool named);

struct policies;
struct standing_judged {
    struct str queue, added; /* of the jobs; the policies that they name themselves, as "a,b" */
    enum retry_fallback own; /* what they or their queue say of failures that no policy judges */
};
/* What stands of all that judges the failures of such jobs, as texts in the arena; returns how
 * many. */
size_t standing_judging(const struct policies *p, const struct standing_judged *of, struct arena *a,
                        struct str **texts);

#endif
