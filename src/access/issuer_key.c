/* SPDX-License-Identifier: Apache-2.0 */
#include "access/issuer_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/folder.h"

static struct err failed(const char *path)
{
    return err_make(ERR_IO, "%s: %s", path, strerror(errno));
}

/* --- reading --- */

static struct err read_key(int fd, const char *path, char key[ACCESS_KEY_MIN])
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return failed(path);
    if (st.st_mode & (S_IRWXG | S_IRWXO))
        return err_make(ERR_IO, "%s: others than its owner may use this key; chmod 600", path);
    if (!S_ISREG(st.st_mode) || st.st_size != ACCESS_KEY_MIN ||
        read(fd, key, ACCESS_KEY_MIN) != ACCESS_KEY_MIN)
        return err_make(ERR_CORRUPT, "%s: not a key of %d bytes", path, ACCESS_KEY_MIN);
    return err_none();
}

/* --- making --- */

static struct err write_key(const char *path, const char key[ACCESS_KEY_MIN])
{
    unlink(path); /* left by a crash, with unknown permissions */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(path);
    bool ok = write(fd, key, ACCESS_KEY_MIN) == ACCESS_KEY_MIN && fsync(fd) == 0;
    struct err err = ok ? err_none() : failed(path);
    close(fd);
    return err;
}

/* Under another name first, so that a crash never leaves part of a key. */
static struct err make_key(const char *path, char key[ACCESS_KEY_MIN])
{
    struct buf fresh = {0};
    if (RAND_bytes((unsigned char *)key, ACCESS_KEY_MIN) != 1)
        return err_make(ERR_IO, "%s: no random bytes for a key", path);
    buf_print(&fresh, "%s.new", path);
    buf_byte(&fresh, '\0');
    struct err err = write_key(fresh.at, key);
    if (err.code == ERR_OK && rename(fresh.at, path) != 0)
        err = failed(path);
    if (err.code == ERR_OK)
        err = folder_sync_of(path);
    buf_fini(&fresh);
    return err;
}

struct err issuer_key_open(const char *path, char key[ACCESS_KEY_MIN])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? make_key(path, key) : failed(path);
    struct err err = read_key(fd, path, key);
    close(fd);
    /* Whoever made it may have been killed before its name was on the disk. */
    return err.code == ERR_OK ? folder_sync_of(path) : err;
}
