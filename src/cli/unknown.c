/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unknown.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "cli/commands.h"
#include "client/options.h"
#include "client/view.h"

static bool is_empty(struct str queue)
{
    static const char *const statuses[] = {"blocked",   "scheduled", "ready",
                                           "in_flight", "completed", "dead"};
    struct str jobs = view_get(queue, "jobs");
    int64_t n;
    for (size_t i = 0; i < COUNT(statuses); i++)
        if (!view_int(jobs, statuses[i], &n) || n > 0)
            return false;
    return true;
}

static enum call_result get(struct client *c, struct str list, const char *name)
{
    struct buf path = {0};
    buf_str(&path, list);
    client_segment(&path, str_from(name));
    enum call_result r = call_wait(&c->call, "GET", client_path(&path), c->args.timeout);
    buf_fini(&path);
    return r;
}

bool unknown_queue(struct client *c, const char *name)
{
    enum call_result r = get(c, STR("/queues"), name);
    struct str queue = client_answer(c);
    return r == CALL_DONE && str_eq(view_get(queue, "configured"), STR("false")) && is_empty(queue);
}

/* The name in a list of the server's that is nearest to this one, or empty; in the arena. */
static struct str nearest(struct client *c, const char *path, const char *list, const char *member,
                          const char *name, struct arena *a)
{
    struct buf words = {0};
    struct str one;
    if (call_wait(&c->call, "GET", path, c->args.timeout) == CALL_DONE)
        for (struct view_list l = view_list(view_get(client_answer(c), list));
             view_next(&l, &one);) {
            struct str known = view_text(a, one, member);
            if (!str_eq(known, str_from(name)))
                buf_print(&words, "%.*s|", STR_ARG(known));
        }
    buf_byte(&words, '\0');
    struct str near = arena_copy(a, options_closest(name, words.at));
    buf_fini(&words);
    return near;
}

/* "there is no queue 'mial'; did you mean 'mail'?", or where those are listed that exist. */
static void warn(struct client *c, const char *command, const char *what, struct str near)
{
    fprintf(stderr, "tenax %s: %s", command, what);
    if (near.len)
        fprintf(stderr, "; did you mean '%.*s'?\n", STR_ARG(near));
    else
        fprintf(stderr, "; `tenax %s` lists those that there are\n",
                c->command == &workers_command ? "workers" : "queues");
}

void unknown_queue_warn(struct client *c, const char *command, const char *name, bool made)
{
    struct arena a = {0};
    struct buf what = {0};
    struct str near = nearest(c, "/queues?details=true&limit=1000", "queues", "name", name, &a);
    if (made)
        buf_print(&what, "there was no queue '%s' until now", name);
    else
        buf_print(&what, "there is no queue '%s'%s", name,
                  c->command == &work_command || c->command == &events_command ? " yet" : "");
    buf_byte(&what, '\0');
    warn(c, command, what.at, near);
    buf_fini(&what);
    arena_fini(&a);
}

void unknown_queues_warn(struct client *c, const char *command, const char *names)
{
    char name[256];
    c->call.body.len = 0;
    while (names && *names) {
        size_t n = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        if (n && n < sizeof name && unknown_queue(c, name))
            unknown_queue_warn(c, command, name, false);
        names += n + (names[n] == ',');
    }
}

bool unknown_worker(struct client *c, const char *name)
{
    enum call_result r = get(c, STR("/workers"), name);
    return r == CALL_GONE && c->call.status == 404;
}

void unknown_worker_warn(struct client *c, const char *name)
{
    struct arena a = {0};
    struct buf what = {0};
    c->call.body.len = 0;
    struct str near = nearest(c, "/workers", "workers", "name", name, &a);
    buf_print(&what, "there was no worker '%s' until now", name);
    buf_byte(&what, '\0');
    warn(c, "workers", what.at, near);
    buf_fini(&what);
    arena_fini(&a);
}

void unknown_budget_warn(struct client *c, const char *key)
{
    struct arena a = {0};
    c->call.body.len = 0;
    struct str near = nearest(c, "/budgets", "budgets", "key", key, &a);
    if (near.len)
        fprintf(stderr, "tenax budgets: '%s' is new; there is also '%.*s'\n", key, STR_ARG(near));
    arena_fini(&a);
}
