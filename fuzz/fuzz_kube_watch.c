/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/must.h"
#include "kube/kube_answer.h"
#include "kube/kube_watch_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text as a line of a watch, and as a page of a list with its objects. */

static void check_object(const struct kube_watch_object *o)
{
    must(o->name.len && !memchr(o->name.at, '/', o->name.len));
    must(!o->namespace.len || !memchr(o->namespace.at, '/', o->namespace.len));
    must(o->json.len >= 2 && o->json.at[0] == '{');
}

static void try_line(struct str text)
{
    struct arena a = {0};
    struct kube_watch_line line;
    struct err err = kube_watch_line(text, &a, &line);
    if (err.code == ERR_OK && line.type <= KUBE_WATCH_LINE_REMOVED)
        check_object(&line.object);
    if (err.code == ERR_OK && line.type == KUBE_WATCH_LINE_ERROR) {
        struct kube_answer answer;
        kube_answer_read_status(line.object.json, &a, &answer);
        must(answer.reason != KUBE_ANSWER_OK && answer.message.len);
    }
    must(err.code == ERR_OK || err.msg[0]);
    arena_fini(&a);
}

static void try_list(struct str text)
{
    struct arena a = {0};
    struct kube_watch_line_list list;
    struct err err = kube_watch_line_list(text, &a, &list);
    must(err.code != ERR_OK || list.version.len);
    for (bool more = err.code == ERR_OK && list.has_items; more;) {
        struct kube_watch_object o;
        struct str raw;
        /* The list was checked as a whole: only its objects may be wrong. */
        must(json_next_element(&list.items, &more).code == ERR_OK);
        if (!more)
            break;
        must(json_skip(&list.items, &raw).code == ERR_OK);
        if (kube_watch_line_object(raw, &a, &o).code == ERR_OK)
            check_object(&o);
    }
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    try_line(text);
    try_list(text);
    return 0;
}
