/* SPDX-License-Identifier: Apache-2.0 */

/* Annotations of Armada's jobs. */

#include <string.h>

#include "api/api_routes.h"
#include "base/array.h"

static struct str trimmed(struct str s)
{
    while (s.len && (s.at[0] == ' ' || s.at[0] == '\t'))
        s = (struct str){s.at + 1, s.len - 1};
    while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Takes the first name off "a, b". */
static struct str next_name(struct str *names)
{
    const char *comma = memchr(names->at, ',', names->len);
    size_t n = comma ? (size_t)(comma - names->at) : names->len;
    struct str name = {names->at, n};
    size_t used = comma ? n + 1 : n;
    *names = (struct str){names->at + used, names->len - used};
    return trimmed(name);
}

static bool has_name(struct str names, struct str name)
{
    while (names.len)
        if (str_eq(next_name(&names), name))
            return true;
    return false;
}

static size_t count_names(struct str names)
{
    size_t n = 0;
    for (; names.len; n++)
        (void)next_name(&names);
    return n;
}

/* Behind those that retry_policies names, each once. */
static struct err add_policies(struct str added, struct arena *a, struct str *names)
{
    char *text = arena_get(a, names->len + added.len + 2);
    struct str all = {text, names->len};
    if (names->len)
        memcpy(text, names->at, names->len);
    while (added.len) {
        struct str name = next_name(&added);
        if (name.len == 0)
            continue;
        TRY(job_check_name(name, "the name of a retry policy"));
        if (has_name(all, name))
            continue;
        if (all.len)
            text[all.len++] = ',';
        memcpy(text + all.len, name.at, name.len);
        all.len += name.len;
    }
    if (count_names(all) > API_POLICIES_MAX)
        return err_make(ERR_TOO_MANY, "at most %d retry policies", API_POLICIES_MAX);
    *names = all;
    return err_none();
}

static struct err read_policies(struct json_cursor *c, struct arena *a, void *out)
{
    struct job_options *o = out;
    struct str text;
    TRY(field_text(c, a, &text));
    return add_policies(text, a, &o->retry_policies);
}

static struct err read_gang_id(struct json_cursor *c, struct arena *a, void *out)
{
    struct job_options *o = out;
    struct str id;
    TRY(field_text(c, a, &id));
    TRY(job_check_name(id, "the id of a gang"));
    o->gang = id;
    return err_none();
}

static struct err read_gang_size(struct json_cursor *c, struct arena *a, void *out)
{
    struct job_options *o = out;
    struct str text;
    uint64_t n = 0;
    TRY(field_text(c, a, &text));
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9' || n > JOB_GANG_MAX)
            return err_make(ERR_BAD_VALUE, "a whole number from 1 to %d as text", JOB_GANG_MAX);
        n = n * 10 + (uint64_t)(text.at[i] - '0');
    }
    if (n == 0 || n > JOB_GANG_MAX)
        return err_make(ERR_BAD_VALUE, "a whole number from 1 to %d as text", JOB_GANG_MAX);
    o->gang_size = n;
    return err_none();
}

/* As Go's ParseBool, which Armada reads it by. */
static struct err read_fail_fast(struct json_cursor *c, struct arena *a, void *out)
{
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    struct job_options *o = out;
    struct str text;
    TRY(field_text(c, a, &text));
    for (size_t i = 0; i < COUNT(yes); i++) {
        bool is_yes = str_eq(text, str_from(yes[i]));
        if (is_yes)
            o->fail_fast = 1;
        if (is_yes || str_eq(text, str_from(no[i])))
            return err_none();
    }
    return err_make(ERR_BAD_VALUE, "true or false as text");
}

static const struct field annotations_table[] = {
    {"armadaproject.io/retry-policy", false, read_policies, 0, true,
     "string: retry policies, as a,b; they come behind those in retry_policies"},
    {"armadaproject.io/gangId", false, read_gang_id, 0, true, "name 1..$: as the id in gang",
     JOB_NAME_MAX},
    {"armadaproject.io/gangCardinality", false, read_gang_size, 0, true,
     "string /^0*([1-9][0-9]{0,2}|1000)$/: as the cardinality in gang"},
    {"armadaproject.io/failFast", false, read_fail_fast, 0, true,
     "string /^(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False)$/: true: as fail_fast"},
};
const struct api_body api_annotations_body = {.name = "AnnotationsInput",
                                              API_FIELDS(annotations_table),
                                              .rules = "armadaproject.io/gangId needs "
                                                       "armadaproject.io/gangCardinality; "
                                                       "armadaproject.io/gangCardinality needs "
                                                       "armadaproject.io/gangId",
                                              .doc = "object: what jobs of Armada say"};

struct err api_decode_annotations(bool strict, struct json_cursor *c, struct arena *arena,
                                  struct job_options *out)
{
    const struct api_body *b = &api_annotations_body;
    const struct str gang = out->gang;
    const uint64_t size = out->gang_size;
    out->gang = (struct str){0};
    out->gang_size = 0;
    TRY(field_read_object(strict, c, arena, b->fields, b->count, out));
    if (!out->gang.len != !out->gang_size)
        return err_make(ERR_MISSING_FIELD, "gangId and gangCardinality go together");
    if (gang.len) { /* what the job itself says comes first */
        out->gang = gang;
        out->gang_size = size;
    }
    return err_none();
}

/* A job as Armada's clients submit it: {"podSpec": {...}, "annotations": {...}}. */
struct armada_job {
    struct str pod_spec, pod_specs;
    struct field_part annotations;
};

static const struct field armada_job_table[] = {
    {"podSpec", false, field_any, offsetof(struct armada_job, pod_spec)},
    {"podSpecs", false, field_any, offsetof(struct armada_job, pod_specs)},
    {"annotations", false, field_part, offsetof(struct armada_job, annotations), true},
};

struct err api_decode_payload_annotations(struct str payload, struct arena *arena,
                                          struct job_options *out)
{
    static const char domain[] = "armadaproject.io";
    struct armada_job job = {0};
    if (!memmem(payload.at, payload.len, domain, sizeof domain - 1))
        return err_none();
    struct json_cursor c = json_open(payload);
    enum json_type type;
    if (json_peek(&c, &type).code != ERR_OK || type != JSON_OBJECT ||
        field_read_object(false, &c, arena, armada_job_table, COUNT(armada_job_table), &job).code !=
            ERR_OK)
        return err_none(); /* another kind of payload */
    if (!job.annotations.given || (!job.pod_spec.len && !job.pod_specs.len))
        return err_none();
    struct err err = api_decode_annotations(false, &job.annotations.at, arena, out);
    err.offset = -1; /* it would be one of the payload */
    return err;
}
