/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_content.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/must.h"
#include "base/rfc3339.h"
#include "net/query.h"
#include "taskcluster/tc_handlers.h"

/* --- URLs --- */

/* What must be known to sign a request for it; texts as they stand in the query. */
static void sign(const struct taskcluster *t, const struct tc_content_url *url, struct str expiry,
                 char mac[ACCESS_MAC_LEN])
{
    struct buf b = {0};
    buf_print(&b, "artifact\n%s\n%s\n%.*s\n%.*s", url->put ? "PUT" : "GET",
              tc_object_kind_name(url->kind), STR_ARG(url->name), STR_ARG(expiry));
    if (url->put)
        buf_print(&b, "\n%.*s\n%" PRId64 "\n%.*s", STR_ARG(url->content_type), url->length,
                  STR_ARG(url->upload_id));
    access_sign(t->settings.access, buf_view(&b), mac);
    buf_fini(&b);
}

struct str tc_content_url(struct tc_call *c, const struct tc_content_url *url)
{
    struct buf b = {0}, expiry = {0};
    char mac[ACCESS_MAC_LEN];
    rfc3339_write(&expiry, url->until);
    sign(c->tc, url, buf_view(&expiry), mac);
    buf_print(&b, "%.*s" TC_OBJECT_PREFIX "/content/%s/", STR_ARG(tc_root_url(c)),
              tc_object_kind_name(url->kind));
    /* With its slashes encoded, so that nobody takes ".." for a step up. */
    query_write(&b, url->name);
    buf_lit(&b, "?se=");
    query_write(&b, buf_view(&expiry));
    if (url->put && url->length >= 0)
        buf_print(&b, "&cl=%" PRId64, url->length);
    if (url->upload_id.len)
        buf_print(&b, "&up=%.*s", STR_ARG(url->upload_id));
    buf_lit(&b, "&sig=");
    query_write(&b, (struct str){mac, sizeof mac});
    struct str text = arena_copy(c->arena, buf_view(&b));
    buf_fini(&b);
    buf_fini(&expiry);
    return text;
}

struct str tc_content_get_url(struct tc_call *c, enum tc_object_kind kind, struct str name,
                              instant expires, instant *until)
{
    *until = instant_min((instant){c->now.ms + TC_GET_LIFE_MS}, expires);
    const struct tc_content_url url = {.kind = kind, .name = name, .until = *until};
    return tc_content_url(c, &url);
}

static bool read_kind(struct str text, enum tc_object_kind *kind)
{
    for (int k = 0; k < TC_OBJECT_KINDS; k++) {
        if (!str_eq(text, str_from(tc_object_kind_name((enum tc_object_kind)k))))
            continue;
        *kind = (enum tc_object_kind)k;
        return true;
    }
    return false;
}

/* A length that is not one is none, and then the signature does not fit. */
static int64_t read_length(struct tc_call *c)
{
    struct str text;
    int64_t v = 0;
    if (!tc_query_value(c, "cl", &text) || text.len == 0 || text.len > 18)
        return -1;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -1;
        v = v * 10 + (text.at[i] - '0');
    }
    return v;
}

/* Fills in what the request is for; false, and answered, unless it is signed. */
static bool check(struct tc_call *c, struct tc_content_url *url)
{
    struct str expiry, given;
    char mac[ACCESS_MAC_LEN];
    if (!read_kind(tc_param(c, "kind"), &url->kind)) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "There are contents of the kinds 'object' and 's3'.");
        return false;
    }
    url->name = tc_param(c, "name");
    url->content_type = c->content_type;
    url->length = read_length(c);
    tc_query_value(c, "up", &url->upload_id);
    bool ok = tc_query_value(c, "se", &expiry) && tc_query_value(c, "sig", &given) &&
              rfc3339_parse(expiry, &url->until);
    if (ok) {
        sign(c->tc, url, expiry, mac);
        ok = access_same((struct str){mac, sizeof mac}, given) && url->until.ms > c->now.ms;
    }
    if (!ok)
        tc_fail(c, TC_BAD_SIGNATURE,
                "The signature of the URL is missing, wrong or expired%s; ask for another URL.",
                url->put ? ", or the Content-Type is not that of the artifact" : "");
    return ok;
}

/* --- PUT --- */

struct putting {
    struct tc_object_store store;
    struct str bytes, encoding, content_type, upload_id;
};

static void on_put(struct tc_call *c, const struct tc_object *o)
{
    (void)o;
    http_reply(c->x, 200, (struct str){0}, (struct str){0}, NULL);
}

static void put_into(struct tc_call *c, struct tc_object *o)
{
    struct putting *p = c->state;
    if (!o) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "The artifact or object does not exist any more.");
    } else if (o->kind == TC_OBJECT_PLAIN && !str_eq(o->upload_id, p->upload_id)) {
        tc_fail(c, TC_REQUEST_CONFLICT, "The URL is for another upload of the object.");
    } else if (o->kind == TC_OBJECT_PLAIN && o->finished) {
        tc_fail(c, TC_REQUEST_CONFLICT, "The upload of the object is finished.");
    } else {
        p->store = (struct tc_object_store){.call = c, .object = *o, .then = on_put};
        p->store.object.content_type = p->content_type;
        p->store.object.encoding = p->encoding;
        tc_object_store_bytes(&p->store, p->bytes);
    }
}

void tc_put_content(struct tc_call *c)
{
    struct tc_content_url url = {.put = true};
    struct putting *p = ARENA_NEW(c->arena, struct putting);
    bool encoded = c->content_encoding.len && !str_eq(c->content_encoding, STR("identity"));
    c->state = p;
    if (!check(c, &url))
        return;
    if (url.length >= 0 && (uint64_t)url.length != c->body.len) {
        tc_fail(c, TC_INPUT_ERROR, "The upload was announced with %" PRId64 " bytes and has %zu.",
                url.length, c->body.len);
    } else if (encoded && !tc_is_header_value(c->content_encoding)) {
        tc_fail(c, TC_INPUT_ERROR, "The Content-Encoding must be 1 to 255 printable characters.");
    } else if (encoded && url.kind == TC_OBJECT_PLAIN) {
        tc_fail(c, TC_INPUT_ERROR,
                "An object is kept as it is put, without a Content-Encoding: its hashes are those "
                "of its bytes.");
    } else {
        p->bytes = arena_copy(c->arena, c->body);
        p->encoding = encoded ? c->content_encoding : (struct str){0};
        p->content_type = c->content_type;
        p->upload_id = url.upload_id;
        tc_object_find(c, url.kind, url.name, put_into);
    }
}

/* --- GET --- */

struct getting {
    struct tc_call *call;
    const struct tc_object *object;
    struct tc_file_read read;
};

/* Whatever a task has left is no page of this server: it gets an origin of its own, in which no
 * script runs. */
static void write_headers(struct buf *b, const struct tc_object *o)
{
    buf_print(b,
              "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox\r\n"
              "X-Taskcluster-Artifact-Storage-Type: %s\r\n",
              tc_object_kind_name(o->kind));
    if (o->encoding.len)
        buf_print(b, "Content-Encoding: %.*s\r\n", STR_ARG(o->encoding));
    buf_byte(b, '\0');
}

static void on_read(struct tc_file_read *r)
{
    struct getting *g = r->ctx;
    struct buf headers = {0};
    if (r->err.code != ERR_OK) {
        tc_fail_file(g->call, &r->err);
        return;
    }
    write_headers(&headers, g->object);
    http_reply(g->call->x, 200, g->object->content_type, r->bytes, headers.at);
    buf_fini(&headers);
}

static void get_from(struct tc_call *c, struct tc_object *o)
{
    if (!o || !o->finished || !o->file.len) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Nothing was uploaded, or it has expired.");
        return;
    }
    struct getting *g = ARENA_NEW(c->arena, struct getting);
    g->call = c;
    g->object = o;
    g->read.ctx = g;
    g->read.done = on_read;
    g->read.size = (uint64_t)o->size;
    memcpy(g->read.name, o->file.at, TC_FILE_NAME);
    memcpy(g->read.sha256, o->sha256.at, TC_SHA256_HEX);
    tc_files_read(c->tc->files, &g->read);
}

void tc_get_content(struct tc_call *c)
{
    struct tc_content_url url = {.put = false};
    if (check(c, &url))
        tc_object_find(c, url.kind, url.name, get_from);
}

/* --- */

void tc_content_write_hashes(struct buf *b, const struct tc_object *o)
{
    buf_print(b, "{\"sha256\":\"%.*s\",\"sha512\":\"%.*s\"}", STR_ARG(o->sha256),
              STR_ARG(o->sha512));
}
