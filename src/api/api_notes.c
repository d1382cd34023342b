/* SPDX-License-Identifier: Apache-2.0 */

/* What workers leave with their jobs: progress, checkpoints, results. */

#include "api/api_internal.h"
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
    {"value", true, read_fraction, offsetof(struct news, progress)},
    {"note", false, read_note, offsetof(struct news, progress_note), true},
};

struct err api_field_progress(struct json_cursor *c, struct arena *a, void *news_fields)
{
    struct news_fields *f = news_fields;
    (void)a;
    f->progress = *c;
    f->news.has_progress = true;
    return json_skip(c, NULL);
}

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
    if (!f->news.has_progress)
        return err_none();
    struct err err = field_read_object(a->strict, &f->progress, arena, progress_table,
                                       COUNT(progress_table), &f->news);
    return err.code == ERR_OK ? err : field_in(err, "progress");
}

/* --- to JSON --- */

void api_encode_checkpoint(struct buf *b, const struct note *n, unsigned how)
{
    buf_lit(b, ",\"checkpoint\":");
    if (how & ENCODE_ONE_LINE)
        json_write_one_line(b, n->text);
    else
        buf_str(b, n->text);
    buf_print(b, ",\"checkpoint_run\":%u", n->run);
}

void api_encode_progress(struct buf *b, const struct note *n)
{
    buf_lit(b, ",\"progress\":{\"value\":");
    json_write_double(b, n->value);
    if (n->text.len) {
        buf_lit(b, ",\"note\":");
        json_write_string(b, n->text);
    }
    buf_print(b, ",\"run\":%u,\"at\":%lld}", n->run, (long long)n->at.ms);
}

void api_encode_notes(struct buf *b, const struct job_notes *notes)
{
    if (notes->has & NOTE_BIT(NOTE_PROGRESS))
        api_encode_progress(b, &notes->at[NOTE_PROGRESS]);
    if (notes->has & NOTE_BIT(NOTE_CHECKPOINT))
        api_encode_checkpoint(b, &notes->at[NOTE_CHECKPOINT], 0);
    if (notes->has & NOTE_BIT(NOTE_RESULT)) {
        buf_lit(b, ",\"result\":");
        buf_str(b, notes->at[NOTE_RESULT].text);
    }
}
