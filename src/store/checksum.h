/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_CHECKSUM_H
#define STORE_CHECKSUM_H

/* CRC-32C (Castagnoli), as RocksDB's files use it. */

#include <stddef.h>
#include <stdint.h>

/* Goes on from the checksum of what came before; 0 begins. */
uint32_t checksum_add(uint32_t before, const void *at, size_t len);

#endif
