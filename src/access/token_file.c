/* SPDX-License-Identifier: Apache-2.0 */
#include "access/token_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/folder.h"
#include "base/log.h"

#define FOLDER   "new-tokens"
#define FILE_MAX 32768

static struct err failed(const char *path)
{
    return err_make(ERR_IO, "%.150s: %s", path, strerror(errno));
}

static bool path_of(char path[PATH_MAX], const char *root_dir, const char *name)
{
    int n =
        snprintf(path, PATH_MAX, "%s/" FOLDER "%s%s", root_dir, name ? "/" : "", name ? name : "");
    return n > 0 && n < PATH_MAX;
}

static void name_of(char name[TOKEN_ID_LEN + 8], const struct token *t, const char *suffix)
{
    snprintf(name, TOKEN_ID_LEN + 8, "%.*s%s", TOKEN_ID_LEN, t->id, suffix);
}

/* --- writing --- */

/* The server may run as another user than the one who makes a token for it, such as root: files
 * belong to the owner of the root directory. */
static struct err give_to_owner(const char *root_dir, int fd, const char *path)
{
    struct stat st;
    if (stat(root_dir, &st) != 0)
        return failed(root_dir);
    if (geteuid() == 0 && fchown(fd, st.st_uid, st.st_gid) != 0)
        return failed(path);
    return err_none();
}

static struct err make_folder(const char *root_dir, const char *path)
{
    TRY(folder_make(path, 0700));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return failed(path);
    struct err err = give_to_owner(root_dir, fd, path);
    close(fd);
    return err;
}

static struct err write_file(const char *root_dir, const char *path, struct str text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return failed(path);
    struct err err = give_to_owner(root_dir, fd, path);
    if (err.code == ERR_OK && (write(fd, text.at, text.len) != (ssize_t)text.len || fsync(fd) != 0))
        err = failed(path);
    close(fd);
    return err;
}

/* Under another name first, so that a crash leaves no part of a token. */
struct err token_file_write(const char *root_dir, const struct token *t)
{
    char folder[PATH_MAX], fresh[PATH_MAX], path[PATH_MAX];
    char name[TOKEN_ID_LEN + 8], part[TOKEN_ID_LEN + 8];
    struct buf b = {0};
    name_of(name, t, ".json");
    name_of(part, t, ".part");
    if (!path_of(folder, root_dir, NULL) || !path_of(fresh, root_dir, part) ||
        !path_of(path, root_dir, name))
        return err_make(ERR_IO, "%.100s: the path is too long", root_dir);
    TRY(make_folder(root_dir, folder));
    token_write(t, &b);
    struct err err = write_file(root_dir, fresh, buf_view(&b));
    buf_fini(&b);
    if (err.code == ERR_OK && rename(fresh, path) != 0)
        err = failed(path);
    return err.code == ERR_OK ? folder_sync(folder) : err;
}

/* --- reading --- */

static bool is_token_file(const char *name)
{
    return strlen(name) == TOKEN_ID_LEN + 5 && strcmp(name + TOKEN_ID_LEN, ".json") == 0;
}

static struct err read_file(const char *path, struct token **t)
{
    char text[FILE_MAX];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return failed(path);
    ssize_t n = read(fd, text, sizeof text);
    struct err err = n < 0 ? failed(path) : err_none();
    close(fd);
    return err.code == ERR_OK ? token_read((struct str){text, (size_t)n}, t) : err;
}

static bool take_file(const char *root_dir, const char *name,
                      void (*take)(void *ctx, struct token *t), void *ctx)
{
    char path[PATH_MAX];
    struct token *t;
    if (!is_token_file(name) || !path_of(path, root_dir, name))
        return false;
    struct err err = read_file(path, &t);
    if (err.code == ERR_OK && strncmp(name, t->id, TOKEN_ID_LEN) != 0) {
        token_free(t);
        err = err_make(ERR_CORRUPT, "it is another token than its name says");
    }
    if (err.code != ERR_OK) {
        log_error("the file %s is passed over: %s", path, err.msg);
        return false;
    }
    take(ctx, t);
    return true;
}

struct err token_file_read_all(const char *root_dir, size_t most,
                               void (*take)(void *ctx, struct token *t), void *ctx)
{
    char folder[PATH_MAX];
    if (!path_of(folder, root_dir, NULL))
        return err_none();
    DIR *d = opendir(folder);
    if (!d)
        return errno == ENOENT ? err_none() : failed(folder);
    /* A file that was removed before a crash may be on the disk, and be there again later, when its
     * token has been deleted. */
    if (fsync(dirfd(d)) != 0) {
        struct err err = failed(folder);
        closedir(d);
        return err;
    }
    for (const struct dirent *e; most > 0 && (e = readdir(d));)
        most -= take_file(root_dir, e->d_name, take, ctx);
    closedir(d);
    return err_none();
}

void token_file_remove(const char *root_dir, const struct token *t)
{
    char path[PATH_MAX], name[TOKEN_ID_LEN + 8];
    name_of(name, t, ".json");
    if (path_of(path, root_dir, name) && unlink(path) != 0 && errno != ENOENT)
        log_warn("cannot remove %s: %s", path, strerror(errno));
}

void token_file_removed(const char *root_dir)
{
    char folder[PATH_MAX];
    struct err err = err_none();
    if (path_of(folder, root_dir, NULL))
        err = folder_sync(folder);
    if (err.code != ERR_OK)
        log_error("after a power cut tokens may be there again that are deleted: %s", err.msg);
}
