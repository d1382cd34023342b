/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_manifest.h"

#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/quantity.h"
#include "executor/pod_resources.h"
#include "wire/field.h"

/* --- the job --- */

struct amounts {
    uint64_t memory, cpu;
};

struct job_parts {
    struct pod_job job;
    struct str id;
    struct amounts now, from;
};

static struct err read_amount(struct json_cursor *c, struct arena *a, uint64_t scale, uint64_t max,
                              uint64_t *out)
{
    struct str text;
    size_t at = c->pos;
    TRY(field_text(c, a, &text));
    if (quantity_read(text, scale, max, out))
        return err_none();
    return err_at(ERR_BAD_VALUE, (int64_t)at, "expected an amount");
}

static struct err read_memory(struct json_cursor *c, struct arena *a, void *out)
{
    return read_amount(c, a, 1, QUANTITY_MAX, out);
}

static struct err read_cpu(struct json_cursor *c, struct arena *a, void *out)
{
    return read_amount(c, a, 1000, QUANTITY_CPU_MAX, out);
}

static const struct field amounts_table[] = {
    {"memory", false, read_memory, offsetof(struct amounts, memory), true},
    {"cpu", false, read_cpu, offsetof(struct amounts, cpu), true},
};

static struct err read_amounts(struct json_cursor *c, struct arena *a, void *out)
{
    return field_read_object(false, c, a, amounts_table, COUNT(amounts_table), out);
}

static struct err read_i64(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 0, INT64_MAX, out);
}

/* The server names one. */
static struct err read_avoid(struct json_cursor *c, struct arena *a, void *out)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        TRY(field_text(c, a, out));
    }
}

#define JOB(member) offsetof(struct job_parts, job.member)

static const struct field job_table[] = {
    {"id", true, field_text, offsetof(struct job_parts, id)},
    {"queue", false, field_text, JOB(queue)},
    {"type", false, field_text, JOB(type)},
    {"payload", false, field_any, JOB(payload)},
    {"token", false, field_text, JOB(token), true},
    {"run", false, read_i64, JOB(run), true},
    {"attempts", false, read_i64, JOB(attempts), true},
    {"priority", false, read_i64, JOB(priority), true},
    {"avoid_nodes", false, read_avoid, JOB(avoid), true},
    {"avoid_until", false, field_instant, JOB(avoid_until), true},
    {"resources", false, read_amounts, offsetof(struct job_parts, now), true},
    {"grown_from", false, read_amounts, offsetof(struct job_parts, from), true},
};

struct err pod_manifest_job(struct str json, struct arena *a, struct pod_job *out)
{
    struct job_parts p = {0};
    struct json_cursor c = json_open(json);
    TRY(field_read_object(false, &c, a, job_table, COUNT(job_table), &p));
    TRY(json_close(&c));
    TRY(id_parse(p.id, &p.job.id));
    p.job.memory = p.now.memory;
    p.job.cpu = p.now.cpu;
    p.job.memory_from = p.from.memory;
    p.job.cpu_from = p.from.cpu;
    *out = p.job;
    return err_none();
}

enum pod_avoid pod_manifest_avoid(const struct pod_job *job, instant now, bool none_fits)
{
    if (job->avoid.len == 0)
        return POD_AVOID_NOTHING;
    return none_fits || job->avoid_until.ms <= now.ms ? POD_AVOID_PREFERRED : POD_AVOID_REQUIRED;
}

/* --- names --- */

bool pod_manifest_is_prefix(struct str prefix)
{
    if (prefix.len == 0 || prefix.len > POD_PREFIX_MAX || prefix.at[0] == '-' ||
        prefix.at[prefix.len - 1] == '-')
        return false;
    for (size_t i = 0; i < prefix.len; i++) {
        char c = prefix.at[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
            return false;
    }
    return true;
}

struct str pod_manifest_name(struct str prefix, struct id job, int64_t run, bool numbered,
                             struct arena *a)
{
    char id[ID_TEXT_LEN];
    struct buf b = {0};
    id_format(job, id);
    buf_str(&b, prefix);
    buf_print(&b, "-%.*s-0", ID_TEXT_LEN, id);
    if (numbered && run > 0)
        buf_print(&b, "-%lld", (long long)run);
    struct str name = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return name;
}

/* --- what the payload or the template says --- */

/* One pod being made. */
struct making {
    const struct pod_style *style;
    const struct pod_job *job;
    struct arena *arena;
    const char *source; /* "payload", or "template" */
    /* What was found; NULL: nothing. */
    const struct document_node *namespace, *labels, *annotations;
    struct document_node *spec;
};

static struct err bad(const struct making *m, const char *what, const char *expected)
{
    return err_make(ERR_BAD_VALUE, "%s: %s: expected %s", m->source, what, expected);
}

static struct document_node *member(struct document_node *map, const char *key)
{
    struct document_node *n = map && map->type == DOCUMENT_MAP ? map->first : NULL;
    while (n && !str_eq(n->key, str_from(key)))
        n = n->next;
    return n && n->type == DOCUMENT_NULL ? NULL : n;
}

/* {"namespace"?, "labels"?, "annotations"?, "podSpec"}: the shape of Armada's submit item. */
static struct err take_item(struct making *m, struct document_node *root)
{
    m->namespace = member(root, "namespace");
    m->labels = member(root, "labels");
    m->annotations = member(root, "annotations");
    m->spec = member(root, "podSpec");
    return m->spec && m->spec->type == DOCUMENT_MAP ? err_none()
                                                    : bad(m, "podSpec", "an object: a pod's spec");
}

/* A whole pod, as kubectl takes it. */
static struct err take_pod(struct making *m, struct document_node *root)
{
    struct document_node *metadata = member(root, "metadata");
    m->namespace = member(metadata, "namespace");
    m->labels = member(metadata, "labels");
    m->annotations = member(metadata, "annotations");
    m->spec = member(root, "spec");
    return m->spec && m->spec->type == DOCUMENT_MAP ? err_none()
                                                    : bad(m, "spec", "an object: a pod's spec");
}

static struct err fault_of(const struct making *m, const struct document_fault *fault)
{
    return document_fault_in(m->source, fault);
}

static struct err read_payload(struct making *m, struct document_node **root)
{
    struct document_list list;
    struct document_fault fault;
    m->source = "payload";
    if (!document_read(m->job->payload.len ? m->job->payload : STR("null"), DOCUMENT_JSON, m->arena,
                       &list, &fault))
        return fault_of(m, &fault);
    *root = list.first;
    return err_none();
}

/* {{job.id}}, {{job.queue}} …; {{payload.a}}; and any other name is a member of the payload. */
struct values {
    const struct document_node *payload, *job;
};

static const struct document_node *look_up(const void *ctx, struct str name)
{
    const struct values *v = ctx;
    static const struct str job = {"job.", 4}, payload = {"payload.", 8};
    if (name.len > job.len && memcmp(name.at, job.at, job.len) == 0)
        return kube_template_path(v->job, (struct str){name.at + job.len, name.len - job.len});
    if (name.len > payload.len && memcmp(name.at, payload.at, payload.len) == 0)
        name = (struct str){name.at + payload.len, name.len - payload.len};
    return kube_template_path(v->payload, name);
}

static struct document_node *job_values(const struct making *m)
{
    const struct pod_job *job = m->job;
    struct arena *a = m->arena;
    struct document_node *n = document_map(a);
    char *id = arena_get(a, ID_TEXT_LEN);
    id_format(job->id, id);
    document_add(n, "id", document_string(a, (struct str){id, ID_TEXT_LEN}));
    document_add(n, "queue", document_string(a, job->queue));
    document_add(n, "type", document_string(a, job->type));
    document_add(n, "run", document_int(a, job->run));
    document_add(n, "attempts", document_int(a, job->attempts));
    document_add(n, "priority", document_int(a, job->priority));
    return n;
}

static struct err fill_template(struct making *m)
{
    struct document_node *payload, *root;
    struct document_fault fault;
    TRY(read_payload(m, &payload));
    struct values values = {payload, job_values(m)};
    m->source = "template";
    if (!kube_template_fill(m->style->template, look_up, &values, m->arena, &root, &fault))
        return fault_of(m, &fault);
    return member(root, "podSpec") ? take_item(m, root) : take_pod(m, root);
}

static struct err find_parts(struct making *m)
{
    struct document_node *root;
    if (m->style->template)
        return fill_template(m);
    TRY(read_payload(m, &root));
    if (root->type != DOCUMENT_MAP)
        return err_make(ERR_BAD_VALUE,
                        "payload: expected an object with podSpec, and if wanted namespace, labels "
                        "and annotations");
    return take_item(m, root);
}

/* --- a template without a job --- */

static bool refuse_at(struct document_fault *fault, const struct document_node *n, const char *path,
                      const char *expected)
{
    document_refuse(fault, ERR_BAD_VALUE, n->line, n->column, "%s", expected);
    snprintf(fault->path, sizeof fault->path, "%s", path);
    return false;
}

static bool is_text(const struct document_node *n, const char *text)
{
    return !n || (n->type == DOCUMENT_STRING && str_eq(n->text, str_from(text)));
}

bool pod_manifest_check_template(const struct kube_template *t, struct document_fault *fault)
{
    const struct document_node *root = kube_template_root(t);
    if (root->type != DOCUMENT_MAP)
        return refuse_at(fault, root, "", "a mapping: a pod, or a payload with podSpec");
    const struct document_node *version = document_member(root, "apiVersion");
    const struct document_node *kind = document_member(root, "kind");
    const struct document_node *item = document_member(root, "podSpec");
    const struct document_node *spec = item ? item : document_member(root, "spec");
    if (!is_text(kind, "Pod"))
        return refuse_at(fault, kind, "kind", "Pod");
    if (!is_text(version, "v1"))
        return refuse_at(fault, version, "apiVersion", "v1");
    if (!spec || spec->type != DOCUMENT_MAP)
        return refuse_at(fault, spec ? spec : root, item ? "podSpec" : "spec",
                         "a mapping: a pod's spec");
    const struct document_node *containers = document_member(spec, "containers");
    if (!containers || containers->type != DOCUMENT_LIST || containers->count == 0)
        return refuse_at(fault, containers ? containers : spec,
                         item ? "podSpec.containers" : "spec.containers",
                         "a list of at least one container");
    return true;
}

/* --- metadata --- */

static struct err find_namespace(const struct making *m, struct str *out)
{
    *out = m->style->namespace;
    if (!m->namespace)
        return err_none();
    if (m->namespace->type != DOCUMENT_STRING || m->namespace->text.len == 0)
        return bad(m, "namespace", "a text");
    *out = m->namespace->text;
    bool allowed = str_eq(*out, m->style->namespace);
    for (size_t i = 0; !allowed && i < m->style->also_count; i++)
        allowed = str_eq(*out, str_from(m->style->also[i]));
    if (allowed)
        return err_none();
    return err_make(ERR_BAD_VALUE,
                    "%s: namespace: '%.*s' is not one of those that this executor may use",
                    m->source, NAME_ARG(*out));
}

static bool is_ours(struct str key)
{
    static const char *const ours[] = {POD_LABEL_JOB,  POD_LABEL_RUN, POD_LABEL_EXECUTOR,
                                       POD_NOTE_QUEUE, POD_NOTE_TYPE, POD_NOTE_AVOID};
    for (size_t i = 0; i < COUNT(ours); i++)
        if (str_eq(key, str_from(ours[i])))
            return true;
    return false;
}

/* A copy of labels or annotations: texts by names. */
static struct err copy_texts(const struct making *m, const struct document_node *from,
                             const char *what, struct document_node **out)
{
    *out = document_map(m->arena);
    if (!from)
        return err_none();
    if (from->type != DOCUMENT_MAP)
        return bad(m, what, "an object");
    for (const struct document_node *n = from->first; n; n = n->next) {
        if (n->type != DOCUMENT_STRING)
            return err_make(ERR_BAD_VALUE, "%s: %s: %.*s: expected a text", m->source, what,
                            NAME_ARG(n->key));
        if (is_ours(n->key))
            return err_make(ERR_BAD_VALUE, "%s: %s: %.*s is for the executor to set", m->source,
                            what, NAME_ARG(n->key));
        struct document_node *copy = document_string(m->arena, n->text);
        copy->key = n->key;
        document_attach(*out, copy);
    }
    return err_none();
}

static void add_text(const struct making *m, struct document_node *map, const char *key,
                     struct str text)
{
    document_add(map, key, document_string(m->arena, text));
}

static struct err add_metadata(const struct making *m, enum pod_avoid avoid,
                               const struct pod_manifest *out, struct document_node *pod)
{
    struct arena *a = m->arena;
    struct document_node *labels, *annotations;
    char id[ID_TEXT_LEN], run[24];
    id_format(m->job->id, id);
    snprintf(run, sizeof run, "%lld", (long long)m->job->run);
    TRY(copy_texts(m, m->labels, "labels", &labels));
    TRY(copy_texts(m, m->annotations, "annotations", &annotations));
    add_text(m, labels, POD_LABEL_JOB, arena_copy(a, (struct str){id, ID_TEXT_LEN}));
    add_text(m, labels, POD_LABEL_RUN, arena_copy(a, str_from(run)));
    add_text(m, labels, POD_LABEL_EXECUTOR, m->style->executor);
    add_text(m, annotations, POD_NOTE_QUEUE, m->job->queue);
    add_text(m, annotations, POD_NOTE_TYPE, m->job->type);
    if (avoid != POD_AVOID_NOTHING) {
        struct buf b = {0};
        buf_str(&b, m->job->avoid);
        buf_str(&b, avoid == POD_AVOID_REQUIRED ? STR(" (required)") : STR(" (preferred)"));
        add_text(m, annotations, POD_NOTE_AVOID, arena_copy(a, buf_view(&b)));
        buf_fini(&b);
    }
    struct document_node *metadata = document_add(pod, "metadata", document_map(a));
    add_text(m, metadata, "name", out->name);
    add_text(m, metadata, "namespace", out->namespace);
    document_add(metadata, "labels", labels);
    document_add(metadata, "annotations", annotations);
    return err_none();
}

/* --- the node to avoid --- */

/* The member, which is made if it is not there; an error if it is something else. */
static struct err enter(const struct making *m, struct document_node *map, const char *key,
                        enum document_type type, struct document_node **out)
{
    char what[64];
    *out = member(map, key);
    if (!*out) {
        *out = document_set(
            map, key, type == DOCUMENT_MAP ? document_map(m->arena) : document_list(m->arena));
        return err_none();
    }
    snprintf(what, sizeof what, "affinity: %s", key);
    return (*out)->type == type ? err_none()
                                : bad(m, what, type == DOCUMENT_MAP ? "an object" : "a list");
}

/* kubernetes.io/hostname is none of the node's names. */
static struct err add_expression(const struct making *m, struct document_node *term)
{
    struct arena *a = m->arena;
    struct document_node *list;
    TRY(enter(m, term, "matchExpressions", DOCUMENT_LIST, &list));
    struct document_node *e = document_add(list, "", document_map(a));
    add_text(m, e, "key", STR("kubernetes.io/hostname"));
    add_text(m, e, "operator", STR("NotIn"));
    struct document_node *values = document_add(e, "values", document_list(a));
    document_add(values, "", document_string(a, m->job->avoid));
    return err_none();
}

/* Any of the terms would do, so that each of them has to exclude the node. */
static struct err require(const struct making *m, struct document_node *affinity)
{
    struct document_node *required, *terms;
    bool had = member(affinity, "requiredDuringSchedulingIgnoredDuringExecution") != NULL;
    TRY(enter(m, affinity, "requiredDuringSchedulingIgnoredDuringExecution", DOCUMENT_MAP,
              &required));
    TRY(enter(m, required, "nodeSelectorTerms", DOCUMENT_LIST, &terms));
    if (!had)
        document_add(terms, "", document_map(m->arena));
    for (struct document_node *term = terms->first; term; term = term->next) {
        if (term->type != DOCUMENT_MAP)
            return bad(m, "affinity: nodeSelectorTerms", "objects");
        TRY(add_expression(m, term));
    }
    return err_none();
}

static struct err prefer(const struct making *m, struct document_node *affinity)
{
    struct document_node *list, *preference;
    TRY(enter(m, affinity, "preferredDuringSchedulingIgnoredDuringExecution", DOCUMENT_LIST,
              &list));
    struct document_node *one = document_add(list, "", document_map(m->arena));
    document_add(one, "weight", document_int(m->arena, 100));
    TRY(enter(m, one, "preference", DOCUMENT_MAP, &preference));
    return add_expression(m, preference);
}

static struct err avoid_node(const struct making *m, enum pod_avoid avoid)
{
    struct document_node *affinity, *nodes;
    if (avoid == POD_AVOID_NOTHING || m->job->avoid.len == 0)
        return err_none();
    TRY(enter(m, m->spec, "affinity", DOCUMENT_MAP, &affinity));
    TRY(enter(m, affinity, "nodeAffinity", DOCUMENT_MAP, &nodes));
    return avoid == POD_AVOID_REQUIRED ? require(m, nodes) : prefer(m, nodes);
}

/* --- the whole --- */

struct err pod_manifest_make(const struct pod_style *style, const struct pod_job *job,
                             bool numbered, enum pod_avoid avoid, struct arena *a,
                             struct pod_manifest *out)
{
    struct making m = {.style = style, .job = job, .arena = a};
    *out = (struct pod_manifest){
        .name = pod_manifest_name(style->prefix, job->id, job->run, numbered, a)};
    TRY(find_parts(&m));
    TRY(find_namespace(&m, &out->namespace));
    document_set(m.spec, "restartPolicy", document_string(a, STR("Never")));
    TRY(avoid_node(&m, avoid));
    TRY(pod_resources_apply(m.source, job, m.spec, a));
    out->memory = pod_resources_total(m.spec, POD_MEMORY);
    out->cpu = pod_resources_total(m.spec, POD_CPU);
    struct document_node *pod = document_map(a);
    document_add(pod, "apiVersion", document_string(a, STR("v1")));
    document_add(pod, "kind", document_string(a, STR("Pod")));
    TRY(add_metadata(&m, avoid, out, pod));
    m.spec->next = NULL; /* it was a member of something else */
    document_add(pod, "spec", m.spec);
    struct buf b = {0};
    document_write_json(pod, &b);
    out->body = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return err_none();
}
