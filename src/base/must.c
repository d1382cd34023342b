/* SPDX-License-Identifier: Apache-2.0 */
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

void must_fail(const char *expr, const char *file, int line)
{
    fprintf(stderr, "tenax: broken promise at %s:%d: %s\n", file, line, expr);
    abort();
}
