/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_WATCH_H
#define KUBE_KUBE_WATCH_H

/* Follows a collection of objects of the API server: lists it page by page, then watches it from
 * there, for ever. A watch that ends, breaks or falls silent is resumed where it was; if the server
 * does not remember that far back (410), everything is listed again, and what has gone meanwhile is
 * reported as removed. Loop thread only.
 *
 * Callbacks report, they do not decide: whoever acts on what it hears does so later, from a turn of
 * its own. They may be called for an object more than once; an object that is the same as when it
 * was last reported is not reported again.
 *
 * Memory: a page of the list (at most the client's answer_max), one object of the stream (at most
 * object_max: a larger one is a failure, and is not kept), and a few words per object. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "base/units.h"
#include "kube/kube_client.h"

struct kube_watch;

/* Of which object; valid during the call. */
struct kube_watch_object {
    struct str namespace, name, uid, version; /* version: resourceVersion */
    struct str json; /* as the server sent it; empty if it went while nobody watched */
};

struct kube_watch_spec {
    const char *path;           /* "/api/v1/namespaces/a/pods" */
    const char *label_selector; /* or NULL */
    const char *field_selector; /* or NULL */
    int page;                   /* objects per request of a list */
    size_t object_max;          /* bytes of an object in the stream */
    span watch_time; /* how long the server is asked to keep a watch open; plus up to as much */
    span stall;      /* a watch in which nothing comes for so long is resumed anew */
    /* New, or other than it was. */
    void (*changed)(void *ctx, const struct kube_watch_object *o);
    /* It has gone, or is no longer selected. */
    void (*removed)(void *ctx, const struct kube_watch_object *o);
    /* A list is complete: everything that exists was reported. */
    void (*synced)(void *ctx);
    /* NULL, or called when a watch has been opened: kube_watch_is_live is true. */
    void (*opened)(void *ctx);
    /* NULL, or called when a list or watch failed for another reason than its end; it is tried
     * again by itself. The answer is valid during the call. */
    void (*failed)(void *ctx, const struct kube_answer *answer);
    void *ctx;
};
/* 500, 8 MiB, 5 min, 2 min 30 s. */
struct kube_watch_spec kube_watch_defaults(void);

/* Everything is copied. The first callback comes in a later turn. To be freed before the client. */
struct kube_watch *kube_watch_new(struct kube_client *client, const struct kube_watch_spec *spec);
/* From any callback. No callback follows. */
void kube_watch_free(struct kube_watch *w);

/* What was reported last is likely to be what there is: a list was complete, and the watch has not
 * failed since. */
bool kube_watch_is_live(const struct kube_watch *w);
/* Objects that are known. */
size_t kube_watch_count(const struct kube_watch *w);

#endif
