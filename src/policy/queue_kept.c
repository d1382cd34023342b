/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/queue_kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"

struct kept_object {
    size_t len;
    char bytes[];
};

void queue_kept_fini(struct queue_kept *k)
{
    for (size_t i = 0; i < k->queues.cap; i++)
        if (k->queues.slots[i].key)
            free(k->queues.slots[i].val);
    strmap_fini(&k->queues);
}

struct str queue_kept_of(const struct queue_kept *k, struct str queue)
{
    const struct kept_object *o = strmap_get(&k->queues, queue);
    return o ? (struct str){o->bytes, o->len} : (struct str){0};
}

struct err queue_kept_check(const struct queue_kept *k, struct str queue, struct str object)
{
    if (object.len > QUEUE_KEPT_MAX)
        return err_make(ERR_TOO_MANY, "armada: at most %d bytes of a queue are kept",
                        QUEUE_KEPT_MAX);
    if (k->bytes - queue_kept_of(k, queue).len + object.len > QUEUE_KEPT_ALL_MAX)
        return err_make(ERR_TOO_MANY, "armada: at most %llu bytes of all queues are kept",
                        (unsigned long long)QUEUE_KEPT_ALL_MAX);
    return err_none();
}

void queue_kept_put(struct queue_kept *k, struct str queue, struct str object)
{
    struct kept_object *old = strmap_remove(&k->queues, queue);
    k->bytes -= old ? old->len : 0;
    free(old);
    if (!object.len)
        return;
    struct kept_object *o = alloc_get(sizeof *o + object.len);
    o->len = object.len;
    memcpy(o->bytes, object.at, object.len);
    k->bytes += object.len;
    strmap_put(&k->queues, queue, o);
}

/* --- the warning --- */

struct member_names {
    size_t count;
    struct str last;
    struct buf others; /* "labels, permissions" */
};

static void add_name(struct member_names *n, struct str name)
{
    if (n->count++)
        buf_print(&n->others, "%s%.*s", n->others.len ? ", " : "", STR_ARG(n->last));
    n->last = name;
}

static struct err find_names(struct str object, struct arena *a, struct member_names *n)
{
    struct json_cursor c = json_open(object);
    struct json_string key;
    struct str name;
    TRY(json_enter_object(&c));
    for (bool more;;) {
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            return err_none();
        TRY(json_text(key, a, &name));
        TRY(json_skip(&c, NULL));
        add_name(n, name);
    }
}

struct str queue_kept_warning(struct str object, struct arena *a)
{
    struct member_names n = {0};
    struct buf words = {0};
    if (object.len && find_names(object, a, &n).code == ERR_OK && n.count)
        buf_print(&words, "armada: %.*s%s%.*s %s kept and %s no effect",
                  STR_ARG(buf_view(&n.others)), n.count > 1 ? " and " : "", STR_ARG(n.last),
                  n.count > 1 ? "are" : "is", n.count > 1 ? "have" : "has");
    struct str text = arena_copy(a, buf_view(&words));
    buf_fini(&words);
    buf_fini(&n.others);
    return text;
}
