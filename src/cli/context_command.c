/* SPDX-License-Identifier: Apache-2.0 */

/* tenax context: named servers (client/context.h). No server is asked. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "base/json.h"
#include "client/client.h"
#include "client/context.h"
#include "client/view.h"

struct context_args {
    const char *field[CONTEXT_FIELDS];
    struct client_args client; /* only how it is shown */
};

#define AT(i)                                                                                      \
    OPTION_TEXT,                                                                                   \
        offsetof(struct context_args, field) + (i) * sizeof(((struct context_args *)0)->field[0])

static const struct option_def options[] = {
    {"url", "URL", AT(CONTEXT_URL), .help = "set: the server's address, as localhost:7890"},
    {"token-file", "FILE", AT(CONTEXT_TOKEN_FILE), .help = "set: the file that has the token"},
    {"ca", "FILE", AT(CONTEXT_CA),
     .help = "set: trust servers whose certificate this CA has signed (PEM)"},
    {"client-cert", "FILE", AT(CONTEXT_CERT), .help = "set: the certificate to present (PEM)"},
    {"client-key", "FILE", AT(CONTEXT_KEY), .help = "set: its private key (PEM)"},
    {"admin-url", "URL", AT(CONTEXT_ADMIN_URL), .help = "set: the server's admin listener"},
    {"output", "FORMAT", OPTION_CHOICE, offsetof(struct context_args, client.output),
     .choices = CLIENT_LIST_FORMATS, .def = "table", .help = "for people or for programs",
     .letter = 'o'},
    {0},
};

const struct subcommand context_command = {
    .name = "context",
    .usage = "[list | show [NAME] | use NAME | delete NAME | set NAME OPTIONS]",
    .summary = "name servers, and choose the one that commands ask",
    .about =
        "A context is a server's address, the file that has the token for it, and its "
        "certificates. `use` chooses the one that all commands ask; --context or TENAX_CONTEXT "
        "choose another for one command. Flags and variables override a context: with the address "
        "of another server, the context's token and certificates are not used.\n"
        "`set` makes a context or changes what it names; an empty value removes it. Contexts are "
        "kept in $XDG_CONFIG_HOME/tenax/contexts.json, or ~/.config/tenax/contexts.json, which "
        "only you can read. Tokens are not in it, only the paths of their files.",
    .examples = "  tenax context set prod --url https://tenax.example.org \\\n"
                "      --token-file ~/.tenax-prod --ca ~/prod-ca.pem\n"
                "  tenax context use prod\n"
                "  tenax jobs --status dead\n"
                "  TENAX_CONTEXT=staging tenax jobs\n",
    .options = options,
    .words = "list|use|set|show|delete",
};

static int complain(const char *why)
{
    fprintf(stderr, "tenax context: %s\n", why);
    return CLI_REFUSED;
}

static int unknown(const char *name)
{
    fprintf(stderr, "tenax context: there is no context '%.64s'; `tenax context list` has them\n",
            name);
    return CLI_NOT_FOUND;
}

static int save(const struct contexts *all)
{
    struct err e = context_write(all);
    return e.code == ERR_OK ? CLI_OK : complain(e.msg);
}

/* --- set --- */

static const char *wrong_url(const char *url)
{
    const char *wrong = url && *url ? call_bad_url(url) : NULL;
    /* The file is read by programs and copied between machines: no secrets belong in it. */
    return wrong                     ? wrong
           : url && strchr(url, '@') ? "it must have no user or password in it; give --token-file"
                                     : NULL;
}

/* Commands are called from other folders later. */
static const char *whole_path(struct arena *a, const char *path)
{
    struct buf b = {0};
    char *here = *path == '/' || !*path ? NULL : getcwd(NULL, 0);
    if (here)
        buf_print(&b, "%s/%s", here, path);
    else
        buf_print(&b, "%s", path);
    buf_byte(&b, '\0'); /* a part of the copy */
    const char *copy = arena_copy(a, buf_view(&b)).at;
    free(here);
    buf_fini(&b);
    return copy;
}

static bool is_url(size_t field)
{
    return field == CONTEXT_URL || field == CONTEXT_ADMIN_URL;
}

static int set(struct contexts *all, const struct context_args *args, const char *name)
{
    struct context *c = context_find(all, name);
    if (!context_is_name(name))
        return subcommand_usage(&context_command,
                                "'%.64s' is not 1 to 64 letters, digits, '-', "
                                "'_' and '.'",
                                name);
    for (size_t i = 0; i < CONTEXT_FIELDS; i++)
        if (is_url(i) && wrong_url(args->field[i]))
            return subcommand_usage(
                &context_command, "option '--%s': '%.200s' is not the URL of a server; %s",
                i == CONTEXT_URL ? "url" : "admin-url", args->field[i], wrong_url(args->field[i]));
    if (!c && (!args->field[CONTEXT_URL] || !*args->field[CONTEXT_URL]))
        return subcommand_usage(&context_command, "which server? give --url");
    if (!c) {
        ALLOC_GROW(all->at, all->count, all->cap, 8);
        c = &all->at[all->count++];
        *c = (struct context){.name = name};
    }
    for (size_t i = 0; i < CONTEXT_FIELDS; i++)
        if (args->field[i] && !*args->field[i])
            c->field[i] = NULL;
        else if (args->field[i])
            c->field[i] = is_url(i) ? args->field[i] : whole_path(&all->arena, args->field[i]);
    int code = save(all);
    if (code == CLI_OK && (!all->current || strcmp(all->current, name) != 0))
        fprintf(stderr, "`tenax context use %s` makes it the one that commands ask.\n", name);
    return code;
}

/* --- list, show --- */

static void write_item(struct buf *b, const struct contexts *all, const struct context *c)
{
    b->len = 0;
    buf_lit(b, "{\"name\":");
    json_write_string(b, str_from(c->name));
    buf_print(b, ",\"current\":%s",
              all->current && strcmp(all->current, c->name) == 0 ? "true" : "false");
    for (size_t i = 0; i < CONTEXT_FIELDS; i++) {
        buf_print(b, ",\"%s\":", context_members[i]);
        if (c->field[i])
            json_write_string(b, str_from(c->field[i]));
        else
            buf_lit(b, "null");
    }
    buf_byte(b, '}');
}

static enum table_style read_used(struct client *c, struct str context, struct buf *text)
{
    bool current = str_eq(view_get(context, "current"), STR("true"));
    (void)c;
    buf_str(text, current ? STR("*") : STR(""));
    return current ? TABLE_GOOD : TABLE_PLAIN;
}

static enum table_style read_field(struct client *c, struct str context, enum context_field field,
                                   struct buf *text)
{
    struct str value = view_text(&c->arena, context, context_members[field]);
    buf_str(text, value.len ? value : STR("-"));
    return TABLE_PLAIN;
}

#define FIELD_READER(name, field)                                                                  \
    static enum table_style read_##name(struct client *c, struct str context, struct buf *text)    \
    {                                                                                              \
        return read_field(c, context, field, text);                                                \
    }

FIELD_READER(url, CONTEXT_URL)
FIELD_READER(token, CONTEXT_TOKEN_FILE)
FIELD_READER(ca, CONTEXT_CA)
FIELD_READER(cert, CONTEXT_CERT)
FIELD_READER(admin, CONTEXT_ADMIN_URL)

static const struct listing_column columns[] = {
    {"USED", .read = read_used},
    {"NAME", .member = "name"},
    {"URL", .read = read_url, .least = 24},
    {"TOKEN FILE", .read = read_token, .least = 16},
    {"CA", .read = read_ca, .least = 16},
    {"CERTIFICATE", .read = read_cert, .wide = true},
    {"ADMIN URL", .read = read_admin, .wide = true},
    {0},
};

static const struct listing_kind kind = {
    columns, "name", "There are no contexts; `tenax context set NAME --url URL` makes one."};

static int fetch(struct listing *l, void *ctx)
{
    const struct contexts *all = ctx;
    struct buf item = {0};
    for (size_t i = 0; i < all->count; i++) {
        write_item(&item, all, &all->at[i]);
        listing_add(l, buf_view(&item));
    }
    buf_fini(&item);
    return CLI_OK;
}

static int list(struct contexts *all, const struct context_args *args)
{
    struct client c;
    client_alone(&c, &context_command, &args->client);
    int code = listing_run(&c, &kind, fetch, all);
    client_close(&c);
    return code;
}

static void write_context(struct client *c, struct buf *out, struct str context)
{
    buf_print(out, "%-12s %.*s\n", "name", STR_ARG(view_text(&c->arena, context, "name")));
    for (size_t i = 0; i < CONTEXT_FIELDS; i++) {
        struct str value = view_text(&c->arena, context, context_members[i]);
        if (value.len)
            buf_print(out, "%-12s %.*s\n", context_members[i], STR_ARG(value));
    }
}

static int show(const struct contexts *all, const struct context_args *args, const char *name)
{
    const char *chosen = getenv("TENAX_CONTEXT");
    name = name ? name : chosen && *chosen ? chosen : all->current;
    if (!name) {
        fputs("tenax context: none is chosen; `tenax context use NAME` does\n", stderr);
        return CLI_NOT_FOUND;
    }
    const struct context *found = context_find(all, name);
    if (!found)
        return unknown(name);
    struct client c;
    struct buf item = {0};
    client_alone(&c, &context_command, &args->client);
    write_item(&item, all, found);
    int code = listing_print(&c, &kind, buf_view(&item), write_context);
    buf_fini(&item);
    client_close(&c);
    return code;
}

/* --- use, delete --- */

static int use(struct contexts *all, const char *name)
{
    const struct context *c = context_find(all, name);
    if (!c)
        return unknown(name);
    all->current = c->name;
    int code = save(all);
    if (code == CLI_OK)
        fprintf(stderr, "Commands ask %s.\n", c->field[CONTEXT_URL] ? c->field[CONTEXT_URL] : name);
    return code;
}

static int delete (struct contexts *all, const char *name)
{
    struct context *c = context_find(all, name);
    if (!c)
        return unknown(name);
    if (all->current && strcmp(all->current, name) == 0)
        all->current = NULL;
    size_t after = all->count - (size_t)(c - all->at) - 1;
    memmove(c, c + 1, after * sizeof *c);
    all->count--;
    return save(all);
}

/* --- the command --- */

static int act(struct contexts *all, const struct context_args *args, const char *verb,
               const char *name)
{
    if (strcmp(verb, "set") == 0)
        return set(all, args, name);
    if (strcmp(verb, "use") == 0)
        return use(all, name);
    if (strcmp(verb, "delete") == 0)
        return delete (all, name);
    return strcmp(verb, "show") == 0 ? show(all, args, name) : list(all, args);
}

static const char *check(const struct context_args *args, const struct options *o, const char *verb)
{
    const char *verbs = context_command.words;
    struct str word;
    bool known = false, is_list = strcmp(verb, "list") == 0, is_show = strcmp(verb, "show") == 0;
    while (!known && options_next_word(&verbs, &word))
        known = str_eq(word, str_from(verb));
    if (!known)
        return "list, use, set, show or delete is meant";
    if (o->rest_count > (is_list ? 1 : 2))
        return is_list ? "list takes no name" : "one context at a time";
    if (!is_list && !is_show && o->rest_count != 2)
        return "which context? give its name";
    for (size_t i = 0; i < CONTEXT_FIELDS; i++)
        if (args->field[i] && strcmp(verb, "set") != 0)
            return "these options are for set";
    return NULL;
}

int context_main(int argc, char **argv)
{
    struct context_args args = {0};
    struct contexts all;
    struct options o;
    int code;
    if (!subcommand_begin(&context_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    const char *verb = o.rest_count ? o.rest[0] : "list", *wrong = check(&args, &o, verb);
    if (wrong)
        return subcommand_usage(&context_command, "%s", wrong);
    struct err e = context_read(&all);
    if (e.code != ERR_OK)
        return complain(e.msg);
    code = act(&all, &args, verb, o.rest_count > 1 ? o.rest[1] : NULL);
    context_fini(&all);
    return code;
}
