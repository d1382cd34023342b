/* SPDX-License-Identifier: Apache-2.0 */
#include "net/chunk_ext.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

/* RFC 9110 §5.6.2. */
static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_text(char c)
{
    unsigned char u = (unsigned char)c;
    return c == '\t' || (u >= 0x20 && u != 0x7f);
}

bool chunk_ext_begins(char c)
{
    return c == ';' || is_space(c);
}

static bool go(struct chunk_ext *x, enum chunk_ext_place place)
{
    x->place = place;
    return true;
}

/* After a name or a value. */
static bool step_over(struct chunk_ext *x, char c, enum chunk_ext_place space)
{
    if (c == ';')
        return go(x, CHUNK_EXT_NAME_DUE);
    return is_space(c) && go(x, space);
}

static bool step_name(struct chunk_ext *x, char c)
{
    if (c == '=')
        return go(x, CHUNK_EXT_VALUE_DUE);
    if (x->place == CHUNK_EXT_NAME && is_token(c))
        return true;
    return step_over(x, c, CHUNK_EXT_NAMED);
}

static bool step_quoted(struct chunk_ext *x, char c)
{
    if (c == '"')
        return go(x, CHUNK_EXT_CLOSED);
    return c == '\\' ? go(x, CHUNK_EXT_ESCAPED) : is_text(c);
}

bool chunk_ext_step(struct chunk_ext *x, char c)
{
    switch (x->place) {
    case CHUNK_EXT_NONE:
    case CHUNK_EXT_START:
    case CHUNK_EXT_CLOSED:
        return step_over(x, c, CHUNK_EXT_START);
    case CHUNK_EXT_NAME_DUE:
        return is_space(c) || (is_token(c) && go(x, CHUNK_EXT_NAME));
    case CHUNK_EXT_NAME:
    case CHUNK_EXT_NAMED:
        return step_name(x, c);
    case CHUNK_EXT_VALUE_DUE:
        if (c == '"')
            return go(x, CHUNK_EXT_QUOTED);
        return is_space(c) || (is_token(c) && go(x, CHUNK_EXT_VALUE));
    case CHUNK_EXT_VALUE:
        return is_token(c) || step_over(x, c, CHUNK_EXT_START);
    case CHUNK_EXT_QUOTED:
        return step_quoted(x, c);
    case CHUNK_EXT_ESCAPED:
        return is_text(c) && go(x, CHUNK_EXT_QUOTED);
    }
    return false;
}

bool chunk_ext_end(const struct chunk_ext *x)
{
    return x->place == CHUNK_EXT_NONE || x->place == CHUNK_EXT_NAME ||
           x->place == CHUNK_EXT_VALUE || x->place == CHUNK_EXT_CLOSED;
}
