/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/checksum.h"
#include "store/log.h"

#define VERSION 2 /* before it nothing was said of the batches before a frame */
#define HEADER  (LOG_SECTOR - LOG_SECTOR_ROOM)
#define CHUNK   ((size_t)64 * 1024)

/* --- numbers --- */

static void put(unsigned char *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

static uint64_t take(const unsigned char *at, int bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | at[bytes];
    return v;
}

static uint32_t checksum_of(const unsigned char *sector, uint64_t place)
{
    unsigned char bytes[8];
    put(bytes, place, 8);
    return checksum_add(checksum_add(0, bytes, sizeof bytes), sector + 4, LOG_SECTOR - 4);
}

/* --- writing --- */

/* The last batch before a frame of that kind. */
static uint64_t last_before(unsigned kind, uint64_t number)
{
    return kind == LOG_BATCH && number ? number - 1 : number;
}

/* How many of the batches up to `last` are after that one, in a byte. */
static unsigned char distance(uint64_t last, uint64_t one)
{
    must(one <= last);
    return last - one < UINT8_MAX ? (unsigned char)(last - one + 1) : 0;
}

static uint64_t undo_distance(uint64_t last, unsigned char byte)
{
    return byte && last >= byte - 1u ? last - (byte - 1u) : 0;
}

static size_t sectors_of(size_t len)
{
    return len ? (len + LOG_SECTOR_ROOM - 1) / LOG_SECTOR_ROOM : 1;
}

size_t log_frame_size(size_t contents_len)
{
    size_t bytes = sectors_of(contents_len) * LOG_SECTOR;
    return (bytes + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK;
}

static void write_sector(unsigned char *to, uint64_t place, const struct log_frame *f, size_t index,
                         struct str contents)
{
    size_t from = index * LOG_SECTOR_ROOM;
    size_t len = contents.len - from < LOG_SECTOR_ROOM ? contents.len - from : LOG_SECTOR_ROOM;
    to[4] = (unsigned char)f->kind;
    to[5] = VERSION;
    to[6] = distance(last_before(f->kind, f->number), f->durable);
    to[7] = distance(last_before(f->kind, f->number), f->synced);
    put(to + 8, f->generation, 8);
    put(to + 16, f->number, 8);
    put(to + 24, index, 4);
    put(to + 28, contents.len, 4);
    if (len)
        memcpy(to + HEADER, contents.at + from, len);
    memset(to + HEADER + len, 0, LOG_SECTOR_ROOM - len);
    put(to, checksum_of(to, place), 4);
}

void log_frame_write(unsigned char *to, uint64_t place, const struct log_frame *f)
{
    unsigned char own[16];
    struct str contents = f->contents;
    must(place % LOG_BLOCK == 0 && contents.len <= UINT32_MAX);
    if (f->kind != LOG_BATCH) {
        put(own, f->other, 8);
        put(own + 8, f->size, 8);
        size_t len = f->kind == LOG_SEGMENT ? 16 : f->kind == LOG_REST ? 0 : 8;
        contents = (struct str){(char *)own, len};
    }
    size_t count = sectors_of(contents.len), size = log_frame_size(contents.len);
    for (size_t i = 0; i < count; i++)
        write_sector(to + i * LOG_SECTOR, place + i * LOG_SECTOR, f, i, contents);
    memset(to + count * LOG_SECTOR, 0, size - count * LOG_SECTOR);
}

/* --- looking at one sector --- */

enum state { ZERO, WHOLE, BROKEN };

struct sector {
    enum state state;
    unsigned kind;
    uint64_t generation, number;
    uint64_t durable, synced; /* 0: it does not say */
    size_t index, length;
    const unsigned char *contents; /* valid until the next look */
};

/* Makes the bytes from `at` on available, as far as the file has them. */
NODISCARD static struct err fill(struct log_reader *r, uint64_t at)
{
    if (!r->chunk)
        r->chunk = alloc_get(CHUNK);
    r->chunk_at = at;
    r->chunk_len = 0;
    while (r->chunk_len < CHUNK) {
        ssize_t n =
            pread(r->fd, r->chunk + r->chunk_len, CHUNK - r->chunk_len, (off_t)(at + r->chunk_len));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_make(ERR_IO, "cannot read the log: %s", strerror(errno));
        if (n == 0)
            break;
        r->chunk_len += (size_t)n;
    }
    return err_none();
}

/* What the sector there is. Beyond the end of the file it is broken: a segment has its full length
 * from the start. */
NODISCARD static struct err look(struct log_reader *r, uint64_t at, struct sector *s)
{
    *s = (struct sector){.state = BROKEN};
    if (at < r->chunk_at || at + LOG_SECTOR > r->chunk_at + r->chunk_len)
        TRY(fill(r, at));
    if (r->chunk_len < at - r->chunk_at + LOG_SECTOR)
        return err_none();
    const unsigned char *b = r->chunk + (at - r->chunk_at);
    if (b[0] == 0 && memcmp(b, b + 1, LOG_SECTOR - 1) == 0) {
        s->state = ZERO;
        return err_none();
    }
    s->generation = take(b + 8, 8); /* as it says; who knows what is broken */
    if (take(b, 4) != checksum_of(b, b[5] == 1 ? at : log_frame_place(r->segment, at)))
        return err_none();
    if (b[5] < 1 || b[5] > VERSION)
        return err_make(ERR_VERSION, "the log was written by a newer tenax: use that one");
    uint64_t number = take(b + 16, 8), last = last_before(b[4], number);
    *s = (struct sector){.state = WHOLE,
                         .kind = b[4],
                         .generation = take(b + 8, 8),
                         .number = number,
                         .durable = undo_distance(last, b[6]),
                         .synced = undo_distance(last, b[7]),
                         .index = (size_t)take(b + 24, 4),
                         .length = (size_t)take(b + 28, 4),
                         .contents = b + HEADER};
    return err_none();
}

/* --- reading a segment --- */

struct err log_reader_open(struct log_reader *r, uint64_t segment, int fd, enum log_head *head,
                           struct log_frame *f)
{
    struct sector s;
    *r = (struct log_reader){.segment = segment, .fd = fd, .at = LOG_BLOCK};
    *f = (struct log_frame){.kind = LOG_SEGMENT};
    TRY(look(r, 0, &s));
    *head = s.state == ZERO ? LOG_HEAD_BLANK : LOG_HEAD_BROKEN;
    if (s.state != WHOLE || s.kind != LOG_SEGMENT || s.length != 16 || s.index != 0)
        return err_none();
    f->generation = s.generation;
    f->number = s.number;
    f->other = take(s.contents, 8);
    f->size = take(s.contents + 8, 8);
    if (f->size < 2 * LOG_BLOCK || f->size % LOG_BLOCK || f->size > INT64_MAX)
        return err_none();
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_make(ERR_IO, "cannot look at the log: %s", strerror(errno));
    r->size = f->size < (uint64_t)st.st_size ? f->size : (uint64_t)st.st_size;
    r->generation = f->generation;
    r->last = f->number;
    TRY(look(r, LOG_BLOCK, &s));
    bool free = s.state == ZERO || (s.state == WHOLE && s.generation < f->generation);
    *head = free ? LOG_HEAD_UNUSED : LOG_HEAD_USED;
    return err_none();
}

void log_reader_fini(struct log_reader *r)
{
    free(r->chunk);
    r->chunk = NULL;
}

static struct err damaged(struct log_reader *r, enum log_found *found, const char *fault)
{
    *found = LOG_FOUND_DAMAGE;
    r->fault = fault;
    return err_none();
}

static void note_durable(struct log_reader *r, const struct sector *s)
{
    if (s->durable > r->durable)
        r->durable = s->durable;
    if (s->synced > r->synced)
        r->synced = s->synced;
}

/* Whether a sector behind the end is of a batch that may have been under way together with the one
 * that is missing, or a note of idleness that the latter should have replaced: anything else was
 * written after it was durable. */
static bool may_be_under_way(const struct log_reader *r, const struct sector *s)
{
    if (s->generation == r->generation && s->kind == LOG_REST && s->number == r->last)
        return true;
    return s->generation == r->generation && s->kind == LOG_BATCH && s->number > r->last &&
           s->number <= r->last + LOG_UNDER_WAY_MAX;
}

/* The next batch is not there, or not as a whole: whether it was under way, everything behind it
 * tells. What is broken there matters if it was written since: a write may have come to a wrong
 * place. */
NODISCARD static struct err ended(struct log_reader *r, enum log_found *found)
{
    struct sector s;
    bool later = false;
    for (uint64_t at = r->at; at + LOG_SECTOR <= r->size; at += LOG_SECTOR) {
        TRY(look(r, at, &s));
        if (s.state == BROKEN && s.generation == r->generation)
            return damaged(r, found, "a part of a batch is broken or in the wrong place");
        if (s.state != WHOLE || s.generation < r->generation)
            continue;
        note_durable(r, &s);
        later |= !may_be_under_way(r, &s);
    }
    if (r->synced > r->last || (later && r->durable <= r->last))
        return damaged(r, found, "a batch is missing that others follow");
    *found = r->durable > r->last ? LOG_FOUND_UNSYNCED : LOG_FOUND_END;
    r->fault = r->durable > r->last ? "batches that were never synced are missing" : NULL;
    return err_none();
}

enum gathered { GATHERED, TORN, FAULTY };

/* Gathers the sectors of the batch that begins there, with this one. TORN: the disk has not got
 * some of them; FAULTY: r->fault says why. */
NODISCARD static struct err gather(struct log_reader *r, uint64_t at, const struct sector *first,
                                   enum gathered *how, struct buf *contents)
{
    const struct sector head = *first;
    size_t left = head.length, count = sectors_of(left);
    *how = FAULTY;
    r->fault = "a batch is longer than its segment";
    if (count > (r->size - at) / LOG_SECTOR)
        return err_none();
    bool torn = false;
    for (size_t i = 0; i < count; i++) {
        struct sector s;
        TRY(look(r, at + i * LOG_SECTOR, &s));
        r->fault = "a part of a batch is neither as it was written nor as before";
        if (s.state == BROKEN)
            return err_none();
        if (s.state == ZERO || s.generation < head.generation) {
            torn = true;
            continue;
        }
        r->fault = "a part of a batch belongs to another";
        if (s.kind != LOG_BATCH || s.generation != head.generation || s.number != head.number ||
            s.index != i || s.length != head.length)
            return err_none();
        size_t len = left < LOG_SECTOR_ROOM ? left : LOG_SECTOR_ROOM;
        buf_add(contents, s.contents, len);
        left -= len;
    }
    r->fault = NULL;
    *how = torn ? TORN : GATHERED;
    return err_none();
}

NODISCARD static struct err read_batch(struct log_reader *r, const struct sector *first,
                                       enum log_found *found, struct buf *contents)
{
    enum gathered how;
    uint64_t number = first->number;
    size_t size = log_frame_size(first->length);
    TRY(gather(r, r->at, first, &how, contents));
    if (how == FAULTY)
        return damaged(r, found, r->fault);
    if (how == TORN)
        return ended(r, found);
    r->at += size;
    r->last = number;
    *found = LOG_FOUND_BATCH;
    return err_none();
}

/* A frame that begins with this sector, which is not free; *again if it was a mark. */
NODISCARD static struct err read_frame(struct log_reader *r, const struct sector *s,
                                       enum log_found *found, struct log_frame *f,
                                       struct buf *contents, bool *again)
{
    bool here = s->generation == r->generation && s->index == 0;
    uint64_t other = take(s->contents, 8);
    f->kind = (enum log_frame_kind)s->kind;
    f->number = s->number;
    f->generation = s->generation;
    if (here && s->kind == LOG_BATCH && s->number == r->last + 1)
        return read_batch(r, s, found, contents);
    if (here && s->kind == LOG_SEAL && s->number == r->last && other > r->generation) {
        f->other = other;
        *found = LOG_FOUND_SEAL;
        return err_none();
    }
    if (here && s->kind == LOG_REST && s->number == r->last)
        return ended(r, found);
    bool marks = s->kind == LOG_MARK && s->index == 0 && s->generation > r->generation &&
                 s->number == r->last && other == r->generation;
    if (!marks)
        return damaged(r, found, "there is something that does not belong there");
    r->generation = s->generation;
    r->at += LOG_BLOCK;
    *again = true;
    return err_none();
}

struct err log_reader_next(struct log_reader *r, enum log_found *found, struct log_frame *f,
                           struct buf *contents)
{
    contents->len = 0;
    for (bool again = true; again;) {
        struct sector s;
        again = false;
        if (r->at + LOG_BLOCK > r->size)
            return ended(r, found);
        TRY(look(r, r->at, &s));
        if (s.state == BROKEN)
            return damaged(r, found,
                           "the beginning of a batch is neither as it was written nor as before");
        if (s.state == ZERO || s.generation < r->generation)
            return ended(r, found);
        TRY(read_frame(r, &s, found, f, contents, &again));
    }
    return err_none();
}

struct err log_reader_peek(struct log_reader *r, uint64_t at, bool *there, struct log_frame *f,
                           struct buf *contents)
{
    struct sector s;
    enum gathered how = GATHERED;
    contents->len = 0;
    TRY(look(r, at, &s));
    *there = s.state == WHOLE && s.index == 0;
    if (!*there)
        return err_none();
    *f = (struct log_frame){.kind = (enum log_frame_kind)s.kind,
                            .generation = s.generation,
                            .number = s.number,
                            .durable = s.durable,
                            .synced = s.synced,
                            .other = take(s.contents, 8),
                            .size = log_frame_size(s.length)};
    if (s.kind == LOG_BATCH)
        TRY(gather(r, at, &s, &how, contents));
    *there = how == GATHERED;
    return err_none();
}
