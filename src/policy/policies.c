/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/policies.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/must.h"
#include "base/strmap.h"
#include "policy/category_document.h"
#include "policy/policies_kinds.h"
#include "policy/policy_document.h"
#include "policy/policy_warning.h"
#include "policy/queue_kept.h"
#include "policy/settings_document.h"

struct attached {
    struct str names;
    char bytes[];
};

struct policies {
    struct policies_sink sink;
    struct shelf *policies;   /* of struct policy_document */
    struct shelf *categories; /* of struct category_document */
    struct strmap queues;     /* of struct attached */
    struct strmap uses;       /* policy → the number of queues whose lists contain it */
    struct queue_kept kept;
    struct policy_settings settings;
    char default_name[64];
    bool changed;               /* the settings were ever changed; then: */
    struct policy_changed last; /* its texts are in this arena */
    struct arena last_memory;
    char *section; /* of a file, as it was last applied, or NULL */
    size_t section_len;
    uint64_t version;          /* the last one assigned */
    struct standing *standing; /* found when somebody asks */
};

struct policies *policies_new(const struct policy_settings *initial,
                              const struct policies_sink *sink)
{
    must(initial->default_policy.len == 0);
    struct policies *p = ALLOC(struct policies);
    p->sink = *sink;
    p->policies = shelf_new(&policies_kind, sink, &p->version);
    p->categories = shelf_new(&policies_categories_kind, sink, &p->version);
    p->settings = *initial;
    p->standing = ALLOC(struct standing);
    return p;
}

void policies_free(struct policies *p)
{
    if (!p)
        return;
    shelf_free(p->policies);
    shelf_free(p->categories);
    for (size_t i = 0; i < p->queues.cap; i++)
        if (p->queues.slots[i].key)
            free(p->queues.slots[i].val);
    strmap_fini(&p->queues);
    strmap_fini(&p->uses);
    queue_kept_fini(&p->kept);
    arena_fini(&p->last_memory);
    standing_fini(p->standing);
    free(p->standing);
    free(p->section);
    free(p);
}

static struct str own(struct buf *b, struct arena *a)
{
    struct str s = arena_copy(a, buf_view(b));
    buf_fini(b);
    return s;
}

/* Removes the first name from "a,b". */
static bool next_name(struct str *names, struct str *name)
{
    if (names->len == 0)
        return false;
    const char *comma = memchr(names->at, ',', names->len);
    size_t n = comma ? (size_t)(comma - names->at) : names->len;
    size_t used = comma ? n + 1 : n;
    *name = (struct str){names->at, n};
    *names = (struct str){names->at + used, names->len - used};
    return true;
}

static bool has_name(struct str names, struct str name)
{
    for (struct str each; next_name(&names, &each);)
        if (str_eq(each, name))
            return true;
    return false;
}

/* --- the policies --- */

struct err policies_put(struct policies *p, const struct policies_put *put, struct arena *a,
                        struct resource_view **view)
{
    return shelf_put(p->policies, put, a, view);
}

struct err policies_read(const struct policies *p, struct str name, struct arena *a,
                         struct resource_view **views, size_t *count)
{
    return shelf_read(p->policies, name, a, views, count);
}

/* The version of a removed resource must not be assigned again after a restart: a client that has
 * seen it would overwrite another resource with the same name. */
static struct err remove_from(struct policies *p, struct shelf *s, struct str name)
{
    TRY(shelf_remove(s, name));
    p->sink.put(p->sink.ctx, POLICIES_VERSION, (struct str){0}, p->version, STR("-"));
    return err_none();
}

struct err policies_check_names(const struct policies *p, struct str names)
{
    for (struct str name; next_name(&names, &name);)
        if (!shelf_has(p->policies, name))
            return err_make(ERR_UNPROCESSABLE, "retry_policies: there is no retry policy '%.*s'",
                            NAME_ARG(name));
    return err_none();
}

/* --- failure categories --- */

struct err policies_categories_put(struct policies *p, const struct policies_put *put,
                                   struct arena *a, struct resource_view **view)
{
    return shelf_put(p->categories, put, a, view);
}

struct err policies_categories_read(const struct policies *p, struct str name, struct arena *a,
                                    struct resource_view **views, size_t *count)
{
    return shelf_read(p->categories, name, a, views, count);
}

struct err policies_categories_remove(struct policies *p, struct str name)
{
    return remove_from(p, p->categories, name);
}

size_t policies_categorizers(const struct policies *p, struct arena *a,
                             const struct categorizer *const **list)
{
    size_t n = 0, count = shelf_count(p->categories);
    const struct categorizer **out = arena_get(a, (count + 1) * sizeof(struct categorizer *));
    for (size_t i = 0; i < count; i++) {
        const struct category_document *d = shelf_at(p->categories, i);
        if (d)
            out[n++] = &d->categorizer;
    }
    *list = out;
    return n;
}

/* --- queues --- */

static void count_uses(struct policies *p, struct str names, int by)
{
    for (struct str name; next_name(&names, &name);) {
        uintptr_t n = (uintptr_t)strmap_get(&p->uses, name) + (uintptr_t)by;
        if (n)
            strmap_put(&p->uses, name, (void *)n);
        else
            strmap_remove(&p->uses, name);
    }
}

static void attach(struct policies *p, struct str queue, struct str names)
{
    struct attached *old = strmap_remove(&p->queues, queue);
    if (old)
        count_uses(p, old->names, -1);
    free(old);
    count_uses(p, names, 1);
    if (names.len == 0)
        return;
    struct attached *q = alloc_get(sizeof *q + names.len);
    memcpy(q->bytes, names.at, names.len);
    q->names = (struct str){q->bytes, names.len};
    strmap_put(&p->queues, queue, q);
}

struct str policies_queue_names(const struct policies *p, struct str queue)
{
    const struct attached *q = strmap_get(&p->queues, queue);
    return q ? q->names : (struct str){0};
}

static void put_names(struct policies *p, struct str queue, struct str names)
{
    if (str_eq(names, policies_queue_names(p, queue)))
        return;
    attach(p, queue, names);
    p->sink.put(p->sink.ctx, POLICIES_QUEUE, queue, ++p->version,
                names.len ? names : (struct str){0});
}

struct err policies_queue_put(struct policies *p, struct str queue, struct str names)
{
    TRY(policies_check_names(p, names));
    put_names(p, queue, names);
    return err_none();
}

struct err policies_kept_check(const struct policies *p, struct str queue, struct str object)
{
    return queue_kept_check(&p->kept, queue, object);
}

void policies_kept_put(struct policies *p, struct str queue, struct str object)
{
    if (str_eq(object, queue_kept_of(&p->kept, queue)))
        return;
    queue_kept_put(&p->kept, queue, object);
    p->sink.put(p->sink.ctx, POLICIES_KEPT, queue, ++p->version,
                object.len ? object : (struct str){0});
}

struct str policies_kept(const struct policies *p, struct str queue)
{
    return queue_kept_of(&p->kept, queue);
}

/* --- removing policies --- */

/* Names the first queue by name, so that the answer is deterministic. */
static struct err check_unused(const struct policies *p, struct str name)
{
    struct str first = {0};
    if (!strmap_get(&p->uses, name))
        return err_none();
    for (size_t i = 0; i < p->queues.cap; i++) {
        const struct strmap_slot *slot = &p->queues.slots[i];
        if (!slot->key || !has_name(((const struct attached *)slot->val)->names, name))
            continue;
        struct str queue = {slot->key, slot->len};
        if (!first.at || str_cmp(queue, first) < 0)
            first = queue;
    }
    must(first.at);
    return err_make(ERR_CONFLICT, "the queue '%.*s' has this retry policy", NAME_ARG(first));
}

static int by_name(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

static struct str without(struct str names, struct str name, struct arena *a)
{
    struct buf b = {0};
    for (struct str each; next_name(&names, &each);)
        if (!str_eq(each, name))
            buf_print(&b, "%s%.*s", b.len ? "," : "", STR_ARG(each));
    return own(&b, a);
}

/* From all queues, in the order of their names, so that versions are assigned deterministically. */
static void detach_all(struct policies *p, struct str name)
{
    struct arena a = {0};
    struct str *queues = arena_get(&a, (p->queues.count + 1) * sizeof *queues);
    size_t n = 0;
    for (size_t i = 0; i < p->queues.cap; i++) {
        const struct strmap_slot *slot = &p->queues.slots[i];
        if (slot->key && has_name(((const struct attached *)slot->val)->names, name))
            queues[n++] = arena_copy(&a, (struct str){slot->key, slot->len});
    }
    qsort(queues, n, sizeof *queues, by_name);
    for (size_t i = 0; i < n; i++)
        put_names(p, queues[i], without(policies_queue_names(p, queues[i]), name, &a));
    arena_fini(&a);
}

struct err policies_remove(struct policies *p, struct str name, bool detach)
{
    if (detach && shelf_has(p->policies, name))
        detach_all(p, name);
    TRY(check_unused(p, name));
    if (!detach && name.len && str_eq(p->settings.default_policy, name))
        return err_make(ERR_CONFLICT, "this retry policy is the default of the settings");
    return remove_from(p, p->policies, name);
}

/* --- settings --- */

static void set_settings(struct policies *p, const struct policy_settings *s)
{
    must(s->default_policy.len < sizeof p->default_name);
    size_t n = s->default_policy.len;
    if (n)
        memmove(p->default_name, s->default_policy.at, n);
    p->settings = *s;
    p->settings.default_policy = (struct str){p->default_name, n};
}

static struct policy_change own_change(struct policy_change c, struct arena *a)
{
    c.to.default_policy = arena_copy(a, c.to.default_policy);
    return c;
}

static struct policy_changed own_changed(const struct policy_changed *c, struct arena *a)
{
    return (struct policy_changed){.at = c->at,
                                   .by = arena_copy(a, c->by),
                                   .from = own_change(c->from, a),
                                   .to = own_change(c->to, a)};
}

static void set_last(struct policies *p, const struct policy_changed *last)
{
    arena_reset(&p->last_memory);
    p->last = own_changed(last, &p->last_memory);
    p->changed = true;
}

static void note_change(struct policies *p, const struct policy_settings *old, struct str by,
                        instant now, struct arena *a)
{
    const struct policy_changed last = {
        .at = now, .by = by, .from = {POLICY_SET_ALL, *old}, .to = {POLICY_SET_ALL, p->settings}};
    p->sink.put(p->sink.ctx, POLICIES_CHANGE, (struct str){0}, p->version,
                settings_document_changed_text(&last, a));
    set_last(p, &last);
}

static bool has_default(const struct policies *p)
{
    struct str name = p->settings.default_policy;
    return !name.len || shelf_has(p->policies, name);
}

static void find_above(const struct policies *p, struct policy_settings_view *v, struct arena *a)
{
    for (size_t i = 0; v->settings.global_max_retries && i < shelf_count(p->policies); i++) {
        const struct policy_document *d = shelf_at(p->policies, i);
        if (d && policy_warning_is_above(&d->policy, &v->settings) && v->above_count++ == 0)
            v->above = arena_copy(a, d->policy.name);
    }
}

const struct policy_settings_view *policies_settings_read(const struct policies *p, struct arena *a)
{
    struct policy_settings_view *v = ARENA_NEW(a, struct policy_settings_view);
    v->settings = p->settings;
    v->settings.default_policy = arena_copy(a, p->settings.default_policy);
    v->default_missing = !has_default(p);
    find_above(p, v, a);
    if (p->changed) {
        struct policy_changed *last = ARENA_NEW(a, struct policy_changed);
        *last = own_changed(&p->last, a);
        v->last = last;
    }
    return v;
}

static struct standing_source source_of_warnings(const struct policies *p)
{
    return (struct standing_source){p->policies, p->categories, &p->settings, !has_default(p),
                                    p->version};
}

const struct standing *policies_standing(const struct policies *p)
{
    const struct standing_source from = source_of_warnings(p);
    standing_find(p->standing, &from);
    return p->standing;
}

void policies_standing_of(const struct policies *p, bool categories, struct str name,
                          struct standing *s)
{
    const struct standing_source from = source_of_warnings(p);
    standing_find_one(s, &from, categories, name);
}

static bool begins_with(struct str s, struct str prefix)
{
    return s.len >= prefix.len && memcmp(s.at, prefix.at, prefix.len) == 0;
}

/* The last change did not come from a file. */
static bool was_changed_by_hand(const struct policies *p)
{
    struct str by = p->last.by;
    return p->changed && !begins_with(by, STR(POLICIES_AT_START)) &&
           !begins_with(by, STR(POLICIES_AT_RELOAD));
}

static void set_section(struct policies *p, struct str section)
{
    free(p->section);
    p->section = section.len ? alloc_text(section.at, section.len) : NULL;
    p->section_len = section.len;
}

/* The section of a file as last applied; empty: none. */
static void keep_section(struct policies *p, struct str section)
{
    struct str before = {p->section, p->section_len};
    if (str_eq(section, before))
        return;
    set_section(p, section);
    if (!section.len)
        section.at = NULL;
    p->sink.put(p->sink.ctx, POLICIES_SECTION, (struct str){0}, p->version, section);
}

static bool says_the_same(const struct policies *p, struct str section)
{
    return str_eq(section, (struct str){p->section, p->section_len});
}

/* A section of Armada's form once was applied without the whenNoPolicy that it implies. It does not
 * become a new one by that: it would undo what somebody has changed since, as an emergency stop. */
static bool implies_the_same(const struct policies *p, const struct policy_change *change,
                             struct arena *a)
{
    struct policy_change without = *change;
    without.set &= ~(unsigned)POLICY_SET_NO_POLICY;
    return change->set & POLICY_SET_NO_POLICY &&
           change->to.when_no_policy == p->settings.when_no_policy &&
           says_the_same(p, settings_document_canonical(&without, a));
}

/* The fate of a change from `old` to `new`. */
static enum policies_fate fate_of(const struct policies *p, const struct policies_settings *put,
                                  struct str section, bool changes, struct arena *a)
{
    if (!put->from_file)
        return POLICIES_APPLIED;
    if (says_the_same(p, section) || (put->change && implies_the_same(p, put->change, a)))
        return POLICIES_UNCHANGED;
    /* It is unknown whether the section is new. */
    bool first = put->at_start && !p->section;
    return first && changes && was_changed_by_hand(p) ? POLICIES_OVERRULED : POLICIES_APPLIED;
}

static struct err check_default(const struct policies *p, const struct policies_settings *put,
                                struct str name)
{
    /* One that was missing before must not prevent an emergency stop. */
    bool same = str_eq(name, p->settings.default_policy);
    if (put->ahead || same || !name.len || shelf_has(p->policies, name))
        return err_none();
    return err_make(ERR_UNPROCESSABLE, "defaultPolicyName: there is no retry policy '%.*s'",
                    NAME_ARG(name));
}

/* Applies a change, and records it. */
static void apply(struct policies *p, const struct policies_settings *put,
                  const struct policy_settings *s, struct str section, instant now, struct arena *a)
{
    struct policy_settings old = p->settings;
    struct str new = settings_document_text(s, a);
    bool changes = !str_eq(settings_document_text(&old, a), new);
    old.default_policy = arena_copy(a, old.default_policy);
    if (changes || !put->from_file) {
        p->version++;
        set_settings(p, s);
        p->sink.put(p->sink.ctx, POLICIES_SETTINGS, (struct str){0}, p->version, new);
    }
    /* A request that only confirms the settings must not replace the record of who made them. */
    if (changes || (!p->changed && !put->from_file))
        note_change(p, &old, put->by, now, a);
    if (put->from_file)
        keep_section(p, section);
}

struct err policies_settings_put(struct policies *p, const struct policies_settings *put,
                                 instant now, struct arena *a, enum policies_fate *fate)
{
    struct policy_settings s = p->settings;
    struct str section = {0};
    must(put->change || put->from_file);
    if (put->change)
        policy_settings_change(&s, put->change);
    if (put->change && put->from_file)
        section = settings_document_canonical(put->change, a);
    bool changes = !str_eq(settings_document_text(&p->settings, a), settings_document_text(&s, a));
    enum policies_fate f = fate_of(p, put, section, changes, a);
    if (fate)
        *fate = changes ? f : POLICIES_APPLIED;
    if (f != POLICIES_APPLIED)
        return err_none();
    TRY(check_default(p, put, s.default_policy));
    apply(p, put, &s, section, now, a);
    return err_none();
}

/* --- recovery --- */

static struct err restore_settings(struct policies *p, struct str body)
{
    struct arena memory = {0};
    struct policy_settings s = p->settings;
    struct policy_change change;
    struct document_fault fault = {0};
    struct err err = err_none();
    if (settings_document_parse_stored(body, &memory, &change, &fault)) {
        policy_settings_change(&s, &change);
        set_settings(p, &s);
    } else {
        err = document_fault_err(&fault);
    }
    arena_fini(&memory);
    return err;
}

static struct err restore_change(struct policies *p, struct str body)
{
    struct arena memory = {0};
    struct document_fault fault = {0};
    struct policy_changed last;
    bool good = settings_document_changed_parse(body, &memory, &last, &fault);
    if (good)
        set_last(p, &last);
    arena_fini(&memory);
    return good ? err_none() : document_fault_err(&fault);
}

struct err policies_restore(struct policies *p, char kind, struct str name, uint64_t version,
                            struct str body)
{
    if (version > p->version)
        p->version = version;
    switch (kind) {
    case POLICIES_POLICY:
        return shelf_restore(p->policies, name, version, body);
    case POLICIES_CATEGORIES:
        return shelf_restore(p->categories, name, version, body);
    case POLICIES_QUEUE:
        attach(p, name, body);
        return err_none();
    case POLICIES_KEPT:
        queue_kept_put(&p->kept, name, body);
        return err_none();
    case POLICIES_SETTINGS:
        return restore_settings(p, body);
    case POLICIES_SECTION:
        set_section(p, body);
        return err_none();
    case POLICIES_VERSION:
        return err_none();
    case POLICIES_CHANGE:
        return restore_change(p, body);
    default:
        return err_make(ERR_CORRUPT, "there are no resources of this kind");
    }
}

/* --- evaluation --- */

/* A policy that the queue and the job name is asked once, in its first place. */
static void add_once(const struct policy **list, size_t *n, const struct policy *policy)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i] == policy)
            return;
    list[(*n)++] = policy;
}

/* Adds the names of missing ones to `missing`, unless it is NULL. */
static void add_named(const struct policies *p, struct str names, const struct policy **list,
                      size_t *n, struct buf *missing)
{
    for (struct str name; next_name(&names, &name);) {
        const struct policy_document *d = shelf_get(p->policies, name);
        if (d)
            add_once(list, n, &d->policy);
        else if (missing && !has_name(buf_view(missing), name))
            buf_print(missing, "%s%.*s", missing->len ? "," : "", STR_ARG(name));
    }
}

static size_t count_names(struct str names)
{
    size_t n = 0;
    for (struct str name; next_name(&names, &name);)
        n++;
    return n;
}

void policies_effective(const struct policies *p, struct str queue, struct str added,
                        struct arena *a, struct verdict_rules *rules)
{
    size_t n = 0;
    rules->settings = &p->settings;
    rules->policy_count = 0;
    struct buf missing = {0};
    struct str names = policies_queue_names(p, queue);
    const struct policy **out =
        arena_get(a, (count_names(names) + count_names(added) + 1) * sizeof(struct policy *));
    add_named(p, names, out, &n, &missing);
    add_named(p, added, out, &n, &missing);
    if (n == 0)
        add_named(p, p->settings.default_policy, out, &n, &missing);
    rules->policies = out;
    rules->policy_count = n;
    rules->missing = own(&missing, a);
}

/* --- simulation --- */

static const struct policy *draft_of(const struct policies_draft *d, struct str name)
{
    for (size_t i = 0; i < d->count; i++)
        if (str_eq(d->list[i]->name, name))
            return d->list[i];
    return NULL;
}

static void add_drafted(const struct policies *p, const struct policies_draft *d, struct str names,
                        const struct policy **list, size_t *n)
{
    for (struct str name; next_name(&names, &name);) {
        const struct policy *draft = draft_of(d, name);
        if (draft)
            add_once(list, n, draft);
        else
            add_named(p, name, list, n, NULL);
    }
}

/* Given failures get the categories that they would get if they were reported now; stored ones keep
 * theirs. */
static const struct run *categorized(const struct policies *p, const struct simulate_job *what,
                                     struct arena *a)
{
    const struct categorizer *const *list;
    if (what->stored)
        return what->failed;
    size_t n = policies_categorizers(p, a, &list);
    struct run *runs = arena_get(a, what->failures * sizeof *runs);
    memcpy(runs, what->failed, what->failures * sizeof *runs);
    for (size_t i = 0; i < what->failures; i++)
        (void)categorize_name(list, n, &runs[i].failure, runs[i].outcome);
    return runs;
}

struct err policies_simulate(const struct policies *p, const struct policies_draft *draft,
                             const struct simulate_job *what, const struct verdict_rules *own,
                             struct arena *a, struct simulate_result *out)
{
    struct str queue = policies_queue_names(p, what->job->queue),
               added = what->job->options.retry_policies;
    struct policy_settings settings = p->settings;
    if (draft->settings)
        policy_settings_change(&settings, draft->settings);
    const struct policy **list = arena_get(
        a, (count_names(queue) + count_names(added) + draft->count + 1) * sizeof(struct policy *));
    settings.enabled = true;
    struct verdict_rules drafted = *own, today = *own;
    drafted.policies = list;
    drafted.settings = &settings;
    add_drafted(p, draft, queue, list, &drafted.policy_count);
    for (size_t i = 0; i < draft->count; i++)
        if (!has_name(queue, draft->list[i]->name) && !has_name(added, draft->list[i]->name))
            list[drafted.policy_count++] = draft->list[i];
    add_drafted(p, draft, added, list, &drafted.policy_count);
    if (drafted.policy_count == 0)
        add_drafted(p, draft, settings.default_policy, list, &drafted.policy_count);
    policies_effective(p, what->job->queue, added, a, &today);
    struct simulate_job judged = *what;
    judged.failed = categorized(p, what, a);
    simulate_run(&judged, &drafted, &today, a, out);
    return err_none();
}
