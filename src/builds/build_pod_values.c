/* SPDX-License-Identifier: Apache-2.0 */

/* What the names of a template stand for; they are those of Screwdriver's own template. */

#include "base/array.h"
#include "builds/build_pod_internal.h"

/* --- the lists of the settings --- */

struct list_shape {
    enum build_setting setting;
    const char *variable;
    const char *needed[4]; /* texts that each item has */
    bool may_be_off;       /* by one empty item, as the original's */
};

static const struct list_shape shapes[] = {
    {BUILD_VOLUME_MOUNTS, "K8S_VOLUME_MOUNTS", {"name", "mountPath", "path"}, false},
    {BUILD_BUILD_SECRETS, "K8S_SECRETS", {"secret_env", "secret_name", "secret_key"}, true},
    {BUILD_BUILD_SECRET_FILES, "K8S_SECRETS_FILE", {"name", "mountPath", "secretName"}, true},
};

static struct document_node *copy_of(const struct document_node *n, struct arena *a)
{
    struct document_node *copy = ARENA_NEW(a, struct document_node);
    *copy = *n;
    copy->next = NULL;
    return copy;
}

/* The original's template turns the text "true" into a boolean; so does this, where one belongs. */
static bool make_bool(struct document_node *n)
{
    if (n->type == DOCUMENT_STRING &&
        (str_eq(n->text, STR("true")) || str_eq(n->text, STR("false"))))
        n->type = DOCUMENT_BOOL;
    return n->type == DOCUMENT_BOOL || n->type == DOCUMENT_NULL;
}

static struct err copy_item(const struct list_shape *shape, size_t index,
                            const struct document_node *item, struct arena *a,
                            struct document_node *to)
{
    for (size_t i = 0; i < COUNT(shape->needed) && shape->needed[i]; i++)
        if (document_text(item, shape->needed[i]).len == 0)
            return err_make(ERR_USAGE, "%s: item %zu: %s must be a text", shape->variable, index,
                            shape->needed[i]);
    for (const struct document_node *n = item->first; n; n = n->next) {
        struct document_node *copy = copy_of(n, a);
        if (n->type == DOCUMENT_LIST || n->type == DOCUMENT_MAP)
            return err_make(ERR_USAGE, "%s: item %zu: %.*s must be one value", shape->variable,
                            index, NAME_ARG(n->key));
        if (str_eq(n->key, STR("readOnly")) && !make_bool(copy))
            return err_make(ERR_USAGE, "%s: item %zu: readOnly must be true or false",
                            shape->variable, index);
        document_attach(to, copy);
    }
    return err_none();
}

static struct err read_list(const struct build_settings *s, const struct list_shape *shape,
                            struct arena *a, struct document_node **out)
{
    const struct document_node *from = s->values[shape->setting].tree, *n = from->first;
    size_t index = 1;
    *out = document_list(a);
    if (shape->may_be_off && from->count == 1 && n->type == DOCUMENT_MAP && n->count == 0)
        return err_none();
    for (; n; n = n->next, index++) {
        if (n->type != DOCUMENT_MAP)
            return err_make(ERR_USAGE, "%s: item %zu must be an object", shape->variable, index);
        TRY(copy_item(shape, index, n, a, document_add(*out, "", document_map(a))));
    }
    return err_none();
}

struct err build_pod_lists_read(const struct build_settings *s, struct arena *a,
                                struct build_pod_lists *out)
{
    TRY(read_list(s, &shapes[0], a, &out->mounts));
    TRY(read_list(s, &shapes[1], a, &out->secrets));
    return read_list(s, &shapes[2], a, &out->files);
}

/* --- shell --- */

/* Spells a text so that a shell has it between double quotes. Kubernetes itself takes $(NAME) for a
 * variable before any shell sees it; two quotes keep the parenthesis off the dollar sign, for both
 * of them. */
static struct str in_quotes(struct str text, struct arena *a)
{
    struct buf b = {0};
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '(' && i > 0 && text.at[i - 1] == '$')
            buf_lit(&b, "\"\"");
        if (c == '"' || c == '$' || c == '`' || c == '\\')
            buf_byte(&b, '\\');
        buf_byte(&b, c);
    }
    text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return text;
}

/* --- the names --- */

struct filler {
    const struct build_settings *s;
    struct arena *a;
    struct document_node *to;
};

static void add_str(struct filler *f, const char *name, struct str text)
{
    document_add(f->to, name, document_string(f->a, text));
}

static void add_setting(struct filler *f, const char *name, enum build_setting which)
{
    add_str(f, name, str_from(build_text(f->s, which)));
}

/* For scripts. */
static void add_quoted(struct filler *f, const char *name, enum build_setting which)
{
    add_str(f, name, in_quotes(str_from(build_text(f->s, which)), f->a));
}

static void add_bool(struct filler *f, const char *name, bool v)
{
    document_add(f->to, name, document_bool(f->a, v));
}

/* Whole numbers without a point. */
static void add_number(struct filler *f, const char *name, double v)
{
    bool whole = v >= 0 && v < 1e15 && v == (double)(int64_t)v;
    document_add(f->to, name, whole ? document_int(f->a, (int64_t)v) : document_double(f->a, v));
}

static struct filler enter(struct filler *f, const char *name)
{
    return (struct filler){f->s, f->a, document_add(f->to, name, document_map(f->a))};
}

/* <path>[/<prefix>], without a slash at its end. */
static struct str cache_root(const struct build_settings *s, struct arena *a)
{
    struct str path = str_from(build_text(s, BUILD_CACHE_PATH));
    const char *prefix = build_text(s, BUILD_PREFIX);
    struct buf b = {0};
    while (path.len && path.at[path.len - 1] == '/')
        path.len--;
    buf_str(&b, path);
    if (*prefix) {
        buf_byte(&b, '/');
        buf_str(&b, str_from(prefix));
    }
    path = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return path;
}

static void add_cache(struct filler *outer, const struct build_pod_ask *ask)
{
    struct filler f = enter(outer, "cache");
    bool disk = strcmp(build_text(f.s, BUILD_CACHE_STRATEGY), "disk") == 0;
    add_bool(&f, "diskEnabled", disk && *build_text(f.s, BUILD_CACHE_PATH));
    add_quoted(&f, "strategy", BUILD_CACHE_STRATEGY);
    add_str(&f, "path", cache_root(f.s, f.a));
    add_bool(&f, "compress", build_bool(f.s, BUILD_CACHE_COMPRESS));
    add_bool(&f, "md5check", build_bool(f.s, BUILD_CACHE_MD5));
    add_number(&f, "max_size_mb", (double)build_int(f.s, BUILD_CACHE_MAX));
    add_number(&f, "max_go_threads", (double)build_int(f.s, BUILD_CACHE_THREADS));
    add_bool(&f, "volumeReadOnly", ask->pr);
}

static void add_beside(struct filler *outer, const char *name, bool enabled,
                       const struct build_pod_amount *amount)
{
    struct filler f = enter(outer, name);
    add_bool(&f, "enabled", enabled);
    add_number(&f, "cpu", (double)amount->cpu);
    add_number(&f, "memory", amount->memory);
}

static void add_secrets(struct filler *outer, const char *name, const struct document_node *list)
{
    struct filler f = enter(outer, name);
    add_bool(&f, "disabled", list->count == 0);
    document_add(f.to, "secrets", copy_of(list, f.a));
}

static void add_build(struct filler *f, const struct build_pod_ask *ask)
{
    add_str(f, "pod_name", ask->name);
    add_str(f, "build_id", ask->build_id);
    add_str(f, "build_id_with_prefix", ask->build);
    add_str(f, "job_id", ask->job_id);
    add_str(f, "job_name", ask->job_name);
    add_str(f, "pipeline_id", ask->pipeline_id);
    add_str(f, "event_id", ask->event_id);
    add_str(f, "container", ask->container);
    add_str(f, "token", in_quotes(ask->token, f->a));
    add_number(f, "cpu", (double)ask->amount.cpu);
    add_number(f, "memory", ask->amount.memory);
    add_number(f, "build_timeout", ask->timeout);
    add_number(f, "termination_grace_period_seconds", (double)ask->grace);
    add_beside(f, "docker", ask->with_docker, &ask->docker);
    add_beside(f, "rootlessbuildkit", ask->with_buildkit, &ask->buildkit);
    add_cache(f, ask);
}

static void add_launcher(struct filler *f)
{
    struct buf b = {0};
    buf_print(&b, "%s:%s", build_text(f->s, BUILD_LAUNCH_IMAGE),
              build_text(f->s, BUILD_LAUNCH_VERSION));
    add_str(f, "launcher_image", arena_copy(f->a, buf_view(&b)));
    buf_fini(&b);
    add_setting(f, "launcher_version", BUILD_LAUNCH_VERSION);
}

struct document_node *build_pod_values(const struct build_settings *s,
                                       const struct build_pod_lists *lists,
                                       const struct build_pod_ask *ask, struct arena *a)
{
    struct filler f = {s, a, document_map(a)};
    add_build(&f, ask);
    add_launcher(&f);
    add_setting(&f, "prefix", BUILD_PREFIX);
    add_setting(&f, "runtimeClass", BUILD_RUNTIME_CLASS);
    add_setting(&f, "imagePullSecretName", BUILD_PULL_SECRET);
    add_setting(&f, "service_account", BUILD_SERVICE_ACCOUNT);
    add_setting(&f, "dns_policy", BUILD_DNS_POLICY);
    add_setting(&f, "image_pull_policy", BUILD_PULL_POLICY);
    add_setting(&f, "pushgateway_url", BUILD_PUSHGATEWAY);
    add_str(&f, "base_image", (struct str){"", 0});
    add_quoted(&f, "api_uri", BUILD_API);
    add_quoted(&f, "store_uri", BUILD_STORE);
    add_quoted(&f, "ui_uri", BUILD_UI);
    add_bool(&f, "privileged", build_bool(s, BUILD_PRIVILEGED));
    add_bool(&f, "automount_service_account_token", build_bool(s, BUILD_AUTOMOUNT));
    add_bool(&f, "sd_hab_enabled", build_bool(s, BUILD_HAB));
    document_add(f.to, "volume_mounts", copy_of(lists->mounts, a));
    add_secrets(&f, "secret_entity", lists->secrets);
    add_secrets(&f, "secret_file_entity", lists->files);
    return f.to;
}

const struct document_node *build_pod_value(const void *values, struct str name)
{
    static const struct document_node nothing = {.type = DOCUMENT_NULL};
    static const char *const lists[] = {"volume_mounts.", "secret_entity.secrets.",
                                        "secret_file_entity.secrets."};
    const struct document_node *n = kube_template_path(values, name);
    for (size_t i = 0; !n && i < COUNT(lists); i++) {
        size_t len = strlen(lists[i]);
        if (name.len > len && memcmp(name.at, lists[i], len) == 0)
            n = &nothing;
    }
    return n;
}
