/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

/* Allocation that does not fail: with overcommit a failed malloc means a
 * corrupted size or a hard limit, and the process that cannot record what it
 * promised must stop rather than go on. Inputs are bounded before they get here. */

#include <stddef.h>

/* size may be 0; released with free(). */
void *alloc_get(size_t size) __attribute__((malloc, returns_nonnull));
void *alloc_zero(size_t size) __attribute__((malloc, returns_nonnull));
void *alloc_resize(void *p, size_t size) __attribute__((returns_nonnull));
/* A NUL-terminated copy of len bytes. */
char *alloc_text(const char *at, size_t len) __attribute__((malloc, returns_nonnull));

/* Makes room for one more element in a growing array of count elements, which has room for cap: an
 * empty array is given room for first, a full one twice the room. */
#define ALLOC_GROW(at, count, cap, first)                                                          \
    do {                                                                                           \
        if ((count) == (cap)) {                                                                    \
            (cap) = (cap) ? (cap)*2 : (first);                                                     \
            (at) = alloc_resize((at), (cap) * sizeof *(at));                                       \
        }                                                                                          \
    } while (0)

#define ALLOC(type) ((type *)alloc_zero(sizeof(type)))

#endif
