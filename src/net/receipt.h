/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_RECEIPT_H
#define NET_RECEIPT_H

/* Whether answers arrived, for handlers that give something away with one (http_on_settled). TCP
 * knows which bytes the peer's machine has, not which ones its program has read. So an answer
 * counts as lost if the connection is reset, or ends with bytes of it unacknowledged, before
 * anything came from the peer since the answer left: a program that has read an answer asks again,
 * or closes its connection in order; one that dies with an answer unread resets it. */

#include <stdbool.h>
#include <sys/queue.h>

struct receipt;
LIST_HEAD(receipt_list, receipt);

/* One more answer on the connection with this list. */
void receipt_add(struct receipt_list *l, void (*settled)(void *ctx, bool lost), void *ctx);
/* Settles all of them, each once. */
void receipts_settle(struct receipt_list *l, bool lost);

#endif
