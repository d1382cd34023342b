/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_SUBCOMMAND_H
#define CLIENT_SUBCOMMAND_H

/* What every command has: a page of help and an exit code from one list. */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "client/options.h"

/* The exit codes, explained by `tenax help exit-codes`. */
enum cli_exit {
    CLI_OK = 0,
    CLI_REFUSED = 1,     /* the server said no, or a job failed */
    CLI_USAGE = 2,       /* what was given on the command line or as input is wrong */
    CLI_UNREACHABLE = 3, /* no answer from the server */
    CLI_NOT_FOUND = 4,   /* there is no such job, cron group or entry */
};

struct subcommand {
    const char *name;
    const char *usage;   /* what follows "tenax NAME" */
    const char *summary; /* one line for the list of commands */
    const char *about;   /* paragraphs, each on one line, a line feed between them */
    const char *examples;
    const struct option_def *options; /* NULL if it takes none */
    const char *words;                /* "init|ca": what its first word may be, or NULL */
    const struct subcommand *(*page_of)(const char *word); /* of such a word; or NULL: none has */
    const char *rest; /* what its other words are, if a shell can complete it: FILE, DIR, or
                       * COMMAND with its arguments; else NULL */
};

/* Writes what is in b and empties it. */
void command_print(FILE *f, struct buf *b);

/* The whole page. */
void command_help(struct buf *b, const struct subcommand *c);

/* Parses the command line. False when there is nothing left to do: help was
 * asked for and printed, or a mistake was reported; *code is then the exit code. */
bool command_begin(const struct subcommand *c, enum option_order order, int argc, char **argv,
                   void *values, struct options *out, int *code);

/* Reports a mistake of whoever typed the command; returns CLI_USAGE. */
int command_usage(const struct subcommand *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
