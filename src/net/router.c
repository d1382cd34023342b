/* SPDX-License-Identifier: Apache-2.0 */
#include "net/router.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/utf8.h"

/* A segment of the paths of one front end, and what may follow it. */
struct node {
    struct str segment;
    struct node *next;  /* beside it, in its parent */
    struct node *fixed; /* the first of those that a path names */
    struct node *param; /* any other segment, or NULL */
    struct node *rest;  /* all that is left of the path, slashes included, or NULL */
    const struct route *by_method[HTTP_OTHER];
};

struct front {
    const struct front_end *end;
    struct str prefix;
    struct node root;
};

struct router {
    struct front **fronts; /* the longest prefix first */
    size_t count;
    unsigned pieces; /* methods of routes that take bodies in pieces, a bit each */
};

/* A path and how far it is matched. */
struct walk {
    const char *at, *end;
};

/* The next segment, without its leading slash; false at the end. */
static bool next_segment(struct walk *w, struct str *segment)
{
    if (w->at == w->end || *w->at != '/')
        return false;
    const char *from = w->at + 1;
    const char *slash = from < w->end ? memchr(from, '/', (size_t)(w->end - from)) : NULL;
    w->at = slash ? slash : w->end;
    *segment = (struct str){from, (size_t)(w->at - from)};
    return true;
}

static bool is_param(struct str s)
{
    return s.len > 2 && s.at[0] == '{' && s.at[s.len - 1] == '}';
}

/* --- the tree --- */

static struct node *find_fixed(const struct node *n, struct str segment)
{
    struct node *child = n->fixed;
    while (child && !str_eq(child->segment, segment))
        child = child->next;
    return child;
}

static bool is_rest(struct str s)
{
    return is_param(s) && s.at[s.len - 2] == '*';
}

static struct node *find_like(const struct node *n, struct str segment)
{
    if (is_rest(segment))
        return n->rest;
    return is_param(segment) ? n->param : find_fixed(n, segment);
}

static struct node *add_segment(struct node *n, struct str segment)
{
    struct node *child = find_like(n, segment);
    if (child)
        return child;
    child = ALLOC(struct node);
    child->segment = segment;
    if (is_rest(segment)) {
        n->rest = child;
    } else if (is_param(segment)) {
        n->param = child;
    } else {
        child->next = n->fixed;
        n->fixed = child;
    }
    return child;
}

static void add_route(struct node *n, const struct route *r)
{
    struct walk w = {r->pattern, r->pattern + strlen(r->pattern)};
    struct str segment;
    int params = 0;
    while (next_segment(&w, &segment)) {
        params += is_param(segment);
        n = add_segment(n, segment);
        must(!is_rest(segment) || w.at == w.end);
    }
    must(w.at == w.end && params <= ROUTER_PARAMS_MAX);
    must(r->method < HTTP_OTHER && !n->by_method[r->method]);
    n->by_method[r->method] = r;
}

static void free_nodes(struct node *n)
{
    while (n) {
        struct node *next = n->next;
        free_nodes(n->fixed);
        free_nodes(n->param);
        free_nodes(n->rest);
        free(n);
        n = next;
    }
}

struct router *router_new(void)
{
    return ALLOC(struct router);
}

void router_free(struct router *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++) {
        free_nodes(r->fronts[i]->root.fixed);
        free_nodes(r->fronts[i]->root.param);
        free_nodes(r->fronts[i]->root.rest);
        free(r->fronts[i]);
    }
    free(r->fronts);
    free(r);
}

void router_mount(struct router *r, const struct front_end *f)
{
    struct front *front = ALLOC(struct front);
    size_t at = r->count;
    front->end = f;
    front->prefix = str_from(f->prefix);
    for (size_t i = 0; i < f->count; i++) {
        const struct route *route = f->route(i);
        add_route(&front->root, route);
        r->pieces |= route->pieces ? 1u << route->method : 0;
    }
    r->fronts = alloc_resize(r->fronts, (r->count + 1) * sizeof(struct front *));
    for (; at > 0 && r->fronts[at - 1]->prefix.len < front->prefix.len; at--)
        r->fronts[at] = r->fronts[at - 1];
    r->fronts[at] = front;
    r->count++;
    for (size_t i = 0; i < r->count; i++)
        must(i == at || !str_eq(r->fronts[i]->prefix, front->prefix));
}

/* --- the search --- */

struct search {
    enum http_method method;
    bool admin, elsewhere; /* elsewhere: the admin listener has that path */
    unsigned methods;      /* of the path, a bit each */
    const struct route *found;
    struct route_params *params;
};

static void look(struct search *s, const struct node *n)
{
    for (unsigned m = 0; m < HTTP_OTHER; m++) {
        const struct route *r = n->by_method[m];
        if (!r)
            continue;
        if (r->admin && !s->admin) {
            s->elsewhere = true;
            continue;
        }
        s->methods |= 1u << m | (m == HTTP_GET ? 1u << HTTP_HEAD : 0);
        if (m == s->method || (m == HTTP_GET && s->method == HTTP_HEAD))
            s->found = r;
    }
}

static void descend(struct search *s, const struct node *n, struct walk w);

/* The same below a node that takes this part of the path as its parameter. */
static void descend_with(struct search *s, const struct node *n, struct str param, struct walk w)
{
    if (s->found || !n || param.len == 0)
        return;
    int depth = s->params->count++;
    s->params->at[depth] = param;
    descend(s, n, w);
    if (!s->found)
        s->params->count = depth;
}

/* Tries parameters, too, if the fixed segment leads to no route with that method. */
static void descend(struct search *s, const struct node *n, struct walk w)
{
    const struct walk from = w;
    struct str segment;
    if (!next_segment(&w, &segment)) {
        if (w.at == w.end)
            look(s, n);
        return;
    }
    const struct node *fixed = find_fixed(n, segment);
    if (fixed)
        descend(s, fixed, w);
    descend_with(s, n->param, segment, w);
    struct str rest = {from.at + 1, (size_t)(from.end - from.at) - 1};
    descend_with(s, n->rest, rest, (struct walk){from.end, from.end});
}

const char *router_method_name(enum http_method m)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",   [HTTP_POST] = "POST",
        [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH", [HTTP_DELETE] = "DELETE",
        [HTTP_OPTIONS] = "OPTIONS",
    };
    return m < HTTP_OTHER ? names[m] : "";
}

/* The methods in `set` (a bit each), in the order of their enumeration. */
static struct str list_methods(unsigned set, struct arena *a)
{
    char text[64];
    size_t n = 0;
    for (unsigned m = 0; m < HTTP_OTHER; m++) {
        if (!(set & 1u << m))
            continue;
        const char *name = router_method_name((enum http_method)m);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", name);
    }
    return arena_copy(a, (struct str){text, n});
}

static struct err no_route(struct str path, bool elsewhere)
{
    return err_make(ERR_NO_ROUTE, "%s the path %.*s",
                    elsewhere ? "only the admin listener (serve --admin-port) has"
                              : "no endpoint has",
                    path.len < 100 ? (int)path.len : 100, path.at);
}

/* Whether the path is the prefix, or continues it with a slash. */
static bool is_below(struct str path, struct str prefix)
{
    if (path.len < prefix.len || memcmp(path.at, prefix.at, prefix.len) != 0)
        return false;
    return prefix.len == 0 || path.len == prefix.len || path.at[prefix.len] == '/';
}

static const struct front *front_of(const struct router *r, struct str path)
{
    for (size_t i = 0; i < r->count; i++)
        if (is_below(path, r->fronts[i]->prefix))
            return r->fronts[i];
    return NULL;
}

static void search(const struct front *f, struct str path, struct search *s)
{
    if (f)
        descend(s, &f->root, (struct walk){path.at + f->prefix.len, path.at + path.len});
}

bool router_takes_pieces(void *ctx, enum http_method method, struct str path)
{
    const struct router *r = ctx;
    struct route_params params = {0};
    struct search s = {.method = method, .admin = true, .params = &params};
    if (method == HTTP_OTHER || !(r->pieces & 1u << method))
        return false;
    search(front_of(r, path), path, &s);
    return s.found && s.found->pieces;
}

struct err router_find(const struct router *r, bool admin, const struct http_request *req,
                       struct router_match *m)
{
    const struct front *f = front_of(r, req->path);
    *m = (struct router_match){.front = f ? f->end : NULL};
    struct search s = {.method = req->method, .admin = admin, .params = &m->params};
    search(f, req->path, &s);
    if (!s.methods)
        return no_route(req->path, s.elsewhere);
    if (!s.found) {
        m->allow = list_methods(s.methods, req->arena);
        return err_make(ERR_BAD_METHOD, "this path has no such method, only %.*s",
                        STR_ARG(m->allow));
    }
    for (int i = 0; i < m->params.count; i++)
        TRY(router_decode(m->params.at[i], false, req->arena, &m->params.at[i]));
    m->route = s.found;
    return err_none();
}

static void dispatch(struct router *r, bool admin, struct http_exchange *x,
                     const struct http_request *req)
{
    struct router_match m;
    struct err err = router_find(r, admin, req, &m);
    must(m.front); /* one has the empty prefix */
    if (err.code == ERR_OK)
        m.front->serve(m.front->ctx, x, req, m.route, &m.params);
    else
        m.front->refuse(m.front->ctx, x, req, &err, m.allow);
}

void router_handle(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    dispatch(ctx, false, x, req);
}

void router_handle_admin(void *ctx, struct http_exchange *x, const struct http_request *req)
{
    dispatch(ctx, true, x, req);
}

/* --- decoding --- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_coded(struct str s, bool plus)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] == '%' || (plus && s.at[i] == '+'))
            return true;
    return false;
}

/* Writes the decoded bytes; false at a '%' without two hexadecimal digits. */
static bool decode(struct str s, bool plus, char *to, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (c == '%') {
            int hi = i + 2 < s.len ? hex(s.at[i + 1]) : -1;
            int lo = hi >= 0 ? hex(s.at[i + 2]) : -1;
            if (lo < 0)
                return false;
            c = (char)(hi << 4 | lo);
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        to[n++] = c;
    }
    *len = n;
    return true;
}

struct err router_decode(struct str s, bool plus, struct arena *a, struct str *out)
{
    *out = s;
    if (is_coded(s, plus)) {
        char *to = arena_get(a, s.len);
        size_t len;
        if (!decode(s, plus, to, &len))
            return err_make(ERR_BAD_REQUEST, "a '%%' in the URL is not followed by two "
                                             "hexadecimal digits");
        *out = (struct str){to, len};
    }
    if (utf8_check(*out) != out->len)
        return err_make(ERR_BAD_REQUEST, "the URL is not valid UTF-8 once decoded");
    return err_none();
}
