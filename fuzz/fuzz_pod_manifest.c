/* SPDX-License-Identifier: Apache-2.0 */

/* A job as handed out, and a payload by itself: what becomes a pod is JSON, has the executor's name
 * and labels, and never restarts. The text is also a log, with the secrets of the pod that it is.
 */

#include <string.h>

#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"
#include "executor/pod_manifest.h"
#include "executor/pod_mask.h"
#include "executor/pod_resources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_pod(const struct pod_manifest *m, struct arena *a)
{
    struct document_list list;
    struct document_fault fault;
    /* The tree may be a few levels deeper than what may be read. */
    struct json_cursor c = json_open(m->body);
    must(json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK);
    must(m->memory <= (uint64_t)1 << 60 && m->cpu <= 1000000000);
    if (!document_read(m->body, DOCUMENT_JSON, a, &list, &fault))
        return;
    const struct document_node *metadata = document_member(list.first, "metadata");
    const struct document_node *labels = document_member(metadata, "labels");
    must(str_eq(document_text(metadata, "name"), m->name));
    must(document_text(labels, POD_LABEL_JOB).len == ID_TEXT_LEN);
    must(str_eq(document_text(labels, POD_LABEL_EXECUTOR), STR("e")));
    must(str_eq(document_text(document_member(list.first, "spec"), "restartPolicy"), STR("Never")));
}

static void check_job(struct pod_job job, struct arena *a)
{
    const struct pod_style style = {
        .prefix = STR("tenax"), .executor = STR("e"), .namespace = STR("jobs")};
    for (int avoid = POD_AVOID_NOTHING; avoid <= POD_AVOID_PREFERRED; avoid++) {
        struct pod_manifest m;
        if (pod_manifest_make(&style, &job, true, (enum pod_avoid)avoid, a, &m).code == ERR_OK)
            check_pod(&m, a);
    }
}

static void check_mask(struct str text, struct arena *a)
{
    struct pod_mask m;
    struct buf b = {0};
    if (pod_mask_read(text, a, &m).code != ERR_OK)
        m = (struct pod_mask){0};
    pod_mask_apply(&m, text, true, true, &b);
    must(utf8_check(buf_view(&b)) == b.len);
    for (size_t i = 0; i < m.count; i++)
        must(m.secrets[i].len >= POD_MASK_MIN);
    must(pod_mask_tail(buf_view(&b), 10).len <= 10);
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct arena a = {0};
    struct pod_job job;
    if (pod_manifest_job(text, &a, &job).code == ERR_OK)
        check_job(job, &a);
    job = (struct pod_job){
        .payload = text, .avoid = STR("n1"), .memory = 3, .memory_from = 2, .cpu = 7};
    check_job(job, &a);
    check_mask(text, &a);
    arena_fini(&a);
    return 0;
}
