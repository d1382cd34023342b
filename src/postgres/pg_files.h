/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_FILES_H
#define POSTGRES_PG_FILES_H

/* The SQL of the schema, embedded in the binary; the list ends with a row without a name. */

#include <stddef.h>

struct pg_file {
    const char *name;
    const unsigned char *text;
    size_t len;
};

extern const struct pg_file pg_files[];

#endif
