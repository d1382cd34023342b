/* SPDX-License-Identifier: Apache-2.0 */
#include "client/jobtext.h"

#include "base/array.h"
#include "base/id.h"
#include "client/table.h"
#include "client/view.h"
#include "client/when.h"

static const struct {
    const char *status, *field, *before;
} moments[] = {
    {"scheduled", "ready_at", ""},          {"ready", "ready_at", ""},
    {"in_flight", "dequeued_at", "taken "}, {"completed", "completed_at", "done "},
    {"dead", "failed_at", "failed "},
};

void jobtext_when(struct buf *b, struct arena *a, struct str job, instant now)
{
    struct str status = view_text(a, job, "status");
    for (size_t i = 0; i < COUNT(moments); i++) {
        instant t = view_time(job, moments[i].field);
        if (!str_eq(status, str_from(moments[i].status)) || !instant_is_set(t))
            continue;
        buf_str(b, str_from(moments[i].before));
        when_relative(b, t, now);
    }
}

void jobtext_why(struct buf *b, struct arena *a, struct str job)
{
    struct str error = view_get(job, "error");
    struct str type = view_text(a, error, "error_type"), message = view_text(a, error, "message");
    buf_str(b, view_text(a, job, "reason"));
    if (!type.len && !message.len)
        return;
    buf_str(b, b->len ? STR(" (") : STR("("));
    buf_str(b, type);
    buf_str(b, type.len && message.len ? STR(": ") : (struct str){"", 0});
    buf_str(b, message);
    buf_byte(b, ')');
}

void jobtext_fact(struct buf *out, const char *name, struct str text)
{
    if (!text.len)
        return;
    buf_print(out, "%-10s ", name);
    table_harmless(out, text);
    buf_byte(out, '\n');
}

void jobtext_fact_time(struct buf *out, const char *name, instant t, instant now)
{
    if (!instant_is_set(t))
        return;
    buf_print(out, "%-10s ", name);
    when_absolute(out, t);
    buf_lit(out, " (");
    when_relative(out, t, now);
    buf_lit(out, ")\n");
}

bool jobtext_is_id(const char *text)
{
    struct id id;
    return id_parse(str_from(text), &id).code == ERR_OK;
}
