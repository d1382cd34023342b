/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_ADMIN_H
#define CLIENT_ADMIN_H

/* For commands that need a server's admin listener. Where it is: what --admin-url or
 * TENAX_ADMIN_URL says; or else what the server says whose address every command takes (--url,
 * TENAX_URL), or that address itself, if it is the admin listener's. A server tells it to its own
 * machine alone. If there is no server at the default address, the default of the listener. */

#include "client/client.h"

/* Rows of the option table of a command whose struct has a member `struct client_args client`. */
#define ADMIN_OPTIONS(type)                                                                        \
    {"admin-url",                                                                                  \
     "URL",                                                                                        \
     OPTION_TEXT,                                                                                  \
     offsetof(type, client.admin_url),                                                             \
     .env = "TENAX_ADMIN_URL",                                                                     \
     .alias = "ZIZQ_ADMIN_URL",                                                                    \
     .help = "the server's admin listener; unless given, the server is asked where it is"},        \
        CLIENT_URL_OPTION(type)

/* As client_open. */
int admin_open(struct client *c, const struct subcommand *command, const struct client_args *args,
               const struct options *o);

#endif
