/* SPDX-License-Identifier: Apache-2.0 */
#include "store/record_parts.h"

/* The bytes of version 1; see store/writer.h for the parts.
 *
 *   APART   byte version, byte part, varint table */

/* These numbers are on disk. */
_Static_assert(APART_JOB == 0 && APART_STATE == 1 && APART_PAYLOAD == 2 && APART_NOTE == 3,
               "stored parts keep their numbers");

static void write_apart(struct writer *w, const struct record_apart *apart)
{
    writer_byte(w, RECORD_VERSION);
    writer_byte(w, apart->part);
    writer_varint(w, apart->table);
}

void record_put_apart(struct batch *b, struct id id, const struct record_apart *apart)
{
    RECORD_PUT(b, record_apart_key(id), write_apart(w, apart));
}

struct err record_read_apart(struct str value, struct record_apart *apart)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "set-apart"));
    apart->part = (enum apart_part)reader_byte(&r, "part", APART_PARTS - 1);
    apart->table = reader_varint(&r, "table", UINT64_MAX);
    return record_finish(&r, "set-apart");
}

const char *record_apart_name(enum apart_part part)
{
    static const char *const names[APART_PARTS] = {"first record", "state", "payload", "note"};
    must(part < APART_PARTS);
    return names[part];
}
