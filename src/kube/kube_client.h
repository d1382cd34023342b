/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_CLIENT_H
#define KUBE_KUBE_CLIENT_H

/* Requests to one cluster's API server, on the loop thread: credentials, repeated tries, and
 * answers as data. It knows no resources; paths are the caller's.
 *
 * What is sent again, and what not, is said below; see net/fetch.h for the one case in which
 * libcurl does so by itself. A 401 leads to new credentials and one more try at once, which is not
 * counted as one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/rng.h"
#include "base/str.h"
#include "base/units.h"
#include "kube/kube_answer.h"
#include "kube/kube_config.h"
#include "kube/kube_counters.h"

struct kube_client;
struct kube_client_call;

struct kube_client_settings {
    instant (*now)(void *ctx); /* the wall clock: when credentials expire */
    void *now_ctx;
    uint64_t seed; /* of the jitter */
    span connect_timeout;
    span timeout;       /* of one request; of streams only the connecting */
    size_t answer_max;  /* bytes of an answer that is gathered */
    size_t calls_max;   /* requests under way; more of them wait their turn. Streams do not count */
    span backoff_first; /* before the second try; doubled with each, plus up to half of itself */
    span backoff_max;   /* also of what a Retry-After may ask for, times ten */
    span plugin_timeout; /* of an exec plugin */
    span token_age;      /* how old a token may be that was read from a file */
};
/* 10 s, 30 s, 64 MiB, 32, 500 ms, 30 s, 60 s, 10 s; without a clock. */
struct kube_client_settings kube_client_defaults(void);

/* After which failures a request is sent again. */
enum kube_client_retry {
    KUBE_CLIENT_BY_VERB, /* get, list, delete: ANY; others: UNHEARD */
    KUBE_CLIENT_ONCE,
    KUBE_CLIENT_UNHEARD, /* if it was certainly not acted on: 429, no connection */
    KUBE_CLIENT_ANY,     /* also 5xx and lost answers: doing it twice does no harm */
};

/* Everything is copied. */
struct kube_client_spec {
    enum kube_counters_verb verb;
    const char *path;         /* with its query: "/api/v1/namespaces/a/pods/b" */
    struct str body;          /* of create, update, patch, delete; empty: none */
    const char *content_type; /* NULL: application/json */
    const char *accept;       /* NULL: application/json */
    enum kube_client_retry retry;
    int tries_max; /* 0: 5 */
    span timeout;  /* of each try; 0: that of the settings */
    /* A stream: NULL, or gets the body of an OK answer as it arrives, valid during the call. Such a
     * request is sent once, and has no time-out but for silence and the limits below. */
    void (*data)(void *ctx, struct str bytes);
    void (*opened)(void *ctx); /* or NULL: the stream is open */
    span idle_timeout;         /* of a stream: 0: none */
    span stream_timeout;       /* of a stream as a whole; 0: none */
    /* Called exactly once, unless the call is cancelled, and never inside kube_client_call. The
     * answer is valid during the call. */
    void (*done)(void *ctx, const struct kube_answer *answer);
    void *ctx;
};

/* config is borrowed, and must outlive the client; its insecure is warned about in the log. */
struct kube_client *kube_client_new(uv_loop_t *loop, const struct kube_config *config,
                                    const struct kube_client_settings *settings);
/* Cancels what is under way; not from one of its callbacks. The loop must run until its handles are
 * closed. */
void kube_client_free(struct kube_client *c);

/* From any callback. */
struct kube_client_call *kube_client_call(struct kube_client *c,
                                          const struct kube_client_spec *spec);
/* Ends it without done(). From any callback except its own done(). */
void kube_client_cancel(struct kube_client_call *call);

/* Adds "&key=value" ('?' the first time), percent-encoded; the buffer starts with the path. */
void kube_client_query(struct buf *path, const char *key, struct str value);
/* Adds "/name", percent-encoded. */
void kube_client_segment(struct buf *path, struct str name);

/* Counted while it works; also written by whoever works with it. */
struct kube_counters *kube_client_counters(struct kube_client *c);
/* The server's URL, for messages. */
const char *kube_client_server(const struct kube_client *c);

/* For those who work with it (kube_watch): the loop, how long to wait before the n-th try again
 * (from 1; with jitter, at least what the answer asks for, which may be NULL), and a random number
 * below n. */
uv_loop_t *kube_client_loop(struct kube_client *c);
span kube_client_backoff(struct kube_client *c, int n, const struct kube_answer *answer);
uint64_t kube_client_random(struct kube_client *c, uint64_t n);

#endif
