/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"

static const char *const names[] = {"error", "warn", "info", "debug"};
static enum log_level level_max = LOG_WARN;
static enum log_format format_now = LOG_TEXT;

void log_set(enum log_level level, enum log_format format)
{
    level_max = level;
    format_now = format;
}

bool log_wants(enum log_level level)
{
    return level <= level_max;
}

/* The stamp of a log line is for its reader only; no decision reads this clock. */
static void write_stamp(char *out, size_t size)
{
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, size - n, ".%03ldZ", ts.tv_nsec / 1000000);
}

void log_write(enum log_level level, const char *fmt, ...)
{
    if (!log_wants(level))
        return;
    char stamp[40], msg[1024];
    write_stamp(stamp, sizeof stamp);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);

    struct buf line = {0};
    if (format_now == LOG_JSON) {
        buf_print(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, names[level]);
        json_write_string(&line, str_from(msg));
        buf_lit(&line, "}\n");
    } else {
        buf_print(&line, "%s %-5s %s\n", stamp, names[level], msg);
    }
    /* Nothing can be done about a log that cannot be written. */
    ssize_t ignored = write(STDERR_FILENO, line.at, line.len);
    (void)ignored;
    buf_fini(&line);
}
