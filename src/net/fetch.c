/* SPDX-License-Identifier: Apache-2.0 */
#include "net/fetch.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/must.h"
#include "net/fetch_trust.h"

/* A peer that is gone without a word: probed after a while, given up when nothing that was sent is
 * acknowledged. Without it a dead HTTP/2 connection would take one request after the other. */
#define PROBE_AFTER_S    15
#define PROBE_EVERY_S    5
#define PEER_TIMEOUT_MS  30000
#define FIRST_ANSWER_CAP ((size_t)4096)

struct fetcher {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    struct list requests; /* every struct fetch that is not over */
    size_t count;
    /* libcurl must not be asked to add or remove requests while it is at work: those that callbacks
     * start or abort are set aside until it is done. */
    bool inside;
    struct list waiting, doomed;
};

struct fetch {
    struct fetcher *fetcher;
    struct list link; /* in requests */
    struct list set;  /* in waiting or doomed */
    CURL *easy;
    bool added, aborted, headed, large, idle_over, paused;
    bool plain;      /* without TLS, so that the connection is its own */
    bool shuts;      /* fetch_shut was asked for */
    int fd;          /* on which only the answer is waited for; or -1 */
    struct buf sent; /* the body, iff it may be sent once only */
    size_t sent_to;
    long status;
    size_t answer_max;
    uint64_t idle_ms;
    uv_timer_t idle;
    struct buf body;
    struct curl_slist *headers, *connect_to;
    char why[CURL_ERROR_SIZE];
    char said[CURL_ERROR_SIZE + 64]; /* to done() */
    void (*data)(void *ctx, struct str bytes);
    void (*head)(void *ctx, long status);
    void (*done)(void *ctx, const struct fetch_answer *answer);
    void *ctx;
};

struct watched {
    uv_poll_t poll;
    curl_socket_t fd;
    struct fetcher *fetcher;
};

static void settle(struct fetcher *f);

/* --- libcurl on the loop --- */

static void act(struct fetcher *f, curl_socket_t fd, int events)
{
    int running;
    must(!f->inside);
    f->inside = true;
    curl_multi_socket_action(f->multi, fd, events, &running);
    f->inside = false;
    settle(f);
}

static void on_time(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct watched *w = poll->data;
    int what = 0;
    if (status < 0)
        what = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        what |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        what |= CURL_CSELECT_OUT;
    act(w->fetcher, w->fd, what);
}

static void on_watched_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* It was sent over a kept connection that broke, and then there was no new one. */
static bool was_sent(const struct fetch *r)
{
    long bytes = 0;
    curl_easy_getinfo(r->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

/* Sockets of the search for a name are waited for as well, before anything is sent. */
static void shut_if_sent(struct fetch *r)
{
    if (r->shuts && r->plain && r->fd >= 0 && was_sent(r)) {
        curl_easy_setopt(r->easy, CURLOPT_FORBID_REUSE, 1L);
        shutdown(r->fd, SHUT_WR);
        r->shuts = false;
    }
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    struct fetcher *f = ctx;
    struct watched *w = socket_ctx;
    struct fetch *r;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&r);
    r->fd = what == CURL_POLL_IN ? fd : -1; /* all of the request is sent */
    shut_if_sent(r);
    if (what == CURL_POLL_REMOVE) {
        if (w)
            uv_close((uv_handle_t *)&w->poll, on_watched_closed);
        return 0;
    }
    if (!w) {
        w = ALLOC(struct watched);
        w->fd = fd;
        w->fetcher = f;
        w->poll.data = w;
        must(uv_poll_init(f->loop, &w->poll, fd) == 0);
        curl_multi_assign(f->multi, fd, w);
    }
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    uv_poll_start(&w->poll, events, on_ready);
    return 0;
}

static int on_timeout_set(CURLM *multi, long ms, void *ctx)
{
    (void)multi;
    struct fetcher *f = ctx;
    if (ms < 0)
        uv_timer_stop(&f->timer);
    else
        uv_timer_start(&f->timer, on_time, (uint64_t)ms, 0);
    return 0;
}

static int on_open(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    (void)ctx;
    (void)purpose;
    const int probe = PROBE_AFTER_S, every = PROBE_EVERY_S;
    const unsigned lost = PEER_TIMEOUT_MS;
    const int on = 1;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return CURL_SOCKOPT_ERROR;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &probe, sizeof probe);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost, sizeof lost);
    return CURL_SOCKOPT_OK;
}

/* --- the answer as it arrives --- */

static void on_idle(uv_timer_t *timer);

static void touch(struct fetch *r)
{
    if (r->idle_ms && !r->paused)
        uv_timer_start(&r->idle, on_idle, r->idle_ms, 0);
}

static size_t on_header(char *at, size_t size, size_t n, void *ctx)
{
    struct fetch *r = ctx;
    size_t len = size * n;
    touch(r);
    if (r->headed || len > 2 || (at[0] != '\r' && at[0] != '\n'))
        return len;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &r->status);
    if (r->status < 200)
        return len;
    r->headed = true;
    if (r->head && !r->aborted)
        r->head(r->ctx, r->status);
    return r->aborted ? 0 : len;
}

static size_t on_data(char *at, size_t size, size_t n, void *ctx)
{
    struct fetch *r = ctx;
    size_t len = size * n;
    touch(r);
    if (r->aborted)
        return 0;
    if (r->data && r->status >= 200 && r->status < 300) {
        r->data(r->ctx, (struct str){at, len});
        return r->aborted ? 0 : len;
    }
    if (r->answer_max && len > r->answer_max - r->body.len) {
        r->large = true;
        return 0;
    }
    if (!r->body.cap)
        buf_room(&r->body, FIRST_ANSWER_CAP);
    buf_add(&r->body, at, len);
    return len;
}

/* --- an answer that is made to wait --- */

void fetch_pause(struct fetch *r)
{
    if (r->paused)
        return;
    r->paused = true;
    uv_timer_stop(&r->idle);
    curl_easy_pause(r->easy, CURLPAUSE_RECV);
}

/* libcurl may hand over what it has kept from inside curl_easy_pause. */
static void go_on(struct fetch *r)
{
    struct fetcher *f = r->fetcher;
    f->inside = true;
    curl_easy_pause(r->easy, CURLPAUSE_CONT);
    f->inside = false;
    settle(f);
}

void fetch_resume(struct fetch *r)
{
    if (!r->paused || r->aborted)
        return;
    r->paused = false;
    touch(r);
    if (r->fetcher->inside)
        curl_easy_pause(r->easy, CURLPAUSE_CONT);
    else if (r->added)
        go_on(r);
}

void fetch_shut(struct fetch *r)
{
    r->shuts = true;
    shut_if_sent(r);
}

/* --- the end of a request --- */

static void on_fetch_closed(uv_handle_t *handle)
{
    struct fetch *r = handle->data;
    buf_fini(&r->body);
    buf_fini(&r->sent);
    free(r);
}

/* Out of libcurl's hands; its memory goes when the loop has let go of the timer. */
static void let_go(struct fetch *r)
{
    must(!r->fetcher->inside);
    if (r->added)
        curl_multi_remove_handle(r->fetcher->multi, r->easy);
    curl_easy_cleanup(r->easy);
    curl_slist_free_all(r->headers);
    curl_slist_free_all(r->connect_to);
    r->easy = NULL;
    r->headers = r->connect_to = NULL;
    list_unlink(&r->link);
    list_unlink(&r->set);
    r->fetcher->count--;
    uv_close((uv_handle_t *)&r->idle, on_fetch_closed);
}

static enum fetch_fault fault_of(const struct fetch *r, CURLcode code)
{
    if (r->large)
        return FETCH_TOO_LARGE;
    if (r->idle_over)
        return FETCH_TIMED_OUT;
    if (fetch_trust_is_fault(code, r->why))
        return FETCH_UNTRUSTED;
    switch (code) {
    case CURLE_OK:
        return FETCH_ANSWERED;
    case CURLE_OPERATION_TIMEDOUT:
        return FETCH_TIMED_OUT;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PROXY:
        return was_sent(r) ? FETCH_LOST : FETCH_UNREACHABLE;
    default:
        return FETCH_LOST;
    }
}

/* On one line, without characters that a terminal would obey. */
static void say(struct fetch *r, const char *text)
{
    size_t n = 0;
    for (; n < sizeof r->said - 1 && text[n]; n++)
        r->said[n] = (unsigned char)text[n] < 0x20 || text[n] == 0x7f ? ' ' : text[n];
    while (n && (r->said[n - 1] == ' ' || r->said[n - 1] == '.'))
        n--;
    r->said[n] = '\0';
}

static void explain(struct fetch *r, enum fetch_fault fault, CURLcode code)
{
    const char *detail = r->why[0] ? r->why : curl_easy_strerror(code);
    char text[sizeof r->said];
    if (r->idle_over)
        snprintf(text, sizeof text, "nothing arrived for %llu ms", (unsigned long long)r->idle_ms);
    else if (fault == FETCH_TOO_LARGE)
        snprintf(text, sizeof text, "the answer is larger than %zu bytes", r->answer_max);
    else if (strstr(detail, "wrong version number"))
        snprintf(text, sizeof text, "the server there does not speak TLS");
    else if (strstr(detail, "alert certificate required"))
        snprintf(text, sizeof text, "the server asks for a client certificate");
    else if (fault == FETCH_UNTRUSTED)
        fetch_trust_explain(r->easy, code, detail, text, sizeof text);
    else if (code == CURLE_GOT_NOTHING || code == CURLE_PARTIAL_FILE)
        snprintf(text, sizeof text, "the connection broke before the answer was complete");
    else
        snprintf(text, sizeof text, "%s", detail);
    say(r, text);
}

static void finish(struct fetch *r, CURLcode code)
{
    struct fetch_answer answer = {.fault = fault_of(r, code)};
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &answer.status);
    answer.unsent = !was_sent(r);
    if (answer.fault != FETCH_ANSWERED) {
        explain(r, answer.fault, code);
        answer.why = r->said;
    }
    answer.body = buf_view(&r->body);
    /* Its headers stay; they go with the handle. */
    if (r->added)
        curl_multi_remove_handle(r->fetcher->multi, r->easy);
    r->added = false;
    uv_timer_stop(&r->idle);
    r->done(r->ctx, &answer);
    let_go(r);
}

static void on_idle(uv_timer_t *timer)
{
    struct fetch *r = timer->data;
    r->idle_over = true;
    finish(r, CURLE_OPERATION_TIMEDOUT);
}

static void add(struct fetch *r)
{
    must(curl_multi_add_handle(r->fetcher->multi, r->easy) == CURLM_OK);
    r->added = true;
    touch(r);
}

/* What callbacks have set aside, and the requests that are over. */
static void settle(struct fetcher *f)
{
    while (!list_is_empty(&f->doomed))
        let_go(LIST_OF(f->doomed.next, struct fetch, set));
    while (!list_is_empty(&f->waiting)) {
        struct fetch *r = LIST_OF(f->waiting.next, struct fetch, set);
        list_unlink(&r->set);
        add(r);
    }
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(f->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        struct fetch *r = NULL;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&r);
        finish(r, code);
    }
}

/* --- making a request --- */

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

const char *fetch_bad_url(const char *url)
{
    char host[256];
    if (!host_of(url, host, sizeof host))
        return "write it like https://127.0.0.1:6443";
    if (strpbrk(url, "?#"))
        return "it must not contain '?' or '#'";
    if (strchr(url, '@'))
        return "it must not contain a user or a password";
    return NULL;
}

static bool is_this_machine(const char *url)
{
    char host[256];
    return host_of(url, host, sizeof host) &&
           (strncmp(host, "127.", 4) == 0 || strcmp(host, "localhost") == 0 ||
            strcmp(host, "[::1]") == 0);
}

/* libcurl checks the certificate by the host of the URL: so the URL gets the other name, and the
 * connection goes where it went, which the Host header still says. */
static void use_server_name(struct fetch *r, const char *url, const char *name)
{
    char *host = NULL, *port = NULL, *given = NULL, *renamed = NULL;
    CURLU *u = curl_url();
    if (curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
        struct buf b = {0};
        bool plain = curl_url_get(u, CURLUPART_PORT, &given, 0) != CURLUE_OK;
        buf_print(&b, "::%s:%s", host, port);
        buf_byte(&b, '\0');
        r->connect_to = curl_slist_append(NULL, b.at);
        b.len = 0;
        buf_print(&b, "Host: %s%s%s", host, plain ? "" : ":", plain ? "" : given);
        buf_byte(&b, '\0');
        r->headers = curl_slist_append(r->headers, b.at);
        buf_fini(&b);
        if (curl_url_set(u, CURLUPART_HOST, name, 0) == CURLUE_OK &&
            curl_url_get(u, CURLUPART_URL, &renamed, 0) == CURLUE_OK) {
            curl_easy_setopt(r->easy, CURLOPT_CONNECT_TO, r->connect_to);
            curl_easy_setopt(r->easy, CURLOPT_URL, renamed);
        }
    }
    curl_free(host);
    curl_free(port);
    curl_free(given);
    curl_free(renamed);
    curl_url_cleanup(u);
}

static void set_blob(CURL *easy, CURLoption option, struct str pem)
{
    struct curl_blob blob = {.data = (char *)pem.at, .len = pem.len, .flags = CURL_BLOB_COPY};
    curl_easy_setopt(easy, option, &blob);
}

static void use_tls(struct fetch *r, const char *url, const struct fetch_tls *tls)
{
    CURL *easy = r->easy;
    /* Requests share a connection that is being opened, in case that it speaks HTTP/2. */
    if (strncasecmp(url, "https:", 6) == 0)
        curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
    if (!tls)
        return;
    if (tls->ca.len)
        set_blob(easy, CURLOPT_CAINFO_BLOB, tls->ca);
    else if (tls->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file);
    if (tls->ca.len || tls->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* not whom the system trusts as well */
    if (tls->cert.len)
        set_blob(easy, CURLOPT_SSLCERT_BLOB, tls->cert);
    else if (tls->cert_file)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file);
    if (tls->key.len)
        set_blob(easy, CURLOPT_SSLKEY_BLOB, tls->key);
    else if (tls->key_file)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file);
    if (tls->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (tls->server_name && !tls->insecure)
        use_server_name(r, url, tls->server_name);
}

static void use_proxy(CURL *easy, const struct fetch_spec *spec)
{
    if (spec->proxy) {
        curl_easy_setopt(easy, CURLOPT_PROXY, spec->proxy);
        curl_easy_setopt(easy, CURLOPT_NOPROXY, ""); /* whatever the environment says */
        curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    } else if (is_this_machine(spec->url)) {
        /* A proxy meant for the web must not get requests to this machine. */
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
}

static size_t read_sent(char *out, size_t size, size_t n, void *ctx)
{
    struct fetch *r = ctx;
    size_t len = r->sent.len - r->sent_to;
    if (len > size * n)
        len = size * n;
    if (len)
        memcpy(out, r->sent.at + r->sent_to, len);
    r->sent_to += len;
    return len;
}

/* A body that libcurl reads and cannot read again, so that it does not repeat the request. */
static void send_once(struct fetch *r, struct str body)
{
    buf_str(&r->sent, body);
    curl_easy_setopt(r->easy, CURLOPT_READFUNCTION, read_sent);
    curl_easy_setopt(r->easy, CURLOPT_READDATA, r);
}

static void use_method(struct fetch *r, const struct fetch_spec *spec)
{
    if (spec->has_body) {
        curl_easy_setopt(r->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)spec->body.len);
        if (spec->once && spec->body.len)
            send_once(r, spec->body);
        else
            curl_easy_setopt(r->easy, CURLOPT_COPYPOSTFIELDS, spec->body.len ? spec->body.at : "");
        /* Without these libcurl would wait for "100 Continue", or call an empty body a form. */
        r->headers = curl_slist_append(r->headers, spec->body.len ? "Expect:" : "Content-Type:");
    } else if (strcmp(spec->method, "HEAD") == 0) {
        curl_easy_setopt(r->easy, CURLOPT_NOBODY, 1L);
    } else {
        curl_easy_setopt(r->easy, CURLOPT_HTTPGET, 1L);
    }
    curl_easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, spec->method);
}

static void prepare(struct fetch *r, const struct fetch_spec *spec)
{
    CURL *easy = r->easy;
    curl_easy_setopt(easy, CURLOPT_URL, spec->url);
    if (spec->target)
        curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, spec->target);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, r->why);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, r);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tenax/" TENAX_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)spec->connect_timeout.ms);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)spec->timeout.ms);
    if (spec->fresh)
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    for (size_t i = 0; spec->headers && spec->headers[i]; i++)
        r->headers = curl_slist_append(r->headers, spec->headers[i]);
    use_method(r, spec);
    use_tls(r, spec->url, spec->tls);
    use_proxy(easy, spec);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, r->headers);
}

struct fetch *fetch_start(struct fetcher *f, const struct fetch_spec *spec)
{
    must(spec->done && spec->method && spec->url);
    struct fetch *r = ALLOC(struct fetch);
    r->fetcher = f;
    r->easy = curl_easy_init();
    must(r->easy);
    r->fd = -1;
    r->plain = strncmp(spec->url, "http:", 5) == 0;
    r->answer_max = spec->answer_max;
    r->idle_ms = (uint64_t)spec->idle_timeout.ms;
    r->data = spec->data;
    r->head = spec->head;
    r->done = spec->done;
    r->ctx = spec->ctx;
    must(uv_timer_init(f->loop, &r->idle) == 0);
    r->idle.data = r;
    prepare(r, spec);
    list_init(&r->set);
    list_append(&f->requests, &r->link);
    f->count++;
    if (f->inside)
        list_append(&f->waiting, &r->set);
    else
        add(r);
    return r;
}

void fetch_abort(struct fetch *r)
{
    if (!r->fetcher->inside) {
        let_go(r);
        return;
    }
    r->aborted = true;
    uv_timer_stop(&r->idle);
    list_unlink(&r->set);
    list_append(&r->fetcher->doomed, &r->set);
}

struct str fetch_header(struct fetch *r, const char *name)
{
    struct curl_header *h;
    if (curl_easy_header(r->easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
        return (struct str){0};
    return str_from(h->value);
}

void fetch_each_header(struct fetch *r, void (*fn)(void *ctx, struct str name, struct str value),
                       void *ctx)
{
    struct curl_header *h = NULL;
    while ((h = curl_easy_nextheader(r->easy, CURLH_HEADER, -1, h)))
        fn(ctx, str_from(h->name), str_from(h->value));
}

int fetch_version(struct fetch *r)
{
    long version = 0;
    curl_easy_getinfo(r->easy, CURLINFO_HTTP_VERSION, &version);
    return version == CURL_HTTP_VERSION_2_0 ? 20 : version == CURL_HTTP_VERSION_1_0 ? 10 : 11;
}

/* --- the fetcher --- */

/* OpenSSL writes to sockets without MSG_NOSIGNAL. */
static void ignore_sigpipe(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
}

struct fetcher *fetcher_new(uv_loop_t *loop)
{
    ignore_sigpipe();
    struct fetcher *f = ALLOC(struct fetcher);
    f->loop = loop;
    f->multi = curl_multi_init();
    must(f->multi);
    list_init(&f->requests);
    list_init(&f->waiting);
    list_init(&f->doomed);
    must(uv_timer_init(loop, &f->timer) == 0);
    f->timer.data = f;
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, on_timeout_set);
    curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f);
    curl_multi_setopt(f->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    return f;
}

static void on_fetcher_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void fetcher_free(struct fetcher *f)
{
    if (!f)
        return;
    must(!f->inside);
    while (!list_is_empty(&f->requests))
        let_go(LIST_OF(f->requests.next, struct fetch, link));
    curl_multi_cleanup(f->multi);
    uv_close((uv_handle_t *)&f->timer, on_fetcher_closed);
}

size_t fetcher_count(const struct fetcher *f)
{
    return f->count;
}
