/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http1.h"

#include <stdlib.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/must.h"
#include "net/chunk_ext.h"
#include "net/http1_method.h"
#include "net/http_headers.h"

/* llhttp's enumerators have the names of ours. */
#define HTTP_GET     LLHTTP_GET
#define HTTP_HEAD    LLHTTP_HEAD
#define HTTP_POST    LLHTTP_POST
#define HTTP_PUT     LLHTTP_PUT
#define HTTP_PATCH   LLHTTP_PATCH
#define HTTP_DELETE  LLHTTP_DELETE
#define HTTP_OPTIONS LLHTTP_OPTIONS
#include <llhttp.h>
#undef HTTP_GET
#undef HTTP_HEAD
#undef HTTP_POST
#undef HTTP_PUT
#undef HTTP_PATCH
#undef HTTP_DELETE
#undef HTTP_OPTIONS

/* Memory above this is given back after the request that needed it. */
#define KEEP_MAX ((size_t)4 * 1024)

/* Bytes of the request, as an offset from its start: the memory may move. */
struct part {
    size_t at, len;
};

struct http1 {
    llhttp_t parser;
    uint64_t header_max, body_max;
    enum http1_phase phase;
    bool named; /* the method has been looked at */
    bool other; /* it is none of this server's; the parser was given GET in its place */
    bool done;  /* the last event was HTTP1_REQUEST */
    bool wait;  /* paused for HTTP1_CONTINUE or HTTP1_BEGIN */
    bool begun; /* that was the last event, or pieces are */
    bool (*wants)(void *ctx, enum http_method method, struct str path);
    void *wants_ctx;
    unsigned headers, hosts;
    bool websocket;      /* Upgrade says so */
    bool coded, chunked; /* Transfer-Encoding is there; it says exactly "chunked" */
    bool expect, empty_length;
    bool in_size;         /* at the line of a chunk's size: llhttp gets no more than its digits */
    struct chunk_ext ext; /* what follows them */
    struct part target, path, query, field, value;
    struct part kept[HTTP_HEADERS]; /* values */
    unsigned given;                 /* which of them are there, a bit each */
    unsigned joined;                /* of these: those whose part is of `lists` */
    struct buf lists;               /* values of headers that came several times */

    const char *base;  /* where the request starts, while it is being fed */
    const char *limit; /* the end of the bytes being fed */
    struct buf head;   /* the request's start, if it began in an earlier feed */
    size_t head_len;   /* of the header section, once it is complete */
    uint64_t raw;      /* bytes of the request so far, in total */

    struct str piece; /* the body, as long as it is one run of bytes being fed; or its next piece */
    struct buf body;  /* else collected here */
    uint64_t body_len;

    struct http1_request out;
    struct err err; /* set (code != OK) before a callback fails */
};

static int fail(struct http1 *r, struct err e)
{
    r->err = e;
    return -1;
}

static enum http_method method_of(const struct http1 *r)
{
    if (r->other)
        return HTTP_OTHER;
    switch (r->parser.method) {
    case LLHTTP_GET:
        return HTTP_GET;
    case LLHTTP_HEAD:
        return HTTP_HEAD;
    case LLHTTP_POST:
        return HTTP_POST;
    case LLHTTP_PUT:
        return HTTP_PUT;
    case LLHTTP_PATCH:
        return HTTP_PATCH;
    case LLHTTP_DELETE:
        return HTTP_DELETE;
    case LLHTTP_OPTIONS:
        return HTTP_OPTIONS;
    default:
        return HTTP_OTHER;
    }
}

static struct str view(const struct http1 *r, struct part p)
{
    return (struct str){r->base + p.at, p.len};
}

/* llhttp hands out a token piece by piece; in the request's bytes they lie side by side. */
static void extend(const struct http1 *r, struct part *p, const char *at, size_t len)
{
    size_t from = (size_t)(at - r->base);
    if (p->len == 0)
        p->at = from;
    p->len = from + len - p->at;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct http1 *r = parser->data;
    extend(r, &r->target, at, len);
    if (r->target.len > HTTP1_TARGET_MAX)
        return fail(r, err_make(ERR_URI_LONG, "the request target is longer than %d bytes",
                                HTTP1_TARGET_MAX));
    return 0;
}

static int on_field(llhttp_t *parser, const char *at, size_t len)
{
    struct http1 *r = parser->data;
    if (r->phase == HTTP1_HEAD) /* trailers are passed over */
        extend(r, &r->field, at, len);
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t len)
{
    struct http1 *r = parser->data;
    if (r->phase == HTTP1_HEAD)
        extend(r, &r->value, at, len);
    return 0;
}

static bool is_word(struct str s, const char *lower, size_t len)
{
    return s.len == len && strncasecmp(s.at, lower, len) == 0;
}

#define IS(s, literal) is_word((s), (literal), sizeof(literal) - 1)

static struct str kept(const struct http1 *r, enum http_header h)
{
    struct part p = r->kept[h];
    return r->joined & 1u << h ? (struct str){r->lists.at + p.at, p.len} : view(r, p);
}

static void join(struct http1 *r, enum http_header h, struct str value)
{
    struct str before = kept(r, h);
    size_t at = r->lists.len;
    buf_room(&r->lists, before.len + value.len + 2); /* `before` may lie in it */
    before = kept(r, h);
    buf_str(&r->lists, before);
    buf_lit(&r->lists, ", ");
    buf_str(&r->lists, value);
    r->kept[h] = (struct part){at, r->lists.len - at};
    r->joined |= 1u << h;
}

static struct err keep(struct http1 *r, enum http_header h)
{
    r->hosts += h == HEADER_host;
    if (!(r->given & 1u << h))
        r->kept[h] = r->value;
    else if (http_header_is_list(h))
        join(r, h, view(r, r->value));
    else if (h != HEADER_host) /* counted */
        return http_header_repeated(h);
    r->given |= 1u << h;
    return err_none();
}

static struct err recognise(struct http1 *r, struct str name)
{
    struct str value = view(r, r->value);
    enum http_header h = http_header_find(name);
    if (h < HTTP_HEADERS)
        return keep(r, h);
    if (IS(name, "content-length")) {
        r->empty_length = value.len == 0; /* llhttp takes it for none */
    } else if (IS(name, "expect")) {
        r->expect = IS(value, "100-continue");
    } else if (IS(name, "transfer-encoding")) {
        r->chunked = !r->coded && IS(value, "chunked");
        r->coded = true;
    } else if (IS(name, "upgrade")) {
        r->websocket = IS(value, "websocket");
    }
    return err_none();
}

static int on_value_complete(llhttp_t *parser)
{
    struct http1 *r = parser->data;
    if (r->phase != HTTP1_HEAD)
        return 0;
    if (++r->headers > HTTP1_HEADERS_MAX)
        return fail(r, err_make(ERR_HEADERS, "more than %d header fields", HTTP1_HEADERS_MAX));
    if (r->field.len == 0)
        return fail(r, err_make(ERR_BAD_REQUEST, "a header field has no name"));
    const char *value = r->base + r->value.at;
    while (r->value.len && (value[r->value.len - 1] == ' ' || value[r->value.len - 1] == '\t'))
        r->value.len--;
    struct err e = recognise(r, view(r, r->field));
    r->field.len = r->value.len = 0;
    return e.code == ERR_OK ? 0 : fail(r, e);
}

/* Checks what llhttp forgives: every line of the head ends in CRLF, and none is folded (RFC
 * 9112 §5.2). Peers that disagree on where a line ends make request smuggling possible. The
 * end of the head is looked for from the start of its last line. */
static bool lines_are_plain(struct http1 *r, size_t last)
{
    const char *from = r->base + last;
    const char *p = memchr(from, '\r', (size_t)(r->limit - from));
    if (!p || r->limit - p < 4 || memcmp(p, "\r\n\r\n", 4) != 0)
        return false;
    const char *end = p + 2;
    for (p = r->base; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        if (p == r->base || p[-1] != '\r' || p[1] == ' ' || p[1] == '\t')
            return false;
    r->head_len = (size_t)(end + 2 - r->base);
    return true;
}

static struct err head_too_large(const struct http1 *r)
{
    return err_make(ERR_HEADERS, "the header section is larger than %llu bytes",
                    (unsigned long long)r->header_max);
}

static struct err check_framing(const struct http1 *r)
{
    const llhttp_t *p = &r->parser;
    if (p->http_major != 1 || p->http_minor > 1)
        return err_make(ERR_BAD_REQUEST, "HTTP/%d.%d is not supported here", p->http_major,
                        p->http_minor);
    if (r->hosts > 1 || (r->hosts == 0 && p->http_minor == 1))
        return err_make(ERR_BAD_REQUEST, "an HTTP/1.1 request needs exactly one Host header");
    if (r->coded && p->http_minor == 0)
        return err_make(ERR_BAD_REQUEST, "HTTP/1.0 has no Transfer-Encoding");
    if (r->coded && !r->chunked)
        return err_make(ERR_NOT_SUPPORTED, "the only Transfer-Encoding accepted is chunked");
    if (r->empty_length)
        return err_make(ERR_BAD_REQUEST, "Content-Length is empty");
    if (!r->coded && !r->out.pieces && p->content_length > r->body_max)
        return err_make(ERR_LENGTH, "the body of %llu bytes is larger than the limit of %llu",
                        (unsigned long long)p->content_length, (unsigned long long)r->body_max);
    return err_none();
}

static bool starts(struct str s, const char *lower, size_t len)
{
    return s.len > len && strncasecmp(s.at, lower, len) == 0;
}

/* Splits the target into path and query: origin-form, absolute-form (whose host overrides that of
 * the header) or "*" (RFC 9112 §3.2). */
static bool split_target(struct http1 *r)
{
    struct str t = view(r, r->target);
    size_t at = 0;
    if (t.len == 0 || memchr(t.at, '#', t.len))
        return false;
    if (starts(t, "http://", 7) || starts(t, "https://", 8)) {
        at = t.at[4] == ':' ? 7 : 8;
        size_t from = at;
        while (at < t.len && t.at[at] != '/' && t.at[at] != '?')
            at++;
        r->kept[HEADER_host] = (struct part){r->target.at + from, at - from};
        if (at > from)
            r->given |= 1u << HEADER_host;
    } else if (*t.at != '/' && !str_eq(t, STR("*"))) {
        return false;
    }
    const char *mark = memchr(t.at + at, '?', t.len - at);
    size_t end = mark ? (size_t)(mark - t.at) : t.len;
    r->path = (struct part){r->target.at + at, end - at};
    r->query = (struct part){r->target.at + end + (mark != NULL), t.len - end - (mark != NULL)};
    return true;
}

/* What becomes of the connection after the request. */
static void set_end(struct http1 *r)
{
    r->out.old = r->parser.http_minor == 0;
    /* Close HTTP/1.0 connections even if they ask for keep-alive. */
    r->out.keep_alive = !r->out.old && llhttp_should_keep_alive(&r->parser);
    r->out.req.websocket =
        r->websocket && (r->parser.flags & F_CONNECTION_UPGRADE) && r->out.keep_alive;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct http1 *r = parser->data;
    parser->upgrade =
        0; /* what follows is HTTP/1.1, unless the handler takes the connection over */
    if (!lines_are_plain(r, r->headers ? r->field.at : r->target.at + r->target.len))
        return fail(r, err_make(ERR_BAD_REQUEST, "a header line is folded or not ended by CRLF"));
    if (r->head_len > r->header_max + r->target.len)
        return fail(r, head_too_large(r));
    if (!split_target(r))
        return fail(r, err_make(ERR_BAD_REQUEST, "the request target must be a path or a URL"));
    r->out.pieces = r->wants && r->wants(r->wants_ctx, method_of(r), view(r, r->path));
    struct err e = check_framing(r);
    if (e.code != ERR_OK)
        return fail(r, e);
    r->phase = HTTP1_BODY;
    r->in_size = r->chunked;
    r->out.expects = r->expect && parser->http_minor == 1;
    r->wait = (r->out.expects || r->out.pieces) && (r->chunked || parser->content_length > 0);
    set_end(r);
    return r->wait || r->in_size ? HPE_PAUSED : 0;
}

static int too_long(struct http1 *r)
{
    return fail(r, err_make(ERR_LENGTH, "the body is larger than the limit of %llu bytes",
                            (unsigned long long)r->body_max));
}

/* Room for more of the body: twice as much each time, but never more than was announced, so that
 * what is taken is what has come, or half of it. */
static void grow_body(struct http1 *r, size_t more)
{
    size_t len = r->body.len + more;
    uint64_t whole = r->chunked ? r->body_max : r->body_len + r->parser.content_length;
    if (r->body.cap >= len || 2 * (uint64_t)r->body.cap < whole)
        return;
    buf_reserve(&r->body, whole > len ? (size_t)whole : len);
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct http1 *r = parser->data;
    if (!r->out.pieces && len > r->body_max - r->body_len)
        return too_long(r);
    r->body_len += len;
    if (r->out.pieces || r->body_len == len) {
        r->piece = (struct str){at, len};
        return 0;
    }
    grow_body(r, r->piece.len + len);
    buf_str(&r->body, r->piece);
    buf_add(&r->body, at, len);
    r->piece.len = 0;
    return 0;
}

/* Refuses a chunk by the length it announces rather than after reading it. */
static int on_chunk_header(llhttp_t *parser)
{
    struct http1 *r = parser->data;
    return !r->out.pieces && parser->content_length > r->body_max - r->body_len ? too_long(r) : 0;
}

/* The line of the next size follows, unless that was the last chunk. */
static int on_chunk_complete(llhttp_t *parser)
{
    struct http1 *r = parser->data;
    r->in_size = !(parser->flags & F_TRAILING);
    return r->in_size ? HPE_PAUSED : 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct http1 *r = parser->data;
    r->done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t callbacks = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_header = on_chunk_header,
    .on_chunk_complete = on_chunk_complete,
    .on_message_complete = on_message_complete,
};

struct http1 *http1_new(uint64_t header_max, uint64_t body_max)
{
    struct http1 *r = ALLOC(struct http1);
    llhttp_init(&r->parser, HTTP_REQUEST, &callbacks);
    r->parser.data = r;
    r->header_max = header_max;
    r->body_max = body_max;
    return r;
}

void http1_ask(struct http1 *r, bool (*wants)(void *ctx, enum http_method method, struct str path),
               void *ctx)
{
    r->wants = wants;
    r->wants_ctx = ctx;
}

void http1_free(struct http1 *r)
{
    if (!r)
        return;
    buf_fini(&r->head);
    buf_fini(&r->lists);
    buf_fini(&r->body);
    free(r);
}

static void empty(struct buf *b)
{
    if (b->cap > KEEP_MAX)
        buf_fini(b);
    b->len = 0;
}

static void start_over(struct http1 *r)
{
    empty(&r->head);
    empty(&r->lists);
    empty(&r->body);
    r->phase = HTTP1_IDLE;
    r->named = r->other = false;
    r->done = r->wait = r->begun = r->coded = r->chunked = r->expect = r->empty_length = false;
    r->in_size = r->out.pieces = r->websocket = false;
    r->ext = (struct chunk_ext){0};
    r->headers = r->hosts = r->given = r->joined = 0;
    r->target.len = r->field.len = r->value.len = 0;
    r->raw = r->body_len = 0;
    r->piece.len = 0;
}

/* The bytes just fed are about to go: keeps what the request still needs of them. */
static void save(struct http1 *r, size_t fed)
{
    buf_str(&r->body, r->piece);
    r->piece.len = 0;
    if (r->base != r->head.at)
        buf_add(&r->head, r->base, r->phase == HTTP1_HEAD ? fed : r->head_len);
    else if (r->phase == HTTP1_BODY)
        r->head.len = r->head_len;
}

static enum http1_event bad(struct http1 *r)
{
    if (r->err.code == ERR_OK)
        r->err = err_make(ERR_BAD_REQUEST, "malformed HTTP request: %s",
                          llhttp_get_error_reason(&r->parser));
    return HTTP1_BAD;
}

/* Limits on what is neither target, header count nor body. Chunk extensions and trailers are
 * dropped, but a client could send them for ever: 16 bytes of framing per byte of body are
 * more than the smallest chunks need. */
static bool too_large(struct http1 *r)
{
    if (r->phase == HTTP1_HEAD && r->raw > r->header_max + r->target.len)
        r->err = head_too_large(r);
    else if (r->phase == HTTP1_BODY && r->chunked && r->raw > 2 * r->header_max + 17 * r->body_len)
        r->err = err_make(ERR_HEADERS, "the chunks' framing or trailers are too large");
    return r->err.code != ERR_OK;
}

static void finish(struct http1 *r)
{
    if (r->body.len)
        buf_str(&r->body, r->piece);
    struct http_request *q = &r->out.req;
    q->method = method_of(r);
    q->path = r->path.len ? view(r, r->path) : STR("/");
    q->query = view(r, r->query);
    memset(http_header_value(q, 0), 0, HTTP_HEADERS * sizeof(struct str));
    for (unsigned left = r->given; left; left &= left - 1) {
        enum http_header h = (enum http_header)__builtin_ctz(left);
        *http_header_value(q, h) = kept(r, h);
    }
    q->body = r->body.len ? buf_view(&r->body) : r->piece;
    q->length = -1;
    if (r->out.pieces && !r->chunked)
        q->length =
            r->parser.content_length < INT64_MAX ? (int64_t)r->parser.content_length : INT64_MAX;
}

static size_t count_newlines(const char *at, size_t len)
{
    size_t n = 0;
    while (n < len && (at[n] == '\r' || at[n] == '\n'))
        n++;
    return n;
}

/* Passes over the extensions of a chunk, which llhttp knows only in part (it refuses white space
 * and escapes in them, RFC 9112 §7.1.1). *used says how far. */
static bool skip_ext(struct http1 *r, const char *at, size_t len, size_t *used)
{
    for (*used = 0; *used < len && at[*used] != '\r'; ++*used)
        if (!chunk_ext_step(&r->ext, at[*used]))
            return false;
    if (*used == len)
        return true;
    bool whole = chunk_ext_end(&r->ext);
    r->in_size = false;
    r->ext = (struct chunk_ext){0};
    return whole;
}

/* How many of these bytes llhttp gets at once. */
static size_t piece_of(const struct http1 *r, const char *at, size_t len)
{
    size_t n = 0;
    if (!r->in_size)
        return len;
    while (r->ext.place == CHUNK_EXT_NONE && n < len && at[n] != '\r' && !chunk_ext_begins(at[n]))
        n++;
    return n;
}

/* Gives them to llhttp; *used says how far it went. */
static llhttp_errno_t parse(struct http1 *r, const char *at, size_t len, size_t *used)
{
    llhttp_errno_t e = llhttp_execute(&r->parser, at, len);
    *used = e == HPE_OK ? len : (size_t)(llhttp_get_error_pos(&r->parser) - at);
    if (e == HPE_PAUSED)
        llhttp_resume(&r->parser);
    return e == HPE_PAUSED ? HPE_OK : e;
}

static bool has_piece(const struct http1 *r)
{
    return r->out.pieces && r->piece.len;
}

/* The same, without the extensions of chunks. */
static llhttp_errno_t walk(struct http1 *r, const char *from, size_t n, size_t *used)
{
    llhttp_errno_t e = HPE_OK;
    size_t step;
    *used = 0;
    while (*used < n && e == HPE_OK && !r->done && !r->wait && !has_piece(r)) {
        const char *at = from + *used;
        size_t left = n - *used;
        size_t piece = piece_of(r, at, left);
        if (piece) {
            e = parse(r, at, piece, &step);
        } else if (!skip_ext(r, at, left, &step)) {
            r->err = err_make(ERR_BAD_REQUEST, "malformed HTTP request: the extension of a chunk");
            e = HPE_USER;
        }
        *used += step;
    }
    return e;
}

/* The method, of which `fed` bytes came before those at `from`. False: it is not whole, so that the
 * parser gets nothing yet. */
static bool read_method(struct http1 *r, const char **from)
{
    static const char substitute[] = "GET ";
    size_t used = 0, step;
    enum http1_method_kind kind = http1_method_look(r->base, (size_t)(r->limit - r->base), &used);
    r->named = kind != HTTP1_METHOD_SHORT;
    r->other = kind == HTTP1_METHOD_OTHER;
    if (r->other)
        (void)parse(r, substitute, sizeof substitute - 1, &step);
    *from = r->base + used;
    return r->named;
}

/* Reads n bytes at `from`; *used says how far it went. */
static enum http1_event execute(struct http1 *r, const char *from, size_t n, size_t *used)
{
    const char *start = from;
    r->limit = from + n;
    *used = n;
    if (!r->named && !read_method(r, &start)) {
        r->raw += n;
        save(r, n);
        return HTTP1_MORE;
    }
    size_t walked;
    llhttp_errno_t e = walk(r, start, (size_t)(r->limit - start), &walked);
    *used = start + walked > from ? (size_t)(start + walked - from) : 0;
    if (e == HPE_PAUSED_H2_UPGRADE)
        return HTTP1_PREFACE;
    if (e != HPE_OK)
        return bad(r);
    r->raw += *used;
    if (too_large(r))
        return bad(r);
    if (r->begun)
        return r->done || has_piece(r) ? HTTP1_PIECE : HTTP1_MORE;
    bool wait = r->wait;
    r->wait = false;
    r->begun = wait && r->out.pieces;
    if (r->done || r->begun) {
        finish(r);
        return r->done ? HTTP1_REQUEST : HTTP1_BEGIN;
    }
    save(r, *used);
    return wait ? HTTP1_CONTINUE : HTTP1_MORE;
}

enum http1_event http1_feed(struct http1 *r, const char *at, size_t len, size_t *used)
{
    must(r->err.code == ERR_OK);
    *used = 0;
    if (r->done)
        start_over(r);
    if (r->begun)
        r->piece.len = 0;
    size_t skip = 0;
    if (r->phase == HTTP1_IDLE) {
        /* Empty lines before a request are allowed (RFC 9112 §2.2) and start none. */
        skip = count_newlines(at, len);
        if (skip == len) {
            *used = len;
            return HTTP1_MORE;
        }
        r->phase = HTTP1_HEAD;
    }
    const char *from = at + skip;
    size_t n = len - skip;
    size_t before = r->head.len;
    r->base = before ? r->head.at : from;
    if (before && r->phase == HTTP1_HEAD) {
        /* The head came in pieces: put them together, so that each token is one span. */
        uint64_t room = r->header_max + HTTP1_TARGET_MAX + 1 - before;
        n = n < room ? n : room;
        buf_add(&r->head, from, n);
        r->base = r->head.at;
        from = r->base + before;
    }
    enum http1_event event = execute(r, from, n, used);
    *used += skip;
    return event;
}

struct http1_request *http1_request(struct http1 *r)
{
    must(r->done || r->begun);
    return &r->out;
}

struct str http1_piece(const struct http1 *r)
{
    must(r->begun);
    return r->piece;
}

const struct err *http1_error(const struct http1 *r)
{
    return &r->err;
}

void http1_release(struct http1 *r)
{
    if (r->done)
        start_over(r);
}

void http1_drop(struct http1 *r)
{
    buf_fini(&r->head);
    buf_fini(&r->lists);
    buf_fini(&r->body);
}

uint64_t http1_held(const struct http1 *r)
{
    return http1_phase(r) == HTTP1_IDLE ? 0 : r->head.cap + r->lists.cap + r->body.cap;
}

enum http1_phase http1_phase(const struct http1 *r)
{
    return r->done ? HTTP1_IDLE : r->phase;
}
