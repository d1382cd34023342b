/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobid.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "client/view.h"

/* How many candidates an error names. */
#define NAMED_MAX 5
/* Pages may be empty for a token that is limited to some queues. */
#define PAGES_MAX 100

struct candidates {
    char at[NAMED_MAX + 1][ID_TEXT_LEN + 1];
    size_t count;
    bool passed; /* an id beyond the prefix has come */
};

bool jobid_is_possible(const char *text)
{
    size_t n = 0;
    while (isascii((unsigned char)text[n]) && isalnum((unsigned char)text[n]))
        n++;
    return !text[n] && n >= JOBID_PREFIX_MIN && n <= ID_TEXT_LEN;
}

int jobid_refuse(const struct subcommand *command, const char *text)
{
    return subcommand_usage(command,
                            "'%.60s' is not a job id, which has %d letters and digits, of which "
                            "the first %d may do",
                            text, ID_TEXT_LEN, JOBID_PREFIX_MIN);
}

static void take_page(struct client *c, const char *prefix, struct candidates *found)
{
    struct view_list l = view_list(view_get(client_answer(c), "jobs"));
    for (struct str job; found->count <= NAMED_MAX && !found->passed && view_next(&l, &job);) {
        struct str id = view_text(&c->arena, job, "id");
        if (id.len == ID_TEXT_LEN && memcmp(id.at, prefix, strlen(prefix)) == 0)
            snprintf(found->at[found->count++], ID_TEXT_LEN + 1, "%.*s", STR_ARG(id));
        else
            found->passed = true;
    }
}

/* Ids are listed in their order, so that those with the prefix come first after its least one. */
static int ask(struct client *c, const char *prefix, const char *least, struct candidates *found)
{
    struct buf path = {0};
    int code = CLI_OK;
    buf_print(&path, "/jobs?order=asc&limit=%d&from=%s", NAMED_MAX + 1, least);
    for (int pages = 0; path.len && pages < PAGES_MAX; pages++) {
        code = client_ask(c, "GET", client_path(&path));
        path.len = 0;
        if (code != CLI_OK)
            break;
        take_page(c, prefix, found);
        if (found->count <= NAMED_MAX && !found->passed)
            buf_str(&path, view_text(&c->arena, view_get(client_answer(c), "pages"), "next"));
    }
    buf_fini(&path);
    return code;
}

static int several(const struct client *c, const char *text, const struct candidates *found)
{
    fprintf(stderr, "tenax %s: the ids of several jobs begin with '%s':", c->command->name, text);
    for (size_t i = 0; i < found->count && i < NAMED_MAX; i++)
        fprintf(stderr, "%s %s", i ? "," : "", found->at[i]);
    fprintf(stderr, "%s\n", found->count > NAMED_MAX ? " and others" : "");
    return CLI_USAGE;
}

int jobid_find(struct client *c, const char *text, char id[ID_TEXT_LEN + 1])
{
    char least[ID_TEXT_LEN + 1], prefix[ID_TEXT_LEN + 1];
    struct candidates found = {0};
    struct id parsed;
    size_t n = strlen(text);
    for (size_t i = 0; i < ID_TEXT_LEN; i++)
        least[i] = i < n ? (char)tolower((unsigned char)text[i]) : '0';
    least[ID_TEXT_LEN] = '\0';
    snprintf(id, ID_TEXT_LEN + 1, "%s", n == ID_TEXT_LEN ? text : least);
    if (n == ID_TEXT_LEN)
        return CLI_OK;
    snprintf(prefix, sizeof prefix, "%.*s", (int)n, least);
    int code = CLI_OK;
    if (id_parse(str_from(least), &parsed).code == ERR_OK)
        code = ask(c, prefix, least, &found);
    if (code != CLI_OK)
        return code;
    if (found.count > 1)
        return several(c, text, &found);
    if (!found.count) {
        fprintf(stderr, "tenax %s: no job's id begins with '%s'\n", c->command->name, text);
        return CLI_NOT_FOUND;
    }
    snprintf(id, ID_TEXT_LEN + 1, "%s", found.at[0]);
    return CLI_OK;
}

static int find_listed(struct client *c, const char *at, size_t len, struct buf *ids)
{
    char text[ID_TEXT_LEN + 2], id[ID_TEXT_LEN + 1];
    snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text), at);
    if (!jobid_is_possible(text))
        return jobid_refuse(c->command, text);
    int code = jobid_find(c, text, id);
    if (code == CLI_OK)
        buf_str(ids, str_from(id));
    return code;
}

int jobid_find_list(struct client *c, const char *list, struct buf *ids)
{
    int code = CLI_OK;
    for (const char *at = list; code == CLI_OK; at++) {
        size_t len = strcspn(at, ",");
        code = find_listed(c, at, len, ids);
        at += len;
        buf_byte(ids, *at);
        if (!*at)
            break;
    }
    return code;
}
