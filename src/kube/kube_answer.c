/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_answer.h"

#include <curl/curl.h>
#include <stdio.h>

#include "base/array.h"
#include "base/json.h"
#include "base/must.h"
#include "wire/document.h"
#include "wire/field.h"

#define RETRY_AFTER_MAX_S 86400

static const struct {
    const char *wire;
    int status;
} reasons[KUBE_ANSWER_REASONS] = {
    [KUBE_ANSWER_OK] = {"OK", 0},
#define REASON(name, wire, status) [KUBE_ANSWER_##name] = {wire, status},
#include "kube/kube_answer.def"
#undef REASON
};

const char *kube_answer_reason_name(enum kube_answer_reason reason)
{
    must(reason < KUBE_ANSWER_REASONS);
    return reasons[reason].wire;
}

bool kube_answer_is_passing(enum kube_answer_reason reason)
{
    switch (reason) {
    case KUBE_ANSWER_TOO_MANY_REQUESTS:
    case KUBE_ANSWER_INTERNAL:
    case KUBE_ANSWER_UNAVAILABLE:
    case KUBE_ANSWER_TIMEOUT:
    case KUBE_ANSWER_SERVER_TIMEOUT:
    case KUBE_ANSWER_UNREACHABLE:
    case KUBE_ANSWER_LOST:
    case KUBE_ANSWER_TIMED_OUT:
    case KUBE_ANSWER_NO_CREDENTIALS:
    case KUBE_ANSWER_NOT_READY:
        return true;
    default:
        return false;
    }
}

bool kube_answer_is_not_of_request(enum kube_answer_reason reason)
{
    return kube_answer_is_passing(reason) || reason == KUBE_ANSWER_UNAUTHORIZED ||
           reason == KUBE_ANSWER_UNTRUSTED || reason == KUBE_ANSWER_MALFORMED ||
           reason == KUBE_ANSWER_OTHER;
}

bool kube_answer_is_unheard(enum kube_answer_reason reason)
{
    switch (reason) {
    case KUBE_ANSWER_OK:
    case KUBE_ANSWER_INTERNAL:
    case KUBE_ANSWER_UNAVAILABLE:
    case KUBE_ANSWER_TIMEOUT:
    case KUBE_ANSWER_SERVER_TIMEOUT:
    case KUBE_ANSWER_LOST:
    case KUBE_ANSWER_TIMED_OUT:
    case KUBE_ANSWER_MALFORMED:
    case KUBE_ANSWER_OTHER:
        return false;
    default:
        return true;
    }
}

/* --- the Status object --- */

struct status {
    struct str kind, message, reason;
    int32_t code;
    struct field_part details;
};

struct details {
    struct str kind, name;
    int32_t retry_after;
    struct field_part causes;
};

/* A text, or null. */
#define TEXT(name, type, member)                                                                   \
    {                                                                                              \
        name, false, field_text, offsetof(struct type, member), .nullable = true                   \
    }

static const struct field status_fields[] = {
    TEXT("kind", status, kind),
    TEXT("message", status, message),
    TEXT("reason", status, reason),
    {"code", false, field_i32, offsetof(struct status, code), .nullable = true},
    {"details", false, field_part, offsetof(struct status, details), .nullable = true},
};

static const struct field details_fields[] = {
    TEXT("kind", details, kind),
    TEXT("name", details, name),
    {"retryAfterSeconds", false, field_i32, offsetof(struct details, retry_after),
     .nullable = true},
    {"causes", false, field_part, offsetof(struct details, causes), .nullable = true},
};

static const struct field cause_fields[] = {
    TEXT("reason", kube_answer_cause, reason),
    TEXT("message", kube_answer_cause, message),
    TEXT("field", kube_answer_cause, field),
};

static struct err read_causes(struct field_part *part, struct arena *a, struct kube_answer *out)
{
    struct json_cursor *c = &part->at;
    TRY(json_enter_array(c));
    for (bool more;;) {
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        struct kube_answer_cause cause = {0};
        TRY(field_read_object(false, c, a, cause_fields, COUNT(cause_fields), &cause));
        if (out->cause_count < KUBE_ANSWER_CAUSES_MAX)
            out->causes[out->cause_count++] = cause;
    }
}

static struct err read_details(struct field_part *part, struct arena *a, struct kube_answer *out)
{
    struct details d = {0};
    TRY(field_read_part(false, part, a, details_fields, COUNT(details_fields), "details", &d));
    out->kind = d.kind;
    out->name = d.name;
    if (d.retry_after > 0)
        out->retry_after = (span){(int64_t)d.retry_after * 1000};
    return d.causes.given ? read_causes(&d.causes, a, out) : err_none();
}

static struct err read_status(struct str json, struct arena *a, struct status *s,
                              struct kube_answer *out)
{
    struct json_cursor c = json_open(json);
    TRY(field_read_object(false, &c, a, status_fields, COUNT(status_fields), s));
    TRY(json_close(&c));
    if (s->details.given)
        TRY(read_details(&s->details, a, out));
    return err_none();
}

/* --- what it means --- */

static bool contains(struct str text, const char *what)
{
    return text.at && memmem(text.at, text.len, what, strlen(what));
}

static enum kube_answer_reason by_code(long status)
{
    for (size_t i = 1; i < COUNT(reasons); i++)
        if (reasons[i].status && reasons[i].status == status)
            return (enum kube_answer_reason)i;
    if (status == 408)
        return KUBE_ANSWER_TIMEOUT;
    if (status >= 500 && status < 600)
        return KUBE_ANSWER_UNAVAILABLE;
    return status >= 400 && status < 500 ? KUBE_ANSWER_BAD_REQUEST : KUBE_ANSWER_OTHER;
}

static enum kube_answer_reason by_word(struct str word, long status)
{
    for (size_t i = 1; i < COUNT(reasons); i++)
        if (reasons[i].status && str_eq(word, str_from(reasons[i].wire)))
            return (enum kube_answer_reason)i;
    return by_code(status);
}

/* etcd will never take it. The same code also says that it is full, or busy. */
static bool is_too_large(struct str message)
{
    return contains(message, "request is too large") || contains(message, "larger than max") ||
           (contains(message, "ResourceExhausted") && !contains(message, "space exceeded") &&
            !contains(message, "too many requests"));
}

/* What the API has no word of its own for, and is handled otherwise. */
static enum kube_answer_reason refine(const struct kube_answer *out, struct str message)
{
    if (out->reason == KUBE_ANSWER_INTERNAL && is_too_large(message))
        return KUBE_ANSWER_TOO_LARGE;
    if (out->reason != KUBE_ANSWER_FORBIDDEN)
        return out->reason;
    /* The plugins of a server that has just started know nothing yet. */
    if (contains(message, "not yet ready to handle request"))
        return KUBE_ANSWER_NOT_READY;
    for (size_t i = 0; i < out->cause_count; i++)
        if (str_eq(out->causes[i].reason, STR("NamespaceTerminating")))
            return KUBE_ANSWER_NAMESPACE_TERMINATING;
    if (contains(message, "because it is being terminated"))
        return KUBE_ANSWER_NAMESPACE_TERMINATING;
    /* A quota that was just made is not yet counted. */
    if (contains(message, "exceeded quota") || contains(message, "status unknown for quota"))
        return KUBE_ANSWER_QUOTA;
    /* Authorization names the user; admission, which comes after it, the object. */
    bool about_object = out->name.len || contains(message, "\" is forbidden: ") ||
                        contains(message, " denied the request");
    return about_object && !contains(message, "is forbidden: User ") ? KUBE_ANSWER_ADMISSION
                                                                     : KUBE_ANSWER_FORBIDDEN;
}

static struct str one_line(struct str text, struct arena *a)
{
    char *to = arena_get(a, KUBE_ANSWER_TEXT_MAX);
    document_quote(to, KUBE_ANSWER_TEXT_MAX, text);
    return str_from(to);
}

static struct str describe(long status, struct str text, struct arena *a)
{
    char *to = arena_get(a, KUBE_ANSWER_TEXT_MAX), said[256];
    document_quote(said, sizeof said, text);
    snprintf(to, KUBE_ANSWER_TEXT_MAX, "HTTP %ld%s%s", status, said[0] ? ": " : "", said);
    return str_from(to);
}

static void refuse(long status, struct str body, struct arena *a, struct kube_answer *out)
{
    struct status s = {0};
    if (read_status(body, a, &s, out).code != ERR_OK || !str_eq(s.kind, STR("Status"))) {
        out->kind = out->name = (struct str){0};
        out->cause_count = 0;
        out->foreign = true;
        out->reason = by_code(status);
        out->message = describe(status, body, a);
        return;
    }
    if (!status) {
        status = s.code;
        out->status = status;
    }
    out->reason = by_word(s.reason, status);
    out->reason = refine(out, s.message);
    out->message = s.message.len ? one_line(s.message, a) : describe(status, s.reason, a);
}

void kube_answer_read(long status, struct str body, struct arena *a, struct kube_answer *out)
{
    *out = (struct kube_answer){.status = status, .retry_after = {-1}};
    if (status >= 200 && status < 300)
        out->object = body;
    else
        refuse(status, body, a, out);
}

void kube_answer_read_status(struct str object, struct arena *a, struct kube_answer *out)
{
    *out = (struct kube_answer){.retry_after = {-1}};
    refuse(0, object, a, out);
}

span kube_answer_retry_after(struct str retry_after, struct str date, instant now)
{
    int64_t seconds = 0;
    size_t digits = 0;
    for (;
         digits < retry_after.len && retry_after.at[digits] >= '0' && retry_after.at[digits] <= '9';
         digits++)
        if (seconds <= RETRY_AFTER_MAX_S)
            seconds = seconds * 10 + (retry_after.at[digits] - '0');
    if (!digits || digits != retry_after.len) {
        char until[64], from[64];
        snprintf(until, sizeof until, "%.*s", STR_ARG(retry_after));
        snprintf(from, sizeof from, "%.*s", STR_ARG(date));
        time_t end = curl_getdate(until, NULL), start = curl_getdate(from, NULL);
        if (end < 0)
            return (span){-1};
        seconds = (int64_t)end - (start < 0 ? now.ms / 1000 : (int64_t)start);
    }
    if (seconds < 0)
        seconds = 0;
    return (span){(seconds < RETRY_AFTER_MAX_S ? seconds : RETRY_AFTER_MAX_S) * 1000};
}
