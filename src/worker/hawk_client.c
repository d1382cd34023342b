/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/hawk_client.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "access/hawk.h"
#include "base/base64.h"
#include "base/json.h"
#include "base/must.h"

#define NONCE_BYTES 9

/* Hawk reserves the quote and the backslash. */
static bool is_attribute(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] < 0x20 || s.at[i] > 0x7e || s.at[i] == '"' || s.at[i] == '\\')
            return false;
    return s.len > 0;
}

static bool is_object(struct str text)
{
    struct json_cursor c = json_open(text);
    enum json_type type;
    return json_peek(&c, &type).code == ERR_OK && type == JSON_OBJECT &&
           json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK;
}

const char *hawk_client_bad(const struct hawk_credentials *by)
{
    if (!is_attribute(by->client_id))
        return "the client id must be printable ASCII without quotes and backslashes";
    if (!by->access_token.len)
        return "there is no access token";
    if (by->certificate.len && !is_object(by->certificate))
        return "the certificate is not a JSON object";
    return NULL;
}

/* The parts of the URL that are signed; to be released with curl_free. */
struct parts {
    char *host, *port, *path, *query;
};

static void parts_fini(struct parts *p)
{
    curl_free(p->host);
    curl_free(p->port);
    curl_free(p->path);
    curl_free(p->query);
}

static bool split(const char *url, struct parts *p)
{
    CURLU *u = curl_url();
    must(u);
    bool ok = curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &p->host, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PORT, &p->port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_PATH, &p->path, 0) == CURLUE_OK;
    if (ok && curl_url_get(u, CURLUPART_QUERY, &p->query, 0) != CURLUE_OK)
        p->query = NULL;
    curl_url_cleanup(u);
    return ok;
}

static void write_nonce(struct buf *b)
{
    unsigned char bytes[NONCE_BYTES];
    ssize_t got = getrandom(bytes, sizeof bytes, 0);
    must(got == sizeof bytes);
    base64_write_url(b, (struct str){(const char *)bytes, sizeof bytes});
}

/* {"certificate":…} in Base64 */
static void write_ext(struct buf *b, struct str certificate)
{
    struct buf json = {0};
    if (!certificate.len)
        return;
    buf_print(&json, "{\"certificate\":%.*s}", STR_ARG(certificate));
    base64_write(b, buf_view(&json));
    buf_fini(&json);
}

static void sign(struct buf *b, const struct hawk_credentials *by, const struct hawk_target *t,
                 instant now)
{
    char ts[24], mac[HAWK_MAC_LEN];
    struct buf nonce = {0}, ext = {0};
    int n = snprintf(ts, sizeof ts, "%" PRId64, now.ms / 1000);
    write_nonce(&nonce);
    write_ext(&ext, by->certificate);
    const struct hawk_attributes h = {.id = by->client_id,
                                      .ts = {ts, (size_t)n},
                                      .nonce = buf_view(&nonce),
                                      .ext = buf_view(&ext)};
    hawk_mac(HAWK_HEADER, by->access_token, t, &h, mac);
    buf_print(b, "Authorization: Hawk id=\"%.*s\", ts=\"%s\", nonce=\"%.*s\"",
              STR_ARG(by->client_id), ts, STR_ARG(h.nonce));
    if (h.ext.len)
        buf_print(b, ", ext=\"%.*s\"", STR_ARG(h.ext));
    buf_print(b, ", mac=\"%.*s\"", HAWK_MAC_LEN, mac);
    buf_fini(&nonce);
    buf_fini(&ext);
}

bool hawk_client_header(struct buf *b, const struct hawk_credentials *by, const char *method,
                        const char *url, instant now)
{
    struct parts p = {0};
    bool ok = split(url, &p);
    if (ok) {
        size_t n = strlen(p.host);
        bool v6 = p.host[0] == '[' && n > 2;
        const struct hawk_target t = {.method = str_from(method),
                                      .path = str_from(p.path),
                                      .query = str_from(p.query),
                                      .host = {p.host + v6, n - 2 * (size_t)v6},
                                      .port = (uint16_t)strtoul(p.port, NULL, 10)};
        sign(b, by, &t, now);
    }
    parts_fini(&p);
    return ok;
}
