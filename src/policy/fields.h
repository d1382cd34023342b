/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_FIELDS_H
#define POLICY_FIELDS_H

/* Reads the fields of a document into a struct, by tables. Every reader returns false after
 * it has filled in the fault: the path of the field, its place, what was expected and
 * what was found. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/pattern.h"
#include "core/curve.h"
#include "core/matcher.h"
#include "core/policy.h"
#include "policy/document.h"

/* A compiled pattern that belongs to a document. */
struct fields_pattern {
    struct pattern *pattern;
    struct fields_pattern *next;
};

/* One document being read. */
struct fields {
    struct arena *arena;
    struct document_fault *fault;
    struct fields_pattern *patterns; /* compiled so far; for fields_free_patterns */
};

/* Where a value is: "rules" below "spec" ... */
struct fields_at {
    const struct fields_at *up; /* NULL: the document */
    struct str name;            /* of a member; else index is meant */
    size_t index;
    const struct document_node *node;
};

/* A member of a mapping: its name, who reads it, whether it must be there. */
struct field {
    const char *name;
    bool (*read)(struct fields *f, const struct fields_at *at, void *into);
    bool required;
};

/* Reads a mapping into a struct. A member that is not in the table is refused. */
NODISCARD bool fields_read(struct fields *f, const struct fields_at *at, const struct field *table,
                           size_t n, void *into);
/* The value's type, as "a list", "137", "\"in\"". */
NODISCARD bool fields_expect(struct fields *f, const struct fields_at *at, enum document_type type,
                             const char *expected);
/* Refuses the value: its place and what it is are filled in. */
bool fields_refuse(struct fields *f, const struct fields_at *at, enum err_code code,
                   const char *expected, ...) __attribute__((format(printf, 4, 5)));

NODISCARD bool fields_bool(struct fields *f, const struct fields_at *at, bool *v);
NODISCARD bool fields_int(struct fields *f, const struct fields_at *at, int64_t lo, int64_t hi,
                          int64_t *v);
NODISCARD bool fields_double(struct fields *f, const struct fields_at *at, double lo, double hi,
                             double *v);
/* 1 to most bytes of text without control characters. */
NODISCARD bool fields_text(struct fields *f, const struct fields_at *at, size_t most,
                           struct str *v);
/* RFC 1123: up to 63 lower case letters, digits and '-', which is not first or last. */
NODISCARD bool fields_label(struct fields *f, const struct fields_at *at, struct str *v);
/* An amount of memory, as text with a unit or as a number of bytes. */
NODISCARD bool fields_quantity(struct fields *f, const struct fields_at *at, uint64_t *bytes);
/* What memory grows by: over 1, at most 100. */
NODISCARD bool fields_factor(struct fields *f, const struct fields_at *at, double *v);
/* The index of the value among the words; expected lists them. */
NODISCARD bool fields_word(struct fields *f, const struct fields_at *at, const char *const *words,
                           size_t n, const char *expected, size_t *v);
/* A duration with a unit: "0s", "30s", "1h30m"; at most a year. */
NODISCARD bool fields_span(struct fields *f, const struct fields_at *at, span *v);
/* A regular expression, compiled; `into` is a const struct pattern *. */
NODISCARD bool fields_regex(struct fields *f, const struct fields_at *at, void *into);
/* {pattern: TEXT} */
NODISCARD bool fields_pattern(struct fields *f, const struct fields_at *at,
                              const struct pattern **v);
/* Makes at the place of the first entry of a list, then of the next; false at its end. */
bool fields_each(const struct fields_at *list, struct fields_at *at);

void fields_free_patterns(struct fields_pattern *patterns);

/* The frame of a resource: apiVersion, kind (as expected), metadata with a name. spec is
 * left to the caller. */
struct fields_frame {
    const char *kind;
    bool any_name; /* need not be a label */
    struct str name;
    int64_t resource_version; /* 0: not stated */
    struct fields_at spec;
};
NODISCARD bool fields_frame(struct fields *f, const struct fields_at *at,
                            struct fields_frame *frame);
/* The same to be written; the spec is returned, still empty. */
struct document_node *fields_frame_tree(struct arena *a, struct document_node *root,
                                        const struct fields_frame *frame);

/* The matchers of a rule are members among others. Every rule has its struct matcher as its first
 * member, so that these rows read into a rule of whatever kind. */
bool fields_exit_codes(struct fields *f, const struct fields_at *at, void *rule);
bool fields_conditions(struct fields *f, const struct fields_at *at, void *rule);
bool fields_message(struct fields *f, const struct fields_at *at, void *rule);
bool fields_categories(struct fields *f, const struct fields_at *at, void *rule);
bool fields_subcategories(struct fields *f, const struct fields_at *at, void *rule);
bool fields_error(struct fields *f, const struct fields_at *at, void *rule);
bool fields_pod_error(struct fields *f, const struct fields_at *at, void *rule);
bool fields_pod_event(struct fields *f, const struct fields_at *at, void *rule);
bool fields_container(struct fields *f, const struct fields_at *at, void *rule);
bool fields_include_init(struct fields *f, const struct fields_at *at, void *rule);

/* A list of rules, each of that size, in the arena. */
struct fields_rules {
    const char *path; /* of the list; NULL: spec.rules */
    size_t size;
    const struct field *table; /* of a rule's members */
    size_t table_count;
    void (*begin)(void *rule);               /* makes an empty one; NULL: zeros do */
    void (*end)(void *rule);                 /* once it is read; NULL: nothing */
    bool (*states)(const struct matcher *m); /* a matcher that may stand in such a rule */
    const char *what_to_state;               /* "at least one of ..." */
    const char *empty;                       /* what is expected instead of an empty list */
    void *rules;                             /* the result */
    size_t count;
};
/* Each must state something, and none the same as an earlier one, for it would never be reached. */
NODISCARD bool fields_rules(struct fields *f, const struct fields_at *at, struct fields_rules *r);
/* Copies what a matcher keeps of the tree. */
void fields_own_matcher(struct matcher *m, struct arena *a);

void fields_add_matchers(struct arena *a, struct document_node *rule, const struct matcher *m);
struct document_node *fields_span_tree(struct arena *a, span d);

#define FIELDS_RULES_MAX      256
#define FIELDS_CATEGORIES_MAX 64
#define FIELDS_TEXT_MAX       255

#endif
