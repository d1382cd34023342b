/* SPDX-License-Identifier: Apache-2.0 */

/* Unique keys and aliases, judged by which jobs must hold one, may hold one, and cannot. An alias
 * is held as long as its job exists. */

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
           (m->run_count == 0 && !m->rerun_ever && !(m->patched & PATCH_READY_AT) &&
            m->ghosts == 0 && m->ready_at.ms > now.ms);
}

const struct mjob *ledger_key_holder(const struct ledger *l, unsigned key, instant now)
{
    for (size_t i = 0; key && i < l->count; i++)
        if (l->jobs[i]->key == key && surely_holds(l, l->jobs[i], now))
            return l->jobs[i];
    return NULL;
}

const struct mjob *ledger_alias_holder(const struct ledger *l, unsigned alias, instant now)
{
    for (size_t i = 0; alias && i < l->count; i++)
        if (l->jobs[i]->alias == alias && ledger_there(l, l->jobs[i], now) == YES)
            return l->jobs[i];
    return NULL;
}

bool ledger_has_alias(const struct ledger *l, unsigned alias)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->jobs[i]->alias == alias && l->jobs[i]->seen)
            return true;
    return false;
}

/* A job whose answer was lost, or that nobody requested, so that its id was never told. */
static bool may_be_unknown(const struct ledger *l, const struct mjob *asked)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *m = l->jobs[i];
        bool same =
            (asked->key && m->key == asked->key) || (asked->alias && m->alias == asked->alias);
        if (same && m != asked && m->exists == MAYBE && !m->never && id_is_none(m->id))
            return true;
    }
    return asked->key && asked->key == l->cron_key;
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

static bool has(struct str name, unsigned number)
{
    return number && name.len == 2 && name.at[1] == (char)('0' + number);
}

/* Whether it may have stood for the key when the job was asked for. */
static bool may_have_held(const struct mjob *m, uint64_t seq)
{
    bool had_ended = m->ended_seq && !ledger_is_foggy(m) && m->ended_seq < seq;
    return !had_ended || m->unique_while == UNIQUE_EXISTS;
}

void ledger_duplicate(struct ledger *l, struct mjob *asked, const struct job *holder, uint64_t seq,
                      instant at)
{
    bool by_alias = has(holder->options.alias, asked->alias);
    bool by_key = has(holder->unique_key, asked->key) &&
                  is_in_scope(holder->unique_while, holder->state.status);
    PROMISE(by_alias || by_key, "UNIQUE", "job %lu was kept out by a job that is %s", asked->serial,
            lifecycle_status_name(holder->state.status));
    asked->never = asked->duplicate = true;
    const struct mjob *m = ledger_find(l, holder->id);
    if (!m) {
        PROMISE(may_be_unknown(l, asked), "UNIQUE", "job %lu was kept out by nobody's job",
                asked->serial);
        return;
    }
    PROMISE(!m->never, "UNIQUE", "job %lu was kept out by job %lu, which was never there",
            asked->serial, m->serial);
    PROMISE((by_alias && m->alias == asked->alias) || (by_key && m->key == asked->key), "UNIQUE",
            "job %lu was kept out by job %lu of another key", asked->serial, m->serial);
    PROMISE(!m->gone_seq || m->gone_seq >= seq, "UNIQUE", "job %lu was kept out by %lu, long gone",
            asked->serial, m->serial);
    bool had_ended = m->ended_seq && !ledger_is_foggy(m) && m->ended_seq < seq;
    bool kept_on = m->awaited && m->ended == STATUS_DEAD; /* as others wait for it */
    PROMISE(!had_ended || kept_on || m->purge_at.ms > at.ms, "UNIQUE",
            "job %lu was kept out by job %lu, whose retention is over", asked->serial, m->serial);
    PROMISE(by_alias || may_have_held(m, seq), "UNIQUE",
            "job %lu was kept out by job %lu, which had let go", asked->serial, m->serial);
}

static void check_aliases(const struct ledger *l, const struct mjob *b)
{
    for (size_t k = 0; b->alias && k < l->count; k++) {
        const struct mjob *a = l->jobs[k];
        PROMISE(a == b || !a->seen || a->alias != b->alias, "ALIAS",
                "jobs %lu and %lu have alias %u", a->serial, b->serial, a->alias);
    }
}

void ledger_check_holders(const struct ledger *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct mjob *b = l->jobs[i];
        if (b->seen)
            check_aliases(l, b);
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
