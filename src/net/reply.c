/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reply.h"

#include <stdio.h>

#include "base/must.h"
#include "net/http.h"
#include "net/http_date.h"

/* Every status there is a phrase for (RFC 9110 §15, RFC 6585, RFC 4918). */
#define STATUSES(X)                                                                                \
    X(100, "Continue")                                                                             \
    X(101, "Switching Protocols")                                                                  \
    X(200, "OK")                                                                                   \
    X(201, "Created")                                                                              \
    X(202, "Accepted")                                                                             \
    X(203, "Non-Authoritative Information")                                                        \
    X(204, "No Content")                                                                           \
    X(205, "Reset Content")                                                                        \
    X(206, "Partial Content")                                                                      \
    X(207, "Multi-Status")                                                                         \
    X(300, "Multiple Choices")                                                                     \
    X(301, "Moved Permanently")                                                                    \
    X(302, "Found")                                                                                \
    X(303, "See Other")                                                                            \
    X(304, "Not Modified")                                                                         \
    X(307, "Temporary Redirect")                                                                   \
    X(308, "Permanent Redirect")                                                                   \
    X(400, "Bad Request")                                                                          \
    X(401, "Unauthorized")                                                                         \
    X(402, "Payment Required")                                                                     \
    X(403, "Forbidden")                                                                            \
    X(404, "Not Found")                                                                            \
    X(405, "Method Not Allowed")                                                                   \
    X(406, "Not Acceptable")                                                                       \
    X(407, "Proxy Authentication Required")                                                        \
    X(408, "Request Timeout")                                                                      \
    X(409, "Conflict")                                                                             \
    X(410, "Gone")                                                                                 \
    X(411, "Length Required")                                                                      \
    X(412, "Precondition Failed")                                                                  \
    X(413, "Content Too Large")                                                                    \
    X(414, "URI Too Long")                                                                         \
    X(415, "Unsupported Media Type")                                                               \
    X(416, "Range Not Satisfiable")                                                                \
    X(417, "Expectation Failed")                                                                   \
    X(421, "Misdirected Request")                                                                  \
    X(422, "Unprocessable Content")                                                                \
    X(423, "Locked")                                                                               \
    X(424, "Failed Dependency")                                                                    \
    X(425, "Too Early")                                                                            \
    X(426, "Upgrade Required")                                                                     \
    X(428, "Precondition Required")                                                                \
    X(429, "Too Many Requests")                                                                    \
    X(431, "Request Header Fields Too Large")                                                      \
    X(451, "Unavailable For Legal Reasons")                                                        \
    X(500, "Internal Server Error")                                                                \
    X(501, "Not Implemented")                                                                      \
    X(502, "Bad Gateway")                                                                          \
    X(503, "Service Unavailable")                                                                  \
    X(504, "Gateway Timeout")                                                                      \
    X(505, "HTTP Version Not Supported")                                                           \
    X(507, "Insufficient Storage")                                                                 \
    X(511, "Network Authentication Required")

#define STATUS_LOW  100
#define STATUS_HIGH 599

static const struct {
    const char *phrase;
    struct str line;
} statuses[STATUS_HIGH - STATUS_LOW + 1] = {
#define X(code, text)                                                                              \
    [code - STATUS_LOW] = {                                                                        \
        text, {"HTTP/1.1 " #code " " text "\r\n", sizeof("HTTP/1.1 " #code " " text "\r\n") - 1}},
    STATUSES(X)
#undef X
};

const char *http_phrase(int status)
{
    if (status < STATUS_LOW || status > STATUS_HIGH || !statuses[status - STATUS_LOW].phrase)
        return "Unknown";
    return statuses[status - STATUS_LOW].phrase;
}

void reply_date(char date[REPLY_DATE_LEN], int64_t seconds)
{
    char text[HTTP_DATE_LEN + 1], line[REPLY_DATE_LEN + 1];
    http_date_write(text, seconds);
    int n = snprintf(line, sizeof line, "Date: %s\r\n", text);
    must(n == REPLY_DATE_LEN);
    memcpy(date, line, REPLY_DATE_LEN);
}

static void add_status(struct buf *out, int status)
{
    must(status >= STATUS_LOW && status <= STATUS_HIGH);
    struct str line = statuses[status - STATUS_LOW].line;
    if (line.len)
        buf_str(out, line);
    else
        buf_print(out, "HTTP/1.1 %d %s\r\n", status, http_phrase(status));
}

static void add_head(struct buf *out, const struct reply_head *h)
{
    add_status(out, h->status);
    buf_add(out, h->date, REPLY_DATE_LEN);
    if (h->type.len) {
        buf_lit(out, "Content-Type: ");
        buf_str(out, h->type);
        buf_lit(out, "\r\n");
    }
    if (h->extra)
        buf_str(out, str_from(h->extra));
    if (h->close)
        buf_lit(out, "Connection: close\r\n");
}

static void add_length(struct buf *out, uint64_t length)
{
    buf_lit(out, "Content-Length: ");
    buf_int(out, (int64_t)length);
    buf_lit(out, "\r\n");
}

void reply_add(struct buf *out, const struct reply_head *h, struct str body, bool no_body)
{
    buf_room(out, 256 + body.len); /* so that the head below grows nothing, as a rule */
    add_head(out, h);
    if (body.len || (h->status != 204 && h->status != 304))
        add_length(out, body.len);
    buf_lit(out, "\r\n");
    if (!no_body)
        buf_str(out, body);
}

void reply_open(struct buf *out, const struct reply_head *h)
{
    add_head(out, h);
    if (h->chunked)
        buf_lit(out, "Transfer-Encoding: chunked\r\n");
    else if (h->sized)
        add_length(out, h->length);
    buf_lit(out, "\r\n");
}

/* The sentence may quote what a client sent, so it is escaped; bytes that are not ASCII are
 * replaced, for they need not be valid UTF-8. */
static void add_quoted(struct buf *out, const char *text)
{
    buf_byte(out, '"');
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            buf_byte(out, '\\');
        buf_byte(out, c < 0x20 || c > 0x7e ? '?' : *p);
    }
    buf_byte(out, '"');
}

void reply_error_body(struct buf *out, const struct err *e)
{
    buf_lit(out, "{\"error\":");
    add_quoted(out, e->msg);
    buf_lit(out, ",\"code\":");
    add_quoted(out, err_wire(e->code));
    buf_lit(out, "}");
}
