/* SPDX-License-Identifier: Apache-2.0 */
#include "core/failure_groups.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "core/fingerprint.h"

#define MINUTE_MS  60000
#define HOUR_MS    3600000
#define TREND_SPAN 30 /* minutes */
#define TEXTS      5

void failure_groups_init(struct failure_groups *g)
{
    *g = (struct failure_groups){0};
    list_init(&g->order);
    list_init(&g->changed);
}

static struct failure_group *first_of(struct list *order)
{
    return LIST_OF(order->next, struct failure_group, order);
}

void failure_groups_fini(struct failure_groups *g)
{
    while (!list_is_empty(&g->order)) {
        struct failure_group *group = first_of(&g->order);
        list_unlink(&group->order);
        list_unlink(&group->changed);
        free(group);
    }
    idmap_fini(&g->by_fingerprint);
    free(g->gone);
    failure_groups_init(g);
}

static struct id key_of(uint64_t fingerprint)
{
    return (struct id){fingerprint, 0};
}

/* --- groups --- */

static struct str cut(struct str text)
{
    if (text.len <= FAILURE_GROUP_TEXT)
        return text;
    text.len = FAILURE_GROUP_TEXT;
    while (text.len && ((unsigned char)text.at[text.len] & 0xc0) == 0x80)
        text.len--; /* not inside a character */
    return text;
}

/* Copies what is known of the group; its texts lie behind it, in the same piece of memory. */
static struct failure_group *group_new(const struct failure_group *like)
{
    const struct str from[TEXTS] = {like->queue, like->type, cut(like->error_type),
                                    cut(like->category), cut(like->message)};
    size_t bytes = 0;
    for (int i = 0; i < TEXTS; i++)
        bytes += from[i].len;
    struct failure_group *group = alloc_get(sizeof *group + bytes);
    *group = *like;
    struct str *const to[TEXTS] = {&group->queue, &group->type, &group->error_type,
                                   &group->category, &group->message};
    char *at = (char *)(group + 1);
    for (int i = 0; i < TEXTS; i++) {
        if (from[i].len)
            memcpy(at, from[i].at, from[i].len);
        *to[i] = (struct str){at, from[i].len};
        at += from[i].len;
    }
    list_init(&group->order);
    list_init(&group->changed);
    return group;
}

static void remove_group(struct failure_groups *g, struct failure_group *group)
{
    ALLOC_GROW(g->gone, g->gone_count, g->gone_cap, 16);
    g->gone[g->gone_count++] = group->fingerprint;
    must(idmap_remove(&g->by_fingerprint, key_of(group->fingerprint)) == group);
    list_unlink(&group->order);
    list_unlink(&group->changed);
    free(group);
}

static struct failure_group *add_group(struct failure_groups *g, const struct history_entry *failed,
                                       uint64_t fingerprint)
{
    char room[FINGERPRINT_MESSAGE_MAX];
    const struct failure *f = &failed->run.failure;
    instant at = failed->run.ended_at;
    const struct failure_group like = {
        .fingerprint = fingerprint,
        .queue = failed->job.queue,
        .type = failed->job.type,
        .error_type = f->error_type,
        .category = f->category,
        .message = fingerprint_message(f->message, room),
        .outcome = failed->run.outcome,
        .condition = f->condition,
        .exit_code = f->exit_code,
        .signal = f->signal,
        .first_seen = at,
        .last_seen = at,
        .minutes.newest = at.ms / MINUTE_MS,
        .hours.newest = at.ms / HOUR_MS,
    };
    struct failure_group *group = group_new(&like);
    idmap_put(&g->by_fingerprint, key_of(fingerprint), group);
    return group;
}

/* --- counting --- */

/* A period before the newest one, which only a clock that was set back leads to, is that. */
static void count_in(struct failure_counts *c, int64_t period, int periods)
{
    if (period > c->newest + periods)
        c->newest = period - periods; /* all of them have passed */
    while (c->newest < period)
        c->at[++c->newest % periods] = 0;
    uint32_t *count = &c->at[c->newest % periods];
    *count += *count < UINT32_MAX;
}

static uint32_t count_of(const struct failure_counts *c, int64_t period, int periods)
{
    bool kept = period >= 0 && period <= c->newest && period > c->newest - periods;
    return kept ? c->at[period % periods] : 0;
}

/* The newest first. A job that is there already moves to the front. */
static void add_sample(struct failure_group *group, const struct history_entry *failed)
{
    struct failure_sample *all = group->samples;
    size_t at = 0;
    while (at < group->sample_count && !id_eq(all[at].job, failed->job.id))
        at++;
    if (at == group->sample_count && at < FAILURE_GROUP_SAMPLES)
        group->sample_count++;
    if (at == FAILURE_GROUP_SAMPLES)
        at--;
    memmove(all + 1, all, at * sizeof *all);
    all[0] = (struct failure_sample){failed->job.id, failed->run.index, failed->run.ended_at};
}

void failure_groups_add(struct failure_groups *g, const struct history_entry *failed, size_t max)
{
    uint64_t f = fingerprint_of(&failed->job, failed->run.outcome, &failed->run.failure);
    struct failure_group *group = idmap_get(&g->by_fingerprint, key_of(f));
    instant at = failed->run.ended_at;
    must(max > 0);
    if (!group && failure_groups_count(g) >= max) {
        remove_group(g, first_of(&g->order));
        g->dropped++;
    }
    if (!group)
        group = add_group(g, failed, f);
    group->count++;
    if (failed->run.failure.culprit)
        group->culprits[failed->run.failure.culprit]++;
    group->last_seen = instant_max(group->last_seen, at);
    count_in(&group->minutes, at.ms / MINUTE_MS, FAILURE_GROUP_MINUTES);
    count_in(&group->hours, at.ms / HOUR_MS, FAILURE_GROUP_HOURS);
    add_sample(group, failed);
    list_unlink(&group->order);
    list_append(&g->order, &group->order);
    list_unlink(&group->changed);
    list_append(&g->changed, &group->changed);
}

bool failure_groups_trim(struct failure_groups *g, size_t max, instant since, size_t most)
{
    while (!list_is_empty(&g->order)) {
        struct failure_group *oldest = first_of(&g->order);
        if (failure_groups_count(g) <= max && oldest->last_seen.ms >= since.ms)
            return false;
        if (most-- == 0)
            return true;
        remove_group(g, oldest);
    }
    return false;
}

/* --- what is stored --- */

void failure_groups_restore(struct failure_groups *g, const struct failure_group *stored)
{
    struct failure_group *group = group_new(stored);
    must(!idmap_get(&g->by_fingerprint, key_of(group->fingerprint)));
    idmap_put(&g->by_fingerprint, key_of(group->fingerprint), group);
    list_append(&g->order, &group->order);
}

static int by_last_seen(const void *a, const void *b)
{
    const struct failure_group *x = *(struct failure_group *const *)a;
    const struct failure_group *y = *(struct failure_group *const *)b;
    if (x->last_seen.ms != y->last_seen.ms)
        return x->last_seen.ms < y->last_seen.ms ? -1 : 1;
    return x->fingerprint < y->fingerprint ? -1 : x->fingerprint > y->fingerprint;
}

void failure_groups_restored(struct failure_groups *g, instant now)
{
    size_t n = 0;
    struct failure_group **all = alloc_get(failure_groups_count(g) * sizeof *all);
    while (!list_is_empty(&g->order)) {
        all[n] = first_of(&g->order);
        all[n]->last_seen = instant_min(all[n]->last_seen, now);
        list_unlink(&all[n++]->order);
    }
    must(n == failure_groups_count(g));
    qsort(all, n, sizeof *all, by_last_seen);
    for (size_t i = 0; i < n; i++)
        list_append(&g->order, &all[i]->order);
    free(all);
}

const struct failure_group *failure_groups_find(const struct failure_groups *g, uint64_t f)
{
    return idmap_get(&g->by_fingerprint, key_of(f));
}

const struct failure_group *failure_groups_changed(struct failure_groups *g)
{
    if (list_is_empty(&g->changed))
        return NULL;
    struct failure_group *group = LIST_OF(g->changed.next, struct failure_group, changed);
    list_unlink(&group->changed);
    return group;
}

uint64_t failure_groups_gone(struct failure_groups *g)
{
    return g->gone_count ? g->gone[--g->gone_count] : 0;
}

/* --- reading counts --- */

uint32_t failure_group_minute(const struct failure_group *group, instant now, int ago)
{
    return count_of(&group->minutes, now.ms / MINUTE_MS - ago, FAILURE_GROUP_MINUTES);
}

uint32_t failure_group_hour(const struct failure_group *group, instant now, int ago)
{
    return count_of(&group->hours, now.ms / HOUR_MS - ago, FAILURE_GROUP_HOURS);
}

uint64_t failure_group_last_minutes(const struct failure_group *group, instant now, int n)
{
    uint64_t sum = 0;
    for (int ago = 0; ago < n; ago++)
        sum += failure_group_minute(group, now, ago);
    return sum;
}

uint64_t failure_group_last_hours(const struct failure_group *group, instant now, int n)
{
    uint64_t sum = 0;
    for (int ago = 0; ago < n; ago++)
        sum += failure_group_hour(group, now, ago);
    return sum;
}

size_t failure_group_blames(const struct failure_group *group,
                            struct failure_blame blames[CULPRIT_COUNT])
{
    size_t n = 0;
    for (int c = CULPRIT_NONE + 1; c < CULPRIT_COUNT; c++) {
        uint64_t count = group->culprits[c];
        size_t at = n;
        if (!count)
            continue;
        for (; at && blames[at - 1].count < count; at--)
            blames[at] = blames[at - 1];
        blames[at] = (struct failure_blame){(enum culprit)c, count};
        n++;
    }
    return n;
}

enum failure_trend failure_group_trend(const struct failure_group *group, instant now)
{
    uint64_t late = failure_group_last_minutes(group, now, TREND_SPAN);
    uint64_t early = failure_group_last_minutes(group, now, 2 * TREND_SPAN) - late;
    if (late && instant_diff(now, group->first_seen).ms < (int64_t)TREND_SPAN * MINUTE_MS)
        return FAILURE_NEW;
    if (late + early == 0)
        return FAILURE_QUIET;
    return late >= 2 * early   ? FAILURE_RISING
           : 2 * late <= early ? FAILURE_FALLING
                               : FAILURE_STEADY;
}

const char *failure_trend_name(enum failure_trend t)
{
    static const char *const names[] = {"new", "rising", "steady", "falling", "quiet"};
    must(t <= FAILURE_QUIET);
    return names[t];
}
