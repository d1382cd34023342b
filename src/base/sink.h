/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SINK_H
#define BASE_SINK_H

/* Where bytes go, one piece after the other. An error ends it: whoever writes passes it on
 * and writes no more. */

#include "base/err.h"
#include "base/str.h"

struct sink {
    struct err (*write)(void *ctx, struct str bytes);
    void *ctx;
};

#endif
