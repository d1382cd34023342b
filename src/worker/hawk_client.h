/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_HAWK_CLIENT_H
#define WORKER_HAWK_CLIENT_H

/* The client side of Hawk, as Taskcluster's services expect it (access/hawk.h is the other side).
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"
#include "base/units.h"

struct hawk_credentials {
    struct str client_id, access_token;
    struct str certificate; /* of temporary credentials, JSON; otherwise empty */
};

/* Why credentials cannot be used, as a phrase without any secret; NULL: they can. */
const char *hawk_client_bad(const struct hawk_credentials *by);

/* Adds "Authorization: Hawk …" for a request to this URL (http or https). False, adding nothing, if
 * the URL is malformed. */
bool hawk_client_header(struct buf *b, const struct hawk_credentials *by, const char *method,
                        const char *url, instant now);

#endif
