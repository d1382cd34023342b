/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LOGFILE_H
#define SERVER_LOGFILE_H

/* The log in a file, DIR/tenax.log, instead of on standard error. When the file is old or large
 * enough, it becomes tenax.log.1, that becomes tenax.log.2, and so on; the oldest are removed. Any
 * thread may log. If the file fails, lines go to standard error, so that none is lost silently. */

#include <stdint.h>

#include "base/err.h"

enum logfile_rotation { LOGFILE_DAILY, LOGFILE_HOURLY, LOGFILE_NEVER };

struct logfile_settings {
    const char *dir; /* created if absent, with its parent */
    enum logfile_rotation rotation;
    uint64_t size_max; /* bytes of a file */
    int files_max;     /* number of rotated files */
};

/* From here on the log goes to the file, until the process ends. ERR_IO. */
NODISCARD struct err logfile_begin(const struct logfile_settings *settings);

#endif
