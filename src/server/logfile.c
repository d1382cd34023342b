/* SPDX-License-Identifier: Apache-2.0 */
#include "server/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"
#include "base/str.h"

#define NAME "tenax.log"

static struct {
    pthread_mutex_t lock;
    struct logfile_settings settings;
    char path[PATH_MAX];
    int fd;         /* or -1 */
    uint64_t size;  /* of the file so far */
    int64_t period; /* the day or hour of its first line; 0: it is empty */
} file = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static int64_t period_of(int64_t seconds)
{
    switch (file.settings.rotation) {
    case LOGFILE_DAILY:
        return seconds / 86400;
    case LOGFILE_HOURLY:
        return seconds / 3600;
    case LOGFILE_NEVER:
        break;
    }
    return 1;
}

/* An existing file is continued; its age is that of its newest line. */
static bool open_file(void)
{
    struct stat st;
    file.fd = open(file.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (file.fd < 0 || fstat(file.fd, &st) != 0)
        return false;
    file.size = (uint64_t)st.st_size;
    file.period = file.size ? period_of(st.st_mtim.tv_sec) : 0;
    return true;
}

/* tenax.log.1, or tenax.log for 0. */
static void name_of(int n, char *out, size_t size)
{
    if (n)
        snprintf(out, size, "%s.%d", file.path, n);
    else
        snprintf(out, size, "%s", file.path);
}

static void rotate(void)
{
    char from[PATH_MAX + 16], to[PATH_MAX + 16];
    close(file.fd);
    name_of(file.settings.files_max, to, sizeof to);
    unlink(to); /* is tenax.log itself if none are kept */
    for (int n = file.settings.files_max - 1; n >= 0; n--) {
        name_of(n, from, sizeof from);
        name_of(n + 1, to, sizeof to);
        rename(from, to); /* a missing number does no harm */
    }
    open_file();
}

static bool is_due(size_t len, int64_t now)
{
    return file.size > 0 && (file.period != now || file.size + len > file.settings.size_max);
}

static void write_line(struct str line, int64_t seconds)
{
    pthread_mutex_lock(&file.lock);
    int64_t now = period_of(seconds);
    if (file.fd >= 0 && is_due(line.len, now))
        rotate();
    if (file.fd < 0 || write(file.fd, line.at, line.len) != (ssize_t)line.len) {
        ssize_t ignored = write(STDERR_FILENO, line.at, line.len);
        (void)ignored;
    } else {
        file.size += line.len;
        file.period = now;
    }
    pthread_mutex_unlock(&file.lock);
}

struct err logfile_begin(const struct logfile_settings *settings)
{
    file.settings = *settings;
    file.settings.dir = NULL; /* owned by the caller */
    int n = snprintf(file.path, sizeof file.path, "%s/" NAME, settings->dir);
    if (n < 0 || (size_t)n + 16 > sizeof file.path)
        return err_make(ERR_IO, "the path of the log is too long: %.80s…", settings->dir);
    TRY(folder_make_all(settings->dir, 0750)); /* one of them may be the root directory */
    if (!open_file())
        return err_make(ERR_IO, "cannot write the log to %s: %s", file.path, strerror(errno));
    log_to(write_line);
    return err_none();
}
