/* SPDX-License-Identifier: Apache-2.0 */
#include "store/bundle.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/must.h"
#include "base/strmap.h"
#include "base/folder.h"

#define FORMAT       1
#define PREFIX       "tenax-root/"
#define MANIFEST     "manifest.json"
#define NAME_MAX_LEN 100
#define PIECE        ((size_t)256 * 1024)
/* A root directory has at most a few thousand files, at about 130 bytes each. */
#define MANIFEST_MAX ((size_t)64 * 1024 * 1024)

/* --- checksums --- */

#define HEX_LEN 64

struct digest {
    EVP_MD_CTX *ctx;
};

static struct digest digest_open(void)
{
    struct digest d = {EVP_MD_CTX_new()};
    must(d.ctx && EVP_DigestInit_ex(d.ctx, EVP_sha256(), NULL) == 1);
    return d;
}

static void digest_add(struct digest *d, const void *at, size_t n)
{
    must(EVP_DigestUpdate(d->ctx, at, n) == 1);
}

/* hex may be NULL: then the digest is only released. */
static void digest_close(struct digest *d, char hex[HEX_LEN + 1])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    must(EVP_DigestFinal_ex(d->ctx, raw, &n) == 1 && n * 2 == HEX_LEN);
    for (unsigned i = 0; hex && i < n; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", raw[i]);
    EVP_MD_CTX_free(d->ctx);
}

/* --- writing --- */

struct writer {
    struct archive *a;
    struct archive_entry *entry;
    const struct sink *sink;
    struct err failed; /* nothing is written to the sink any more */
    const char *dir;
    struct buf manifest;
    char *piece;
    instant made;
    bool first;
};

/* A failure is not reported to libarchive, which would then never free its buffers. Instead
 * everything after it is discarded, above all the end of the archive. */
static la_ssize_t pass_on(struct archive *a, void *ctx, const void *at, size_t n)
{
    (void)a;
    struct writer *w = ctx;
    if (w->failed.code == ERR_OK)
        w->failed = w->sink->write(w->sink->ctx, (struct str){at, n});
    return (la_ssize_t)n;
}

/* The result of a call of libarchive, which returned `well`. */
NODISCARD static struct err outcome(const struct writer *w, bool well)
{
    if (well || w->failed.code != ERR_OK)
        return w->failed;
    const char *why = archive_error_string(w->a);
    return err_make(ERR_IO, "cannot write the archive: %s", why ? why : "no reason given");
}

NODISCARD static struct err begin_entry(struct writer *w, const char *path, int64_t size)
{
    archive_entry_clear(w->entry);
    archive_entry_set_pathname(w->entry, path);
    archive_entry_set_size(w->entry, size);
    archive_entry_set_filetype(w->entry, AE_IFREG);
    archive_entry_set_perm(w->entry, 0600);
    archive_entry_set_mtime(w->entry, w->made.ms / 1000, 0);
    return outcome(w, archive_write_header(w->a, w->entry) == ARCHIVE_OK);
}

NODISCARD static struct err add_bytes(struct writer *w, const void *at, size_t n)
{
    return outcome(w, archive_write_data(w->a, at, n) == (la_ssize_t)n);
}

static void list_file(struct writer *w, const char *name, int64_t size, const char *hex)
{
    buf_str(&w->manifest, w->first ? STR("\n  ") : STR(",\n  "));
    w->first = false;
    buf_lit(&w->manifest, "{\"name\": ");
    json_write_string(&w->manifest, str_from(name));
    buf_print(&w->manifest, ", \"size\": %lld, \"sha256\": \"%s\"}", (long long)size, hex);
}

NODISCARD static struct err copy_file(struct writer *w, int fd, const char *name, int64_t size)
{
    char path[sizeof PREFIX + NAME_MAX_LEN];
    snprintf(path, sizeof path, PREFIX "%s", name);
    TRY(begin_entry(w, path, size));
    struct digest d = digest_open();
    struct err e = err_none();
    int64_t left = size;
    while (left > 0 && e.code == ERR_OK) {
        ssize_t n = read(fd, w->piece, left < (int64_t)PIECE ? (size_t)left : PIECE);
        if (n <= 0) {
            e = n < 0 ? folder_error("read", path)
                      : err_make(ERR_IO, "%s became shorter while it was read", path);
            break;
        }
        digest_add(&d, w->piece, (size_t)n);
        e = add_bytes(w, w->piece, (size_t)n);
        left -= n;
    }
    char hex[HEX_LEN + 1];
    digest_close(&d, hex);
    list_file(w, name, size, hex);
    return e;
}

NODISCARD static struct err write_file(struct writer *w, int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return folder_error("open", name);
    struct stat st;
    struct err e = err_none();
    if (fstat(fd, &st) != 0)
        e = folder_error("look at", name);
    else if (!S_ISREG(st.st_mode) || strlen(name) > NAME_MAX_LEN)
        e = err_make(ERR_IO, "%.120s is not a file of a root directory", name);
    else
        e = copy_file(w, fd, name, st.st_size);
    close(fd);
    return e;
}

NODISCARD static struct err write_files(struct writer *w)
{
    struct dirent **names;
    int count = scandir(w->dir, &names, NULL, alphasort);
    if (count < 0)
        return folder_error("look into", w->dir);
    int dir = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct err e = dir < 0 ? folder_error("open", w->dir) : err_none();
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (e.code == ERR_OK && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            e = write_file(w, dir, name);
        free(names[i]);
    }
    free(names);
    if (dir >= 0)
        close(dir);
    return e;
}

NODISCARD static struct err write_all(struct writer *w)
{
    archive_write_set_format_pax_restricted(w->a);
    TRY(outcome(w, archive_write_add_filter_zstd(w->a) == ARCHIVE_OK));
    archive_write_set_bytes_in_last_block(w->a, 1);
    TRY(outcome(w, archive_write_open(w->a, w, NULL, pass_on, NULL) == ARCHIVE_OK));
    buf_print(&w->manifest,
              "{\"format\": %d, \"tenax\": \"" TENAX_VERSION "\", \"created_at\": %lld,\n"
              " \"files\": [",
              FORMAT, (long long)w->made.ms);
    TRY(write_files(w));
    buf_lit(&w->manifest, "]}\n");
    TRY(begin_entry(w, MANIFEST, (int64_t)w->manifest.len));
    TRY(add_bytes(w, w->manifest.at, w->manifest.len));
    return outcome(w, archive_write_close(w->a) == ARCHIVE_OK);
}

struct err bundle_write(const char *dir, instant made, const struct sink *sink)
{
    struct writer w = {.a = archive_write_new(),
                       .entry = archive_entry_new(),
                       .sink = sink,
                       .failed = err_none(),
                       .dir = dir,
                       .piece = alloc_get(PIECE),
                       .made = made,
                       .first = true};
    must(w.a && w.entry);
    struct err e = write_all(&w);
    /* Releasing it writes the end of the archive, which must not look complete. */
    w.failed = e;
    archive_write_free(w.a);
    archive_entry_free(w.entry);
    buf_fini(&w.manifest);
    free(w.piece);
    return e;
}

/* --- reading --- */

struct seen {
    int64_t size;
    char hex[HEX_LEN + 1];
    bool listed; /* in the manifest */
};

struct reader {
    struct archive *a;
    const char *into;
    int dir; /* of into, or -1 */
    struct strmap files;
    struct arena arena;
    struct buf manifest;
    bool has_manifest;
    char *piece;
};

NODISCARD static struct err broken(const char *why)
{
    return err_make(ERR_CORRUPT, "this is not a complete backup: %.140s", why);
}

NODISCARD static struct err read_failed(struct reader *r)
{
    const char *why = archive_error_string(r->a);
    return broken(why ? why : "it cannot be read");
}

/* A name directly in the folder, with nothing in it that a file system or a shell would
 * interpret. */
static bool is_harmless(const char *name)
{
    size_t n = strlen(name);
    if (n == 0 || n > NAME_MAX_LEN || name[0] == '.')
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

NODISCARD static struct err check_entry(struct archive_entry *entry, const char *path)
{
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry) ||
        archive_entry_symlink(entry))
        return broken("it has an entry that is not a plain file");
    if (archive_entry_sparse_count(entry) > 0)
        return broken("it has a sparse file");
    bool plain = strcmp(path, MANIFEST) == 0 ||
                 (strncmp(path, PREFIX, strlen(PREFIX)) == 0 && is_harmless(path + strlen(PREFIX)));
    return plain ? err_none() : broken("it has an entry whose name leads outside");
}

NODISCARD static struct err write_out(int fd, const char *at, size_t n, const char *name)
{
    while (fd >= 0 && n > 0) {
        ssize_t done = write(fd, at, n);
        if (done < 0)
            return folder_error("write", name);
        at += done;
        n -= (size_t)done;
    }
    return err_none();
}

NODISCARD static struct err unpack(struct reader *r, int fd, const char *name, struct seen *seen)
{
    struct digest d = digest_open();
    struct err e = err_none();
    la_ssize_t n;
    while (e.code == ERR_OK && (n = archive_read_data(r->a, r->piece, PIECE)) != 0) {
        if (n < 0) {
            e = read_failed(r);
            break;
        }
        digest_add(&d, r->piece, (size_t)n);
        seen->size += n;
        e = write_out(fd, r->piece, (size_t)n, name);
    }
    digest_close(&d, seen->hex);
    if (e.code == ERR_OK && fd >= 0 && fsync(fd) != 0)
        e = folder_error("sync", name);
    return e;
}

NODISCARD static struct err read_file(struct reader *r, const char *name)
{
    if (strmap_get(&r->files, str_from(name)))
        return broken("it has the same file twice");
    struct seen *seen = ARENA_NEW(&r->arena, struct seen);
    strmap_put(&r->files, str_from(name), seen);
    int fd = -1;
    if (r->dir >= 0) {
        fd = openat(r->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
            return folder_error("make", name);
    }
    struct err e = unpack(r, fd, name, seen);
    if (fd >= 0)
        close(fd);
    return e;
}

NODISCARD static struct err read_manifest(struct reader *r)
{
    r->has_manifest = true;
    la_ssize_t n;
    while ((n = archive_read_data(r->a, r->piece, PIECE)) != 0) {
        if (n < 0)
            return read_failed(r);
        if (r->manifest.len + (size_t)n > MANIFEST_MAX)
            return broken("its manifest is too large");
        buf_add(&r->manifest, r->piece, (size_t)n);
    }
    return err_none();
}

NODISCARD static struct err read_entries(struct reader *r)
{
    struct archive_entry *entry;
    for (;;) {
        int code = archive_read_next_header(r->a, &entry);
        if (code == ARCHIVE_EOF)
            break;
        if (code != ARCHIVE_OK)
            return read_failed(r);
        const char *path = archive_entry_pathname(entry);
        if (r->has_manifest)
            return broken("something follows its manifest");
        TRY(check_entry(entry, path ? path : ""));
        if (strcmp(path, MANIFEST) == 0)
            TRY(read_manifest(r));
        else
            TRY(read_file(r, path + strlen(PREFIX)));
    }
    return r->has_manifest ? err_none() : broken("it has no manifest: it is truncated");
}

/* --- the manifest --- */

struct line {
    struct str name, hex;
    int64_t size;
};

NODISCARD static struct err read_text(struct reader *r, struct json_cursor *c, struct str *text)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    return json_text(s, &r->arena, text);
}

NODISCARD static struct err read_line(struct reader *r, struct json_cursor *c, struct line *l)
{
    *l = (struct line){.size = -1};
    TRY(json_enter_object(c));
    for (;;) {
        bool more;
        struct json_string key;
        TRY(json_next_member(c, &more, &key));
        if (!more)
            return err_none();
        if (str_eq(key.raw, STR("name")))
            TRY(read_text(r, c, &l->name));
        else if (str_eq(key.raw, STR("sha256")))
            TRY(read_text(r, c, &l->hex));
        else if (str_eq(key.raw, STR("size")))
            TRY(json_read_int(c, 0, INT64_MAX, &l->size));
        else
            TRY(json_skip(c, NULL));
    }
}

NODISCARD static struct err check_line(struct reader *r, const struct line *l)
{
    struct seen *seen = strmap_get(&r->files, l->name);
    int shown = (int)(l->name.len < NAME_MAX_LEN ? l->name.len : NAME_MAX_LEN);
    char why[NAME_MAX_LEN + 64];
    if (!seen || seen->listed) {
        snprintf(why, sizeof why, "%.*s is listed but %s", shown, l->name.at ? l->name.at : "",
                 seen ? "twice" : "not in it");
        return broken(why);
    }
    seen->listed = true;
    if (seen->size == l->size && str_eq(l->hex, str_from(seen->hex)))
        return err_none();
    snprintf(why, sizeof why, "%.*s has changed: its %s differs", shown, l->name.at,
             seen->size == l->size ? "checksum" : "size");
    return broken(why);
}

NODISCARD static struct err check_lines(struct reader *r, struct json_cursor *c,
                                        struct bundle_facts *facts)
{
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        struct line l;
        TRY(json_next_element(c, &more));
        if (!more)
            break;
        TRY(read_line(r, c, &l));
        TRY(check_line(r, &l));
        facts->files++;
        facts->bytes += (uint64_t)l.size;
    }
    return facts->files == r->files.count ? err_none()
                                          : broken("it has files that its manifest does not list");
}

NODISCARD static struct err check_version(int64_t format, const char *version)
{
    if (format == FORMAT)
        return err_none();
    return err_make(
        ERR_VERSION,
        "the backup has format %lld, made by tenax %.31s; this program, tenax %s, knows "
        "format %d: use the newer one",
        (long long)format, version, TENAX_VERSION, FORMAT);
}

NODISCARD static struct err check_members(struct reader *r, struct bundle_facts *facts)
{
    struct json_cursor c = json_open(buf_view(&r->manifest)), files = {0};
    int64_t format = 0;
    TRY(json_enter_object(&c));
    for (;;) {
        bool more;
        struct json_string key;
        struct str text;
        TRY(json_next_member(&c, &more, &key));
        if (!more)
            break;
        if (str_eq(key.raw, STR("format"))) {
            TRY(json_read_int(&c, 1, INT32_MAX, &format));
        } else if (str_eq(key.raw, STR("created_at"))) {
            TRY(json_read_int(&c, 0, INSTANT_MAX_MS, &facts->made.ms));
        } else if (str_eq(key.raw, STR("tenax"))) {
            TRY(read_text(r, &c, &text));
            snprintf(facts->version, sizeof facts->version, "%.*s", STR_ARG(text));
        } else {
            if (str_eq(key.raw, STR("files")))
                files = c;
            TRY(json_skip(&c, NULL));
        }
    }
    TRY(json_close(&c));
    TRY(check_version(format, facts->version));
    if (!files.text.at)
        return broken("its manifest lists no files");
    return check_lines(r, &files, facts);
}

NODISCARD static struct err check_manifest(struct reader *r, struct bundle_facts *facts)
{
    struct err e = check_members(r, facts);
    if (e.code == ERR_OK || e.code == ERR_CORRUPT || e.code == ERR_VERSION)
        return e;
    return err_make(ERR_CORRUPT, "this is not a complete backup: its manifest is malformed: %.120s",
                    e.msg);
}

NODISCARD static struct err read_all(struct reader *r, int fd, struct bundle_facts *facts)
{
    archive_read_support_format_tar(r->a);
    if (archive_read_support_filter_zstd(r->a) != ARCHIVE_OK)
        return read_failed(r);
    if (archive_read_open_fd(r->a, fd, PIECE) != ARCHIVE_OK)
        return read_failed(r);
    if (r->into) {
        r->dir = open(r->into, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (r->dir < 0)
            return folder_error("open", r->into);
    }
    TRY(read_entries(r));
    TRY(check_manifest(r, facts));
    return r->into ? folder_sync(r->into) : err_none();
}

struct err bundle_read(int fd, const char *into, struct bundle_facts *facts)
{
    struct reader r = {.a = archive_read_new(), .into = into, .dir = -1, .piece = alloc_get(PIECE)};
    must(r.a);
    *facts = (struct bundle_facts){.made = INSTANT_NONE, .version = "?"};
    struct err e = read_all(&r, fd, facts);
    if (r.dir >= 0)
        close(r.dir);
    archive_read_free(r.a);
    strmap_fini(&r.files);
    arena_fini(&r.arena);
    buf_fini(&r.manifest);
    free(r.piece);
    return e;
}
