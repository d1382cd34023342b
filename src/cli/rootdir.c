/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rootdir.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct contents {
    bool used;   /* the store's own files are there */
    bool served; /* a server has been there, perhaps one whose jobs are in PostgreSQL */
    bool other;  /* something that no server makes before its store */
};

static void look_at(const char *name, struct contents *c)
{
    static const char *const early[] = {".", "..", "LOCK", "new-tokens", "log", "lost+found"};
    if (strcmp(name, "CURRENT") == 0 || strcmp(name, "INVENTORY") == 0)
        c->used = true;
    if (strcmp(name, "issuer-key") == 0)
        c->served = true;
    for (size_t i = 0; i < sizeof early / sizeof *early; i++)
        if (strcmp(name, early[i]) == 0)
            return;
    c->other = true;
}

struct err rootdir_check(const char *dir, enum rootdir_kind kind)
{
    struct contents c = {0};
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT)
        return err_make(ERR_USAGE, "%.150s is not a root directory: there is no such folder", dir);
    if (!d)
        return err_make(ERR_USAGE, "%.150s is not a root directory: %s", dir, strerror(errno));
    for (struct dirent *e; (e = readdir(d));)
        look_at(e->d_name, &c);
    closedir(d);
    if (c.used || (kind == ROOTDIR_ANY && (c.served || !c.other)))
        return err_none();
    if (c.served)
        return err_make(ERR_USAGE,
                        "%.150s has no jobs: the server that was there keeps none in it, as with "
                        "--postgres",
                        dir);
    return err_make(ERR_USAGE, "%.150s is not a root directory: it %s", dir,
                    c.other ? "has no file CURRENT" : "is empty");
}
