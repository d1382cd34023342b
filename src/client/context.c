/* SPDX-License-Identifier: Apache-2.0 */
#include "client/context.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/array.h"
#include "client/call.h"
#include "client/private_file.h"
#include "client/view.h"

#define NAME_MAX_LEN 64
#define FILE_MAX_LEN ((size_t)1 << 20)

const char *const context_members[CONTEXT_FIELDS] = {
    [CONTEXT_URL] = "url",        [CONTEXT_TOKEN_FILE] = "token_file",
    [CONTEXT_CA] = "ca_cert",     [CONTEXT_CERT] = "client_cert",
    [CONTEXT_KEY] = "client_key", [CONTEXT_ADMIN_URL] = "admin_url",
};

/* Options are known by their variables: --url has another name in some commands. */
static const char *const variables[CONTEXT_FIELDS] = {
    [CONTEXT_URL] = "TENAX_URL",        [CONTEXT_TOKEN_FILE] = "TENAX_TOKEN_FILE",
    [CONTEXT_CA] = "TENAX_CA_CERT",     [CONTEXT_CERT] = "TENAX_CLIENT_CERT",
    [CONTEXT_KEY] = "TENAX_CLIENT_KEY", [CONTEXT_ADMIN_URL] = "TENAX_ADMIN_URL",
};

/* Without the terminating NUL. False: there is no home. */
static bool add_folder(struct buf *b)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/')
        buf_print(b, "%s/tenax", config);
    else if (home && *home == '/')
        buf_print(b, "%s/.config/tenax", home);
    return b->len > 0;
}

bool context_path(struct buf *path)
{
    if (!add_folder(path))
        return false;
    buf_lit(path, "/contexts.json");
    buf_byte(path, '\0');
    path->len--;
    return true;
}

bool context_is_name(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-_.", name[i]))
            return false;
    return n > 0 && n <= NAME_MAX_LEN;
}

struct context *context_find(const struct contexts *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->at[i].name, name) == 0)
            return &all->at[i];
    return NULL;
}

void context_fini(struct contexts *all)
{
    free(all->at);
    arena_fini(&all->arena);
    *all = (struct contexts){0};
}

/* --- reading --- */

/* A member as a C string, or NULL. */
static const char *member(struct arena *a, struct str object, const char *key)
{
    struct str text = view_text(a, object, key);
    if (!text.len || memchr(text.at, '\0', text.len))
        return NULL;
    char *copy = arena_get(a, text.len + 1);
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    return copy;
}

static struct err take(struct contexts *all, struct str text)
{
    struct str item, document;
    TRY(view_check(text, &document));
    all->current = member(&all->arena, document, "current");
    struct view_list l = view_list(view_get(document, "contexts"));
    while (view_next(&l, &item)) {
        struct context c = {.name = member(&all->arena, item, "name")};
        if (!c.name || !context_is_name(c.name))
            return err_make(ERR_BAD_VALUE, "a context has no valid name");
        for (size_t i = 0; i < CONTEXT_FIELDS; i++)
            c.field[i] = member(&all->arena, item, context_members[i]);
        ALLOC_GROW(all->at, all->count, all->cap, 8);
        all->at[all->count++] = c;
    }
    return err_none();
}

static struct err read_file(const char *path, struct buf *to)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES
                   ? err_none()
                   : err_make(ERR_IO, "%s", strerror(errno));
    char part[4096];
    for (size_t n; to->len <= FILE_MAX_LEN && (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_add(to, part, n);
    bool failed = ferror(f) != 0;
    fclose(f);
    return failed ? err_make(ERR_IO, "it cannot be read") : err_none();
}

struct err context_read(struct contexts *all)
{
    struct buf path = {0}, text = {0};
    *all = (struct contexts){0};
    struct err e = err_none();
    if (context_path(&path))
        e = read_file(path.at, &text);
    if (e.code == ERR_OK && text.len)
        e = take(all, buf_view(&text));
    if (e.code != ERR_OK) {
        context_fini(all);
        e = err_make(e.code, "%.200s: %.200s", path.at, e.msg);
    }
    buf_fini(&path);
    buf_fini(&text);
    return e;
}

/* --- writing --- */

static void write_context(struct buf *b, const struct context *c)
{
    buf_lit(b, "{\"name\": ");
    json_write_string(b, str_from(c->name));
    for (size_t i = 0; i < CONTEXT_FIELDS; i++) {
        if (!c->field[i])
            continue;
        buf_print(b, ", \"%s\": ", context_members[i]);
        json_write_string(b, str_from(c->field[i]));
    }
    buf_lit(b, "}");
}

static void write_all(struct buf *b, const struct contexts *all)
{
    buf_lit(b, "{\"current\": ");
    if (all->current)
        json_write_string(b, str_from(all->current));
    else
        buf_lit(b, "null");
    buf_lit(b, ",\n \"contexts\": [");
    for (size_t i = 0; i < all->count; i++) {
        buf_str(b, i ? STR(",\n  ") : STR("\n  "));
        write_context(b, &all->at[i]);
    }
    buf_lit(b, "]}\n");
}

/* Makes the folder and those above it. */
static struct err make_folder(char *folder)
{
    for (char *p = strchr(folder + 1, '/');; p = strchr(p + 1, '/')) {
        if (p)
            *p = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return err_make(ERR_IO, "%.200s: %s", folder, strerror(errno));
        if (!p)
            return err_none();
        *p = '/';
    }
}

struct err context_write(const struct contexts *all)
{
    struct buf folder = {0}, path = {0}, text = {0};
    struct private_file file;
    if (!context_path(&path))
        return err_make(ERR_IO, "neither XDG_CONFIG_HOME nor HOME says where it belongs");
    (void)add_folder(&folder);
    buf_byte(&folder, '\0');
    write_all(&text, all);
    struct err e = make_folder(folder.at);
    if (e.code == ERR_OK)
        e = private_file_open(&file, path.at);
    if (e.code == ERR_OK)
        e = private_file_commit(&file, buf_view(&text));
    buf_fini(&folder);
    buf_fini(&path);
    buf_fini(&text);
    return e;
}

/* --- a command's options --- */

static const struct option_def *row_of(const struct options *o, const char *variable)
{
    for (const struct option_def *d = o->defs; d->flag; d++)
        if (d->env && strcmp(d->env, variable) == 0)
            return d;
    return NULL;
}

static bool is_given(const struct options *o, const char *variable)
{
    const struct option_def *d = row_of(o, variable);
    return d && options_source_of(o, d->flag) > OPTION_FROM_FILE;
}

static const char *value_of(const struct options *o, const char *variable, const void *values)
{
    const struct option_def *d = row_of(o, variable);
    return d ? *(const char *const *)((const char *)values + d->offset) : NULL;
}

/* Whether the command is to ask the server of the context. */
static bool is_its_server(const struct options *o, const void *values, const struct context *c)
{
    if (!is_given(o, "TENAX_URL"))
        return true;
    if (!c->field[CONTEXT_URL])
        return false;
    char *asked = call_url(value_of(o, "TENAX_URL", values));
    char *known = call_url(c->field[CONTEXT_URL]);
    bool same = strcmp(asked, known) == 0;
    free(asked);
    free(known);
    return same;
}

static struct err fill_in(struct options *o, void *values, const struct context *c)
{
    if (!is_its_server(o, values, c))
        return err_none();
    const char *token = getenv("TENAX_TOKEN");
    for (size_t i = 0; i < CONTEXT_FIELDS; i++) {
        const struct option_def *d = row_of(o, variables[i]);
        if (!d || !c->field[i] || (i == CONTEXT_TOKEN_FILE && token && *token))
            continue;
        char *text = alloc_text(c->field[i], strlen(c->field[i])); /* for the whole run */
        TRY(options_from_file(o, d->flag, text, values));
    }
    return err_none();
}

struct err context_apply(struct options *o, void *values)
{
    struct contexts all;
    if (!row_of(o, "TENAX_CONTEXT"))
        return err_none();
    const char *named = value_of(o, "TENAX_CONTEXT", values);
    TRY(context_read(&all));
    const char *name = named ? named : all.current;
    const struct context *c = name ? context_find(&all, name) : NULL;
    struct err e = err_none();
    if (c)
        e = fill_in(o, values, c);
    else if (name)
        e = err_make(ERR_USAGE, "there is no context '%.64s'; `tenax context list` has them", name);
    context_fini(&all);
    return e;
}
