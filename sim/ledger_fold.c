/* SPDX-License-Identifier: Apache-2.0 */

/* Batched jobs. Every job that was requested with a batch key is an item: it becomes a job of its
 * own, or part of the payload of a job with the same key. Items are recognised by the number that
 * they add to the payload. FOLD: an acknowledged item is in exactly one payload, in order of
 * arrival; a job that was ever handed out does not change any more; nothing is half applied. */

#include "ledger.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "trace.h"

/* The number at *at, which ends at `end`. */
static uint64_t number(const struct mjob *m, const char **at, const char *end, char close)
{
    uint64_t n = 0;
    const char *from = *at;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        n = n * 10 + (uint64_t)(**at - '0');
    PROMISE(*at > from && *at < end && (**at == close || **at == ','), "FOLD",
            "job %lu has a malformed payload", m->serial);
    return n;
}

static void keep_item(struct mjob *m, uint64_t serial)
{
    ALLOC_GROW(m->items, m->item_count, m->item_cap, 4);
    m->items[m->item_count++] = serial;
}

/* The i-th item of the job's payload is the one with this serial number. */
static void see_item(struct ledger *l, struct mjob *m, size_t i, uint64_t serial)
{
    PROMISE(serial < l->count, "FOLD", "job %lu has an item that nobody added", m->serial);
    struct mjob *item = l->jobs[serial];
    if (i < m->item_count) {
        PROMISE(m->items[i] == serial, "FOLD", "job %lu: item %lu was replaced by %lu", m->serial,
                m->items[i], serial);
        return;
    }
    PROMISE(!m->final_seq, "FOLD", "job %lu got item %lu after it was handed out", m->serial,
            serial);
    PROMISE(!m->shut || i == 0, "FOLD", "job %lu got item %lu across its ready_at", m->serial,
            serial);
    PROMISE(item->batch == m->batch, "FOLD", "job %lu has item %lu of another batch", m->serial,
            serial);
    PROMISE(!item->refused, "FOLD", "job %lu has item %lu, which was refused", m->serial, serial);
    PROMISE(!item->in || item->in == m, "FOLD", "item %lu is in jobs %lu and %lu", serial,
            item->in->serial, m->serial);
    PROMISE((i == 0) == (item == m) && (i == 0 || id_is_none(item->id)), "FOLD",
            "job %lu is in another's payload", serial);
    PROMISE(!item->folded || id_eq(item->into, m->id), "FOLD", "item %lu is not where it was told",
            serial);
    PROMISE(i == 0 || m->items[i - 1] < serial || item->looked, "FOLD",
            "job %lu: items %lu and %lu changed places", m->serial, m->items[i - 1], serial);
    item->in = m;
    item->never |= item != m;
    item->item_seq = l->seq++;
    keep_item(m, serial);
}

size_t ledger_fold_see(struct ledger *l, struct mjob *m, struct str payload)
{
    const char *at = payload.at, *end = payload.at + payload.len;
    size_t count = 0;
    PROMISE(payload.len > 12 && memcmp(at, "{\"n\":", 5) == 0, "FOLD",
            "job %lu has a malformed payload", m->serial);
    at += 5;
    PROMISE(number(m, &at, end, ',') == m->serial, "FOLD", "job %lu has another's payload",
            m->serial);
    PROMISE(end - at > 6 && memcmp(at, ",\"b\":[", 6) == 0, "FOLD",
            "job %lu has a malformed payload", m->serial);
    at += 6;
    do {
        see_item(l, m, count++, number(m, &at, end, ']'));
    } while (*at++ == ',');
    PROMISE(end - at == 1 && *at == '}', "FOLD", "job %lu has a malformed payload", m->serial);
    return count;
}

void ledger_fold_whole(struct ledger *l, struct mjob *m, struct str payload)
{
    if (!m->batch)
        return;
    size_t count = ledger_fold_see(l, m, payload);
    PROMISE(count == m->item_count, "FOLD", "job %lu has %zu items of %zu", m->serial, count,
            m->item_count);
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *item = l->jobs[i];
        if (item->folded && id_eq(item->into, m->id))
            PROMISE(item->in == m, "FOLD", "item %lu is lost from job %lu", item->serial,
                    m->serial);
    }
}

void ledger_folded(struct ledger *l, struct mjob *item, const struct job *job, uint64_t seq)
{
    PROMISE(item->batch, "FOLD", "job %lu has no batch and was folded", item->serial);
    PROMISE(job->batch.key.len == 2 && job->batch.key.at[1] == (char)('0' + item->batch), "FOLD",
            "item %lu was folded into another batch", item->serial);
    PROMISE(job->state.status == STATUS_READY && job->state.runs == 0, "FOLD",
            "item %lu was folded into a job that is %s", item->serial,
            lifecycle_status_name(job->state.status));
    PROMISE(!item->in || id_eq(item->in->id, job->id), "FOLD", "item %lu is in another job",
            item->serial);
    item->folded = item->never = true;
    item->into = job->id;
    item->item_seq = l->seq++;
    const struct mjob *m = ledger_find(l, job->id);
    if (!m)
        return;
    PROMISE(!m->shut, "FOLD", "item %lu was folded across a ready_at", item->serial);
    PROMISE(!m->gone_seq || m->gone_seq >= seq, "FOLD", "item %lu was folded into job %lu, gone",
            item->serial, m->serial);
    PROMISE(!m->ended_seq || m->ended_seq >= seq, "FOLD", "item %lu was folded into job %lu, over",
            item->serial, m->serial);
    PROMISE(!m->final_seq || item->in == m, "FOLD",
            "item %lu was folded into job %lu, which had been handed out", item->serial, m->serial);
}

void ledger_refused(struct mjob *item)
{
    PROMISE(id_is_none(item->id) && !item->in, "FOLD", "job %lu was refused and is there",
            item->serial);
    item->refused = item->never = true;
}

/* Whether items of that batch may have been in jobs that nobody knows. */
static bool has_lost_jobs(const struct ledger *l, unsigned batch)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (m->batch == batch && !m->seen && !m->in && !m->refused)
            return true;
        if (m->batch == batch && m->in == m && !m->seen)
            return true;
    }
    return false;
}

/* NO: certainly nowhere. */
static enum certainty is_stored(const struct ledger *l, const struct mjob *m)
{
    if (m->exists == YES || m->in || m->folded)
        return YES;
    if (m->key || m->alias || (m->batch && has_lost_jobs(l, m->batch)))
        return MAYBE;
    return m->never ? NO : MAYBE;
}

void ledger_fold_check_groups(const struct ledger *l)
{
    for (size_t i = 0, k; i < l->count; i = k) {
        const struct mjob *there = NULL, *missing = NULL;
        bool batched = false;
        for (k = i; k < l->count && l->jobs[k]->group == l->jobs[i]->group; k++) {
            const struct mjob *m = l->jobs[k];
            batched |= m->batch != 0;
            enum certainty stored = is_stored(l, m);
            there = stored == YES ? m : there;
            missing = stored == NO ? m : missing;
        }
        PROMISE(!batched || !there || !missing, "ATOMIC", "of jobs %lu and %lu only one was stored",
                there->serial, missing->serial);
    }
}

void ledger_folds_lost(struct ledger *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (m->final_seq > l->safe_seq)
            m->final_seq = 0;
        size_t keep = 0;
        while (keep < m->item_count && l->jobs[m->items[keep]]->item_seq <= l->safe_seq)
            keep++;
        for (size_t k = keep; k < m->item_count; k++)
            l->jobs[m->items[k]]->in = NULL;
        m->item_count = keep;
    }
    for (size_t i = 0; i < l->count; i++) {
        struct mjob *m = l->jobs[i];
        if (m->batch && m->item_seq > l->safe_seq && !m->in && !m->refused) {
            m->folded = m->never = false;
            m->item_seq = 0;
        }
    }
}
