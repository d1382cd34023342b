/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_server.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"

#define CONNECTIONS_MAX 64

struct connection {
    struct fake_server *server;
    int fd;
    pthread_t thread;
};

struct fake_server {
    fake_handler *handler;
    void *context;
    int listener;
    char url[64];
    pthread_t acceptor;
    pthread_mutex_t one_at_a_time;
    struct connection connections[CONNECTIONS_MAX];
    size_t count;
};

/* Reads until a whole request is in b. Returns the length of its head and sets *body to that of its
 * body; 0 at the end of the connection. */
static size_t read_request(int fd, struct buf *b, size_t *body)
{
    for (;;) {
        char *end = b->len ? memmem(b->at, b->len, "\r\n\r\n", 4) : NULL;
        if (end) {
            size_t head = (size_t)(end + 4 - b->at);
            char *length = memmem(b->at, head, "Content-Length: ", 16);
            *body = length ? (size_t)atoi(length + 16) : 0;
            if (b->len >= head + *body)
                return head;
        }
        ssize_t n = read(fd, buf_room(b, 4096), 4096);
        if (n <= 0)
            return 0;
        b->len += (size_t)n;
    }
}

static int handle(struct connection *c, struct buf *request, size_t head, size_t body,
                  struct buf *answer)
{
    char *path = strchr(request->at, ' ') + 1;
    path = alloc_text(path, strcspn(path, " "));
    char *text = alloc_text(request->at + head, body);
    pthread_mutex_lock(&c->server->one_at_a_time);
    int status = c->server->handler(c->server->context, path, text, answer);
    pthread_mutex_unlock(&c->server->one_at_a_time);
    free(path);
    free(text);
    return status;
}

static bool answer_one(struct connection *c, struct buf *request)
{
    struct buf answer = {0}, out = {0};
    size_t body, head = read_request(c->fd, request, &body);
    bool go_on = head > 0;
    if (go_on) {
        int status = handle(c, request, head, body, &answer);
        buf_drop(request, head + body);
        go_on = status != FAKE_DROP;
        if (status >= 400 && !answer.len) /* or it would not be the server's */
            buf_lit(&answer, "{\"error\":\"no\",\"code\":\"refused\"}");
        if (status > 0) {
            buf_print(&out, "HTTP/1.1 %d Whatever\r\nContent-Length: %zu\r\n\r\n", status,
                      answer.len);
            buf_str(&out, buf_view(&answer));
            go_on = write(c->fd, out.at, out.len) == (ssize_t)out.len;
        }
    }
    buf_fini(&answer);
    buf_fini(&out);
    return go_on;
}

static void *serve_connection(void *p)
{
    struct connection *c = p;
    struct buf request = {0};
    while (answer_one(c, &request))
        continue;
    shutdown(c->fd, SHUT_RDWR);
    buf_fini(&request);
    return NULL;
}

static void *accept_all(void *p)
{
    struct fake_server *s = p;
    for (;;) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        must(s->count < CONNECTIONS_MAX);
        struct connection *c = &s->connections[s->count++];
        *c = (struct connection){.server = s, .fd = fd};
        int failed = pthread_create(&c->thread, NULL, serve_connection, c);
        must(!failed);
    }
}

struct fake_server *fake_server_start(fake_handler *handler, void *context)
{
    struct fake_server *s = ALLOC(struct fake_server);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    s->handler = handler;
    s->context = context;
    pthread_mutex_init(&s->one_at_a_time, NULL);
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = bind(s->listener, (struct sockaddr *)&a, size) || listen(s->listener, 16) ||
                 getsockname(s->listener, (struct sockaddr *)&a, &size);
    must(!failed);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", ntohs(a.sin_port));
    failed = pthread_create(&s->acceptor, NULL, accept_all, s);
    must(!failed);
    return s;
}

const char *fake_server_url(const struct fake_server *s)
{
    return s->url;
}

void fake_server_stop(struct fake_server *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->acceptor, NULL);
    close(s->listener);
    for (size_t i = 0; i < s->count; i++) {
        shutdown(s->connections[i].fd, SHUT_RDWR);
        pthread_join(s->connections[i].thread, NULL);
        close(s->connections[i].fd);
    }
    pthread_mutex_destroy(&s->one_at_a_time);
    free(s);
}
