/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

/* The number of elements of an array; of a pointer it is nonsense, and gcc warns. */
#define COUNT(array) (sizeof(array) / sizeof *(array))

#endif
