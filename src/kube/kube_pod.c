/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_pod.h"

#include "base/array.h"
#include "base/json.h"
#include "base/rfc3339.h"
#include "wire/field.h"

/* --- values --- */

/* The API's times are RFC 3339 in UTC; one before 1970 is as good as none. */
static struct err read_time(struct json_cursor *c, struct arena *a, void *out)
{
    struct str text;
    size_t at = c->pos;
    TRY(field_text(c, a, &text));
    if (rfc3339_parse(text, out))
        return err_none();
    return err_at(ERR_BAD_VALUE, (int64_t)at, "expected a time like 2026-11-22T09:00:00Z");
}

static struct err read_seconds(struct json_cursor *c, struct arena *a, void *out)
{
    int64_t seconds;
    (void)a;
    TRY(json_read_int(c, INT64_MIN / 2000, INT64_MAX / 2000, &seconds));
    if (seconds < 0)
        seconds = 0;
    if (seconds > SPAN_MAX_MS / 1000)
        seconds = SPAN_MAX_MS / 1000;
    *(span *)out = (span){seconds * 1000};
    return err_none();
}

static struct err read_phase(struct json_cursor *c, struct arena *a, void *out)
{
    static const char *const names[] = {[KUBE_POD_PENDING] = "Pending",
                                        [KUBE_POD_RUNNING] = "Running",
                                        [KUBE_POD_SUCCEEDED] = "Succeeded",
                                        [KUBE_POD_FAILED] = "Failed"};
    struct kube_pod *p = out;
    TRY(field_text(c, a, &p->phase_name));
    p->phase = p->phase_name.len ? KUBE_POD_UNKNOWN : KUBE_POD_PENDING;
    for (size_t i = 0; i < COUNT(names); i++)
        if (str_eq(p->phase_name, str_from(names[i])))
            p->phase = (enum kube_pod_phase)i;
    return err_none();
}

/* --- objects --- */

#define READ(table, out) field_read_object(false, c, a, (table), COUNT(table), (out))
#define OF(type, member) offsetof(struct type, member)
/* A member that may be absent or null. */
#define MEMBER(json, read, type, member)                                                           \
    {                                                                                              \
        (json), false, (read), OF(type, member), true                                              \
    }
/* A member that is an object or a list by itself; its parts go into the same struct. */
#define WITHIN(json, read)                                                                         \
    {                                                                                              \
        (json), false, (read), 0, true                                                             \
    }

/* Those of Windows are unsigned: 0xC0000005 is as negative as its processes see it. */
static struct err read_exit_code(struct json_cursor *c, struct arena *a, void *out)
{
    int64_t code;
    (void)a;
    TRY(json_read_int(c, INT32_MIN, UINT32_MAX, &code));
    *(int32_t *)out = (int32_t)(uint32_t)code;
    return err_none();
}

static const struct field end_table[] = {
    MEMBER("exitCode", read_exit_code, kube_pod_end, exit_code),
    MEMBER("signal", field_i32, kube_pod_end, signal),
    MEMBER("reason", field_text, kube_pod_end, reason),
    MEMBER("message", field_text, kube_pod_end, message),
    MEMBER("startedAt", read_time, kube_pod_end, started_at),
    MEMBER("finishedAt", read_time, kube_pod_end, ended_at),
};

static struct err read_end(struct json_cursor *c, struct arena *a, void *out)
{
    struct kube_pod_end *e = out;
    *e = (struct kube_pod_end){.is = true, .started_at = INSTANT_NONE, .ended_at = INSTANT_NONE};
    return READ(end_table, e);
}

static const struct field last_table[] = {
    MEMBER("terminated", read_end, kube_pod_container, last),
};

static struct err read_last(struct json_cursor *c, struct arena *a, void *out)
{
    return READ(last_table, out);
}

static const struct field waiting_table[] = {
    MEMBER("reason", field_text, kube_pod_container, waiting_reason),
    MEMBER("message", field_text, kube_pod_container, waiting_message),
};

static struct err read_waiting(struct json_cursor *c, struct arena *a, void *out)
{
    ((struct kube_pod_container *)out)->waiting = true;
    return READ(waiting_table, out);
}

static const struct field running_table[] = {
    MEMBER("startedAt", read_time, kube_pod_container, running_since),
};

static struct err read_running(struct json_cursor *c, struct arena *a, void *out)
{
    ((struct kube_pod_container *)out)->running = true;
    return READ(running_table, out);
}

static const struct field state_table[] = {
    WITHIN("waiting", read_waiting),
    WITHIN("running", read_running),
    MEMBER("terminated", read_end, kube_pod_container, end),
};

/* "Only one of its members may be specified"; of more, the last that a container can come to. */
static struct err read_state(struct json_cursor *c, struct arena *a, void *out)
{
    struct kube_pod_container *container = out;
    TRY(READ(state_table, out));
    container->running = container->running && !container->end.is;
    container->waiting = container->waiting && !container->running && !container->end.is;
    return err_none();
}

static const struct field status_table[] = {
    MEMBER("name", field_text, kube_pod_container, name),
    MEMBER("image", field_text, kube_pod_container, image),
    MEMBER("restartCount", field_i32, kube_pod_container, restart_count),
    WITHIN("state", read_state),
    WITHIN("lastState", read_last),
};

struct spec_container {
    struct str name, image, restart_policy;
};

static const struct field spec_container_table[] = {
    MEMBER("name", field_text, spec_container, name),
    MEMBER("image", field_text, spec_container, image),
    MEMBER("restartPolicy", field_text, spec_container, restart_policy),
};

/* --- lists --- */

/* Containers as the spec names them, and as their statuses do. */
struct container_list {
    struct kube_pod_container *at;
    size_t count, cap;
};

struct pod_parts {
    struct kube_pod pod;
    struct container_list init_specs, specs, init_statuses, statuses;
    span deletion_grace, spec_grace;
};

static struct kube_pod_container *add_container(struct container_list *l, struct arena *a)
{
    ARENA_GROW(a, l->at, l->count, l->cap, 4);
    l->at[l->count] = (struct kube_pod_container){.running_since = INSTANT_NONE};
    return &l->at[l->count++];
}

static struct err next_container(struct json_cursor *c, const struct container_list *l, bool *more)
{
    TRY(json_next_element(c, more));
    if (*more && l->count == KUBE_POD_CONTAINERS_MAX)
        return err_at(ERR_TOO_MANY, (int64_t)c->pos, "at most %d containers",
                      KUBE_POD_CONTAINERS_MAX);
    return err_none();
}

static struct err read_specs(struct json_cursor *c, struct arena *a, void *out)
{
    struct container_list *l = out;
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        struct spec_container s = {0};
        TRY(next_container(c, l, &more));
        if (!more)
            return err_none();
        TRY(READ(spec_container_table, &s));
        struct kube_pod_container *container = add_container(l, a);
        container->name = s.name;
        container->image = s.image;
        container->sidecar = str_eq(s.restart_policy, STR("Always"));
        container->restarts = container->sidecar || str_eq(s.restart_policy, STR("OnFailure"));
    }
}

static struct err read_statuses(struct json_cursor *c, struct arena *a, void *out)
{
    struct container_list *l = out;
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        TRY(next_container(c, l, &more));
        if (!more)
            return err_none();
        TRY(READ(status_table, add_container(l, a)));
    }
}

static const struct field condition_table[] = {
    MEMBER("type", field_text, kube_pod_condition, type),
    MEMBER("status", field_text, kube_pod_condition, status),
    MEMBER("reason", field_text, kube_pod_condition, reason),
    MEMBER("message", field_text, kube_pod_condition, message),
    MEMBER("lastTransitionTime", read_time, kube_pod_condition, since),
};

static struct err read_conditions(struct json_cursor *c, struct arena *a, void *out)
{
    struct kube_pod *p = out;
    struct kube_pod_condition *list = NULL;
    size_t count = 0, cap = 0;
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        ARENA_GROW(a, list, count, cap, 8);
        list[count] = (struct kube_pod_condition){.since = INSTANT_NONE};
        TRY(READ(condition_table, &list[count++]));
    }
    p->conditions = list;
    p->condition_count = count;
    return err_none();
}

/* --- the pod --- */

static const struct field metadata_table[] = {
    MEMBER("name", field_text, pod_parts, pod.name),
    MEMBER("namespace", field_text, pod_parts, pod.namespace),
    MEMBER("uid", field_text, pod_parts, pod.uid),
    MEMBER("resourceVersion", field_text, pod_parts, pod.version),
    MEMBER("labels", field_any, pod_parts, pod.labels),
    MEMBER("annotations", field_any, pod_parts, pod.annotations),
    MEMBER("creationTimestamp", read_time, pod_parts, pod.created_at),
    MEMBER("deletionTimestamp", read_time, pod_parts, pod.deleted_at),
    MEMBER("deletionGracePeriodSeconds", read_seconds, pod_parts, deletion_grace),
};

static struct err read_metadata(struct json_cursor *c, struct arena *a, void *out)
{
    return READ(metadata_table, out);
}

static const struct field spec_table[] = {
    MEMBER("nodeName", field_text, pod_parts, pod.node),
    MEMBER("terminationGracePeriodSeconds", read_seconds, pod_parts, spec_grace),
    MEMBER("initContainers", read_specs, pod_parts, init_specs),
    MEMBER("containers", read_specs, pod_parts, specs),
};

static struct err read_spec(struct json_cursor *c, struct arena *a, void *out)
{
    return READ(spec_table, out);
}

static const struct field pod_status_table[] = {
    MEMBER("phase", read_phase, pod_parts, pod),
    MEMBER("reason", field_text, pod_parts, pod.reason),
    MEMBER("message", field_text, pod_parts, pod.message),
    MEMBER("startTime", read_time, pod_parts, pod.started_at),
    MEMBER("conditions", read_conditions, pod_parts, pod),
    MEMBER("initContainerStatuses", read_statuses, pod_parts, init_statuses),
    MEMBER("containerStatuses", read_statuses, pod_parts, statuses),
};

static struct err read_status(struct json_cursor *c, struct arena *a, void *out)
{
    return READ(pod_status_table, out);
}

static const struct field pod_table[] = {
    WITHIN("metadata", read_metadata),
    WITHIN("spec", read_spec),
    WITHIN("status", read_status),
};

static const struct kube_pod_container *find(const struct container_list *l, struct str name,
                                             size_t near)
{
    if (near < l->count && str_eq(l->at[near].name, name))
        return &l->at[near];
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->at[i].name, name))
            return &l->at[i];
    return NULL;
}

/* Containers in the order of the spec, with what their statuses say: kubelets sort the statuses by
 * name, but which of a pod's containers failed first is a question about the spec. A status that
 * the spec does not name comes last. */
static void join(struct container_list *all, const struct container_list *specs,
                 const struct container_list *statuses, bool init, struct arena *a)
{
    size_t begin = all->count;
    for (size_t i = 0; i < specs->count; i++) {
        const struct kube_pod_container *s = find(statuses, specs->at[i].name, i);
        struct kube_pod_container *to = add_container(all, a);
        *to = s ? *s : specs->at[i];
        if (s && to->image.len == 0)
            to->image = specs->at[i].image;
        to->sidecar = specs->at[i].sidecar;
        to->restarts = specs->at[i].restarts;
        to->init = init;
    }
    struct container_list named = {0};
    if (specs->count)
        named = (struct container_list){all->at + begin, specs->count, 0};
    for (size_t i = 0; i < statuses->count; i++) {
        if (find(&named, statuses->at[i].name, i))
            continue;
        struct kube_pod_container *to = add_container(all, a);
        *to = statuses->at[i];
        to->init = init;
    }
}

#define GRACE_DEFAULT ((span){30000}) /* the API server's, for a spec that states none */
#define NOT_GIVEN     ((span){-1})

/* Annotations name it, else it is the first of those that do not go on beside others. */
static void mark_main(struct container_list *all, struct str annotations, struct arena *a)
{
    static const char *const keys[] = {"tenax.dev/main-container",
                                       "kubectl.kubernetes.io/default-container"};
    for (size_t k = 0; k < COUNT(keys); k++) {
        struct str name = kube_pod_value(annotations, keys[k], a);
        for (size_t i = 0; name.len && i < all->count; i++)
            if (!all->at[i].init && str_eq(all->at[i].name, name)) {
                all->at[i].main = true;
                return;
            }
    }
    for (int also_sidecars = 0; also_sidecars < 2; also_sidecars++)
        for (size_t i = 0; i < all->count; i++)
            if (!all->at[i].init && (also_sidecars || !all->at[i].sidecar)) {
                all->at[i].main = true;
                return;
            }
}

struct err kube_pod_read(struct str json, struct arena *a, struct kube_pod *out)
{
    struct pod_parts p = {
        .pod = {.created_at = INSTANT_NONE, .deleted_at = INSTANT_NONE, .started_at = INSTANT_NONE},
        .deletion_grace = NOT_GIVEN,
        .spec_grace = NOT_GIVEN};
    struct json_cursor cursor = json_open(json), *c = &cursor;
    TRY(READ(pod_table, &p));
    TRY(json_close(c));
    if (p.pod.name.len == 0)
        return err_make(ERR_MISSING_FIELD, "metadata.name is required");
    p.pod.grace = p.deletion_grace.ms >= 0 ? p.deletion_grace
                  : p.spec_grace.ms >= 0   ? p.spec_grace
                                           : GRACE_DEFAULT;
    struct container_list all = {0};
    join(&all, &p.init_specs, &p.init_statuses, true, a);
    for (size_t i = 0; i < all.count; i++)
        p.pod.has_init |= !all.at[i].sidecar;
    join(&all, &p.specs, &p.statuses, false, a);
    mark_main(&all, p.pod.annotations, a);
    p.pod.containers = all.at;
    p.pod.container_count = all.count;
    *out = p.pod;
    return err_none();
}

/* --- events --- */

struct event_parts {
    struct kube_pod_event event;
    struct str kind, type, note;
    instant last, event_time, series_at;
    int32_t old_count, series_count;
};

static const struct field object_table[] = {
    MEMBER("kind", field_text, event_parts, kind),
    MEMBER("name", field_text, event_parts, event.pod),
    MEMBER("namespace", field_text, event_parts, event.namespace),
    MEMBER("uid", field_text, event_parts, event.uid),
};

static struct err read_object(struct json_cursor *c, struct arena *a, void *out)
{
    return READ(object_table, out);
}

static const struct field series_table[] = {
    MEMBER("count", field_i32, event_parts, series_count),
    MEMBER("lastObservedTime", read_time, event_parts, series_at),
};

static struct err read_series(struct json_cursor *c, struct arena *a, void *out)
{
    return READ(series_table, out);
}

/* The members of both versions of the API. */
static const struct field event_table[] = {
    WITHIN("involvedObject", read_object),
    WITHIN("regarding", read_object),
    WITHIN("series", read_series),
    MEMBER("type", field_text, event_parts, type),
    MEMBER("reason", field_text, event_parts, event.reason),
    MEMBER("message", field_text, event_parts, event.message),
    MEMBER("note", field_text, event_parts, note),
    MEMBER("count", field_i32, event_parts, event.count),
    MEMBER("deprecatedCount", field_i32, event_parts, old_count),
    MEMBER("lastTimestamp", read_time, event_parts, last),
    MEMBER("deprecatedLastTimestamp", read_time, event_parts, last),
    MEMBER("eventTime", read_time, event_parts, event_time),
};

struct err kube_pod_event_read(struct str json, struct arena *a, struct kube_pod_event *out)
{
    struct event_parts p = {
        .last = INSTANT_NONE, .event_time = INSTANT_NONE, .series_at = INSTANT_NONE};
    struct json_cursor cursor = json_open(json), *c = &cursor;
    TRY(READ(event_table, &p));
    TRY(json_close(c));
    struct kube_pod_event *e = &p.event;
    e->about_pod = str_eq(p.kind, STR("Pod"));
    e->warning = str_eq(p.type, STR("Warning"));
    if (e->message.len == 0)
        e->message = p.note;
    if (e->count < p.old_count)
        e->count = p.old_count;
    if (e->count < p.series_count)
        e->count = p.series_count;
    if (e->count < 1)
        e->count = 1;
    e->at = instant_max(p.series_at, instant_max(p.last, p.event_time));
    *out = *e;
    return err_none();
}

/* --- questions --- */

const struct kube_pod_container *kube_pod_main(const struct kube_pod *p)
{
    for (size_t i = 0; i < p->container_count; i++)
        if (p->containers[i].main)
            return &p->containers[i];
    return NULL;
}

struct str kube_pod_value(struct str map, const char *key, struct arena *a)
{
    struct json_cursor c = json_open(map);
    if (map.len == 0 || json_enter_object(&c).code != ERR_OK)
        return (struct str){0};
    for (;;) {
        bool more;
        enum json_type type;
        struct json_string name;
        struct str value;
        if (json_next_member(&c, &more, &name).code != ERR_OK || !more)
            return (struct str){0};
        if (json_peek(&c, &type).code != ERR_OK)
            return (struct str){0};
        if (str_eq(name.raw, str_from(key)) && type == JSON_STRING)
            return field_text(&c, a, &value).code == ERR_OK ? value : (struct str){0};
        if (json_skip(&c, NULL).code != ERR_OK)
            return (struct str){0};
    }
}

const struct kube_pod_condition *kube_pod_condition(const struct kube_pod *p, const char *type)
{
    for (size_t i = 0; i < p->condition_count; i++)
        if (str_eq(p->conditions[i].type, str_from(type)))
            return &p->conditions[i];
    return NULL;
}

const struct kube_pod_condition *kube_pod_is(const struct kube_pod *p, const char *type)
{
    const struct kube_pod_condition *c = kube_pod_condition(p, type);
    return c && str_eq(c->status, STR("True")) ? c : NULL;
}

bool kube_pod_unschedulable(const struct kube_pod *p)
{
    const struct kube_pod_condition *c = kube_pod_condition(p, "PodScheduled");
    return c && p->node.len == 0 && str_eq(c->status, STR("False")) &&
           str_eq(c->reason, STR("Unschedulable"));
}

bool kube_pod_is_gated(const struct kube_pod *p)
{
    const struct kube_pod_condition *c = kube_pod_condition(p, "PodScheduled");
    return c && p->node.len == 0 && str_eq(c->reason, STR("SchedulingGated"));
}

/* When a container was first started, or none. */
static instant start_of(const struct kube_pod_container *c)
{
    return c->last.is                              ? c->last.started_at
           : c->running                            ? c->running_since
           : c->end.is && c->end.started_at.ms > 0 ? c->end.started_at
                                                   : INSTANT_NONE;
}

struct kube_pod_times kube_pod_times(const struct kube_pod *p)
{
    const struct kube_pod_condition *scheduled = kube_pod_is(p, "PodScheduled");
    struct kube_pod_times t = {.created = p->created_at,
                               .scheduled = scheduled ? scheduled->since : INSTANT_NONE,
                               .pulled = INSTANT_NONE,
                               .running = INSTANT_NONE,
                               .ended = INSTANT_NONE};
    bool all = p->container_count > 0;
    for (size_t i = 0; i < p->container_count; i++) {
        const struct kube_pod_container *c = &p->containers[i];
        instant start = start_of(c);
        if (instant_is_set(start))
            t.pulled = instant_is_set(t.pulled) ? instant_min(t.pulled, start) : start;
        if (c->end.is)
            t.ended = instant_max(t.ended, c->end.ended_at);
        if (c->init)
            continue;
        all = all && instant_is_set(start);
        t.running = instant_max(t.running, start);
    }
    if (!all)
        t.running = INSTANT_NONE;
    return t;
}
