/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

/* Patterns of names, in which '*' stands for any text, also for none. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* Patterns of which one is enough; none: any name matches. */
struct glob_list {
    const struct str *at;
    size_t count;
};

/* In at most pattern.len × name.len steps, and usually in name.len. */
bool glob_matches(struct str pattern, struct str name);
bool glob_list_matches(struct glob_list list, struct str name);

#endif
