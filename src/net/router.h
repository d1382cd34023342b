/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_ROUTER_H
#define NET_ROUTER_H

/* Finds the route of a request. Front ends are mounted on the router, each with its routes below a
 * prefix of its own; the routes of a front end become a tree whose steps are hashed, so that a
 * request costs as many steps as its path has segments, however many routes there are. All are
 * mounted before the first request. */

#include "net/http.h"

#define ROUTER_PARAMS_MAX 4

/* "GET"; empty for HTTP_OTHER. */
const char *router_method_name(enum http_method m);

struct route_params {
    int count;
    bool admin;                       /* the request came by the admin listener */
    struct str at[ROUTER_PARAMS_MAX]; /* percent-decoded, in the request's arena */
};

struct route {
    enum http_method method;
    /* Behind the prefix of its front end: "/jobs/{id}/errors/{attempt}". At the end "{name*}" takes
     * all that is left, with its slashes. */
    const char *pattern;
    bool admin;  /* only the admin listener has it */
    bool pieces; /* it takes the body of its requests in pieces (http_body_take) */
    bool stream; /* GET alone, for HEAD would begin what nobody can read */
};

/* What answers requests: an API in its own form, with its own words for errors. The front end
 * knows what serves a route: its routes are members of records of its own. */
struct front_end {
    const char *prefix; /* "/api/queue/v1"; "": paths that no other one has */
    size_t count;       /* of its routes */
    const struct route *(*route)(size_t i);
    /* Serves a request for one of the routes. */
    void (*serve)(void *ctx, struct http_exchange *x, const struct http_request *req,
                  const struct route *route, const struct route_params *params);
    /* Refuses a request without a route: ERR_NO_ROUTE; ERR_BAD_METHOD, then `allow` lists those
     * that the path has ("GET, DELETE"); ERR_NOT_SUPPORTED; ERR_BAD_REQUEST. */
    void (*refuse)(void *ctx, struct http_exchange *x, const struct http_request *req,
                   const struct err *err, struct str allow);
    void *ctx;
};

struct router;
struct router *router_new(void);
void router_free(struct router *r);
/* f, its routes and its context must outlive the router. No two have the same prefix; no two routes
 * of one are for the same path and method. */
void router_mount(struct router *r, const struct front_end *f);

/* The http_handlers of the primary listener, and of the admin listener; ctx is the router. */
void router_handle(void *ctx, struct http_exchange *x, const struct http_request *req);
void router_handle_admin(void *ctx, struct http_exchange *x, const struct http_request *req);

/* For http_settings.in_pieces; ctx is the router. */
bool router_takes_pieces(void *ctx, enum http_method method, struct str path);

/* What both look up. A fixed segment is preferred to a parameter: "/jobs/take" is never looked for
 * as
 * "/jobs/{id}", whatever the method. A method of no route at all is ERR_NOT_SUPPORTED.
 * HEAD is answered by GET's route. A badly percent-encoded path is ERR_BAD_REQUEST. A trailing
 * slash is another path. Unless admin is set, routes of the admin listener count as absent; the
 * sentence of ERR_NO_ROUTE then says where they are. */
struct router_match {
    const struct front_end *front; /* NULL: no front end has such paths */
    const struct route *route;     /* iff there is no error */
    struct route_params params;
    struct str allow; /* in the request's arena */
};
NODISCARD struct err router_find(const struct router *r, bool admin, const struct http_request *req,
                                 struct router_match *m);

/* Percent-decodes; '+' becomes a space if plus is set (query strings). Invalid %-sequences and
 * invalid UTF-8 are ERR_BAD_REQUEST. Without anything to decode the result is s itself. */
NODISCARD struct err router_decode(struct str s, bool plus, struct arena *a, struct str *out);

#endif
