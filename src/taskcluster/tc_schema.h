/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_SCHEMA_H
#define TASKCLUSTER_TC_SCHEMA_H

/* The JSON schemas of the queue's and the object service's API (schemas/), which clients can fetch
 * and by which bodies are checked: what is published is what holds. Of JSON Schema they use type,
 * properties, required, additionalProperties, items, minItems, maxItems, uniqueItems, minLength,
 * maxLength, pattern, format date-time, minimum, maximum, enum, const, anyOf and $ref. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

struct tc_schemas;

/* Compiles all of them. That one is malformed is a programmer's fault. */
struct tc_schemas *tc_schemas_new(void);
void tc_schemas_free(struct tc_schemas *s);

/* The text of "v1/task.json"; false if there is none of that name. */
bool tc_schemas_text(struct str name, struct str *text);

/* Whether a valid JSON text fits the schema of that name, which there is. If not, `problems` gets a
 * line for each of the first few: "  * data/metadata must have required property 'owner'". */
bool tc_schemas_check(const struct tc_schemas *s, const char *name, struct str json,
                      struct arena *a, struct buf *problems);

#endif
