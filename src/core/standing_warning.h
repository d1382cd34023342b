/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_STANDING_WARNING_H
#define CORE_STANDING_WARNING_H

/* A warning that stands until somebody changes what it is about. policy/standing.h finds them. */

#include <stddef.h>

#include "base/str.h"

struct standing_warning {
    const char *kind; /* "retry policy", "failure categories"; NULL: the retry settings */
    struct str name;  /* of the document; empty: the settings */
    struct str text;  /* never has a name in it, so that it may be shown to anybody */
};

/* A list of them, of which the first ones are there. */
struct standing_warnings {
    const struct standing_warning *list;
    size_t count, total;
};

#endif
