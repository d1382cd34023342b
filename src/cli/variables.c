/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/variables.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "cli/catalog.h"

#define PREFIX "TENAX_"
/* A variable that more commands read is one of many. */
#define NAMED_MAX  3
#define HELP_WIDTH 80

struct variable {
    const char *name, *help, *def;
    const char *of[NAMED_MAX]; /* commands; NULL: it has a heading of its own */
    size_t count;              /* of commands */
};

/* Without an option. */
static const struct {
    const char *heading, *name, *help;
} others[] = {
    {NULL, "TENAX_TOKEN", "the token that commands send, unless there is a --token-file"},
    {NULL, "TENAX_AMQP_PASSWORD", "of tenax bridge: the password for RabbitMQ"},
    {NULL, "TENAX_HEALTH_URL", "of the image's health check: whom it asks"},
    {"Set by `tenax work` for the command of a job", "TENAX_JOB_ID", "its id"},
    {NULL, "TENAX_JOB_QUEUE", "its queue"},
    {NULL, "TENAX_JOB_TYPE", "its type"},
    {NULL, "TENAX_JOB_ATTEMPT", "which attempt this is, from 1"},
    {NULL, "TENAX_JOB_RUN", "which run this is, from 0"},
    {NULL, "TENAX_JOB_PRIORITY", "its priority"},
    {NULL, "TENAX_WORKER", "the name of the worker"},
    {NULL, "TENAX_CHECKPOINT_IN", "a file with the checkpoint of an earlier run, if there is one"},
    {NULL, "TENAX_CHECKPOINT_OUT", "a file to write a checkpoint to"},
    {NULL, "TENAX_PROGRESS", "a file to write progress to"},
    {NULL, "TENAX_RESULT", "a file to write the result to"},
    {NULL, "TENAX_TERMINATION_MESSAGE", "a file to write the reason of a failure to"},
};

/* Those of tests, and one between a server and the one that it becomes. */
static const char *const internal[] = {"TENAX_HANDOVER", "TENAX_BIN", "TENAX_PEAKS",
                                       "TENAX_CHROMIUM"};

/* Of the build worker, whose settings have a table of their own. */
static const struct {
    const char *name, *def, *help;
} builds[] = {
#define SETTING(name, path, variable, type, def, help) {variable, def, help},
#include "builds/build_settings.def"
#undef SETTING
};

struct list {
    struct variable *at;
    size_t count, cap;
};

static struct variable *find(struct list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->at[i].name, name) == 0)
            return &l->at[i];
    return NULL;
}

/* The first word: the pages of actions belong to their command. */
static bool is_same_command(const char *a, const char *b)
{
    size_t n = strcspn(a, " ");
    return n == strcspn(b, " ") && memcmp(a, b, n) == 0;
}

static void add(struct list *l, const char *name, const char *def, const char *help, const char *of)
{
    struct variable *v = find(l, name);
    if (!v) {
        ALLOC_GROW(l->at, l->count, l->cap, 128);
        v = &l->at[l->count++];
        *v = (struct variable){.name = name, .help = help, .def = def};
    }
    /* The usual one: some commands wait longer than others. */
    if (strcmp(of, "jobs") == 0) {
        v->help = help;
        v->def = def;
    }
    for (size_t i = 0; i < v->count && i < NAMED_MAX; i++)
        if (is_same_command(v->of[i], of))
            return;
    if (v->count < NAMED_MAX)
        v->of[v->count] = of;
    v->count++;
}

static void add_page(void *ctx, const struct subcommand *page)
{
    for (const struct option_def *d = page->options; d && d->flag; d++)
        if (d->env && strncmp(d->env, PREFIX, sizeof PREFIX - 1) == 0)
            add(ctx, d->env, d->def, d->help, page->name);
}

static struct list all_of_options(void)
{
    struct list l = {0};
    catalog_visit(add_page, &l);
    for (size_t i = 0; i < COUNT(builds); i++)
        if (strncmp(builds[i].name, PREFIX, sizeof PREFIX - 1) == 0)
            add(&l, builds[i].name, builds[i].def, builds[i].help, "build-worker");
    return l;
}

/* --- the list --- */

struct writer {
    struct buf *b;
    bool markdown;
};

static void write_heading(const struct writer *w, const char *text)
{
    if (w->markdown)
        buf_print(w->b, "\n## %s\n\n| Variable | Default | Meaning |\n|---|---|---|\n", text);
    else
        buf_print(w->b, "\n%s:\n", text);
}

static void write_row(const struct writer *w, const char *name, const char *def, struct str help)
{
    struct buf text = {0};
    buf_str(&text, help);
    if (w->markdown) {
        buf_print(w->b, "| `%s` | %s%s%s | %.*s |\n", name, def && *def ? "`" : "", def ? def : "",
                  def && *def ? "`" : "", STR_ARG(help));
    } else {
        if (def && *def)
            buf_print(&text, " [default: %s]", def);
        buf_print(w->b, "  %s\n      ", name);
        options_wrap(w->b, buf_view(&text), 6, 6, HELP_WIDTH);
        buf_byte(w->b, '\n');
    }
    buf_fini(&text);
}

static void write_variable(const struct writer *w, const struct variable *v, bool name_commands)
{
    struct buf help = {0};
    for (size_t i = 0; name_commands && i < v->count; i++)
        buf_print(&help, "%s%.*s%s", i ? ", " : "", (int)strcspn(v->of[i], " "), v->of[i],
                  i + 1 == v->count ? ": " : "");
    buf_str(&help, str_from(v->help));
    write_row(w, v->name, v->def, buf_view(&help));
    buf_fini(&help);
}

/* Of those that so many commands read, or all of one command. */
static void write_group(const struct writer *w, const struct list *l, const char *heading,
                        size_t least, size_t most, const char *of)
{
    bool begun = false;
    for (size_t i = 0; i < l->count; i++) {
        const struct variable *v = &l->at[i];
        if (v->count < least || v->count > most || (of && !is_same_command(v->of[0], of)))
            continue;
        if (!begun)
            write_heading(w, heading);
        begun = true;
        write_variable(w, v, !of && v->count <= NAMED_MAX);
    }
}

static void write_list(const struct writer *w)
{
    struct list l = all_of_options();
    char heading[64];
    write_group(w, &l, "Of many commands", NAMED_MAX + 1, SIZE_MAX, NULL);
    write_group(w, &l, "Of several commands", 2, NAMED_MAX, NULL);
    for (size_t i = 0; i < catalog_count; i++) {
        if (!catalog[i].page)
            continue;
        snprintf(heading, sizeof heading, "Of `tenax %.40s`", catalog[i].page->name);
        write_group(w, &l, heading, 1, 1, catalog[i].page->name);
    }
    write_heading(w, "Without an option");
    for (size_t i = 0; i < COUNT(others); i++) {
        if (others[i].heading)
            write_heading(w, others[i].heading);
        write_row(w, others[i].name, NULL, str_from(others[i].help));
    }
    free(l.at);
}

void variables_help(struct buf *b)
{
    const struct writer w = {b, false};
    buf_lit(b, "Environment variables of tenax. A flag overrides its variable, and an empty\n"
               "variable counts as not set. A name that begins with TENAX_ and is not here is\n"
               "warned of.\n");
    write_list(&w);
}

void variables_markdown(struct buf *b)
{
    const struct writer w = {b, true};
    buf_lit(b, "<!-- Generated from the options of the commands and src/cli/variables.c by `make "
               "docs`; edit these, not this. -->\n\n# Environment variables\n\n"
               "A flag overrides its variable, and an empty variable counts as not set. Every "
               "command warns of a variable that begins with `TENAX_` and is not listed here, and "
               "names the nearest that is; those that Kubernetes sets in pods for a Service are "
               "passed over. `tenax help variables` prints this list, [settings.md](settings.md) "
               "has the flags of the server, [build-settings.md](build-settings.md) what else the "
               "build worker reads.\n");
    write_list(&w);
}

/* --- the warning --- */

static bool is_internal(const char *name)
{
    for (size_t i = 0; i < COUNT(internal); i++)
        if (strcmp(internal[i], name) == 0)
            return true;
    return strncmp(name, "TENAX_TEST_", 11) == 0;
}

/* A Service tenax-x has TENAX_X_SERVICE_HOST, …_SERVICE_PORT…, TENAX_X_PORT=tcp://…, …_PORT_80_…
 * set in all pods of its namespace. */
static bool is_of_service(const char *name, const char *value)
{
    if (strstr(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT"))
        return true;
    if (strncmp(value, "tcp://", 6) == 0 || strncmp(value, "udp://", 6) == 0)
        return true;
    for (const char *p = name; (p = strstr(p, "_PORT_")); p++)
        if (isdigit((unsigned char)p[6]))
            return true;
    return false;
}

static bool is_known(struct list *l, const char *name)
{
    for (size_t i = 0; i < COUNT(others); i++)
        if (strcmp(others[i].name, name) == 0)
            return true;
    return find(l, name) || is_internal(name);
}

static void warn(const struct list *l, const char *name)
{
    struct buf words = {0};
    for (size_t i = 0; i < l->count; i++)
        buf_print(&words, "%s|", l->at[i].name);
    for (size_t i = 0; i < COUNT(others); i++)
        buf_print(&words, "%s|", others[i].name);
    buf_byte(&words, '\0');
    struct str near = options_closest(name, words.at);
    fprintf(stderr, "tenax: the variable %.60s is set, but there is none of that name", name);
    if (near.len)
        fprintf(stderr, "; did you mean %.*s?\n", STR_ARG(near));
    else
        fputs("; `tenax help variables` lists them\n", stderr);
    buf_fini(&words);
}

void variables_warn(void)
{
    struct list l = {0};
    for (char **e = environ; e && *e; e++) {
        char name[128];
        size_t len = strcspn(*e, "=");
        if (strncmp(*e, PREFIX, sizeof PREFIX - 1) != 0 || len >= sizeof name || !(*e)[len] ||
            !(*e)[len + 1])
            continue;
        memcpy(name, *e, len);
        name[len] = '\0';
        if (!l.count)
            l = all_of_options();
        if (!is_known(&l, name) && !is_of_service(name, *e + len + 1))
            warn(&l, name);
    }
    free(l.at);
}
