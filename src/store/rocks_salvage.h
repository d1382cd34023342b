/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_ROCKS_SALVAGE_H
#define STORE_ROCKS_SALVAGE_H

/* A root directory whose log is damaged: what would be lost of it, and a new one with the rest. The
 * old one, which nobody may be using, is never changed. */

#include "store/log_survey.h"

/* What the log has of the batches that tables do not hold; zeros if there is none. ERR_CORRUPT,
 * ERR_IO, ERR_VERSION. */
NODISCARD struct err rocks_salvage_survey(const char *dir, struct log_survey *out);

struct rocks_salvaged {
    uint64_t batches; /* of the log that were applied */
    uint64_t apart;   /* jobs that have lost a part, and were set apart */
};
/* Writes what can be read into the folder `into`, which is empty or absent: the tables, and above
 * them all batches of the survey, also those behind missing ones. Jobs that have lost a part are
 * set apart. After an error nothing is there. ERR_USAGE, ERR_CORRUPT, ERR_DISK_FULL, ERR_IO. */
NODISCARD struct err rocks_salvage(const char *dir, const struct log_survey *survey,
                                   const char *into, struct rocks_salvaged *out);

#endif
