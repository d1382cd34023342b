/* SPDX-License-Identifier: Apache-2.0 */

/* Records of groups of failures.
 *
 *   'Y' fingerprint  GROUP  byte version, text queue, text type, text error type, text category,
 *                           text message, byte outcome, byte condition, zigzag exit code, zigzag
 *                           signal, opt first seen, opt last seen, varint count, COUNTS of minutes,
 *                           COUNTS of hours, varint count of samples, then for each: id as 16 bytes
 *                           big-endian, varint run, opt time; varint count of culprits, then for
 *                           each: byte culprit, varint count
 *
 * Version 1 has no culprits.
 *
 *   COUNTS   varint number of the newest period, then for each period that is not empty, the newest
 *            first: varint 1 + how many periods before the one before it (the first: before the
 *            newest), varint count; at the end varint 0 */

#include "store/record_parts.h"

#include "base/must.h"

#define GROUP_VERSION 2

struct record_key record_failure_group_key(uint64_t fingerprint)
{
    struct record_key k = record_history_key(fingerprint);
    k.bytes[0] = 'Y';
    return k;
}

bool record_key_is_failure_group(struct str key, uint64_t *fingerprint)
{
    struct record_key k;
    if (key.len != 9 || key.at[0] != 'Y')
        return false;
    memcpy(k.bytes, key.at, key.len);
    k.bytes[0] = 'F';
    return record_key_is_history((struct str){k.bytes, key.len}, fingerprint) && *fingerprint;
}

static void write_counts(struct writer *w, const struct failure_counts *c, int periods)
{
    int64_t at = c->newest;
    writer_varint(w, (uint64_t)c->newest);
    for (int64_t p = c->newest; p > c->newest - periods && p >= 0; p--) {
        if (!c->at[p % periods])
            continue;
        writer_varint(w, (uint64_t)(1 + at - p));
        writer_varint(w, c->at[p % periods]);
        at = p;
    }
    writer_varint(w, 0);
}

static void write_culprits(struct writer *w, const struct failure_group *g)
{
    struct failure_blame blames[CULPRIT_COUNT];
    size_t n = failure_group_blames(g, blames);
    writer_varint(w, n);
    for (size_t i = 0; i < n; i++) {
        writer_byte(w, blames[i].culprit);
        writer_varint(w, blames[i].count);
    }
}

static void write_group(struct writer *w, const struct failure_group *g)
{
    writer_byte(w, GROUP_VERSION);
    writer_text(w, g->queue);
    writer_text(w, g->type);
    writer_text(w, g->error_type);
    writer_text(w, g->category);
    writer_text(w, g->message);
    writer_byte(w, g->outcome);
    writer_byte(w, g->condition);
    writer_zigzag(w, g->exit_code);
    writer_zigzag(w, g->signal);
    writer_opt(w, g->first_seen.ms);
    writer_opt(w, g->last_seen.ms);
    writer_varint(w, g->count);
    write_counts(w, &g->minutes, FAILURE_GROUP_MINUTES);
    write_counts(w, &g->hours, FAILURE_GROUP_HOURS);
    writer_varint(w, g->sample_count);
    for (size_t i = 0; i < g->sample_count; i++) {
        writer_id(w, g->samples[i].job);
        writer_varint(w, g->samples[i].run);
        writer_opt(w, g->samples[i].at.ms);
    }
    write_culprits(w, g);
}

void record_put_failure_group(struct batch *b, const struct failure_group *g)
{
    RECORD_PUT(b, record_failure_group_key(g->fingerprint), write_group(w, g));
}

static void read_counts(struct reader *r, const char *part, struct failure_counts *c, int periods)
{
    *c = (struct failure_counts){.newest = (int64_t)reader_varint(r, part, INT64_MAX)};
    int64_t at = c->newest;
    for (bool first = true;; first = false) {
        uint64_t back = reader_varint(r, part, (uint64_t)periods + 1);
        if (back == 0)
            return;
        at -= (int64_t)back - 1;
        if ((back == 1 && !first) || at < 0 || at <= c->newest - periods) {
            reader_fault(r, part);
            return;
        }
        uint32_t n = c->at[at % periods] = (uint32_t)reader_varint(r, part, UINT32_MAX);
        if (n == 0)
            reader_fault(r, part);
    }
}

static void read_samples(struct reader *r, struct failure_group *g)
{
    g->sample_count = reader_varint(r, "samples", FAILURE_GROUP_SAMPLES);
    for (size_t i = 0; i < g->sample_count; i++) {
        g->samples[i].job = reader_id(r);
        g->samples[i].run = (uint32_t)reader_varint(r, "run", UINT32_MAX);
        g->samples[i].at = reader_instant(r, "time");
    }
}

static void read_culprits(struct reader *r, struct failure_group *g)
{
    size_t n = reader_varint(r, "culprits", CULPRIT_COUNT - 1);
    for (size_t i = 0; i < n; i++) {
        unsigned c = reader_byte(r, "culprit", CULPRIT_COUNT - 1);
        if (c == CULPRIT_NONE || g->culprits[c])
            reader_fault(r, "culprit");
        g->culprits[c] = reader_varint(r, "count of a culprit", UINT64_MAX);
        if (!g->culprits[c])
            reader_fault(r, "count of a culprit");
    }
}

struct err record_read_failure_group(struct str value, uint64_t fingerprint,
                                     struct failure_group *g)
{
    struct reader r = record_begin(value);
    unsigned version;
    TRY(record_read_version(&r, "failure group", GROUP_VERSION, &version));
    *g = (struct failure_group){.fingerprint = fingerprint};
    g->queue = reader_text(&r, "queue");
    g->type = reader_text(&r, "type");
    g->error_type = reader_text(&r, "error type");
    g->category = reader_text(&r, "category");
    g->message = reader_text(&r, "message");
    g->outcome = (enum outcome)reader_byte(&r, "outcome", OUTCOME_COUNT - 1);
    g->condition = (enum condition)reader_byte(&r, "condition", CONDITION_COUNT - 1);
    g->exit_code = reader_zigzag32(&r, "exit code");
    g->signal = reader_zigzag32(&r, "signal");
    g->first_seen = reader_instant(&r, "first seen");
    g->last_seen = reader_instant(&r, "last seen");
    g->count = reader_varint(&r, "count", UINT64_MAX);
    read_counts(&r, "minutes", &g->minutes, FAILURE_GROUP_MINUTES);
    read_counts(&r, "hours", &g->hours, FAILURE_GROUP_HOURS);
    read_samples(&r, g);
    if (version > 1)
        read_culprits(&r, g);
    return record_finish(&r, "failure group");
}
