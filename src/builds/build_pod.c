/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_pod.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/strmap.h"
#include "builds/build_pod_internal.h"
#include "kube/kube_blocks.h"

/* What a template comes to differs only by what its blocks leave of it, in a handful of ways; each
 * is read as YAML once. */
#define VARIANTS_MAX 64

struct variant {
    struct arena memory;
    struct kube_template *holes;
    struct kube_expansion text;
};

struct build_pod_template {
    const struct build_settings *settings;
    struct arena memory;
    const char *file; /* for errors */
    struct kube_blocks *blocks;
    struct build_pod_lists lists;
    struct strmap *variants; /* by their text */
};

void build_pod_template_print(struct buf *b)
{
    buf_add(b, build_pod_builtin, build_pod_builtin_len);
}

/* --- variants --- */

static void forget_variants(struct strmap *map)
{
    for (size_t i = 0; i < map->cap; i++) {
        struct variant *v = map->slots[i].key ? map->slots[i].val : NULL;
        if (!v)
            continue;
        arena_fini(&v->memory);
        free(v);
    }
    strmap_fini(map);
    *map = (struct strmap){0};
}

static bool find_variant(const struct build_pod_template *t, const struct kube_expansion *text,
                         struct variant **out, struct document_fault *fault)
{
    *out = strmap_get(t->variants, text->text);
    if (*out)
        return true;
    struct variant *v = ALLOC(struct variant);
    struct str kept = arena_copy(&v->memory, text->text);
    if (!kube_template_read(kept, &v->memory, &v->holes, fault)) {
        arena_fini(&v->memory);
        free(v);
        return false;
    }
    if (t->variants->count == VARIANTS_MAX)
        forget_variants(t->variants);
    strmap_put(t->variants, kept, v);
    *out = v;
    return true;
}

static struct err fill(const struct build_pod_template *t, const struct document_node *values,
                       struct arena *a, struct document_node **out)
{
    struct document_fault fault = {0};
    struct kube_expansion text;
    struct variant *v;
    if (!kube_blocks_expand(t->blocks, build_pod_value, values, a, &text, &fault))
        return document_fault_in(t->file, &fault);
    if (find_variant(t, &text, &v, &fault) &&
        kube_template_fill(v->holes, build_pod_value, values, a, out, &fault))
        return err_none();
    kube_blocks_place(&text, &fault);
    return document_fault_in(t->file, &fault);
}

/* --- making --- */

static struct err make(const struct build_pod_template *t, const struct document_node *config,
                       bool hide, struct arena *a, struct build_pod *out)
{
    struct build_pod_ask ask;
    struct document_node *pod;
    struct buf b = {0};
    TRY(build_pod_ask_read(t->settings, config, a, &ask));
    if (hide)
        ask.token = STR("(hidden)");
    TRY(fill(t, build_pod_values(t->settings, &t->lists, &ask, a), a, &pod));
    TRY(build_pod_finish(t->settings, &ask, pod, a));
    document_write_json(pod, &b);
    *out = (struct build_pod){ask.build, ask.name, arena_copy(a, buf_view(&b))};
    buf_fini(&b);
    return err_none();
}

struct err build_pod_make(const struct build_pod_template *t, const struct document_node *config,
                          struct arena *a, struct build_pod *out)
{
    return make(t, config, false, a, out);
}

struct err build_pod_preview(const struct build_pod_template *t, const struct document_node *config,
                             struct arena *a, struct build_pod *out)
{
    return make(t, config, true, a, out);
}

/* --- reading a template --- */

static struct err read_text(struct build_pod_template *t, const char *file, struct str *out)
{
    struct buf b = {0};
    struct err e = err_none();
    t->file = *file ? file : "the built-in template";
    if (*file)
        e = document_load(file, &b);
    else
        build_pod_template_print(&b);
    *out = arena_copy(&t->memory, buf_view(&b));
    buf_fini(&b);
    return e;
}

/* Builds that use as much of a template as they can, and as little: what is wrong with it should
 * not wait for the first build. */
static struct err try_out(const struct build_pod_template *t)
{
    static const char *const configs[] = {
        "{\"buildId\":1,\"jobId\":1,\"eventId\":1,\"pipeline\":{\"id\":1,\"name\":\"p\"},"
        "\"jobName\":\"PR-1:a\",\"prNum\":1,\"container\":\"c\",\"token\":\"t\",\"annotations\":{"
        "\"screwdriver.cd/dockerEnabled\":true,\"screwdriver.cd/rootlessBuildkitEnabled\":true}}",
        "{\"buildId\":1,\"jobId\":1,\"eventId\":1,\"pipeline\":{\"id\":1},\"container\":\"c\","
        "\"token\":\"t\"}"};
    struct arena a = {0};
    struct err e = err_none();
    for (size_t i = 0; i < COUNT(configs) && e.code == ERR_OK; i++) {
        struct document_list list;
        struct document_fault fault;
        struct build_pod pod;
        if (!document_read(str_from(configs[i]), DOCUMENT_JSON, &a, &list, &fault))
            e = document_fault_err(&fault);
        else
            e = build_pod_make(t, list.first, &a, &pod);
    }
    arena_fini(&a);
    return e;
}

static struct err check_settings(struct build_pod_template *t)
{
    struct str label;
    if (build_pod_label(t->settings, STR("1"), &t->memory, &label).code != ERR_OK)
        return err_make(ERR_USAGE, "EXECUTOR_PREFIX must be a few letters, digits, '-', '_' and "
                                   "'.', with which names of pods may begin");
    TRY(build_pod_lists_read(t->settings, &t->memory, &t->lists));
    return build_pod_finish_check(t->settings);
}

static struct err read_template(struct build_pod_template *t)
{
    struct document_fault fault = {0};
    struct str text;
    TRY(check_settings(t));
    TRY(read_text(t, build_text(t->settings, BUILD_POD_TEMPLATE), &text));
    if (!kube_blocks_read(text, &t->memory, &t->blocks, &fault))
        return document_fault_in(t->file, &fault);
    return try_out(t);
}

struct err build_pod_template_read(const struct build_settings *s, struct build_pod_template **out)
{
    struct build_pod_template *t = ALLOC(struct build_pod_template);
    t->settings = s;
    t->variants = ALLOC(struct strmap);
    struct err e = read_template(t);
    *out = t;
    if (e.code == ERR_OK)
        return e;
    build_pod_template_free(t);
    *out = NULL;
    e.code = ERR_USAGE;
    return e;
}

void build_pod_template_free(struct build_pod_template *t)
{
    if (!t)
        return;
    forget_variants(t->variants);
    free(t->variants);
    arena_fini(&t->memory);
    free(t);
}
