/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_POLL_URLS_H
#define WORKER_POLL_URLS_H

/* How a worker gets tasks from poll URLs, as seed 002 describes it: pollTaskUrls names queues of
 * Azure's kind, the most urgent first; their messages name pending runs; claimTask claims them; and
 * a message is deleted once its run was claimed or never can be. */

#include "base/arena.h"
#include "base/buf.h"
#include "worker/azure_messages.h"
#include "worker/taskqueue.h"

#define POLL_URLS_MAX 64

struct poll_urls_args {
    const char *task_queue; /* "provisioner/worker-type" */
    const char *group, *id; /* of the worker */
    const struct hawk_credentials *own;
};

struct poll_urls {
    const struct poll_urls_args *args;
    struct taskqueue *queue;
    /* The end of what poll_urls_begin began: tasks as claimTask answers them, each followed by a
     * comma; why is a sentence, unless the result is CALL_DONE. */
    void (*done)(void *ctx, enum call_result r, struct str tasks, struct str why);
    void *ctx;

    enum poll_step { POLL_IDLE, POLL_URLS, POLL_GET, POLL_CLAIM, POLL_DELETE } step;
    struct taskqueue_request request;
    bool withdrawn;
    size_t wanted;
    mono until;

    struct arena url_arena;
    struct poll_url {
        struct str poll, remove;
    } urls[POLL_URLS_MAX];
    size_t url_count, at; /* at: the one that is polled */
    instant urls_end;
    bool fresh; /* the URLs were not used yet */

    struct arena arena; /* of the messages */
    struct azure_message messages[AZURE_MESSAGES_MAX];
    size_t message_count, message;
    unsigned tries;              /* to delete the message */
    enum call_result claim_over; /* a claim that was refused to the worker itself */
    struct buf claimed, why;
};

void poll_urls_init(struct poll_urls *p, const struct poll_urls_args *args,
                    struct taskqueue *queue);
void poll_urls_fini(struct poll_urls *p);

/* Polls until there are tasks, at most `wanted`, or the wait is over. */
void poll_urls_begin(struct poll_urls *p, size_t wanted, span wait);
/* Asks for its end: the message at hand is claimed and deleted, and no other one. */
void poll_urls_withdraw(struct poll_urls *p);
/* Ends it at once; without `done`, unless tasks were claimed. */
void poll_urls_abort(struct poll_urls *p);

#endif
