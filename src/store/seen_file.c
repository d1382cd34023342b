/* SPDX-License-Identifier: Apache-2.0 */
#include "store/seen_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "store/checksum.h"

/* Two slots, written in turn: whenever the process ends, one of them is whole. */
#define SLOTS 2

struct slot {
    char magic[8];
    struct pg_seen seen;
    uint32_t sum; /* of all before */
    uint32_t unused;
};

static const char magic[8] = "TNXSEEN1";

static uint32_t sum_of(const struct slot *s)
{
    return checksum_add(0, s, offsetof(struct slot, sum));
}

static bool is_whole(const struct slot *s)
{
    return memcmp(s->magic, magic, sizeof magic) == 0 && s->sum == sum_of(s);
}

static bool is_newer(const struct pg_seen *a, const struct pg_seen *b)
{
    return a->epoch > b->epoch || (a->epoch == b->epoch && a->seq >= b->seq);
}

/* Of two schemas only one can be this server's: that of the slot with the higher epoch is as good
 * as the other, and another one's counts for nothing. */
static void read_slots(struct seen_file *f, struct pg_seen *out)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        struct slot s;
        off_t at = (off_t)(i * sizeof s);
        if (pread(f->fd, &s, sizeof s, at) == (ssize_t)sizeof s && is_whole(&s) &&
            is_newer(&s.seen, out)) {
            *out = s.seen;
            f->slot = i;
        }
    }
}

void seen_file_open(struct seen_file *f, const char *root, struct pg_seen *out)
{
    char path[PATH_MAX];
    *out = (struct pg_seen){0};
    *f = (struct seen_file){.fd = -1};
    snprintf(path, sizeof path, "%s/" SEEN_FILE, root);
    struct err e = folder_make(root, 0700);
    if (e.code == ERR_OK) {
        f->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (f->fd < 0)
            e = folder_error("open", path);
    }
    if (e.code == ERR_OK)
        read_slots(f, out);
    else
        log_warn("what this server has seen of PostgreSQL is not kept over a restart: %s", e.msg);
}

/* A disk that is full, or fails, leaves the older slot. */
void seen_file_keep(struct seen_file *f, const struct pg_seen *seen)
{
    struct slot s = {.seen = *seen};
    if (f->fd < 0)
        return;
    memcpy(s.magic, magic, sizeof magic);
    s.sum = sum_of(&s);
    f->slot = (f->slot + 1) % SLOTS;
    off_t at = (off_t)(f->slot * sizeof s);
    if (pwrite(f->fd, &s, sizeof s, at) != (ssize_t)sizeof s && errno != ENOSPC)
        log_warn("what this server has seen of PostgreSQL is not kept: %s", strerror(errno));
}

void seen_file_close(struct seen_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
}
