/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/field_list.h"

#include <stdio.h>

struct err field_list(struct json_cursor *c, field_element read, void *ctx, size_t *count)
{
    TRY(json_enter_array(c));
    for (*count = 0;; ++*count) {
        bool more;
        char where[32];
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        struct err err = read(ctx, c);
        if (err.code == ERR_TOO_MANY)
            return err;
        snprintf(where, sizeof where, "[%zu]", *count);
        if (err.code != ERR_OK)
            return field_in(err, where);
    }
}
