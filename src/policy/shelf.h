/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_SHELF_H
#define POLICY_SHELF_H

/* The resources of one kind that there are: documents with a name and a version each, kept
 * parsed, in the order of their names. What is refused changes nothing. A document that was
 * stored and cannot be read any more keeps its place and is shown as broken, until it is replaced
 * or removed; it decides nothing. Memory only: the owner stores what its sink is told. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "core/command.h"
#include "wire/document.h"

/* Where changes go, to be stored. */
struct policies_sink {
    void *ctx;
    /* body.at == NULL: the resource is gone. */
    void (*put)(void *ctx, char kind, struct str name, uint64_t version, struct str body);
};

/* How documents of the kind are read and written; `doc` is one of them, and is never moved. */
struct shelf_kind {
    char kind;              /* on disk */
    const char *one, *many; /* "retry policy", "retry policies" */
    size_t size;            /* of a document */
    size_t most;            /* how many there may be */
    /* Of a document that was accepted. */
    bool (*parse)(struct str json, void *doc, struct document_fault *fault);
    uint64_t (*weight)(const void *doc); /* bytes that it keeps besides its text, roughly */
    void (*free)(void *doc);
    /* A document begins with its value. */
    struct str (*name)(const void *value);
    struct document_node *(*tree)(const void *value, int64_t version, struct arena *a);
};

/* Of all documents of a kind: their texts, which one answer may hold, and their weight. A new one
 * has to fit in. */
#define SHELF_TEXT_MAX   ((uint64_t)4 << 20)
#define SHELF_WEIGHT_MAX ((uint64_t)256 << 20)

struct shelf;
/* *version is the last that was given, to resources of whatever kind: it never goes back. */
struct shelf *shelf_new(const struct shelf_kind *kind, const struct policies_sink *sink,
                        uint64_t *version);
void shelf_free(struct shelf *s);

struct policies_put {
    struct str name;   /* that it must have; empty: any */
    const void *value; /* of the document; copied */
    int64_t version;   /* that it states, or 0; if it is not the present one, ERR_CONFLICT */
    bool create;       /* ERR_CONFLICT if there is one of that name */
};
/* Adds or replaces a document. Views lie in the arena, and what they show lasts as long as it, even
 * if it is replaced or the shelf is freed. */
NODISCARD struct err shelf_put(struct shelf *s, const struct policies_put *put, struct arena *a,
                               struct resource_view **view);
/* One, or with an empty name all. ERR_NOT_FOUND. */
NODISCARD struct err shelf_read(const struct shelf *s, struct str name, struct arena *a,
                                struct resource_view **views, size_t *count);
/* ERR_NOT_FOUND. */
NODISCARD struct err shelf_remove(struct shelf *s, struct str name);
/* A stored one. After an error it is there, and broken. */
NODISCARD struct err shelf_restore(struct shelf *s, struct str name, uint64_t version,
                                   struct str body);

/* Whether there is one of that name, broken or not. */
bool shelf_has(const struct shelf *s, struct str name);
/* NULL if there is none, or if it is broken. Valid until the next change, as is shelf_at's. */
const void *shelf_get(const struct shelf *s, struct str name);
size_t shelf_count(const struct shelf *s);
/* The i-th by name; NULL if it is broken. */
const void *shelf_at(const struct shelf *s, size_t i);

#endif
