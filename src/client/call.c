/* SPDX-License-Identifier: Apache-2.0 */
#include "client/call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/bearer.h"
#include "base/alloc.h"
#include "base/duration.h"
#include "base/must.h"
#include "client/table.h"
#include "client/view.h"
#include "client/when.h"
#include "client/whose.h"

#define ANSWER_MAX      ((size_t)1 << 30)
#define CONNECT_TIMEOUT ((span){5000})
#define DEFAULT_PORT    "7890"

static bool host_of(const char *url, char *out, size_t size)
{
    char *host = NULL, *scheme = NULL;
    CURLU *u = curl_url();
    bool ok = curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
              curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
              (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    snprintf(out, size, "%s", ok ? host : "");
    curl_free(host);
    curl_free(scheme);
    curl_url_cleanup(u);
    return ok;
}

static bool is_loopback(const char *url)
{
    char host[256];
    return host_of(url, host, sizeof host) &&
           (strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 ||
            strcmp(host, "[::1]") == 0);
}

/* Lengths of the parts of HOST[:PORT][/PATH]; an IPv6 address is in brackets. */
struct bare_url {
    size_t host, port; /* port with its ':', or 0 */
};

static bool split_bare(const char *s, struct bare_url *u)
{
    const char *end = *s == '[' ? strchr(s, ']') : NULL;
    u->host = end ? (size_t)(end - s) + 1 : strcspn(s, ":/@[]?#");
    const char *port = s + u->host;
    u->port = *port == ':' ? 1 + strspn(port + 1, "0123456789") : 0;
    const char *path = port + u->port;
    return u->host && u->port != 1 && (strchr("?#", *path) || (*path == '/' && path[1] != '/'));
}

char *call_url(const char *url)
{
    struct bare_url bare;
    struct buf b = {0};
    size_t n = strlen(url);
    while (n && url[n - 1] == '/')
        n--;
    char *text = alloc_text(url, n);
    if (strstr(text, "://") || !split_bare(text, &bare))
        return text;
    size_t port = bare.host + bare.port;
    buf_print(&b, "http://%.*s%s%s", (int)port, text, bare.port ? "" : ":" DEFAULT_PORT,
              text + port);
    buf_byte(&b, '\0');
    free(text);
    return b.at;
}

const char *call_bad_url(const char *url)
{
    char host[256], *whole = call_url(url);
    /* libcurl also takes "http:/host". */
    bool ok = strstr(whole, "://") && host_of(whole, host, sizeof host);
    free(whole);
    if (!ok)
        return "write it like http://127.0.0.1:7890 or localhost:7890, an IPv6 address in brackets";
    if (strpbrk(url, "?#"))
        return "it must not contain '?' or '#'";
    return NULL;
}

static size_t take_answer(char *at, size_t size, size_t n, void *to)
{
    struct call *c = to;
    if (c->answer.len + size * n > (c->answer_max ? c->answer_max : ANSWER_MAX))
        return 0;
    buf_add(&c->answer, at, size * n);
    return size * n;
}

static size_t take_header(char *at, size_t size, size_t n, void *to)
{
    static const struct str name = {"date:", 5};
    struct call *c = to;
    char text[64];
    size_t len = size * n - (size * n > name.len ? name.len : size * n);
    if (len == 0 || len >= sizeof text || strncasecmp(at, name.at, name.len) != 0)
        return size * n;
    memcpy(text, at + name.len, len);
    text[len] = '\0';
    time_t t = curl_getdate(text, NULL);
    if (t > 0)
        c->date.ms = (int64_t)t * 1000;
    return size * n;
}

static size_t give_file(char *to, size_t size, size_t n, void *from)
{
    struct call *c = from;
    int64_t left = c->file_size - c->file_at;
    size_t most = size * n < (size_t)left ? size * n : (size_t)left;
    ssize_t got = pread(c->file, to, most, c->file_at);
    if (got < 0)
        return CURL_READFUNC_ABORT;
    c->file_at += got;
    return (size_t)got;
}

/* libcurl begins again if a connection that it has used before turns out to be closed. */
static int seek_file(void *of, curl_off_t offset, int origin)
{
    struct call *c = of;
    if (origin != SEEK_SET || offset > c->file_size)
        return CURL_SEEKFUNC_FAIL;
    c->file_at = offset;
    return CURL_SEEKFUNC_OK;
}

/* A command run by a worker must not inherit the worker's connections: if it outlived the worker,
 * the server would not notice that the worker is gone. */
static int close_on_exec(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    (void)ctx;
    (void)purpose;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? CURL_SOCKOPT_OK : CURL_SOCKOPT_ERROR;
}

static void use_certificates(CURL *curl, const char *url, const struct call_tls *tls)
{
    if (tls->ca_cert)
        curl_easy_setopt(curl, CURLOPT_CAINFO, tls->ca_cert);
    if (tls->client_cert)
        curl_easy_setopt(curl, CURLOPT_SSLCERT, tls->client_cert);
    if (tls->client_key)
        curl_easy_setopt(curl, CURLOPT_SSLKEY, tls->client_key);
    /* Over TLS, HTTP/2 is chosen by ALPN, and several calls share one handshake: a new call waits
     * for a connection that is being opened. Without TLS, HTTP/1.1 is cheaper. */
    if (strncasecmp(url, "https:", 6) != 0)
        return;
    curl_easy_setopt(curl, CURLOPT_PIPEWAIT, 1L);
}

/* Without a token if it cannot be read: who uses the call has asked bearer_line before. */
static void add_bearer(struct call *c, const struct call_tls *tls)
{
    struct buf line = {0};
    if (!tls->no_token && bearer_line(tls->token_file, &line).code == ERR_OK && line.len) {
        buf_byte(&line, '\0');
        c->headers = curl_slist_append(c->headers, line.at);
        explicit_bzero(line.at, line.len);
        c->token_file = tls->token_file;
        c->token_read = when_mono();
    }
    buf_fini(&line);
}

/* `line` takes the place of the header that begins with `name`. */
static void replace_header(struct call *c, const char *name, const char *line)
{
    struct curl_slist *fresh = NULL;
    for (struct curl_slist *h = c->headers; h; h = h->next)
        fresh =
            curl_slist_append(fresh, strncmp(h->data, name, strlen(name)) == 0 ? line : h->data);
    curl_slist_free_all(c->headers);
    c->headers = fresh;
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
}

/* Tokens in files are renewed, as those of service accounts of Kubernetes are. One that was there
 * stays if there is none any more: whoever writes the file may be at it. */
static void renew_bearer(struct call *c)
{
    struct buf line = {0};
    c->token_read = when_mono();
    if (bearer_line(c->token_file, &line).code == ERR_OK && line.len) {
        buf_byte(&line, '\0');
        replace_header(c, "Authorization: Bearer ", line.at);
        explicit_bzero(line.at, line.len);
    }
    buf_fini(&line);
}

void call_init(struct call *c, const char *url, const struct call_tls *tls)
{
    *c = (struct call){.curl = curl_easy_init(), .url = url};
    must(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, c->why);
    curl_easy_setopt(c->curl, CURLOPT_SOCKOPTFUNCTION, close_on_exec);
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, take_answer);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(c->curl, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, give_file);
    curl_easy_setopt(c->curl, CURLOPT_READDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_SEEKFUNCTION, seek_file);
    curl_easy_setopt(c->curl, CURLOPT_SEEKDATA, c);
    curl_easy_setopt(c->curl, CURLOPT_PRIVATE, c);
    curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "tenax/" TENAX_VERSION);
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT.ms);
    use_certificates(c->curl, url, tls);
    /* A proxy meant for the web must not get requests to this machine. */
    if (is_loopback(url))
        curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
    /* "Expect: 100-continue" would cost large bodies a round trip. */
    c->headers = curl_slist_append(NULL, "Content-Type: application/json");
    c->headers = curl_slist_append(c->headers, "Accept: application/json");
    c->headers = curl_slist_append(c->headers, "Expect:");
    add_bearer(c, tls);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
}

void call_header(struct call *c, const char *line)
{
    c->headers = curl_slist_append(c->headers, line);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
}

void call_accept(struct call *c, const char *media_type)
{
    struct buf line = {0};
    buf_print(&line, "Accept: %s", media_type);
    buf_byte(&line, '\0');
    replace_header(c, "Accept: ", line.at);
    buf_fini(&line);
}

void call_clear_headers(struct call *c)
{
    curl_slist_free_all(c->headers);
    c->headers = NULL;
    c->token_file = NULL;
    call_header(c, "Expect:");
}

void call_fini(struct call *c)
{
    curl_easy_cleanup(c->curl);
    curl_slist_free_all(c->headers);
    buf_fini(&c->body);
    buf_fini(&c->answer);
    *c = (struct call){0};
}

static void prepare(struct call *c, const char *method, const char *path, span timeout)
{
    struct buf url = {0};
    if (c->token_file && when_ms_between(when_mono(), c->token_read) > BEARER_AGE_MS)
        renew_bearer(c);
    buf_print(&url, "%s%s", c->url, path);
    buf_byte(&url, '\0');
    curl_easy_setopt(c->curl, CURLOPT_URL, url.at); /* copied */
    buf_fini(&url);
    if (c->has_file) {
        c->file_at = 0;
        curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->file_size);
    } else if (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
               strcmp(method, "PATCH") == 0) {
        curl_easy_setopt(c->curl, CURLOPT_POST, 1L);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, c->body.len ? c->body.at : "");
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.len);
    } else {
        curl_easy_setopt(c->curl, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)timeout.ms);
    c->answer.len = 0;
    c->date = INSTANT_NONE;
    c->status = c->foreign = 0;
    c->why[0] = '\0';
    c->expected = whose_expects(method, path);
    c->timeout = timeout;
    c->sent = when_mono();
}

static bool is_good(const struct call *c)
{
    return c->status >= 200 && c->status < 300;
}

static bool is_from_server(const struct call *c)
{
    struct str answer = buf_view(&c->answer);
    if (c->any_answer)
        return true;
    if (is_good(c))
        return whose_success(c->expected, c->status, answer);
    return whose_refusal(answer);
}

static enum call_result judge(struct call *c, CURLcode code)
{
    c->code = code;
    if (code != CURLE_OK)
        return CALL_UNREACHABLE;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &c->status);
    if (!is_from_server(c)) {
        c->foreign = c->status;
        c->status = 0;
        return CALL_UNREACHABLE;
    }
    if (is_good(c))
        return CALL_DONE;
    if (c->status == 404 || c->status == 409)
        return CALL_GONE;
    return c->status >= 500 || c->status == 408 || c->status == 429 ? CALL_TRY_LATER : CALL_REFUSED;
}

enum call_result call_wait(struct call *c, const char *method, const char *path, span timeout)
{
    prepare(c, method, path, timeout);
    return judge(c, curl_easy_perform(c->curl));
}

void call_start(struct call *c, CURLM *multi, const char *method, const char *path, span timeout)
{
    must(!c->busy);
    prepare(c, method, path, timeout);
    CURLMcode code = curl_multi_add_handle(multi, c->curl);
    must(code == CURLM_OK);
    c->busy = true;
}

enum call_result call_finish(struct call *c, CURLM *multi, CURLcode code)
{
    enum call_result r = judge(c, code);
    call_abort(c, multi);
    return r;
}

void call_abort(struct call *c, CURLM *multi)
{
    if (c->busy)
        curl_multi_remove_handle(multi, c->curl);
    c->busy = false;
}

static void explain_unreachable(const struct call *c, struct buf *b)
{
    long sys = 0;
    curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &sys);
    buf_print(b, "cannot reach %s: ", c->url);
    if (c->code == CURLE_COULDNT_CONNECT && sys == ECONNREFUSED) {
        buf_lit(b, "connection refused; is the server running?");
        if (is_loopback(c->url))
            buf_lit(b, " start it with: tenax serve");
    } else if (c->code == CURLE_COULDNT_RESOLVE_HOST) {
        buf_lit(b, "there is no host with that name");
    } else if (c->code == CURLE_OPERATION_TIMEDOUT) {
        buf_lit(b, "no answer within ");
        double connected = 0;
        curl_easy_getinfo(c->curl, CURLINFO_CONNECT_TIME, &connected);
        duration_write(b, connected > 0 ? c->timeout : CONNECT_TIMEOUT);
    } else if (strstr(c->why, "alert certificate required")) {
        buf_lit(b, "the server asks for a certificate: --client-cert and --client-key");
    } else if (strstr(c->why, "wrong version number")) {
        buf_lit(b, "the server there does not speak TLS; without TLS the URL is http://");
    } else if (c->code == CURLE_WEIRD_SERVER_REPLY || strstr(c->why, "HTTP/0.9")) {
        buf_lit(b, "what answers there does not speak HTTP; is that a Tenax server?");
    } else if (c->code == CURLE_GOT_NOTHING || c->code == CURLE_RECV_ERROR ||
               c->code == CURLE_SEND_ERROR || c->code == CURLE_PARTIAL_FILE) {
        buf_lit(b, "the connection broke before the answer was complete");
    } else {
        table_harmless(b, str_from(c->why[0] ? c->why : curl_easy_strerror(c->code)));
    }
}

static struct str first_line(struct str text)
{
    const char *end = text.len ? memchr(text.at, '\n', text.len) : NULL;
    return end ? (struct str){text.at, (size_t)(end - text.at)} : text;
}

void call_explain(const struct call *c, struct buf *b)
{
    if (c->code != CURLE_OK) {
        explain_unreachable(c, b);
        return;
    }
    if (c->foreign) {
        buf_print(
            b,
            "%s answered HTTP %ld, but not as Tenax does; is that a Tenax server? If it is, a "
            "proxy in between has answered",
            c->url, c->foreign);
        return;
    }
    struct arena a = {0};
    struct str answer = buf_view(&c->answer);
    struct str error = {"", 0}, code = error, field = error;
    if (view_check(answer, NULL).code == ERR_OK) {
        error = view_text(&a, answer, "error");
        if (!error.len) /* as Taskcluster's services say it: a sentence, and more below */
            error = first_line(view_text(&a, answer, "message"));
        code = view_text(&a, answer, "code");
        field = view_text(&a, answer, "field");
    }
    if (error.len) {
        table_harmless(b, error);
        buf_print(b, " (HTTP %ld%s%.*s%s%.*s)", c->status, code.len ? ", " : "", STR_ARG(code),
                  field.len ? ", field " : "", STR_ARG(field));
    } else {
        buf_print(b, "%s answered HTTP %ld", c->url, c->status);
    }
    arena_fini(&a);
}
