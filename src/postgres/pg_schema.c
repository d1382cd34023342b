/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/must.h"
#include "postgres/pg_files.h"

/* A program that knows this version may use the schema as well. */
#define COMPATIBLE 1

/* "tenax" in ASCII: one at a time installs. */
#define INSTALL_LOCK "SELECT pg_advisory_xact_lock(500084202616)"

/* What a version added to the one before, and what every version makes anew. */
struct step {
    int version;
    const char *file;
};
static const struct step steps[] = {{1, "tables.sql"}, {2, "tables_2.sql"}, {0}};
static const char *const programs[] = {"functions.sql", "enqueue.sql", "views.sql", "roles.sql",
                                       NULL};

static const struct pg_statement look_at = {
    "schema_look", "SELECT to_regnamespace('tenax') IS NOT NULL, "
                   "to_regclass('tenax.schema_version') IS NOT NULL, "
                   "current_setting('server_version_num')::int / 10000, "
                   "has_database_privilege(current_database(), 'CREATE'), "
                   "EXISTS (SELECT FROM pg_roles WHERE rolname = 'tenax_producer'), "
                   "(SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user), "
                   "current_user::text, current_database()::text"};
static const struct pg_statement look_version = {
    "schema_version", "SELECT version, compatible FROM tenax.schema_version"};

static void copy(char *to, size_t size, struct str from)
{
    snprintf(to, size, "%.*s", STR_ARG(from));
}

static enum pg_schema_state state_of(int version, int compatible)
{
    if (version == PG_SCHEMA_VERSION)
        return PG_SCHEMA_CURRENT;
    if (version < PG_SCHEMA_VERSION)
        return PG_SCHEMA_OLDER;
    return compatible <= PG_SCHEMA_VERSION ? PG_SCHEMA_NEWER : PG_SCHEMA_FOREIGN;
}

NODISCARD static struct err read_version(struct pg *pg, struct pg_schema *out)
{
    struct pg_rows *rows;
    TRY(pg_run(pg, &look_version, NULL, 0, &rows));
    if (pg_rows_count(rows) == 1) {
        out->version = (int)pg_get_int(rows, 0, 0);
        out->state = state_of(out->version, (int)pg_get_int(rows, 0, 1));
    }
    pg_rows_free(rows);
    return err_none();
}

struct err pg_schema_look(struct pg *pg, struct pg_schema *out)
{
    struct pg_rows *rows;
    *out = (struct pg_schema){0};
    TRY(pg_run(pg, &look_at, NULL, 0, &rows));
    bool there = pg_get_int(rows, 0, 0), ours = pg_get_int(rows, 0, 1);
    out->postgres = (int)pg_get_int(rows, 0, 2);
    out->may_create = pg_get_int(rows, 0, 3);
    out->has_producer = pg_get_int(rows, 0, 4);
    out->may_make_roles = pg_get_int(rows, 0, 5);
    copy(out->role, sizeof out->role, pg_get(rows, 0, 6));
    copy(out->database, sizeof out->database, pg_get(rows, 0, 7));
    pg_rows_free(rows);
    out->state = there ? PG_SCHEMA_FOREIGN : PG_SCHEMA_MISSING;
    return ours ? read_version(pg, out) : err_none();
}

NODISCARD static struct err err_of_state(const struct pg_schema *s)
{
    const char *db = s->database;
    switch (s->state) {
    case PG_SCHEMA_MISSING:
        return err_make(ERR_POSTGRES_SCHEMA,
                        "database %s has no schema tenax: run `tenax postgres install`", db);
    case PG_SCHEMA_OLDER:
        return err_make(ERR_POSTGRES_SCHEMA,
                        "the schema tenax of database %s has version %d, and this program needs "
                        "%d: run `tenax postgres upgrade`",
                        db, s->version, PG_SCHEMA_VERSION);
    case PG_SCHEMA_FOREIGN:
        return err_make(ERR_POSTGRES_SCHEMA,
                        s->version ? "the schema tenax of database %s is of a newer tenax: use that"
                                   : "the schema tenax of database %s was not made by tenax",
                        db);
    default:
        return err_none();
    }
}

NODISCARD static struct err check_age(const struct pg_schema *s)
{
    if (s->postgres < PG_MAJOR_MIN)
        return err_make(ERR_POSTGRES_SCHEMA, "this is PostgreSQL %d, and %d is needed at least",
                        s->postgres, PG_MAJOR_MIN);
    return err_none();
}

struct err pg_schema_require(struct pg *pg)
{
    struct pg_schema s;
    TRY(pg_schema_look(pg, &s));
    TRY(check_age(&s));
    return err_of_state(&s);
}

/* --- install and upgrade --- */

NODISCARD static struct err run_file(struct pg *pg, const char *name)
{
    const struct pg_file *f = pg_files;
    while (f->name && strcmp(f->name, name) != 0)
        f++;
    must(f->name);
    char *sql = alloc_text((const char *)f->text, f->len);
    struct err e = pg_script(pg, sql);
    free(sql);
    return e;
}

NODISCARD static struct err bring(struct pg *pg, int from)
{
    static const struct pg_statement note = {
        "schema_note", "UPDATE tenax.schema_version SET version = $1::bigint, "
                       "compatible = $2::bigint, changed_at = now()"};
    for (const struct step *s = steps; s->file; s++)
        if (s->version > from)
            TRY(run_file(pg, s->file));
    for (const char *const *name = programs; *name; name++)
        TRY(run_file(pg, *name));
    struct pg_param params[] = {pg_number(PG_SCHEMA_VERSION), pg_number(COMPATIBLE)};
    return pg_run(pg, &note, params, 2, NULL);
}

NODISCARD static struct err check_may_install(const struct pg_schema *s)
{
    if (!s->may_create)
        return err_make(ERR_POSTGRES_SCHEMA,
                        "role %s may not create a schema in database %s: GRANT CREATE ON DATABASE "
                        "%s TO %s",
                        s->role, s->database, s->database, s->role);
    if (!s->has_producer && !s->may_make_roles)
        return err_make(ERR_POSTGRES_SCHEMA,
                        "role %s may not create the role tenax_producer: have somebody who may run "
                        "CREATE ROLE tenax_producer NOLOGIN",
                        s->role);
    return err_none();
}

NODISCARD static struct err make(struct pg *pg, const struct pg_schema *s)
{
    TRY(check_may_install(s));
    if (!s->has_producer)
        TRY(pg_script(pg, "CREATE ROLE tenax_producer NOLOGIN"));
    TRY(pg_script(pg, "CREATE SCHEMA tenax"));
    return bring(pg, 0);
}

NODISCARD static struct err install(struct pg *pg, bool *changed)
{
    struct pg_schema s;
    TRY(pg_schema_look(pg, &s));
    TRY(check_age(&s));
    *changed = s.state == PG_SCHEMA_MISSING;
    return *changed ? make(pg, &s) : err_of_state(&s);
}

NODISCARD static struct err upgrade(struct pg *pg, bool *changed)
{
    struct pg_schema s;
    TRY(pg_schema_look(pg, &s));
    TRY(check_age(&s));
    *changed = s.state == PG_SCHEMA_OLDER;
    return *changed ? bring(pg, s.version) : err_of_state(&s);
}

/* All of it or nothing. */
NODISCARD static struct err in_transaction(struct pg *pg, bool *changed,
                                           struct err (*fn)(struct pg *pg, bool *changed))
{
    *changed = false;
    TRY(pg_script(pg, "BEGIN; " INSTALL_LOCK));
    struct err e = fn(pg, changed);
    if (e.code == ERR_OK)
        return pg_script(pg, "COMMIT");
    *changed = false;
    struct err back = pg_script(pg, "ROLLBACK");
    (void)back; /* the connection's end is one, too */
    return e;
}

struct err pg_schema_install(struct pg *pg, bool *changed)
{
    return in_transaction(pg, changed, install);
}

struct err pg_schema_upgrade(struct pg *pg, bool *changed)
{
    return in_transaction(pg, changed, upgrade);
}

/* --- rights --- */

struct err pg_schema_check_rights(struct pg *pg)
{
    static const struct pg_statement lacks = {
        "schema_rights",
        "SELECT coalesce(string_agg(format('%s ON %s', n.privilege, n.name), ', '), '') FROM "
        "(SELECT c.oid, format('tenax.%s', c.relname) AS name, p AS privilege FROM pg_class c, "
        "unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) p WHERE c.relnamespace "
        "= to_regnamespace('tenax') AND c.relkind = 'r') n WHERE NOT has_table_privilege(n.oid, "
        "n.privilege)"};
    struct pg_rows *rows;
    struct err e = err_none();
    TRY(pg_run(pg, &lacks, NULL, 0, &rows));
    struct str text = pg_get(rows, 0, 0);
    if (text.len)
        e = err_make(ERR_POSTGRES_SCHEMA,
                     "the role lacks rights that a server needs: %.90s%s; use the role that "
                     "installed the schema, or a member of it",
                     text.at, text.len > 90 ? " …" : "");
    pg_rows_free(rows);
    return e;
}
