/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_LOGFILE_H
#define SERVER_LOGFILE_H

/* The log in a file, DIR/tenax.log, instead of on standard error. When its time or its size has
 * come it becomes tenax.log.1, that tenax.log.2, and so on; the oldest are removed. Lines come
 * from any thread. Should the file fail, lines go to standard error, so that none is lost in
 * silence. */

#include <stdint.h>

#include "base/err.h"

enum logfile_rotation { LOGFILE_DAILY, LOGFILE_HOURLY, LOGFILE_NEVER };

struct logfile_settings {
    const char *dir; /* made if it is not there; the folder it is in, too */
    enum logfile_rotation rotation;
    uint64_t size_max; /* bytes of a file */
    int files_max;     /* of those that were rotated */
};

/* From here on the log is there, until the process ends. ERR_IO. */
NODISCARD struct err logfile_begin(const struct logfile_settings *settings);

#endif
