/* SPDX-License-Identifier: Apache-2.0 */
#include "base/glob.h"

#include <stdint.h>

/* After a mismatch only the newest star need take one character more: what earlier ones have taken
 * can stay as it is. */
bool glob_matches(struct str pattern, struct str name)
{
    size_t p = 0, n = 0, star = SIZE_MAX, from = 0;
    while (n < name.len) {
        if (p < pattern.len && pattern.at[p] == '*') {
            star = p++;
            from = n;
        } else if (p < pattern.len && pattern.at[p] == name.at[n]) {
            p++;
            n++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            n = ++from;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.at[p] == '*')
        p++;
    return p == pattern.len;
}

bool glob_list_matches(struct glob_list list, struct str name)
{
    for (size_t i = 0; i < list.count; i++)
        if (glob_matches(list.at[i], name))
            return true;
    return list.count == 0;
}
