/* SPDX-License-Identifier: Apache-2.0 */
#include "access/scope_expr.h"

#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"

/* --- parameters --- */

static const struct scope_param *find(const struct scope_params *p, struct str name)
{
    for (size_t i = 0; i < p->count; i++)
        if (str_eq(str_from(p->at[i].name), name))
            return &p->at[i];
    return NULL;
}

/* An element of a list, while its name is bound to it. */
struct element {
    struct str name, value;
};

static struct str value_of(struct str name, const struct element *element,
                           const struct scope_params *p)
{
    if (element && str_eq(name, element->name))
        return element->value;
    const struct scope_param *param = find(p, name);
    must(param);
    return param->value;
}

/* The text with its parameters filled in. Values are not expanded: a '<' in them is only a
 * character. */
static void fill(const char *template, const struct element *element, const struct scope_params *p,
                 struct buf *b)
{
    for (const char *open; (open = strchr(template, '<'));) {
        const char *close = strchr(open, '>');
        must(close);
        buf_add(b, template, (size_t)(open - template));
        buf_str(b, value_of((struct str){open + 1, (size_t)(close - open - 1)}, element, p));
        template = close + 1;
    }
    buf_str(b, str_from(template));
}

/* --- satisfaction --- */

struct eval {
    const struct scope_params *params;
    const struct scope_set *have;
    struct buf scope; /* the current one */
};

static bool has_scope(struct eval *v, const char *template, const struct element *element)
{
    v->scope.len = 0;
    fill(template, element, v->params, &v->scope);
    return scope_set_satisfies(v->have, buf_view(&v->scope));
}

static bool satisfied(struct eval *v, const struct scope_expr *e);

/* Whether satisfaction of one part, or for EACH of one of its elements, is `wanted`. */
static bool part_is(struct eval *v, const struct scope_expr *part, bool wanted)
{
    if (part->op != SCOPE_OP_EACH)
        return satisfied(v, part) == wanted;
    const struct scope_param *list = find(v->params, str_from(part->list));
    must(list);
    for (size_t i = 0; i < list->count; i++)
        if (has_scope(v, part->text, &(struct element){str_from(part->each), list->list[i]}) ==
            wanted)
            return true;
    return false;
}

static bool any_part_is(struct eval *v, const struct scope_expr *e, bool wanted)
{
    for (size_t i = 0; i < e->count; i++)
        if (part_is(v, &e->parts[i], wanted))
            return true;
    return false;
}

static bool satisfied(struct eval *v, const struct scope_expr *e)
{
    switch (e->op) {
    case SCOPE_OP_ONE:
        return has_scope(v, e->text, NULL);
    case SCOPE_OP_ALL_OF:
        return !any_part_is(v, e, false);
    case SCOPE_OP_ANY_OF:
        return any_part_is(v, e, true);
    case SCOPE_OP_EACH: /* only occurs inside of another */
        break;
    }
    must(false);
    return false;
}

bool scope_expr_satisfied(const struct scope_expr *e, const struct scope_params *p,
                          const struct scope_set *have)
{
    struct eval v = {.params = p, .have = have};
    bool ok = satisfied(&v, e);
    buf_fini(&v.scope);
    return ok;
}

/* --- writing --- */

/* Writes the parts of an expression one after the other. */
struct parts {
    struct eval *v;
    struct buf *out;
    bool missing; /* only what is not satisfied */
    size_t count; /* in this expression */
};

static void write_scope(struct buf *b, struct str scope)
{
    size_t good = utf8_check(scope);
    json_write_string(b, (struct str){scope.at, good});
}

/* Whether another part is to be written; begins it. */
static bool begin_part(struct parts *w)
{
    if (w->count++ >= SCOPE_EXPR_SHOWN)
        return false;
    if (w->count > 1)
        buf_byte(w->out, ',');
    return true;
}

static void write_one(struct parts *w, const char *template, const struct element *element)
{
    bool has = has_scope(w->v, template, element);
    if (!(w->missing && has) && begin_part(w))
        write_scope(w->out, buf_view(&w->v->scope));
}

static void write_expr(struct eval *v, const struct scope_expr *e, bool missing, struct buf *b);

static void write_part(struct parts *w, const struct scope_expr *part)
{
    if (part->op == SCOPE_OP_ONE) {
        write_one(w, part->text, NULL);
    } else if (part->op == SCOPE_OP_EACH) {
        const struct scope_param *list = find(w->v->params, str_from(part->list));
        must(list);
        for (size_t i = 0; i < list->count; i++)
            write_one(w, part->text, &(struct element){str_from(part->each), list->list[i]});
    } else if (!(w->missing && satisfied(w->v, part)) && begin_part(w)) {
        write_expr(w->v, part, w->missing, w->out);
    }
}

static void write_expr(struct eval *v, const struct scope_expr *e, bool missing, struct buf *b)
{
    struct parts w = {v, b, missing, 0};
    if (e->op == SCOPE_OP_ONE) {
        write_one(&w, e->text, NULL);
        return;
    }
    must(e->op != SCOPE_OP_EACH);
    buf_str(b, e->op == SCOPE_OP_ALL_OF ? STR("{\"AllOf\":[") : STR("{\"AnyOf\":["));
    for (size_t i = 0; i < e->count; i++)
        write_part(&w, &e->parts[i]);
    if (w.count > SCOPE_EXPR_SHOWN)
        buf_print(b, ",\"... and %zu more\"", w.count - SCOPE_EXPR_SHOWN);
    buf_lit(b, "]}");
}

void scope_expr_write(const struct scope_expr *e, const struct scope_params *p, struct buf *b)
{
    struct eval v = {.params = p, .have = &(struct scope_set){0}};
    write_expr(&v, e, false, b);
    buf_fini(&v.scope);
}

void scope_expr_write_missing(const struct scope_expr *e, const struct scope_params *p,
                              const struct scope_set *have, struct buf *b)
{
    struct eval v = {.params = p, .have = have};
    if (satisfied(&v, e))
        buf_lit(b, "null");
    else
        write_expr(&v, e, true, b);
    buf_fini(&v.scope);
}
