/* SPDX-License-Identifier: Apache-2.0 */

/* Records of groups of jobs. Their bytes are described in record.c. */

#include "core/group.h"

#include "base/must.h"
#include "store/record_parts.h"

struct str record_group_key(struct str name, char room[RECORD_GROUP_KEY_MAX])
{
    must(name.len > 0 && name.len < RECORD_GROUP_KEY_MAX);
    struct writer w = writer_into(room, RECORD_GROUP_KEY_MAX);
    writer_byte(&w, 'G');
    writer_bytes(&w, name.at, name.len);
    return (struct str){room, w.len};
}

bool record_key_is_group(struct str key, struct str *name)
{
    if (key.len < 2 || key.at[0] != 'G')
        return false;
    *name = (struct str){key.at + 1, key.len - 1};
    return true;
}

static void write_group(struct writer *w, const struct group_record *g)
{
    writer_byte(w, RECORD_VERSION);
    writer_text(w, g->owner);
    writer_opt(w, g->sealed_at.ms);
    writer_opt(w, g->retain_until.ms);
}

void record_put_group(struct batch *b, const struct group_record *g)
{
    char room[RECORD_GROUP_KEY_MAX];
    struct writer count = {0};
    write_group(&count, g);
    struct writer fill =
        writer_into(batch_put_room(b, record_group_key(g->name, room), count.len), count.len);
    write_group(&fill, g);
    must(fill.len == count.len);
}

struct err record_read_group(struct str value, struct str name, struct group_record *g)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "group"));
    g->name = name;
    g->owner = reader_text(&r, "owner");
    g->sealed_at = reader_instant(&r, "time of sealing");
    g->retain_until = reader_instant(&r, "retention");
    return record_finish(&r, "group");
}
