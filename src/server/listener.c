/* SPDX-License-Identifier: Apache-2.0 */
#include "server/listener.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "net/io_threads.h"

/* What the processors alone lead to: beyond it the engine, which is one thread, is the limit. */
#define THREADS_BY_CORES 4

int listener_threads(int64_t wanted)
{
    if (wanted > 0)
        return (int)wanted;
    int cores = (int)uv_available_parallelism() - 1;
    return cores < 1 ? 1 : cores > THREADS_BY_CORES ? THREADS_BY_CORES : cores;
}

struct err listener_open(struct listener *l, uv_loop_t *loop, const struct tls_files *files,
                         struct http_settings *http, int threads, http_handler handler, void *ctx)
{
    if (files->cert)
        TRY(tls_context_new(files, &l->tls));
    http->tls = l->tls;
    if (threads > 1)
        return io_threads_new(loop, http, threads, handler, ctx, &l->threads);
    return http_server_new(loop, http, handler, ctx, &l->http);
}

bool listener_is_open(const struct listener *l)
{
    return l->http || l->threads;
}

int listener_port(const struct listener *l)
{
    return l->threads ? io_threads_port(l->threads) : http_server_port(l->http);
}

int listener_socket(const struct listener *l)
{
    return l->threads ? io_threads_socket(l->threads) : http_server_socket(l->http);
}

int listener_connections(const struct listener *l)
{
    if (l->threads)
        return io_threads_connections(l->threads);
    return l->http ? http_server_connections(l->http) : 0;
}

void listener_stats(const struct listener *l, struct http_stats *out)
{
    *out = (struct http_stats){0};
    if (l->threads)
        io_threads_stats(l->threads, out);
    else if (l->http)
        http_server_stats(l->http, out);
}

bool listener_drain(struct listener *l, void (*done)(void *ctx), void *ctx)
{
    if (l->threads)
        io_threads_drain(l->threads, done, ctx);
    else if (l->http)
        http_server_drain(l->http, done, ctx);
    return listener_is_open(l);
}

void listener_close(struct listener *l)
{
    if (l->threads)
        io_threads_close(l->threads);
    else if (l->http)
        http_server_close(l->http);
}

void listener_free(struct listener *l)
{
    io_threads_free(l->threads);
    tls_context_free(l->tls);
}

void listener_reload(struct listener *l, const char *name)
{
    if (!l->tls)
        return;
    struct err err = tls_context_reload(l->tls);
    if (err.code == ERR_OK)
        log_info("SIGHUP: the %s listener has read its certificate again", name);
    else
        log_error("SIGHUP: the %s listener keeps its present certificate: %s", name, err.msg);
}

static bool is_any(const char *host)
{
    struct in6_addr v6;
    return strcmp(host, "0.0.0.0") == 0 ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
}

void listener_url(const struct listener *l, const char *host, char url[LISTENER_URL_MAX])
{
    const char *here = is_any(host) ? "127.0.0.1" : host;
    bool bare = strchr(here, ':') && here[0] != '[';
    snprintf(url, LISTENER_URL_MAX, "%s://%s%.255s%s:%d", l->tls ? "https" : "http",
             bare ? "[" : "", here, bare ? "]" : "", listener_port(l));
}

void listener_announce(const struct listener *l, const char *host, const char *api,
                       const char *suffix)
{
    char addr[300];
    const char *scheme = l->tls ? "https" : "http";
    bool v6 = strchr(host, ':') != NULL;
    if (!listener_is_open(l))
        return;
    snprintf(addr, sizeof addr, "%s%.255s%s:%d", v6 ? "[" : "", host, v6 ? "]" : "",
             listener_port(l));
    const char *const fields[] = {"api", api, "addr", addr, "scheme", scheme, NULL};
    log_fields(LOG_INFO, "listening", fields);
    printf("Listening on %s://%s%s\n", scheme, addr, suffix);
}
