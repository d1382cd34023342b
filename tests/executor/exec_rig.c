/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_rig.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/holder/served.h"

static void serve(struct rig *r, struct http_exchange *x, const struct http_request *req, int n)
{
    struct exec_rig *e = r->mine;
    (void)req;
    const struct rig_request *q = n < RIG_REQUESTS ? &r->requests[n] : NULL;
    if (e->serve && q && e->serve(e, x, q))
        return;
    if (q && e->status == 200 && strcmp(e->body, "{}") == 0)
        served_done(x, q);
    else
        rig_json(x, e->status, e->body);
}

static void set_settings(struct exec_rig *e)
{
    e->queues[0] = (struct exec_queue){.name = "a"};
    e->queues[1] = (struct exec_queue){.name = "b"};
    e->settings = (struct exec_settings){
        .server = e->rig->url,
        .name = NAME,
        .state_dir = alloc_text(rig_path(e->rig, "state"), strlen(rig_path(e->rig, "state"))),
        .queues = e->queues,
        .queue_count = 2,
        .pods_max = 10,
        .lease = {30000},
        .limits = {.scheduling = {180000}}};
}

int exec_rig_setup(void **state)
{
    void *rig;
    assert_int_equal(rig_setup(&rig), 0);
    struct exec_rig *e = ALLOC(struct exec_rig);
    e->rig = rig;
    e->rig->mine = e;
    e->rig->serve = serve;
    e->status = 200;
    e->body = "{}";
    rig_start(e->rig);
    set_settings(e);
    struct executor *x = &e->x;
    *x = (struct executor){.settings = &e->settings,
                           .loop = &e->rig->loop,
                           .rng = rng_from_seed(1),
                           .kube = e->rig->client,
                           .namespaces = &e->namespace,
                           .namespace_count = 1,
                           .turn_set = true /* none comes of itself */};
    e->namespace = (struct exec_namespace){.x = x, .name = "jobs"};
    list_init(&x->runs);
    list_init(&x->reports);
    x->server = remote_new(x->loop, e->rig->url, &e->settings.tls, NAME);
    exec_leases_start(x);
    exec_rig_open_journal(e);
    *state = e;
    return 0;
}

void exec_rig_open_journal(struct exec_rig *e)
{
    struct err err =
        journal_open(e->x.loop, e->settings.state_dir, exec_reports_kept, &e->x, &e->x.journal);
    if (err.code != ERR_OK)
        fail_msg("%s", err.msg);
}

void exec_rig_close_journal(struct exec_rig *e)
{
    journal_close(e->x.journal);
    e->x.journal = NULL;
    rig_settle(e->rig);
}

void exec_rig_forget(struct exec_rig *e)
{
    struct executor *x = &e->x;
    while (!list_is_empty(&x->reports)) {
        struct exec_report *p = LIST_OF(x->reports.next, struct exec_report, node);
        list_unlink(&p->node);
        free(p);
    }
    while (!list_is_empty(&x->runs)) {
        struct exec_run *r = LIST_OF(x->runs.next, struct exec_run, node);
        r->report = NULL;
        r->pod_record = NULL;
        r->renewing = r->telling = r->plan.creating = false;
        r->ready = EXEC_READY_ASKED;
        exec_runs_remove(x, r);
    }
}

int exec_rig_teardown(void **state)
{
    struct exec_rig *e = *state;
    exec_follow_free(&e->x);
    exec_leases_free(&e->x);
    remote_free(e->x.server);
    exec_watch_stop(&e->x);
    exec_notice_fini(&e->x);
    exec_rig_forget(e);
    idmap_fini(&e->x.by_job);
    exec_rig_close_journal(e);
    char path[500];
    snprintf(path, sizeof path, "%s/journal", e->settings.state_dir);
    unlink(path);
    rmdir(e->settings.state_dir);
    void *rig = e->rig;
    assert_int_equal(rig_teardown(&rig), 0);
    free((char *)e->settings.state_dir);
    free(e);
    return 0;
}

struct id exec_rig_id(int n)
{
    uint8_t bytes[16] = {1, 2, 3, 4, 5, 6};
    bytes[14] = (uint8_t)(n >> 8);
    bytes[15] = (uint8_t)n;
    return id_decode(bytes);
}

const char *exec_rig_text(int n)
{
    static char texts[4][ID_TEXT_LEN + 1];
    static unsigned next;
    char *text = texts[next++ % 4];
    id_format(exec_rig_id(n), text);
    text[ID_TEXT_LEN] = '\0';
    return text;
}

struct exec_run *exec_rig_run(struct exec_rig *e, int n, int64_t run)
{
    struct exec_run *r = exec_runs_add(&e->x, exec_rig_id(n), run);
    snprintf(r->token, sizeof r->token, "%016x", n + 1);
    return r;
}

const struct rig_request *exec_rig_request(struct exec_rig *e, int n)
{
    assert_true(n < e->rig->served && n < RIG_REQUESTS);
    return &e->rig->requests[n];
}

void exec_rig_assert_request(struct exec_rig *e, int n, const char *words)
{
    const struct rig_request *q = exec_rig_request(e, n);
    char text[1024];
    const char *method = q->method == HTTP_GET      ? "GET"
                         : q->method == HTTP_POST   ? "POST"
                         : q->method == HTTP_PUT    ? "PUT"
                         : q->method == HTTP_PATCH  ? "PATCH"
                         : q->method == HTTP_DELETE ? "DELETE"
                                                    : "?";
    snprintf(text, sizeof text, "%s %s%s%s", method, q->path, *q->query ? "?" : "", q->query);
    assert_string_equal(text, words);
}

bool exec_rig_body_has(struct exec_rig *e, int n, const char *text)
{
    return strstr(exec_rig_request(e, n)->body.at, text) != NULL;
}
