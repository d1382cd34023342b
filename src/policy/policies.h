/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_POLICIES_H
#define POLICY_POLICIES_H

/* The retry policies and the failure categories, kept parsed; which queues have which policies; and
 * the settings that can be changed at run time. All are resources: a kind, a name, a version and a
 * body of text, which the owner stores and restores at a restart. A refused change has no effect.
 * No I/O, no log. */

#include "base/arena.h"
#include "base/err.h"
#include "core/categorize.h"
#include "core/policy.h"
#include "policy/shelf.h"
#include "policy/simulate.h"
#include "policy/standing.h"

/* The kinds are on disk. */
#define POLICIES_POLICY     'p' /* body: the policy's canonical JSON */
#define POLICIES_QUEUE      'q' /* body: "a,b" */
#define POLICIES_KEPT       'k' /* of a queue; body: JSON, see policy/queue_kept.h */
#define POLICIES_SETTINGS   's' /* no name; body: JSON */
#define POLICIES_CHANGE     'c' /* no name; body: the last change of the settings as JSON */
#define POLICIES_CATEGORIES 'f' /* body: canonical JSON */
#define POLICIES_SECTION    'x' /* no name; body: the section of a file as last applied */
#define POLICIES_VERSION                                                                           \
    'v' /* no name; its version: the last one assigned when a resource was                         \
         * removed */

#define POLICIES_MAX            1000
#define POLICIES_CATEGORIES_MAX 100

struct policies;
/* initial: the settings until others are put; without a default policy. */
struct policies *policies_new(const struct policy_settings *initial,
                              const struct policies_sink *sink);
void policies_free(struct policies *p);

/* Restores a stored resource. An error is only to be logged: what can no longer be read counts as
 * absent, and a document is shown as broken. */
NODISCARD struct err policies_restore(struct policies *p, char kind, struct str name,
                                      uint64_t version, struct str body);

/* Adds or replaces a policy; the value is a struct policy. What views show lives as long as the
 * arena, even if the policies change meanwhile. */
NODISCARD struct err policies_put(struct policies *p, const struct policies_put *put,
                                  struct arena *a, struct resource_view **view);
/* One, or with an empty name all, sorted by name. ERR_NOT_FOUND. */
NODISCARD struct err policies_read(const struct policies *p, struct str name, struct arena *a,
                                   struct resource_view **views, size_t *count);
/* ERR_NOT_FOUND; ERR_CONFLICT while a queue or the settings name it. With detach it is taken from
 * all queues before; settings go on naming it. */
NODISCARD struct err policies_remove(struct policies *p, struct str name, bool detach);

/* The same for failure categories; the value is a struct categorizer. */
NODISCARD struct err policies_categories_put(struct policies *p, const struct policies_put *put,
                                             struct arena *a, struct resource_view **view);
NODISCARD struct err policies_categories_read(const struct policies *p, struct str name,
                                              struct arena *a, struct resource_view **views,
                                              size_t *count);
NODISCARD struct err policies_categories_remove(struct policies *p, struct str name);
/* Those that can be applied, sorted by name. Valid until the next change. */
size_t policies_categorizers(const struct policies *p, struct arena *a,
                             const struct categorizer *const **list);

/* Says which policies a queue has; names is "a,b". ERR_UNPROCESSABLE if one does not exist. */
NODISCARD struct err policies_queue_put(struct policies *p, struct str queue, struct str names);
/* "a,b"; valid until the next change. */
struct str policies_queue_names(const struct policies *p, struct str queue);

/* What a queue in Armada's format says and nothing here uses: a JSON object, or empty.
 * ERR_TOO_MANY. */
NODISCARD struct err policies_kept_check(const struct policies *p, struct str queue,
                                         struct str object);
/* It was checked. */
void policies_kept_put(struct policies *p, struct str queue, struct str object);
/* Valid until the next change. */
struct str policies_kept(const struct policies *p, struct str queue);

/* Who a change of the settings by a file is from. */
#define POLICIES_AT_START  "start with "
#define POLICIES_AT_RELOAD "reload of "

struct policies_settings {
    const struct policy_change *change; /* NULL, with from_file: the file has no section */
    struct str by;                      /* who asks, or empty */
    bool ahead;     /* the default policy may be made later: until then there is none */
    bool from_file; /* it is the section of a file, read again */
    bool at_start;  /* with from_file: the server starts */
};
/* What happened to the section of a file. */
enum policies_fate {
    POLICIES_APPLIED,
    POLICIES_UNCHANGED, /* it is the same as when it was last applied: the settings stay */
    POLICIES_OVERRULED, /* it would change what was set by hand, perhaps since then: they stay */
};
/* Changes the settings that are stated. ERR_UNPROCESSABLE if the default policy that it names does
 * not exist. A file's section takes effect only if it has changed since it was last applied, also
 * across restarts: an emergency stop must not end with a reload or a crash. *fate, if wanted, says
 * so where the settings would have changed. */
NODISCARD struct err policies_settings_put(struct policies *p, const struct policies_settings *put,
                                           instant now, struct arena *a, enum policies_fate *fate);
/* In the arena, with everything that it points to. */
const struct policy_settings_view *policies_settings_read(const struct policies *p,
                                                          struct arena *a);

/* What stands of all of these and was most likely not meant. Valid until the next change. */
const struct standing *policies_standing(const struct policies *p);
/* The same of one retry policy, or of the failure categories of that name (standing_find_one). */
void policies_standing_of(const struct policies *p, bool categories, struct str name,
                          struct standing *s);

/* ERR_UNPROCESSABLE unless all of "a,b" exist. */
NODISCARD struct err policies_check_names(const struct policies *p, struct str names);
/* Sets the policies of the queue, followed by those of the job; the default policy if there are
 * none; none if policies are disabled. Also the names of missing ones, and the settings. Valid
 * until the next change. */
void policies_effective(const struct policies *p, struct str queue, struct str added,
                        struct arena *a, struct verdict_rules *rules);

struct policies_draft {
    const struct policy *const *list; /* with distinct names */
    size_t count;
    const struct policy_change *settings; /* or NULL */
};
/* The effect on a job's failures if the drafts replaced the policies with their names or, where
 * those are not in effect, were appended to the queue's; as if policies were enabled. own: what
 * applies to the job where no policy decides; its policies are ignored. */
NODISCARD struct err policies_simulate(const struct policies *p, const struct policies_draft *draft,
                                       const struct simulate_job *what,
                                       const struct verdict_rules *own, struct arena *a,
                                       struct simulate_result *out);

#endif
