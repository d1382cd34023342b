/* SPDX-License-Identifier: Apache-2.0 */

/* How long it takes to read a pod as an API server sends it, and to say whether it starts.
 *
 *   pods [FILE]     a pod as JSON; without a file, one of the usual size */

#include <stdio.h>
#include <time.h>

#include "base/must.h"
#include "kube/kube_failure.h"
#include "kube/kube_verdict.h"

#define TARGET_US 20.0
#define MANAGERS  3

static double now_us(void)
{
    struct timespec t;
    must(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* What API servers note of who set which field: the larger part of most objects. */
static void add_managed_fields(struct buf *b)
{
    buf_lit(b, ",\"managedFields\":[");
    for (int i = 0; i < MANAGERS; i++) {
        buf_print(b,
                  "%s{\"manager\":\"manager-%d\",\"operation\":\"Update\",\"apiVersion\":\"v1\","
                  "\"time\":\"2026-11-22T09:00:00Z\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{"
                  "\"f:metadata\":{\"f:labels\":{\".\":{}",
                  i ? "," : "", i);
        for (int k = 0; k < 30; k++)
            buf_print(b, ",\"f:field-of-some-length-%d\":{\"f:name\":{}}", k);
        buf_lit(b, "}}}}");
    }
    buf_byte(b, ']');
}

static void add_container(struct buf *b, int i)
{
    buf_print(
        b,
        "%s{\"name\":\"c%d\",\"image\":\"registry.example.com/team/image:%d\",\"command\":"
        "[\"/bin/sh\",\"-c\",\"exec /opt/work --input /data\"],\"resources\":{\"limits\":{"
        "\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"500m\",\"memory\":\"1Gi\"}},"
        "\"volumeMounts\":[{\"name\":\"kube-api-access\",\"readOnly\":true,\"mountPath\":"
        "\"/var/run/secrets/kubernetes.io/serviceaccount\"}],\"env\":[{\"name\":\"MODE\","
        "\"value\":\"fast\"}],\"imagePullPolicy\":\"IfNotPresent\",\"terminationMessagePath\":"
        "\"/dev/termination-log\",\"terminationMessagePolicy\":\"File\"}",
        i ? "," : "", i, i);
}

static void add_status(struct buf *b, int i)
{
    buf_print(
        b,
        "%s{\"name\":\"c%d\",\"state\":{\"waiting\":{\"reason\":\"%s\",\"message\":\"Back-off "
        "pulling image\"}},\"lastState\":{},\"ready\":false,\"restartCount\":0,\"image\":"
        "\"registry.example.com/team/image:%d\",\"imageID\":\"\",\"started\":false}",
        i ? "," : "", i, i ? "ImagePullBackOff" : "ContainerCreating", i);
}

static void add_conditions(struct buf *b)
{
    static const char *const types[] = {"PodScheduled", "Initialized", "Ready", "ContainersReady"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        buf_print(b,
                  "%s{\"type\":\"%s\",\"status\":\"%s\",\"lastProbeTime\":null,"
                  "\"lastTransitionTime\":\"2026-11-22T09:00:0%zuZ\",\"reason\":"
                  "\"ContainersNotReady\",\"message\":\"containers with unready status\"}",
                  i ? "," : "", types[i], i ? "False" : "True", i);
}

static void usual_pod(struct buf *b)
{
    buf_lit(b,
            "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"tenax-"
            "03fdyyg2ibf8zhc6ulqx1f6oz-0\",\"namespace\":\"jobs\",\"uid\":\"0b3d5e2c-7a52-4b8e-"
            "9a44-5c9c7ce8b9b1\",\"resourceVersion\":\"123456\",\"creationTimestamp\":"
            "\"2026-11-22T09:00:00Z\",\"labels\":{\"tenax.dev/job\":\"03fdyyg2ibf8zhc6ulqx1f6oz\","
            "\"tenax.dev/run\":\"0\"}");
    add_managed_fields(b);
    buf_lit(b, "},\"spec\":{\"nodeName\":\"node-17\",\"restartPolicy\":\"Never\",\"volumes\":[{"
               "\"name\":\"kube-api-access\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{"
               "\"expirationSeconds\":3607,\"path\":\"token\"}}]}}],\"containers\":[");
    add_container(b, 0);
    add_container(b, 1);
    buf_lit(b, "]},\"status\":{\"phase\":\"Pending\",\"conditions\":[");
    add_conditions(b);
    buf_lit(b, "],\"hostIP\":\"10.0.0.1\",\"startTime\":\"2026-11-22T09:00:01Z\","
               "\"containerStatuses\":[");
    add_status(b, 0);
    add_status(b, 1);
    buf_lit(b, "],\"qosClass\":\"Burstable\"}}");
}

/* The best of several rounds, in microseconds per pod: a busy machine only adds to it. */
static double measure(struct str json, bool failure, int rounds, int n)
{
    struct arena a = {0};
    double best = 1e9;
    for (int i = 0; i < rounds; i++) {
        double from = now_us();
        for (int j = 0; j < n; j++) {
            struct kube_pod p;
            arena_reset(&a);
            must(kube_pod_read(json, &a, &p).code == ERR_OK);
            struct kube_verdict v = kube_verdict(&p, KUBE_VERDICT_BY_NODE);
            if (failure && v.start == KUBE_VERDICT_FAILED)
                must(kube_failure(&p, KUBE_FAILURE_NOT_STARTED, KUBE_VERDICT_BY_NODE, (span){0},
                                  NULL, 0, &a)
                         .message.len > 0);
        }
        double us = (now_us() - from) / n;
        best = us < best ? us : best;
    }
    arena_fini(&a);
    return best;
}

static void read_file(const char *path, struct buf *b)
{
    FILE *f = fopen(path, "r");
    size_t n;
    must(f);
    do {
        n = fread(buf_room(b, 65536), 1, 65536, f);
        b->len += n;
    } while (n);
    fclose(f);
}

int main(int argc, char **argv)
{
    struct buf b = {0};
    if (argc > 1)
        read_file(argv[1], &b);
    else
        usual_pod(&b);
    double us = measure(buf_view(&b), false, 20, 2000);
    printf("verdict of a pod's JSON of %.1f KiB:                   %6.2f us (target %.0f us)\n",
           (double)b.len / 1024, us, TARGET_US);
    printf("the same, and what failed:                            %6.2f us\n",
           measure(buf_view(&b), true, 20, 2000));
    buf_fini(&b);
    return us <= TARGET_US ? 0 : 1;
}
