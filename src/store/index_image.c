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
#include "base/folder.h"
#include "store/index_file_internal.h"

#define READ_BYTES ((size_t)1 << 20) /* at a time; what has come is checked meanwhile */

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

/* Reading goes on from frame to frame, as far as the bytes have come. */
struct progress {
    struct index_image *image;
    size_t cap;
    size_t at;    /* the next frame */
    size_t there; /* bytes that have come */
    bool ended;   /* by the frame of the end */
};

static struct err add_frame(struct progress *p, uint64_t kind, struct str contents)
{
    struct index_image *image = p->image;
    p->ended = kind == INDEX_FRAME_END;
    if (p->ended && (contents.len != sizeof(struct index_head) || p->at != image->bytes.len))
        return damaged(p->at);
    if (p->ended) {
        read_head(contents, &image->head);
        return err_none();
    }
    if (kind != INDEX_FRAME_CHUNK)
        return damaged(p->at);
    ALLOC_GROW(image->chunks, image->count, p->cap, 64);
    image->chunks[image->count++] = contents;
    return err_none();
}

/* The next frame; *more is false if its bytes have not come yet. */
static struct err read_frame(struct progress *p, bool *more)
{
    struct str bytes = p->image->bytes;
    const char *head = bytes.at + p->at;
    *more = p->there - p->at >= INDEX_FRAME_HEAD;
    if (bytes.len - p->at < INDEX_FRAME_HEAD || p->ended)
        return damaged(p->at);
    if (!*more)
        return err_none();
    size_t len = get(head + 12, 4);
    if (get(head, 8) != p->at || len > bytes.len - p->at - INDEX_FRAME_HEAD)
        return damaged(p->at);
    *more = p->there - p->at - INDEX_FRAME_HEAD >= len;
    if (!*more)
        return err_none();
    struct str contents = {head + INDEX_FRAME_HEAD, len};
    if (get(head + 16, 4) != index_frame_checksum(head, contents.at, len))
        return damaged(p->at);
    p->at += INDEX_FRAME_HEAD + len;
    return add_frame(p, get(head + 8, 4), contents);
}

/* So many bytes of the image have come. */
static struct err go_on(struct progress *p, size_t there)
{
    bool more = true;
    bool begins = p->at == 0 && there >= INDEX_BEGIN_LEN;
    p->there = there;
    if (begins)
        TRY(check_begin(p->image->bytes));
    if (begins)
        p->at = INDEX_BEGIN_LEN;
    while (more && p->at > 0 && !(p->ended && p->at == p->image->bytes.len))
        TRY(read_frame(p, &more));
    return err_none();
}

static struct err end(struct progress *p)
{
    return p->ended ? err_none() : damaged(p->at);
}

struct err index_image_read(struct str bytes, struct index_image *image)
{
    *image = (struct index_image){.bytes = bytes};
    struct progress p = {.image = image};
    struct err err = go_on(&p, bytes.len);
    if (err.code == ERR_OK)
        err = end(&p);
    if (err.code != ERR_OK)
        index_image_close(image);
    return err;
}

/* --- from the file --- */

/* The file is read, not mapped: a part that the disk cannot give is an error then, and no
 * signal. */
static struct err read_file(int fd, const char *path, struct progress *p)
{
    size_t there = 0, len = p->image->bytes.len;
    char *bytes = (char *)(uintptr_t)p->image->bytes.at;
    while (there < len) {
        size_t left = len - there;
        ssize_t n = pread(fd, bytes + there, left < READ_BYTES ? left : READ_BYTES, (off_t)there);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return folder_error("read", path);
        if (n == 0)
            return damaged(there);
        there += (size_t)n;
        TRY(go_on(p, there));
    }
    return end(p);
}

static struct err read_open(int fd, const char *path, struct index_image *image)
{
    struct stat st;
    struct progress p = {.image = image};
    if (fstat(fd, &st) != 0)
        return folder_error("look at", path);
    if (st.st_size < INDEX_BEGIN_LEN)
        return damaged((size_t)st.st_size);
    size_t len = (size_t)st.st_size;
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return folder_error("get memory for", path);
    image->bytes = (struct str){at, len};
    image->mapped = true;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return read_file(fd, path, &p);
}

static struct err read_path(const char *path, struct index_image *image)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return err_make(ERR_NOT_FOUND, "there is none");
    if (fd < 0)
        return folder_error("open", path);
    struct err err = read_open(fd, path, image);
    close(fd);
    return err;
}

struct err index_image_open(const char *dir, struct index_image *image)
{
    struct buf path = {0};
    *image = (struct index_image){0};
    buf_print(&path, "%s/%s%c", dir, INDEX_FILE_NAME, 0);
    struct err err = read_path(path.at, image);
    buf_fini(&path);
    if (err.code != ERR_OK)
        index_image_close(image);
    return err;
}

void index_image_close(struct index_image *image)
{
    if (image->mapped)
        munmap((void *)(uintptr_t)image->bytes.at, image->bytes.len);
    free(image->chunks);
    *image = (struct index_image){0};
}

/* --- removing --- */

static void remove_name(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_print(&path, "%s/%s%c", dir, name, 0);
    unlink(path.at);
    buf_fini(&path);
}

void index_file_sweep(const char *dir)
{
    remove_name(dir, INDEX_FILE_TMP);
}

void index_file_remove(const char *dir)
{
    remove_name(dir, INDEX_FILE_NAME);
}
