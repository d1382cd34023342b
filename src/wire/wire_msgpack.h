/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_WIRE_MSGPACK_H
#define WIRE_WIRE_MSGPACK_H

/* MessagePack at the edge of the API: a request is turned into JSON before it is decoded, a
 * reply after it was encoded. So both formats say the same, and a payload may come as one
 * and leave as the other:
 *
 *   nil, booleans, strings, arrays, maps    their namesakes
 *   integers                                numbers without '.' and 'e', exact to 64 bits
 *   float 32, float 64                      numbers with a '.' or an 'e': 1.0 stays 1.0
 *
 * JSON has no bytes, extensions, timestamps, NaN and infinities, nor maps with keys that are
 * no strings: such requests are refused. MessagePack has no numbers beyond 64 bits: these
 * leave as the nearest float 64, which is infinite beyond 1.8e308. Half of a surrogate pair
 * that a JSON payload escapes leaves as U+FFFD. */

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Adds the JSON text of one MessagePack value. ERR_BAD_MSGPACK, ERR_BAD_TYPE, ERR_BAD_VALUE,
 * ERR_BAD_UTF8, ERR_TOO_DEEP, with the offset in body; json then holds an unfinished text.
 * ERR_LENGTH if the text becomes longer than `most`: it may have six times the bytes of the
 * body. */
NODISCARD struct err wire_msgpack_to_json(struct str body, size_t most, struct buf *json);
/* The offset in body of what became the byte at json_offset of its JSON text. */
size_t wire_msgpack_offset(struct str body, size_t json_offset);
/* Adds the MessagePack of a JSON text that is known to be one. ERR_BAD_JSON if it is not. */
NODISCARD struct err wire_msgpack_from_json(struct str json, struct buf *out);

/* Whether a Content-Type is MessagePack's. */
bool wire_msgpack_is(struct str content_type);
/* Whether an Accept prefers MessagePack, by itself or as a stream, to JSON (RFC 9110 §12.5.1;
 * of equals the first). */
bool wire_msgpack_preferred(struct str accept);
/* Whether either header mentions it: if not, nothing of this is called. */
bool wire_msgpack_mentioned(struct str content_type, struct str accept);

#endif
