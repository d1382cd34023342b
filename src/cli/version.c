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

/* server: empty if it was not asked. */
static void print_members(const struct client_args *args, struct str server)
{
    struct client c;
    struct buf value = {0}, out = {0};
    client_alone(&c, &version_command, args);
    buf_lit(&value, "{\"client\":\"" TENAX_VERSION "\"");
    if (server.len) {
        buf_lit(&value, ",\"server\":");
        json_write_string(&value, server);
    }
    buf_byte(&value, '}');
    client_write_value(&c, &out, buf_view(&value));
    subcommand_print(stdout, &out);
    buf_fini(&value);
    buf_fini(&out);
    client_close(&c);
}

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
        if (client_for_people(&c))
            printf("tenax " TENAX_VERSION "\nserver %.*s at %s\n", STR_ARG(buf_view(&out)), c.url);
        else
            print_members(&args->client, buf_view(&out));
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
    if (args.client.output == CLIENT_TABLE || args.client.output == CLIENT_WIDE)
        puts("tenax " TENAX_VERSION);
    else
        print_members(&args.client, (struct str){0});
    return CLI_OK;
}
