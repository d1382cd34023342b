/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_update.h"

#include <inttypes.h>

#include "base/rfc3339.h"
#include "builds/build_store.h"
#include "client/view.h"
#include "net/query.h"

#define API_MAX     2048
#define BUILD_MAX   256
#define TOKEN_MAX   16384
#define STATUS_MAX  64
#define MESSAGE_MAX 4096 /* bytes; a page shows it */

/* --- what can be told at all --- */

/* As it must be in a header: a line break would begin another one. */
static bool is_visible(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] <= 0x20 || s.at[i] == 0x7f)
            return false;
    return true;
}

static bool is_url(struct str s)
{
    char text[API_MAX + 1];
    if (s.len == 0 || s.len > API_MAX || !is_visible(s))
        return false;
    memcpy(text, s.at, s.len);
    text[s.len] = '\0';
    return fetch_bad_url(text) == NULL;
}

const char *build_update_fault(const struct build_update *u)
{
    if (!is_url(u->api))
        return "its message names no URL of an API";
    /* A path's "." and ".." would lead to another resource. */
    if (u->build.len == 0 || u->build.len > BUILD_MAX || str_eq(u->build, STR(".")) ||
        str_eq(u->build, STR("..")))
        return "its id is none";
    if (u->token.len > TOKEN_MAX || !is_visible(u->token))
        return "its token is none";
    return NULL;
}

/* --- the record --- */

static void write_member(struct buf *b, const char *before, const char *name, struct str s,
                         size_t max)
{
    buf_print(b, "%s\"%s\":", before, name);
    build_store_write_text(b, s, max);
}

static void write_body(struct buf *b, const struct build_update *u)
{
    const char *before = "";
    buf_byte(b, '{');
    if (u->status.len) {
        write_member(b, before, "status", u->status, STATUS_MAX);
        before = ",";
    }
    if (u->message.len) {
        write_member(b, before, "statusMessage", u->message, MESSAGE_MAX);
        before = ",";
    }
    if (u->hostname.len || instant_is_set(u->image_pull_start)) {
        buf_print(b, "%s\"stats\":{", before);
        before = "";
        if (u->hostname.len) {
            write_member(b, before, "hostname", u->hostname, MESSAGE_MAX);
            before = ",";
        }
        if (instant_is_set(u->image_pull_start)) {
            buf_print(b, "%s\"imagePullStartTime\":\"", before);
            rfc3339_write(b, u->image_pull_start);
            buf_byte(b, '"');
        }
        buf_byte(b, '}');
    }
    buf_byte(b, '}');
}

void build_update_write(struct buf *b, const struct build_update *u, instant at)
{
    write_member(b, "{", "api", u->api, API_MAX);
    write_member(b, ",", "build", u->build, BUILD_MAX);
    write_member(b, ",", "token", u->token, TOKEN_MAX);
    buf_print(b, ",\"at\":%" PRId64 ",\"body\":", at.ms);
    write_body(b, u);
    buf_byte(b, '}');
}

bool build_update_read(struct str json, struct arena *a, struct build_update_record *out)
{
    *out = (struct build_update_record){
        .api = view_text(a, json, "api"),
        .build = view_text(a, json, "build"),
        .token = view_text(a, json, "token"),
        .body = view_get(json, "body"),
        .at = view_time(json, "at"),
    };
    const struct build_update same = {.api = out->api, .build = out->build, .token = out->token};
    return out->body.len && build_update_fault(&same) == NULL;
}

/* --- the request --- */

void build_update_name(struct buf *b, struct str build)
{
    query_write(b, build);
}

void build_update_url(struct buf *b, struct str api, struct str build)
{
    while (api.len && api.at[api.len - 1] == '/')
        api.len--;
    buf_str(b, api);
    buf_lit(b, "/v4/builds/");
    build_update_name(b, build);
}

enum build_update_end build_update_end(const struct fetch_answer *a)
{
    /* Of an answer that is too large the status counts as well. */
    if (a->fault != FETCH_ANSWERED && a->fault != FETCH_TOO_LARGE)
        return BUILD_UPDATE_AGAIN;
    if (a->status >= 200 && a->status < 300)
        return BUILD_UPDATE_TOLD;
    if (a->status == 403 || a->status == 404)
        return BUILD_UPDATE_ENDED;
    if (a->status == 408 || a->status == 425 || a->status == 429)
        return BUILD_UPDATE_AGAIN;
    return a->status >= 400 && a->status < 500 ? BUILD_UPDATE_REFUSED : BUILD_UPDATE_AGAIN;
}
