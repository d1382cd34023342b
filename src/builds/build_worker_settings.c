/* SPDX-License-Identifier: Apache-2.0 */

/* What the settings say of the worker itself. */

#include <string.h>

#include "builds/build_worker.h"
#include "client/when.h"

#define MINUTES_MAX 100000

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

struct err build_worker_settings_make(const struct build_settings *s,
                                      const struct build_pod_template *pods,
                                      struct build_worker_settings *out)
{
    const char *mode = build_text(s, BUILD_VERIFICATION);
    double minutes = s->values[BUILD_INIT_TIMEOUT].number;
    int64_t looks = build_int(s, BUILD_VERIFY_LIMIT);
    *out = (struct build_worker_settings){.all = s, .pods = pods, .now = when_now};
    TRY(check_plugin(s));
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
    if (out->limits.delay.ms <= 0)
        return refuse("VERIFY_DELAY", "above 0");
    return err_none();
}
