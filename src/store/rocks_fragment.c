/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_fragment.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store/checksum.h"

static uint64_t number_at(const unsigned char *at, unsigned bytes)
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
    uint32_t crc = checksum_add(0, fragment + ROCKS_FRAGMENT_HEADER - 1, len + 1);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool is_whole(const unsigned char *fragment)
{
    size_t len = number_at(fragment + 4, 2);
    return number_at(fragment, 4) == checksum_of(fragment, len);
}

void rocks_fragment_add(struct buf *out, enum rocks_fragment_type type, struct str bytes)
{
    unsigned char *at = (unsigned char *)buf_room(out, ROCKS_FRAGMENT_HEADER + bytes.len);
    at[4] = (unsigned char)bytes.len;
    at[5] = (unsigned char)(bytes.len >> 8);
    at[6] = (unsigned char)type;
    if (bytes.len)
        memcpy(at + ROCKS_FRAGMENT_HEADER, bytes.at, bytes.len);
    uint32_t checksum = checksum_of(at, bytes.len);
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(checksum >> (8 * i));
    out->len += ROCKS_FRAGMENT_HEADER + bytes.len;
}

NODISCARD static struct err read_block(int fd, unsigned char *block, size_t *size)
{
    *size = 0;
    while (*size < ROCKS_FRAGMENT_BLOCK) {
        ssize_t n = read(fd, block + *size, ROCKS_FRAGMENT_BLOCK - *size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_make(ERR_IO, "cannot read the MANIFEST: %s", strerror(errno));
        if (n == 0)
            break;
        *size += (size_t)n;
    }
    return err_none();
}

void rocks_fragment_init(struct rocks_fragments *log, int fd)
{
    log->fd = fd;
    log->size = log->at = 0;
    log->ended = false;
}

/* The next whole fragment, or NULL at the end. */
NODISCARD static struct err next_fragment(struct rocks_fragments *log, const unsigned char **out)
{
    *out = NULL;
    /* The end of a block that is too short for a header is filled with zeros. */
    if (ROCKS_FRAGMENT_BLOCK - log->at < ROCKS_FRAGMENT_HEADER || log->at == log->size) {
        bool last = log->size != 0 && log->size < ROCKS_FRAGMENT_BLOCK;
        log->at = 0;
        if (last)
            log->size = 0;
        else
            TRY(read_block(log->fd, log->block, &log->size));
    }
    const unsigned char *at = log->block + log->at;
    if (log->size - log->at < ROCKS_FRAGMENT_HEADER)
        return err_none();
    size_t len = ROCKS_FRAGMENT_HEADER + number_at(at + 4, 2);
    if (at[6] == ROCKS_FRAGMENT_PADDING || len > log->size - log->at || !is_whole(at))
        return err_none();
    if (at[6] > ROCKS_FRAGMENT_LAST)
        return err_make(
            ERR_VERSION,
            "the MANIFEST has a record of type %u, which this RocksDB does not write: use the "
            "version that wrote it",
            at[6]);
    log->at += len;
    *out = at;
    return err_none();
}

struct err rocks_fragment_next(struct rocks_fragments *log, bool *found, struct buf *record)
{
    *found = false;
    record->len = 0;
    for (bool begun = false; !log->ended;) {
        const unsigned char *at;
        TRY(next_fragment(log, &at));
        bool begins = at && (at[6] == ROCKS_FRAGMENT_FULL || at[6] == ROCKS_FRAGMENT_FIRST);
        if (!at || begins == begun) {
            log->ended = true;
            break;
        }
        buf_add(record, at + ROCKS_FRAGMENT_HEADER, number_at(at + 4, 2));
        begun = true;
        if (at[6] == ROCKS_FRAGMENT_FULL || at[6] == ROCKS_FRAGMENT_LAST) {
            *found = true;
            break;
        }
    }
    return err_none();
}
