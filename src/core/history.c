/* SPDX-License-Identifier: Apache-2.0 */
#include "core/history.h"

/* The beginning of a text, as far as the room allows, of which it takes its part. */
static struct str cut(struct str text, size_t *room)
{
    size_t n = text.len, most = *room < HISTORY_TEXT_MAX ? *room : HISTORY_TEXT_MAX;
    if (n > most) {
        n = most;
        while (n && ((unsigned char)text.at[n] & 0xc0) == 0x80)
            n--; /* not inside a character */
    }
    *room -= n;
    return (struct str){text.at, n};
}

/* A name that is cut would be another one. */
static bool fits(const struct container_result *c, size_t room)
{
    return c->name.len + c->reason.len + sizeof *c <= room;
}

static void cut_containers(const struct failure *f, size_t room, struct arena *a,
                           struct failure *out)
{
    if (f->container_count == 0)
        return;
    size_t most = room / sizeof *f->containers;
    if (most > f->container_count)
        most = f->container_count;
    struct container_result *list = arena_get(a, most * sizeof *list + 1);
    for (size_t i = 0; i < most && fits(&f->containers[i], room); i++) {
        struct container_result *c = &list[out->container_count++];
        *c = f->containers[i];
        room -= c->name.len + c->reason.len + sizeof *c;
        c->message = cut(c->message, &room);
        c->log = (struct str){0}; /* no rule looks at it */
    }
    out->containers = list;
}

struct failure history_cut(const struct failure *f, struct arena *a)
{
    size_t room = HISTORY_FAILURE_MAX;
    struct failure out = {.exit_code = f->exit_code,
                          .signal = f->signal,
                          .run_time = f->run_time,
                          .condition = f->condition,
                          .culprit = f->culprit};
    out.category = cut(f->category, &room);
    out.subcategory = cut(f->subcategory, &room);
    out.culprit_evidence = cut(f->culprit_evidence, &room);
    out.error_type = cut(f->error_type, &room);
    out.node = cut(f->node, &room);
    out.termination_message = cut(f->termination_message, &room);
    out.message = cut(f->message, &room);
    cut_containers(f, room, a, &out);
    return out;
}
