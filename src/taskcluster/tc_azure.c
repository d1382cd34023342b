/* SPDX-License-Identifier: Apache-2.0 */
#include "taskcluster/tc_azure.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"

/* That of the URLs (sv). */
#define VERSION "2014-02-14"

static void reply(struct tc_call *c, int status, const char *code, struct str body)
{
    struct rng *rng = &c->tc->rng;
    uint64_t a = rng_next(rng), b = rng_next(rng);
    char lines[256], error[96] = "";
    if (code)
        snprintf(error, sizeof error, "x-ms-error-code: %s\r\n", code);
    snprintf(lines, sizeof lines,
             "x-ms-request-id: %08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64
             "\r\nx-ms-version: " VERSION "\r\n%s",
             a >> 32, a >> 16 & 0xffff, 0x4000 | (a & 0xfff), 0x8000 | (b >> 50 & 0x3fff),
             b & UINT64_C(0xffffffffffff), error);
    http_reply(c->x, status, body.len ? STR("application/xml") : (struct str){0}, body, lines);
}

void tc_azure_reply(struct tc_call *c, int status, struct str body)
{
    reply(c, status, NULL, body);
}

/* What a request says may be quoted: neither markup, nor what XML cannot have. */
static void write_text(struct buf *b, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];
        if (c == '<')
            buf_lit(b, "&lt;");
        else if (c == '&')
            buf_lit(b, "&amp;");
        else if (c == '>')
            buf_lit(b, "&gt;");
        else
            buf_byte(b, (c < 0x20 && c != '\n') || c == 0x7f ? '?' : c);
    }
}

void tc_azure_fail(struct tc_call *c, int status, const char *code, struct str words)
{
    struct buf b = {0};
    buf_print(&b, "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>%s</Code><Message>",
              code);
    write_text(&b, words);
    buf_lit(&b, "</Message></Error>");
    reply(c, status, code, buf_view(&b));
    buf_fini(&b);
}

const char *tc_azure_code(int status)
{
    static const struct {
        int status;
        const char *code;
    } codes[] = {
        {400, "InvalidQueryParameterValue"},
        {401, "AuthenticationFailed"},
        {403, "AuthenticationFailed"},
        {404, "ResourceNotFound"},
        {503, "ServerBusy"},
        {507, "ServerBusy"},
    };
    for (size_t i = 0; i < COUNT(codes); i++)
        if (codes[i].status == status)
            return codes[i].code;
    return "InternalError";
}
