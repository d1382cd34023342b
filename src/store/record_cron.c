/* SPDX-License-Identifier: Apache-2.0 */

/* Records of cron groups. Their bytes are described in record.c. */

#include "store/record.h"

#include "base/must.h"
#include "core/job_fields.h"
#include "store/record_parts.h"

#define CRON_VERSION       2 /* of groups */
#define CRON_ENTRY_VERSION 3

static void write_pause(struct writer *w, const struct cron_pause *p)
{
    writer_byte(w, p->paused);
    writer_opt(w, p->paused_at.ms);
    writer_opt(w, p->resumed_at.ms);
}

static void write_cron_group(struct writer *w, const struct cron_group *g)
{
    writer_byte(w, CRON_VERSION);
    writer_text(w, g->name);
    write_pause(w, &g->pause);
    writer_text(w, g->zone);
}

/* A field that is missing here would be missing in the jobs of every tick: what is not in
 * struct job_options must be stored here, or be refused in an entry. But for what creates budgets:
 * it has done so when the entry is stored. An entry has neither id nor receipt. */
_Static_assert(sizeof(void *) != 8 || sizeof(struct enqueue) - sizeof(struct job_options) == 248,
               "a new field of struct enqueue must be stored with a cron entry, or refused in it");

static void write_cron_entry(struct writer *w, const struct cron_entry *c)
{
    const struct enqueue *job = &c->job;
    must(!instant_is_set(job->ready_at));
    writer_byte(w, CRON_ENTRY_VERSION);
    writer_id(w, c->group);
    writer_varint(w, c->position);
    writer_text(w, c->name);
    writer_text(w, c->expression);
    writer_text(w, c->zone);
    writer_text(w, job->queue);
    writer_text(w, job->type);
    writer_varint(w, job->priority);
    record_write_terms(w, job->retry_limit, &job->backoff, job->completed_retention,
                       job->dead_retention);
    writer_byte(w, job->unique_while);
    if (job->unique_while)
        writer_text(w, job->unique_key);
    writer_text(w, job->payload);
    record_write_fields(w, &job_option_fields, &job->options);
    writer_text(w, job->batch.key);
    if (job->batch.key.len) {
        writer_text(w, job->batch.when);
        writer_text(w, job->batch.fold);
    }
    writer_byte(w, c->classic);
}

static void write_cron_clock(struct writer *w, const struct cron_clock *c)
{
    writer_byte(w, RECORD_VERSION);
    writer_opt(w, c->next_at.ms);
    writer_opt(w, c->last_at.ms);
    write_pause(w, &c->pause);
}

void record_put_cron_group(struct batch *b, const struct cron_group *group)
{
    RECORD_PUT(b, record_cron_group_key(group->id), write_cron_group(w, group));
}

void record_put_cron_entry(struct batch *b, const struct cron_entry *entry)
{
    RECORD_PUT(b, record_cron_entry_key(entry->id), write_cron_entry(w, entry));
}

void record_put_cron_clock(struct batch *b, struct id id, const struct cron_clock *clock)
{
    RECORD_PUT(b, record_cron_clock_key(id), write_cron_clock(w, clock));
}

static struct cron_pause read_pause(struct reader *r)
{
    struct cron_pause p;
    p.paused = reader_byte(r, "pause", 1);
    p.paused_at = reader_instant(r, "paused_at");
    p.resumed_at = reader_instant(r, "resumed_at");
    return p;
}

struct err record_read_cron_group(struct str value, struct id id, struct cron_group *group)
{
    struct reader r = record_begin(value);
    unsigned version;
    TRY(record_read_version(&r, "cron group", CRON_VERSION, &version));
    group->id = id;
    group->name = reader_text(&r, "name");
    group->pause = read_pause(&r);
    group->zone = version < 2 ? (struct str){0} : reader_text(&r, "zone");
    return record_finish(&r, "cron group");
}

static void read_cron_batch(struct reader *r, struct job_batch *b)
{
    b->key = reader_text(r, "batch key");
    if (!b->key.len)
        return;
    b->when = reader_text(r, "when of the batch");
    b->fold = reader_text(r, "fold of the batch");
}

struct err record_read_cron_entry(struct str value, struct id id, struct cron_entry *entry)
{
    struct reader r = record_begin(value);
    unsigned version;
    TRY(record_read_version(&r, "cron entry", CRON_ENTRY_VERSION, &version));
    *entry = (struct cron_entry){.id = id, .job.ready_at = INSTANT_NONE};
    entry->group = reader_id(&r);
    entry->position = (uint32_t)reader_varint(&r, "position", UINT32_MAX);
    entry->name = reader_text(&r, "name");
    entry->expression = reader_text(&r, "expression");
    entry->zone = reader_text(&r, "zone");
    entry->job.queue = reader_text(&r, "queue");
    entry->job.type = reader_text(&r, "type");
    entry->job.priority = (uint16_t)reader_varint(&r, "priority", UINT16_MAX);
    record_read_terms(&r, &entry->job.retry_limit, &entry->job.backoff,
                      &entry->job.completed_retention, &entry->job.dead_retention);
    entry->job.unique_while = (enum unique)reader_byte(&r, "unique scope", UNIQUE_COUNT - 1);
    if (entry->job.unique_while)
        entry->job.unique_key = reader_text(&r, "unique key");
    entry->job.payload = reader_text(&r, "payload");
    record_read_fields(&r, &job_option_fields, &entry->job.options);
    if (version > 1)
        read_cron_batch(&r, &entry->job.batch);
    entry->classic = version < 3 || reader_byte(&r, "reading of days", 1);
    return record_finish(&r, "cron entry");
}

struct err record_read_cron_clock(struct str value, struct cron_clock *clock)
{
    struct reader r = record_begin(value);
    TRY(record_check_version(&r, "cron clock"));
    clock->next_at = reader_instant(&r, "next_at");
    clock->last_at = reader_instant(&r, "last_at");
    clock->pause = read_pause(&r);
    return record_finish(&r, "cron clock");
}
