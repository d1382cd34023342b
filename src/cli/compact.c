/* SPDX-License-Identifier: Apache-2.0 */

/* tenax compact: POST /compact. */

#include <stdio.h>

#include "cli/commands.h"
#include "client/admin.h"

struct compact_args {
    struct client_args client;
};

static const struct option_def options[] = {
    ADMIN_OPTIONS(struct compact_args),
    {"http-timeout", "DURATION", OPTION_SPAN, offsetof(struct compact_args, client.timeout),
     .env = "TENAX_HTTP_TIMEOUT", .def = "1h", .help = "how long to wait for the end"},
    {0},
};

const struct subcommand compact_command = {
    .name = "compact",
    .usage = "[OPTIONS]",
    .summary = "make a running server free disk space",
    .about =
        "Asks the server, at its admin listener, to rewrite its tables without deleted records, "
        "and waits until that is done. The server does so by itself over time; this command is for "
        "freeing the space at once after very many deletions. The server keeps running meanwhile.",
    .examples = "  tenax compact\n"
                "  tenax compact --url http://127.0.0.1:9000\n",
    .options = options,
};

int compact_main(int argc, char **argv)
{
    struct compact_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&compact_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&compact_command, "unexpected '%s'", o.rest[0]);
    code = admin_open(&c, &compact_command, &args.client, &o);
    if (code != CLI_OK)
        return code;
    code = client_ask(&c, "POST", "/compact");
    if (code == CLI_OK)
        fputs("The tables are compacted.\n", stderr);
    client_close(&c);
    return code;
}
