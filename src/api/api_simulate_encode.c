/* SPDX-License-Identifier: Apache-2.0 */

/* What came of a simulated job, as JSON. */

#include "api/api_simulate.h"

#include "base/json.h"

static void add_text(struct buf *b, const char *name, struct str text)
{
    if (!text.len)
        return;
    buf_print(b, ",\"%s\":", name);
    json_write_string(b, text);
}

static void add_failure(struct buf *b, const struct run *run, size_t index, bool stored)
{
    const struct failure *f = &run->failure;
    buf_print(b, "{\"failure\":%zu", index + 1);
    if (stored)
        buf_print(b, ",\"run\":%u,\"ended_at\":%lld", run->index, (long long)run->ended_at.ms);
    add_text(b, "message", f->message);
    add_text(b, "error_type", f->error_type);
    if (f->exit_code)
        buf_print(b, ",\"exit_code\":%d", f->exit_code);
    if (f->signal)
        buf_print(b, ",\"signal\":%d", f->signal);
    if (f->condition != CONDITION_NONE)
        add_text(b, "condition", str_from(job_condition_name(f->condition)));
    add_text(b, "category", f->category);
    add_text(b, "termination_message", f->termination_message);
    if (stored)
        add_text(b, "recorded", run->reason);
}

/* Null where the job would not have come so far. */
static void add_verdict(struct buf *b, const char *name, const struct simulate_verdict *v)
{
    const struct ruling *by = &v->ruling;
    if (!v->asked) {
        buf_print(b, ",\"%s\":null", name);
        return;
    }
    buf_print(b, ",\"%s\":{\"action\":\"%s\"", name, v->retry ? "Retry" : "Fail");
    if (by->policy.len) {
        buf_lit(b, ",\"policy\":");
        json_write_string(b, by->policy);
        if (by->rule >= 0)
            buf_print(b, ",\"rule\":%d", by->rule + 1);
        buf_print(b, ",\"count\":%u,\"limit\":%lld", by->count, (long long)by->limit);
    }
    if (v->retry)
        buf_print(b, ",\"delay_ms\":%lld", (long long)v->delay.ms);
    buf_lit(b, ",\"reason\":");
    json_write_string(b, v->reason);
    buf_byte(b, '}');
}

static void add_outcome(struct buf *b, const char *name, const struct simulate_side *o)
{
    buf_print(b, ",\"%s\":{\"retries\":%u,\"more\":%s,\"dead\":%s,\"window_ms\":%lld}", name,
              o->retries, o->more ? "true" : "false", o->dead ? "true" : "false",
              (long long)o->window.ms);
}

static void add_job(struct buf *b, const struct simulate_job *what)
{
    buf_byte(b, '{');
    if (what->stored) {
        char id[ID_TEXT_LEN];
        id_format(what->job->id, id);
        buf_print(b, "\"job\":\"%.*s\",\"completed\":%s,", ID_TEXT_LEN, id,
                  what->completed ? "true" : "false");
        if (what->deleted)
            buf_lit(b, "\"deleted\":true,");
    }
    buf_lit(b, "\"queue\":");
    json_write_string(b, what->job->queue);
    if (what->job->type.len) {
        buf_lit(b, ",\"type\":");
        json_write_string(b, what->job->type);
    }
    buf_lit(b, ",\"failures\":[");
}

void api_simulate_encode(struct buf *b, const struct simulate_job *what,
                         const struct simulate_result *r)
{
    add_job(b, what);
    for (size_t i = 0; i < r->count; i++) {
        const struct simulate_step *step = &r->steps[i];
        if (i)
            buf_byte(b, ',');
        add_failure(b, &step->run, i, what->stored);
        add_verdict(b, "draft", &step->draft);
        add_verdict(b, "today", &step->today);
        buf_byte(b, '}');
    }
    buf_byte(b, ']');
    add_outcome(b, "draft", &r->draft);
    add_outcome(b, "today", &r->today);
    buf_print(b, ",\"extra_attempts\":%lld}", (long long)r->draft.retries - r->today.retries);
}
