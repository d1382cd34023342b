/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_resources.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/quantity.h"

static const struct {
    const char *name;
    uint64_t scale, max;
    void (*write)(struct buf *b, uint64_t amount);
} resources[] = {
    [POD_MEMORY] = {"memory", 1, QUANTITY_MAX, quantity_write},
    [POD_CPU] = {"cpu", 1000, QUANTITY_CPU_MAX, quantity_write_cpu},
};

static struct document_node *member(struct document_node *map, const char *key)
{
    struct document_node *n = map && map->type == DOCUMENT_MAP ? map->first : NULL;
    while (n && !str_eq(n->key, str_from(key)))
        n = n->next;
    return n && n->type == DOCUMENT_NULL ? NULL : n;
}

/* Kubernetes accepts a number where it is one. */
static bool read_amount(const struct document_node *n, enum pod_resource what, uint64_t *amount)
{
    return n && (n->type == DOCUMENT_STRING || n->type == DOCUMENT_NUMBER) &&
           quantity_read(n->text, resources[what].scale, resources[what].max, amount);
}

static struct document_node *amount_node(enum pod_resource what, uint64_t amount, struct arena *a)
{
    struct buf b = {0};
    resources[what].write(&b, amount);
    struct document_node *n = document_string(a, arena_copy(a, buf_view(&b)));
    buf_fini(&b);
    return n;
}

/* --- growing --- */

struct growth {
    enum pod_resource what;
    uint64_t now, from;
    const char *source;
    struct arena *arena;
};

static uint64_t grow(const struct growth *g, uint64_t amount)
{
    unsigned __int128 grown = ((unsigned __int128)amount * g->now + g->from - 1) / g->from;
    return grown > resources[g->what].max ? resources[g->what].max : (uint64_t)grown;
}

/* list is "limits" or "requests". */
static struct err grow_list(const struct growth *g, struct document_node *container,
                            const char *list)
{
    struct document_node *n = member(member(member(container, "resources"), list), //
                                     resources[g->what].name);
    uint64_t amount;
    if (!n)
        return err_none();
    if (!read_amount(n, g->what, &amount))
        return err_make(ERR_BAD_VALUE, "%s: resources: %s: %s: expected an amount, found \"%.*s\"",
                        g->source, list, resources[g->what].name, NAME_ARG(n->text));
    const struct document_node *grown = amount_node(g->what, grow(g, amount), g->arena);
    n->type = grown->type;
    n->text = grown->text;
    return err_none();
}

static struct err grow_all(const struct growth *g, struct document_node *spec, const char *key)
{
    struct document_node *list = member(spec, key);
    for (struct document_node *c = list ? list->first : NULL; c; c = c->next) {
        TRY(grow_list(g, c, "limits"));
        TRY(grow_list(g, c, "requests"));
    }
    return err_none();
}

/* --- a pod of one container --- */

static bool states(struct document_node *container, enum pod_resource what)
{
    struct document_node *r = member(container, "resources");
    const char *name = resources[what].name;
    return member(member(r, "limits"), name) || member(member(r, "requests"), name);
}

static struct document_node *enter(struct document_node *map, const char *key, struct arena *a)
{
    struct document_node *n = member(map, key);
    return n ? n : document_set(map, key, document_map(a));
}

/* What the only container does not say the job does; whether it is well-formed the API server will
 * say. */
static void give(const struct growth *g, struct document_node *spec)
{
    struct document_node *list = member(spec, "containers"), *only = list ? list->first : NULL;
    if (!only || only->next || only->type != DOCUMENT_MAP || states(only, g->what))
        return;
    struct document_node *r = enter(only, "resources", g->arena);
    if (r->type != DOCUMENT_MAP)
        return;
    struct document_node *limits = enter(r, "limits", g->arena);
    struct document_node *requests = enter(r, "requests", g->arena);
    const char *name = resources[g->what].name;
    if (limits->type == DOCUMENT_MAP)
        document_set(limits, name, amount_node(g->what, g->now, g->arena));
    if (requests->type == DOCUMENT_MAP)
        document_set(requests, name, amount_node(g->what, g->now, g->arena));
}

static struct err apply(const struct growth *g, struct document_node *spec)
{
    if (g->now == 0)
        return err_none();
    if (g->from && g->now != g->from) {
        TRY(grow_all(g, spec, "initContainers"));
        TRY(grow_all(g, spec, "containers"));
    }
    give(g, spec);
    return err_none();
}

struct err pod_resources_apply(const char *source, const struct pod_job *job,
                               struct document_node *spec, struct arena *a)
{
    const struct growth memory = {POD_MEMORY, job->memory, job->memory_from, source, a};
    const struct growth cpu = {POD_CPU, job->cpu, job->cpu_from, source, a};
    TRY(apply(&memory, spec));
    return apply(&cpu, spec);
}

/* --- adding up --- */

static const struct document_node *look(const struct document_node *map, const char *key)
{
    return map ? document_member(map, key) : NULL;
}

static uint64_t request_of(const struct document_node *container, enum pod_resource what)
{
    const struct document_node *r = document_member(container, "resources");
    const char *name = resources[what].name;
    uint64_t amount = 0;
    if (!read_amount(look(look(r, "requests"), name), what, &amount))
        read_amount(look(look(r, "limits"), name), what, &amount);
    return amount;
}

static bool is_sidecar(const struct document_node *container)
{
    return str_eq(document_text(container, "restartPolicy"), STR("Always"));
}

/* Never over the most, so that no sum of sums overflows. */
static uint64_t add(uint64_t a, uint64_t b, enum pod_resource what)
{
    return a + b > resources[what].max ? resources[what].max : a + b;
}

/* Sidecars run beside everything that comes after them. */
uint64_t pod_resources_total(const struct document_node *spec, enum pod_resource what)
{
    uint64_t together = 0, alone = 0;
    const struct document_node *inits = document_member(spec, "initContainers");
    const struct document_node *list = document_member(spec, "containers");
    for (const struct document_node *c = inits ? inits->first : NULL; c; c = c->next) {
        uint64_t sum = add(together, request_of(c, what), what);
        if (is_sidecar(c))
            together = sum;
        alone = sum > alone ? sum : alone;
    }
    for (const struct document_node *c = list ? list->first : NULL; c; c = c->next)
        together = add(together, request_of(c, what), what);
    return together > alone ? together : alone;
}
