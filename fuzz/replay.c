/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a fuzz target over every file of the folder given as its argument, in the order of their
 * names, so that faults found once by a fuzzer do not come back. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *path)
{
    FILE *in = fopen(path, "rb");
    must(in);
    struct stat st;
    must(fstat(fileno(in), &st) == 0);
    size_t size = (size_t)st.st_size;
    /* Exactly as large as the input, so that AddressSanitizer detects a read past it. */
    uint8_t *data = size ? alloc_get(size) : NULL;
    must(fread(data, 1, size, in) == size);
    fclose(in);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int is_input(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    struct dirent **entries;
    int n = scandir(argv[1], &entries, is_input, alphasort);
    if (n <= 0) {
        fprintf(stderr, "%s: no inputs there\n", argv[1]);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        int len = snprintf(path, sizeof path, "%s/%s", argv[1], entries[i]->d_name);
        must(len > 0 && (size_t)len < sizeof path);
        replay(path);
        free(entries[i]);
    }
    free(entries);
    printf("%d inputs\n", n);
    return 0;
}
