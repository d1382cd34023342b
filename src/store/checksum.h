/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_CHECKSUM_H
#define STORE_CHECKSUM_H

/* CRC-32C (Castagnoli), as RocksDB's files use it; by the processor's instruction where it has
 * one. */

#include <stddef.h>
#include <stdint.h>

/* Continues from the checksum of the preceding bytes; start with 0. */
uint32_t checksum_add(uint32_t before, const void *at, size_t len);
/* The same on any processor, to compare with. */
uint32_t checksum_add_by_tables(uint32_t before, const void *at, size_t len);

#endif
