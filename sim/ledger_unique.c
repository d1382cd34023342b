/* SPDX-License-Identifier: Apache-2.0 */

/* Unique keys, judged by which jobs must hold one, may hold one, and cannot. */

#include "ledger.h"
#include "trace.h"

/* Whether a job in that status reserves its key. */
static bool is_in_scope(enum unique scope, enum status s)
{
    switch (s) {
    case STATUS_BLOCKED:
    case STATUS_SCHEDULED:
    case STATUS_READY:
        return scope != UNIQUE_NONE;
    case STATUS_IN_FLIGHT:
        return scope == UNIQUE_ACTIVE || scope == UNIQUE_EXISTS;
    case STATUS_COMPLETED:
    case STATUS_DEAD:
        return scope == UNIQUE_EXISTS;
    case STATUS_COUNT:
        break;
    }
    return false;
}

/* Whether it certainly holds its key. */
static bool surely_holds(const struct ledger *l, const struct mjob *m, instant now)
{
    if (ledger_there(l, m, now) != YES)
        return false;
    if (m->unique_while == UNIQUE_EXISTS)
        return true;
    if (m->ended_seq || ledger_may_end(l, m, STATUS_COMPLETED, now) ||
        ledger_may_end(l, m, STATUS_DEAD, now))
        return false;
    /* A ready job may have been taken without anybody knowing yet. */
    return m->unique_while == UNIQUE_ACTIVE ||
           (m->run_count == 0 && !(m->patched & PATCH_READY_AT) && m->ghosts == 0 &&
            m->ready_at.ms > now.ms);
}

const struct mjob *ledger_key_holder(const struct ledger *l, unsigned key, instant now)
{
    for (size_t i = 0; key && i < l->count; i++)
        if (l->jobs[i]->key == key && surely_holds(l, l->jobs[i], now))
            return l->jobs[i];
    return NULL;
}

/* A job whose answer was lost, or that nobody requested, so that its id was never told. */
static bool may_be_unknown(const struct ledger *l, unsigned key)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (m->key == key && m->exists == MAYBE && !m->never && id_is_none(m->id))
            return true;
    }
    return key == l->cron_key;
}

bool ledger_has_holder(const struct ledger *l, unsigned key)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        if (m->key == key && m->seen && is_in_scope(m->unique_while, m->status))
            return true;
    }
    return false;
}

void ledger_duplicate(struct ledger *l, struct mjob *asked, const struct job *holder, uint64_t seq,
                      instant at)
{
    unsigned key = asked->key;
    PROMISE(key, "UNIQUE", "job %lu has no key and is a duplicate", asked->serial);
    asked->never = asked->duplicate = true;
    PROMISE(is_in_scope(holder->unique_while, holder->state.status), "UNIQUE",
            "job %lu was kept out by a job that is %s", asked->serial,
            lifecycle_status_name(holder->state.status));
    PROMISE(holder->unique_key.len == 2 && holder->unique_key.at[1] == (char)('0' + key), "UNIQUE",
            "job %lu was kept out by a job with another key", asked->serial);
    const struct mjob *m = ledger_find(l, holder->id);
    if (!m) {
        PROMISE(may_be_unknown(l, key), "UNIQUE", "job %lu was kept out by nobody's job",
                asked->serial);
        return;
    }
    PROMISE(m->key == key && !m->never, "UNIQUE", "job %lu was kept out by job %lu of key %u",
            asked->serial, m->serial, m->key);
    PROMISE(!m->gone_seq || m->gone_seq >= seq, "UNIQUE", "job %lu was kept out by %lu, long gone",
            asked->serial, m->serial);
    bool had_ended = m->ended_seq && !ledger_is_foggy(m) && m->ended_seq < seq;
    PROMISE(!had_ended || (m->unique_while == UNIQUE_EXISTS && m->purge_at.ms > at.ms), "UNIQUE",
            "job %lu was kept out by job %lu, which had let go", asked->serial, m->serial);
}

void ledger_check_holders(const struct ledger *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *b = l->jobs[i];
        if (!b->key || !b->seen || !is_in_scope(b->unique_while, b->status))
            continue;
        for (size_t k = 0; k < l->count; k++) {
            const struct mjob *a = l->jobs[k];
            if (id_cmp(a->id, b->id) >= 0)
                continue;
            if (a->key != b->key || !a->seen || !is_in_scope(a->unique_while, a->status))
                continue;
            /* The older one had released it, and was queued again. */
            bool let_go = (a->unique_while == UNIQUE_QUEUED && a->run_total > 0) ||
                          (a->unique_while != UNIQUE_EXISTS && a->rerun_ever);
            PROMISE(let_go, "UNIQUE", "jobs %lu and %lu hold key %u", a->serial, b->serial, a->key);
        }
    }
}
