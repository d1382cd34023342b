/* SPDX-License-Identifier: Apache-2.0 */
#include "store/wal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "store/folder.h"

/* A log is a sequence of blocks. A record is a header (checksum, length, type) with a fragment of
 * a batch; it never crosses the end of its block. A batch begins with its sequence number and how
 * many entries it has. */
#define BLOCK        ((size_t)32768)
#define HEADER       ((size_t)7)
#define BATCH_HEADER ((size_t)12)

enum { PADDING, FULL, FIRST, MIDDLE, LAST };

static uint64_t little(const unsigned char *at, unsigned bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | at[bytes];
    return v;
}

/* CRC-32C, bit by bit: it is asked for once or never. */
static uint32_t checksum(const unsigned char *at, size_t len)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < len; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

/* The stored checksum is rotated and shifted, lest one of bytes that hold checksums be bad. */
static bool is_whole(const unsigned char *record, size_t len)
{
    uint32_t crc = checksum(record + HEADER - 1, len + 1);
    return little(record, 4) == (uint32_t)((crc >> 15 | crc << 17) + UINT32_C(0xa282ead8));
}

/* What a record says is believed only with its checksum, but that is computed only where it
 * matters: damage may lead astray, yet no further than to the end of the block. */
static bool block_goes_on(const unsigned char *block, size_t size, uint64_t last)
{
    for (size_t at = 0; at + HEADER <= size;) {
        const unsigned char *record = block + at;
        size_t len = little(record + 4, 2);
        unsigned type = record[6];
        if (type == PADDING || type > LAST || at + HEADER + len > size)
            return false;
        if ((type == FULL || type == FIRST) && len >= BATCH_HEADER &&
            little(record + HEADER, 8) > last + 1 && little(record + HEADER + 8, 4) > 0 &&
            is_whole(record, len))
            return true;
        at += HEADER + len;
    }
    return false;
}

NODISCARD static struct err read_block(int fd, unsigned char *block, size_t *size)
{
    *size = 0;
    while (*size < BLOCK) {
        ssize_t n = read(fd, block + *size, BLOCK - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_make(ERR_IO, "cannot read the log: %s", strerror(errno));
        if (n == 0)
            break;
        *size += (size_t)n;
    }
    return err_none();
}

NODISCARD static struct err file_goes_on(int fd, uint64_t last, bool *on)
{
    unsigned char *block = alloc_get(BLOCK);
    struct err err;
    size_t size;
    do {
        err = read_block(fd, block, &size);
        if (err.code == ERR_OK)
            *on = block_goes_on(block, size, last);
    } while (err.code == ERR_OK && !*on && size == BLOCK);
    free(block);
    return err;
}

/* 000004.log */
static bool is_log(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits > 0 && strcmp(name + digits, ".log") == 0;
}

struct err wal_goes_on(const char *dir, uint64_t last, bool *on)
{
    *on = false;
    DIR *d = opendir(dir);
    if (!d)
        return err_make(ERR_IO, "cannot read %s: %s", dir, strerror(errno));
    struct err err = err_none();
    struct dirent *entry;
    while (err.code == ERR_OK && !*on && (entry = readdir(d))) {
        if (!is_log(entry->d_name))
            continue;
        int fd = openat(dirfd(d), entry->d_name, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            err = err_make(ERR_IO, "cannot open %s/%s: %s", dir, entry->d_name, strerror(errno));
            break;
        }
        err = file_goes_on(fd, last, on);
        close(fd);
    }
    closedir(d);
    return err;
}

/* Syncs one log. What was read into memory before a sync that failed may never have reached the
 * disk though the next sync succeeds, so the pages go: recovery reads what the disk has. */
NODISCARD static struct err sync_log(const char *dir, int dir_fd, const char *name)
{
    struct buf path = {0};
    buf_print(&path, "%s/%s", dir, name);
    buf_byte(&path, '\0');
    struct err err = err_none();
    struct stat st;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        err = folder_error("open", path.at);
    else if (st.st_size > 0 && fdatasync(fd) != 0)
        err = folder_error("sync", path.at);
    else
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fd >= 0)
        close(fd);
    buf_fini(&path);
    return err;
}

struct err wal_sync(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d)
        return folder_error("read", dir);
    struct err err = err_none();
    const struct dirent *entry;
    while (err.code == ERR_OK && (entry = readdir(d)))
        if (is_log(entry->d_name))
            err = sync_log(dir, dirfd(d), entry->d_name);
    closedir(d);
    return err.code == ERR_OK ? folder_sync(dir) : err;
}
