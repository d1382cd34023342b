/* SPDX-License-Identifier: Apache-2.0 */

/* tenax tls: certificates for a server and its clients, for those who have no CA. */

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/folder.h"
#include "cli/certs.h"
#include "cli/commands.h"

struct tls_args {
    const char *dir;
    struct option_list sans, clients;
    const char *name, *ca_name;
    const char *ca_cert, *ca_key;
    int64_t days, ca_days;
    bool force;
};

#define AT(field) offsetof(struct tls_args, field)
#define OUT_DIR                                                                                    \
    {                                                                                              \
        "out-dir", "DIR", OPTION_TEXT, AT(dir), .env = "TENAX_TLS_DIR", .def = "./tenax-tls",      \
                                                .help = "where the files go; created if absent"    \
    }
#define FORCE                                                                                      \
    {                                                                                              \
        "force", NULL, OPTION_SWITCH, AT(force), .help = "overwrite existing files"                \
    }
#define DAYS                                                                                       \
    {                                                                                              \
        "days", "N", OPTION_INT, AT(days),                                                         \
            .min = 1, .max = 36500, .def = "365",                                                  \
            .help = "how long certificates are valid, but no longer than their CA"                 \
    }
#define CA_NAME                                                                                    \
    {                                                                                              \
        "cn", "NAME", OPTION_TEXT, AT(ca_name), .def = "Tenax CA", .help = "the CA's common name"  \
    }
#define CA_DAYS                                                                                    \
    {                                                                                              \
        "ca-days", "N", OPTION_INT, AT(ca_days), .min = 1, .max = 36500, .def = "3650",            \
                                                 .help = "how long the CA is valid"                \
    }
#define SAN                                                                                        \
    {                                                                                              \
        "san", "HOST", OPTION_LIST, AT(sans),                                                      \
            .help = "a name or IP address by which clients know the server; may be repeated "      \
                    "[default: "                                                                   \
                    "localhost, 127.0.0.1 and ::1]"                                                \
    }
#define CA_FILES                                                                                   \
    {"ca-cert", "FILE", OPTION_TEXT, AT(ca_cert),                                                  \
     .help = "the CA's certificate [default: "                                                     \
             "ca-cert.pem in the out-dir]"},                                                       \
    {                                                                                              \
        "ca-key", "FILE", OPTION_TEXT, AT(ca_key),                                                 \
            .help = "its key [default: ca-key.pem in the out-dir]"                                 \
    }

static const struct option_def init_options[] = {
    OUT_DIR,
    SAN,
    {"client", "NAME", OPTION_LIST, AT(clients),
     .help = "make a certificate for a client of this name; may be repeated"},
    DAYS,
    CA_NAME,
    CA_DAYS,
    FORCE,
    {0},
};

static const struct option_def ca_options[] = {OUT_DIR, CA_NAME, CA_DAYS, FORCE, {0}};
static const struct option_def server_options[] = {OUT_DIR, SAN, CA_FILES, DAYS, FORCE, {0}};
static const struct option_def client_options[] = {
    {"name", "NAME", OPTION_TEXT, AT(name), .help = "the client's name; required"},
    OUT_DIR,
    CA_FILES,
    DAYS,
    FORCE,
    {0},
};

#define ACTIONS "init|ca|server-cert|client-cert"

const struct subcommand tls_command = {
    .name = "tls",
    .usage = ACTIONS " [OPTIONS]",
    .summary = "make certificates for a server and its clients",
    .about =
        "For those without a certificate authority: makes one, and certificates signed by it.\n"
        "`init` makes everything that is needed and missing; `ca`, `server-cert` and "
        "`client-cert` make one of them. Each has a page of its own: `tenax tls init --help`. "
        "Nothing that exists is overwritten without --force. Keep ca-key.pem where no one "
        "else can read it: whoever has it can make certificates that your server trusts.",
    .examples = "  tenax tls init --san jobs.example.org --client worker\n"
                "  tenax serve --host 0.0.0.0 --tls-cert tenax-tls/server-cert.pem \\\n"
                "    --tls-key tenax-tls/server-key.pem --tls-client-ca tenax-tls/ca-cert.pem\n"
                "  tenax jobs --url https://jobs.example.org:7890 \\\n"
                "    --ca-cert tenax-tls/ca-cert.pem \\\n"
                "    --client-cert tenax-tls/client-worker-cert.pem \\\n"
                "    --client-key tenax-tls/client-worker-key.pem\n",
    .words = ACTIONS,
    .page_of = tls_page,
};

static const struct subcommand init_command = {
    .name = "tls init",
    .usage = "[OPTIONS]",
    .summary = "make a CA, a server's certificate, and clients' certificates",
    .about = "Makes what is missing, so it can be run again for another client. With "
             "--force everything is made anew, the CA too: nothing that it signed before is "
             "trusted then.",
    .examples = "  tenax tls init --san localhost --san jobs.example.org --client worker\n"
                "  tenax tls init --client another-worker\n",
    .options = init_options,
};

static const struct subcommand ca_command = {
    .name = "tls ca",
    .usage = "[OPTIONS]",
    .summary = "make a certificate authority",
    .about = "Writes ca-cert.pem, to be given to everyone who should trust it, and ca-key.pem, to "
             "be kept secret.",
    .examples = "  tenax tls ca --out-dir certs --cn 'Example CA'\n",
    .options = ca_options,
};

static const struct subcommand server_command = {
    .name = "tls server-cert",
    .usage = "[OPTIONS]",
    .summary = "make a server's certificate",
    .about = "Writes server-cert.pem and server-key.pem, for --tls-cert and --tls-key of `tenax "
             "serve`. A running server reads them again on SIGHUP.",
    .examples = "  tenax tls server-cert --san jobs.example.org --san 10.0.0.7\n"
                "  tenax tls server-cert --out-dir certs --force && kill -HUP \"$pid\"\n",
    .options = server_options,
};

static const struct subcommand client_command = {
    .name = "tls client-cert",
    .usage = "--name NAME [OPTIONS]",
    .summary = "make a client's certificate",
    .about = "Writes client-NAME-cert.pem and client-NAME-key.pem, for --client-cert and "
             "--client-key of the commands that talk to a server.",
    .examples = "  tenax tls client-cert --name worker --days 90\n",
    .options = client_options,
};

/* -- making them ------------------------------------------------------------ */

struct pair_names {
    char cert[4096], key[4096];
};

static struct certs_pair name_pair(struct pair_names *n, const char *dir, const char *stem)
{
    snprintf(n->cert, sizeof n->cert, "%s/%s-cert.pem", dir, stem);
    snprintf(n->key, sizeof n->key, "%s/%s-key.pem", dir, stem);
    return (struct certs_pair){n->cert, n->key};
}

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static int fail(const struct subcommand *c, const struct err *e)
{
    if (e->code == ERR_USAGE)
        return subcommand_usage(c, "%s", e->msg);
    fprintf(stderr, "tenax %s: %s\n", c->name, e->msg);
    return CLI_REFUSED;
}

/* Makes one pair in the directory and reports it. */
static struct err make_pair(const struct tls_args *args, const char *stem,
                            const struct certs_spec *spec, const struct certs_pair *ca)
{
    struct pair_names names;
    struct certs_pair out = name_pair(&names, args->dir, stem);
    TRY(certs_make(spec, ca, &out, args->force));
    printf("made %s\nmade %s\n", out.cert, out.key);
    return err_none();
}

static struct err make_ca(const struct tls_args *args)
{
    const struct certs_spec spec = {.use = CERTS_CA, .name = args->ca_name, .days = args->ca_days};
    return make_pair(args, "ca", &spec, NULL);
}

static struct certs_pair ca_of(const struct tls_args *args, struct pair_names *names)
{
    struct certs_pair ca = name_pair(names, args->dir, "ca");
    ca.cert = args->ca_cert ? args->ca_cert : ca.cert;
    ca.key = args->ca_key ? args->ca_key : ca.key;
    return ca;
}

static struct err make_server(const struct tls_args *args)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    const bool given = args->sans.count > 0;
    struct pair_names names;
    struct certs_pair ca = ca_of(args, &names);
    const struct certs_spec spec = {.use = CERTS_SERVER,
                                    .name = given ? args->sans.at[0] : local[0],
                                    .hosts = given ? args->sans.at : local,
                                    .host_count = given ? args->sans.count : 3,
                                    .days = args->days};
    return make_pair(args, "server", &spec, &ca);
}

static struct err check_client(const char *name)
{
    size_t n = strlen(name);
    if (n > 0 && n <= 64 && *name != '.' &&
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == n)
        return err_none();
    return err_make(
        ERR_USAGE, "'%.80s' cannot be the name of a client: 1 to 64 letters, digits, '-', '.', '_'",
        name);
}

static struct err make_client(const struct tls_args *args, const char *name)
{
    char stem[80];
    TRY(check_client(name));
    snprintf(stem, sizeof stem, "client-%s", name);
    struct pair_names names;
    struct certs_pair ca = ca_of(args, &names);
    const struct certs_spec spec = {.use = CERTS_CLIENT, .name = name, .days = args->days};
    return make_pair(args, stem, &spec, &ca);
}

/* -- the actions ------------------------------------------------------------ */

/* Whether both files of a pair exist already, which is reported. If only one exists, certs_make
 * refuses. */
static bool keeps(const struct tls_args *args, const char *stem)
{
    struct pair_names names;
    struct certs_pair p = name_pair(&names, args->dir, stem);
    if (args->force || !exists(p.cert) || !exists(p.key))
        return false;
    printf("kept %s\nkept %s\n", p.cert, p.key);
    return true;
}

static struct err run_init(const struct tls_args *args)
{
    for (size_t i = 0; i < args->clients.count; i++)
        TRY(check_client(args->clients.at[i]));
    if (!keeps(args, "ca"))
        TRY(make_ca(args));
    if (!keeps(args, "server"))
        TRY(make_server(args));
    for (size_t i = 0; i < args->clients.count; i++) {
        char stem[80];
        snprintf(stem, sizeof stem, "client-%s", args->clients.at[i]);
        if (!keeps(args, stem))
            TRY(make_client(args, args->clients.at[i]));
    }
    return err_none();
}

static struct err run_client(const struct tls_args *args)
{
    if (!args->name)
        return err_make(ERR_USAGE, "the client needs a name: --name NAME");
    return make_client(args, args->name);
}

static const struct {
    const char *word;
    const struct subcommand *page;
    struct err (*run)(const struct tls_args *args);
} actions[] = {
    {"init", &init_command, run_init},
    {"ca", &ca_command, make_ca},
    {"server-cert", &server_command, make_server},
    {"client-cert", &client_command, run_client},
};

const struct subcommand *tls_page(const char *word)
{
    for (size_t i = 0; i < COUNT(actions); i++)
        if (strcmp(word, actions[i].word) == 0)
            return actions[i].page;
    return NULL;
}

static int run_action(size_t i, int argc, char **argv)
{
    struct tls_args args = {0};
    struct options o;
    int code;
    const struct subcommand *page = actions[i].page;
    if (!subcommand_begin(page, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(page, "unexpected '%s'", o.rest[0]);
    struct err e = folder_make(args.dir, 0755);
    if (e.code == ERR_OK)
        e = actions[i].run(&args);
    return e.code == ERR_OK ? CLI_OK : fail(page, &e);
}

int tls_main(int argc, char **argv)
{
    if (argc < 2)
        return subcommand_usage(&tls_command,
                                "say what to make: init, ca, server-cert, client-cert");
    for (size_t i = 0; i < COUNT(actions); i++)
        if (strcmp(argv[1], actions[i].word) == 0)
            return run_action(i, argc - 1, argv + 1);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        struct buf page = {0};
        subcommand_help(&page, &tls_command);
        subcommand_print(stdout, &page);
        buf_fini(&page);
        return CLI_OK;
    }
    if (argv[1][0] == '-')
        return subcommand_usage(&tls_command,
                                "unknown option '%.60s'; say first what to make: init, ca, "
                                "server-cert, client-cert",
                                argv[1]);
    struct str near = options_closest(argv[1], ACTIONS);
    return subcommand_usage(&tls_command, "it cannot make '%.60s'%s%.*s%s", argv[1],
                            near.len ? "; did you mean '" : "", STR_ARG(near),
                            near.len ? "'?" : "");
}
