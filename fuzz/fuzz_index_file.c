/* SPDX-License-Identifier: Apache-2.0 */

/* The file of a snapshot of the indexes, and what is in it: whatever it says, it is refused or
 * makes an engine whose indexes agree. */

#include <stdint.h>
#include <stdlib.h>

#include "base/must.h"
#include "core/engine.h"
#include "core/engine_snapshot.h"
#include "core/verdict.h"
#include "store/index_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void load(const struct str *chunks, size_t count)
{
    const struct engine_settings settings = {.retry = retry_defaults()};
    const struct port port = {.ctx = NULL};
    const struct engine_sink sink = {.ctx = NULL};
    struct snapshot_ids rest = {0};
    struct engine *e = engine_new(&settings, &port, &sink, rng_from_seed(1));
    struct err err = engine_snapshot_load(e, (instant){1700000000000}, chunks, count,
                                          (struct snapshot_ids){0}, &rest);
    must(err.code == ERR_OK || (err.code == ERR_CORRUPT && rest.count == 0));
    engine_free(e);
    free(rest.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct index_image image;
    const struct str bytes = {(const char *)data, size};
    load(&bytes, 1); /* without the checksums around it */
    struct err err = index_image_read(bytes, &image);
    must(err.code == ERR_OK || err.code == ERR_CORRUPT || err.code == ERR_VERSION);
    if (err.code == ERR_OK)
        load(image.chunks, image.count);
    index_image_close(&image);
    return 0;
}
