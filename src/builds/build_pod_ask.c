/* SPDX-License-Identifier: Apache-2.0 */

/* What a buildConfig asks for: who it is, its annotations against the settings' limits, and, for
 * pull requests, whose caches it may read. */

#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "base/base64.h"
#include "base/decimal.h"
#include "builds/build_pod_internal.h"

/* "launcher-<build>" is a container's name, of at most 63 characters. */
#define BUILD_NAME_MAX 54
#define GRACE_MAX      INT32_MAX

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* --- members --- */

/* A text, or what stands for a number: ids are sent as either. */
static struct str text_of(const struct document_node *n)
{
    bool has = n && (n->type == DOCUMENT_STRING || n->type == DOCUMENT_NUMBER);
    return has ? n->text : (struct str){0};
}

static const struct document_node *member(const struct document_node *map, const char *key)
{
    return map ? document_member(map, key) : NULL;
}

static struct str text_at(const struct document_node *config, const char *a, const char *b)
{
    return text_of(member(member(config, a), b));
}

/* Nothing that could leave a folder, or a word of a script. */
static bool is_plain(struct str s)
{
    bool other = false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.at[i];
        if (!is_letter(c) && !is_digit(c) && c != '_' && c != '-' && c != '.')
            return false;
        other = other || c != '.';
    }
    return other && s.len <= 63;
}

/* An id, which may be absent. */
static struct err read_id(struct str id, const char *what, struct str *out)
{
    *out = id;
    if (id.len == 0 || is_plain(id))
        return err_none();
    return err_make(ERR_BAD_VALUE,
                    "buildConfig.%s must be a number, or letters, digits, '-', '_' and '.'", what);
}

/* --- who it is --- */

struct err build_pod_label(const struct build_settings *s, struct str build_id, struct arena *a,
                           struct str *out)
{
    struct buf b = {0};
    buf_str(&b, str_from(build_text(s, BUILD_PREFIX)));
    buf_str(&b, build_id);
    *out = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    char last = out->len ? out->at[out->len - 1] : '-', first = out->len ? *out->at : '-';
    if (build_id.len && is_plain(*out) && out->len <= BUILD_NAME_MAX &&
        (is_letter(first) || is_digit(first)) && (is_letter(last) || is_digit(last)))
        return err_none();
    return err_make(ERR_BAD_VALUE,
                    "buildConfig.buildId, with the prefix of the settings, must be at most %d "
                    "letters, digits, '-', '_' and '.'",
                    BUILD_NAME_MAX);
}

/* FNV-1a, and a last stirring, since names differ in their last characters only. What it gives is
 * part of the promise that a message makes one pod, also if another version of Tenax reads it. */
static uint64_t hash(struct str text)
{
    uint64_t h = 14695981039346656037U;
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (unsigned char)text.at[i]) * 1099511628211U;
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdU;
    return h ^ (h >> 33);
}

static struct str pod_name(struct str build, struct arena *a)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char *name = arena_get(a, build.len + 1 + BUILD_POD_SUFFIX);
    uint64_t h = hash(build);
    memcpy(name, build.at, build.len);
    name[build.len] = '-';
    for (size_t i = 1; i <= BUILD_POD_SUFFIX; i++, h /= 36)
        name[build.len + i] = digits[h % 36];
    return (struct str){name, build.len + 1 + BUILD_POD_SUFFIX};
}

static struct err read_who(const struct build_settings *s, const struct document_node *config,
                           struct arena *a, struct build_pod_ask *ask)
{
    ask->build_id = text_of(member(config, "buildId"));
    TRY(build_pod_label(s, ask->build_id, a, &ask->build));
    ask->name = pod_name(ask->build, a);
    ask->container = document_text(config, "container");
    if (ask->container.len == 0)
        return err_make(ERR_BAD_VALUE, "buildConfig.container must be the name of an image");
    ask->token = document_text(config, "token");
    if (ask->token.len == 0)
        return err_make(ERR_BAD_VALUE, "buildConfig.token must be a text");
    TRY(read_id(text_of(member(config, "jobId")), "jobId", &ask->job_id));
    TRY(read_id(text_of(member(config, "eventId")), "eventId", &ask->event_id));
    TRY(read_id(text_at(config, "pipeline", "id"), "pipeline.id", &ask->pipeline_id));
    ask->job_name = text_of(member(config, "jobName"));
    ask->pipeline_name = text_at(config, "pipeline", "name");
    ask->template_name = text_at(config, "template", "fullName");
    ask->template_version = text_at(config, "template", "version");
    ask->pr_number = text_of(member(config, "prNum"));
    return err_none();
}

/* --- pull requests --- */

/* PR-12, PR-12:main, PR-12:stage@canary:setup. */
static bool is_pr(struct str job)
{
    size_t i = 3;
    if (job.len < 4 || strncasecmp(job.at, "PR-", 3) != 0 || !is_digit(job.at[3]))
        return false;
    while (i < job.len && is_digit(job.at[i]))
        i++;
    return i == job.len || (job.at[i] == ':' && i + 1 < job.len);
}

/* The second part of a token, which whoever gets it verifies; here it only says where a cache is.
 */
static const struct document_node *claims(struct str token, struct arena *a)
{
    struct document_list list;
    struct document_fault fault;
    struct str json;
    const char *begin = memchr(token.at, '.', token.len);
    if (!begin)
        return NULL;
    begin++;
    size_t left = token.len - (size_t)(begin - token.at);
    const char *end = memchr(begin, '.', left);
    if (!end || !base64_read((struct str){begin, (size_t)(end - begin)}, a, &json) ||
        !document_read(json, DOCUMENT_JSON, a, &list, &fault))
        return NULL;
    return list.first;
}

static void read_pr(struct arena *a, struct build_pod_ask *ask)
{
    ask->pr = is_pr(ask->job_name);
    if (!ask->pr)
        return;
    struct str parent = text_of(member(claims(ask->token, a), "prParentJobId"));
    if (is_plain(parent))
        ask->job_id = parent;
}

/* --- annotations --- */

/* screwdriver.cd/NAME or beta.screwdriver.cd/NAME; of several, the last. */
static const struct document_node *annotation(const struct document_node *config, const char *name)
{
    static const struct str beta = {"beta.", 5}, domain = {"screwdriver.cd/", 15};
    const struct document_node *map = member(config, "annotations"), *found = NULL;
    if (!map || map->type != DOCUMENT_MAP)
        return NULL;
    for (const struct document_node *n = map->first; n; n = n->next) {
        struct str key = n->key;
        if (key.len > beta.len && memcmp(key.at, beta.at, beta.len) == 0)
            key = (struct str){key.at + beta.len, key.len - beta.len};
        if (key.len > domain.len && memcmp(key.at, domain.at, domain.len) == 0 &&
            str_eq((struct str){key.at + domain.len, key.len - domain.len}, str_from(name)))
            found = n;
    }
    return found;
}

/* MAX is a class of processors only. */
static const char *const classes[] = {"MICRO", "LOW", "HIGH", "TURBO", "MAX"};
enum { CLASS_LOW = 1, CLASS_MAX = 4 };
static const enum build_setting cpus[] = {BUILD_CPU_MICRO, BUILD_CPU_LOW, BUILD_CPU_HIGH,
                                          BUILD_CPU_TURBO, BUILD_CPU_MAX};
static const enum build_setting memories[] = {
    BUILD_MEMORY_MICRO, BUILD_MEMORY_LOW, BUILD_MEMORY_HIGH, BUILD_MEMORY_TURBO, BUILD_MEMORY_MAX};

/* The class that it names, of the first `count`; LOW if none. */
static size_t class_of(const struct document_node *n, size_t count)
{
    for (size_t i = 0; n && n->type == DOCUMENT_STRING && i < count; i++)
        if (str_eq(n->text, str_from(classes[i])))
            return i;
    return CLASS_LOW;
}

static double limited(const struct build_settings *s, const enum build_setting *table,
                      const struct document_node *n, size_t count, bool by_number)
{
    double most = s->values[table[CLASS_MAX]].number;
    int64_t whole;
    if (by_number && n && n->type == DOCUMENT_NUMBER && decimal_whole(n->text, &whole) && whole > 0)
        return fmin((double)whole, most);
    return s->values[table[class_of(n, count)]].number;
}

static struct build_pod_amount amount(const struct build_settings *s,
                                      const struct document_node *config, const char *cpu,
                                      const char *memory, bool by_number)
{
    const struct document_node *c = annotation(config, cpu), *m = annotation(config, memory);
    return (struct build_pod_amount){
        .cpu = (int64_t)round(limited(s, cpus, c, CLASS_MAX + 1, by_number) * 1000),
        .memory = limited(s, memories, m, CLASS_MAX, by_number)};
}

static bool is_true(const struct document_node *n)
{
    return n && n->type == DOCUMENT_BOOL && str_eq(n->text, STR("true"));
}

/* A number over 0, also as a text; else 0. */
static double number_of(const struct document_node *n)
{
    int64_t whole = 0;
    double v = 0;
    if (n && n->type == DOCUMENT_NUMBER)
        v = decimal_double(n->text);
    else if (n && n->type == DOCUMENT_STRING && decimal_digits(n->text, 15, &whole))
        v = (double)whole;
    return v > 0 ? v : 0;
}

static struct str lower(struct str s, struct arena *a)
{
    char *to = arena_get(a, s.len + 1);
    for (size_t i = 0; i < s.len; i++)
        to[i] = (char)(s.at[i] >= 'A' && s.at[i] <= 'Z' ? s.at[i] + 32 : s.at[i]);
    return (struct str){to, s.len};
}

static void read_annotations(const struct build_settings *s, const struct document_node *config,
                             struct arena *a, struct build_pod_ask *ask)
{
    const struct document_node *speed = annotation(config, "diskSpeed");
    double timeout = number_of(annotation(config, "timeout"));
    double grace = number_of(annotation(config, "terminationGracePeriodSeconds"));
    ask->amount = amount(s, config, "cpu", "ram", true);
    ask->docker = amount(s, config, "dockerCpu", "dockerRam", false);
    ask->buildkit = amount(s, config, "buildkitCpu", "buildkitRam", false);
    ask->with_docker = build_bool(s, BUILD_DOCKER) && is_true(annotation(config, "dockerEnabled"));
    ask->with_buildkit =
        build_bool(s, BUILD_BUILDKIT) && is_true(annotation(config, "rootlessBuildkitEnabled"));
    ask->disk = classes[class_of(annotation(config, "disk"), CLASS_MAX)];
    if (speed && speed->type == DOCUMENT_STRING)
        ask->disk_speed = lower(speed->text, a);
    ask->timeout = timeout > 0 ? fmin(timeout, (double)build_int(s, BUILD_BUILD_TIMEOUT_MAX))
                               : (double)build_int(s, BUILD_BUILD_TIMEOUT);
    ask->grace = build_int(s, BUILD_GRACE);
    if (grace > (double)ask->grace)
        ask->grace = (int64_t)fmin(ceil(grace), GRACE_MAX);
}

struct err build_pod_ask_read(const struct build_settings *s, const struct document_node *config,
                              struct arena *a, struct build_pod_ask *out)
{
    *out = (struct build_pod_ask){0};
    TRY(read_who(s, config, a, out));
    read_pr(a, out);
    read_annotations(s, config, a, out);
    if (strcmp(build_text(s, BUILD_CACHE_STRATEGY), "disk") != 0)
        return err_none();
    /* Without one of them, the folder would be that of all pipelines. */
    if (out->pipeline_id.len == 0 || out->job_id.len == 0 || out->event_id.len == 0)
        return err_make(ERR_BAD_VALUE, "buildConfig must have pipeline.id, jobId and eventId: the "
                                       "caches on the node's disk are named by them");
    return err_none();
}
