/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/serve.h"
#include "cli/settings.h"
#include "jq/helper.h"

static const struct {
    const struct subcommand *page;
    int (*run)(int argc, char **argv);
} commands[] = {
    {&settings_command, serve_main},
    {&enqueue_command, enqueue_main},
    {&work_command, work_main},
    {&jobs_command, jobs_main},
    {&job_command, job_main},
    {&queues_command, queues_main},
    {&retry_command, retry_main},
    {&cancel_command, cancel_main},
    {&patch_command, patch_main},
    {&delete_command, delete_main},
    {&create_command, create_main},
    {&apply_command, apply_main},
    {&get_command, get_main},
    {&update_command, update_main},
    {&policy_command, policy_main},
    {&queue_command, queue_main},
    {&retry_settings_command, retry_settings_main},
    {&crons_command, crons_main},
    {&cron_command, cron_main},
    {&backup_command, backup_main},
    {&restore_command, restore_main},
    {&check_command, check_main},
    {&tls_command, tls_main},
    {&version_command, version_main},
};

#define COMMANDS (sizeof commands / sizeof *commands)

static const char exit_codes[] =
    "Exit codes of tenax:\n"
    "  0  it worked\n"
    "  1  the server said no; of `tenax work` with --once or --drain: a job failed\n     or its "
    "lease was lost\n"
    "  2  what was given is wrong: an option, a payload, a line of bulk input\n"
    "  3  the server cannot be reached\n"
    "  4  there is no such job, cron group or entry, policy or other resource\n";

static void print_overview(FILE *f)
{
    fputs("tenax keeps jobs until they are done: queues on disk, retries with backoff, and a\n"
          "record of every attempt.\n\n"
          "Usage:\n  tenax COMMAND [OPTIONS]\n\nCommands:\n",
          f);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(f, "  %-15s %s\n", commands[i].page->name, commands[i].page->summary);
    fputs("  help            explain a command, or the exit codes: tenax help exit-codes\n\n"
          "Try it, with a server in one terminal and the rest in another:\n"
          "  tenax serve\n"
          "  tenax enqueue --queue mail --type welcome '{\"to\": \"ada@example.org\"}'\n"
          "  tenax work --queue mail -- sh -c 'echo \"Dear $(jq -r .to)\"'\n",
          f);
}

static int find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].page->name, name) == 0)
            return (int)i;
    return -1;
}

static int unknown_command(const char *name)
{
    struct buf words = {0};
    for (size_t i = 0; i < COMMANDS; i++)
        buf_print(&words, "%s|", commands[i].page->name);
    buf_lit(&words, "help|exit-codes");
    buf_byte(&words, '\0');
    struct str near = options_closest(name, words.at);
    fprintf(stderr, "tenax: unknown command '%.60s'", name);
    if (near.len)
        fprintf(stderr, "; did you mean '%.*s'?", STR_ARG(near));
    fprintf(stderr, "\n`tenax help` lists the commands.\n");
    buf_fini(&words);
    return CLI_USAGE;
}

/* `tenax help NAME [--markdown]`; the table of options as Markdown goes into the
 * documentation. */
static int help_main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0) {
        print_overview(stdout);
        return CLI_OK;
    }
    if (strcmp(argv[1], "exit-codes") == 0) {
        fputs(exit_codes, stdout);
        return CLI_OK;
    }
    int i = find(argv[1]);
    if (i < 0)
        return unknown_command(argv[1]);
    struct buf page = {0};
    const struct subcommand *sub =
        argc > 2 && commands[i].page == &tls_command ? tls_page(argv[2]) : NULL;
    if (argc > 2 && strcmp(argv[2], "--markdown") == 0 && commands[i].page->options)
        options_markdown(&page, commands[i].page->options);
    else
        command_help(&page, sub ? sub : commands[i].page);
    command_print(stdout, &page);
    buf_fini(&page);
    return CLI_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_overview(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help_main(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0) {
        puts("tenax " TENAX_VERSION);
        return CLI_OK;
    }
    int i = find(name);
    return i < 0 ? unknown_command(name) : commands[i].run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    /* Not for people: the server starts these. */
    if (argc > 1 && strcmp(argv[1], "jq-helper") == 0)
        return helper_main(argc - 1, argv + 1);
    /* Only the classification of characters: numbers must keep their '.'. What is
     * written is UTF-8 in any case. */
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int code = dispatch(argc, argv);
    /* Output that did not arrive is a failure, unless its reader went away, as
     * with `tenax jobs | head`. */
    if ((fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE) {
        fprintf(stderr, "tenax: cannot write the output: %s\n", strerror(errno));
        code = code == CLI_OK ? CLI_REFUSED : code;
    }
    curl_global_cleanup();
    return code;
}
