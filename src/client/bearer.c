/* SPDX-License-Identifier: Apache-2.0 */
#include "client/bearer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "TENAX_TOKEN"

static struct err add(struct str token, const char *source, struct buf *line)
{
    while (token.len && strchr(" \t\r\n", token.at[token.len - 1]))
        token.len--;
    if (token.len == 0 || token.len > BEARER_MAX)
        return err_make(ERR_BAD_VALUE, "%.150s has no token", source);
    for (size_t i = 0; i < token.len; i++)
        if (token.at[i] <= ' ' || token.at[i] > '~')
            return err_make(ERR_BAD_VALUE, "%.150s has more than a token, or none", source);
    buf_lit(line, "Authorization: Bearer ");
    buf_str(line, token);
    return err_none();
}

static struct err add_file(const char *file, struct buf *line)
{
    char text[BEARER_MAX + 2];
    FILE *f = fopen(file, "re");
    if (!f)
        return err_make(ERR_IO, "%.150s: %s", file, strerror(errno));
    size_t n = fread(text, 1, sizeof text, f);
    bool failed = ferror(f) != 0;
    fclose(f);
    struct err err = failed ? err_make(ERR_IO, "%.150s cannot be read", file)
                            : add((struct str){text, n}, file, line);
    explicit_bzero(text, sizeof text);
    return err;
}

struct err bearer_line(const char *file, struct buf *line)
{
    const char *token = getenv(VARIABLE);
    if (file && *file)
        return add_file(file, line);
    return token && *token ? add(str_from(token), VARIABLE, line) : err_none();
}
