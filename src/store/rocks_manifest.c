/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/folder.h"
#include "store/reader.h"
#include "store/rocks_fragment.h"
#include "store/writer.h"

/* The parts that a record may begin with, before the parts about tables. */
enum {
    COMPARATOR = 1,
    LOG_NUMBER = 2,
    NEXT_FILE = 3,
    LAST_SEQUENCE = 4,
    DELETED_FILE = 6,
    PREVIOUS_LOG = 9,
    LOG_TO_KEEP = 10,
    MAX_FAMILY = 203,
    DATABASE_ID = 8193,
};

static void rise(uint64_t *to, uint64_t v)
{
    if (v > *to)
        *to = v;
}

void rocks_manifest_add(struct rocks_manifest *m, struct str record)
{
    struct reader r = {.value = record};
    while (!r.bad && reader_left(&r) > 0) {
        uint64_t tag = reader_varint(&r, "tag", UINT32_MAX);
        if (tag == COMPARATOR || tag == DATABASE_ID) {
            reader_text(&r, "name");
            continue;
        }
        bool known = tag == LOG_NUMBER || tag == NEXT_FILE || tag == LAST_SEQUENCE ||
                     tag == PREVIOUS_LOG || tag == LOG_TO_KEEP || tag == MAX_FAMILY;
        if (!known)
            return;
        uint64_t v = reader_varint(&r, "number", UINT64_MAX);
        if (r.bad)
            return;
        if (tag == LOG_NUMBER || tag == LOG_TO_KEEP)
            rise(&m->log, v);
        else if (tag == LAST_SEQUENCE)
            rise(&m->sequence, v);
    }
}

struct err rocks_manifest_find(const char *dir, struct rocks_manifest *m)
{
    *m = (struct rocks_manifest){0};
    struct buf path = {0};
    buf_print(&path, "%s/CURRENT", dir);
    buf_byte(&path, '\0');
    char text[64] = "";
    int fd = open(path.at, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    struct err err = n < 0 && errno != ENOENT ? folder_error("read", path.at) : err_none();
    if (n >= 0) {
        char *end;
        bool named = strncmp(text, "MANIFEST-", 9) == 0;
        m->number = named ? strtoull(text + 9, &end, 10) : 0;
        if (!named || m->number == 0 || *end != '\n')
            err = err_make(ERR_CORRUPT, "%.150s names no MANIFEST: restore a backup", path.at);
    }
    if (fd >= 0)
        close(fd);
    buf_fini(&path);
    return err;
}

NODISCARD static struct err add_all(struct rocks_manifest *m, int fd)
{
    struct rocks_fragments *in = ALLOC(struct rocks_fragments);
    struct buf record = {0};
    rocks_fragment_init(in, fd);
    bool found;
    struct err err;
    while ((err = rocks_fragment_next(in, &found, &record)).code == ERR_OK && found)
        rocks_manifest_add(m, buf_view(&record));
    buf_fini(&record);
    free(in);
    return err;
}

struct err rocks_manifest_read(const char *dir, struct rocks_manifest *m)
{
    TRY(rocks_manifest_find(dir, m));
    if (!m->number)
        return err_none();
    struct buf path = {0};
    buf_print(&path, "%s/MANIFEST-%06llu", dir, (unsigned long long)m->number);
    buf_byte(&path, '\0');
    int fd = open(path.at, O_RDONLY | O_CLOEXEC);
    struct err err;
    if (fd >= 0)
        err = add_all(m, fd);
    else if (errno == ENOENT)
        err = err_make(ERR_CORRUPT, "%.150s is missing: restore a backup", path.at);
    else
        err = folder_error("open", path.at);
    if (fd >= 0)
        close(fd);
    buf_fini(&path);
    return err;
}

/* Adds the fragments of one record, as they must be at file position `at`. */
static void add_fragments(struct buf *out, uint64_t at, struct str record)
{
    for (bool first = true; first || record.len;) {
        size_t left = ROCKS_FRAGMENT_BLOCK - (at + out->len) % ROCKS_FRAGMENT_BLOCK;
        if (left < ROCKS_FRAGMENT_HEADER) {
            buf_add(out, "\0\0\0\0\0\0", left);
            continue;
        }
        size_t len =
            left - ROCKS_FRAGMENT_HEADER < record.len ? left - ROCKS_FRAGMENT_HEADER : record.len;
        bool last = len == record.len;
        rocks_fragment_add(out,
                           first ? (last ? ROCKS_FRAGMENT_FULL : ROCKS_FRAGMENT_FIRST)
                                 : (last ? ROCKS_FRAGMENT_LAST : ROCKS_FRAGMENT_MIDDLE),
                           (struct str){record.at, len});
        record.at += len;
        record.len -= len;
        first = false;
    }
}

NODISCARD static struct err append(const char *path, struct str record)
{
    struct buf bytes = {0};
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    if (end >= 0)
        add_fragments(&bytes, (uint64_t)end, record);
    struct err err = err_none();
    if (end < 0 || pwrite(fd, bytes.at, bytes.len, end) != (ssize_t)bytes.len || fsync(fd) != 0)
        err = folder_error("write to", path);
    if (fd >= 0)
        close(fd);
    buf_fini(&bytes);
    return err;
}

struct err rocks_manifest_drop(const char *dir, unsigned level, uint64_t table)
{
    struct rocks_manifest m;
    TRY(rocks_manifest_find(dir, &m));
    if (!m.number)
        return err_make(ERR_CORRUPT, "%.150s/CURRENT is missing", dir);
    char bytes[32];
    struct writer w = writer_into(bytes, sizeof bytes);
    writer_varint(&w, DELETED_FILE);
    writer_varint(&w, level);
    writer_varint(&w, table);
    struct buf path = {0};
    buf_print(&path, "%s/MANIFEST-%06llu", dir, (unsigned long long)m.number);
    buf_byte(&path, '\0');
    struct err err = append(path.at, (struct str){bytes, w.len});
    buf_fini(&path);
    return err;
}
