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
static void (*sink)(struct str line, int64_t seconds); /* NULL: standard error */

void log_set(enum log_level level, enum log_format format)
{
    level_max = level;
    format_now = format;
}

void log_to(void (*write_line)(struct str line, int64_t seconds))
{
    sink = write_line;
}

bool log_wants(enum log_level level)
{
    return level <= level_max;
}

/* The stamp of a log line is for its reader only; no decision reads this clock. */
static int64_t write_stamp(char *out, size_t size)
{
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, size - n, ".%03ldZ", ts.tv_nsec / 1000000);
    return ts.tv_sec;
}

static void write_members(struct buf *line, const char *const *fields)
{
    for (; *fields; fields += 2) {
        buf_byte(line, ',');
        json_write_string(line, str_from(fields[0]));
        buf_byte(line, ':');
        json_write_string(line, str_from(fields[1]));
    }
}

/* They are there twice: as members of the line, and together with the message in `fields`, where
 * programs that read Zizq's log look for them. */
static void write_fields_json(struct buf *line, const char *message, const char *const *fields)
{
    if (!fields)
        return;
    write_members(line, fields);
    buf_lit(line, ",\"fields\":{\"message\":");
    json_write_string(line, str_from(message));
    write_members(line, fields);
    buf_byte(line, '}');
}

static void emit(enum log_level level, const char *message, const char *const *fields)
{
    char stamp[40];
    int64_t seconds = write_stamp(stamp, sizeof stamp);
    struct buf line = {0};
    if (format_now == LOG_JSON) {
        buf_print(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, names[level]);
        json_write_string(&line, str_from(message));
        write_fields_json(&line, message, fields);
        buf_lit(&line, "}\n");
    } else {
        buf_print(&line, "%s %-5s %s", stamp, names[level], message);
        for (; fields && *fields; fields += 2)
            buf_print(&line, " %s=%s", fields[0], fields[1]);
        buf_byte(&line, '\n');
    }
    if (sink) {
        sink(buf_view(&line), seconds);
    } else {
        /* Nothing can be done about a log that cannot be written. */
        ssize_t ignored = write(STDERR_FILENO, line.at, line.len);
        (void)ignored;
    }
    buf_fini(&line);
}

void log_write(enum log_level level, const char *fmt, ...)
{
    if (!log_wants(level))
        return;
    char msg[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    emit(level, msg, NULL);
}

void log_fields(enum log_level level, const char *message, const char *const *fields)
{
    if (log_wants(level))
        emit(level, message, fields);
}
