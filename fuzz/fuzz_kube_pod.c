/* SPDX-License-Identifier: Apache-2.0 */

/* Pods and events as text of any kind: what is read from them is bounded, and the same each time.
 */

#include "base/must.h"
#include "base/utf8.h"
#include "kube/kube_failure.h"
#include "kube/kube_verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(struct str text)
{
    must(text.len <= KUBE_FAILURE_TEXT_MAX);
    must(utf8_check(text) == text.len);
    for (size_t i = 0; i < text.len; i++)
        must((unsigned char)text.at[i] >= 0x20);
}

static void check_failure(const struct kube_pod *p, enum kube_failure_found found,
                          const struct kube_pod_event *event, struct arena *a)
{
    struct kube_failure f =
        kube_failure(p, found, KUBE_VERDICT_BY_NODE, (span){180000}, event, event ? 1 : 0, a);
    check_line(f.message);
    check_line(f.pod_error);
    must(f.message.len > 0);
    must(kube_failure_name(f.cause));
    must(f.container_count <= KUBE_FAILURE_CONTAINERS_MAX);
    must(f.event_count <= (event ? 1u : 0u));
    for (size_t i = 0; i < f.container_count; i++)
        must(f.containers[i].message.len <= KUBE_FAILURE_TEXT_MAX);
}

static void check_verdicts(const struct kube_pod *p)
{
    for (int mode = 0; kube_verdict_mode_name((enum kube_verdict_mode)mode); mode++) {
        struct kube_verdict v = kube_verdict(p, (enum kube_verdict_mode)mode);
        struct buf b = {0};
        must(kube_verdict_name(v.start));
        if (v.start == KUBE_VERDICT_FAILED) {
            kube_verdict_write(&v, &b);
            must(b.len > 0 && utf8_check(buf_view(&b)) == b.len);
        } else {
            must(!v.container && v.advice == KUBE_VERDICT_NO_ADVICE);
        }
        buf_fini(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct arena a = {0};
    struct kube_pod p;
    struct kube_pod_event event;
    bool is_event = kube_pod_event_read(text, &a, &event).code == ERR_OK;
    if (kube_pod_read(text, &a, &p).code == ERR_OK) {
        check_verdicts(&p);
        kube_pod_times(&p);
        kube_pod_value(p.labels, "job", &a);
        if (is_event) { /* of the same text: about this pod */
            event.about_pod = true;
            event.pod = p.name;
            event.uid = (struct str){0};
        }
        for (int found = KUBE_FAILURE_ENDED; found <= KUBE_FAILURE_OVERDUE; found++)
            check_failure(&p, (enum kube_failure_found)found, is_event ? &event : NULL, &a);
    }
    arena_fini(&a);
    return 0;
}
