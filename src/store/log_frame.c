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

#define VERSION 1
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

/* The place is part of it: what belongs elsewhere is not taken for what belongs here. */
static uint32_t checksum_of(const unsigned char *sector, uint64_t at)
{
    unsigned char place[8];
    put(place, at, 8);
    return checksum_add(checksum_add(0, place, sizeof place), sector + 4, LOG_SECTOR - 4);
}

/* --- writing --- */

static size_t sectors_of(size_t len)
{
    return len ? (len + LOG_SECTOR_ROOM - 1) / LOG_SECTOR_ROOM : 1;
}

size_t log_frame_size(size_t contents_len)
{
    size_t bytes = sectors_of(contents_len) * LOG_SECTOR;
    return (bytes + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK;
}

static void write_sector(unsigned char *to, uint64_t at, const struct log_frame *f, size_t index,
                         struct str contents)
{
    size_t from = index * LOG_SECTOR_ROOM;
    size_t len = contents.len - from < LOG_SECTOR_ROOM ? contents.len - from : LOG_SECTOR_ROOM;
    to[4] = (unsigned char)f->kind;
    to[5] = VERSION;
    to[6] = to[7] = 0;
    put(to + 8, f->generation, 8);
    put(to + 16, f->number, 8);
    put(to + 24, index, 4);
    put(to + 28, contents.len, 4);
    if (len)
        memcpy(to + HEADER, contents.at + from, len);
    memset(to + HEADER + len, 0, LOG_SECTOR_ROOM - len);
    put(to, checksum_of(to, at), 4);
}

void log_frame_write(unsigned char *to, uint64_t at, const struct log_frame *f)
{
    unsigned char own[16];
    struct str contents = f->contents;
    must(at % LOG_BLOCK == 0 && contents.len <= UINT32_MAX);
    if (f->kind != LOG_BATCH) {
        put(own, f->other, 8);
        put(own + 8, f->size, 8);
        contents = (struct str){(char *)own, f->kind == LOG_SEGMENT ? 16 : 8};
    }
    size_t count = sectors_of(contents.len), size = log_frame_size(contents.len);
    for (size_t i = 0; i < count; i++)
        write_sector(to + i * LOG_SECTOR, at + i * LOG_SECTOR, f, i, contents);
    memset(to + count * LOG_SECTOR, 0, size - count * LOG_SECTOR);
}

/* --- looking at one sector --- */

enum state { ZERO, WHOLE, BROKEN };

struct sector {
    enum state state;
    unsigned kind;
    uint64_t generation, number;
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
    if (take(b, 4) != checksum_of(b, at))
        return err_none();
    if (b[5] != VERSION)
        return err_make(ERR_VERSION, "the log was written by a newer tenax: use that one");
    *s = (struct sector){.state = WHOLE,
                         .kind = b[4],
                         .generation = take(b + 8, 8),
                         .number = take(b + 16, 8),
                         .index = (size_t)take(b + 24, 4),
                         .length = (size_t)take(b + 28, 4),
                         .contents = b + HEADER};
    return err_none();
}

/* --- reading a segment --- */

struct err log_reader_open(struct log_reader *r, int fd, enum log_head *head, struct log_frame *f)
{
    struct sector s;
    *r = (struct log_reader){.fd = fd, .at = LOG_BLOCK};
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

/* The next batch is not there, or not as a whole. Then it was under way, and so may have been those
 * that are less than LOG_UNDER_WAY_MAX after it; anything later says that it was acknowledged. */
NODISCARD static struct err ended(struct log_reader *r, enum log_found *found)
{
    struct sector s;
    for (uint64_t at = r->at; at + LOG_BLOCK <= r->size; at += LOG_BLOCK) {
        TRY(look(r, at, &s));
        if (s.state != WHOLE || s.generation < r->generation)
            continue;
        bool was_under_way = s.generation == r->generation && s.kind == LOG_BATCH &&
                             s.number > r->last && s.number <= r->last + LOG_UNDER_WAY_MAX;
        if (!was_under_way)
            return damaged(r, found, "a batch is missing that others follow");
    }
    *found = LOG_FOUND_END;
    return err_none();
}

/* Gathers the sectors of the batch that begins here. */
NODISCARD static struct err read_batch(struct log_reader *r, const struct sector *first,
                                       enum log_found *found, struct buf *contents)
{
    size_t left = first->length, count = sectors_of(left);
    bool torn = false;
    if (count > (r->size - r->at) / LOG_SECTOR)
        return damaged(r, found, "a batch is longer than its segment");
    for (size_t i = 0; i < count; i++) {
        struct sector s;
        TRY(look(r, r->at + i * LOG_SECTOR, &s));
        if (s.state == BROKEN)
            return damaged(r, found,
                           "a part of a batch is neither as it was written nor as before");
        if (s.state == ZERO || s.generation < r->generation) {
            torn = true;
            continue;
        }
        if (s.kind != LOG_BATCH || s.generation != r->generation || s.number != first->number ||
            s.index != i || s.length != first->length)
            return damaged(r, found, "a part of a batch belongs to another");
        size_t len = left < LOG_SECTOR_ROOM ? left : LOG_SECTOR_ROOM;
        buf_add(contents, s.contents, len);
        left -= len;
    }
    if (torn)
        return ended(r, found);
    r->at += log_frame_size(first->length);
    r->last = first->number;
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
