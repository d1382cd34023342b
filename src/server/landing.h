/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LANDING_H
#define SERVER_LANDING_H

/* GET /, which each of several servers answers by itself: what it is, and where the rest is. */

#include "api/api.h"
#include "server/listener.h"
#include "server/settings.h"

/* Fills what is to be said of this server. The admin listener is told to peers on this machine
 * alone. Texts are in the request's arena. */
void landing_read(const struct settings *set, const struct listener *admin_listener,
                  struct http_exchange *x, const struct http_request *req, bool admin,
                  struct api_landing *out);
/* Answers the request if it is one for that: of a server that has no jobs, and so no API. */
bool landing_answer(const struct settings *set, const struct listener *admin_listener,
                    struct http_exchange *x, const struct http_request *req, bool admin);

#endif
