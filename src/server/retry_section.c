/* SPDX-License-Identifier: Apache-2.0 */
#include "server/retry_section.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "policy/settings_document.h"

struct task {
    struct backend *backend;
    enum retry_section_when when;
    const char *file;
    bool *busy;
    char *section;
    char by[280];
    char bytes[];
};

/* Who changed the settings last. */
#define AT_START "start with "
#define RELOAD   "reload of "

static void submit(struct task *t, enum command_kind kind, reply_fn done)
{
    struct command c = {.kind = kind, .done = done, .ctx = t};
    if (kind == CMD_RETRY_SETTINGS_PUT) {
        c.resource.text = str_from(t->section);
        c.resource.by = str_from(t->by);
        c.resource.format = DOCUMENT_JSON;
        /* Before the first start nobody could make the policy. */
        c.resource.ahead = t->when == RETRY_SECTION_START;
    }
    backend_submit(t->backend, &c);
}

static bool begins_with(struct str s, struct str prefix)
{
    return s.len >= prefix.len && memcmp(s.at, prefix.at, prefix.len) == 0;
}

static struct str write(const struct policy_settings *s, struct arena *a)
{
    struct buf b = {0};
    document_write_json(settings_document_tree(s, a), &b);
    struct str text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return text;
}

/* Whether the section says anything else than what holds. */
static bool would_change(struct str section, const struct document_node *present, struct arena *a)
{
    struct policy_settings now = {0}, next;
    struct document_list list;
    struct document_fault fault;
    struct document_node *bare = document_map(a);
    for (const struct document_node *n = present->first; n; n = n->next) {
        if (str_eq(n->key, STR("lastChange")))
            continue;
        struct document_node *copy = ARENA_NEW(a, struct document_node);
        *copy = *n;
        copy->next = NULL;
        document_add(bare, "", copy)->key = n->key;
    }
    if (!settings_document_read(bare, NULL, &now, &fault))
        return true;
    next = now;
    return !document_read(section, DOCUMENT_JSON, a, &list, &fault) ||
           !settings_document_read(list.first, NULL, &next, &fault) ||
           !str_eq(write(&now, a), write(&next, a));
}

static void end(struct task *t)
{
    if (t->busy)
        *t->busy = false;
    free(t);
}

static void on_put(void *ctx, const struct reply *r)
{
    struct task *t = ctx;
    if (r->err.code != ERR_OK)
        log_error("retryPolicy of %s is refused, and the settings stay as they are: %s", t->file,
                  r->err.msg);
    end(t);
}

/* Someone else than a file had the last word. */
static bool was_changed_by_hand(const struct document_node *present, struct str *by)
{
    const struct document_node *change = document_member(present, "lastChange");
    if (!change || change->type != DOCUMENT_MAP)
        return false;
    *by = document_text(change, "by");
    return !begins_with(*by, STR(AT_START)) && !begins_with(*by, STR(RELOAD));
}

static void on_read(void *ctx, const struct reply *r)
{
    struct task *t = ctx;
    struct arena a = {0};
    struct document_list list;
    struct document_fault fault;
    struct str by;
    bool put = false;
    if (r->err.code != ERR_OK || !document_read(r->document, DOCUMENT_JSON, &a, &list, &fault)) {
        log_error("retryPolicy of %s is not looked at: the present settings cannot be read",
                  t->file);
    } else if (would_change(str_from(t->section), list.first, &a)) {
        put = t->when == RETRY_SECTION_RELOAD || !was_changed_by_hand(list.first, &by);
        if (!put)
            log_warn("retryPolicy of %s is not used: '%.*s' has changed the settings since; "
                     "SIGHUP makes the file count",
                     t->file, STR_ARG(by));
    }
    arena_fini(&a);
    if (put)
        submit(t, CMD_RETRY_SETTINGS_PUT, on_put);
    else
        end(t);
}

void retry_section_apply(struct backend *b, const char *file, struct str section,
                         enum retry_section_when when, bool *busy)
{
    if (busy)
        *busy = true;
    struct task *t = alloc_get(sizeof *t + section.len + 1);
    *t = (struct task){.backend = b, .when = when, .file = file, .busy = busy};
    snprintf(t->by, sizeof t->by, "%s%.250s", when == RETRY_SECTION_START ? AT_START : RELOAD,
             file);
    t->by[utf8_check(str_from(t->by))] = '\0'; /* it may be cut inside a character */
    memcpy(t->bytes, section.at, section.len);
    t->bytes[section.len] = '\0';
    t->section = t->bytes;
    submit(t, CMD_RETRY_SETTINGS_READ, on_read);
}
