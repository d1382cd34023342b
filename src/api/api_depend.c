/* SPDX-License-Identifier: Apache-2.0 */

/* Which jobs a job waits for. */

#include <stdio.h>

#include "api/api_routes.h"
#include "core/depend.h"

/* --- from JSON --- */

/* An id, or the place of an earlier job in the same request. */
static struct err read_one(struct json_cursor *c, struct arena *a, struct id *id)
{
    enum json_type type;
    int64_t index;
    struct str text;
    TRY(json_peek(c, &type));
    if (type == JSON_NUMBER) {
        TRY(json_read_int(c, 0, INT32_MAX, &index));
        *id = depend_earlier((uint32_t)index);
        return err_none();
    }
    TRY(field_text(c, a, &text));
    if (id_parse(text, id).code == ERR_OK && id->hi != 0)
        return err_none();
    return err_make(ERR_UNPROCESSABLE, "there is no job '%.*s'; a job id has 25 letters and digits",
                    (int)(text.len < 64 ? text.len : 64), text.at);
}

const struct api_body api_dependency_body = {
    .name = "Dependency",
    .doc = "JobId or integer 0..: a job, or the place of an earlier one in the same request"};

struct err api_field_depends_on(struct json_cursor *c, struct arena *a, void *str)
{
    struct str ids = depend_new(a, DEPEND_MAX);
    TRY(json_enter_array(c));
    for (size_t i = 0;; i++) {
        bool more;
        struct id id;
        char where[32];
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        if (i == DEPEND_MAX)
            return err_make(ERR_TOO_MANY, "at most %d jobs", DEPEND_MAX);
        struct err err = read_one(c, a, &id);
        snprintf(where, sizeof where, "[%zu]", i);
        if (err.code != ERR_OK)
            return field_in(err, where);
        depend_add(&ids, id);
    }
    *(struct str *)str = ids;
    return err_none();
}

struct err api_field_depend_when(struct json_cursor *c, struct arena *a, void *u64)
{
    struct str name;
    enum depend_when when;
    TRY(field_text(c, a, &name));
    if (!depend_when_parse(name, &when))
        return err_make(ERR_BAD_VALUE, "all_completed or all_ended, not '%.*s'",
                        (int)(name.len < 32 ? name.len : 32), name.at);
    *(uint64_t *)u64 = when;
    return err_none();
}

struct err api_field_depend_death(struct json_cursor *c, struct arena *a, void *u64)
{
    struct str name;
    enum depend_death death;
    TRY(field_text(c, a, &name));
    if (!depend_death_parse(name, &death))
        return err_make(ERR_BAD_VALUE, "block, run or die, not '%.*s'",
                        (int)(name.len < 32 ? name.len : 32), name.at);
    *(uint64_t *)u64 = death;
    return err_none();
}

struct err api_check_depends(const struct enqueue *spec)
{
    const struct job_options *o = &spec->options;
    if (o->hold && spec->batch.key.len)
        return err_make(ERR_BAD_VALUE, "hold: a job with a batch takes in others while it is "
                                       "ready; it cannot be held");
    if (o->depends_on.len == 0)
        return err_none();
    if (o->depend_when == DEPEND_ALL_ENDED && o->depend_death == DEPEND_DIE)
        return err_make(ERR_BAD_VALUE, "on_dependency_death: what waits for all_ended does not die "
                                       "of a death");
    if (spec->batch.key.len)
        return err_make(ERR_BAD_VALUE, "a job that waits for others cannot be batched");
    return err_none();
}

/* --- to JSON --- */

void api_encode_ids(struct buf *b, struct str ids)
{
    buf_byte(b, '[');
    for (size_t i = 0; i < depend_count(ids); i++) {
        if (i)
            buf_byte(b, ',');
        shape_write_id(b, depend_at(ids, i));
    }
    buf_byte(b, ']');
}
