/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_mailbox.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"

/* Messages that a look passes at most: those of tasks past their deadlines are dropped bit by bit.
 */
#define PEEK_LOOKS 1000

static struct str run_key(const struct tc_message *m)
{
    return (struct str){m->run_key, m->run_key_len};
}

static struct btree_entry entry_of(const struct tc_message *m, instant at)
{
    return (struct btree_entry){(uint64_t)at.ms, m->number, 0, (uint64_t)(uintptr_t)m};
}

static struct tc_message *message_of(const struct btree_entry *e)
{
    return (struct tc_message *)(uintptr_t)e->val;
}

void tc_mailbox_fini(struct tc_mailbox *b)
{
    struct btree_entry e;
    while (btree_first(&b->by_expiry, &e))
        tc_mailbox_remove(b, message_of(&e));
    strmap_fini(&b->by_id);
    strmap_fini(&b->by_run);
    btree_fini(&b->by_visible);
    btree_fini(&b->by_expiry);
}

void tc_message_name(struct tc_message *m, struct str task_id, uint32_t run)
{
    int n = snprintf(m->run_key, sizeof m->run_key, "%.*s/%u", STR_ARG(task_id), run);
    must(n > 0 && (size_t)n < sizeof m->run_key);
    m->run_key_len = (size_t)n;
    m->run = run;
}

struct tc_message *tc_mailbox_add(struct tc_mailbox *b, const struct tc_message *m)
{
    struct tc_message *own = ALLOC(struct tc_message);
    *own = *m;
    own->number = b->numbers++;
    strmap_put(&b->by_id, tc_message_id(own), own);
    strmap_put(&b->by_run, run_key(own), own);
    if (!own->deleted)
        btree_put(&b->by_visible, entry_of(own, own->visible_at));
    btree_put(&b->by_expiry, entry_of(own, own->expires));
    return own;
}

void tc_mailbox_remove(struct tc_mailbox *b, struct tc_message *m)
{
    if (!m->deleted)
        must(btree_remove(&b->by_visible, entry_of(m, m->visible_at), NULL));
    must(btree_remove(&b->by_expiry, entry_of(m, m->expires), NULL));
    must(strmap_remove(&b->by_id, tc_message_id(m)) == m);
    /* Two servers' worth of messages for one run cannot be, but a stored one may be read late. */
    if (strmap_get(&b->by_run, run_key(m)) == m)
        strmap_remove(&b->by_run, run_key(m));
    free(m);
}

void tc_mailbox_bury(struct tc_mailbox *b, struct tc_message *m)
{
    must(!m->deleted && btree_remove(&b->by_visible, entry_of(m, m->visible_at), NULL));
    m->deleted = true;
}

struct tc_message *tc_mailbox_find(const struct tc_mailbox *b, struct str id)
{
    struct tc_message *m = strmap_get(&b->by_id, id);
    return m && !m->deleted ? m : NULL;
}

bool tc_mailbox_has(const struct tc_mailbox *b, struct str task_id, uint32_t run)
{
    struct tc_message m;
    tc_message_name(&m, task_id, run);
    return strmap_get(&b->by_run, run_key(&m));
}

struct tc_message *tc_mailbox_visible(const struct tc_mailbox *b, instant now)
{
    struct btree_entry e;
    if (!btree_first(&b->by_visible, &e) || (int64_t)e.major > now.ms)
        return NULL;
    return message_of(&e);
}

uint32_t tc_mailbox_peek(const struct tc_mailbox *b, instant now, struct tc_message *out,
                         uint32_t most)
{
    struct btree_entry e;
    uint32_t count = 0;
    bool more = btree_first(&b->by_visible, &e);
    for (int looks = 0; more && count < most && looks < PEEK_LOOKS; looks++) {
        if ((int64_t)e.major > now.ms)
            break;
        if (message_of(&e)->expires.ms > now.ms)
            out[count++] = *message_of(&e);
        more = btree_after(&b->by_visible, e, &e);
    }
    return count;
}

void tc_mailbox_hand_out(struct tc_mailbox *b, struct tc_message *m, instant until,
                         uint64_t receipt)
{
    must(btree_remove(&b->by_visible, entry_of(m, m->visible_at), NULL));
    m->visible_at = until;
    m->receipt = receipt;
    m->count++;
    btree_put(&b->by_visible, entry_of(m, m->visible_at));
}

void tc_mailbox_expire(struct tc_mailbox *b, instant now, size_t most)
{
    struct btree_entry e;
    for (; most && btree_first(&b->by_expiry, &e) && (int64_t)e.major <= now.ms; most--)
        tc_mailbox_remove(b, message_of(&e));
}
