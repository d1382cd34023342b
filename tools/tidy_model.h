/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TIDY_MODEL_H
#define TOOLS_TIDY_MODEL_H

/* Put before every file that clang-tidy looks at: what an analyzer that sees one file
 * at a time cannot know of the others. An error that was made is an error; without
 * this it follows paths on which err_make returns success. */

#include "base/err.h"

static inline struct err tidy_model_err(enum err_code code, int64_t offset, ...)
{
    if (code == ERR_OK)
        __builtin_unreachable();
    return (struct err){.code = code, .offset = offset};
}

#define err_make(code, ...)       tidy_model_err((code), -1, __VA_ARGS__)
#define err_at(code, offset, ...) tidy_model_err((code), (offset), __VA_ARGS__)

#endif
