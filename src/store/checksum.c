/* SPDX-License-Identifier: Apache-2.0 */
#include "store/checksum.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78)

/* tables[n][b]: the contribution of byte b to the checksum n bytes later. Eight bytes at a time. */
static uint32_t tables[8][256];
static bool in_hardware;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void)
{
#ifdef __x86_64__
    in_hardware = __builtin_cpu_supports("sse4.2");
#endif
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][b] = crc;
    }
    for (int n = 1; n < 8; n++)
        for (uint32_t b = 0; b < 256; b++)
            tables[n][b] = tables[n - 1][b] >> 8 ^ tables[0][tables[n - 1][b] & 0xff];
}

static uint32_t add_eight(uint32_t crc, const unsigned char *at)
{
    crc ^= (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    return tables[7][crc & 0xff] ^ tables[6][crc >> 8 & 0xff] ^ tables[5][crc >> 16 & 0xff] ^
           tables[4][crc >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
           tables[0][at[7]];
}

/* Both get and return the complement of the checksum. */

static uint32_t add_by_tables(uint32_t crc, const unsigned char *at, size_t len)
{
    for (; len >= 8; at += 8, len -= 8)
        crc = add_eight(crc, at);
    for (; len > 0; at++, len--)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t
add_in_hardware(uint32_t crc, const unsigned char *at, size_t len)
{
    uint64_t wide = crc, word;
    for (; len >= 8; at += 8, len -= 8) {
        memcpy(&word, at, 8);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; len > 0; at++, len--)
        crc = __builtin_ia32_crc32qi(crc, *at);
    return crc;
}
#else
#define add_in_hardware add_by_tables
#endif

uint32_t checksum_add(uint32_t before, const void *bytes, size_t len)
{
    pthread_once(&once, prepare);
    return ~(in_hardware ? add_in_hardware : add_by_tables)(~before, bytes, len);
}

uint32_t checksum_add_by_tables(uint32_t before, const void *bytes, size_t len)
{
    pthread_once(&once, prepare);
    return ~add_by_tables(~before, bytes, len);
}
