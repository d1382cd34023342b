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

/* doc: NULL if it cannot be read. */
static void find_document(struct standing *s, const struct standing_source *from, bool categories,
                          struct str name, const void *doc)
{
    const char *kind = categories ? "failure categories" : "retry policy";
    struct arena scratch = {0};
    name = arena_copy(&s->memory, name);
    if (!doc)
        add(s, kind, name, STR("it cannot be read any more, and counts as absent"));
    else if (categories)
        add_texts(s, kind, name, ((const struct category_document *)doc)->warnings);
    else
        add_texts(s, kind, name, policy_warning_standing(doc, from->settings, &scratch));
    arena_fini(&scratch);
}

static void find_documents(struct standing *s, const struct standing_source *from, bool categories)
{
    const struct shelf *shelf = categories ? from->categories : from->policies;
    for (size_t i = 0; i < shelf_count(shelf); i++)
        find_document(s, from, categories, shelf_name_at(shelf, i), shelf_at(shelf, i));
}

void standing_find_one(struct standing *s, const struct standing_source *from, bool categories,
                       struct str name)
{
    const struct shelf *shelf = categories ? from->categories : from->policies;
    *s = (struct standing){0};
    if (shelf_has(shelf, name))
        find_document(s, from, categories, name, shelf_get(shelf, name));
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
    find_documents(s, from, false);
    find_documents(s, from, true);
}

void standing_fini(struct standing *s)
{
    arena_fini(&s->memory);
    *s = (struct standing){0};
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
    struct str of_queue = policies_queue_names(p, of->queue);
    struct verdict_rules rules = {0};
    struct texts t = {.arena = a};
    policies_effective(p, of->queue, of->added, a, &rules);
    add_own(&t, of, &rules, of_queue.len ? of_queue : of->added);
    for (size_t i = 0; i < rules.policy_count; i++) {
        struct standing one;
        policies_standing_of(p, false, rules.policies[i]->name, &one);
        for (size_t j = 0; j < one.count; j++)
            add_text(&t, &one.list[j]);
        standing_fini(&one);
    }
    *texts = t.at;
    return t.count;
}
