/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store/checksum.h"

uint64_t rocks_log_number(const unsigned char *at, unsigned bytes)
{
    uint64_t v = 0;
    while (bytes--)
        v = v << 8 | at[bytes];
    return v;
}

/* The stored checksum is rotated and shifted, because a checksum of bytes that contain checksums
 * would be weak. */
static uint32_t checksum_of(const unsigned char *fragment, size_t len)
{
    uint32_t crc = checksum_add(0, fragment + ROCKS_LOG_HEADER - 1, len + 1);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

bool rocks_log_is_whole(const unsigned char *fragment)
{
    size_t len = rocks_log_number(fragment + 4, 2);
    return rocks_log_number(fragment, 4) == checksum_of(fragment, len);
}

void rocks_log_add(struct buf *out, enum rocks_log_type type, struct str bytes)
{
    unsigned char *at = (unsigned char *)buf_room(out, ROCKS_LOG_HEADER + bytes.len);
    at[4] = (unsigned char)bytes.len;
    at[5] = (unsigned char)(bytes.len >> 8);
    at[6] = (unsigned char)type;
    if (bytes.len)
        memcpy(at + ROCKS_LOG_HEADER, bytes.at, bytes.len);
    uint32_t checksum = checksum_of(at, bytes.len);
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(checksum >> (8 * i));
    out->len += ROCKS_LOG_HEADER + bytes.len;
}

struct err rocks_log_read_block(int fd, unsigned char *block, size_t *size)
{
    *size = 0;
    while (*size < ROCKS_LOG_BLOCK) {
        ssize_t n = read(fd, block + *size, ROCKS_LOG_BLOCK - *size);
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

void rocks_log_init(struct rocks_log *log, int fd)
{
    log->fd = fd;
    log->size = log->at = 0;
    log->ended = false;
}

/* The next whole fragment, or NULL at the end. */
NODISCARD static struct err next_fragment(struct rocks_log *log, const unsigned char **out)
{
    *out = NULL;
    /* The end of a block that is too short for a header is filled with zeros. */
    if (ROCKS_LOG_BLOCK - log->at < ROCKS_LOG_HEADER || log->at == log->size) {
        bool last = log->size != 0 && log->size < ROCKS_LOG_BLOCK;
        log->at = 0;
        if (last)
            log->size = 0;
        else
            TRY(rocks_log_read_block(log->fd, log->block, &log->size));
    }
    const unsigned char *at = log->block + log->at;
    if (log->size - log->at < ROCKS_LOG_HEADER)
        return err_none();
    size_t len = ROCKS_LOG_HEADER + rocks_log_number(at + 4, 2);
    if (at[6] == ROCKS_LOG_PADDING || len > log->size - log->at || !rocks_log_is_whole(at))
        return err_none();
    if (at[6] > ROCKS_LOG_LAST)
        return err_make(ERR_VERSION,
                        "a log has a record of type %u, which this RocksDB does not write: use the "
                        "version that wrote it",
                        at[6]);
    log->at += len;
    *out = at;
    return err_none();
}

struct err rocks_log_next(struct rocks_log *log, bool *found, struct buf *record)
{
    *found = false;
    record->len = 0;
    for (bool begun = false; !log->ended;) {
        const unsigned char *at;
        TRY(next_fragment(log, &at));
        bool begins = at && (at[6] == ROCKS_LOG_FULL || at[6] == ROCKS_LOG_FIRST);
        if (!at || begins == begun) {
            log->ended = true;
            break;
        }
        buf_add(record, at + ROCKS_LOG_HEADER, rocks_log_number(at + 4, 2));
        begun = true;
        if (at[6] == ROCKS_LOG_FULL || at[6] == ROCKS_LOG_LAST) {
            *found = true;
            break;
        }
    }
    return err_none();
}
