/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_CONTEXT_H
#define CLIENT_CONTEXT_H

/* Named servers: an address and by what it is trusted and asked, in one file of the user's,
 * $XDG_CONFIG_HOME/tenax/contexts.json. It has no secrets: a token is in a file of its own, which
 * a context only names.
 *
 * A command's value comes from the flag, or else from the variable, or else from the context. What
 * a context says of its server is used for this one alone: with another address, from a flag or a
 * variable, neither its token nor its certificates are. */

#include "base/arena.h"
#include "base/buf.h"
#include "client/options.h"

enum context_field {
    CONTEXT_URL,
    CONTEXT_TOKEN_FILE,
    CONTEXT_CA,
    CONTEXT_CERT,
    CONTEXT_KEY,
    CONTEXT_ADMIN_URL,
    CONTEXT_FIELDS,
};

/* As members of the file: "token_file". */
extern const char *const context_members[CONTEXT_FIELDS];

struct context {
    const char *name;
    const char *field[CONTEXT_FIELDS]; /* NULL: not said */
};

struct contexts {
    struct context *at;
    size_t count, cap;
    const char *current; /* a name; or NULL */
    struct arena arena;  /* of all texts */
};

/* Adds the path of the file. False: the environment says of no home. */
bool context_path(struct buf *path);

/* Reads the file; none is an empty list. ERR_BAD_VALUE and the like: what it has is malformed. */
NODISCARD struct err context_read(struct contexts *all);
/* Replaces the file. */
NODISCARD struct err context_write(const struct contexts *all);
void context_fini(struct contexts *all);

/* The one with this name, or NULL. */
struct context *context_find(const struct contexts *all, const char *name);
/* 1 to 64 letters, digits, '-', '_' and '.'. */
bool context_is_name(const char *name);

/* Fills in what the command line and the environment leave open, of a command that has the option
 * --context. The texts live as long as the process. ERR_USAGE: there is no such context. */
NODISCARD struct err context_apply(struct options *o, void *values);

#endif
