/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AMQP_HEADERS_H
#define AMQP_HEADERS_H

/* Reading the headers of a message. Numbers may come in any of AMQP's integer types, or as text:
 * clients differ. */

#include <amqp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The entry of that name, or NULL. */
const amqp_field_value_t *amqp_headers_find(const amqp_table_t *headers, struct str name);
/* Whether there is such a number; a fraction is cut off. */
bool amqp_headers_int(const amqp_table_t *headers, struct str name, int64_t *out);
bool amqp_headers_text(const amqp_table_t *headers, struct str name, struct str *out);
/* How often the message was dead-lettered from a queue for a reason (both of the broker's `x-death`
 * header: "rejected", "expired", …); empty means any. The newest matching entry counts, as the
 * broker puts it first. */
int64_t amqp_headers_deaths(const amqp_table_t *headers, struct str queue, struct str reason);

#endif
