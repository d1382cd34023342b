/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_content.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "net/http_date.h"
#include "net/query.h"
#include "taskcluster/tc_file_reader.h"
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
    struct tc_content_url url;
    struct str encoding;
    struct tc_file_writer file;
    struct tc_object_store store;
};

static void on_put(struct tc_call *c, const struct tc_object *o)
{
    (void)o;
    http_reply(c->x, 200, (struct str){0}, (struct str){0}, NULL);
}

/* Whether the bytes may be put for the object as it is; asked before they are received and again
 * when they have been, for meanwhile it may have changed. */
static bool may_put(struct tc_call *c, struct tc_object *o)
{
    const struct putting *p = c->state;
    if (!o) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "The artifact or object does not exist any more.");
    } else if (o->kind == TC_OBJECT_PLAIN && !str_eq(o->upload_id, p->url.upload_id)) {
        tc_fail(c, TC_REQUEST_CONFLICT, "The URL is for another upload of the object.");
    } else if (o->kind == TC_OBJECT_PLAIN && o->finished) {
        tc_fail(c, TC_REQUEST_CONFLICT, "The upload of the object is finished.");
    } else {
        o->content_type = p->url.content_type;
        o->encoding = p->encoding;
        return true;
    }
    return false;
}

static void on_piece(void *ctx, struct str bytes)
{
    struct tc_call *c = ctx;
    struct putting *p = c->state;
    if (!tc_file_writer_add(&p->file, bytes))
        http_body_pause(c->x);
}

static void on_room(struct tc_file_writer *w)
{
    struct tc_call *c = w->ctx;
    http_body_resume(c->x);
}

static void on_whole(void *ctx)
{
    struct tc_call *c = ctx;
    struct putting *p = c->state;
    tc_file_writer_finish(&p->file);
}

static void on_cut_off(void *ctx, const struct err *why)
{
    struct tc_call *c = ctx;
    struct putting *p = c->state;
    tc_file_writer_abort(&p->file, *why);
}

static const struct http_receiver receiver = {on_piece, on_whole, on_cut_off};

static void on_written(struct tc_file_writer *w)
{
    struct tc_call *c = w->ctx;
    struct putting *p = c->state;
    if (w->err.code != ERR_OK) {
        tc_fail_file(c, &w->err);
        return;
    }
    p->store = (struct tc_object_store){
        .call = c, .object = {.kind = p->url.kind, .name = p->url.name}, .then = on_put};
    p->store.allows = may_put;
    tc_object_store_file(&p->store, w);
}

static void put_into(struct tc_call *c, struct tc_object *o)
{
    struct putting *p = c->state;
    if (!may_put(c, o))
        return;
    p->file.announced = c->length >= 0 ? c->length : p->url.length;
    p->file.ready = on_room;
    p->file.done = on_written;
    p->file.ctx = c;
    struct err err = tc_file_writer_begin(c->tc->files, &p->file);
    if (err.code == ERR_OK)
        http_body_take(c->x, &receiver, c);
    else
        tc_fail_file(c, &err);
}

void tc_put_content(struct tc_call *c)
{
    struct putting *p = ARENA_NEW(c->arena, struct putting);
    struct tc_content_url *url = &p->url;
    bool encoded = c->content_encoding.len && !str_eq(c->content_encoding, STR("identity"));
    c->state = p;
    url->put = true;
    if (!check(c, url))
        return;
    if (url->length >= 0 && c->length >= 0 && url->length != c->length) {
        tc_fail(c, TC_INPUT_ERROR,
                "The upload was announced with %" PRId64 " bytes and has %" PRId64 ".", url->length,
                c->length);
    } else if (encoded && !tc_is_header_value(c->content_encoding)) {
        tc_fail(c, TC_INPUT_ERROR, "The Content-Encoding must be 1 to 255 printable characters.");
    } else if (encoded && url->kind == TC_OBJECT_PLAIN) {
        tc_fail(c, TC_INPUT_ERROR,
                "An object is kept as it is put, without a Content-Encoding: its hashes are those "
                "of its bytes.");
    } else {
        p->encoding = encoded ? c->content_encoding : (struct str){0};
        tc_object_find(c, url->kind, url->name, put_into);
    }
}

/* --- GET --- */

#define ETAG_LEN (TC_SHA256_HEX + 2)

/* Outlives the exchange, whose end may come while a piece is being read. */
struct getting {
    struct tc_call *call; /* until the answer begins */
    const struct tc_object *object;
    struct content_choice choice;
    struct http_exchange *x; /* NULL: it is closed */
    struct tc_file_reader file;
    bool begun;
    bool reading; /* a piece */
    bool writing; /* that: not to be freed */
    bool waits;   /* for the peer to read */
};

/* What a client keeps with the bytes, to ask whether they are still these. It is to ask each time:
 * under the URL of an s3 artifact there may be others by then. */
static void write_version(struct buf *b, const struct tc_object *o)
{
    char modified[HTTP_DATE_LEN + 1];
    buf_print(b, "ETag: \"%.*s\"\r\nCache-Control: no-cache\r\n", STR_ARG(o->sha256));
    if (o->stored.ms) {
        http_date_write(modified, o->stored.ms / 1000);
        buf_print(b, "Last-Modified: %s\r\n", modified);
    }
}

/* Whatever a task has left is no page of this server: it gets an origin of its own, in which no
 * script runs. */
static void write_headers(struct buf *b, const struct getting *g)
{
    const struct tc_object *o = g->object;
    const struct content_choice *choice = &g->choice;
    buf_print(b,
              "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: sandbox\r\n"
              "Accept-Ranges: bytes\r\nX-Taskcluster-Artifact-Storage-Type: %s\r\n",
              tc_object_kind_name(o->kind));
    if (o->encoding.len)
        buf_print(b, "Content-Encoding: %.*s\r\n", STR_ARG(o->encoding));
    if (choice->answer == CONTENT_PART)
        buf_print(b, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRId64 "\r\n", choice->from,
                  choice->until - 1, o->size);
    write_version(b, o);
    buf_byte(b, '\0');
}

static void free_if_over(struct getting *g)
{
    if (g->x || g->reading || g->writing)
        return;
    tc_file_reader_close(&g->file);
    free(g);
}

static void on_closed(void *ctx)
{
    struct getting *g = ctx;
    g->x = NULL;
    free_if_over(g);
}

static void read_on(struct getting *g)
{
    g->waits = http_must_wait(g->x);
    if (!g->waits)
        g->reading = tc_file_reader_next(&g->file);
}

static void on_drained(void *ctx)
{
    struct getting *g = ctx;
    if (g->waits)
        read_on(g);
}

static void begin_answer(struct getting *g)
{
    const struct content_choice *choice = &g->choice;
    struct buf headers = {0};
    write_headers(&headers, g);
    g->begun = true;
    http_stream_begin_sized(g->x, choice->answer == CONTENT_PART ? 206 : 200,
                            g->object->content_type, choice->until - choice->from, headers.at,
                            on_closed, g);
    buf_fini(&headers);
    if (g->x)
        http_stream_on_drain(g->x, on_drained);
}

static void write_piece(struct getting *g)
{
    bool head = http_is_head(g->x);
    if (!g->begun)
        begin_answer(g);
    if (g->x && !head)
        http_stream_write(g->x, g->file.bytes);
    if (g->x && (head || g->file.end))
        http_stream_end(g->x);
    else if (g->x)
        read_on(g);
}

/* What has been sent of a damaged file cannot be taken back, but its peer sees that it has no end.
 */
static void fail(struct getting *g)
{
    if (g->begun) {
        http_stream_abort(g->x);
        return;
    }
    tc_fail_file(g->call, &g->file.err);
    g->x = NULL;
}

static void on_read(struct tc_file_reader *r)
{
    struct getting *g = r->ctx;
    g->reading = false;
    g->writing = true;
    if (g->x && r->err.code == ERR_OK)
        write_piece(g);
    else if (g->x)
        fail(g);
    g->writing = false;
    free_if_over(g);
}

static void reply_unchanged(struct tc_call *c, const struct tc_object *o)
{
    struct buf headers = {0};
    write_version(&headers, o);
    buf_byte(&headers, '\0');
    http_reply(c->x, 304, (struct str){0}, (struct str){0}, headers.at);
    buf_fini(&headers);
}

static void refuse_range(struct tc_call *c, const struct tc_object *o)
{
    char extra[64];
    snprintf(extra, sizeof extra, "Content-Range: bytes */%" PRId64 "\r\n", o->size);
    struct err err = err_make(
        ERR_BAD_VALUE,
        "The Range begins behind the end of the content, which has %" PRId64 " bytes.", o->size);
    tc_fail_extra(c, TC_RANGE_NOT_SATISFIABLE, &err, extra);
}

static struct content_choice choose(const struct tc_call *c, const struct tc_object *o)
{
    char etag[ETAG_LEN + 1];
    snprintf(etag, sizeof etag, "\"%.*s\"", STR_ARG(o->sha256));
    const struct content_version version = {.etag = {etag, ETAG_LEN},
                                            .modified = o->stored.ms ? o->stored.ms / 1000 : -1,
                                            .size = (uint64_t)o->size};
    return content_choose(&c->wanted, &version);
}

static void send_bytes(struct tc_call *c, const struct tc_object *o, struct content_choice choice)
{
    struct getting *g = ALLOC(struct getting);
    g->call = c;
    g->object = o;
    g->choice = choice;
    g->x = c->x;
    g->file.ctx = g;
    g->file.read = on_read;
    g->file.size = (uint64_t)o->size;
    g->file.from = choice.from;
    g->file.until = choice.until;
    memcpy(g->file.name, o->file.at, TC_FILE_NAME);
    memcpy(g->file.sha256, o->sha256.at, TC_SHA256_HEX);
    tc_file_reader_init(c->tc->files, &g->file);
    g->reading = tc_file_reader_next(&g->file);
    if (!g->reading) {
        tc_fail(c, TC_BUSY, "The server is stopping.");
        free(g);
    }
}

static void get_from(struct tc_call *c, struct tc_object *o)
{
    if (!o || !o->finished || !o->file.len) {
        tc_fail(c, TC_RESOURCE_NOT_FOUND, "Nothing was uploaded, or it has expired.");
        return;
    }
    struct content_choice choice = choose(c, o);
    if (choice.answer == CONTENT_UNCHANGED)
        reply_unchanged(c, o);
    else if (choice.answer == CONTENT_OUTSIDE)
        refuse_range(c, o);
    else
        send_bytes(c, o, choice);
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
