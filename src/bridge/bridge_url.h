/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BRIDGE_BRIDGE_URL_H
#define BRIDGE_BRIDGE_URL_H

/* The address of a RabbitMQ as one text, in the form of RabbitMQ's own URI specification, with
 * several brokers if need be:
 *
 *   amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]]...[/VHOST] */

#include "amqp/amqp_session.h"
#include "base/arena.h"

#define BRIDGE_ADDRESSES_MAX 16

struct bridge_url {
    bool tls;
    const char *user;     /* NULL: none */
    const char *password; /* NULL: none */
    const char *vhost;    /* "/" if there is none */
    struct amqp_address addresses[BRIDGE_ADDRESSES_MAX];
    size_t address_count;
};

/* User, password and virtual host may be percent-encoded. Texts live in the arena. The error, an
 * ERR_USAGE, quotes nothing of the URL, which may have a password. */
NODISCARD struct err bridge_url_read(struct str text, struct arena *a, struct bridge_url *out);

#endif
