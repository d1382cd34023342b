/* SPDX-License-Identifier: Apache-2.0 */

/* The cluster as the settings say: how it is reached, in which namespaces pods may be, and what the
 * pods have in common. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "client/when.h"
#include "executor/exec_internal.h"

static instant wall_clock(void *ctx)
{
    (void)ctx;
    return when_now();
}

/* --namespace, else that of the context; and those that payloads may name. */
static void set_namespaces(struct executor *x)
{
    const struct exec_settings *s = x->settings;
    const char *first = s->namespace ? s->namespace : x->config.namespace;
    x->namespaces = alloc_zero((s->also_count + 1) * sizeof *x->namespaces);
    x->namespaces[x->namespace_count++] =
        (struct exec_namespace){.x = x, .name = first ? first : "default"};
    for (size_t i = 0; i < s->also_count; i++) {
        bool known = false;
        for (size_t k = 0; k < x->namespace_count; k++)
            known |= strcmp(x->namespaces[k].name, s->also_namespaces[i]) == 0;
        if (!known)
            x->namespaces[x->namespace_count++] =
                (struct exec_namespace){.x = x, .name = s->also_namespaces[i]};
    }
}

static struct err set_style(struct executor *x)
{
    const struct exec_settings *s = x->settings;
    struct kube_template *template = NULL;
    struct document_fault fault;
    struct buf text = {0};
    if (s->template) {
        struct err e = kube_config_read_file(s->template, &text);
        if (e.code != ERR_OK) {
            buf_fini(&text);
            return err_make(e.code, "template %s", e.msg);
        }
        struct str copy = arena_copy(&x->arena, buf_view(&text));
        buf_fini(&text);
        if (!kube_template_read(copy, &x->arena, &template, &fault) ||
            !pod_manifest_check_template(template, &fault))
            return document_fault_in(s->template, &fault);
    }
    x->style = (struct pod_style){.prefix = str_from(s->prefix),
                                  .executor = str_from(s->name),
                                  .namespace = str_from(x->namespaces[0].name),
                                  .also = s->also_namespaces,
                                  .also_count = s->also_count,
                                  .template = template};
    return err_none();
}

struct err exec_cluster_open(struct executor *x)
{
    const struct exec_settings *s = x->settings;
    if (s->kubeconfig)
        TRY(kube_config_load(s->kubeconfig, s->context, &x->config));
    else
        TRY(kube_config_in_pod(KUBE_CONFIG_POD_FOLDER, getenv("KUBERNETES_SERVICE_HOST"),
                               getenv("KUBERNETES_SERVICE_PORT"), &x->config));
    if (s->insecure)
        kube_config_skip_verify(&x->config);
    struct kube_client_settings c = kube_client_defaults();
    c.now = wall_clock;
    c.seed = rng_next(&x->rng);
    set_namespaces(x);
    x->kube = kube_client_new(x->loop, &x->config, &c);
    return set_style(x);
}

static void on_namespace(void *ctx, const struct kube_answer *a)
{
    const struct exec_namespace *ns = ctx;
    if (a->reason == KUBE_ANSWER_NOT_FOUND && str_eq(a->kind, STR("namespaces")))
        log_warn("namespace %s does not exist: the cluster will refuse every pod there", ns->name);
}

/* Whether they exist is not for everybody to know. */
void exec_cluster_look(struct executor *x)
{
    for (size_t i = 0; i < x->namespace_count; i++) {
        struct buf path = {0};
        buf_lit(&path, "/api/v1/namespaces");
        kube_client_segment(&path, str_from(x->namespaces[i].name));
        buf_byte(&path, '\0');
        kube_client_call(x->kube, &(struct kube_client_spec){.verb = KUBE_GET,
                                                             .path = path.at,
                                                             .retry = KUBE_CLIENT_ONCE,
                                                             .done = on_namespace,
                                                             .ctx = &x->namespaces[i]});
        buf_fini(&path);
    }
}

void exec_cluster_fini(struct executor *x)
{
    kube_config_fini(&x->config);
    free(x->namespaces);
    arena_fini(&x->arena);
}
