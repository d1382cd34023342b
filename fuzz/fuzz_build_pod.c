/* SPDX-License-Identifier: Apache-2.0 */

/* A buildConfig of any kind, by the built-in template: what becomes a pod is JSON, has the names
 * and labels by which the worker finds it, mounts nothing outside of the cache, and contains the
 * token nowhere but in its arguments. Any text as a template with blocks: what is left of it has
 * none. */

#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "builds/build_pod.h"
#include "kube/kube_blocks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct build_settings settings;
static struct build_pod_template *template;

static char *no_variable(const char *name)
{
    (void)name;
    return NULL;
}

static void begin(void)
{
    static const struct {
        enum build_setting which;
        const char *text;
    } rows[] = {
        {BUILD_PREFIX, "p-"},
        {BUILD_CACHE_STRATEGY, "disk"},
        {BUILD_CACHE_PATH, "/cache"},
        {BUILD_DOCKER, "true"},
        {BUILD_DISK_SPEED, "speed"},
        {BUILD_NODE_SELECTORS, "{\"a\":\"b\"}"},
        {BUILD_HOOKS, "{\"preStop\":{}}"},
        {BUILD_VOLUME_MOUNTS, "[{\"name\":\"a\",\"mountPath\":\"/a\",\"path\":\"/b\"}]"},
    };
    must(build_settings_read(&settings, NULL, no_variable).code == ERR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        must(build_settings_set(&settings, rows[i].which, rows[i].text).code == ERR_OK);
    must(build_pod_template_read(&settings, &template).code == ERR_OK);
}

static bool starts(struct str s, struct str with)
{
    return s.len >= with.len && memcmp(s.at, with.at, with.len) == 0;
}

static bool has(struct str s, struct str part)
{
    return s.at && memmem(s.at, s.len, part.at, part.len);
}

static void check_volumes(const struct document_node *spec)
{
    const struct document_node *volumes = document_member(spec, "volumes");
    must(volumes && volumes->type == DOCUMENT_LIST && volumes->count >= 8);
    for (const struct document_node *v = volumes->first; v; v = v->next) {
        const struct document_node *host = document_member(v, "hostPath");
        struct str path = host ? document_text(host, "path") : STR("/b");
        must(starts(path, STR("/cache/p-/")) || starts(path, STR("/opt/screwdriver/tmp_")) ||
             str_eq(path, STR("/opt/screwdriver/sdlauncher/stable")) || str_eq(path, STR("/b")));
        must(!has(path, STR("/../")) && !has(path, STR("//")));
    }
}

static void check_pod(const struct build_pod *pod, struct arena *a)
{
    struct document_list list;
    struct document_fault fault;
    must(document_read(pod->json, DOCUMENT_JSON, a, &list, &fault));
    const struct document_node *metadata = document_member(list.first, "metadata");
    const struct document_node *labels = document_member(metadata, "labels");
    const struct document_node *spec = document_member(list.first, "spec");
    must(str_eq(document_text(metadata, "name"), pod->name));
    must(str_eq(document_text(labels, "sdbuild"), pod->build) && starts(pod->build, STR("p-")));
    must(pod->name.len == pod->build.len + 6 && starts(pod->name, pod->build));
    for (const struct document_node *l = labels->first; l; l = l->next)
        must(l->type == DOCUMENT_STRING && l->text.len <= 63);
    must(str_eq(document_text(spec, "restartPolicy"), STR("Never")));
    const struct document_node *containers = document_member(spec, "containers");
    must(str_eq(document_text(containers->first, "name"), pod->build));
    must(document_text(containers->first, "image").len > 0);
    check_volumes(spec);
}

static void check_config(const struct document_node *config, struct arena *a)
{
    struct build_pod pod, again;
    if (build_pod_make(template, config, a, &pod).code != ERR_OK)
        return;
    check_pod(&pod, a);
    must(build_pod_make(template, config, a, &again).code == ERR_OK);
    must(str_eq(pod.json, again.json));
    must(build_pod_preview(template, config, a, &again).code == ERR_OK);
    must(has(again.json, STR("\\\"(hidden)\\\"")));
}

static const struct document_node *look_up(const void *root, struct str name)
{
    return kube_template_path(root, name);
}

static void check_blocks(struct str text, const struct document_node *values, struct arena *a)
{
    struct kube_blocks *blocks;
    struct kube_expansion e;
    struct document_fault fault = {0};
    if (!kube_blocks_read(text, a, &blocks, &fault)) {
        must(fault.expected[0] && fault.line > 0);
        return;
    }
    if (!kube_blocks_expand(blocks, look_up, values, a, &e, &fault))
        return;
    must(!has(e.text, STR("{{#")));
    must(e.line_count > 0);
    for (size_t i = 0; i < e.line_count; i++)
        must(e.lines[i] > 0 && e.lines[i] <= text.len + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char values[] = "{\"a\": [{\"b\": 1}, {\"b\": 0}], \"t\": true, \"f\": false}";
    struct str text = {(const char *)data, size};
    struct arena a = {0};
    struct document_list list;
    struct document_fault fault;
    if (!template)
        begin();
    if (document_read(text, DOCUMENT_JSON, &a, &list, &fault))
        check_config(list.first, &a);
    must(document_read(str_from(values), DOCUMENT_JSON, &a, &list, &fault));
    check_blocks(text, list.first, &a);
    arena_fini(&a);
    return 0;
}
