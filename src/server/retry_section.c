/* SPDX-License-Identifier: Apache-2.0 */
#include "server/retry_section.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "policy/policies.h"

struct task {
    const char *file;
    bool *busy;
    char by[280];
    char section[];
};

static void on_put(void *ctx, const struct reply *r)
{
    struct task *t = ctx;
    if (r->err.code != ERR_OK && *t->section)
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
    struct task *t = alloc_get(sizeof *t + section.len + 1);
    *t = (struct task){.file = file, .busy = busy};
    snprintf(t->by, sizeof t->by, "%s%.250s", start ? POLICIES_AT_START : POLICIES_AT_RELOAD, file);
    t->by[utf8_check(str_from(t->by))] = '\0'; /* it may be cut inside a character */
    if (section.len)
        memcpy(t->section, section.at, section.len);
    t->section[section.len] = '\0';
    struct command c = {.kind = CMD_RETRY_SETTINGS_PUT, .done = on_put, .ctx = t};
    c.resource.text = str_from(t->section);
    c.resource.by = str_from(t->by);
    c.resource.format = DOCUMENT_JSON;
    c.resource.from_file = true;
    c.resource.at_start = start;
    /* Before the first start nobody could make the policy. */
    c.resource.ahead = start;
    backend_submit(b, &c);
}
