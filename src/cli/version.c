/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "client/client.h"
#include "cli/commands.h"
#include "client/view.h"

struct version_args {
    struct client_args client;
    bool server;
};

static const struct option_def options[] = {
    {"server", NULL, OPTION_SWITCH, offsetof(struct version_args, server),
     .help = "also ask the server for its version"},
    CLIENT_OPTIONS(struct version_args),
    {0},
};

const struct subcommand version_command = {
    .name = "version",
    .usage = "[--server]",
    .summary = "print the version, and the server's",
    .about = "Prints the version of this program. With --server it asks the server for its own, "
             "which also shows whether the server answers.",
    .examples = "  tenax version\n"
                "  tenax version --server --url http://127.0.0.1:9000\n",
    .options = options,
};

static int ask_server(const struct version_args *args)
{
    struct client c;
    int code = client_open(&c, &version_command, &args->client);
    if (code != CLI_OK)
        return code;
    code = client_ask(&c, "GET", "/version");
    struct buf out = {0};
    if (code == CLI_OK) {
        table_harmless(&out, view_text(&c.arena, client_answer(&c), "version"));
        if (args->client.output == CLIENT_JSON)
            printf("{\"client\":\"" TENAX_VERSION "\",\"server\":\"%.*s\"}\n",
                   STR_ARG(buf_view(&out)));
        else
            printf("tenax " TENAX_VERSION "\nserver %.*s at %s\n", STR_ARG(buf_view(&out)), c.url);
    }
    buf_fini(&out);
    client_close(&c);
    return code;
}

int version_main(int argc, char **argv)
{
    struct version_args args = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&version_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&version_command, "unexpected '%s'", o.rest[0]);
    if (args.server)
        return ask_server(&args);
    puts(args.client.output == CLIENT_JSON ? "{\"client\":\"" TENAX_VERSION "\"}"
                                           : "tenax " TENAX_VERSION);
    return CLI_OK;
}
