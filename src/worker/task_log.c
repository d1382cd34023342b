/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/task_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "client/when.h"

struct err task_log_open(struct task_log *l, const char *path)
{
    *l = (struct task_log){.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (l->fd >= 0)
        return err_none();
    return err_make(errno == ENOSPC || errno == EDQUOT ? ERR_DISK_FULL : ERR_IO,
                    "cannot make the log of the task: %s", strerror(errno));
}

void task_log_fini(struct task_log *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}

static void put(struct task_log *l, struct str bytes)
{
    if (bytes.len)
        l->broken = bytes.at[bytes.len - 1] != '\n';
    while (l->fd >= 0 && bytes.len) {
        ssize_t n = write(l->fd, bytes.at, bytes.len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* a full disk; the command goes on */
        l->size += n;
        bytes = (struct str){bytes.at + n, bytes.len - (size_t)n};
    }
}

static void put_line(struct task_log *l, bool error, const char *fmt, va_list ap)
{
    struct buf line = {0};
    char *text = NULL;
    int n = vasprintf(&text, fmt, ap);
    must(n >= 0);
    if (l->broken)
        buf_byte(&line, '\n');
    buf_lit(&line, "[taskcluster");
    if (error) {
        buf_lit(&line, ":error");
    } else {
        buf_byte(&line, ' ');
        rfc3339_write(&line, when_now());
    }
    buf_print(&line, "] %s\n", text);
    put(l, buf_view(&line));
    buf_fini(&line);
    free(text);
}

void task_log_line(struct task_log *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line(l, false, fmt, ap);
    va_end(ap);
}

void task_log_error(struct task_log *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line(l, true, fmt, ap);
    va_end(ap);
}

void task_log_output(struct task_log *l, struct str bytes)
{
    int64_t room = TASK_LOG_MAX - l->size;
    if (l->full)
        return;
    if ((int64_t)bytes.len <= room) {
        put(l, bytes);
        return;
    }
    if (room > 0)
        put(l, (struct str){bytes.at, (size_t)room});
    l->full = true;
    task_log_error(l, "the log is full: what the commands write from here on is not kept");
}
