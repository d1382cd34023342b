/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/standing.h"

#include <stdio.h>

#include "base/array.h"
#include "policy/category_document.h"
#include "policy/policies.h"
#include "policy/policy_document.h"
#include "policy/policy_warning.h"

/* Nobody reads more of one document, or of what judges one job. */
#define DOCUMENT_MAX 20

static void add(struct standing *s, const char *kind, struct str name, struct str text)
{
    ARENA_GROW(&s->memory, s->list, s->count, s->cap, 16);
    s->list[s->count++] = (struct standing_warning){kind, name, text};
}

static void add_setting(struct standing *s, const char *text)
{
    add(s, NULL, (struct str){0}, arena_copy(&s->memory, str_from(text)));
}

static void find_settings(struct standing *s, const struct standing_source *from)
{
    size_t policies = shelf_count(from->policies);
    char words[160];
    if (!from->settings->enabled && policies) {
        snprintf(words, sizeof words,
                 "retry policies are not enabled: %zu %s stored, without effect; "
                 "`tenax retry-settings --enabled true` switches them on",
                 policies, policies == 1 ? "is" : "are");
        add_setting(s, words);
    }
    if (from->settings->enabled && from->settings->global_max_retries == 0)
        add_setting(s, "globalMaxRetries is 0, which stops all retries");
    if (from->default_missing)
        add_setting(s, "defaultPolicyName: there is no such retry policy; jobs without policies "
                       "have none until it is made");
}

static void add_texts(struct standing *s, const char *kind, struct str name,
                      const struct document_node *texts)
{
    size_t n = 0;
    for (const struct document_node *t = texts->first; t && n < DOCUMENT_MAX; t = t->next, n++)
        add(s, kind, name,
            n + 1 < DOCUMENT_MAX ? arena_copy(&s->memory, t->text)
                                 : STR("there is more of this kind"));
}

static void find_documents(struct standing *s, const struct standing_source *from,
                           const struct shelf *shelf, const char *kind)
{
    for (size_t i = 0; i < shelf_count(shelf); i++) {
        const void *doc = shelf_at(shelf, i);
        struct str name = arena_copy(&s->memory, shelf_name_at(shelf, i));
        struct arena scratch = {0};
        if (!doc)
            add(s, kind, name, STR("it cannot be read any more, and counts as absent"));
        else if (shelf == from->policies)
            add_texts(s, kind, name, policy_warning_standing(doc, from->settings, &scratch));
        else
            add_texts(s, kind, name, ((const struct category_document *)doc)->warnings);
        arena_fini(&scratch);
    }
}

void standing_find(struct standing *s, const struct standing_source *from)
{
    size_t documents = shelf_count(from->policies) + shelf_count(from->categories);
    if (s->found && s->version == from->version && s->documents == documents)
        return;
    arena_reset(&s->memory);
    *s = (struct standing){
        .memory = s->memory, .found = true, .version = from->version, .documents = documents};
    find_settings(s, from);
    s->policies = s->count;
    find_documents(s, from, from->policies, "retry policy");
    s->categories = s->count;
    find_documents(s, from, from->categories, "failure categories");
}

void standing_fini(struct standing *s)
{
    arena_fini(&s->memory);
    *s = (struct standing){0};
}

/* The warnings about that document between two places of the list. */
static struct standing_warnings find_named(const struct standing *s, size_t begin, size_t end,
                                           struct str name)
{
    size_t low = begin, high = end, n = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(s->list[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low + n < end && str_eq(s->list[low + n].name, name))
        n++;
    return (struct standing_warnings){n ? &s->list[low] : NULL, n, n};
}

struct standing_warnings standing_of_policy(const struct standing *s, struct str name)
{
    return find_named(s, s->policies, s->categories, name);
}

struct standing_warnings standing_of_categories(const struct standing *s, struct str name)
{
    return find_named(s, s->categories, s->count, name);
}

void standing_write(struct buf *b, const struct standing_warning *w, bool named)
{
    if (w->kind && named)
        buf_print(b, "%s '%.*s': ", w->kind, STR_ARG(w->name));
    else if (w->kind)
        buf_print(b, "a %s: ", w->kind);
    buf_str(b, w->text);
}

/* --- what judges a job --- */

struct texts {
    struct arena *arena;
    struct str *at;
    size_t count, cap;
};

static void add_text(struct texts *t, const struct standing_warning *w)
{
    struct buf words = {0};
    if (t->count == DOCUMENT_MAX)
        return;
    standing_write(&words, w, true);
    ARENA_GROW(t->arena, t->at, t->count, t->cap, 4);
    t->at[t->count++] = arena_copy(t->arena, buf_view(&words));
    buf_fini(&words);
}

static void add_own(struct texts *t, const struct standing_judged *of,
                    const struct verdict_rules *rules, struct str named)
{
    bool fails = (of->own == RETRY_FALLBACK_UNSET ? rules->settings->when_no_policy : of->own) !=
                 RETRY_FALLBACK_DEFAULT;
    struct standing_warning w = {0};
    if (rules->settings->enabled && rules->policy_count == 0 && fails)
        w.text = of->own == RETRY_FALLBACK_UNSET
                     ? STR("no retry policy applies, and whenNoPolicy is fail: a job is dead at "
                           "its first failure")
                     : STR("no retry policy applies, and when_no_policy is fail: a job is dead at "
                           "its first failure");
    else if (!rules->settings->enabled && named.len)
        w.text = STR("retry policies are not enabled: those that are named have no effect");
    else if (rules->settings->enabled && rules->settings->global_max_retries == 0)
        w.text = STR("globalMaxRetries is 0, which stops all retries");
    if (w.text.len)
        add_text(t, &w);
}

size_t standing_judging(const struct policies *p, const struct standing_judged *of, struct arena *a,
                        struct str **texts)
{
    const struct standing *s = policies_standing(p);
    struct str of_queue = policies_queue_names(p, of->queue);
    struct verdict_rules rules = {0};
    struct texts t = {.arena = a};
    policies_effective(p, of->queue, of->added, a, &rules);
    add_own(&t, of, &rules, of_queue.len ? of_queue : of->added);
    for (size_t i = 0; i < rules.policy_count; i++) {
        struct standing_warnings w = standing_of_policy(s, rules.policies[i]->name);
        for (size_t j = 0; j < w.count; j++)
            add_text(&t, &w.list[j]);
    }
    *texts = t.at;
    return t.count;
}
