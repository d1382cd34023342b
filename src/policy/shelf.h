/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_SHELF_H
#define POLICY_SHELF_H

/* The resources of one kind: documents with a name and a version each, kept parsed, sorted by name.
 * A refused change has no effect. A stored document that can no longer be read keeps its place and
 * is shown as broken, until it is replaced or removed; it decides nothing. In memory only: the
 * owner stores what its sink is given. */

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
    size_t most;            /* the maximum number */
    /* Parses a document that was accepted before. */
    bool (*parse)(struct str json, void *doc, struct document_fault *fault);
    uint64_t (*weight)(const void *doc); /* bytes that it keeps besides its text, approximately */
    void (*free)(void *doc);
    /* A document begins with its value. */
    struct str (*name)(const void *value);
    struct document_node *(*tree)(const void *value, int64_t version, struct arena *a);
};

/* Totals over all documents of a kind: of their texts, which one answer may contain, and of their
 * weights. A new document must fit. */
#define SHELF_TEXT_MAX   ((uint64_t)4 << 20)
#define SHELF_WEIGHT_MAX ((uint64_t)256 << 20)

struct shelf;
/* *version is the last one assigned, to resources of any kind: it never goes back. */
struct shelf *shelf_new(const struct shelf_kind *kind, const struct policies_sink *sink,
                        uint64_t *version);
void shelf_free(struct shelf *s);

struct policies_put {
    struct str name;   /* the required name; empty: any */
    const void *value; /* of the document; copied */
    int64_t version;   /* the one it states, or 0; ERR_CONFLICT if it is not the present one */
    bool create;       /* ERR_CONFLICT if one with that name exists */
};
/* Adds or replaces a document. Views live in the arena, and what they show lives as long as the
 * arena, even if it is replaced or the shelf is freed. */
NODISCARD struct err shelf_put(struct shelf *s, const struct policies_put *put, struct arena *a,
                               struct resource_view **view);
/* One, or with an empty name all. ERR_NOT_FOUND. */
NODISCARD struct err shelf_read(const struct shelf *s, struct str name, struct arena *a,
                                struct resource_view **views, size_t *count);
/* ERR_NOT_FOUND. */
NODISCARD struct err shelf_remove(struct shelf *s, struct str name);
/* Restores a stored document. After an error it is there, and broken. */
NODISCARD struct err shelf_restore(struct shelf *s, struct str name, uint64_t version,
                                   struct str body);

/* Whether there is one with that name, broken or not. */
bool shelf_has(const struct shelf *s, struct str name);
/* NULL if there is none, or if it is broken. Valid until the next change, as is shelf_at's. */
const void *shelf_get(const struct shelf *s, struct str name);
size_t shelf_count(const struct shelf *s);
/* The i-th by name; NULL if it is broken. */
const void *shelf_at(const struct shelf *s, size_t i);
struct str shelf_name_at(const struct shelf *s, size_t i); /* also of a broken one */

#endif
