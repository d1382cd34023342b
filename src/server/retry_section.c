/* SPDX-License-Identifier: Apache-2.0 */
#include "server/retry_section.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/utf8.h"
#include "policy/policies.h"
#include "policy/settings_document.h"
#include "policy/standing.h"

struct task {
    const char *file;
    bool *busy;
    bool has_section;
    char by[280];
};

static void on_put(void *ctx, const struct reply *r)
{
    struct task *t = ctx;
    if (r->err.code != ERR_OK && t->has_section)
        log_error("retryPolicy of %s is refused, and the settings stay as they are: %s", t->file,
                  r->err.msg);
    if (t->busy)
        *t->busy = false;
    free(t);
}

void retry_section_apply(struct backend *b, const char *file, struct str section,
                         enum retry_section_when when, bool *busy)
{
    bool start = when == RETRY_SECTION_START;
    if (busy)
        *busy = true;
    struct task *t = ALLOC(struct task);
    *t = (struct task){.file = file, .busy = busy, .has_section = section.len > 0};
    snprintf(t->by, sizeof t->by, "%s%.250s", start ? POLICIES_AT_START : POLICIES_AT_RELOAD, file);
    t->by[utf8_check(str_from(t->by))] = '\0'; /* it may be truncated inside of a character */
    struct command c = {.kind = CMD_RETRY_SETTINGS_PUT, .done = on_put, .ctx = t};
    struct arena tree = {0};
    struct policy_change change;
    struct document_fault fault = {0};
    /* The section was checked when the file was read. */
    bool good = section.len == 0 || settings_document_parse(section, &tree, &change, &fault);
    must(good);
    /* Before the first start nobody could create the policy: it may be created later. */
    c.retry_settings = (struct retry_settings_command){.change = section.len ? &change : NULL,
                                                       .by = str_from(t->by),
                                                       .ahead = start,
                                                       .from_file = true,
                                                       .at_start = start};
    c.trail = api_trail_of_server("putRetrySettings", file, &tree);
    backend_submit(b, &c);
    arena_fini(&tree);
}

static void on_status(void *ctx, const struct reply *r)
{
    const struct standing_warnings w = r->status.warnings;
    bool *busy = ctx;
    struct buf words = {0};
    for (size_t i = 0; r->err.code == ERR_OK && i < w.count; i++) {
        words.len = 0;
        standing_write(&words, &w.list[i], true);
        log_warn("%.*s", STR_ARG(buf_view(&words)));
    }
    if (r->err.code == ERR_OK && w.total > w.count)
        log_warn("and %zu more of this kind; `tenax get` shows them with what they are about",
                 w.total - w.count);
    buf_fini(&words);
    *busy = false;
}

void retry_section_warn(struct backend *b, bool *busy)
{
    struct command c = {.kind = CMD_STATUS, .done = on_status, .ctx = busy};
    *busy = true;
    backend_submit(b, &c);
}
