/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/complete_values.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/id.h"
#include "client/client.h"
#include "client/view.h"
#include "core/lifecycle.h"

#define WAIT_MS 1000
/* Nobody chooses from more ids than these. */
#define IDS_MAX "50"

struct values_args {
    struct client_args client;
};

static const struct option_def options[] = {
    CLIENT_URL_OPTION(struct values_args),
    {0},
};

static const struct subcommand command = {.name = "complete-values", .options = options};

static const struct {
    const char *flag, *kind;
} flags[] = {
    {"status", "STATUS"}, {"queue", "QUEUE"},           {"job", "ID"},
    {"depends-on", "ID"}, {"retry-policies", "POLICY"},
};

const char *complete_values_kind(const struct subcommand *c, const struct option_def *d)
{
    bool asks = false;
    for (const struct option_def *o = c->options; o && o->flag; o++)
        asks |= strcmp(o->flag, "context") == 0;
    for (size_t i = 0; asks && i < COUNT(flags); i++)
        if (strcmp(d->flag, flags[i].flag) == 0)
            return flags[i].kind;
    return NULL;
}

bool complete_values_knows(const char *kind)
{
    for (size_t i = 0; kind && i < COUNT(flags); i++)
        if (strcmp(kind, flags[i].kind) == 0)
            return true;
    return false;
}

/* What is typed: names before the last comma stay, and the one after it is completed. */
struct typed {
    struct str before, name;
};

static struct typed split_typed(const char *text)
{
    const char *comma = strrchr(text, ',');
    size_t n = comma ? (size_t)(comma - text) + 1 : 0;
    return (struct typed){{text, n}, str_from(text + n)};
}

/* What a shell would split or expand is not offered: names come from whoever may enqueue. */
static bool is_plain(struct str name)
{
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.at[i];
        if (c < 0x80 && !isalnum(c) && !strchr("._-+/@:%", c))
            return false;
    }
    return name.len > 0 && name.at[0] != '-';
}

static void offer(struct buf *out, const struct typed *t, struct str name)
{
    if (name.len < t->name.len || memcmp(name.at, t->name.at, t->name.len) != 0 || !is_plain(name))
        return;
    buf_str(out, t->before);
    buf_str(out, name);
    buf_byte(out, '\n');
}

static void offer_statuses(struct buf *out, const struct typed *t)
{
    for (int status = 0; status < STATUS_COUNT; status++)
        offer(out, t, str_from(lifecycle_status_name((enum status)status)));
}

/* Ids are listed in their order, so that those with the prefix come first after its least one; the
 * newest ones where nothing is typed yet. False: no id begins so. */
static bool path_of_ids(struct buf *path, struct str prefix)
{
    char least[ID_TEXT_LEN + 1];
    struct id parsed;
    if (prefix.len > ID_TEXT_LEN)
        return false;
    memset(least, '0', ID_TEXT_LEN);
    memcpy(least, prefix.at, prefix.len);
    least[ID_TEXT_LEN] = '\0';
    if (id_parse(str_from(least), &parsed).code != ERR_OK)
        return false;
    buf_lit(path, "/jobs?limit=" IDS_MAX);
    if (prefix.len)
        buf_print(path, "&order=asc&from=%s", least);
    else
        buf_lit(path, "&order=desc");
    return true;
}

static struct str name_of(struct arena *a, const char *kind, struct str item)
{
    if (strcmp(kind, "QUEUE") == 0)
        return view_own_text(a, item);
    if (strcmp(kind, "POLICY") == 0)
        return view_text(a, view_get(item, "metadata"), "name");
    return view_text(a, item, "id");
}

static void offer_known(struct client *c, const char *kind, struct buf *out, const struct typed *t)
{
    bool ids = strcmp(kind, "ID") == 0, queues = strcmp(kind, "QUEUE") == 0;
    struct buf path = {0};
    if (!ids)
        buf_str(&path, queues ? STR("/queues") : STR("/retry-policies"));
    if ((!ids || path_of_ids(&path, t->name)) &&
        client_ask(c, "GET", client_path(&path)) == CLI_OK) {
        const char *member = ids ? "jobs" : queues ? "queues" : "items";
        struct view_list list = view_list(view_get(client_answer(c), member));
        for (struct str item; view_next(&list, &item);)
            offer(out, t, name_of(&c->arena, kind, item));
    }
    buf_fini(&path);
}

static bool is_flag(const char *word, size_t len)
{
    for (const struct option_def *d = options; d->flag; d++)
        if (strlen(d->flag) == len && memcmp(d->flag, word, len) == 0)
            return true;
    return false;
}

/* Keeps, of a command line of any command, the options that say which server is asked. */
static int keep_flags(int argc, char **argv)
{
    int n = 1;
    for (int i = 1; i < argc; i++) {
        const char *flag = strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
        const char *equals = strchr(flag, '=');
        if (!is_flag(flag, equals ? (size_t)(equals - flag) : strlen(flag)))
            continue;
        if (equals) {
            argv[n++] = argv[i];
        } else if (i + 1 < argc) {
            char *value = argv[++i];
            argv[n++] = argv[i - 1];
            argv[n++] = value;
        }
    }
    argv[n] = NULL;
    return n;
}

static void ask(const char *kind, int argc, char **argv, struct buf *out, const struct typed *t)
{
    struct values_args args = {0};
    struct options o;
    struct client c;
    int code, n = keep_flags(argc, argv);
    if (!subcommand_begin(&command, OPTIONS_ANYWHERE, n, argv, &args, &o, &code))
        return;
    args.client.timeout = (span){WAIT_MS};
    if (client_open(&c, &command, &args.client) != CLI_OK)
        return;
    offer_known(&c, kind, out, t);
    client_close(&c);
}

int complete_values_main(int argc, char **argv)
{
    struct buf out = {0};
    if (!freopen("/dev/null", "w", stderr) || argc < 3 || !complete_values_knows(argv[1]))
        return CLI_USAGE;
    struct typed t = split_typed(argv[2]);
    if (strcmp(argv[1], "STATUS") == 0)
        offer_statuses(&out, &t);
    else
        ask(argv[1], argc - 2, argv + 2, &out, &t);
    subcommand_print(stdout, &out);
    buf_fini(&out);
    return CLI_OK;
}
