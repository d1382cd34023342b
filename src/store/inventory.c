/* SPDX-License-Identifier: Apache-2.0 */
#include "store/inventory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/must.h"
#include "store/checksum.h"
#include "base/folder.h"
#include "store/rocks_manifest.h"
#include "store/reader.h"
#include "store/writer.h"

#define PLACES          2
#define VERSION         3           /* of 2 the log did not say what was durable */
#define VERSION_OF_LOGS 1           /* before there was our log */
#define HEADER          ((size_t)8) /* checksum and length, little-endian */
/* How to continue anyway. */
#define REMEDY                                                                                     \
    "restore a backup; or remove its file " INVENTORY_FILE                                         \
    " to continue with what is left, without the acknowledged data that is lost"

static char *path_of(const char *dir, const char *name)
{
    struct buf path = {0};
    buf_print(&path, "%s/%s", dir, name);
    buf_byte(&path, '\0');
    return path.at;
}

/* --- the file --- */

static uint32_t number_at(const char *at)
{
    uint32_t v = 0;
    for (int i = 3; i >= 0; i--)
        v = v << 8 | (unsigned char)at[i];
    return v;
}

static void put_number(char *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(v >> (8 * i));
}

static void write_parts(struct writer *w, const struct inventory *inv)
{
    writer_byte(w, VERSION);
    writer_varint(w, inv->generation);
    writer_varint(w, inv->manifest);
    writer_varint(w, inv->manifest_size);
    writer_varint(w, inv->manifest_checksum);
    writer_byte(w, inv->is.damaged);
    writer_varint(w, inv->is.tables);
    writer_varint(w, inv->is.reached);
    writer_varint(w, inv->is.held);
}

void inventory_encode(const struct inventory *inv, char *place)
{
    struct writer w = writer_into(place + HEADER, INVENTORY_PLACE - HEADER);
    memset(place, 0, INVENTORY_PLACE);
    write_parts(&w, inv);
    must(w.len <= w.cap);
    put_number(place + 4, (uint32_t)w.len);
    put_number(place, checksum_add(0, place + 4, w.len + 4));
}

static void read_logs(struct reader *r, struct inventory *out)
{
    out->sequence = reader_varint(r, "sequence", UINT64_MAX);
    out->is.damaged = reader_byte(r, "damaged", 1);
    out->log_count = reader_varint(r, "logs", INVENTORY_LOGS);
    for (size_t i = 0; i < out->log_count; i++) {
        out->logs[i].number = reader_varint(r, "log", UINT64_MAX);
        out->logs[i].size = reader_varint(r, "log size", INT64_MAX);
    }
}

static void read_parts(struct reader *r, unsigned version, struct inventory *out)
{
    *out = (struct inventory){.has_log = version != VERSION_OF_LOGS};
    out->generation = reader_varint(r, "generation", UINT64_MAX);
    out->manifest = reader_varint(r, "manifest", UINT64_MAX);
    out->manifest_size = reader_varint(r, "manifest size", INT64_MAX);
    out->manifest_checksum = (uint32_t)reader_varint(r, "checksum", UINT32_MAX);
    if (!out->has_log) {
        read_logs(r, out);
        return;
    }
    out->is.damaged = reader_byte(r, "damaged", 1);
    out->is.tables = reader_varint(r, "tables", UINT64_MAX);
    out->is.reached = reader_varint(r, "reached", UINT64_MAX);
    out->is.held = reader_varint(r, "held", UINT64_MAX);
}

struct err inventory_decode(struct str place, struct inventory *out)
{
    struct err bad = err_make(ERR_CORRUPT, "the inventory is damaged");
    size_t len = place.len < HEADER ? SIZE_MAX : number_at(place.at + 4);
    if (place.len < HEADER || len > place.len - HEADER ||
        checksum_add(0, place.at + 4, len + 4) != number_at(place.at))
        return bad;
    struct reader r = {.value = {place.at + HEADER, len}};
    unsigned version = reader_byte(&r, "version", UINT8_MAX);
    if (version < VERSION_OF_LOGS || version > VERSION)
        return err_make(ERR_VERSION, "the inventory was written by a newer tenax: use that one");
    read_parts(&r, version, out);
    return r.bad || reader_left(&r) ? bad : err_none();
}

/* Decodes the newer one of its intact places: the other may have been in the middle of a write. */
NODISCARD static struct err decode_file(const char *dir, const char *bytes, size_t len,
                                        struct inventory *out)
{
    struct inventory *one = ALLOC(struct inventory);
    struct err err =
        err_make(ERR_CORRUPT, "the file " INVENTORY_FILE " of %.150s is damaged: " REMEDY, dir);
    for (size_t i = 0; i < PLACES; i++) {
        size_t at = i * INVENTORY_PLACE;
        if (at + INVENTORY_PLACE > len)
            break;
        struct err e = inventory_decode((struct str){bytes + at, INVENTORY_PLACE}, one);
        if (e.code == ERR_VERSION)
            err = e;
        if (e.code != ERR_OK || err.code == ERR_VERSION ||
            (err.code == ERR_OK && one->generation < out->generation))
            continue;
        *out = *one;
        err = e;
    }
    free(one);
    return err;
}

struct err inventory_read(const char *dir, bool *found, struct inventory *out)
{
    *found = false;
    *out = (struct inventory){0};
    char *path = path_of(dir, INVENTORY_FILE);
    char *bytes = alloc_get(PLACES * INVENTORY_PLACE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, bytes, PLACES * INVENTORY_PLACE, 0);
    struct err err = err_none();
    if (n >= 0)
        err = decode_file(dir, bytes, (size_t)n, out);
    else if (errno != ENOENT)
        err = folder_error("read", path);
    *found = n >= 0 && err.code == ERR_OK;
    if (fd >= 0)
        close(fd);
    free(bytes);
    free(path);
    return err;
}

/* --- the MANIFEST --- */

static char *manifest_path(const char *dir, uint64_t number)
{
    char name[40];
    snprintf(name, sizeof name, "MANIFEST-%06llu", (unsigned long long)number);
    return path_of(dir, name);
}

/* Extends the checksum of the bytes before `from`. *end is where the file ends, if before `to`. */
NODISCARD static struct err add_range(int fd, const char *path, uint64_t from, uint64_t to,
                                      uint32_t *checksum, uint64_t *end)
{
    char bytes[16384];
    for (*end = from; *end < to;) {
        size_t want = to - *end < sizeof bytes ? (size_t)(to - *end) : sizeof bytes;
        ssize_t n = pread(fd, bytes, want, (off_t)*end);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return folder_error("read", path);
        if (n == 0)
            break;
        *checksum = checksum_add(*checksum, bytes, (size_t)n);
        *end += (uint64_t)n;
    }
    return err_none();
}

/* Its beginning must be as recorded. */
NODISCARD static struct err check_manifest(const char *dir, const struct inventory *inv)
{
    char *path = manifest_path(dir, inv->manifest);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint32_t checksum = 0;
    uint64_t end = 0;
    struct err err = fd < 0 ? folder_error("open", path) : err_none();
    if (fd >= 0) {
        err = add_range(fd, path, 0, inv->manifest_size, &checksum, &end);
        close(fd);
    }
    if (err.code == ERR_OK && end < inv->manifest_size)
        err = err_make(ERR_CORRUPT,
                       "%.150s, which names the tables, had %llu bytes and has %llu: " REMEDY, path,
                       (unsigned long long)inv->manifest_size, (unsigned long long)end);
    else if (err.code == ERR_OK && checksum != inv->manifest_checksum)
        err = err_make(ERR_CORRUPT,
                       "%.150s, which names the tables, is damaged: its first %llu bytes have "
                       "changed: " REMEDY,
                       path, (unsigned long long)inv->manifest_size);
    free(path);
    return err;
}

/* --- the logs --- */

static const struct wal_file *find_log(const struct wal_file *files, size_t count, uint64_t number)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].number == number)
            return &files[i];
    return NULL;
}

/* All logs of the inventory that tables have not absorbed must still be there. */
NODISCARD static struct err check_logs(const char *dir, const struct inventory *inv, uint64_t first)
{
    struct wal_file *files;
    size_t count;
    TRY(wal_list(dir, &files, &count));
    struct err err = err_none();
    for (size_t i = 0; i < inv->log_count && err.code == ERR_OK; i++) {
        const struct wal_file *must_be = &inv->logs[i];
        const struct wal_file *is = find_log(files, count, must_be->number);
        if (must_be->number < first)
            continue;
        if (!is)
            err = err_make(ERR_CORRUPT, "the log %.150s/%06llu.log is missing: " REMEDY, dir,
                           (unsigned long long)must_be->number);
        else if (is->size < must_be->size)
            err = err_make(ERR_CORRUPT,
                           "the log %.150s/%06llu.log had %llu bytes and has %llu: " REMEDY, dir,
                           (unsigned long long)is->number, (unsigned long long)must_be->size,
                           (unsigned long long)is->size);
    }
    free(files);
    return err;
}

NODISCARD static struct err check_against(const char *dir, const struct inventory *inv)
{
    struct rocks_manifest m;
    TRY(rocks_manifest_find(dir, &m));
    if (m.number < inv->manifest)
        return err_make(ERR_CORRUPT, "%.150s/CURRENT is missing or old: " REMEDY, dir);
    /* A newer one was written by the next start, which was interrupted. */
    if (m.number == inv->manifest)
        TRY(check_manifest(dir, inv));
    if (inv->has_log || !m.number)
        return err_none();
    TRY(rocks_manifest_read(dir, &m));
    return check_logs(dir, inv, m.log);
}

struct err inventory_check(const char *dir, struct inventory *out)
{
    bool found;
    TRY(inventory_read(dir, &found, out));
    return found ? check_against(dir, out) : err_none();
}

/* --- a directory that is not a root directory yet --- */

/* What an interrupted first start, its log, or the operating system may have left. */
static bool is_ours(const char *name)
{
    static const char *const begin[] = {"LOCK",       "LOG",       "MANIFEST-",  "OPTIONS-",
                                        "IDENTITY",   "snapshot",  "lost+found", INVENTORY_FILE,
                                        "issuer-key", "artifacts", "segment-",   "INDEX"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; i < COUNT(begin); i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0)
            return true;
    return name[0] == '.' || strcmp(name, "log") == 0 || (dot && strcmp(dot, ".dbtmp") == 0);
}

NODISCARD static struct err check_entry(const char *dir, const char *name)
{
    const char *dot = strrchr(name, '.');
    bool digits = name[0] >= '0' && name[0] <= '9';
    if (digits && dot && (strcmp(dot, ".log") == 0 || strcmp(dot, ".sst") == 0))
        return err_make(ERR_CORRUPT,
                        "%.150s has %.60s, but its file CURRENT is missing: restore a backup", dir,
                        name);
    if (is_ours(name))
        return err_none();
    if (strncmp(name, "cache", 5) == 0)
        return err_make(ERR_USAGE,
                        "%.150s is the root directory of a server on PostgreSQL: start it with "
                        "--postgres",
                        dir);
    return err_make(ERR_USAGE,
                    "%.150s is not a root directory, and not empty: it has '%.60s'; name another "
                    "folder, which will be created",
                    dir, name);
}

struct err inventory_check_new(const char *dir)
{
    struct rocks_manifest m;
    TRY(rocks_manifest_find(dir, &m));
    DIR *d = m.number ? NULL : opendir(dir);
    if (!d)
        return m.number ? err_none() : folder_error("read", dir);
    struct err err = err_none();
    const struct dirent *entry;
    while (err.code == ERR_OK && (entry = readdir(d)))
        err = check_entry(dir, entry->d_name);
    closedir(d);
    return err;
}

/* --- writing --- */

struct inventory_writer {
    char *dir;
    int fd;
    struct inventory now; /* as last written */
};

/* Creates the whole file at once, so that an existing one is never empty. */
NODISCARD static struct err make_file(const char *dir, const struct inventory *inv)
{
    char *path = path_of(dir, INVENTORY_FILE), *partial = path_of(dir, INVENTORY_FILE ".new");
    char *bytes = alloc_zero(PLACES * INVENTORY_PLACE);
    inventory_encode(inv, bytes);
    int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct err err = err_none();
    if (fd < 0 ||
        write(fd, bytes, PLACES * INVENTORY_PLACE) != (ssize_t)(PLACES * INVENTORY_PLACE) ||
        fsync(fd) != 0 || rename(partial, path) != 0)
        err = folder_error("make", path);
    if (fd >= 0)
        close(fd);
    if (err.code == ERR_OK)
        err = folder_sync(dir);
    else
        unlink(partial);
    free(bytes);
    free(partial);
    free(path);
    return err;
}

NODISCARD static struct err open_writer(struct inventory_writer *w)
{
    bool found;
    TRY(inventory_read(w->dir, &found, &w->now));
    if (!found)
        TRY(make_file(w->dir, &w->now));
    char *path = path_of(w->dir, INVENTORY_FILE);
    w->fd = open(path, O_RDWR | O_CLOEXEC);
    struct err err = w->fd < 0 ? folder_error("open", path) : err_none();
    free(path);
    /* The checksum may only be extended for the same file. */
    w->now.manifest = 0;
    return err;
}

struct err inventory_writer_new(const char *dir, struct inventory_writer **out)
{
    struct inventory_writer *w = ALLOC(struct inventory_writer);
    w->dir = alloc_text(dir, strlen(dir));
    w->fd = -1;
    struct err err = open_writer(w);
    if (err.code != ERR_OK) {
        inventory_writer_free(w);
        return err;
    }
    *out = w;
    return err;
}

void inventory_writer_free(struct inventory_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w->dir);
    free(w);
}

NODISCARD static struct err note_manifest(struct inventory_writer *w)
{
    struct inventory *inv = &w->now;
    struct rocks_manifest m;
    TRY(rocks_manifest_find(w->dir, &m));
    if (m.number != inv->manifest) {
        inv->manifest = m.number;
        inv->manifest_size = inv->manifest_checksum = 0;
    }
    char *path = manifest_path(w->dir, m.number);
    struct stat st;
    uint64_t end = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct err err = err_none();
    if (fd < 0 || fdatasync(fd) != 0 || fstat(fd, &st) != 0)
        err = folder_error("sync", path);
    else
        err = add_range(fd, path, inv->manifest_size, (uint64_t)st.st_size, &inv->manifest_checksum,
                        &end);
    if (err.code == ERR_OK)
        inv->manifest_size = end;
    if (fd >= 0)
        close(fd);
    free(path);
    return err;
}

NODISCARD static struct err write_next(struct inventory_writer *w)
{
    w->now.generation++;
    char *place = alloc_get(INVENTORY_PLACE);
    inventory_encode(&w->now, place);
    off_t at = (off_t)(w->now.generation % PLACES * INVENTORY_PLACE);
    struct err err = err_none();
    if (pwrite(w->fd, place, INVENTORY_PLACE, at) != (ssize_t)INVENTORY_PLACE ||
        fdatasync(w->fd) != 0)
        err = folder_error("write the inventory of", w->dir);
    free(place);
    return err;
}

struct err inventory_write(struct inventory_writer *w, const struct inventory_state *is)
{
    bool upgrades = !w->now.has_log, damaged = w->now.is.damaged;
    TRY(folder_sync(w->dir));
    TRY(note_manifest(w));
    w->now.has_log = true;
    w->now.is = *is;
    w->now.is.damaged |= damaged;
    TRY(write_next(w));
    /* An older tenax, to which one place is enough, finds none that it knows. */
    return upgrades ? write_next(w) : err_none();
}
