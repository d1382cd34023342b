/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_INDEX_FILE_INTERNAL_H
#define STORE_INDEX_FILE_INTERNAL_H

/* The layout of the file, for the one that writes it and the one that reads it.
 *
 *   file    8 bytes INDEX_MAGIC, 4 bytes INDEX_VERSION, frames of chunks, the frame of the end
 *   frame   8 bytes where it begins in the file, 4 bytes kind, 4 bytes length, 4 bytes checksum of
 *           all that and of the contents, contents
 *   end     the numbers of struct index_head, 8 bytes each
 *
 * All numbers are little-endian. */

#include "store/index_file.h"

#define INDEX_MAGIC      "TENAXIDX"
#define INDEX_VERSION    1
#define INDEX_BEGIN_LEN  12
#define INDEX_FRAME_HEAD 20

enum { INDEX_FRAME_CHUNK = 1, INDEX_FRAME_END = 2 };

_Static_assert(sizeof(struct index_head) == 8 * (4 + INDEX_FACTS), "it is nothing but numbers");

void index_put(char *at, uint64_t v, size_t bytes);
/* Of a frame whose head has all but it. */
uint32_t index_frame_checksum(const char *head, const char *contents, size_t len);

#endif
