/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "wire/wire_msgpack.h"
#include "base/json.h"
#include "base/must.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_json(struct str text)
{
    struct json_cursor c = json_open(text);
    return json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK;
}

/* MessagePack becomes valid JSON or an error with a position, and that JSON does not change when it
 * is converted to MessagePack and back. */
static void try_packed(struct str body)
{
    static struct buf json, packed, again;
    json.len = packed.len = again.len = 0;
    struct err e = wire_msgpack_to_json(body, SIZE_MAX, &json);
    if (e.code != ERR_OK) {
        must(e.offset >= 0 && (size_t)e.offset <= body.len);
        must(err_status(e.code) == 400);
        return;
    }
    must(is_json(buf_view(&json)));
    must(wire_msgpack_from_json(buf_view(&json), &packed).code == ERR_OK);
    must(packed.len <= body.len * 2 + 8); /* a float 32 becomes a float 64 */
    must(wire_msgpack_to_json(buf_view(&packed), SIZE_MAX, &again).code == ERR_OK);
    must(json.at && again.at && str_eq(buf_view(&json), buf_view(&again)));
    for (size_t i = 0; i < 4; i++)
        must(wire_msgpack_offset(body, json.len * i / 3) <= body.len);
}

/* Valid JSON becomes MessagePack that can be read again, unless a number exceeds the range of a
 * double; invalid JSON must do no harm. */
static void try_json(struct str text)
{
    static struct buf json, packed;
    json.len = packed.len = 0;
    struct err e = wire_msgpack_from_json(text, &packed);
    if (!is_json(text))
        return;
    must(e.code == ERR_OK);
    e = wire_msgpack_to_json(buf_view(&packed), SIZE_MAX, &json);
    must(e.code == ERR_OK || e.code == ERR_BAD_VALUE);
    must(e.code != ERR_OK || is_json(buf_view(&json)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str rest = {(const char *)data + 1, size - 1};
    if (data[0] & 1)
        try_json(rest);
    else
        try_packed(rest);
    /* Headers are untrusted, too. */
    (void)wire_msgpack_preferred(rest);
    (void)wire_msgpack_is(rest);
    return 0;
}
