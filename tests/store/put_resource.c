/* SPDX-License-Identifier: Apache-2.0 */

/* put_resource ROOT_DIR KIND NAME VERSION BODY: writes a resource (for example a retry policy) into
 * the root directory of a stopped server, whatever its body is. For tests of how a server treats
 * documents that another version has stored. */

#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "store/record.h"
#include "store/rocks.h"

static void notify(void *ctx)
{
    (void)ctx;
}

static int complain(const struct err *e)
{
    fprintf(stderr, "put_resource: %s\n", e->msg);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("put_resource ROOT_DIR KIND NAME VERSION BODY\n", stderr);
        return 2;
    }
    const struct rocks_settings settings = {
        .dir = argv[1], .cache_bytes = 8 << 20, .notify = notify};
    struct store *s;
    struct err err = rocks_open(&settings, &s);
    if (err.code != ERR_OK)
        return complain(&err);
    struct batch b = {0};
    record_put_resource(&b, argv[2][0], str_from(argv[3]), strtoull(argv[4], NULL, 10),
                        str_from(argv[5]));
    store_commit(s, &b, true);
    store_wait(s);
    must(store_reap(s, &err));
    batch_fini(&b);
    store_close(s);
    return err.code == ERR_OK ? 0 : complain(&err);
}
