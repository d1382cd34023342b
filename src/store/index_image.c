/* SPDX-License-Identifier: Apache-2.0 */

/* Reading the file of a snapshot of the indexes; its layout is in index_file_internal.h. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/checksum.h"
#include "store/folder.h"
#include "store/index_file_internal.h"

void index_put(char *at, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(v >> (8 * i));
}

static uint64_t get(const char *at, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

uint32_t index_frame_checksum(const char *head, const char *contents, size_t len)
{
    return checksum_add(checksum_add(0, head, INDEX_FRAME_HEAD - 4), contents, len);
}

static struct err damaged(size_t at)
{
    return err_make(ERR_CORRUPT, "the file " INDEX_FILE_NAME " is damaged at byte %zu", at);
}

/* The frame at *at, which it moves. */
static struct err read_frame(struct str bytes, size_t *at, uint64_t *kind, struct str *contents)
{
    const char *head = bytes.at + *at;
    size_t left = bytes.len - *at;
    if (left < INDEX_FRAME_HEAD || get(head, 8) != *at)
        return damaged(*at);
    *kind = get(head + 8, 4);
    size_t len = get(head + 12, 4);
    if (len > left - INDEX_FRAME_HEAD)
        return damaged(*at);
    *contents = (struct str){head + INDEX_FRAME_HEAD, len};
    if (get(head + 16, 4) != index_frame_checksum(head, contents->at, len))
        return damaged(*at);
    *at += INDEX_FRAME_HEAD + len;
    return err_none();
}

static void read_head(struct str contents, struct index_head *h)
{
    uint64_t *const numbers = (uint64_t *)h;
    for (size_t i = 0; i < sizeof *h / 8; i++)
        numbers[i] = get(contents.at + 8 * i, 8);
}

static struct err check_begin(struct str bytes)
{
    if (bytes.len < INDEX_BEGIN_LEN || memcmp(bytes.at, INDEX_MAGIC, 8) != 0)
        return err_make(ERR_CORRUPT, "the file " INDEX_FILE_NAME " does not begin as it should");
    if (get(bytes.at + 8, 4) != INDEX_VERSION)
        return err_make(ERR_VERSION, "the file " INDEX_FILE_NAME
                                     " has a version that this program does not know");
    return err_none();
}

struct err index_image_read(struct str bytes, struct index_image *image)
{
    size_t at = INDEX_BEGIN_LEN, cap = 0;
    uint64_t kind = INDEX_FRAME_CHUNK;
    struct str contents;
    struct err err = check_begin(bytes);
    *image = (struct index_image){.bytes = bytes};
    while (err.code == ERR_OK && kind == INDEX_FRAME_CHUNK) {
        err = read_frame(bytes, &at, &kind, &contents);
        if (err.code != ERR_OK || kind != INDEX_FRAME_CHUNK)
            break;
        ALLOC_GROW(image->chunks, image->count, cap, 64);
        image->chunks[image->count++] = contents;
    }
    bool whole =
        kind == INDEX_FRAME_END && at == bytes.len && contents.len == sizeof(struct index_head);
    if (err.code == ERR_OK && !whole)
        err = damaged(at);
    if (err.code == ERR_OK)
        read_head(contents, &image->head);
    else
        free(image->chunks);
    if (err.code != ERR_OK)
        *image = (struct index_image){0};
    return err;
}

static struct err map(const char *path, struct str *bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_make(ERR_NOT_FOUND, "there is no snapshot of the indexes");
    if (fd < 0)
        return folder_error("open", path);
    struct err err = fstat(fd, &st) == 0 ? err_none() : folder_error("look at", path);
    if (err.code == ERR_OK && st.st_size < INDEX_BEGIN_LEN)
        err = damaged((size_t)st.st_size);
    void *at = MAP_FAILED;
    if (err.code == ERR_OK) {
        at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED)
            err = folder_error("read", path);
    }
    close(fd);
    if (err.code != ERR_OK)
        return err;
    madvise(at, (size_t)st.st_size, MADV_SEQUENTIAL);
    madvise(at, (size_t)st.st_size, MADV_WILLNEED);
    *bytes = (struct str){at, (size_t)st.st_size};
    return err;
}

struct err index_image_open(const char *dir, struct index_image *image)
{
    struct buf path = {0};
    struct str bytes;
    buf_print(&path, "%s/%s%c", dir, INDEX_FILE_NAME, 0);
    struct err err = map(path.at, &bytes);
    buf_fini(&path);
    if (err.code != ERR_OK)
        return err;
    err = index_image_read(bytes, image);
    if (err.code != ERR_OK)
        munmap((void *)(uintptr_t)bytes.at, bytes.len);
    else
        image->mapped = true;
    return err;
}

void index_image_close(struct index_image *image)
{
    if (image->mapped)
        munmap((void *)(uintptr_t)image->bytes.at, image->bytes.len);
    free(image->chunks);
    *image = (struct index_image){0};
}
