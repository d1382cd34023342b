/* SPDX-License-Identifier: Apache-2.0 */
#include "client/subcommand.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/context.h"

#define HELP_WIDTH 80

static void write_paragraphs(struct buf *b, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        options_wrap(b, (struct str){text, n}, 0, 0, HELP_WIDTH);
        buf_lit(b, "\n");
        text += n + (text[n] == '\n');
        if (*text)
            buf_lit(b, "\n");
    }
}

void subcommand_print(FILE *f, struct buf *b)
{
    if (b->len)
        fwrite(b->at, 1, b->len, f);
    b->len = 0;
}

void subcommand_help(struct buf *b, const struct subcommand *c)
{
    buf_print(b, "tenax %s: %s\n\nUsage:\n  tenax %s%s%s\n\n", c->name, c->summary, c->name,
              *c->usage ? " " : "", c->usage);
    write_paragraphs(b, c->about);
    if (c->options) {
        buf_lit(b, "\nOptions:\n");
        options_help(b, c->options, HELP_WIDTH);
    }
    buf_print(b, "\nExamples:\n%s", c->examples);
}

bool subcommand_begin(const struct subcommand *c, enum option_order order, int argc, char **argv,
                      void *values, struct options *out, int *code)
{
    struct err e = options_parse(c->options, order, argc, argv, values, out);
    if (e.code != ERR_OK) {
        *code = subcommand_usage(c, "%s", e.msg);
        return false;
    }
    if (!out->help) {
        e = context_apply(out, values);
        if (e.code == ERR_OK)
            return true;
        *code = subcommand_usage(c, "%s", e.msg);
        return false;
    }
    struct buf page = {0};
    subcommand_help(&page, c);
    subcommand_print(stdout, &page);
    buf_fini(&page);
    *code = CLI_OK;
    return false;
}

int subcommand_usage(const struct subcommand *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "tenax %s: ", c->name);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, "\n`tenax help %s` shows what it takes.\n", c->name);
    return CLI_USAGE;
}
