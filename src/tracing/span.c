/* SPDX-License-Identifier: Apache-2.0 */
#include "tracing/span.h"

#include "base/array.h"
#include "base/json.h"
#include "core/job.h"
#include "core/trace.h"

/* Numbers of the protocol: enum SpanKind, enum StatusCode, enum SpanFlags. */
enum { KIND_INTERNAL = 1, KIND_PRODUCER = 4, KIND_CONSUMER = 5 };
enum { STATUS_ERROR = 2 };
enum { FLAG_KNOWN = 0x100, FLAG_REMOTE = 0x200 };

/* --- attributes --- */

static void key(struct buf *b, const char *name, const char *type)
{
    buf_print(b, "%s{\"key\":\"%s\",\"value\":{\"%s\":", b->at[b->len - 1] == '[' ? "" : ",", name,
              type);
}

/* Up to `most` bytes of it, and no part of a character. */
static struct str cut(struct str text, size_t most)
{
    if (text.len <= most)
        return text;
    while (most && ((unsigned char)text.at[most] & 0xc0) == 0x80)
        most--;
    return (struct str){text.at, most};
}

static void add_text(struct buf *b, const char *name, struct str text)
{
    if (!text.len)
        return;
    key(b, name, "stringValue");
    json_write_string(b, text);
    buf_lit(b, "}}");
}

/* Integers of 64 bits are strings in this encoding. */
static void add_int(struct buf *b, const char *name, int64_t value)
{
    key(b, name, "intValue");
    buf_print(b, "\"%lld\"}}", (long long)value);
}

static void add_common(struct buf *b, const struct job_event *ev, const char *operation,
                       const char *type)
{
    char id[ID_TEXT_LEN];
    id_format(ev->id, id);
    buf_lit(b, ",\"attributes\":[");
    add_text(b, "messaging.system", STR("tenax"));
    add_text(b, "messaging.operation.name", str_from(operation));
    if (type)
        add_text(b, "messaging.operation.type", str_from(type));
    add_text(b, "messaging.destination.name", ev->queue);
    add_text(b, "messaging.message.id", (struct str){id, sizeof id});
    add_text(b, "tenax.job.type", ev->type);
}

/* --- a span --- */

static void add_time(struct buf *b, const char *name, instant at)
{
    buf_print(b, ",\"%s\":\"%lld000000\"", name, (long long)at.ms);
}

/* Up to its attributes, whose list stays open. The sender of the job is another program. */
static void begin(struct buf *b, const struct job_event *ev, enum trace_part part, uint32_t run,
                  instant start)
{
    static const char *const names[] = {"enqueue", "wait", "run"};
    static const char *const types[] = {"send", NULL, "process"};
    static const int kinds[] = {KIND_PRODUCER, KIND_INTERNAL, KIND_CONSUMER};
    char own[TRACE_SPAN_LEN], enqueue[TRACE_SPAN_LEN];
    bool is_first = part == TRACE_ENQUEUE;
    trace_span_id(ev->id, part, run, own);
    trace_span_id(ev->id, TRACE_ENQUEUE, 0, enqueue);
    struct str parent =
        is_first ? trace_parent_of(ev->traceparent) : (struct str){enqueue, sizeof enqueue};
    struct str trace = trace_id_of(ev->traceparent);
    buf_print(b,
              "{\"traceId\":\"%.*s\",\"spanId\":\"%.*s\",\"parentSpanId\":\"%.*s\",\"flags\":%d,"
              "\"kind\":%d,\"name\":",
              STR_ARG(trace), TRACE_SPAN_LEN, own, STR_ARG(parent),
              1 | FLAG_KNOWN | (is_first ? FLAG_REMOTE : 0), kinds[part]);
    buf_print(b, "\"%s ", names[part]);
    json_write_text(b, ev->queue);
    buf_byte(b, '"');
    add_time(b, "startTimeUnixNano", start);
    add_time(b, "endTimeUnixNano", instant_max(start, ev->at));
    add_common(b, ev, names[part], types[part]);
}

static void end(struct buf *b)
{
    buf_lit(b, "]}\n");
}

/* --- runs --- */

/* How the run of the event ended: of a job that was deleted meanwhile nobody has recorded it. */
static enum outcome outcome_of(const struct job_event *ev)
{
    return ev->ended ? ev->ended->outcome : OUTCOME_CANCELED;
}

/* Whether it was somebody's wish, or no end of the work at all. */
static bool is_error(enum outcome o)
{
    return o != OUTCOME_COMPLETED && o != OUTCOME_RETURNED && o != OUTCOME_CANCELED &&
           o != OUTCOME_GANG;
}

static void write_exception(struct buf *b, const struct job_event *ev, const struct failure *f)
{
    if (!f->message.len && !f->error_type.len)
        return;
    buf_lit(b, ",\"events\":[{\"name\":\"exception\"");
    add_time(b, "timeUnixNano", ev->at);
    buf_lit(b, ",\"attributes\":[");
    add_text(b, "exception.type", f->error_type);
    add_text(b, "exception.message", cut(f->message, SPAN_TEXT_MAX));
    add_text(b, "exception.stacktrace", cut(f->backtrace, SPAN_BACKTRACE_MAX));
    buf_lit(b, "]}]");
}

static void write_status(struct buf *b, const struct job_event *ev, const struct failure *f)
{
    struct str message = f->message.len ? f->message : ev->reason;
    buf_print(b, ",\"status\":{\"code\":%d", STATUS_ERROR);
    if (message.len) {
        buf_lit(b, ",\"message\":");
        json_write_string(b, cut(message, SPAN_TEXT_MAX));
    }
    buf_byte(b, '}');
}

static void add_failure(struct buf *b, const struct job_event *ev, const struct failure *f)
{
    struct str outcome = str_from(job_outcome_name(outcome_of(ev)));
    add_text(b, "error.type", f->error_type.len ? f->error_type : outcome);
    add_text(b, "tenax.failure.category", f->category);
    if (f->exit_code)
        add_int(b, "process.exit.code", f->exit_code);
    if (f->signal)
        add_int(b, "tenax.failure.signal", f->signal);
    if (f->condition != CONDITION_NONE)
        add_text(b, "tenax.failure.condition", str_from(job_condition_name(f->condition)));
}

static void write_run(struct buf *b, const struct job_event *ev, instant began)
{
    static const struct failure none = {.exit_code = 0};
    const struct failure *f = ev->ended ? &ev->ended->failure : &none;
    bool failed = is_error(outcome_of(ev));
    begin(b, ev, TRACE_RUN, (uint32_t)ev->run, began);
    add_int(b, "tenax.run", ev->run);
    add_int(b, "tenax.attempt", ev->attempt);
    add_text(b, "tenax.worker", ev->ended ? ev->ended->worker : ev->worker);
    add_text(b, "tenax.node", f->node);
    add_text(b, "tenax.outcome", str_from(job_outcome_name(outcome_of(ev))));
    add_text(b, "tenax.verdict", cut(ev->reason, SPAN_TEXT_MAX));
    if (instant_is_set(ev->ready_at))
        add_int(b, "tenax.retry_at", ev->ready_at.ms);
    if (failed)
        add_failure(b, ev, f);
    buf_byte(b, ']');
    if (failed) {
        write_exception(b, ev, f);
        write_status(b, ev, f);
    }
    buf_lit(b, "}\n");
}

/* --- events --- */

static bool is_enqueue(enum event e)
{
    return e == EVENT_ENQUEUE || e == EVENT_ENQUEUE_LATER || e == EVENT_ENQUEUE_BLOCKED;
}

static void write_wait(struct buf *b, const struct job_event *ev)
{
    begin(b, ev, TRACE_WAIT, (uint32_t)ev->run, ev->waited_from);
    add_int(b, "tenax.run", ev->run);
    end(b);
}

void span_write(struct buf *out, const struct job_event *ev)
{
    if (is_enqueue(ev->event)) {
        begin(out, ev, TRACE_ENQUEUE, 0, ev->at);
        end(out);
    } else if (ev->event == EVENT_TAKE && instant_is_set(ev->waited_from)) {
        write_wait(out, ev);
    } else if (ev->ended && instant_is_set(ev->ended->taken_at)) {
        write_run(out, ev, ev->ended->taken_at);
    } else if (ev->event == EVENT_REMOVE && ev->run >= 0 && instant_is_set(ev->since)) {
        write_run(out, ev, ev->since);
    }
}
