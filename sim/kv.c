/* SPDX-License-Identifier: Apache-2.0 */

/* Entries of a front end. KV: accounts among which it moves money, two in one command, each on
 * condition of its version: whatever fails, the sum stays, what was acknowledged is there, and
 * nothing that has expired is. */

#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "sim.h"
#include "trace.h"

#define SPACE   STR("bank")
#define START   100
#define RECEIPT STR("receipts") /* a space of entries that expire */

static const struct str names[ACCOUNTS] = {{"a0", 2}, {"a1", 2}, {"a2", 2}, {"a3", 2}};

static uint64_t draw(struct sim *s, uint64_t n)
{
    return rng_below(&s->kv.rng, n);
}

static bool failed(const struct ticket *t, const struct reply *r)
{
    enum err_code code = r->err.code;
    t->sim->kv.waiting = false;
    PROMISE(code == ERR_OK || ticket_is_in_doubt(t, code), "KV", "#%lu: answer %s", t->serial,
            err_wire(code));
    return code != ERR_OK;
}

static void submit(struct sim *s, struct command *c,
                   void (*then)(struct ticket *, const struct reply *))
{
    struct ticket *t = ticket_new(s, c->kind, 0);
    s->kv.waiting = true;
    s->kv.boots = s->boots;
    t->then = then;
    ticket_submit(t, c);
}

/* --- moving money --- */

static int64_t balance_of(const struct kv_entry *e)
{
    char text[24] = {0};
    must(e->value.len < sizeof text);
    memcpy(text, e->value.at, e->value.len);
    return strtoll(text, NULL, 10);
}

static void take_versions(struct ticket *t, const struct reply *r)
{
    struct mkv *kv = &t->sim->kv;
    kv->listed = false;
    if (failed(t, r))
        return;
    for (size_t i = 0; i < r->count; i++)
        if (str_eq(r->kv[i].space, SPACE))
            kv->acked[r->kv[i].key.at[1] - '0'] = r->kv[i].version;
}

static struct kv_change change_of(struct sim *s, unsigned account, int64_t balance, char text[24])
{
    struct mkv *kv = &s->kv;
    int n = snprintf(text, 24, "%ld", (long)balance);
    struct kv_entry e = {.space = SPACE,
                         .key = names[account],
                         .value = {text, (size_t)n},
                         .expires = INSTANT_NONE,
                         .version = kv->version[account]};
    return (struct kv_change){e, kv->version[account] ? KV_VERSION : KV_ABSENT, false};
}

static void open_accounts(struct sim *s)
{
    struct kv_change changes[ACCOUNTS];
    char texts[ACCOUNTS][24];
    for (unsigned i = 0; i < ACCOUNTS; i++)
        changes[i] = change_of(s, i, START, texts[i]);
    struct command c = {.kind = CMD_KV_PUT, .kv_put = {changes, ACCOUNTS}};
    submit(s, &c, take_versions);
}

static void move(struct sim *s)
{
    struct mkv *kv = &s->kv;
    unsigned from = (unsigned)draw(s, ACCOUNTS);
    unsigned to = (from + 1 + (unsigned)draw(s, ACCOUNTS - 1)) % ACCOUNTS;
    int64_t amount = (int64_t)draw(s, (uint64_t)kv->balance[from] + 1);
    char texts[2][24], key[24];
    int n = snprintf(key, sizeof key, "r%lu", (unsigned long)draw(s, 20));
    struct kv_change changes[3] = {
        change_of(s, from, kv->balance[from] - amount, texts[0]),
        change_of(s, to, kv->balance[to] + amount, texts[1]),
        {.entry = {.space = RECEIPT,
                   .key = {key, (size_t)n},
                   .expires = instant_add(s->now, (span){1 + (int64_t)draw(s, 20000)})},
         .remove = draw(s, 10) == 0},
    };
    struct command c = {.kind = CMD_KV_PUT, .kv_put = {changes, 3}};
    submit(s, &c, take_versions);
}

/* A file that a run has left, which becomes an event of its job; or the job is gone, or had no such
 * run, and nothing is changed. */
static void see_left(struct ticket *t, const struct reply *r)
{
    if (r->err.code == ERR_NOT_FOUND)
        t->sim->kv.waiting = false;
    else
        (void)failed(t, r);
}

static void leave_file(struct sim *s)
{
    const struct ledger *l = &s->ledger;
    const struct mjob *m = l->count ? l->jobs[draw(s, l->count)] : NULL;
    struct kv_artifact file = {.run = (uint32_t)draw(s, 2), .name = STR("public/log")};
    struct kv_change change = {.entry = {.space = RECEIPT,
                                         .key = STR("file"),
                                         .expires = instant_add(s->now, (span){1000})}};
    struct command c = {.kind = CMD_KV_PUT, .kv_put = {&change, 1, &file}};
    if (!m || id_is_none(m->id))
        return;
    file.job = m->id;
    submit(s, &c, see_left);
}

/* --- looking --- */

static void see_account(struct mkv *kv, unsigned i, const struct kv_entry *e, bool is_safe)
{
    PROMISE(str_eq(e->key, names[i]), "KV", "account %u is not there", i);
    PROMISE(!is_safe || e->version >= kv->acked[i], "KV",
            "account %u has version %lu, and %lu was acknowledged", i, e->version, kv->acked[i]);
    kv->version[i] = e->version;
    kv->balance[i] = balance_of(e);
    PROMISE(kv->balance[i] >= 0, "KV", "account %u is overdrawn", i);
}

static void see_accounts(struct ticket *t, const struct reply *r)
{
    struct mkv *kv = &t->sim->kv;
    int64_t sum = 0;
    if (failed(t, r))
        return;
    bool is_safe = t->sim->settings.sync;
    PROMISE(!r->more && (r->count == ACCOUNTS || r->count == 0), "KV", "%zu accounts", r->count);
    PROMISE(r->count || !is_safe || !kv->acked[0], "KV", "the accounts are lost");
    for (unsigned i = 0; i < ACCOUNTS; i++)
        kv->version[i] = 0;
    for (unsigned i = 0; i < r->count; i++) {
        see_account(kv, i, &r->kv[i], is_safe);
        sum += kv->balance[i];
    }
    PROMISE(!r->count || sum == ACCOUNTS * START, "KV", "the sum of all accounts is %ld",
            (long)sum);
    kv->listed = true;
}

static void see_receipts(struct ticket *t, const struct reply *r)
{
    if (failed(t, r))
        return;
    for (size_t i = 0; i < r->count; i++)
        PROMISE(r->kv[i].expires.ms > t->at.ms, "KV", "receipt %.*s has expired",
                STR_ARG(r->kv[i].key));
}

static void list(struct sim *s, struct str space,
                 void (*then)(struct ticket *, const struct reply *))
{
    struct command c = {.kind = CMD_KV_LIST, .kv = {.space = space, .limit = KV_PAGE_MAX}};
    submit(s, &c, then);
}

void kv_step(struct sim *s)
{
    struct mkv *kv = &s->kv;
    if (kv->boots != s->boots)
        kv->waiting = kv->listed = false; /* nobody answers any more */
    if (kv->waiting || draw(s, 100) >= 8)
        return;
    if (draw(s, 4) == 0)
        list(s, RECEIPT, see_receipts);
    else if (draw(s, 4) == 0)
        leave_file(s);
    else if (!kv->listed)
        list(s, SPACE, see_accounts);
    else if (!kv->version[0])
        open_accounts(s);
    else
        move(s);
}

void kv_audit(struct sim *s)
{
    list(s, SPACE, see_accounts);
    sim_pump(s);
}

static void see_removed(struct ticket *t, const struct reply *r)
{
    PROMISE(!failed(t, r) && !r->more && (r->count == ACCOUNTS || r->count == 0), "KV",
            "%zu accounts were removed", r->count);
    memset(t->sim->kv.acked, 0, sizeof t->sim->kv.acked);
}

void kv_remove_all(struct sim *s)
{
    struct command c = {.kind = CMD_KV_REMOVE, .kv = {.space = SPACE, .prefix = true}};
    submit(s, &c, see_removed);
    sim_pump(s);
}
