/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_WHOSE_H
#define CLIENT_WHOSE_H

/* Whose answer is it? Proxies, load balancers and sign-in pages answer in a server's place, with
 * any status. Such an answer says nothing about the request, and counts as none. Pure. */

#include <stdbool.h>

#include "base/str.h"

/* Whether the body of a refusal is the server's own: JSON with a code and a sentence, as Tenax and
 * Taskcluster's services have it; a health; or a list of what became of each of many jobs. */
bool whose_refusal(struct str body);
/* The same for a URL of Azure's queues: XML with a code. */
bool whose_azure_refusal(struct str body);

#endif
