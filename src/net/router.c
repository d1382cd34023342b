/* SPDX-License-Identifier: Apache-2.0 */
#include "net/router.h"

#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/utf8.h"

/* Where a path may lead after some of its segments, in one front end. */
struct node {
    uint32_t number;    /* of the router's nodes */
    bool fixed;         /* there are segments that a path names: in the edges */
    struct node *param; /* below it: any segment, or NULL */
    struct node *rest;  /* all that is left of the path, slashes included, or NULL */
    unsigned methods;   /* that it has, a bit each */
    unsigned admin;     /* of these, those that only the admin listener has */
    const struct route *by_method[HTTP_OTHER];
};

/* From a node to the one below it that a named segment leads to. */
struct edge {
    const struct node *from; /* NULL: the slot is free */
    struct str segment;
    struct node *to;
};

struct front {
    const struct front_end *end;
    struct str prefix;
    struct node *root;
};

struct router {
    struct front **fronts; /* the longest prefix first */
    size_t count;
    struct node **nodes; /* all of them */
    size_t node_count, node_cap;
    struct edge *edges; /* a hash table, at most half full */
    size_t edge_count, edge_slots;
    size_t segment_max; /* the longest in the edges */
    unsigned pieces;    /* methods of routes that take bodies in pieces, a bit each */
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
    const char *at = from;
    while (at < w->end && *at != '/')
        at++;
    w->at = at;
    *segment = (struct str){from, (size_t)(at - from)};
    return true;
}

static bool is_param(struct str s)
{
    return s.len > 2 && s.at[0] == '{' && s.at[s.len - 1] == '}';
}

static bool is_rest(struct str s)
{
    return is_param(s) && s.at[s.len - 2] == '*';
}

/* --- edges --- */

/* It need not resist who chooses segments: only those of routes are ever put in. */
static uint64_t hash(const struct node *from, struct str segment)
{
    uint64_t h = (uint64_t)from->number << 32 ^ segment.len;
    size_t left = segment.len;
    const char *at = segment.at;
    uint64_t word = 0;
    for (; left >= 8; left -= 8, at += 8) {
        memcpy(&word, at, 8);
        h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 32;
    }
    for (word = 0; left; left--)
        word = word << 8 | (unsigned char)at[left - 1];
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* The edge, or the free slot where it belongs. */
static struct edge *slot_of(const struct router *r, const struct node *from, struct str segment)
{
    size_t mask = r->edge_slots - 1;
    size_t at = hash(from, segment) & mask;
    while (r->edges[at].from &&
           (r->edges[at].from != from || !str_eq(r->edges[at].segment, segment)))
        at = (at + 1) & mask;
    return &r->edges[at];
}

static struct node *find_fixed(const struct router *r, const struct node *n, struct str segment)
{
    return n->fixed && segment.len <= r->segment_max ? slot_of(r, n, segment)->to : NULL;
}

static void grow_edges(struct router *r)
{
    struct edge *old = r->edges;
    size_t slots = r->edge_slots;
    r->edge_slots = slots ? slots * 2 : 64;
    r->edges = alloc_zero(r->edge_slots * sizeof *r->edges);
    for (size_t i = 0; i < slots; i++)
        if (old[i].from)
            *slot_of(r, old[i].from, old[i].segment) = old[i];
    free(old);
}

static void add_edge(struct router *r, struct node *from, struct str segment, struct node *to)
{
    if (++r->edge_count * 2 > r->edge_slots)
        grow_edges(r);
    *slot_of(r, from, segment) = (struct edge){from, segment, to};
    from->fixed = true;
    r->segment_max = segment.len > r->segment_max ? segment.len : r->segment_max;
}

/* --- the tree --- */

static struct node *add_node(struct router *r)
{
    struct node *n = ALLOC(struct node);
    n->number = (uint32_t)r->node_count;
    ALLOC_GROW(r->nodes, r->node_count, r->node_cap, 16);
    r->nodes[r->node_count++] = n;
    return n;
}

static struct node *add_segment(struct router *r, struct node *n, struct str segment)
{
    if (is_param(segment)) {
        struct node **below = is_rest(segment) ? &n->rest : &n->param;
        if (!*below)
            *below = add_node(r);
        return *below;
    }
    struct node *child = find_fixed(r, n, segment);
    if (!child) {
        child = add_node(r);
        add_edge(r, n, segment, child);
    }
    return child;
}

static void add_route(struct router *router, struct node *n, const struct route *r)
{
    struct walk w = {r->pattern, r->pattern + strlen(r->pattern)};
    struct str segment;
    int params = 0;
    while (next_segment(&w, &segment)) {
        params += is_param(segment);
        n = add_segment(router, n, segment);
        must(!is_rest(segment) || w.at == w.end);
    }
    must(w.at == w.end && params <= ROUTER_PARAMS_MAX);
    must(r->method < HTTP_OTHER && !n->by_method[r->method]);
    n->by_method[r->method] = r;
    n->methods |= 1u << r->method;
    n->admin |= r->admin ? 1u << r->method : 0;
}

struct router *router_new(void)
{
    return ALLOC(struct router);
}

void router_free(struct router *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->node_count; i++)
        free(r->nodes[i]);
    for (size_t i = 0; i < r->count; i++)
        free(r->fronts[i]);
    free(r->nodes);
    free(r->edges);
    free(r->fronts);
    free(r);
}

void router_mount(struct router *r, const struct front_end *f)
{
    struct front *front = ALLOC(struct front);
    size_t at = r->count;
    front->end = f;
    front->prefix = str_from(f->prefix);
    front->root = add_node(r);
    for (size_t i = 0; i < f->count; i++) {
        const struct route *route = f->route(i);
        add_route(r, front->root, route);
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
    const struct router *router;
    enum http_method method;
    bool admin, elsewhere; /* elsewhere: the admin listener has that path */
    unsigned methods;      /* of the path, a bit each */
    const struct route *found;
    struct route_params *params;
};

static void look(struct search *s, const struct node *n)
{
    unsigned methods = s->admin ? n->methods : n->methods & ~n->admin;
    s->elsewhere = s->elsewhere || methods != n->methods;
    if (methods & 1u << HTTP_GET && !n->by_method[HTTP_GET]->stream)
        methods |= 1u << HTTP_HEAD;
    s->methods |= methods;
    if (methods & 1u << s->method)
        s->found = n->by_method[s->method == HTTP_HEAD ? HTTP_GET : s->method];
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

/* A path that is named is that path alone, so that its methods are those that a 405 lists; what
 * parameters would take is tried only if there is none. */
static void descend(struct search *s, const struct node *n, struct walk w)
{
    const struct walk from = w;
    struct str segment;
    if (!next_segment(&w, &segment)) {
        if (w.at == w.end)
            look(s, n);
        return;
    }
    const struct node *fixed = find_fixed(s->router, n, segment);
    if (fixed)
        descend(s, fixed, w);
    if (s->methods)
        return;
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
    if (prefix.len == 0)
        return true;
    if (path.len < prefix.len || memcmp(path.at, prefix.at, prefix.len) != 0)
        return false;
    return path.len == prefix.len || path.at[prefix.len] == '/';
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
        descend(s, f->root, (struct walk){path.at + f->prefix.len, path.at + path.len});
}

bool router_takes_pieces(void *ctx, enum http_method method, struct str path)
{
    const struct router *r = ctx;
    struct route_params params = {0};
    struct search s = {.router = r, .method = method, .admin = true, .params = &params};
    if (method == HTTP_OTHER || !(r->pieces & 1u << method))
        return false;
    search(front_of(r, path), path, &s);
    return s.found && s.found->pieces;
}

struct err router_find(const struct router *r, bool admin, const struct http_request *req,
                       struct router_match *m)
{
    const struct front *f = front_of(r, req->path);
    *m = (struct router_match){.front = f ? f->end : NULL, .params.admin = admin};
    struct search s = {.router = r, .method = req->method, .admin = admin, .params = &m->params};
    search(f, req->path, &s);
    if (req->method == HTTP_OTHER)
        return err_make(ERR_NOT_SUPPORTED, "no path of this server has a method of that name");
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
