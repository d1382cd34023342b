/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of the indexes, of however few jobs. Each start compares what they restore with what
 * all records say. Often the file was damaged before, cut, removed, or replaced by an older one. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/must.h"
#include "sim.h"
#include "base/folder.h"
#include "store/index_file.h"
#include "trace.h"

#define NAME_MAX_LEN 64
#define KEPT         3 /* older files */
#define FILE_MAX     ((size_t)1 << 20)

static char *path_of(const struct sim *s, char path[NAME_MAX_LEN], const char *name)
{
    snprintf(path, NAME_MAX_LEN, "%s/%s", s->index_dir, name);
    return path;
}

/* Of a file that is not there nothing is read: 0. */
static size_t read_file(const char *path, char *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, bytes, FILE_MAX);
    must(n >= 0 && (size_t)n < FILE_MAX);
    close(fd);
    return (size_t)n;
}

static void write_file(const char *path, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    close(fd);
}

static char *kept_path(struct sim *s, char path[NAME_MAX_LEN])
{
    char name[16];
    snprintf(name, sizeof name, "kept-%u", (unsigned)rng_below(&s->index_rng, KEPT));
    return path_of(s, path, name);
}

static void change(struct sim *s, const char *path, char *bytes, size_t len)
{
    char kept[NAME_MAX_LEN];
    uint64_t at = rng_below(&s->index_rng, len);
    switch (rng_below(&s->index_rng, 8)) {
    case 0:
        trace_line("the snapshot of the indexes is damaged at byte %lu", at);
        bytes[at] = (char)(bytes[at] ^ 1 << rng_below(&s->index_rng, 8));
        write_file(path, bytes, len);
        return;
    case 1:
        trace_line("the snapshot of the indexes is cut at byte %lu", at);
        write_file(path, bytes, at);
        return;
    case 2:
        trace_line("the snapshot of the indexes is removed");
        unlink(path);
        return;
    case 3:
        len = read_file(kept_path(s, kept), bytes);
        trace_line("the snapshot of the indexes is that of another time: %d", len > 0);
        if (len > 0)
            write_file(path, bytes, len);
        return;
    case 4:
    case 5:
        write_file(kept_path(s, kept), bytes, len);
        return;
    default:
        return;
    }
}

void snapshots_tamper(struct sim *s)
{
    char path[NAME_MAX_LEN];
    if (!*s->index_dir)
        return;
    char *bytes = malloc(FILE_MAX);
    must(bytes != NULL);
    size_t len = read_file(path_of(s, path, INDEX_FILE_NAME), bytes);
    if (len > 0)
        change(s, path, bytes, len);
    free(bytes);
}

void snapshots_begin(struct sim *s)
{
    s->index_rng = rng_from_seed(s->seed ^ 0x5ca1ab1e);
    if (s->seed % 3 == 0)
        return;
    strcpy(s->index_dir, "/tmp/tenax-sim-XXXXXX");
    must(mkdtemp(s->index_dir) != NULL);
    s->settings.index_dir = s->index_dir;
    s->settings.index_jobs_min = 1 + s->seed % 7;
    s->settings.index_slice = 1 + (uint32_t)(s->seed % 5);
    s->settings.index_inline = s->settings.index_check = true;
}

void snapshots_end(struct sim *s)
{
    if (*s->index_dir)
        must(folder_remove(s->index_dir).code == ERR_OK);
}
