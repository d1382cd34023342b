/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NET_CLIENT_H
#define TESTS_NET_CLIENT_H

/* A server and raw clients on one loop, stepped by the test: nothing sleeps; a test awaits what it
 * expects, and fails if nothing of it arrives within ten seconds. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/buf.h"
#include "net/http.h"

struct client {
    int fd;
    uv_poll_t poll;
    struct buf in; /* everything that arrived, followed by a NUL */
    bool ended;    /* the server has shut down its side, or reset */
    bool reset;
    bool watched;
};

#define HELD_MAX   80
#define TAKERS_MAX 4

/* Takes a body in pieces: answers its end with "N bytes", and its abort with the code of that. */
struct taker {
    struct fixture *f;
    struct http_exchange *x; /* NULL: answered */
    int64_t length;          /* as announced */
    struct buf got;
    int pieces, ends, aborts;
    enum err_code why;
};

/* What the test's handler does: /echo answers with the body, /headers with "name: value\n" for each
 * header that the request keeps, /held keeps the exchange, /stream begins a stream, /sized one of
 * eleven bytes, /large answers with a megabyte, /close closes the server. Of a path that begins
 * with /pieces the body comes in pieces (struct taker). */
struct fixture {
    uv_loop_t loop;
    uv_timer_t guard;
    struct http_settings settings;
    int threads; /* 0: the server is on the loop; else connections are served by so many threads */
    struct http_server *server;
    struct io_threads *io;
    int front_port; /* where clients connect, unless it is the server itself; 0: it is */
    struct http_exchange *held[HELD_MAX];
    int held_count;
    struct taker takers[TAKERS_MAX];
    int taker_count;
    bool takes_later;  /* the test calls fixture_take */
    size_t pause_each; /* bytes after which a taker pauses; 0: never */
    size_t refuse_at;  /* bytes at which a taker answers with 507; 0: never */
    struct http_exchange *stream;
    int served;  /* calls of the handler */
    int closed;  /* calls of a stream's closed() */
    int gone;    /* of gone() */
    int drained; /* of a stream's drained() */
    int done;    /* of http_server_drain's done() */
    bool server_closed;
};

/* The headers that requests keep, then NULL. */
extern const char *const header_names[];
/* A value for it that the server accepts. */
const char *header_sample(const char *name);

/* Settings may be changed between the two. */
void fixture_init(struct fixture *f);
void fixture_serve(struct fixture *f);
int fixture_port(const struct fixture *f);
/* Closes the server, runs the loop to its end, and checks that nothing is left. */
void fixture_fini(struct fixture *f);
void fixture_close_server(struct fixture *f);
/* For cmocka: a fixture as the state of a test. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Answers with 200 and that text. */
void fixture_answer(struct http_exchange *x, const char *body);
/* A taker begins, or goes on after a pause. */
void fixture_take(struct taker *t);
void fixture_go_on(struct taker *t);
/* One turn of the loop, waiting for something to happen. */
void fixture_step(struct fixture *f);
/* Turns that wait for nothing, until none does anything more. */
void fixture_settle(struct fixture *f);

#define AWAIT(f, condition)                                                                        \
    while (!(condition))                                                                           \
    fixture_step(f)

void client_open(struct fixture *f, struct client *c);
void client_close(struct fixture *f, struct client *c);
void client_send(struct client *c, const char *text);
/* So many bytes, as fast as the server takes them. */
void client_send_bytes(struct fixture *f, struct client *c, size_t count);
/* Stops reading, so that the server's output is blocked; and resumes. */
void client_pause(struct client *c);
void client_resume(struct client *c);
/* Awaits the text; discards everything up to its end. */
void client_expect(struct fixture *f, struct client *c, const char *text);
/* Awaits the end of the connection, without further data before it. */
void client_expect_end(struct fixture *f, struct client *c);
bool client_has(const struct client *c, const char *text);

#endif
