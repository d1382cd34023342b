/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/catalog.h"
#include "cli/commands.h"
#include "cli/complete_values.h"
#include "cli/manual.h"
#include "cli/variables.h"
#include "jq/helper.h"

static const char exit_codes[] =
    "Exit codes of tenax:\n"
    "  0  success\n"
    "  1  the server refused; of `tenax work` with --once or --drain: a job failed\n     or its "
    "lease was lost\n"
    "  2  invalid input: an option, a payload, a line of bulk input\n"
    "  3  the server cannot be reached\n"
    "  4  no such job, cron group or entry, policy or other resource\n"
    "  74 `tenax serve`: the disk failed under a commit; starting it again recovers\n";

static const char about[] =
    "tenax keeps jobs until they are done: queues on disk, retries with backoff, and a record of "
    "every attempt.\n";

static const char examples[] =
    "  tenax serve\n"
    "  tenax enqueue --queue mail --type welcome '{\"to\": \"ada@example.org\"}'\n"
    "  tenax work --queue mail -- sh -c 'echo \"Dear $(jq -r .to)\"'\n";

static void print_line(struct buf *b, const struct subcommand *page)
{
    buf_print(b, "  %-15s ", page->name);
    options_wrap(b, str_from(page->summary), 18, 18, 80);
    buf_byte(b, '\n');
}

static void print_overview(FILE *f)
{
    struct buf b = {0};
    options_wrap(&b, (struct str){about, strlen(about) - 1}, 0, 0, 80);
    buf_lit(&b, "\n\nUsage:\n  tenax COMMAND [OPTIONS]\n");
    for (size_t i = 0; i < catalog_count; i++)
        if (catalog[i].page)
            print_line(&b, catalog[i].page);
        else
            buf_print(&b, "\n%s:\n", catalog[i].heading);
    buf_print(&b,
              "  %-15s explain a command; also: tenax help exit-codes, help variables\n\n"
              "Try it, with a server in one terminal and the rest in another:\n%s",
              "help", examples);
    subcommand_print(f, &b);
    buf_fini(&b);
}

static int unknown_command(const char *name)
{
    struct buf words = {0};
    for (size_t i = 0; i < catalog_count; i++)
        if (catalog[i].page)
            buf_print(&words, "%s|", catalog[i].page->name);
    buf_lit(&words, "help|exit-codes|variables");
    buf_byte(&words, '\0');
    struct str near = options_closest(name, words.at);
    fprintf(stderr, "tenax: unknown command '%.60s'", name);
    if (near.len)
        fprintf(stderr, "; did you mean '%.*s'?", STR_ARG(near));
    fprintf(stderr, "\n`tenax help` lists the commands.\n");
    buf_fini(&words);
    return CLI_USAGE;
}

static void print_name(void *ctx, const struct subcommand *page)
{
    (void)ctx;
    puts(page->name);
}

/* The text of `tenax help` without the name of a command. False: it is a name. */
static bool help_in_general(const char *word, const char *form)
{
    struct buf b = {0};
    if (!word || strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 ||
        strcmp(word, "-h") == 0)
        print_overview(stdout);
    else if (strcmp(word, "exit-codes") == 0)
        fputs(exit_codes, stdout);
    else if (strcmp(word, "variables") == 0)
        (form && strcmp(form, "--markdown") == 0 ? variables_markdown : variables_help)(&b);
    else if (strcmp(word, "--list") == 0)
        catalog_visit(print_name, NULL);
    else if (strcmp(word, "--man") == 0)
        manual_overview(&b, about, examples, exit_codes);
    else
        return false;
    subcommand_print(stdout, &b);
    buf_fini(&b);
    return true;
}

static int no_such_action(const struct subcommand *page, const char *word)
{
    fprintf(stderr, "tenax help: '%s' has no action '%.60s'\n`tenax help %s` explains it.\n",
            page->name, word, page->name);
    return CLI_USAGE;
}

/* `tenax help NAME [ACTION] [--markdown | --man]`. Tools make the documentation and the manual
 * pages with the last two, and list the commands with --list. */
static int help_main(int argc, char **argv)
{
    if (help_in_general(argv[1], argc > 2 ? argv[2] : NULL))
        return CLI_OK;
    const struct catalog_row *row = catalog_find(argv[1]);
    if (!row)
        return unknown_command(argv[1]);
    const struct subcommand *page = row->page;
    const struct subcommand *action = argc > 2 && page->page_of ? page->page_of(argv[2]) : NULL;
    if (argc > 2 && !action && strncmp(argv[2], "--", 2) != 0)
        return no_such_action(page, argv[2]);
    page = action ? action : page;
    struct buf b = {0};
    const char *form = argv[argc - 1];
    if (strcmp(form, "--markdown") == 0 && page->options)
        options_markdown(&b, page->options);
    else if (strcmp(form, "--man") == 0)
        manual_page(&b, page);
    else
        subcommand_help(&b, page);
    subcommand_print(stdout, &b);
    buf_fini(&b);
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
    const struct catalog_row *row = catalog_find(name);
    return row ? row->run(argc - 1, argv + 1) : unknown_command(name);
}

int main(int argc, char **argv)
{
    /* Not for users: the server starts these processes. */
    if (argc > 1 && strcmp(argv[1], "jq-helper") == 0)
        return helper_main(argc - 1, argv + 1);
    /* Only the classification of characters: numbers must keep their '.'. The output is UTF-8 in
     * any case. */
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "");
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    /* Nor this one, which the completion of shells runs. */
    if (argc > 1 && strcmp(argv[1], "complete-values") == 0)
        return complete_values_main(argc - 1, argv + 1);
    variables_warn();
    int code = dispatch(argc, argv);
    /* Output that did not arrive is a failure, unless its reader closed it, as with `tenax jobs |
     * head`. */
    bool now = fflush(stdout) != 0;
    if ((now || ferror(stdout)) && errno != EPIPE) {
        fprintf(stderr, "tenax: cannot write the output: %s\n",
                now ? strerror(errno) : "some of it was refused before");
        code = code == CLI_OK ? CLI_REFUSED : code;
    }
    curl_global_cleanup();
    return code;
}
