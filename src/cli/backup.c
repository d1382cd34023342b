/* SPDX-License-Identifier: Apache-2.0 */

/* tenax backup FILE: receives the answer to POST /backup, checks it, and puts it in place as a
 * whole. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "client/admin.h"
#include "client/client.h"
#include "cli/commands.h"
#include "client/when.h"
#include "store/bundle.h"
#include "base/folder.h"

#define PROGRESS_NS 200000000

struct backup_args {
    struct client_args client;
    bool force;
};

static const struct option_def options[] = {
    {"force", NULL, OPTION_SWITCH, offsetof(struct backup_args, force),
     .help = "replace FILE if it exists"},
    ADMIN_OPTIONS(struct backup_args),
    {"http-timeout", "DURATION", OPTION_SPAN, offsetof(struct backup_args, client.timeout),
     .env = "TENAX_HTTP_TIMEOUT", .def = "30s",
     .help = "how long to wait without receiving anything"},
    {0},
};

const struct subcommand backup_command = {
    .name = "backup",
    .usage = "[OPTIONS] FILE",
    .summary = "copy all jobs of a running server into a file",
    .about = "Requests a snapshot of the server's root directory from its admin listener and "
             "writes it to FILE, one tar archive compressed with zstd. The server keeps running "
             "meanwhile. The snapshot contains everything that was acknowledged before.\n"
             "The file is written as FILE.partial, checked against its checksums, and only then "
             "renamed: a FILE that exists is complete. With - it goes to standard output, "
             "unchecked.",
    .examples = "  tenax backup jobs.tar.zst\n"
                "  tenax backup --url http://127.0.0.1:9000 --force /backups/jobs.tar.zst\n"
                "  tenax backup - | ssh vault 'cat > jobs.tar.zst'\n",
    .options = options,
    .rest = "FILE",
};

struct backup {
    struct client client;
    const char *file;
    char *partial; /* NULL: standard output */
    int fd;
    uint64_t bytes;
    struct err failed; /* why the file cannot be written */
    bool shows;        /* shows progress, on a terminal */
    mono shown;
};

static int complain(const struct err *e)
{
    fprintf(stderr, "tenax backup: %s\n", e->msg);
    return CLI_REFUSED;
}

/* --- receiving --- */

static void show(struct backup *b, bool done)
{
    mono now = when_mono();
    if (!b->shows || (!done && now.ns - b->shown.ns < PROGRESS_NS))
        return;
    b->shown = now;
    fprintf(stderr, "\r%.1f MiB%s", (double)b->bytes / (1024 * 1024), done ? "\n" : "");
}

static struct err write_out(struct backup *b, const char *at, size_t n)
{
    while (n > 0) {
        ssize_t done = write(b->fd, at, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return folder_error("write", b->partial ? b->partial : "standard output");
        at += done;
        n -= (size_t)done;
        b->bytes += (uint64_t)done;
    }
    return err_none();
}

/* The backup goes to the file; the text of an error, or of a proxy, is kept as the answer. */
static size_t receive(char *at, size_t size, size_t n, void *ctx)
{
    struct backup *b = ctx;
    long status = 0;
    const char *type = NULL;
    curl_easy_getinfo(b->client.call.curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(b->client.call.curl, CURLINFO_CONTENT_TYPE, &type);
    if (status != 200 || !type || strcmp(type, "application/octet-stream") != 0) {
        buf_add(&b->client.call.answer, at, size * n);
        return size * n;
    }
    b->failed = write_out(b, at, size * n);
    show(b, false);
    return b->failed.code == ERR_OK ? size * n : 0;
}

static void prepare(struct backup *b)
{
    CURL *curl = b->client.call.curl;
    long quiet = (long)((b->client.args.timeout.ms + 999) / 1000);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, b);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, quiet);
    b->client.args.timeout = (span){0}; /* a backup may take any amount of time */
}

static int download(struct backup *b)
{
    prepare(b);
    enum call_result r = call_wait(&b->client.call, "POST", "/backup", b->client.args.timeout);
    if (b->bytes)
        show(b, true);
    if (b->failed.code != ERR_OK)
        return complain(&b->failed);
    if (r == CALL_DONE && b->bytes)
        return CLI_OK;
    struct buf why = {0};
    if (b->bytes)
        buf_lit(&why, "the backup was interrupted; the server's log says why: ");
    call_explain(&b->client.call, &why);
    fprintf(stderr, "tenax backup: %.*s\n", STR_ARG(buf_view(&why)));
    buf_fini(&why);
    return r == CALL_UNREACHABLE ? CLI_UNREACHABLE : CLI_REFUSED;
}

/* --- the file --- */

/* Whoever writes FILE.partial holds a lock on it. */
static struct err open_partial(struct backup *b)
{
    b->fd = open(b->partial, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (b->fd < 0)
        return folder_error("make", b->partial);
    if (flock(b->fd, LOCK_EX | LOCK_NB) != 0)
        return err_make(ERR_LOCKED, "another backup is being written to %.150s", b->partial);
    /* Removes the rest of an interrupted backup. */
    return ftruncate(b->fd, 0) == 0 ? err_none() : folder_error("empty", b->partial);
}

/* Without force, even a file that was created meanwhile is not replaced, if the file system has
 * hard links. */
static bool give_name(const struct backup *b, bool force)
{
    if (!force && link(b->partial, b->file) == 0)
        return unlink(b->partial) == 0;
    if (!force && errno == EEXIST)
        return false;
    return rename(b->partial, b->file) == 0;
}

static struct err put_in_place(struct backup *b, bool force)
{
    struct bundle_facts facts;
    if (lseek(b->fd, 0, SEEK_SET) != 0)
        return folder_error("read", b->partial);
    TRY(bundle_read(b->fd, NULL, &facts));
    if (fsync(b->fd) != 0)
        return folder_error("sync", b->partial);
    if (!give_name(b, force))
        return folder_error("make", b->file);
    return folder_sync_of(b->file);
}

static int back_up_to_file(struct backup *b, bool force)
{
    struct err e = open_partial(b);
    if (e.code != ERR_OK)
        return complain(&e);
    int code = download(b);
    if (code == CLI_OK) {
        e = put_in_place(b, force);
        code = e.code == ERR_OK ? CLI_OK : complain(&e);
    }
    if (code != CLI_OK)
        unlink(b->partial); /* part of a backup is useless */
    else
        fprintf(stderr, "%s: %.1f MiB, checked\n", b->file, (double)b->bytes / (1024 * 1024));
    return code;
}

static int back_up(struct backup *b, bool force)
{
    b->shows = isatty(STDERR_FILENO);
    if (strcmp(b->file, "-") == 0) {
        b->fd = STDOUT_FILENO;
        return download(b);
    }
    struct buf partial = {0};
    buf_print(&partial, "%s.partial", b->file);
    buf_byte(&partial, '\0');
    b->partial = partial.at;
    b->fd = -1;
    int code = back_up_to_file(b, force);
    if (b->fd >= 0)
        close(b->fd);
    buf_fini(&partial);
    return code;
}

int backup_main(int argc, char **argv)
{
    struct backup_args args = {0};
    struct options o;
    struct backup b = {.failed = err_none()};
    int code;
    if (!subcommand_begin(&backup_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1)
        return subcommand_usage(&backup_command, "name one file, or - for standard output");
    b.file = o.rest[0];
    bool is_stdout = strcmp(b.file, "-") == 0;
    if (is_stdout && isatty(STDOUT_FILENO))
        return subcommand_usage(&backup_command, "a backup cannot be shown on a terminal");
    if (!is_stdout && !args.force && access(b.file, F_OK) == 0)
        return subcommand_usage(&backup_command, "%s already exists; --force replaces it", b.file);
    code = admin_open(&b.client, &backup_command, &args.client, &o);
    if (code != CLI_OK)
        return code;
    /* Reaching a limit on file size is an error like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    code = back_up(&b, args.force);
    client_close(&b.client);
    return code;
}
