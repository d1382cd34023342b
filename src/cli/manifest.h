/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MANIFEST_H
#define CLI_MANIFEST_H

/* The resources that files describe and commands manage in the manner of kubectl: retry policies,
 * failure categories and queues, each a document with apiVersion, kind, metadata and spec. A kind
 * is one row of a table (manifest.c); the verbs (apply.c) know no kind by name. */

#include "client/client.h"
#include "wire/document.h"

struct resource;
struct resource_essence;

struct resource_kind {
    const char *kind;  /* in documents: "RetryPolicy" */
    const char *word;  /* on the command line and in messages: "retrypolicy" */
    const char *words; /* plural; `tenax get` takes either */
    const char *path;  /* "/retry-policies"; a single one adds a slash and its name */
    const char *items; /* the member of the answer to GET path that lists them */
    const char *query; /* parameters for requesting a list, or NULL; the answer comes in pages */
    bool from_words;   /* `tenax create queue ml` works without a file */
    bool detachable;   /* others can go on without it */
    /* What matters about a document that the server stores as it is; NULL for other kinds. */
    bool (*essence)(const struct document_node *root, struct arena *a, struct resource_essence *e,
                    struct document_fault *fault);
    /* Checks a document and fills in name, body and version; r->kind is set. */
    bool (*read)(const struct document_node *root, struct arena *a, struct resource *r,
                 struct document_fault *fault);
    /* Whether the server's answer is such a resource, and whether it agrees with r. */
    bool (*exists)(const struct document_node *answer);
    bool (*shown)(const struct document_node *answer); /* by get, although nobody created it; or
                                                        * NULL */
    bool (*same)(const struct resource *r, const struct document_node *answer, struct arena *a);
    /* The answer as a document that can be applied. */
    const struct document_node *(*document)(const struct document_node *answer, struct arena *a);
    const char *const *headers; /* of its table, and for a row of it */
    void (*row)(const struct document_node *answer, struct table *t);
};

/* A resource that a file or the command line names. Texts are in the arena that it was read
 * into. */
struct resource {
    const struct resource_kind *kind;
    struct str name;
    struct str body; /* JSON, for PUT; empty: only the name is known */
    bool partial;    /* whether the server keeps what the body omits */
    bool of_armada;  /* of a file in Armada's form: create replaces, what is missing may be deleted,
                      * and what is deleted is detached */
    bool may_miss;   /* it may be deleted although it does not exist */
    bool detach;     /* when it is deleted, it is taken from what uses it */
    const struct document_node *warnings; /* a list of texts, or NULL */
    const char *file;                     /* its file; NULL: the command line */
    uint32_t line;                        /* in that file */
    struct resource *next;
};

struct resources {
    struct resource *first, *last;
};

/* NULL if there is no such kind; also in a user's spelling: "retrypolicies", "RetryPolicy". */
const struct resource_kind *resource_kind_of(struct str word);
/* The words of all kinds as "a, b". */
void resource_kinds(struct buf *b);

/* Appends a resource of which only the name is known. */
struct resource *resource_add(struct resources *list, const struct resource_kind *kind,
                              struct str name, struct arena *a);
/* Adds all documents of a file; "-" is standard input. If any of them is faulty, prints the faults
 * and returns CLI_USAGE: none of them may be used. */
int resource_load(const struct subcommand *c, const char *file, struct arena *a,
                  struct resources *list);

/* The server's answer as a tree in the arena. */
const struct document_node *resource_tree(struct str json, struct arena *a);

#endif
