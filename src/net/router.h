/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_ROUTER_H
#define NET_ROUTER_H

/* Finds the endpoint of a request in one table. */

#include "net/http.h"

#define ROUTER_PARAMS_MAX 4

struct route_params {
    int count;
    struct str at[ROUTER_PARAMS_MAX]; /* percent-decoded, in the request's arena */
};

struct route {
    enum http_method method;
    const char *pattern; /* "/jobs/{id}/errors/{attempt}" */
    void (*handle)(void *ctx, struct http_exchange *x, const struct http_request *req,
                   const struct route_params *params);
    bool query; /* it has parameters, and looks at them itself */
    bool admin; /* only there for who came in by the admin listener */
};

/* A fixed segment is preferred to a parameter ("/jobs/take" to "/jobs/{id}"), whatever the
 * order of the table. HEAD is answered by GET's route. ERR_NO_ROUTE if no pattern matches,
 * ERR_BAD_METHOD if one does with other methods; then *allow lists them ("GET, DELETE", static
 * or in the arena). A badly percent-encoded path is ERR_BAD_REQUEST. A trailing slash is another
 * path. Unless admin is set, routes of the admin listener count as absent; the sentence of
 * ERR_NO_ROUTE then says where they are. */
NODISCARD struct err router_find(const struct route *routes, int count, bool admin,
                                 const struct http_request *req, const struct route **found,
                                 struct route_params *params, struct str *allow);

/* Percent-decodes; '+' becomes a space if plus is set (query strings). Invalid %-sequences and
 * invalid UTF-8 are ERR_BAD_REQUEST. Without anything to decode the result is s itself. */
NODISCARD struct err router_decode(struct str s, bool plus, struct arena *a, struct str *out);

#endif
