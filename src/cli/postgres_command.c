/* SPDX-License-Identifier: Apache-2.0 */

/* tenax postgres: the schema in PostgreSQL that several servers share. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "postgres/pg_schema.h"
#include "postgres/pg_shard.h"
#include "store/records_check.h"
#include "store/records_import.h"
#include "store/rocks.h"

#define SHARD       0
#define CACHE_BYTES ((uint64_t)64 << 20)

struct postgres_args {
    const char *url, *password_file;
    span timeout;
    bool deep;
    const char *dir; /* of import */
};

#define AT(field) offsetof(struct postgres_args, field)
#define WORDS     "install|upgrade|check|import"

static const struct option_def options[] = {
    {"postgres", "URL", OPTION_TEXT, AT(url), .env = "TENAX_POSTGRES",
     .help = "the database, as libpq reads it: postgres://USER@HOST:PORT/DATABASE; required. "
             "Without a password: that is in a file, or in PGPASSWORD"},
    {"postgres-password-file", "FILE", OPTION_TEXT, AT(password_file),
     .env = "TENAX_POSTGRES_PASSWORD_FILE", .help = "its first line is the password"},
    {"timeout", "DURATION", OPTION_SPAN, AT(timeout), .def = "10s",
     .help = "how long PostgreSQL may take to answer"},
    {"deep", NULL, OPTION_SWITCH, AT(deep),
     .help = "of check: reads every record and every batch, and compares their checksums"},
    {0},
};

const struct subcommand postgres_command = {
    .name = "postgres",
    .usage = WORDS " [DIR] --postgres URL [OPTIONS]",
    .summary = "install, upgrade, check or fill the schema in PostgreSQL",
    .about =
        "install makes the schema `tenax` in the database, and the role tenax_producer, whose "
        "members may enqueue by SQL and do nothing else. upgrade brings a schema of an older "
        "tenax to this version, while servers run. check says whether servers can use it, and "
        "what an acknowledgement is worth with PostgreSQL's settings; with --deep it reads all "
        "that is "
        "stored, names what does not have its checksum, and fails if there is any. Each may be run "
        "again at any time. import brings all jobs of the root directory DIR, of a server that is "
        "stopped or "
        "of a backup that was restored, into a schema that has none; DIR stays as it is.\n"
        "The role needs the right to create a schema (GRANT CREATE ON DATABASE … TO …), and "
        "CREATEROLE unless somebody else runs CREATE ROLE tenax_producer NOLOGIN before. It owns "
        "the schema then, and servers connect as this role or a member of it; nobody needs to be a "
        "superuser.",
    .examples = "  tenax postgres install --postgres postgres://tenax@db.example.org/jobs \\\n"
                "    --postgres-password-file /etc/tenax/postgres\n"
                "  tenax postgres check --postgres postgres://tenax@db.example.org/jobs\n"
                "  tenax postgres check --deep --postgres postgres:///jobs\n"
                "  TENAX_POSTGRES=postgres:///jobs tenax postgres upgrade\n"
                "  tenax postgres import /var/lib/tenax --postgres postgres:///jobs\n",
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

NODISCARD static struct err install(struct pg *pg, const struct postgres_args *args,
                                    const char *where)
{
    (void)args;
    bool changed;
    TRY(pg_schema_install(pg, &changed));
    printf(changed ? "%s: the schema tenax is installed, version %d\n"
                   : "%s: the schema tenax is there, version %d\n",
           where, PG_SCHEMA_VERSION);
    return err_none();
}

NODISCARD static struct err upgrade(struct pg *pg, const struct postgres_args *args,
                                    const char *where)
{
    (void)args;
    bool changed;
    TRY(pg_schema_upgrade(pg, &changed));
    printf(changed ? "%s: the schema tenax was brought to version %d\n"
                   : "%s: the schema tenax has version %d already\n",
           where, PG_SCHEMA_VERSION);
    return err_none();
}

static void tell(const char *line)
{
    printf("damaged: %s\n", line);
}

NODISCARD static struct err check_deep(struct pg *pg)
{
    struct records_check c;
    TRY(records_check(pg, SHARD, tell, &c));
    printf("%llu records and %llu batches were read; %llu of them have no checksum, as they were "
           "written by an older tenax\n",
           (unsigned long long)c.records, (unsigned long long)c.batches,
           (unsigned long long)c.without);
    if (c.missing)
        return err_make(ERR_CORRUPT, "batch %llu is missing in the log",
                        (unsigned long long)c.missing);
    if (c.damaged_records + c.damaged_batches == 0)
        return err_none();
    return err_make(ERR_CORRUPT, "%llu records and %llu batches are damaged",
                    (unsigned long long)c.damaged_records, (unsigned long long)c.damaged_batches);
}

NODISCARD static struct err check(struct pg *pg, const struct postgres_args *args,
                                  const char *where)
{
    struct pg_schema s;
    struct pg_durability d;
    TRY(pg_schema_require(pg));
    TRY(pg_schema_check_rights(pg));
    TRY(pg_schema_look(pg, &s));
    TRY(pg_durability_read(pg, &d));
    printf("%s: PostgreSQL %d, schema tenax of version %d; servers can use it\n%s\n", where,
           s.postgres, s.version, d.text);
    return args->deep ? check_deep(pg) : err_none();
}

NODISCARD static struct err copy(struct pg *pg, const char *dir, uint64_t *count)
{
    struct store *s;
    TRY(rocks_open_reader(dir, CACHE_BYTES, &s));
    struct err e = records_import(pg, SHARD, s, count);
    store_close(s);
    return e;
}

static bool is_root(const char *dir)
{
    struct buf path = {0};
    buf_print(&path, "%s/CURRENT", dir);
    buf_byte(&path, '\0');
    bool there = access(path.at, F_OK) == 0;
    buf_fini(&path);
    return there;
}

/* Nobody may change it meanwhile. */
NODISCARD static struct err import(struct pg *pg, const struct postgres_args *args,
                                   const char *where)
{
    uint64_t count;
    int fd;
    TRY(pg_schema_require(pg));
    if (!is_root(args->dir))
        return err_make(ERR_USAGE, "%.150s is not a root directory: it has no file CURRENT",
                        args->dir);
    TRY(rocks_lock(args->dir, &fd));
    struct err e = copy(pg, args->dir, &count);
    rocks_unlock(fd);
    if (e.code == ERR_OK)
        printf("%s: %llu records of %s are imported\n", where, (unsigned long long)count,
               args->dir);
    return e;
}

static const struct {
    const char *word;
    int rest; /* how many words there are, with it */
    struct err (*run)(struct pg *pg, const struct postgres_args *args, const char *where);
} actions[] = {{"install", 1, install},
               {"upgrade", 1, upgrade},
               {"check", 1, check},
               {"import", 2, import},
               {0}};

static int act(const struct postgres_args *args,
               struct err (*run)(struct pg *, const struct postgres_args *, const char *))
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
        e = run(pg, args, where.at);
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
    while (actions[i].word && (o.rest_count == 0 || strcmp(actions[i].word, o.rest[0]) != 0))
        i++;
    if (!actions[i].word || (actions[i].rest == 1 && o.rest_count != 1))
        return subcommand_usage(&postgres_command, "say one of install, upgrade, check and import");
    if (o.rest_count != actions[i].rest)
        return subcommand_usage(&postgres_command, "name one root directory to import");
    args.dir = o.rest_count == 2 ? o.rest[1] : NULL;
    if (args.deep && actions[i].run != check)
        return subcommand_usage(&postgres_command, "--deep is of check");
    if (!args.url)
        return subcommand_usage(&postgres_command, "give the database by --postgres");
    if (OPTION_GIVEN(&o, struct postgres_args, url) &&
        options_source_of(&o, "postgres") == OPTION_FROM_FLAG && pg_has_password(args.url))
        return subcommand_usage(&postgres_command,
                                "a password in --postgres can be read by every user of the "
                                "machine: put it into a file, or the URL into TENAX_POSTGRES");
    return act(&args, actions[i].run);
}
