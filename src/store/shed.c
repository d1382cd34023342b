/* SPDX-License-Identifier: Apache-2.0 */
#include "store/shed.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/release.h"

#define WORTH_IT ((off_t)4 * 1024 * 1024)

struct table {
    int fd;
    uint64_t number;
};

struct shed {
    pthread_t thread;
    int dir;     /* the folder */
    int changes; /* in it, of inotify */
    int stop;    /* readable once the thread is to end */
    _Atomic bool stopping;
    size_t max, count;
    struct table tables[];
};

/* By its name, NUMBER.sst; 0 for other files. */
static uint64_t number_of(const char *name)
{
    char *end;
    uint64_t number = strtoull(name, &end, 10);
    return end > name && strcmp(end, ".sst") == 0 ? number : 0;
}

static size_t find(const struct shed *s, uint64_t number)
{
    size_t i = 0;
    while (i < s->count && s->tables[i].number != number)
        i++;
    return i;
}

/* And of a file system that counts names: that there is none any more is believed of no other. */
static bool is_large(const struct shed *s, const char *name)
{
    struct stat st;
    return fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
           st.st_nlink > 0 && st.st_size >= WORTH_IT;
}

static void let_go(struct shed *s, size_t i)
{
    int fd = s->tables[i].fd;
    s->tables[i] = s->tables[--s->count];
    release_file(fd, &s->stopping);
}

/* Of tables that are merged first, which are the newest. */
static bool make_place(struct shed *s, uint64_t number)
{
    size_t oldest = 0;
    for (size_t i = 1; i < s->count; i++)
        if (s->tables[i].number < s->tables[oldest].number)
            oldest = i;
    if (s->count == s->max && s->count > 0 && s->tables[oldest].number < number)
        let_go(s, oldest);
    return s->count < s->max;
}

/* To open a file for writing and close it again is such a change as brought us here: only those
 * that stay open are opened, and what makes place for them is older than all. */
static void keep(struct shed *s, const char *name)
{
    uint64_t number = number_of(name);
    if (!number || find(s, number) < s->count || !is_large(s, name) || !make_place(s, number))
        return;
    int fd = openat(s->dir, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        s->tables[s->count++] = (struct table){fd, number};
}

static void look_at_all(struct shed *s)
{
    int fd = fcntl(s->dir, F_DUPFD_CLOEXEC, 0);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *file;
    if (fd >= 0 && !d)
        close(fd);
    if (!d)
        return;
    rewinddir(d);
    while ((file = readdir(d)))
        keep(s, file->d_name);
    closedir(d);
}

static bool is_removed(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || st.st_nlink == 0;
}

static void let_go_of_removed(struct shed *s)
{
    for (size_t i = s->count; i > 0; i--)
        if (is_removed(s->tables[i - 1].fd))
            let_go(s, i - 1);
}

static void note(struct shed *s, const struct inotify_event *e)
{
    size_t i = e->len > 0 ? find(s, number_of(e->name)) : s->count;
    if (e->mask & IN_Q_OVERFLOW) {
        let_go_of_removed(s);
        look_at_all(s);
    } else if (e->mask & IN_CLOSE_WRITE && e->len > 0) {
        keep(s, e->name);
    } else if (e->mask & IN_DELETE && i < s->count) {
        let_go(s, i);
    }
}

static void note_changes(struct shed *s)
{
    char bytes[16 * 1024] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t len = read(s->changes, bytes, sizeof bytes);
    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *e = (const void *)(bytes + at);
        note(s, e);
        at += (ssize_t)(sizeof *e + e->len);
    }
}

static void *run(void *arg)
{
    struct shed *s = arg;
    struct pollfd on[] = {{.fd = s->stop, .events = POLLIN}, {.fd = s->changes, .events = POLLIN}};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "shed");
    look_at_all(s);
    while (!s->stopping)
        if (poll(on, 2, -1) > 0 && on[1].revents)
            note_changes(s);
    return NULL;
}

static void close_all(struct shed *s)
{
    for (size_t i = 0; i < s->count; i++)
        close(s->tables[i].fd);
    if (s->dir >= 0)
        close(s->dir);
    if (s->changes >= 0)
        close(s->changes);
    if (s->stop >= 0)
        close(s->stop);
    free(s);
}

struct shed *shed_new(const char *dir, size_t max)
{
    struct shed *s = alloc_get(sizeof *s + max * sizeof *s->tables);
    *s = (struct shed){.max = max};
    s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->changes = inotify_init1(IN_CLOEXEC);
    s->stop = eventfd(0, EFD_CLOEXEC);
    if (s->dir >= 0 && s->changes >= 0 && s->stop >= 0 &&
        inotify_add_watch(s->changes, dir, IN_CLOSE_WRITE | IN_DELETE) >= 0 &&
        pthread_create(&s->thread, NULL, run, s) == 0)
        return s;
    close_all(s);
    return NULL;
}

void shed_free(struct shed *s)
{
    if (!s)
        return;
    s->stopping = true;
    eventfd_write(s->stop, 1);
    pthread_join(s->thread, NULL);
    close_all(s);
}
