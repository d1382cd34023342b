/* SPDX-License-Identifier: Apache-2.0 */

/* tenax postgres: the schema in PostgreSQL that several servers share. */

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "postgres/pg_schema.h"
#include "postgres/pg_shard.h"

struct postgres_args {
    const char *url, *password_file;
    span timeout;
};

#define AT(field) offsetof(struct postgres_args, field)
#define WORDS     "install|upgrade|check"

static const struct option_def options[] = {
    {"postgres", "URL", OPTION_TEXT, AT(url), .env = "TENAX_POSTGRES",
     .help = "the database, as libpq reads it: postgres://USER@HOST:PORT/DATABASE; required. "
             "Without a password: that is in a file, or in PGPASSWORD"},
    {"postgres-password-file", "FILE", OPTION_TEXT, AT(password_file),
     .env = "TENAX_POSTGRES_PASSWORD_FILE", .help = "its first line is the password"},
    {"timeout", "DURATION", OPTION_SPAN, AT(timeout), .def = "10s",
     .help = "how long PostgreSQL may take to answer"},
    {0},
};

const struct subcommand postgres_command = {
    .name = "postgres",
    .usage = WORDS " --postgres URL [OPTIONS]",
    .summary = "install, upgrade or check the schema tenax in PostgreSQL",
    .about =
        "install makes the schema `tenax` in the database, and the role tenax_producer, whose "
        "members may enqueue by SQL and do nothing else. upgrade brings a schema of an older "
        "tenax to this version, while servers run. check says whether servers can use it, and "
        "what an acknowledgement is worth with PostgreSQL's settings. Each may be run again at any "
        "time.\n"
        "The role needs the right to create a schema (GRANT CREATE ON DATABASE … TO …), and "
        "CREATEROLE unless somebody else runs CREATE ROLE tenax_producer NOLOGIN before. It owns "
        "the schema then, and servers connect as this role or a member of it; nobody needs to be a "
        "superuser.",
    .examples = "  tenax postgres install --postgres postgres://tenax@db.example.org/jobs \\\n"
                "    --postgres-password-file /etc/tenax/postgres\n"
                "  tenax postgres check --postgres postgres://tenax@db.example.org/jobs\n"
                "  TENAX_POSTGRES=postgres:///jobs tenax postgres upgrade\n",
    .options = options,
    .words = WORDS,
};

static int complain(const struct err *e)
{
    fprintf(stderr, "tenax postgres: %s\n", e->msg);
    if (e->code == ERR_USAGE)
        return CLI_USAGE;
    return e->code == ERR_POSTGRES ? CLI_UNREACHABLE : CLI_REFUSED;
}

NODISCARD static struct err install(struct pg *pg, const char *where)
{
    bool changed;
    TRY(pg_schema_install(pg, &changed));
    printf(changed ? "%s: the schema tenax is installed, version %d\n"
                   : "%s: the schema tenax is there, version %d\n",
           where, PG_SCHEMA_VERSION);
    return err_none();
}

NODISCARD static struct err upgrade(struct pg *pg, const char *where)
{
    bool changed;
    TRY(pg_schema_upgrade(pg, &changed));
    printf(changed ? "%s: the schema tenax was brought to version %d\n"
                   : "%s: the schema tenax has version %d already\n",
           where, PG_SCHEMA_VERSION);
    return err_none();
}

NODISCARD static struct err check(struct pg *pg, const char *where)
{
    struct pg_schema s;
    struct pg_durability d;
    TRY(pg_schema_require(pg));
    TRY(pg_schema_check_rights(pg));
    TRY(pg_schema_look(pg, &s));
    TRY(pg_durability_read(pg, &d));
    printf("%s: PostgreSQL %d, schema tenax of version %d; servers can use it\n%s\n", where,
           s.postgres, s.version, d.text);
    return err_none();
}

static const struct {
    const char *word;
    struct err (*run)(struct pg *pg, const char *where);
} actions[] = {{"install", install}, {"upgrade", upgrade}, {"check", check}, {0}};

static int act(const struct postgres_args *args, struct err (*run)(struct pg *, const char *))
{
    struct pg *pg;
    struct buf where = {0};
    struct pg_settings settings = {.url = args->url,
                                   .password_file = args->password_file,
                                   .purpose = "postgres",
                                   .timeout = args->timeout};
    struct err e = pg_open(&settings, &pg);
    pg_mask(args->url, &where);
    if (e.code == ERR_OK)
        e = run(pg, where.at);
    pg_close(pg);
    buf_fini(&where);
    return e.code == ERR_OK ? CLI_OK : complain(&e);
}

int postgres_main(int argc, char **argv)
{
    struct postgres_args args = {0};
    struct options o;
    int code, i = 0;
    if (!subcommand_begin(&postgres_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    while (actions[i].word && (o.rest_count != 1 || strcmp(actions[i].word, o.rest[0]) != 0))
        i++;
    if (!actions[i].word)
        return subcommand_usage(&postgres_command, "say one of install, upgrade and check");
    if (!args.url)
        return subcommand_usage(&postgres_command, "give the database by --postgres");
    if (OPTION_GIVEN(&o, struct postgres_args, url) &&
        options_source_of(&o, "postgres") == OPTION_FROM_FLAG && pg_has_password(args.url))
        return subcommand_usage(&postgres_command,
                                "a password in --postgres can be read by every user of the "
                                "machine: put it into a file, or the URL into TENAX_POSTGRES");
    return act(&args, actions[i].run);
}
