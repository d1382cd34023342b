/* SPDX-License-Identifier: Apache-2.0 */

/* What workers leave with their jobs: progress, checkpoints, results. */

#include "api/api_routes.h"
#include "base/array.h"

/* --- from JSON --- */

static struct err read_fraction(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_double(c, 0, 1, out);
}

static struct err read_note(struct json_cursor *c, struct arena *a, void *out)
{
    struct str *text = out;
    TRY(field_text(c, a, text));
    if (text->len <= JOB_PROGRESS_NOTE_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "at most %d bytes, not %zu", JOB_PROGRESS_NOTE_MAX, text->len);
}

static const struct field progress_table[] = {
    {"value", true, read_fraction, offsetof(struct news, progress), .doc = "number 0..1"},
    {"note", false, read_note, offsetof(struct news, progress_note), true, "string 0..$",
     JOB_PROGRESS_NOTE_MAX},
    {"event", false, field_bool, offsetof(struct news, progress_event), true,
     "boolean: also as an event, `job_progress`"},
};
const struct api_body api_made_progress_body = {.name = "ProgressInput",
                                                API_FIELDS(progress_table)};

static struct err read_value(struct json_cursor *c, struct str *raw)
{
    TRY(json_skip(c, raw));
    if (raw->len <= JOB_NOTE_MAX)
        return err_none();
    return err_make(ERR_TOO_LARGE, "at most %d bytes of JSON, not %zu", JOB_NOTE_MAX, raw->len);
}

struct err api_field_checkpoint(struct json_cursor *c, struct arena *a, void *news_fields)
{
    struct news_fields *f = news_fields;
    bool none;
    (void)a;
    f->news.has_checkpoint = true;
    TRY(json_take_null(c, &none));
    return none ? err_none() : read_value(c, &f->news.checkpoint);
}

struct err api_field_result(struct json_cursor *c, struct arena *a, void *str)
{
    (void)a;
    return read_value(c, str);
}

struct err api_decode_news(const struct api *a, struct arena *arena, struct news_fields *f)
{
    f->news.has_progress = f->progress.given;
    return field_read_part(a->strict, &f->progress, arena, progress_table, COUNT(progress_table),
                           "progress", &f->news);
}

/* --- to JSON --- */

static const struct shape_member progress_members[] = {
    {MEMBER(struct note, value, "value", ALWAYS, "0 to 1", .type = "number 0..1")},
    {MEMBER(struct note, text, "note", IF_SET, NULL)},
    {MEMBER(struct note, run, "run", ALWAYS, "that said it")},
    {MEMBER(struct note, at, "at", ALWAYS, "when")},
};
const struct shape api_progress_shape = {.name = "Progress", SHAPE_MEMBERS(progress_members)};

static const struct shape_member checkpoint_members[] = {
    {MEMBER_JSON(struct note, text, "checkpoint", ALWAYS, "what a run left for the next one")},
    {MEMBER(struct note, run, "checkpoint_run", ALWAYS, "that left it")},
};
const struct shape api_checkpoint_shape = {SHAPE_MEMBERS(checkpoint_members)};

static bool has_progress(const void *notes)
{
    return ((const struct job_notes *)notes)->has & NOTE_BIT(NOTE_PROGRESS);
}

static bool has_checkpoint(const void *notes)
{
    return ((const struct job_notes *)notes)->has & NOTE_BIT(NOTE_CHECKPOINT);
}

static bool has_result(const void *notes)
{
    return ((const struct job_notes *)notes)->has & NOTE_BIT(NOTE_RESULT);
}

static const struct shape_member notes_members[] = {
    {MEMBER_OBJECT(struct job_notes, at[NOTE_PROGRESS], "progress", IF_SET, &api_progress_shape,
                   NULL, .is_set = has_progress)},
    {MEMBERS_OF(struct job_notes, at[NOTE_CHECKPOINT], &api_checkpoint_shape),
     .is_set = has_checkpoint},
    {MEMBER_JSON(struct job_notes, at[NOTE_RESULT].text, "result", IF_SET, "of its success",
                 .is_set = has_result)},
};
const struct shape api_notes_shape = {SHAPE_MEMBERS(notes_members)};
