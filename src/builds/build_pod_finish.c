/* SPDX-License-Identifier: Apache-2.0 */

/* What a pod gets after its template: name, labels, annotations, node selectors, lifecycle hooks.
 */

#include "base/array.h"
#include "base/decimal.h"
#include "builds/build_pod_internal.h"

#define LABEL_MAX        63
#define PREFERRED_WEIGHT 100
#define REQUIRED         "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED        "preferredDuringSchedulingIgnoredDuringExecution"

/* One pod being finished. */
struct finish {
    const struct build_settings *s;
    const struct build_pod_ask *ask;
    struct arena *a;
};

/* --- the tree --- */

static struct document_node *member(struct document_node *map, const char *key)
{
    struct document_node *n = map->type == DOCUMENT_MAP ? map->first : NULL;
    while (n && !str_eq(n->key, str_from(key)))
        n = n->next;
    return n && n->type == DOCUMENT_NULL ? NULL : n;
}

/* The member, made if it is not there; an error if it is something else. */
static struct err enter(const struct finish *f, struct document_node *map, const char *key,
                        enum document_type type, struct document_node **out)
{
    *out = member(map, key);
    if (!*out) {
        *out =
            document_set(map, key, type == DOCUMENT_MAP ? document_map(f->a) : document_list(f->a));
        return err_none();
    }
    if ((*out)->type == type)
        return err_none();
    return err_make(ERR_BAD_VALUE, "the pod's template: %s must be %s", key,
                    type == DOCUMENT_MAP ? "an object" : "a list");
}

static void add_text(const struct finish *f, struct document_node *map, const char *key,
                     struct str text)
{
    document_add(map, key, document_string(f->a, text));
}

/* Under a key that is no C string. */
static void set_text(const struct finish *f, struct document_node *map, struct str key,
                     struct str text)
{
    struct document_node *n = map->first;
    while (n && !str_eq(n->key, key))
        n = n->next;
    if (!n) {
        n = document_string(f->a, text);
        n->key = key;
        document_attach(map, n);
    }
    n->type = DOCUMENT_STRING;
    n->text = text;
}

/* --- settings --- */

static const struct {
    enum build_setting setting;
    const char *variable;
} objects[] = {
    {BUILD_POD_LABELS, "K8S_POD_LABELS"},
    {BUILD_NODE_SELECTORS, "K8S_NODE_SELECTORS"},
    {BUILD_PREFERRED_SELECTORS, "K8S_PREFERRED_NODE_SELECTORS"},
    {BUILD_ANNOTATIONS, "K8S_ANNOTATIONS"},
};

struct err build_pod_finish_check(const struct build_settings *s)
{
    for (size_t i = 0; i < COUNT(objects); i++)
        for (const struct document_node *n = s->values[objects[i].setting].tree->first; n;
             n = n->next)
            if (n->type == DOCUMENT_LIST || n->type == DOCUMENT_MAP)
                return err_make(ERR_USAGE, "%s: %.*s must be a text", objects[i].variable,
                                NAME_ARG(n->key));
    if (document_member(s->values[BUILD_POD_LABELS].tree, "sdbuild"))
        return err_make(ERR_USAGE, "K8S_POD_LABELS: sdbuild is for the worker to set: it finds the "
                                   "pods of a build by it");
    return err_none();
}

/* --- labels and annotations --- */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* As the original: each run of other characters is a dot; 63 characters; letters or digits at both
 * ends. */
static struct str sanitize(struct str text, struct arena *a)
{
    char *to = arena_get(a, text.len + 1);
    size_t len = 0;
    bool in_run = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        bool allowed = is_alnum(c) || c == '_' || c == '-' || c == '.';
        if (allowed)
            to[len++] = c;
        else if (!in_run)
            to[len++] = '.';
        in_run = !allowed;
    }
    while (len && !is_alnum(*to)) {
        to++;
        len--;
    }
    if (len > LABEL_MAX)
        len = LABEL_MAX;
    while (len && !is_alnum(to[len - 1]))
        len--;
    return (struct str){to, len};
}

static struct str number_text(const struct finish *f, double v)
{
    char text[DECIMAL_TEXT_MAX];
    decimal_text(v, text);
    return arena_copy(f->a, str_from(text));
}

static void set_label(const struct finish *f, struct document_node *labels, const char *key,
                      struct str text)
{
    if (text.len)
        set_text(f, labels, str_from(key), sanitize(text, f->a));
}

static void set_labels(const struct finish *f, struct document_node *labels)
{
    const struct build_pod_ask *ask = f->ask;
    set_label(f, labels, "app", STR("screwdriver"));
    set_label(f, labels, "tier", STR("builds"));
    set_label(f, labels, "screwdriver.cd/pipeline", ask->pipeline_name);
    set_label(f, labels, "screwdriver.cd/job", ask->job_name);
    set_label(f, labels, "screwdriver.cd/template_name", ask->template_name);
    set_label(f, labels, "screwdriver.cd/template_version", ask->template_version);
    set_label(f, labels, "screwdriver.cd/pr_number", ask->pr_number);
    if (ask->amount.cpu > 0)
        set_label(f, labels, "screwdriver.cd/cpu", number_text(f, (double)ask->amount.cpu / 1000));
    if (ask->amount.memory > 0)
        set_label(f, labels, "screwdriver.cd/memory", number_text(f, ask->amount.memory));
    set_label(f, labels, "screwdriver.cd/disk", str_from(ask->disk));
    for (const struct document_node *n = f->s->values[BUILD_POD_LABELS].tree->first; n; n = n->next)
        set_text(f, labels, n->key,
                 n->type == DOCUMENT_NULL ? (struct str){"", 0} : sanitize(n->text, f->a));
    set_label(f, labels, "sdbuild", ask->build);
}

static struct err set_metadata(const struct finish *f, struct document_node *pod)
{
    const struct document_node *notes = f->s->values[BUILD_ANNOTATIONS].tree;
    struct document_node *metadata, *labels, *annotations;
    TRY(enter(f, pod, "metadata", DOCUMENT_MAP, &metadata));
    document_set(metadata, "name", document_string(f->a, f->ask->name));
    TRY(enter(f, metadata, "labels", DOCUMENT_MAP, &labels));
    set_labels(f, labels);
    if (notes->count == 0)
        return err_none();
    TRY(enter(f, metadata, "annotations", DOCUMENT_MAP, &annotations));
    for (const struct document_node *n = notes->first; n; n = n->next)
        if (n->type != DOCUMENT_NULL)
            set_text(f, annotations, n->key, n->text);
    return err_none();
}

/* --- node selectors --- */

/* The selectors of the settings, and the speed of the disk that the build asks for; the settings
 * have the last word. */
static struct document_node *selectors(const struct finish *f)
{
    struct document_node *map = document_map(f->a);
    const char *speed = build_text(f->s, BUILD_DISK_SPEED);
    if (*speed && f->ask->disk_speed.len)
        set_text(f, map, str_from(speed), f->ask->disk_speed);
    for (const struct document_node *n = f->s->values[BUILD_NODE_SELECTORS].tree->first; n;
         n = n->next)
        if (n->type != DOCUMENT_NULL)
            set_text(f, map, n->key, n->text);
    return map;
}

static void add_expression(const struct finish *f, struct document_node *list, struct str key,
                           struct str value)
{
    struct document_node *e = document_add(list, "", document_map(f->a));
    add_text(f, e, "key", key);
    add_text(f, e, "operator", STR("In"));
    struct document_node *values = document_add(e, "values", document_list(f->a));
    document_add(values, "", document_string(f->a, value));
}

static struct err node_affinity(const struct finish *f, struct document_node *spec,
                                struct document_node **out)
{
    TRY(enter(f, spec, "affinity", DOCUMENT_MAP, out));
    return enter(f, *out, "nodeAffinity", DOCUMENT_MAP, out);
}

/* Any of the terms would do, so that each of them has to have the selectors. */
static struct err require(const struct finish *f, struct document_node *spec,
                          const struct document_node *map)
{
    struct document_node *n, *terms, *tolerations, *list;
    TRY(enter(f, spec, "tolerations", DOCUMENT_LIST, &tolerations));
    for (const struct document_node *m = map->first; m; m = m->next) {
        struct document_node *t = document_add(tolerations, "", document_map(f->a));
        add_text(f, t, "key", m->key);
        add_text(f, t, "value", m->text);
        add_text(f, t, "effect", STR("NoSchedule"));
        add_text(f, t, "operator", STR("Equal"));
    }
    TRY(node_affinity(f, spec, &n));
    TRY(enter(f, n, REQUIRED, DOCUMENT_MAP, &n));
    TRY(enter(f, n, "nodeSelectorTerms", DOCUMENT_LIST, &terms));
    if (terms->count == 0)
        document_add(terms, "", document_map(f->a));
    for (struct document_node *term = terms->first; term; term = term->next) {
        if (term->type != DOCUMENT_MAP)
            return err_make(ERR_BAD_VALUE, "the pod's template: nodeSelectorTerms must be objects");
        TRY(enter(f, term, "matchExpressions", DOCUMENT_LIST, &list));
        for (const struct document_node *m = map->first; m; m = m->next)
            add_expression(f, list, m->key, m->text);
    }
    return err_none();
}

static struct err prefer(const struct finish *f, struct document_node *spec,
                         const struct document_node *map)
{
    struct document_node *n;
    TRY(node_affinity(f, spec, &n));
    TRY(enter(f, n, PREFERRED, DOCUMENT_LIST, &n));
    struct document_node *one = document_add(n, "", document_map(f->a));
    document_add(one, "weight", document_int(f->a, PREFERRED_WEIGHT));
    n = document_add(one, "preference", document_map(f->a));
    n = document_add(n, "matchExpressions", document_list(f->a));
    for (const struct document_node *m = map->first; m; m = m->next)
        if (m->type != DOCUMENT_NULL)
            add_expression(f, n, m->key, m->text);
    return err_none();
}

static struct err set_selectors(const struct finish *f, struct document_node *spec)
{
    const struct document_node *preferred = f->s->values[BUILD_PREFERRED_SELECTORS].tree;
    const struct document_node *map = selectors(f);
    if (map->count)
        TRY(require(f, spec, map));
    return preferred->count ? prefer(f, spec, preferred) : err_none();
}

/* --- the rest --- */

static void set_hooks(const struct finish *f, struct document_node *containers)
{
    const struct document_node *hooks = f->s->values[BUILD_HOOKS].tree;
    for (struct document_node *c = containers->first; c && hooks->count; c = c->next) {
        if (!str_eq(document_text(c, "name"), f->ask->build))
            continue;
        struct document_node *copy = ARENA_NEW(f->a, struct document_node);
        *copy = *hooks;
        copy->next = NULL;
        document_set(c, "lifecycle", copy);
        return;
    }
}

/* Members that are null say nothing. At most as deep as a document may be, and what was added. */
static void drop_nulls(struct document_node *n)
{
    struct document_node **at = &n->first, *last = NULL;
    if (n->type != DOCUMENT_LIST && n->type != DOCUMENT_MAP)
        return;
    while (*at) {
        if (n->type == DOCUMENT_MAP && (*at)->type == DOCUMENT_NULL) {
            *at = (*at)->next;
            n->count--;
            continue;
        }
        drop_nulls(*at);
        last = *at;
        at = &last->next;
    }
    n->last = last;
}

struct err build_pod_finish(const struct build_settings *s, const struct build_pod_ask *ask,
                            struct document_node *pod, struct arena *a)
{
    struct finish f = {s, ask, a};
    struct document_node *spec, *containers;
    if (pod->type != DOCUMENT_MAP || !str_eq(document_text(pod, "kind"), STR("Pod")))
        return err_make(ERR_BAD_VALUE, "the pod's template must have kind: Pod");
    TRY(enter(&f, pod, "spec", DOCUMENT_MAP, &spec));
    TRY(enter(&f, spec, "containers", DOCUMENT_LIST, &containers));
    drop_nulls(pod);
    TRY(set_metadata(&f, pod));
    /* A build that is run again would report as one that has ended. */
    if (!member(spec, "restartPolicy"))
        document_set(spec, "restartPolicy", document_string(a, STR("Never")));
    TRY(set_selectors(&f, spec));
    set_hooks(&f, containers);
    return err_none();
}
