/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POSTGRES_PG_SCHEMA_H
#define POSTGRES_PG_SCHEMA_H

/* The schema `tenax`: whether it is there, in which version, and bringing it there. All errors are
 * those of postgres/pg.h unless stated otherwise. */

#include "postgres/pg.h"

#define PG_SCHEMA_VERSION 2
/* The oldest PostgreSQL that it works with. */
#define PG_MAJOR_MIN 13

enum pg_schema_state {
    PG_SCHEMA_MISSING,
    PG_SCHEMA_OLDER, /* `tenax postgres upgrade` mends that */
    PG_SCHEMA_CURRENT,
    PG_SCHEMA_NEWER,   /* and this program may use it */
    PG_SCHEMA_FOREIGN, /* and it may not; or it was not made by tenax */
};

struct pg_schema {
    enum pg_schema_state state;
    int version;         /* of the schema */
    int postgres;        /* PostgreSQL's major version */
    bool may_create;     /* the role may create a schema in the database */
    bool has_producer;   /* there is the role tenax_producer */
    bool may_make_roles; /* and the role may make it */
    char role[64];
    char database[64];
};

/* Changes nothing. */
NODISCARD struct err pg_schema_look(struct pg *pg, struct pg_schema *out);
/* Whether servers may use it: ERR_POSTGRES_SCHEMA says what to do. */
NODISCARD struct err pg_schema_require(struct pg *pg);

/* Makes the schema where it is missing, and the role tenax_producer; *changed is false if nothing
 * was to be done. ERR_POSTGRES_SCHEMA: it is there in another version, or the role may not make it.
 * All of it or nothing. */
NODISCARD struct err pg_schema_install(struct pg *pg, bool *changed);
/* Brings an older one to this version; servers of the version before go on. */
NODISCARD struct err pg_schema_upgrade(struct pg *pg, bool *changed);
/* Whether the role may do everything that a server does. ERR_POSTGRES_SCHEMA names what it lacks.
 */
NODISCARD struct err pg_schema_check_rights(struct pg *pg);

#endif
