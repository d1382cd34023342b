/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

void *alloc_get(size_t size)
{
    void *p = malloc(size ? size : 1);
    must(p != NULL);
    return p;
}

void *alloc_zero(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    must(p != NULL);
    return p;
}

void *alloc_resize(void *old, size_t size)
{
    void *p = realloc(old, size ? size : 1);
    must(p != NULL);
    return p;
}

char *alloc_text(const char *at, size_t len)
{
    char *p = alloc_get(len + 1);
    if (len)
        memcpy(p, at, len);
    p[len] = '\0';
    return p;
}
