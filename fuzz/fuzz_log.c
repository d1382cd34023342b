/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/checksum.h"
#include "store/log_frame.h"

#define MOST ((size_t)256 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes every sector that is not empty a whole one, so that what is in them matters. */
static void fix_checksums(unsigned char *bytes, size_t len)
{
    for (size_t at = 0; at < len; at += LOG_SECTOR) {
        unsigned char *s = bytes + at, place[8];
        uint32_t crc;
        for (int i = 0; i < 8; i++)
            place[i] = (unsigned char)((uint64_t)at >> (8 * i));
        if (s[4] == 0)
            continue;
        crc = checksum_add(checksum_add(0, place, 8), s + 4, LOG_SECTOR - 4);
        for (int i = 0; i < 4; i++)
            s[i] = (unsigned char)(crc >> (8 * i));
    }
}

/* What was read as a batch is what writing that batch writes: there is one encoding. */
static void check_batch(const unsigned char *bytes, const struct log_reader *r, struct str batch)
{
    size_t len = log_frame_size(batch.len);
    uint64_t at = r->at - len;
    unsigned char *again = alloc_get(len);
    log_frame_write(
        again, at,
        &(struct log_frame){
            .kind = LOG_BATCH, .generation = r->generation, .number = r->last, .contents = batch});
    size_t written = batch.len / LOG_SECTOR_ROOM * LOG_SECTOR;
    must(again[4] == bytes[at + 4] && memcmp(again + 8, bytes + at + 8, 24) == 0);
    must(written == 0 || memcmp(again + 32, bytes + at + 32, LOG_SECTOR_ROOM) == 0);
    free(again);
}

static void read_all(int fd, const unsigned char *bytes, size_t len)
{
    struct log_reader r;
    struct log_frame f;
    enum log_head head;
    struct buf contents = {0};
    struct err e = log_reader_open(&r, 0, fd, &head, &f);
    must(e.code == ERR_OK || e.code == ERR_VERSION);
    enum log_found found = LOG_FOUND_BATCH;
    while (e.code == ERR_OK && head >= LOG_HEAD_UNUSED && found == LOG_FOUND_BATCH) {
        uint64_t at = r.at, last = r.last;
        e = log_reader_next(&r, &found, &f, &contents);
        must(e.code == ERR_OK || e.code == ERR_VERSION);
        if (e.code != ERR_OK)
            break;
        must(r.at <= len && r.last == last + (found == LOG_FOUND_BATCH));
        bool lost = found == LOG_FOUND_DAMAGE || found == LOG_FOUND_UNSYNCED;
        must(lost == (r.fault != NULL));
        must(found != LOG_FOUND_END || r.durable <= r.last);
        if (found != LOG_FOUND_BATCH)
            break;
        must(r.at > at);
        check_batch(bytes, &r, buf_view(&contents));
    }
    log_reader_fini(&r);
    buf_fini(&contents);
}

/* What is whole anywhere lies within the segment. */
static void look_everywhere(int fd, size_t len)
{
    struct log_reader r = {.fd = fd, .size = len};
    struct buf contents = {0};
    for (uint64_t at = 0; at + LOG_BLOCK <= len; at += LOG_BLOCK) {
        struct log_frame f = {0};
        bool there;
        struct err e = log_reader_peek(&r, at, &there, &f, &contents);
        must(e.code == ERR_OK || e.code == ERR_VERSION);
        if (e.code != ERR_OK)
            break;
        must(!there || f.kind != LOG_BATCH || log_frame_size(contents.len) == f.size);
        must(!there || (f.durable <= f.number && f.synced <= f.number));
    }
    log_reader_fini(&r);
    buf_fini(&contents);
}

/* A segment of the log, zeros after it; if the first byte is odd, with checksums put right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > MOST)
        return 0;
    size_t len = (size - 1 + LOG_BLOCK - 1) / LOG_BLOCK * LOG_BLOCK + LOG_BLOCK;
    unsigned char *bytes = alloc_zero(len);
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 2)
        fix_checksums(bytes, len);
    int fd = memfd_create("segment", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    read_all(fd, bytes, len);
    look_everywhere(fd, len);
    close(fd);
    free(bytes);
    return 0;
}
