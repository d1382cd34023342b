/* SPDX-License-Identifier: Apache-2.0 */

/* Annotations of Armada's jobs. */

#include "api/api_routes.h"

/* Takes the first name off "a,b". */
static struct str next_name(struct str *names)
{
    const char *comma = memchr(names->at, ',', names->len);
    size_t n = comma ? (size_t)(comma - names->at) : names->len;
    struct str name = {names->at, n};
    size_t used = comma ? n + 1 : n;
    *names = (struct str){names->at + used, names->len - used};
    return name;
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

static const struct field annotations_table[] = {
    {"armadaproject.io/retry-policy", false, read_policies, 0, true,
     "string: retry policies, as a,b; they come behind those in retry_policies"},
};
const struct api_body api_annotations_body = {.name = "NewAnnotations",
                                              API_FIELDS(annotations_table),
                                              .doc = "object: what jobs of Armada say"};

struct err api_decode_annotations(const struct api *a, struct json_cursor *c, struct arena *arena,
                                  struct job_options *out)
{
    const struct api_body *b = &api_annotations_body;
    return field_read_object(a->strict, c, arena, b->fields, b->count, out);
}
