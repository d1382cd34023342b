/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BRIDGE_BRIDGE_FIELD_H
#define BRIDGE_BRIDGE_FIELD_H

/* Tables of fields, as the headers of a message are one, to JSON and back.
 *
 *   AMQP                       JSON
 *   text                       a string
 *   bytes, text not in UTF-8   {"$bytes": "base64"}
 *   any integer                a number; back as 32 bits if that is enough, else as 64
 *   float, double, decimal     a number; back as a double, if it has a fraction; NaN: null
 *   timestamp                  {"$timestamp": seconds}
 *   boolean, void              true or false, null
 *   table, array               an object, an array */

#include <amqp.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define BRIDGE_FIELD_DEPTH_MAX 32
#define BRIDGE_FIELD_NAME_MAX  255 /* bytes of a name, as of each short text of AMQP */

/* Adds the table as an object. ERR_BAD_UTF8 for a name that JSON cannot have, ERR_TOO_DEEP. */
NODISCARD struct err bridge_field_write(struct buf *b, const amqp_table_t *t);

/* Reads an object. The table lives in the arena or in the text. *size grows by the bytes that it
 * takes on the wire; ERR_BAD_VALUE beyond size_max. */
NODISCARD struct err bridge_field_read(struct json_cursor *c, struct arena *a, size_t size_max,
                                       size_t *size, amqp_table_t *out);

#endif
