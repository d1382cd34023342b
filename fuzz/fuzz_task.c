/* SPDX-License-Identifier: Apache-2.0 */

/* The body of a createTask: what fits the schema is read, written, and is then the same. */

#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/must.h"
#include "taskcluster/tc_definition.h"
#include "taskcluster/tc_schema.h"
#include "wire/json_same.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tc_schemas *schemas;

static void free_schemas(void)
{
    tc_schemas_free(schemas);
}

static void try_definition(struct str json, struct arena *a)
{
    struct tc_definition d, again;
    struct buf first = {0}, second = {0};
    if (tc_definition_read(json, a, &d).code != ERR_OK)
        return;
    if (tc_definition_complete(&d, STR("fN1SbArXTPSVFUUvaOlinQ"), a).code == ERR_OK) {
        tc_definition_write(&first, &d);
        must(tc_definition_read(buf_view(&first), a, &again).code == ERR_OK);
        must(tc_definition_complete(&again, STR("fN1SbArXTPSVFUUvaOlinQ"), a).code == ERR_OK);
        tc_definition_write(&second, &again);
        must(str_eq(buf_view(&first), buf_view(&second)));
        must(json_same(buf_view(&first), buf_view(&second), a));
    }
    buf_fini(&first);
    buf_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str json = {(const char *)data, size};
    struct json_cursor c = json_open(json);
    struct arena a = {0};
    struct buf problems = {0};
    if (!schemas) {
        schemas = tc_schemas_new();
        must(atexit(free_schemas) == 0);
    }
    if (json_skip(&c, NULL).code == ERR_OK && json_close(&c).code == ERR_OK) {
        must(json_same(json, json, &a));
        if (tc_schemas_check(schemas, "v1/create-task-request.json", json, &a, &problems))
            try_definition(json, &a);
        else
            must(problems.len > 0);
    }
    buf_fini(&problems);
    arena_fini(&a);
    return 0;
}
