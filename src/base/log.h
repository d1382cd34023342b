/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

/* One line per event on standard error, for people ("text") or programs
 * ("json"). Log once, where a fault is handled. core/ never logs. Thread-safe: a line is one write.
 * Never pass a secret. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum log_level { LOG_NONE = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* Applies to all threads from now on. Until then: LOG_WARN, LOG_TEXT. */
void log_set(enum log_level level, enum log_format format);
/* Whether lines of that level are written, so that costly ones need not be built. */
bool log_wants(enum log_level level);
/* Where lines go instead of to standard error; seconds is when, since the epoch. Called on the
 * thread that logs. */
void log_to(void (*write_line)(struct str line, int64_t seconds));
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A line with fields of its own, for programs that look for them: names and values in turn, ended
 * by NULL. In JSON they are members of the line, and of its member `fields`. */
void log_fields(enum log_level level, const char *message, const char *const *fields);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_wants(LOG_DEBUG))                                                                  \
            log_write(LOG_DEBUG, __VA_ARGS__);                                                     \
    } while (0)

#endif
