/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion_fish.h"

#include <string.h>

#include "cli/catalog.h"
#include "cli/complete_values.h"

static const char head[] =
    "# fish completion for tenax; made by `tenax completion fish`\n"
    "\n"
    "# Whether the words before the cursor are of this command; '' before there is one.\n"
    "function __tenax_at\n"
    "    set -l words (commandline -opc)\n"
    "    set -l command \"$words[2]\"\n"
    "    if contains -- \"$command $words[3]\" $__tenax_actions\n"
    "        set command \"$command $words[3]\"\n"
    "    end\n"
    "    test \"$command\" = \"$argv\"\n"
    "end\n"
    "\n"
    "# Whether the next word is the first one of the command.\n"
    "function __tenax_first\n"
    "    test (count (commandline -opc)) -eq 2; and __tenax_at $argv\n"
    "end\n"
    "\n"
    "# What the server knows of this kind.\n"
    "function __tenax_values\n"
    "    set -l line (commandline -opc)\n"
    "    set -l typed (string replace -r -- '^--[a-z-]+=' '' (commandline -ct))\n"
    "    command $line[1] complete-values $argv[1] \"$typed\" $line 2>/dev/null\n"
    "end\n"
    "\n"
    "complete -c tenax -e\n"
    "complete -c tenax -f\n";

/* Within single quotes, of which fish knows these two escapes. */
static void add_text(struct buf *b, const char *text)
{
    buf_byte(b, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_byte(b, '\\');
        buf_byte(b, *text);
    }
    buf_byte(b, '\'');
}

/* The words of a list between blanks, each of which fish offers. */
static void add_words(struct buf *b, const char *list)
{
    struct str word;
    buf_byte(b, '\'');
    for (const char *before = ""; options_next_word(&list, &word); before = " ")
        buf_print(b, "%s%.*s", before, STR_ARG(word));
    buf_byte(b, '\'');
}

/* Where an option or a word of this command is completed. */
static void add_where(struct buf *b, const char *function, const char *command)
{
    buf_print(b, "complete -c tenax -n '%s %s'", function, command);
}

/* What the value may be. An optional one is given with '=' only, so that the next word is not it.
 */
static void add_value(struct buf *b, const struct subcommand *c, const struct option_def *d)
{
    const char *known = complete_values_kind(c, d);
    if (!d->value || d->implied)
        return;
    if (d->choices) {
        buf_lit(b, " -x -a ");
        add_words(b, d->choices);
    } else if (known) {
        buf_print(b, " -x -a '(__tenax_values %s)'", known);
    } else if (strcmp(d->value, "FILE") == 0) {
        buf_lit(b, " -r -F");
    } else if (strcmp(d->value, "DIR") == 0) {
        buf_lit(b, " -x -a '(__fish_complete_directories)'");
    } else {
        buf_lit(b, " -x");
    }
}

static void add_option(struct buf *b, const struct subcommand *c, const struct option_def *d)
{
    add_where(b, "__tenax_at", c->name);
    if (d->letter)
        buf_print(b, " -s %c", d->letter);
    buf_print(b, " -l %s", d->flag);
    add_value(b, c, d);
    buf_lit(b, " -d ");
    add_text(b, d->help);
    buf_byte(b, '\n');
}

/* fish has to be told which options have values, to find where the command to be run begins. The
 * '-' comes first because options of its own function may come before it. */
static void add_command_to_run(struct buf *b, const struct subcommand *c)
{
    buf_lit(b, " -a '(__fish_complete_subcommand --fcs-skip=2 -");
    for (const struct option_def *d = c->options; d && d->flag; d++)
        if (d->value && !d->implied)
            buf_print(b, " --%s", d->flag);
    buf_lit(b, ")'\n");
}

static void add_rest(struct buf *b, const struct subcommand *c)
{
    if (c->words) {
        add_where(b, "__tenax_first", c->name);
        buf_lit(b, " -a ");
        add_words(b, c->words);
        buf_byte(b, '\n');
    }
    if (!c->rest)
        return;
    add_where(b, "__tenax_at", c->name);
    if (strcmp(c->rest, "FILE") == 0)
        buf_lit(b, " -F\n");
    else if (strcmp(c->rest, "DIR") == 0)
        buf_lit(b, " -a '(__fish_complete_directories)'\n");
    else if (complete_values_knows(c->rest))
        buf_print(b, " -a '(__tenax_values %s)'\n", c->rest);
    else
        add_command_to_run(b, c);
}

static void add_command(void *ctx, const struct subcommand *c)
{
    struct buf *b = ctx;
    buf_print(b, "\n# tenax %s\n", c->name);
    add_where(b, "__tenax_at", c->name);
    buf_lit(b, " -s h -l help -d 'show help'\n");
    for (const struct option_def *d = c->options; d && d->flag; d++)
        add_option(b, c, d);
    add_rest(b, c);
}

static void add_action(void *ctx, const struct subcommand *c)
{
    if (strchr(c->name, ' '))
        buf_print(ctx, " '%s'", c->name);
}

static void add_names(struct buf *b, const char *function, const char *command)
{
    for (size_t i = 0; i < catalog_count; i++) {
        if (!catalog[i].page)
            continue;
        add_where(b, function, command);
        buf_print(b, " -a %s -d ", catalog[i].page->name);
        add_text(b, catalog[i].page->summary);
        buf_byte(b, '\n');
    }
}

void completion_fish(struct buf *b)
{
    buf_lit(b, head);
    buf_lit(b, "set -g __tenax_actions");
    catalog_visit(add_action, b);
    buf_lit(b, "\n\n");
    add_names(b, "__tenax_at", "");
    buf_lit(b, "complete -c tenax -n '__tenax_at ' -a help -d 'explain a command'\n"
               "complete -c tenax -n '__tenax_at ' -s h -l help -d 'show help'\n"
               "complete -c tenax -n '__tenax_at ' -l version -d 'show the version'\n");
    add_names(b, "__tenax_first", "help");
    buf_lit(b, "complete -c tenax -n '__tenax_first help' -a 'exit-codes variables'\n");
    catalog_visit(add_command, b);
}
