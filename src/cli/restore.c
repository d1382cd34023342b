/* SPDX-License-Identifier: Apache-2.0 */

/* tenax restore FILE: unpacks a backup beside the root directory, checks it, and only then puts it
 * in place. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "client/when.h"
#include "store/bundle.h"
#include "store/history_mark.h"
#include "base/folder.h"
#include "store/rocks.h"

struct restore_args {
    const char *root_dir;
    bool force, verify;
};

static const struct option_def options[] = {
    {"root-dir", "DIR", OPTION_TEXT, offsetof(struct restore_args, root_dir),
     .env = "TENAX_ROOT_DIR", .alias = "ZIZQ_ROOT_DIR", .def = "./tenax-root",
     .help = "the root directory to create"},
    {"force", NULL, OPTION_SWITCH, offsetof(struct restore_args, force),
     .help = "replace DIR, and all jobs in it, if it is not empty"},
    {"verify", NULL, OPTION_SWITCH, offsetof(struct restore_args, verify),
     .help = "only check that FILE is complete; write nothing"},
    {0},
};

const struct subcommand restore_command = {
    .name = "restore",
    .usage = "[OPTIONS] FILE",
    .summary = "create a root directory from a backup",
    .about =
        "Unpacks a file written by `tenax backup` into a folder beside DIR, checks every file "
        "against "
        "the list in it, and only then renames the folder to DIR. A backup that is truncated, "
        "damaged or something else is refused, and DIR stays as it was. With - the backup comes "
        "from standard input.\n"
        "Stop the server first if it uses DIR. Jobs that workers held when the "
        "backup was made are handed out again, as after a restart.",
    .examples = "  tenax restore jobs.tar.zst --root-dir /var/lib/tenax\n"
                "  tenax restore --verify jobs.tar.zst\n",
    .options = options,
    .rest = "FILE",
};

struct restore {
    const char *file, *dir;
    bool force;
    int fd;
    char *beside; /* the folder that is unpacked into */
    int lock;     /* of the root directory that is replaced, or -1 */
    bool replaces;
    struct bundle_facts facts;
};

static struct err open_backup(struct restore *r)
{
    if (strcmp(r->file, "-") == 0) {
        r->fd = STDIN_FILENO;
        return err_none();
    }
    r->fd = open(r->file, O_RDONLY | O_CLOEXEC);
    return r->fd < 0 ? folder_error("open", r->file) : err_none();
}

static struct err check_target(struct restore *r)
{
    bool there, empty;
    TRY(folder_look(r->dir, &there, &empty));
    if (!there || empty)
        return err_none();
    if (!r->force)
        return err_make(ERR_USAGE, "%.150s is not empty; --force replaces it", r->dir);
    r->replaces = true;
    return rocks_lock(r->dir, &r->lock);
}

static struct err make_beside(struct restore *r)
{
    size_t n = strlen(r->dir);
    while (n > 1 && r->dir[n - 1] == '/')
        n--;
    struct buf name = {0};
    buf_print(&name, "%.*s.restore-XXXXXX", (int)n, r->dir);
    buf_byte(&name, '\0');
    if (!mkdtemp(name.at)) {
        struct err e = folder_error("make", name.at);
        buf_fini(&name);
        return e;
    }
    r->beside = name.at;
    return err_none();
}

static struct err cannot_place(const struct restore *r)
{
    if (errno == EBUSY || errno == EXDEV)
        return err_make(ERR_IO,
                        "%.120s is a mount point and cannot be replaced; restore to a "
                        "folder in it",
                        r->dir);
    return folder_error("put in place", r->dir);
}

/* In one step, so that DIR is the old or the new one at any time. */
static struct err put_in_place(struct restore *r)
{
    int done = r->replaces ? renameat2(AT_FDCWD, r->beside, AT_FDCWD, r->dir, RENAME_EXCHANGE)
                           : rename(r->beside, r->dir);
    if (done != 0)
        return cannot_place(r);
    TRY(folder_settle(r->dir));
    return r->replaces ? folder_remove(r->beside) : err_none(); /* now the old one */
}

static struct err unpack_beside(struct restore *r)
{
    TRY(bundle_read(r->fd, r->beside, &r->facts));
    TRY(history_mark_make(r->beside));
    return put_in_place(r);
}

static struct err unpack(struct restore *r)
{
    TRY(check_target(r));
    TRY(make_beside(r));
    struct err e = unpack_beside(r);
    if (e.code != ERR_OK) {
        struct err ignored = folder_remove(r->beside); /* the first error is the one to report */
        (void)ignored;
    }
    return e;
}

static void print_facts(const struct restore *r, bool verified)
{
    struct buf line = {0};
    buf_print(&line, "%s: %llu files, %.1f MiB, made by tenax %s at ", r->file,
              (unsigned long long)r->facts.files, (double)r->facts.bytes / (1024 * 1024),
              r->facts.version);
    when_absolute(&line, r->facts.made);
    if (verified)
        buf_lit(&line, "; it is complete\n");
    else
        buf_print(&line, "; restored to %s\n", r->dir);
    subcommand_print(stdout, &line);
    buf_fini(&line);
}

static struct err read_backup(struct restore *r, bool verify)
{
    TRY(open_backup(r));
    TRY(verify ? bundle_read(r->fd, NULL, &r->facts) : unpack(r));
    print_facts(r, verify);
    return err_none();
}

static int restore(struct restore *r, bool verify)
{
    struct err e = read_backup(r, verify);
    if (e.code != ERR_OK)
        fprintf(stderr, "tenax restore: %s\n", e.msg);
    if (r->fd > STDIN_FILENO)
        close(r->fd);
    rocks_unlock(r->lock);
    free(r->beside);
    return e.code == ERR_OK ? CLI_OK : e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
}

int restore_main(int argc, char **argv)
{
    struct restore_args args = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&restore_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1)
        return subcommand_usage(&restore_command, "name one file, or - for standard input");
    struct restore r = {
        .file = o.rest[0], .dir = args.root_dir, .force = args.force, .fd = -1, .lock = -1};
    return restore(&r, args.verify);
}
