/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KUBE_KUBE_WATCH_LINE_H
#define KUBE_KUBE_WATCH_LINE_H

/* What the API server sends of a collection: pages of a list, and the lines of a watch. Pure. Texts
 * lie in what is read, or in the arena. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "kube/kube_watch.h"

enum kube_watch_line_type {
    KUBE_WATCH_LINE_CHANGED, /* ADDED, MODIFIED */
    KUBE_WATCH_LINE_REMOVED,
    KUBE_WATCH_LINE_BOOKMARK, /* the object has nothing but a version */
    KUBE_WATCH_LINE_ERROR,    /* the object is a Status */
    KUBE_WATCH_LINE_OTHER,    /* a word that is not known */
};

struct kube_watch_line {
    enum kube_watch_line_type type;
    struct kube_watch_object object; /* ERROR: only its json */
};

struct kube_watch_line_list {
    struct str version;       /* resourceVersion */
    struct str next;          /* for the next page; or empty */
    bool has_items;           /* otherwise it is null, or absent */
    struct json_cursor items; /* inside of the list */
};

/* The errors say what is wrong and where; bytes are not quoted. */
NODISCARD struct err kube_watch_line(struct str line, struct arena *a, struct kube_watch_line *out);
/* Names an object by its metadata. */
NODISCARD struct err kube_watch_line_object(struct str json, struct arena *a,
                                            struct kube_watch_object *out);
/* Checks the page as a whole, but not each object. */
NODISCARD struct err kube_watch_line_list(struct str json, struct arena *a,
                                          struct kube_watch_line_list *out);

#endif
