/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SUBCOMMAND_H
#define CLIENT_SUBCOMMAND_H

/* What every command has: a help page, and an exit code from one list. */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "client/options.h"

/* The exit codes, explained by `tenax help exit-codes`. */
enum cli_exit {
    CLI_OK = 0,
    CLI_REFUSED = 1,     /* the server refused, or a job failed */
    CLI_USAGE = 2,       /* invalid options or input */
    CLI_UNREACHABLE = 3, /* no answer from the server */
    CLI_NOT_FOUND = 4,   /* there is no such job, cron group or entry */
};

struct subcommand {
    const char *name;
    const char *usage;   /* what follows "tenax NAME" */
    const char *summary; /* one line for the list of commands */
    const char *about;   /* paragraphs, each on one line, separated by line feeds */
    const char *examples;
    const struct option_def *options; /* NULL if it takes none */
    const char *words;                /* "init|ca": the possible first words, or NULL */
    const struct subcommand *(*page_of)(const char *word); /* the page of such a word; or NULL: none
                                                            * has one */
    const char *rest; /* what its other words are, if a shell can complete them: FILE, DIR, COMMAND
                       * with its arguments, or of the server ID, QUEUE, POLICY; otherwise NULL */
};

/* Writes the contents of b and empties it. */
void subcommand_print(FILE *f, struct buf *b);

/* The whole page. */
void subcommand_help(struct buf *b, const struct subcommand *c);

/* Parses the command line. False when there is nothing left to do: help was requested and printed,
 * or an error was reported; *code is then the exit code. */
bool subcommand_begin(const struct subcommand *c, enum option_order order, int argc, char **argv,
                      void *values, struct options *out, int *code);

/* Reports an error in the command line; returns CLI_USAGE. */
int subcommand_usage(const struct subcommand *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
