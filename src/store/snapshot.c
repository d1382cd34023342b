/* SPDX-License-Identifier: Apache-2.0 */
#include "store/snapshot.h"

#include "base/array.h"
#include "base/buf.h"
#include "store/bundle.h"
#include "base/folder.h"

/* RocksDB builds a snapshot in a folder of that name with ".tmp" appended, and renames it at the
 * end. */
static const char *const names[] = {"snapshot", "snapshot.tmp"};

static const char *path_of(struct buf *b, const char *root_dir, const char *name)
{
    b->len = 0;
    buf_print(b, "%s/%s", root_dir, name);
    buf_byte(b, '\0');
    return b->at;
}

struct err snapshot_sweep(const char *root_dir)
{
    struct buf path = {0};
    struct err e = err_none();
    for (size_t i = 0; i < COUNT(names) && e.code == ERR_OK; i++)
        e = folder_remove(path_of(&path, root_dir, names[i]));
    buf_fini(&path);
    return e;
}

struct err snapshot_write(struct store *s, const char *root_dir, instant made,
                          const struct sink *sink)
{
    struct buf path = {0};
    struct err e = snapshot_sweep(root_dir);
    if (e.code == ERR_OK)
        e = store_snapshot(s, path_of(&path, root_dir, names[0]));
    if (e.code == ERR_OK)
        e = bundle_write(path_of(&path, root_dir, names[0]), made, sink);
    struct err swept = snapshot_sweep(root_dir);
    buf_fini(&path);
    return e.code == ERR_OK ? swept : e;
}
