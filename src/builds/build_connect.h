/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BUILDS_BUILD_CONNECT_H
#define BUILDS_BUILD_CONNECT_H

/* The settings that concern the connection to RabbitMQ, as amqp/ takes them. */

#include "amqp/amqp_session.h"
#include "builds/build_settings.h"

#define BUILD_ADDRESSES_MAX 16

struct build_connect {
    struct amqp_settings settings; /* points into the rest, and into the build settings */
    struct amqp_address addresses[BUILD_ADDRESSES_MAX];
    struct amqp_tls tls;
    span reconnect; /* the longest delay before a new connection */
};

/* ERR_USAGE names the setting that is wrong. */
NODISCARD struct err build_connect_make(struct build_connect *c, struct build_settings *s);

#endif
