/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POLICY_FIELDS_H
#define POLICY_FIELDS_H

/* Reads documents by tables of fields (wire/field.h), like the bodies of requests: a document is
 * first written as JSON, and offsets in that JSON lead back to its tree. So a fault has the path of
 * the field, its line and column, what was expected and what was found. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/pattern.h"
#include "core/matcher.h"
#include "wire/document.h"
#include "wire/field.h"

struct fields_place;

/* A document, or a part of one, being read. */
struct fields {
    struct arena *arena;
    struct document_fault *fault;
    bool nulls_absent;       /* a member that is null counts as not stated */
    bool stored;             /* it was accepted before: limits on patterns do not apply */
    bool re2;                /* its patterns are in RE2's syntax (base/re2.h) */
    bool exact_delays;       /* a backoff that states no jitter has none */
    uint64_t *pattern_bytes; /* the total of its patterns, or what their compilation cost; NULL for
                              * a part without patterns */
    const char *name;        /* of the part, in paths; NULL: the whole document */
    struct fields_place *places;
    size_t count, cap;
};

/* Begins to read a tree. What is read lives in the arena and no longer needs the tree; f must live
 * as long as the cursor and its copies. After any error the fault is filled in. */
struct json_cursor fields_open(struct fields *f, const struct document_node *root, const char *name,
                               struct arena *a, struct document_fault *fault);
/* The same, but a member that is null counts as not stated, as in Go. */
struct json_cursor fields_open_lenient(struct fields *f, const struct document_node *root,
                                       const char *name, struct arena *a,
                                       struct document_fault *fault);

/* Reads a mapping by a table. Members that are not in the table are refused. */
NODISCARD struct err fields_read(struct json_cursor *c, const struct field *table, size_t n,
                                 void *into);

/* Refuses the value at an offset of the text: its position and type are filled in. */
struct err fields_refuse(struct json_cursor *c, size_t at, enum err_code code, const char *expected,
                         ...) __attribute__((format(printf, 4, 5)));
/* The offsets of values within another one: of a member that it has, of its i-th entry. */
size_t fields_member(const struct json_cursor *c, size_t map, const char *name);
size_t fields_entry(const struct json_cursor *c, size_t list, size_t i);
/* Whether it has that member. */
bool fields_has(const struct json_cursor *c, size_t map, const char *name);
/* The value that comes next. */
const struct document_node *fields_node(const struct json_cursor *c);
/* A fault at a position that was not found by reading. Returns false. */
bool fields_fault(struct document_fault *fault, const struct document_node *n, const char *path,
                  enum err_code code, const char *expected, ...)
    __attribute__((format(printf, 5, 6)));

/* --- values; functions without an arena are parts for readers --- */

/* Enters a list; count is the number of its entries. */
NODISCARD struct err fields_list(struct json_cursor *c, const char *expected, size_t *count);
/* Moves to the next entry, which must exist; past the last one. */
void fields_next(struct json_cursor *c);
void fields_end(struct json_cursor *c);

/* A number within the range, both ends included. */
NODISCARD struct err fields_int(struct json_cursor *c, int64_t lo, int64_t hi, int64_t *v);
NODISCARD struct err fields_double(struct json_cursor *c, double lo, double hi, double *v);
/* 1 to most bytes of text without control characters. */
NODISCARD struct err fields_text(struct json_cursor *c, size_t most, struct str *v);
/* The index of the value among the words, the last of which is NULL; expected lists them. */
NODISCARD struct err fields_word(struct json_cursor *c, const char *const *words,
                                 const char *expected, size_t *v);

/* Readers for tables: a truth value; */
struct err fields_bool(struct json_cursor *c, struct arena *a, void *b);
/* at most FIELDS_TEXT_MAX bytes; */
struct err fields_name(struct json_cursor *c, struct arena *a, void *str);
/* RFC 1123: up to FIELDS_LABEL_MAX lower case letters, digits and '-', which is not first or last.
 */
struct err fields_label(struct json_cursor *c, struct arena *a, void *str);
/* 0 to POLICY_RETRIES_MAX. */
struct err fields_retries(struct json_cursor *c, struct arena *a, void *i64);
/* An amount of memory, as text with a unit or as a number of bytes. */
struct err fields_quantity(struct json_cursor *c, struct arena *a, void *u64);
struct err fields_cpu(struct json_cursor *c, struct arena *a, void *u64);
/* The factor by which memory increases: over 1, at most FIELDS_FACTOR_MAX. */
struct err fields_factor(struct json_cursor *c, struct arena *a, void *v);
/* A duration with a unit: "0s", "30s", "1h30m"; at most a year. */
struct err fields_span(struct json_cursor *c, struct arena *a, void *v);
/* A regular expression, compiled; into is a const struct pattern *. */
struct err fields_regex(struct json_cursor *c, struct arena *a, void *into);
/* {pattern: TEXT}; the same. */
struct err fields_pattern(struct json_cursor *c, struct arena *a, void *into);
/* A mapping that is read later; into is a struct field_part. */
struct err fields_mapping(struct json_cursor *c, struct arena *a, void *into);

/* --- the frame of a resource: apiVersion, kind (as expected), metadata with a name --- */

struct fields_frame {
    const char *kind;
    bool any_name; /* need not be a label */
    struct str name;
    int64_t resource_version; /* 0: not stated */
    struct field_part spec;
};
/* The rows of its table; the kind of the struct fields_frame is set. */
#define FIELDS_FRAME(kind_, spec_)                                                                 \
    {                                                                                              \
        "apiVersion",        true,                                                                 \
        fields_api_version,  0,                                                                    \
        .doc = "string (*)", .words = fields_api_versions},                                        \
        {"kind", true, fields_kind, 0, .doc = "string /^" kind_ "$/"},                             \
        {"metadata", true, fields_metadata, 0, .doc = "DocumentMetadata"},                         \
        {"warnings", false, fields_pass_over, 0,                                                   \
         .doc = "any: of an answer that is sent back; without effect"},                            \
    {                                                                                              \
        "spec", true, fields_mapping, offsetof(struct fields_frame, spec), .doc = spec_            \
    }
extern const char *const fields_api_versions[];
struct err fields_api_version(struct json_cursor *c, struct arena *a, void *frame);
struct err fields_kind(struct json_cursor *c, struct arena *a, void *frame);
struct err fields_metadata(struct json_cursor *c, struct arena *a, void *frame);
struct err fields_pass_over(struct json_cursor *c, struct arena *a, void *frame);
/* Writes the same; returns the spec, still empty. */
struct document_node *fields_frame_tree(struct arena *a, struct document_node *root,
                                        const struct fields_frame *frame);

/* --- the matchers of a rule, which are members among others --- */

/* Every rule has its struct matcher as its first member, so that these rows work for every kind of
 * rule. */
#define FIELDS_ON_EXIT_CODES                                                                       \
    {                                                                                              \
        "onExitCodes", false, fields_exit_codes, 0, .doc = "ExitCodeMatcher"                       \
    }
#define FIELDS_ON_CONDITIONS                                                                       \
    {                                                                                              \
        "onConditions", false, fields_conditions, 0, .doc = "MatchedCondition[]"                   \
    }
#define FIELDS_ON_CULPRIT                                                                          \
    {                                                                                              \
        "onCulprit", false, fields_culprits, 0, .doc = "Culprit[1..]"                              \
    }
#define FIELDS_ON_PATTERN(name, member)                                                            \
    {                                                                                              \
        name, false, fields_pattern, offsetof(struct matcher, member), .doc = "PatternMatcher"     \
    }
#define FIELDS_ON_NAMES(name, read)                                                                \
    {                                                                                              \
        name, false, read, 0, .doc = "string[..$]", .most = FIELDS_CATEGORIES_MAX                  \
    }
#define FIELDS_ON_ERROR                                                                            \
    {                                                                                              \
        "onError", false, fields_error, 0, .doc = "ErrorMatcher"                                   \
    }
#define FIELDS_ON_POD_EVENTS                                                                       \
    {                                                                                              \
        "onPodEvents", false, fields_pod_events, 0, .doc = "PodEventMatcher"                       \
    }
#define FIELDS_CONTAINER                                                                           \
    {"containerName",                                                                              \
     false,                                                                                        \
     fields_label,                                                                                 \
     offsetof(struct matcher, container),                                                          \
     .doc = "string 1..$: only this container",                                                    \
     .most = FIELDS_LABEL_MAX},                                                                    \
    {                                                                                              \
        "includeInitContainers", false, fields_bool, offsetof(struct matcher, include_init),       \
            .doc = "boolean"                                                                       \
    }
struct err fields_exit_codes(struct json_cursor *c, struct arena *a, void *rule);
struct err fields_conditions(struct json_cursor *c, struct arena *a, void *rule);
struct err fields_culprits(struct json_cursor *c, struct arena *a, void *rule);
struct err fields_categories(struct json_cursor *c, struct arena *a, void *rule);
struct err fields_subcategories(struct json_cursor *c, struct arena *a, void *rule);
struct err fields_error(struct json_cursor *c, struct arena *a, void *rule);
/* {regexp, reason, type}: of one event of the pod. */
struct err fields_pod_events(struct json_cursor *c, struct arena *a, void *rule);

/* A list of rules of that size, in the arena. */
struct fields_rules {
    size_t size;
    const struct field *table; /* of a rule's members */
    size_t table_count;
    void (*begin)(void *rule);               /* initialises one; NULL: zeros suffice */
    void (*end)(void *rule);                 /* after it is read; NULL: nothing */
    bool (*states)(const struct matcher *m); /* whether a matcher makes a valid rule */
    const char *what_to_state;               /* "at least one of ..." */
    const char *empty;                       /* what is expected instead of an empty list */
    void *rules;                             /* the result */
    size_t count;
};
/* Each rule must state a matcher. */
NODISCARD struct err fields_rules(struct json_cursor *c, struct fields_rules *r);

/* Write what fields_rules reads: the matchers of a rule, and a duration. */
void fields_add_matchers(struct arena *a, struct document_node *rule, const struct matcher *m);
struct document_node *fields_span_tree(struct arena *a, span d);

/* The tables that documents refer to by name, for the description of the API. */
extern const struct field_table fields_tables[], fields_match_tables[];
extern const size_t fields_table_count, fields_match_table_count;

#define FIELDS_SPAN_EXPECTED                                                                       \
    "a duration with units (ms, s, m, h, d, w) like 30s or 1h30m, from 0s to 365d"
#define FIELDS_RULES_MAX      DOCUMENT_ENTRIES_MAX
#define FIELDS_CATEGORIES_MAX 64
#define FIELDS_TEXT_MAX       255
#define FIELDS_LABEL_MAX      63
#define FIELDS_FACTOR_MAX     1000000
/* Of the compiled patterns of a new document: more would hold up the server's loop. */
#define FIELDS_PATTERN_BYTES_MAX ((uint64_t)4 << 20)

#endif
