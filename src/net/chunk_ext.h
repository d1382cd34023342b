/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_CHUNK_EXT_H
#define NET_CHUNK_EXT_H

/* The extensions of a chunk, which stand between its size and the end of that line (RFC 9112
 * §7.1.1). None means anything here: they are checked and passed over. */

#include <stdbool.h>

enum chunk_ext_place {
    CHUNK_EXT_NONE,
    CHUNK_EXT_START, /* white space before a ';' */
    CHUNK_EXT_NAME_DUE,
    CHUNK_EXT_NAME,
    CHUNK_EXT_NAMED, /* white space after the name */
    CHUNK_EXT_VALUE_DUE,
    CHUNK_EXT_VALUE,
    CHUNK_EXT_QUOTED,
    CHUNK_EXT_ESCAPED, /* after a backslash in quotes */
    CHUNK_EXT_CLOSED,  /* after the second quote */
};

/* Zero-initialised it is at the end of the size. */
struct chunk_ext {
    enum chunk_ext_place place;
};

/* Whether extensions may begin with it. */
bool chunk_ext_begins(char c);
/* False if the byte cannot stand there. */
bool chunk_ext_step(struct chunk_ext *x, char c);
/* Whether the line may end there. */
bool chunk_ext_end(const struct chunk_ext *x);

#endif
