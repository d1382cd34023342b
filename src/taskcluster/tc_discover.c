/* SPDX-License-Identifier: Apache-2.0 */

/* What clients find the API by: its reference and its schemas, and whether the server is there. All
 * of it is public. */

#include <stdio.h>

#include "base/array.h"
#include "taskcluster/tc_exchange.h"
#include "taskcluster/tc_handlers.h"

/* --- /references --- */

static void write_expr(struct buf *b, const struct scope_expr *e)
{
    switch (e->op) {
    case SCOPE_OP_ONE:
        json_write_string(b, str_from(e->text));
        return;
    case SCOPE_OP_EACH:
        buf_print(b, "{\"for\":\"%s\",\"in\":\"%s\",\"each\":\"%s\"}", e->each, e->list, e->text);
        return;
    case SCOPE_OP_ALL_OF:
    case SCOPE_OP_ANY_OF:
        break;
    }
    buf_print(b, "{\"%s\":[", e->op == SCOPE_OP_ALL_OF ? "AllOf" : "AnyOf");
    for (size_t i = 0; i < e->count; i++) {
        if (i)
            buf_byte(b, ',');
        write_expr(b, &e->parts[i]);
    }
    buf_lit(b, "]}");
}

/* "/task/{taskId}" as "/task/<taskId>" */
static void write_route(struct buf *b, const char *pattern)
{
    for (const char *at = pattern; *at; at++) {
        if (*at == '{')
            buf_byte(b, '<');
        else if (*at == '}')
            buf_byte(b, '>');
        else if (*at != '*')
            buf_byte(b, *at);
    }
}

static void write_method_name(struct buf *b, enum http_method m)
{
    for (const char *at = router_method_name(m); *at; at++)
        buf_byte(b, (char)(*at | 0x20));
}

static void write_args(struct buf *b, const struct tc_method *m)
{
    const char *at = m->route.pattern;
    struct str name;
    buf_lit(b, ",\"args\":[");
    for (bool first = true; tc_next_param(&at, &name); first = false)
        buf_print(b, "%s\"%.*s\"", first ? "" : ",", STR_ARG(name));
    buf_lit(b, "],\"query\":[");
    for (const struct tc_query *q = m->query; q && q->name; q++)
        buf_print(b, "%s\"%s\"", q == m->query ? "" : ",", q->name);
    buf_byte(b, ']');
}

/* Within its service: those of the queue begin with their version, the others with the service. */
static const char *schema_of(const char *name)
{
    return strncmp(name, "v1/", 3) == 0 ? name : strchr(name, '/') + 1;
}

static void write_entry(struct buf *b, const struct tc_method *m)
{
    buf_print(b,
              "{\"type\":\"function\",\"name\":\"%s\",\"title\":\"%s\",\"description\":\"%s\","
              "\"category\":\"%s\",\"stability\":\"%s\",\"method\":\"",
              m->name, m->title, m->title, m->category, m->stability);
    write_method_name(b, m->route.method);
    buf_lit(b, "\",\"route\":\"");
    write_route(b, m->route.pattern);
    buf_byte(b, '"');
    write_args(b, m);
    if (m->scopes) {
        KEY(b, "scopes");
        write_expr(b, m->scopes);
    }
    if (m->input)
        buf_print(b, ",\"input\":\"%s#\"", schema_of(m->input));
    if (m->output)
        buf_print(b, ",\"output\":\"%s#\"", schema_of(m->output));
    buf_byte(b, '}');
}

/* A method that is reached by several paths has one entry; what has no category has none. */
static bool is_hidden(const struct tc_method *methods, size_t i)
{
    return !methods[i].category || (i > 0 && strcmp(methods[i].name, methods[i - 1].name) == 0);
}

static void write_api(struct buf *b, const struct tc_service *s)
{
    buf_print(b,
              "{\"$schema\":\"/schemas/common/api-reference-v0.json#\",\"apiVersion\":\"v1\","
              "\"serviceName\":\"%s\",\"title\":\"%s\",\"description\":\"%s\",\"entries\":[",
              s->name, s->title, s->description);
    for (size_t i = 0; i < *s->count; i++) {
        if (is_hidden(s->methods, i))
            continue;
        if (i)
            buf_byte(b, ',');
        write_entry(b, &s->methods[i]);
    }
    buf_lit(b, "]}");
}

static void get_reference(struct tc_call *c)
{
    struct str path = tc_param(c, "path");
    struct buf *b = tc_body(c);
    if (str_eq(path, STR("manifest.json"))) {
        buf_lit(b, "{\"$schema\":\"/schemas/common/manifest-v3.json#\",\"references\":["
                   "\"/references/queue/v1/exchanges.json\"");
        for (size_t i = 0; i < TC_APIS; i++)
            buf_print(b, ",\"/references/%s/v1/api.json\"", tc_services[i].name);
        buf_lit(b, "]}");
        tc_reply(c, b);
        return;
    }
    if (str_eq(path, STR("queue/v1/exchanges.json"))) {
        tc_exchange_reference(b);
        tc_reply(c, b);
        return;
    }
    for (size_t i = 0; i < TC_APIS; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/v1/api.json", tc_services[i].name);
        if (!str_eq(path, str_from(name)))
            continue;
        write_api(b, &tc_services[i]);
        tc_reply(c, b);
        return;
    }
    tc_fail(c, TC_RESOURCE_NOT_FOUND, "There is no reference '%.*s'.", NAME_ARG(path));
}

/* --- /schemas --- */

static bool begins(struct str s, const char *with)
{
    size_t n = strlen(with);
    return s.len > n && memcmp(s.at, with, n) == 0;
}

static bool is_below(struct str path, const char *folder)
{
    return begins(path, folder) && path.at[strlen(folder)] == '/';
}

static void get_schema(struct tc_call *c)
{
    struct str path = tc_param(c, "path"), text;
    bool queue = begins(path, "queue/");
    struct str name = queue ? (struct str){path.at + 6, path.len - 6} : path;
    struct buf *b = tc_body(c);
    bool ours = queue == begins(name, "v1/"); /* of the others the name begins with the service */
    if (!ours || !tc_schemas_text(name, &text)) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "There is no schema '%.*s'.", NAME_ARG(path));
        return;
    }
    buf_str(b, text);
    tc_reply(c, b);
}

/* --- the front ends, of one route each --- */

static const struct tc_method roots[] = {
    {{HTTP_GET, "/{path*}"}, get_reference, "reference"},
    {{HTTP_GET, "/{path*}"}, get_schema, "schema"},
    {{HTTP_GET, ""}, tc_version, "version"},
    {{HTTP_GET, ""}, tc_heartbeat, "heartbeat"},
    {{HTTP_GET, ""}, tc_heartbeat, "lbheartbeat"},
};
static const char *const prefixes[] = {"/references", "/schemas", "/__version__", "/__heartbeat__",
                                       "/__lbheartbeat__"};
_Static_assert(COUNT(roots) == TC_ROOTS && COUNT(prefixes) == TC_ROOTS, "a prefix each");

bool taskcluster_opens_to_origins(struct str path)
{
    for (size_t i = 0; i < COUNT(prefixes); i++)
        if (str_eq(path, str_from(prefixes[i])) || is_below(path, prefixes[i]))
            return true;
    return is_below(path, "/api");
}

#define ROOT(n)                                                                                    \
    static const struct route *root_##n(size_t i)                                                  \
    {                                                                                              \
        (void)i;                                                                                   \
        return &roots[n].route;                                                                    \
    }
ROOT(0)
ROOT(1)
ROOT(2)
ROOT(3)
ROOT(4)

void tc_discover_mount(struct front_end *ends, const struct front_end *like)
{
    static const struct route *(*const routes[])(size_t i) = {root_0, root_1, root_2, root_3,
                                                              root_4};
    for (size_t i = 0; i < TC_ROOTS; i++) {
        ends[i] = *like;
        ends[i].prefix = prefixes[i];
        ends[i].count = 1;
        ends[i].route = routes[i];
    }
}
