/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_list.h"

#include <signal.h>
#include <stdlib.h>

#include "base/decimal.h"
#include "client/subcommand.h"
#include "client/view.h"
#include "executor/exec_check.h"
#include "executor/exec_internal.h"
#include "executor/pod_report.h"
#include "executor/pod_view.h"

#define TRIES_MAX    3
#define PAGE         "500"
#define RESTARTS_MAX 3 /* of a list that the server has forgotten in its middle */

struct reading {
    struct executor *x;
    struct pod_list *list;
    struct buf *words;
    bool all;
    size_t namespace;
    size_t before;      /* rows of the namespaces before this one */
    struct buf further; /* where the next page begins, with a NUL; or empty */
    int restarts, code;
};

static void ask_page(struct reading *r);

static void end(struct reading *r, int code)
{
    r->code = code;
    uv_stop(r->x->loop);
}

/* --- a pod --- */

/* A pod that some person has labelled like one of ours is shown without its run. */
static void add_pod(struct reading *r, struct str object)
{
    struct arena *a = r->list->arena;
    struct arena scratch = {0};
    struct kube_pod p;
    struct pod_mask mask;
    struct buf reason = {0};
    enum kube_verdict_mode mode = (enum kube_verdict_mode)r->list->settings->mode;
    if (kube_pod_read(object, &scratch, &p).code != ERR_OK) {
        arena_fini(&scratch);
        return;
    }
    if (pod_mask_read(object, &scratch, &mask).code != ERR_OK)
        mask = (struct pod_mask){.all = true};
    pod_report_mask(&p, &mask, &scratch);
    pod_view_reason(&p, mode, &reason);
    struct pod_list_row row = {.phase = pod_view_phase(&p, mode), .created_at = p.created_at};
    row.job = arena_copy(a, kube_pod_value(p.labels, POD_LABEL_JOB, &scratch));
    row.executor = arena_copy(a, kube_pod_value(p.labels, POD_LABEL_EXECUTOR, &scratch));
    row.queue = arena_copy(a, kube_pod_value(p.annotations, POD_NOTE_QUEUE, &scratch));
    row.type = arena_copy(a, kube_pod_value(p.annotations, POD_NOTE_TYPE, &scratch));
    row.pod = arena_copy(a, p.name);
    row.namespace = arena_copy(a, p.namespace);
    row.node = arena_copy(a, p.node);
    row.reason = arena_copy(a, buf_view(&reason));
    if (!decimal_digits(kube_pod_value(p.labels, POD_LABEL_RUN, &scratch), 10, &row.run))
        row.run = -1;
    ARENA_GROW(a, r->list->rows, r->list->count, r->list->cap, 64);
    r->list->rows[r->list->count++] = row;
    buf_fini(&reason);
    arena_fini(&scratch);
}

static int by_age(const void *a, const void *b)
{
    const struct pod_list_row *x = a, *y = b;
    if (x->created_at.ms != y->created_at.ms)
        return x->created_at.ms < y->created_at.ms ? -1 : 1;
    int names = str_cmp(x->pod, y->pod);
    return names ? names : str_cmp(x->namespace, y->namespace);
}

/* --- pages --- */

static void next_namespace(struct reading *r)
{
    r->namespace ++;
    r->before = r->list->count;
    r->restarts = 0;
    if (!r->all && r->namespace < r->x->namespace_count) {
        ask_page(r);
        return;
    }
    if (r->list->count)
        qsort(r->list->rows, r->list->count, sizeof *r->list->rows, by_age);
    end(r, CLI_OK);
}

static void refused(struct reading *r, const struct kube_answer *a)
{
    bool forgotten = a->reason == KUBE_ANSWER_EXPIRED || a->reason == KUBE_ANSWER_GONE;
    r->further.len = 0;
    if (forgotten && r->restarts++ < RESTARTS_MAX) {
        r->list->count = r->before;
        ask_page(r);
    } else if (r->all && a->reason == KUBE_ANSWER_FORBIDDEN) {
        buf_print(r->words, "the pods of all namespaces may not be listed; these are of %s\n",
                  r->x->namespaces[0].name);
        r->all = false;
        ask_page(r);
    } else {
        end(r, exec_check_fault(&r->x->config, a->reason, a->message, r->words));
    }
}

static void on_page(void *ctx, const struct kube_answer *a)
{
    struct reading *r = ctx;
    struct str object;
    if (a->reason != KUBE_ANSWER_OK) {
        refused(r, a);
        return;
    }
    struct arena scratch = {0};
    if (view_check(a->object, NULL).code != ERR_OK) {
        end(r, exec_check_fault(&r->x->config, KUBE_ANSWER_MALFORMED, STR("not JSON"), r->words));
        return;
    }
    for (struct view_list l = view_list(view_get(a->object, "items")); view_next(&l, &object);)
        add_pod(r, object);
    struct str token = view_text(&scratch, view_get(a->object, "metadata"), "continue");
    r->further.len = 0;
    buf_str(&r->further, token);
    arena_fini(&scratch);
    if (r->further.len)
        ask_page(r);
    else
        next_namespace(r);
}

static void ask_page(struct reading *r)
{
    struct buf path = {0}, selector = {0};
    buf_lit(&path, "/api/v1");
    if (!r->all) {
        buf_lit(&path, "/namespaces");
        kube_client_segment(&path, str_from(r->x->namespaces[r->namespace].name));
    }
    buf_lit(&path, "/pods");
    buf_lit(&selector, POD_LABEL_JOB);
    if (r->list->executor)
        buf_print(&selector, ",%s=%s", POD_LABEL_EXECUTOR, r->list->executor);
    kube_client_query(&path, "labelSelector", buf_view(&selector));
    kube_client_query(&path, "limit", STR(PAGE));
    if (r->further.len)
        kube_client_query(&path, "continue", buf_view(&r->further));
    buf_byte(&path, '\0');
    kube_client_call(
        r->x->kube,
        &(struct kube_client_spec){
            .verb = KUBE_LIST, .path = path.at, .tries_max = TRIES_MAX, .done = on_page, .ctx = r});
    buf_fini(&path);
    buf_fini(&selector);
}

int pod_list_read(struct pod_list *l, struct buf *words)
{
    struct executor x = {.settings = l->settings, .loop = uv_default_loop()};
    struct reading r = {.x = &x, .list = l, .words = words, .all = l->all, .code = CLI_REFUSED};
    x.rng = rng_from_seed(0); /* of one process that waits for nobody else */
    signal(SIGPIPE, SIG_IGN);
    struct err e = exec_cluster_open(&x);
    if (e.code == ERR_OK) {
        ask_page(&r);
        uv_run(x.loop, UV_RUN_DEFAULT);
    } else {
        buf_print(words, "%s\n", e.msg);
        r.code = e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    }
    if (x.kube)
        kube_client_free(x.kube);
    uv_run(x.loop, UV_RUN_DEFAULT);
    exec_cluster_fini(&x);
    buf_fini(&r.further);
    return r.code;
}
