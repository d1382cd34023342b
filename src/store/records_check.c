/* SPDX-License-Identifier: Apache-2.0 */
#include "store/records_check.h"

#include <stdio.h>

#include "postgres/pg_shard.h"
#include "store/record.h"
#include "store/row_sum.h"

struct check {
    struct records_check *out;
    void (*tell)(const char *line);
    uint64_t needed; /* the next batch that records do not have */
};

void records_check_name(struct str key, struct buf *out)
{
    struct id id;
    enum note_kind kind;
    char text[ID_TEXT_LEN + 1] = "";
    const char *part = record_key_is_job(key, &id)           ? "first record"
                       : record_key_is_state(key, &id)       ? "state"
                       : record_key_is_payload(key, &id)     ? "payload"
                       : record_key_is_note(key, &id, &kind) ? "note"
                                                             : NULL;
    if (part) {
        id_format(id, text);
        buf_print(out, "%s of job %.25s", part, text);
        return;
    }
    buf_lit(out, "record with the key ");
    for (size_t i = 0; i < key.len && i < 64; i++)
        buf_print(out, "%02x", (unsigned char)key.at[i]);
}

static struct err look_at_record(void *ctx, const struct pg_record *record)
{
    struct check *c = ctx;
    c->out->records++;
    c->out->without += !record->sum.at;
    if (row_sum_is_right_of_record(record))
        return err_none();
    struct buf line = {0};
    c->out->damaged_records++;
    records_check_name(record->key, &line);
    buf_byte(&line, '\0');
    c->tell(line.at);
    buf_fini(&line);
    return err_none();
}

static struct err look_at_batch(void *ctx, const struct pg_log_row *row)
{
    struct check *c = ctx;
    char line[64];
    c->out->batches++;
    c->out->without += !row->sum.at;
    if (!c->out->missing && row->seq > c->needed)
        c->out->missing = c->needed;
    if (row->seq >= c->needed)
        c->needed = row->seq + 1;
    if (row_sum_is_right(row))
        return err_none();
    c->out->damaged_batches++;
    snprintf(line, sizeof line, "batch %llu of epoch %llu", (unsigned long long)row->seq,
             (unsigned long long)row->epoch);
    c->tell(line);
    return err_none();
}

struct err records_check(struct pg *pg, int shard, void (*tell)(const char *line),
                         struct records_check *out)
{
    struct pg_shard s;
    *out = (struct records_check){0};
    TRY(pg_shard_read(pg, shard, &s));
    struct check c = {out, tell, s.flushed + 1};
    TRY(pg_log_each(pg, shard, 1, look_at_batch, &c));
    if (!out->missing && c.needed <= s.seq)
        out->missing = c.needed;
    return pg_records_each(pg, shard, look_at_record, &c);
}
