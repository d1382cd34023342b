/* SPDX-License-Identifier: Apache-2.0 */

/* What the settings say of the worker itself. */

#include <string.h>

#include "builds/build_worker.h"
#include "client/when.h"
#include "net/fetch.h"

#define MINUTES_MAX   100000
#define NAMESPACE_MAX ((size_t)63)
/* A broker keeps no message for longer than 49 days. */
#define DELAY_MAX_MS (INT64_C(20) * 24 * 3600 * 1000)

static struct err refuse(const char *setting, const char *should)
{
    return err_make(ERR_USAGE, "%s must be %s", setting, should);
}

static struct err check_plugin(const struct build_settings *s)
{
    const char *plugin = build_text(s, BUILD_PLUGIN);
    if (strcmp(plugin, "k8s") == 0)
        return err_none();
    return err_make(ERR_USAGE,
                    "EXECUTOR_PLUGIN: builds run as pods, by the plugin k8s; '%.40s' is not served",
                    plugin);
}

/* RFC 1123, as Kubernetes names its namespaces. */
static bool is_namespace(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= NAMESPACE_MAX && name[0] != '-' && name[n - 1] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

/* What would be found out by the first build only. */
static struct err check_values(const struct build_settings *s)
{
    const char *strategy = build_text(s, BUILD_CACHE_STRATEGY);
    const char *wrong = fetch_bad_url(build_text(s, BUILD_API));
    if (strcmp(strategy, "s3") != 0 && strcmp(strategy, "disk") != 0)
        return refuse("CACHE_STRATEGY", "s3 or disk");
    if (wrong) /* it may be a password: the value is not shown */
        return err_make(ERR_USAGE, "ECOSYSTEM_API must be a URL: %s", wrong);
    if (!is_namespace(build_text(s, BUILD_NAMESPACE)))
        return refuse("K8S_JOBS_NAMESPACE", "the name of a namespace: up to 63 lower case letters, "
                                            "digits and '-'");
    if (build_int(s, BUILD_API_TIMEOUT) <= 0)
        return refuse("CIRCUIT_TIMEOUT", "a number of milliseconds above 0");
    return err_none();
}

static struct err check_limits(const struct build_verify_limits *l)
{
    if (l->delay.ms <= 0 || l->delay.ms > DELAY_MAX_MS)
        return refuse("VERIFY_DELAY", "above 0, and at most 20d");
    if (l->step.ms > DELAY_MAX_MS)
        return refuse("VERIFY_STEP", "at most 20d");
    return err_none();
}

struct err build_worker_settings_make(const struct build_settings *s,
                                      const struct build_pod_template *pods,
                                      struct build_worker_settings *out)
{
    const char *mode = build_text(s, BUILD_VERIFICATION);
    double minutes = s->values[BUILD_INIT_TIMEOUT].number;
    int64_t looks = build_int(s, BUILD_VERIFY_LIMIT);
    *out = (struct build_worker_settings){.all = s, .pods = pods, .now = when_now};
    TRY(check_plugin(s));
    TRY(check_values(s));
    out->timer = strcmp(mode, "timer") == 0;
    if (!out->timer && strcmp(mode, "queue") != 0)
        return refuse("VERIFICATION", "queue or timer");
    if (!(minutes > 0 && minutes < MINUTES_MAX))
        return refuse("RABBITMQ_BUILD_INIT_TIMEOUT", "a number of minutes above 0");
    if (looks < 0 || looks > 1000000)
        return refuse("VERIFY_LIMIT", "a number from 0 on");
    out->init_timeout = (span){(int64_t)(minutes * 60000)};
    out->verify = build_bool(s, BUILD_RETRY_QUEUE_ENABLED);
    out->limits = (struct build_verify_limits){
        .mode = out->timer ? KUBE_VERDICT_PENDING_IS_HEALTHY : KUBE_VERDICT_BY_NODE,
        .delay = build_span(s, BUILD_VERIFY_DELAY),
        .step = build_span(s, BUILD_VERIFY_STEP),
        .scheduling_timeout = build_span(s, BUILD_SCHEDULING_TIMEOUT),
        .looks_max = (uint32_t)looks,
    };
    return check_limits(&out->limits);
}
