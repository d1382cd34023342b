/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WHOSE_H
#define CLIENT_WHOSE_H

/* Whose answer is it? Proxies, load balancers and sign-in pages answer in a server's place, with
 * any status. Such an answer says nothing about the request, and counts as none. Pure. */

#include <stdbool.h>

#include "base/str.h"

/* How a request is answered when it is done, of Tenax's Jobs API or of Taskcluster's queue. path
 * may have a query; NULL: it is another request. */
struct whose_rule;
const struct whose_rule *whose_expects(const char *method, const char *path);
/* Whether an answer of 2xx is so: it has the status of that request, and the members that are never
 * missing; 204 alone is without a body. Of another request any JSON will do, or nothing. */
bool whose_success(const struct whose_rule *expected, long status, struct str body);
/* Whether the body of a refusal is the server's own: JSON with a code and a sentence, as Tenax and
 * Taskcluster's services have it; a health; or a list of what became of each of many jobs. */
bool whose_refusal(struct str body);
/* The same for a URL of Azure's queues: XML with a code. */
bool whose_azure_refusal(struct str body);

#endif
