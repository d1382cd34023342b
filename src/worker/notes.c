/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/notes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/duration.h"
#include "base/json.h"
#include "base/utf8.h"
#include "client/when.h"
#include "worker/report.h"

#define CHECKPOINT_IN     "checkpoint.in"
#define RESULT            "result"
#define MESSAGE           "termination-message"
#define READY_AT          "ready-at"
#define READY_AT_MAX      100
#define EPOCH_MS_MIN      INT64_C(100000000000) /* 1973: a smaller number is meant otherwise */
#define PATH_ROOM         (NOTES_DIR_MAX + 24)
#define PROGRESS_MAX      4096
#define PROGRESS_NOTE_MAX 1000

static const char *const watched[NOTES_WATCHED] = {"progress", "checkpoint.out"};

static void path_of(const struct notes *n, const char *name, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%s", n->dir, name);
}

struct err notes_base(char base[NOTES_DIR_MAX])
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp || tmp[0] != '/' || strlen(tmp) > NOTES_DIR_MAX - 100)
        tmp = "/tmp";
    snprintf(base, NOTES_DIR_MAX, "%s/tenax-work-XXXXXX", tmp);
    if (!mkdtemp(base))
        return err_make(ERR_IO, "cannot make a folder in %.150s: %s", tmp, strerror(errno));
    return err_none();
}

/* --- opening and closing --- */

static bool write_file(const char *path, struct str text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    while (text.len) {
        ssize_t done = write(fd, text.at, text.len);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            break;
        text = (struct str){text.at + done, text.len - (size_t)done};
    }
    return close(fd) == 0 && text.len == 0;
}

/* The value of a string, or other JSON unchanged. */
static struct str content_of(struct str json, struct arena *a)
{
    struct json_cursor c = json_open(json);
    struct json_string s;
    struct str text;
    if (json.len && json.at[0] == '"' && json_read_string(&c, &s).code == ERR_OK &&
        json_text(s, a, &text).code == ERR_OK)
        return text;
    return json;
}

struct err notes_open(struct notes *n, const char *base, struct str id, int64_t run,
                      struct str checkpoint)
{
    char path[PATH_ROOM];
    struct arena a = {0};
    *n = (struct notes){0};
    int len = snprintf(n->dir, sizeof n->dir, "%s/%.*s-%" PRId64, base, STR_ARG(id), run);
    bool fine = len < (int)sizeof n->dir && mkdir(n->dir, 0700) == 0;
    if (fine) {
        path_of(n, CHECKPOINT_IN, path);
        fine = write_file(path, content_of(checkpoint, &a));
    }
    struct err e =
        fine ? err_none()
             : err_make(ERR_IO, "cannot write to the folder %.150s: %s", n->dir, strerror(errno));
    arena_fini(&a);
    return e;
}

void notes_close(struct notes *n)
{
    static const char *const names[] = {CHECKPOINT_IN, RESULT, MESSAGE, READY_AT};
    char path[PATH_ROOM];
    if (!n->dir[0])
        return;
    for (size_t i = 0; i < COUNT(names); i++) {
        path_of(n, names[i], path);
        unlink(path);
    }
    for (int i = 0; i < NOTES_WATCHED; i++) {
        path_of(n, watched[i], path);
        unlink(path);
    }
    rmdir(n->dir); /* other files that a command put there stay */
    n->dir[0] = '\0';
}

void notes_environment(const struct notes *n, struct arena *a, char *env[NOTES_VARIABLES])
{
    static const char *const names[NOTES_VARIABLES][2] = {
        {"TENAX_CHECKPOINT_IN", CHECKPOINT_IN}, {"TENAX_CHECKPOINT_OUT", "checkpoint.out"},
        {"TENAX_PROGRESS", "progress"},         {"TENAX_RESULT", RESULT},
        {"TENAX_TERMINATION_MESSAGE", MESSAGE}, {"TENAX_READY_AT", READY_AT},
    };
    for (size_t i = 0; i < NOTES_VARIABLES; i++) {
        char path[PATH_ROOM];
        path_of(n, names[i][1], path);
        size_t room = strlen(names[i][0]) + strlen(path) + 2;
        env[i] = arena_get(a, room);
        snprintf(env[i], room, "%s=%s", names[i][0], path);
    }
}

/* --- reading --- */

/* False if it does not exist, or is longer than max bytes: then *len is more than max. */
static bool read_file(const char *path, size_t max, struct buf *b, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool fine = fstat(fd, st) == 0 && S_ISREG(st->st_mode);
    while (fine && b->len <= max) {
        ssize_t n = read(fd, buf_room(b, max + 1), max + 1 - b->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        b->len += (size_t)n;
    }
    close(fd);
    return fine;
}

static void complain(const char *name, const char *why)
{
    report_line(TABLE_BAD, "note", "the command's %s is not sent: %s", name, why);
}

static bool is_json_but_no_string(struct str text)
{
    struct json_cursor c = json_open(text);
    enum json_type type;
    return json_peek(&c, &type).code == ERR_OK && type != JSON_STRING &&
           json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK;
}

/* Adds the content of a file as a JSON value; false if that is impossible. */
static bool add_value(struct buf *body, struct str text, const char *name)
{
    size_t before = body->len;
    bool is_json = is_json_but_no_string(text);
    if (text.len <= NOTES_VALUE_MAX && (is_json || utf8_check(text) == text.len)) {
        buf_print(body, ",\"%s\":", name);
        size_t at = body->len;
        if (is_json)
            buf_str(body, text);
        else
            json_write_string(body, text);
        if (body->len - at <= NOTES_VALUE_MAX)
            return true;
        body->len = before;
    } else if (text.len <= NOTES_VALUE_MAX) {
        complain(name, "it is neither JSON nor UTF-8");
        return false;
    }
    complain(name, "it is longer than 64 KiB");
    return false;
}

/* "0.4 page 4 of 10". */
static bool add_progress(struct buf *body, struct str text)
{
    const char *nl = memchr(text.at, '\n', text.len);
    if (nl)
        text.len = (size_t)(nl - text.at);
    size_t n = 0;
    while (n < text.len && text.at[n] != ' ' && text.at[n] != '\t')
        n++;
    struct json_cursor c = json_open((struct str){text.at, n});
    double value;
    struct err e = json_read_double(&c, 0, 1, &value);
    if (e.code == ERR_OK)
        e = json_close(&c);
    if (e.code != ERR_OK || utf8_check(text) < text.len) {
        complain("progress", "it must be a number from 0 to 1, a space, and a note in UTF-8");
        return false;
    }
    while (n < text.len && (text.at[n] == ' ' || text.at[n] == '\t'))
        n++;
    struct str note = {text.at + n, text.len - n};
    if (note.len > PROGRESS_NOTE_MAX) {
        note.len = PROGRESS_NOTE_MAX;
        note.len = utf8_check(note);
    }
    buf_lit(body, ",\"progress\":{\"value\":");
    json_write_double(body, value);
    if (note.len) {
        buf_lit(body, ",\"note\":");
        json_write_string(body, note);
    }
    buf_byte(body, '}');
    return true;
}

static struct notes_stamp stamp_of(const struct stat *st)
{
    return (struct notes_stamp){st->st_ino, st->st_mtim, st->st_size};
}

static bool same(const struct notes_stamp *a, const struct notes_stamp *b)
{
    return a->file == b->file && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec && a->size == b->size;
}

void notes_write_news(struct notes *n, struct buf *body)
{
    for (int i = 0; i < NOTES_WATCHED && n->dir[0]; i++) {
        char path[PATH_ROOM];
        struct buf text = {0};
        struct stat st;
        path_of(n, watched[i], path);
        if (stat(path, &st) == 0) {
            struct notes_stamp now = stamp_of(&st);
            bool news =
                !same(&now, &n->taken[i]) &&
                read_file(path, i == NOTES_PROGRESS ? PROGRESS_MAX : NOTES_VALUE_MAX, &text, &st);
            /* An empty file is about to be written. */
            if (news && text.len) {
                n->sent[i] = stamp_of(&st);
                bool fine = i == NOTES_PROGRESS ? add_progress(body, buf_view(&text))
                                                : add_value(body, buf_view(&text), "checkpoint");
                if (!fine)
                    n->taken[i] = n->sent[i]; /* reported once */
            }
        }
        buf_fini(&text);
    }
}

void notes_taken(struct notes *n)
{
    memcpy(n->taken, n->sent, sizeof n->taken);
}

void notes_write_result(const struct notes *n, struct buf *body)
{
    char path[PATH_ROOM];
    struct buf text = {0};
    struct stat st;
    path_of(n, RESULT, path);
    if (n->dir[0] && read_file(path, NOTES_VALUE_MAX, &text, &st) && text.len)
        add_value(body, buf_view(&text), RESULT);
    buf_fini(&text);
}

bool notes_read_message(const struct notes *n, struct buf *text)
{
    char path[PATH_ROOM];
    struct stat st;
    path_of(n, MESSAGE, path);
    return n->dir[0] && read_file(path, NOTES_MESSAGE_MAX, text, &st) && text->len;
}

void notes_write_message(const struct notes *n, struct buf *body)
{
    struct buf text = {0};
    if (notes_read_message(n, &text))
        report_text(body, "termination_message", report_cut(buf_view(&text), NOTES_MESSAGE_MAX));
    buf_fini(&text);
}

void notes_write_why(const struct notes *n, struct buf *body)
{
    struct buf text = {0};
    if (notes_read_message(n, &text))
        report_text(body, "message", report_cut(buf_view(&text), NOTES_MESSAGE_MAX));
    buf_fini(&text);
}

/* A bare number of seconds would be a time in 1970, that is at once. */
static bool parse_ready_at(struct str text, instant now, instant *t)
{
    span d;
    if (when_parse(text, t))
        return t->ms >= EPOCH_MS_MIN;
    if (duration_parse(text, &d).code != ERR_OK)
        return false;
    *t = instant_add(now, d);
    return true;
}

void notes_write_ready_at(const struct notes *n, instant now, struct buf *body)
{
    char path[PATH_ROOM];
    struct buf b = {0};
    struct stat st;
    instant t;
    path_of(n, READY_AT, path);
    if (n->dir[0] && read_file(path, READY_AT_MAX, &b, &st) && b.len) {
        struct str text = buf_view(&b);
        while (text.len && strchr(" \t\r\n", text.at[text.len - 1]))
            text.len--;
        if (parse_ready_at(text, now, &t))
            buf_print(body, ",\"ready_at\":%" PRId64, t.ms);
        else
            complain(READY_AT, "it must be a duration with its unit, as 10m, or a time, as "
                               "2030-01-31T09:00:00Z");
    }
    buf_fini(&b);
}
