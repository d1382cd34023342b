/* SPDX-License-Identifier: Apache-2.0 */
#include "client/admin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "client/view.h"

#define DEFAULT_ADMIN "http://127.0.0.1:8901"
/* GET / needs no jobs; a command's own time limit may be an hour. */
#define ASK_TIMEOUT ((span){30000})

static int open_at(struct client *c, const struct subcommand *command,
                   const struct client_args *args, const char *url)
{
    struct client_args at = *args;
    at.url = url;
    int code = client_open(c, command, &at);
    if (code == CLI_OK)
        c->args.url = c->url;
    return code;
}

static int move(struct client *c, const struct subcommand *command, const struct client_args *args,
                struct str url)
{
    char *to = alloc_text(url.at, url.len);
    client_close(c);
    int code = open_at(c, command, args, to);
    free(to);
    return code;
}

static int untold(struct client *c, const struct subcommand *command)
{
    fprintf(stderr,
            "tenax %s: %s does not say where its admin listener is: it has none, or this is "
            "another machine; --admin-url or TENAX_ADMIN_URL does\n",
            command->name, c->url);
    client_close(c);
    return CLI_REFUSED;
}

/* The server of the client, or its admin listener as it says. */
static int follow(struct client *c, const struct subcommand *command,
                  const struct client_args *args, bool is_default)
{
    span limit =
        args->timeout.ms && args->timeout.ms < ASK_TIMEOUT.ms ? args->timeout : ASK_TIMEOUT;
    enum call_result r = call_wait(&c->call, "GET", "/", limit);
    if (r == CALL_UNREACHABLE && is_default)
        return move(c, command, args, STR(DEFAULT_ADMIN));
    /* An answer that is not GET /'s: the command's own request says what is wrong. */
    if (r != CALL_DONE)
        return CLI_OK;
    struct str is = view_text(&c->arena, client_answer(c), "listener");
    struct str url = view_text(&c->arena, client_answer(c), "admin_url");
    if (str_eq(is, STR("admin")) || !is.len)
        return CLI_OK;
    return url.len ? move(c, command, args, url) : untold(c, command);
}

int admin_open(struct client *c, const struct subcommand *command, const struct client_args *args,
               const struct options *o)
{
    bool asked = options_source_of(o, "url") == OPTION_FROM_FLAG;
    bool told = options_source_of(o, "admin-url") == OPTION_FROM_FLAG;
    if (args->admin_url && (told || !asked)) {
        const char *wrong = call_bad_url(args->admin_url);
        if (wrong)
            return subcommand_usage(command,
                                    "option '--admin-url': '%.200s' is not the URL of a "
                                    "server; %s",
                                    args->admin_url, wrong);
        return open_at(c, command, args, args->admin_url);
    }
    int code = client_open(c, command, args);
    bool is_default = options_source_of(o, "url") == OPTION_FROM_DEFAULT;
    return code == CLI_OK ? follow(c, command, args, is_default) : code;
}
