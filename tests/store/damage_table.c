/* SPDX-License-Identifier: Apache-2.0 */

/* damage_table ROOT_DIR block|end|make|pile: writes all of a root directory that nobody is using
 * into tables and damages the largest one: a byte in its middle, or the last one, without which
 * none of it can be read; or leaves it intact; `pile` adds so many tables to be merged with it that
 * RocksDB writes no other before. Prints its path. For tests of the real binary. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "store/rocks_pace.h"
#include "store/tables.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("damage_table ROOT_DIR block|end|make|pile\n", stderr);
        return 2;
    }
    size_t size;
    tables_make(argv[1], strcmp(argv[2], "end") != 0);
    bool pile = strcmp(argv[2], "pile") == 0;
    if (pile)
        tables_pile(argv[1], ROCKS_PACE_SLOWDOWN + 2);
    char *path = tables_largest(argv[1], &size);
    must(path);
    if (!pile && strcmp(argv[2], "make") != 0)
        tables_flip(path, strcmp(argv[2], "end") == 0 ? -1 : (long)size / 2);
    puts(path);
    free(path);
    return 0;
}
