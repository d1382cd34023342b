/* SPDX-License-Identifier: Apache-2.0 */
#include "server/greeting.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/subcommand.h"
#include "console/console.h"

/* `build/tenax` is repeated, so that the command can be pasted; what a shell would split or expand
 * is not. */
static bool is_plain(const char *program)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._+-";
    return *program && strspn(program, plain) == strlen(program);
}

void greeting_text(struct buf *b, const struct settings *set, const struct listener *primary,
                   const char *program, bool guarded)
{
    char url[LISTENER_URL_MAX];
    listener_url(primary, set->host, url);
    if (!set->no_console)
        buf_print(b, "The console: %s%s\n", url, CONSOLE_PATH);
    buf_lit(b, "To try in another terminal:\n  ");
    if (guarded && !set->tls.client_ca)
        buf_lit(b, "TENAX_TOKEN=... ");
    /* With --url, for the user's context may name another server. */
    buf_print(b, "%s enqueue --url %s ", is_plain(program) ? program : "tenax", url);
    if (set->tls.cert)
        buf_lit(b, "--ca-cert FILE ");
    if (set->tls.client_ca)
        buf_lit(b, "--client-cert FILE --client-key FILE ");
    buf_lit(b, "--queue mail --type welcome '{\"to\": \"ada@example.org\"}'\n");
}

void greeting_print(const struct settings *set, const struct listener *primary, bool guarded)
{
    struct buf b = {0};
    if (!listener_is_open(primary) || isatty(STDERR_FILENO) != 1)
        return;
    greeting_text(&b, set, primary, program_invocation_name, guarded);
    subcommand_print(stderr, &b);
    buf_fini(&b);
}
