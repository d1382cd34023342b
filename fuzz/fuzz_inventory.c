/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/inventory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A place of the inventory. There is only one encoding: what is accepted, and not of the
 * oldest version, is encoded to the same bytes again but for the version, with zeros up to the end.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct inventory *inv = ALLOC(struct inventory);
    struct err e = inventory_decode((struct str){(const char *)data, size}, inv);
    if (e.code == ERR_OK && inv->has_log) {
        char *place = alloc_get(INVENTORY_PLACE);
        inventory_encode(inv, place);
        size_t len = 8 + data[4] + (size_t)data[5] * 256;
        bool same = place[8] == (char)data[8];
        must(size >= len &&
             memcmp(place + (same ? 0 : 9), data + (same ? 0 : 9), len - (same ? 0 : 9)) == 0);
        free(place);
    } else {
        must(e.code == ERR_OK || e.code == ERR_CORRUPT || e.code == ERR_VERSION);
    }
    free(inv);
    return 0;
}
