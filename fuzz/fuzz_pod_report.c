/* SPDX-License-Identifier: Apache-2.0 */

/* Pods as text of any kind, whose containers have written that very text: the report is JSON within
 * its limits, and no log and no termination message shows a secret of the pod. */

#include <string.h>

#include "base/must.h"
#include "base/utf8.h"
#include "client/view.h"
#include "executor/pod_report.h"
#include "executor/pod_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Apart from those that what replaces them could make up. */
static void check_hidden(struct str text, const struct pod_mask *mask)
{
    must(utf8_check(text) == text.len);
    for (size_t i = 0; i < mask->count && text.len; i++) {
        struct str secret = mask->secrets[i];
        bool may_be_made_up =
            memchr(secret.at, '*', secret.len) || memchr(secret.at, 0xef, secret.len);
        must(may_be_made_up || !memmem(text.at, text.len, secret.at, secret.len));
    }
}

static void read_logs(const struct kube_pod *p, struct str text, const struct pod_mask *mask,
                      struct pod_report_logs *logs)
{
    const struct kube_pod_container *c;
    size_t at = 0, bytes = 0;
    while (logs->count < POD_REPORT_LOGS_MAX && (c = pod_report_next(p, &at)))
        pod_report_logs_add(logs, c->name, text, at % 2, mask);
    for (size_t i = 0; i < logs->count; i++) {
        must(logs->at[i].text.len <= POD_REPORT_LOG_MAX);
        bytes += logs->at[i].text.len;
        check_hidden(buf_view(&logs->at[i].text), mask);
    }
    must(bytes <= POD_REPORT_BYTES_MAX);
}

static void check_report(const struct kube_pod *p, const struct pod_report_logs *logs,
                         struct arena *a)
{
    for (int found = KUBE_FAILURE_ENDED; found <= KUBE_FAILURE_OVERDUE; found++) {
        struct kube_failure f = kube_failure(p, (enum kube_failure_found)found,
                                             KUBE_VERDICT_BY_NODE, (span){180000}, NULL, 0, a);
        struct buf b = {0};
        buf_lit(&b, "{\"run\":0");
        pod_report_write(&f, p, logs, found % 2, &b);
        buf_byte(&b, '}');
        must(view_check(buf_view(&b), NULL).code == ERR_OK);
        must(view_get(buf_view(&b), "message").len > 2);
        buf_fini(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct pod_report_logs logs = {0};
    struct pod_mask mask;
    struct arena a = {0};
    struct kube_pod p;
    struct buf reason = {0};
    if (kube_pod_read(text, &a, &p).code == ERR_OK) {
        if (pod_mask_read(text, &a, &mask).code != ERR_OK)
            mask = (struct pod_mask){.all = true};
        read_logs(&p, text, &mask, &logs);
        pod_report_mask(&p, &mask, &a);
        for (size_t i = 0; i < p.container_count; i++)
            check_hidden(p.containers[i].end.message, &mask);
        check_report(&p, &logs, &a);
        pod_view_reason(&p, KUBE_VERDICT_BY_NODE, &reason);
        must(pod_view_phase(&p, KUBE_VERDICT_BY_NODE));
    }
    buf_fini(&reason);
    pod_report_logs_fini(&logs);
    arena_fini(&a);
    return 0;
}
