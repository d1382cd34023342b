/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/task_payload.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/must.h"
#include "base/rfc3339.h"
#include "base/strmap.h"

#define PATH_BYTES_MAX     4095
#define NAME_BYTES_MAX     1024
#define MAX_RUN_TIME_S     ((int64_t)100 * 365 * 24 * 3600)
#define CONTENT_TYPE_BYTES 255

/* The place of the value that is being read, and where things go. */
struct reader {
    struct json_cursor json;
    struct arena *arena;
    const struct task_limits *limits;
    struct task_payload *out;
    char place[160]; /* "payload.command[0]"; cut, if it is longer */
    size_t place_len;
};

static size_t enter(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends to the place; returns what leave() needs. */
static size_t enter(struct reader *r, const char *fmt, ...)
{
    size_t before = r->place_len;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(r->place + before, sizeof r->place - before, fmt, ap);
    va_end(ap);
    must(n >= 0);
    r->place_len += (size_t)n;
    if (r->place_len >= sizeof r->place)
        r->place_len = sizeof r->place - 1;
    return before;
}

static void leave(struct reader *r, size_t before)
{
    r->place_len = before;
    r->place[before] = '\0';
}

static struct err refuse(const struct reader *r, const char *why)
{
    return err_make(ERR_BAD_VALUE, "%s: %s", r->place, why);
}

/* An error of the scanner, with the place. */
static struct err placed(const struct reader *r, struct err e)
{
    return e.code == ERR_OK ? e : refuse(r, e.msg);
}

#define READ(expr) TRY(placed(r, (expr)))

/* --- single values --- */

static struct err read_text(struct reader *r, char **text)
{
    struct json_string s;
    struct str t;
    READ(json_read_string(&r->json, &s));
    READ(json_text(s, r->arena, &t));
    if (t.len && memchr(t.at, '\0', t.len))
        return refuse(r, "it must not contain the character NUL");
    char *copy = arena_get(r->arena, t.len + 1);
    if (t.len)
        memcpy(copy, t.at, t.len);
    copy[t.len] = '\0';
    *text = copy;
    return err_none();
}

typedef struct err read_member(struct reader *r, struct str key, void *to);

/* Reads an object member by member; the place of each is that of the object and the key. */
static struct err read_object(struct reader *r, read_member *member, void *to)
{
    READ(json_enter_object(&r->json));
    for (;;) {
        bool more;
        struct json_string key;
        struct str name;
        READ(json_next_member(&r->json, &more, &key));
        if (!more)
            return err_none();
        READ(json_text(key, r->arena, &name));
        size_t before = enter(r, ".%.*s", NAME_ARG(name));
        TRY(member(r, name, to));
        leave(r, before);
    }
}

typedef struct err read_element(struct reader *r, void *to);

/* Likewise an array. */
static struct err read_array(struct reader *r, read_element *element, void *to)
{
    READ(json_enter_array(&r->json));
    for (size_t i = 0;; i++) {
        bool more;
        READ(json_next_element(&r->json, &more));
        if (!more)
            return err_none();
        size_t before = enter(r, "[%zu]", i);
        TRY(element(r, to));
        leave(r, before);
    }
}

/* --- command --- */

struct words {
    char **at;
    size_t count, cap;
};

static struct err read_word(struct reader *r, void *to)
{
    struct words *w = to;
    if (w->count + 1 >= TASK_WORDS_MAX)
        return refuse(r, "a command has at most 9999 words");
    ARENA_GROW(r->arena, w->at, w->count, w->cap, 8);
    TRY(read_text(r, &w->at[w->count]));
    w->count++;
    return err_none();
}

static struct err add_command(struct reader *r, struct words *w)
{
    if (!w->count || !w->at[0][0])
        return refuse(r, "it must name what to run");
    ARENA_GROW(r->arena, w->at, w->count, w->cap, 8);
    w->at[w->count] = NULL;
    r->out->commands[r->out->command_count++] = w->at;
    return err_none();
}

static struct err read_command(struct reader *r, void *to)
{
    struct words w = {0};
    (void)to;
    if (r->out->command_count == TASK_COMMANDS_MAX)
        return refuse(r, "there are more than 1000 commands");
    TRY(read_array(r, read_word, &w));
    return add_command(r, &w);
}

/* One command, or a list of them: the type of the first element says which. */
static struct err read_commands(struct reader *r)
{
    struct json_cursor ahead = r->json;
    enum json_type type = JSON_NULL;
    bool more;
    READ(json_enter_array(&ahead));
    READ(json_next_element(&ahead, &more));
    if (!more)
        return refuse(r, "it must name what to run");
    READ(json_peek(&ahead, &type));
    r->out->commands = arena_get(r->arena, TASK_COMMANDS_MAX * sizeof *r->out->commands);
    return type == JSON_ARRAY ? read_array(r, read_command, NULL) : read_command(r, NULL);
}

/* --- env --- */

static struct err read_variable(struct reader *r, struct str name, void *to)
{
    size_t *cap = to;
    struct task_payload *p = r->out;
    char *value;
    if (!name.len || memchr(name.at, '=', name.len) || memchr(name.at, '\0', name.len))
        return refuse(r, "the name of a variable is not empty and contains neither '=' nor NUL");
    if (p->env_count == TASK_ENV_MAX)
        return refuse(r, "there are more than 1000 variables");
    TRY(read_text(r, &value));
    size_t room = name.len + strlen(value) + 2;
    char *text = arena_get(r->arena, room);
    memcpy(text, name.at, name.len);
    text[name.len] = '=';
    memcpy(text + name.len + 1, value, room - name.len - 1);
    ARENA_GROW(r->arena, p->env, p->env_count, *cap, 16);
    p->env[p->env_count++] = text;
    return err_none();
}

/* --- artifacts --- */

/* "./a//b/" as "a/b"; NULL if it leads out of the directory. */
static const char *normal_path(struct arena *a, const char *path)
{
    char *out = arena_get(a, strlen(path) + 1), *end = out;
    if (path[0] == '/')
        return NULL;
    while (*path) {
        size_t n = strcspn(path, "/");
        if (n == 2 && memcmp(path, "..", 2) == 0)
            return NULL;
        if (n && !(n == 1 && *path == '.')) {
            if (end > out)
                *end++ = '/';
            memcpy(end, path, n);
            end += n;
        }
        path += n + (path[n] == '/');
    }
    *end = '\0';
    return out;
}

static bool is_printable(const char *text, size_t most)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return n > 0 && n <= most;
}

static struct err read_type(struct reader *r, enum task_artifact_type *type)
{
    char *text;
    TRY(read_text(r, &text));
    if (strcmp(text, "file") == 0)
        *type = TASK_FILE;
    else if (strcmp(text, "directory") == 0)
        *type = TASK_DIRECTORY;
    else
        return refuse(r, "expected \"file\" or \"directory\"");
    return err_none();
}

static struct err read_expires(struct reader *r, instant *t)
{
    char *text;
    TRY(read_text(r, &text));
    if (!rfc3339_parse(str_from(text), t))
        return refuse(r, "expected a date and time like 2030-01-01T00:00:00Z");
    if (t->ms < r->limits->deadline.ms)
        return refuse(r, "it is before the task's deadline");
    if (t->ms > r->limits->expires.ms)
        return refuse(r, "it is after the task expires");
    return err_none();
}

static struct err read_path(struct reader *r, const char **path)
{
    char *text;
    TRY(read_text(r, &text));
    if (strlen(text) > PATH_BYTES_MAX)
        return refuse(r, "it is longer than 4095 bytes");
    *path = normal_path(r->arena, text);
    return *path ? err_none() : refuse(r, "it leads out of the task's directory");
}

static struct err read_printable(struct reader *r, size_t most, const char **to)
{
    char *text;
    TRY(read_text(r, &text));
    *to = text;
    return is_printable(text, most)
               ? err_none()
               : refuse(r, most == NAME_BYTES_MAX ? "expected 1 to 1024 printable ASCII characters"
                                                  : "expected 1 to 255 printable ASCII characters");
}

/* How a file travels is the worker's affair: it is stored as it is. */
static struct err read_encoding(struct reader *r)
{
    char *text;
    TRY(read_text(r, &text));
    if (strcmp(text, "gzip") == 0 || strcmp(text, "identity") == 0)
        return err_none();
    return refuse(r, "expected \"gzip\" or \"identity\"");
}

static struct err read_artifact_member(struct reader *r, struct str key, void *to)
{
    struct task_artifact *t = to;
    if (str_eq(key, STR("type")))
        return read_type(r, &t->type);
    if (str_eq(key, STR("path")))
        return read_path(r, &t->path);
    if (str_eq(key, STR("name")))
        return read_printable(r, NAME_BYTES_MAX, &t->name);
    if (str_eq(key, STR("contentType")))
        return read_printable(r, CONTENT_TYPE_BYTES, &t->content_type);
    if (str_eq(key, STR("expires")))
        return read_expires(r, &t->expires);
    if (str_eq(key, STR("optional")))
        return placed(r, json_read_bool(&r->json, &t->optional));
    if (str_eq(key, STR("contentEncoding")))
        return read_encoding(r);
    return refuse(r, "this worker knows no such member");
}

static struct err check_artifact(const struct reader *r, struct task_artifact *t)
{
    if (!t->path)
        return refuse(r, "the member path is missing");
    if (!t->path[0] && t->type == TASK_FILE)
        return refuse(r, "path names no file");
    if (!t->name)
        t->name = t->path;
    if (!is_printable(t->name, NAME_BYTES_MAX))
        return refuse(r, "path cannot be its name, which has 1 to 1024 printable ASCII characters; "
                         "give it a name");
    if (strcmp(t->name, TASK_LOG_NAME) == 0)
        return refuse(r, "the worker itself publishes its log as " TASK_LOG_NAME);
    return err_none();
}

struct artifacts {
    size_t cap;
    struct strmap names;
};

static struct err read_artifact(struct reader *r, void *to)
{
    struct artifacts *all = to;
    struct task_payload *p = r->out;
    struct task_artifact t = {.expires = INSTANT_NONE};
    if (p->artifact_count == TASK_ARTIFACTS_MAX)
        return refuse(r, "there are more than 1000 artifacts");
    TRY(read_object(r, read_artifact_member, &t));
    TRY(check_artifact(r, &t));
    if (strmap_get(&all->names, str_from(t.name)))
        return refuse(r, "another artifact has the same name");
    strmap_put(&all->names, str_from(t.name), r);
    ARENA_GROW(r->arena, p->artifacts, p->artifact_count, all->cap, 8);
    p->artifacts[p->artifact_count++] = t;
    return err_none();
}

static struct err read_artifacts(struct reader *r)
{
    struct artifacts all = {0};
    struct err e = read_array(r, read_artifact, &all);
    strmap_fini(&all.names);
    return e;
}

/* --- onExitStatus --- */

/* Those of Windows have 32 bits, and a payload may name them for all of its workers; here no
 * command ends so. */
#define EXIT_CODE_MAX UINT32_MAX

static struct err read_exit(struct reader *r, void *to)
{
    int64_t code;
    (void)to;
    READ(json_read_int(&r->json, 1, EXIT_CODE_MAX, &code));
    if (code <= UINT8_MAX)
        r->out->retry_exit[code / 8] |= (uint8_t)(1 << (code % 8));
    return err_none();
}

static struct err read_exit_of_cache(struct reader *r, void *to)
{
    int64_t code;
    (void)to;
    READ(json_read_int(&r->json, 0, EXIT_CODE_MAX, &code));
    return err_none();
}

static struct err read_on_exit(struct reader *r, struct str key, void *to)
{
    (void)to;
    if (str_eq(key, STR("retry")))
        return read_array(r, read_exit, NULL);
    if (str_eq(key, STR("purgeCaches"))) /* there are none: payloads with mounts are refused */
        return read_array(r, read_exit_of_cache, NULL);
    return refuse(r, "this worker knows no such member");
}

/* --- what other workers have, and a payload may name without asking for it --- */

static struct err read_feature(struct reader *r, struct str key, void *to)
{
    bool was_null, on = false;
    (void)to;
    READ(json_take_null(&r->json, &was_null));
    if (!was_null)
        READ(json_read_bool(&r->json, &on));
    if (!on || str_eq(key, STR("liveLog")) || str_eq(key, STR("backingLog")))
        return err_none();
    return refuse(r, "this worker does not have it: it needs generic-worker itself");
}

static struct err refuse_mount(struct reader *r, void *to)
{
    (void)to;
    return refuse(r, "this worker has no mounts and no caches: they need generic-worker itself");
}

static struct err refuse_group(struct reader *r, void *to)
{
    (void)to;
    return refuse(r, "this worker runs tasks as the user that it is: other groups need "
                     "generic-worker itself");
}

/* What generic-worker names it by default: a payload that spells that out asks for nothing. */
#define BACKING_LOG "public/logs/live_backing.log"

static struct err read_log_name(struct reader *r, struct str key, void *to)
{
    char *text;
    (void)to;
    TRY(read_text(r, &text));
    if (!text[0] || strcmp(text, TASK_LOG_NAME) == 0)
        return err_none();
    if (str_eq(key, STR("backing")) && strcmp(text, BACKING_LOG) == 0)
        return err_none();
    return refuse(r, "the log of this worker's tasks is " TASK_LOG_NAME);
}

static struct err read_unused(struct reader *r, const char *name)
{
    char *url;
    if (strcmp(name, "features") == 0)
        return read_object(r, read_feature, NULL);
    if (strcmp(name, "mounts") == 0)
        return read_array(r, refuse_mount, NULL);
    if (strcmp(name, "osGroups") == 0)
        return read_array(r, refuse_group, NULL);
    if (strcmp(name, "logs") == 0)
        return read_object(r, read_log_name, NULL);
    return read_text(r, &url); /* supersederUrl: each task is run */
}

/* --- the whole --- */

static struct err read_run_time(struct reader *r)
{
    int64_t seconds;
    READ(json_read_int(&r->json, 1, MAX_RUN_TIME_S, &seconds));
    r->out->max_run_time.ms = seconds * 1000;
    if (r->limits->run_time.ms && r->out->max_run_time.ms > r->limits->run_time.ms)
        return refuse(r, "it is more than this worker's --timeout allows");
    return err_none();
}

struct payload_state {
    unsigned seen; /* a bit for each member, so that none comes twice */
    size_t env_cap;
};

static struct err read_payload_member(struct reader *r, struct str key, void *to)
{
    static const char *const members[] = {
        "command",  "env",    "maxRunTime", "artifacts", "onExitStatus",
        "features", "mounts", "osGroups",   "logs",      "supersederUrl",
    };
    struct payload_state *s = to;
    size_t i = 0;
    while (i < COUNT(members) && !str_eq(key, str_from(members[i])))
        i++;
    if (i == COUNT(members))
        return refuse(r, "this worker knows no such member");
    if (s->seen >> i & 1)
        return refuse(r, "it is there twice");
    s->seen |= 1U << i;
    switch (i) {
    case 0:
        return read_commands(r);
    case 1:
        return read_object(r, read_variable, &s->env_cap);
    case 2:
        return read_run_time(r);
    case 3:
        return read_artifacts(r);
    case 4:
        return read_object(r, read_on_exit, NULL);
    default:
        return read_unused(r, members[i]);
    }
}

struct err task_payload_read(struct str json, const struct task_limits *limits, struct arena *a,
                             struct task_payload *out)
{
    struct reader reader = {.json = json_open(json), .arena = a, .limits = limits, .out = out};
    struct reader *r = &reader;
    struct payload_state s = {0};
    *out = (struct task_payload){0};
    enter(r, "payload");
    TRY(read_object(r, read_payload_member, &s));
    READ(json_close(&r->json));
    if (!out->command_count)
        return refuse(r, "the member command is missing");
    if (!out->max_run_time.ms)
        return refuse(r, "the member maxRunTime is missing: seconds that the commands may take");
    return err_none();
}
