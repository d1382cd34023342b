/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "store/rocks_manifest.h"
#include "store/rocks_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A file of RocksDB's log format, and its records as those of a MANIFEST; also the input itself as
 * one such record, because a fuzzer cannot get past the checksums. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rocks_manifest m = {0};
    rocks_manifest_add(&m, (struct str){(const char *)data, size});
    int fd = memfd_create("log", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
    struct rocks_log *log = ALLOC(struct rocks_log);
    struct buf record = {0};
    rocks_log_init(log, fd);
    bool found;
    size_t sum = 0;
    struct err e;
    while ((e = rocks_log_next(log, &found, &record)).code == ERR_OK && found) {
        sum += record.len;
        rocks_manifest_add(&m, buf_view(&record));
    }
    must(sum <= size && (e.code == ERR_OK || e.code == ERR_VERSION));
    if (e.code == ERR_OK)
        must(rocks_log_next(log, &found, &record).code == ERR_OK && !found);
    buf_fini(&record);
    free(log);
    close(fd);
    return 0;
}
