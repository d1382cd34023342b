/* SPDX-License-Identifier: Apache-2.0 */

/* The services of Taskcluster that this server has, and the answer to clients of the others. */

#include "base/alloc.h"
#include "base/must.h"
#include "taskcluster/tc_internal.h"

#define ROUTE(service, methods)                                                                    \
    static const struct route *service##_route(size_t i)                                           \
    {                                                                                              \
        return &(methods)[i].route;                                                                \
    }
ROUTE(queue, tc_methods)
ROUTE(object, tc_object_methods)
ROUTE(auth, tc_auth_methods)
ROUTE(purge, tc_purge_methods)
ROUTE(index, tc_index_methods)
ROUTE(manager, tc_manager_methods)

const struct tc_service tc_services[TC_APIS] = {
    {TC_PREFIX, "queue", "Queue", "Tasks, their runs, workers and artifacts.", tc_methods,
     &tc_method_count, RIGHTS_QUEUE, queue_route},
    {TC_OBJECT_PREFIX, "object", "Object Service", "The bytes of artifacts.", tc_object_methods,
     &tc_object_method_count, RIGHTS_OBJECT, object_route},
    {"/api/auth/v1", "auth", "Auth", "Scopes and what they stand for.", tc_auth_methods,
     &tc_auth_method_count, RIGHTS_AUTH, auth_route},
    {"/api/purge-cache/v1", "purge-cache", "Purge Cache", "Caches that workers are to drop.",
     tc_purge_methods, &tc_purge_method_count, RIGHTS_PURGE, purge_route},
    {"/api/index/v1", "index", "Index", "Tasks under names.", tc_index_methods,
     &tc_index_method_count, RIGHTS_INDEX, index_route},
    {"/api/worker-manager/v1", "worker-manager", "Worker Manager Service",
     "Workers with static secrets.", tc_manager_methods, &tc_manager_method_count, RIGHTS_MANAGER,
     manager_route},
};

const struct operation **tc_operations_new(void)
{
    size_t count = 0, at = 0;
    for (size_t s = 0; s < TC_APIS; s++)
        count += *tc_services[s].count;
    const struct operation **all = alloc_get(count * sizeof *all);
    for (size_t s = 0; s < TC_APIS; s++)
        for (size_t i = 0; i < *tc_services[s].count; i++, at++) {
            all[at] = rights_find(tc_services[s].front, tc_services[s].methods[i].name);
            must(all[at]); /* access/rights.def has every method */
        }
    return all;
}

const struct operation *tc_operation(const struct taskcluster *t, const struct tc_method *m)
{
    size_t first = 0;
    for (size_t s = 0; s < TC_APIS; s++) {
        const struct tc_method *of = tc_services[s].methods;
        if (m >= of && m < of + *tc_services[s].count)
            return t->operations[first + (size_t)(m - of)];
        first += *tc_services[s].count;
    }
    must(false); /* a method of no service has no operation */
    return NULL;
}

/* --- the others --- */

static const struct route *no_route(size_t i)
{
    (void)i;
    return NULL;
}

/* "hooks" of "/api/hooks/v1/hooks". */
static struct str service_of(struct str path)
{
    static const struct str api = {"/api/", 5};
    struct str name = {path.at + api.len, path.len > api.len ? path.len - api.len : 0};
    const char *end = name.len ? memchr(name.at, '/', name.len) : NULL;
    name.len = end ? (size_t)(end - name.at) : name.len;
    return name;
}

static void refuse_service(void *ctx, struct http_exchange *x, const struct http_request *req,
                           const struct err *err, struct str allow)
{
    struct tc_call *c = tc_call_of_nothing(ctx, x, req);
    struct buf there = {0};
    (void)err;
    (void)allow;
    for (size_t s = 0; s < TC_APIS; s++)
        buf_print(&there, "%s%s", s ? ", " : "", tc_services[s].name);
    tc_fail(c, TC_RESOURCE_NOT_FOUND,
            "This server has no service '%.*s' with that version. Of Taskcluster's services it has "
            "these, for tasks and their workers: %.*s.",
            NAME_ARG(service_of(req->path)), STR_ARG(buf_view(&there)));
    buf_fini(&there);
}

void tc_services_mount(struct front_end *ends, const struct front_end *like)
{
    for (size_t s = 0; s < TC_APIS; s++) {
        ends[s] = *like;
        ends[s].prefix = tc_services[s].prefix;
        ends[s].count = *tc_services[s].count;
        ends[s].route = tc_services[s].route;
    }
    ends[TC_APIS] = *like;
    ends[TC_APIS].prefix = "/api";
    ends[TC_APIS].count = 0;
    ends[TC_APIS].route = no_route;
    ends[TC_APIS].refuse = refuse_service;
}
