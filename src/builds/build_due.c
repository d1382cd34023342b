/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_due.h"

#include "base/must.h"
#include "client/when.h"

static struct btree_entry entry_of(struct build_due *d)
{
    return (struct btree_entry){(uint64_t)d->at.ns, d->serial, 0, (uint64_t)(uintptr_t)d};
}

void build_dues_fini(struct build_dues *l)
{
    btree_fini(&l->tree);
}

void build_due_unset(struct build_dues *l, struct build_due *d)
{
    if (d->set)
        must(btree_remove(&l->tree, entry_of(d), NULL));
    d->set = false;
}

void build_due_set(struct build_dues *l, struct build_due *d, span after)
{
    build_due_unset(l, d);
    d->at = when_after(when_mono(), after);
    d->serial = l->serial++;
    d->set = true;
    btree_put(&l->tree, entry_of(d));
}

struct build_due *build_due_take(struct build_dues *l, mono now)
{
    struct btree_entry first;
    if (!btree_first(&l->tree, &first) || (int64_t)first.major > now.ns)
        return NULL;
    struct build_due *d = (struct build_due *)(uintptr_t)first.val;
    build_due_unset(l, d);
    return d;
}

uint64_t build_due_wait(const struct build_dues *l)
{
    struct btree_entry first;
    if (!btree_first(&l->tree, &first))
        return 0;
    int64_t ms = when_ms_between((mono){(int64_t)first.major}, when_mono()) + 1;
    return ms > 0 ? (uint64_t)ms : 1;
}
