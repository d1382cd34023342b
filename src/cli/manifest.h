/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MANIFEST_H
#define CLI_MANIFEST_H

/* What files describe and commands manage in the manner of kubectl: retry policies,
 * failure categories and queues, each a document with apiVersion, kind, metadata and spec. A kind
 * is one row of a table (resource.c); the verbs (resources.c) know no kind by name. */

#include "client/client.h"
#include "policy/document.h"

struct resource;

struct resource_kind {
    const char *kind;  /* in documents: "RetryPolicy" */
    const char *word;  /* on the command line and in messages: "retrypolicy" */
    const char *words; /* of several; `tenax get` takes either */
    const char *path;  /* "/retry-policies"; one has its name behind a slash */
    const char *items; /* the member of the answer to GET path that lists them */
    const char *query; /* what a list of them is asked for with, or NULL; it comes in pages */
    bool from_words;   /* `tenax create queue ml` makes one */
    /* Checks a document and fills in name, body and version. */
    bool (*read)(const struct document_node *root, struct arena *a, struct resource *r,
                 struct document_fault *fault);
    /* Whether the server's answer is such a resource, and whether it is what r says. */
    bool (*exists)(const struct document_node *answer);
    bool (*shown)(const struct document_node *answer); /* by get, though nobody made it; or NULL */
    bool (*same)(const struct resource *r, const struct document_node *answer, struct arena *a);
    /* The answer as a document that could be applied. */
    const struct document_node *(*document)(const struct document_node *answer, struct arena *a);
    const char *const *headers; /* of its table, and a row of it */
    void (*row)(const struct document_node *answer, struct table *t);
};

/* One that a file or the command line names. Texts are the arena's that it was read into. */
struct resource {
    const struct resource_kind *kind;
    struct str name;
    struct str body;                      /* JSON, to be PUT; empty: only the name is known */
    bool partial;                         /* the body: what it leaves out is to stay as it is */
    const struct document_node *warnings; /* a list of texts, or NULL */
    const char *file;                     /* where it is from; NULL: the command line */
    uint32_t line;                        /* there */
    struct resource *next;
};

struct resources {
    struct resource *first, *last;
};

/* NULL: there is no such kind; in words of a person: "retrypolicies", "RetryPolicy". */
const struct resource_kind *resource_kind_of(struct str word);
/* The words of all kinds as "a, b". */
void resource_kinds(struct buf *b);

struct resource *resource_add(struct resources *list, const struct resource_kind *kind,
                              struct str name, struct arena *a);
/* Adds all documents of a file, "-" being standard input. What is wrong with any of them is
 * printed, and none is to be used: CLI_USAGE. */
int resource_load(const struct subcommand *c, const char *file, struct arena *a,
                  struct resources *list);

/* An answer of the server as a tree in the arena. */
const struct document_node *resource_tree(struct str json, struct arena *a);

#endif
