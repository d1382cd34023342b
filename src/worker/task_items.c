/* SPDX-License-Identifier: Apache-2.0 */

/* Which files the artifacts of a payload are: the first half of task_upload.h. */

#include <stdio.h>
#include <unistd.h>

#include "base/array.h"
#include "worker/task_upload.h"

const char *task_content_type(const char *path)
{
    static const char *const types[][2] = {
        {".log", "text/plain; charset=utf-8"},
        {".txt", "text/plain; charset=utf-8"},
        {".md", "text/markdown"},
        {".html", "text/html"},
        {".css", "text/css"},
        {".csv", "text/csv"},
        {".js", "text/javascript"},
        {".json", "application/json"},
        {".xml", "application/xml"},
        {".yml", "application/yaml"},
        {".yaml", "application/yaml"},
        {".pdf", "application/pdf"},
        {".gz", "application/gzip"},
        {".tgz", "application/gzip"},
        {".tar", "application/x-tar"},
        {".zip", "application/zip"},
        {".zst", "application/zstd"},
        {".xz", "application/x-xz"},
        {".png", "image/png"},
        {".jpg", "image/jpeg"},
        {".jpeg", "image/jpeg"},
        {".svg", "image/svg+xml"},
    };
    const char *name = strrchr(path, '/'), *dot = strrchr(name ? name : path, '.');
    for (size_t i = 0; dot && i < COUNT(types); i++)
        if (strcasecmp(dot, types[i][0]) == 0)
            return types[i][1];
    return "application/octet-stream";
}

struct gathering {
    struct task_items *items;
    const struct task_artifact *artifact;
    struct arena *arena;
    int dir;
    instant expires;
};

static void add(const struct gathering *g, const char *name, const char *path,
                enum task_file_fault fault)
{
    const struct task_artifact *t = g->artifact;
    struct task_items *items = g->items;
    ARENA_GROW(g->arena, items->at, items->count, items->cap, 16);
    items->at[items->count++] = (struct task_item){
        .name = name,
        .content_type = t->content_type ? t->content_type : task_content_type(path),
        .path = path,
        .dir = g->dir,
        .expires = instant_is_set(t->expires) ? t->expires : g->expires,
        .optional = t->optional,
        .fault = fault};
}

static const char *join(struct arena *a, const char *base, const char *name)
{
    size_t room = strlen(base) + strlen(name) + 2;
    char *at = arena_get(a, room);
    snprintf(at, room, "%s%s%s", base, base[0] ? "/" : "", name);
    return at;
}

static void add_below(void *ctx, const char *path)
{
    const struct gathering *g = ctx;
    add(g, join(g->arena, g->artifact->name, path), join(g->arena, g->artifact->path, path),
        TASK_FILE_FINE);
}

static void add_directory(struct gathering *g)
{
    int fd;
    enum task_file_fault fault = task_file_open_directory(g->dir, g->artifact->path, &fd);
    if (fault != TASK_FILE_FINE) {
        add(g, g->artifact->name, g->artifact->path, fault);
        return;
    }
    size_t before = g->items->count;
    bool fine = task_file_walk(fd, TASK_ARTIFACTS_MAX - before, add_below, g);
    close(fd);
    if (fine)
        return;
    g->items->count = before;
    add(g, g->artifact->name, g->artifact->path, TASK_FILE_LARGE);
}

void task_items_gather(struct task_items *items, const struct task_payload *p, int dir,
                       instant expires, struct arena *a)
{
    *items = (struct task_items){0};
    for (size_t i = 0; i < p->artifact_count; i++) {
        struct gathering g = {items, &p->artifacts[i], a, dir, expires};
        bool full = items->count >= TASK_ARTIFACTS_MAX;
        if (p->artifacts[i].type == TASK_DIRECTORY && !full)
            add_directory(&g);
        else
            add(&g, p->artifacts[i].name, p->artifacts[i].path,
                full ? TASK_FILE_LARGE : TASK_FILE_FINE);
    }
}
