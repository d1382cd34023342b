/* SPDX-License-Identifier: Apache-2.0 */
#include "net/receipt.h"

#include <stdlib.h>

#include "base/alloc.h"

struct receipt {
    void (*settled)(void *ctx, bool lost);
    void *ctx;
    LIST_ENTRY(receipt) link;
};

void receipt_add(struct receipt_list *l, void (*settled)(void *ctx, bool lost), void *ctx)
{
    struct receipt *r = ALLOC(struct receipt);
    r->settled = settled;
    r->ctx = ctx;
    LIST_INSERT_HEAD(l, r, link);
}

void receipts_settle(struct receipt_list *l, bool lost)
{
    struct receipt *r;
    while ((r = LIST_FIRST(l))) {
        LIST_REMOVE(r, link);
        r->settled(r->ctx, lost);
        free(r);
    }
}
