/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLDER_RENEWALS_H
#define HOLDER_RENEWALS_H

/* Renewals of leases on the loop: those that are due together are one request, POST /jobs/renew.
 * One by itself, or one whose token is not known, is POST /jobs/{id}/renew, as all are at a server
 * that is older than the request for many. Loop thread only. */

#include "client/lease_text.h"
#include "client/remote.h"

/* Requests for single leases under way at a time. */
#define RENEWALS_ALONE_MAX ((size_t)64)

struct renewals;
struct renewal;

/* The server must outlive it. */
struct renewals *renewals_new(struct remote *server, span timeout);
/* Abandons all: there are no answers to them. Not from within an answer. */
void renewals_free(struct renewals *r);

/* The answer is called back exactly once, as that to a request for this lease alone, unless it is
 * dropped; the renewal is over after it. */
struct renewal *renewals_add(struct renewals *r, const struct lease_text *l, remote_answered *done,
                             void *ctx);
/* Sends what was added. */
void renewals_send(struct renewals *r);
/* Abandons one; the server may renew its lease nevertheless. NULL is fine. */
void renewals_drop(struct renewal *one);

#endif
