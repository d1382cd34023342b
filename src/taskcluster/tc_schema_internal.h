/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_SCHEMA_INTERNAL_H
#define TASKCLUSTER_TC_SCHEMA_INTERNAL_H

#include "base/json.h"
#include "base/pattern.h"
#include "taskcluster/tc_schema.h"

/* Bits of the types that a value may have. */
#define TYPE_BIT(type) (1u << (type))
#define TYPE_INTEGER   (1u << 7) /* a number without a fraction */

struct schema_prop {
    struct str name;
    struct schema *schema; /* NULL: it is only required */
    bool required;
};

/* A compiled schema. Limits are inclusive; what is not stated allows everything. */
struct schema {
    struct str ref;    /* "task.json#/properties/tags", until resolved */
    struct schema *to; /* what it refers to */
    unsigned types;    /* 0: any */
    double minimum, maximum;
    uint64_t length_min, length_max, items_min, items_max;
    struct pattern *pattern;        /* owned */
    bool date_time, unique, closed; /* closed: no properties but those */
    bool always_true;               /* a boolean that may have this value only */
    bool has_default;               /* a property that is absent has it, so it is never missing */
    struct str *words;              /* enum of strings */
    size_t word_count;
    int64_t *numbers; /* enum of whole numbers */
    size_t number_count;
    struct schema *items, *others; /* others: of further properties */
    struct schema_prop *props;
    size_t prop_count, prop_cap;
    struct schema **any; /* one of these must fit */
    size_t any_count;
    struct schema *next; /* all of them, to be released */
};

#define SCHEMA_PROPS_MAX 64

/* The embedded files, by tools/embed_all.py; ended by a name that is NULL. */
struct schema_file {
    const char *name; /* "v1/task.json" */
    const char *text;
    size_t len;
};
extern const struct schema_file tc_schema_files[];

struct tc_schemas {
    struct arena arena;
    struct schema *all;
    struct schema **roots; /* of tc_schema_files, in that order */
    size_t count;
};

/* The root of the file; must be there. */
struct schema *tc_schemas_root(const struct tc_schemas *s, struct str name);

#endif
