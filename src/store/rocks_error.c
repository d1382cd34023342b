/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_error.h"

#include <rocksdb/c.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool says(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

enum err_code rocks_error_code(const char *text, enum err_code otherwise)
{
    if (says(text, "No space left on device") || says(text, "Disk quota exceeded"))
        return ERR_DISK_FULL;
    if (says(text, "lock hold by current process") ||
        (says(text, "While lock file") && says(text, "temporarily unavailable")))
        return ERR_LOCKED;
    if (says(text, "Corruption"))
        return ERR_CORRUPT;
    return otherwise;
}

struct err rocks_error(char *text, enum err_code otherwise)
{
    if (!text)
        return err_none();
    struct err e = err_make(rocks_error_code(text, otherwise), "%s", text);
    rocksdb_free(text);
    return e;
}

uint64_t rocks_error_table(const char *text)
{
    if (!says(text, "Corruption"))
        return 0;
    const char *dot = NULL;
    for (const char *at = text; (at = strstr(at, ".sst")); at++)
        dot = at;
    if (!dot)
        return 0;
    const char *first = dot;
    while (first > text && first[-1] >= '0' && first[-1] <= '9')
        first--;
    return first < dot ? strtoull(first, NULL, 10) : 0;
}
