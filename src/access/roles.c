/* SPDX-License-Identifier: Apache-2.0 */
#include "access/roles.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/strmap.h"

static const struct str assume = {"assume:", 7};
static const struct str parameter = {"<..>", 4};

static bool has_star(struct str s)
{
    return s.len > 0 && s.at[s.len - 1] == '*';
}

static struct str stem_of(struct str s)
{
    return (struct str){s.at, s.len - has_star(s)};
}

static bool continues(struct str s, struct str beginning)
{
    return s.len >= beginning.len &&
           (beginning.len == 0 || memcmp(s.at, beginning.at, beginning.len) == 0);
}

static const char *find_parameter(struct str scope)
{
    return scope.len ? memmem(scope.at, scope.len, parameter.at, parameter.len) : NULL;
}

struct err role_check(const struct role *r)
{
    if (r->id.len == 0 || r->id.len > SCOPE_LENGTH_MAX - assume.len ||
        scope_check(r->id).code != ERR_OK)
        return err_make(ERR_BAD_NAME,
                        "roleId consists of printable ASCII characters, with at most one '*' at "
                        "its end, 1 to %zu characters",
                        SCOPE_LENGTH_MAX - assume.len);
    for (size_t i = 0; i < r->count; i++)
        if (!has_star(r->id) && find_parameter(r->scopes[i]))
            return err_make(ERR_BAD_VALUE,
                            "<..> needs a roleId that ends in '*', whose place it takes");
    return err_none();
}

/* --- the order --- */

/* By the text before a star, with the star first: whatever continues a role comes after it. */
static int compare(const void *a, const void *b)
{
    const struct role *x = a, *y = b;
    int c = str_cmp(stem_of(x->id), stem_of(y->id));
    return c ? c : (int)has_star(y->id) - (int)has_star(x->id);
}

bool roles_sort(struct roles *r)
{
    if (r->count)
        qsort(r->at, r->count, sizeof *r->at, compare);
    for (size_t i = 1; i < r->count; i++) {
        const struct role *before = &r->at[i - 1];
        if (str_eq(before->id, r->at[i].id))
            return false;
        while (before &&
               !(has_star(before->id) && continues(stem_of(r->at[i].id), stem_of(before->id))))
            before = before->outer;
        r->at[i].outer = before;
    }
    return true;
}

/* The first role whose text before a star does not come before this one. */
static size_t lower_bound(const struct roles *r, struct str stem)
{
    size_t lo = 0, hi = r->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (str_cmp(stem_of(r->at[mid].id), stem) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* --- expanding --- */

struct expansion {
    const struct roles *roles;
    struct arena *arena;
    struct strmap seen; /* every scope that was added */
    struct str *at;
    size_t count, cap;
    bool full;
};

static void add(struct expansion *e, struct str scope)
{
    static char there;
    if (scope.len > SCOPE_LENGTH_MAX || strmap_get(&e->seen, scope))
        return;
    e->full = e->full || e->count == SCOPES_MAX;
    if (e->full)
        return;
    ARENA_GROW(e->arena, e->at, e->count, e->cap, 16);
    e->at[e->count++] = scope;
    strmap_put(&e->seen, scope, &there);
}

/* With the parameter in its place; if that ends in a star, nothing can follow it. */
static struct str filled(struct expansion *e, struct str scope, struct str param)
{
    const char *place = find_parameter(scope);
    struct buf b = {0};
    if (!place)
        return scope;
    size_t before = (size_t)(place - scope.at), after = before + parameter.len;
    buf_add(&b, scope.at, before);
    buf_str(&b, param);
    if (!has_star(param))
        buf_add(&b, scope.at + after, scope.len - after);
    struct str made = arena_copy(e->arena, buf_view(&b));
    buf_fini(&b);
    return made;
}

static void add_role(struct expansion *e, const struct role *role, struct str param)
{
    for (size_t i = 0; i < role->count && !e->full; i++) {
        struct str scope = has_star(role->id) ? filled(e, role->scopes[i], param) : role->scopes[i];
        if (scope_check(scope).code == ERR_OK)
            add(e, scope);
    }
}

/* Those with a star that the name continues, from the longest on. */
static void add_outer(struct expansion *e, const struct role *role, struct str name)
{
    for (; role; role = role->outer) {
        struct str stem = stem_of(role->id);
        if (has_star(role->id) && continues(stem_of(name), stem))
            add_role(e, role, (struct str){name.at + stem.len, name.len - stem.len});
    }
}

/* The name may end in a star. */
static void add_named(struct expansion *e, struct str name)
{
    const struct roles *r = e->roles;
    size_t i = lower_bound(r, stem_of(name));
    const struct role *before = i ? &r->at[i - 1] : NULL;
    for (; i < r->count && !e->full; i++) {
        const struct role *role = &r->at[i];
        bool same = str_eq(stem_of(role->id), stem_of(name));
        if (!same && !(has_star(name) && continues(stem_of(role->id), stem_of(name))))
            break;
        if (has_star(name))
            add_role(e, role, STR("*"));
        else
            add_role(e, role, STR(""));
    }
    add_outer(e, before, name);
}

static void add_roles_of(struct expansion *e, struct str scope)
{
    if (continues(scope, assume))
        add_named(e, (struct str){scope.at + assume.len, scope.len - assume.len});
    else if (has_star(scope) && continues(assume, stem_of(scope)))
        add_named(e, STR("*"));
}

struct err roles_expand(const struct roles *r, const struct scope_set *scopes, struct arena *a,
                        struct scope_set *out)
{
    struct expansion e = {.roles = r, .arena = a};
    for (size_t i = 0; i < scopes->count; i++)
        add(&e, scopes->at[i]);
    add(&e, STR(ROLE_ANONYMOUS));
    for (size_t done = 0, depth = 0; r->count && done < e.count && depth < ROLES_DEPTH; depth++)
        for (size_t level = e.count; done < level; done++)
            add_roles_of(&e, e.at[done]);
    strmap_fini(&e.seen);
    if (e.full)
        return err_make(ERR_TOO_MANY, "with those of their roles they are more than %d scopes",
                        SCOPES_MAX);
    return scope_set_make(e.at, e.count, a, out, NULL);
}
