/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/rocks_fragment.h"
#include "store/rocks_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The fragments of a file, and their records as those of a MANIFEST; also the input itself as
 * one such record, because a fuzzer cannot get past the checksums. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rocks_manifest m = {0};
    rocks_manifest_add(&m, (struct str){(const char *)data, size});
    int fd = memfd_create("manifest", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    struct rocks_fragments *in = ALLOC(struct rocks_fragments);
    struct buf record = {0};
    rocks_fragment_init(in, fd);
    bool found;
    size_t sum = 0;
    struct err e;
    while ((e = rocks_fragment_next(in, &found, &record)).code == ERR_OK && found) {
        sum += record.len;
        rocks_manifest_add(&m, buf_view(&record));
    }
    must(sum <= size && (e.code == ERR_OK || e.code == ERR_VERSION));
    if (e.code == ERR_OK)
        must(rocks_fragment_next(in, &found, &record).code == ERR_OK && !found);
    buf_fini(&record);
    free(in);
    close(fd);
    return 0;
}
