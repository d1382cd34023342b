/* SPDX-License-Identifier: Apache-2.0 */

/* token: who may use the server. POST|GET /tokens, DELETE /tokens/ID; or, without a server, a file
 * that it takes in when it starts. */

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "access/token_file.h"
#include "base/array.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/rootdir.h"
#include "client/admin.h"
#include "client/input.h"
#include "client/private_file.h"
#include "client/view.h"
#include "client/when.h"

struct token_args {
    struct client_args client;
    const char *role, *queues, *name, *root_dir, *out;
    span expires;
    int64_t waiting, budgets, keys;
    bool payloads;
};

#define AT(field) offsetof(struct token_args, field)

static const struct option_def options[] = {
    {"role", "ROLES", OPTION_TEXT, AT(role),
     .help = "create: viewer, producer, worker, operator, admin; or several, as a,b"},
    {"queues", "PATTERNS", OPTION_TEXT, AT(queues),
     .help = "create: limit it to these queues, as a,b; * stands for any text"},
    {"expires", "DURATION", OPTION_SPAN, AT(expires),
     .help = "create: how long it is good; without it until it is deleted"},
    {"name", "TEXT", OPTION_TEXT, AT(name), .help = "create: what the list is to call it"},
    {"max-waiting", "COUNT", OPTION_INT, AT(waiting), .max = TOKEN_QUOTA_MAX,
     .help = "create: how many jobs that it has enqueued may wait at a time"},
    {"max-budgets", "COUNT", OPTION_INT, AT(budgets), .max = TOKEN_QUOTA_MAX,
     .help = "create: how many budgets it may make by enqueueing, together with other tokens for "
             "the same --queues"},
    {"max-keys", "COUNT", OPTION_INT, AT(keys), .max = TOKEN_QUOTA_MAX,
     .help = "create: how many unique keys and aliases its jobs may hold"},
    {"payloads", NULL, OPTION_SWITCH, AT(payloads),
     .help = "create: a viewer with it sees payloads, too"},
    {"root-dir", "DIR", OPTION_TEXT, AT(root_dir),
     .help = "create: leave it in the root directory of a server on this machine, which takes it "
             "in when it starts or gets SIGHUP; nobody is asked"},
    {"out", "FILE", OPTION_TEXT, AT(out),
     .help = "create: write the token to this file, which only you can read, and print nothing"},
    ADMIN_OPTIONS(struct token_args),
    {"http-timeout", "DURATION", OPTION_SPAN, AT(client.timeout), .env = "TENAX_HTTP_TIMEOUT",
     .def = "30s", .help = "how long to wait for an answer"},
    {"output", "FORMAT", OPTION_CHOICE, AT(client.output), .choices = CLIENT_LIST_FORMATS,
     .env = "TENAX_OUTPUT", .def = "table", .help = "for people or for programs", .letter = 'o'},
    CLIENT_WATCH(struct token_args),
    {0},
};

const struct subcommand token_command = {
    .name = "token",
    .usage = "[list] | create --role ROLE [OPTIONS] | delete ID",
    .summary = "make, list or delete tokens, by which the server knows who asks",
    .about =
        "create prints the token and nothing else, or writes it to a file (--out) with mode 0600; "
        "it is never shown again. Programs send it: the "
        "commands of tenax from the variable TENAX_TOKEN or from a file (--token-file), others as "
        "the header `Authorization: Bearer TOKEN`.\n"
        "Until there is a token of an admin, whoever reaches the server may do everything, and "
        "tokens are made over its admin listener. From the first one on, every request but GET / "
        "and GET /health needs a token. docs/access.md says what each role may do.\n"
        "With --root-dir a token is made without asking the server, also while it is stopped: "
        "nobody is locked out who can write to its directory.",
    .examples = "  tenax token create --role admin --out ~/.tenax-token\n"
                "  tenax token create --role worker --queues 'mail-*' --expires 90d\n"
                "  tenax token create --role producer --queues 'mail-*' --max-waiting 10000\n"
                "  tenax token create --role admin --root-dir /var/lib/tenax\n"
                "  tenax token delete 0f3c8a91d2b4e675\n",
    .options = options,
    .words = "list|create|delete",
};

/* --- create --- */

static void write_quota(const struct token_args *args, struct buf *b)
{
    const struct {
        const char *name;
        int64_t most;
    } limits[] = {{"waiting", args->waiting}, {"budgets", args->budgets}, {"keys", args->keys}};
    const char *before = ",\"quota\":{";
    for (size_t i = 0; i < COUNT(limits); i++) {
        if (!limits[i].most)
            continue;
        buf_print(b, "%s\"%s\":%lld", before, limits[i].name, (long long)limits[i].most);
        before = ",";
    }
    if (*before == ',' && !before[1])
        buf_byte(b, '}');
}

static void write_body(const struct token_args *args, instant now, struct buf *b)
{
    buf_lit(b, "{\"roles\":");
    input_names(b, args->role);
    if (args->queues) {
        buf_lit(b, ",\"queues\":");
        input_names(b, args->queues);
    }
    if (args->name) {
        buf_lit(b, ",\"name\":");
        json_write_string(b, str_from(args->name));
    }
    if (args->expires.ms)
        buf_print(b, ",\"expires_at\":%lld", (long long)instant_add(now, args->expires).ms);
    write_quota(args, b);
    buf_print(b, ",\"payloads\":%s}", args->payloads ? "true" : "false");
}

static int print_token(struct str token)
{
    bool good = fwrite(token.at, 1, token.len, stdout) == token.len && putchar('\n') == '\n' &&
                fflush(stdout) == 0;
    return good ? CLI_OK : CLI_REFUSED;
}

static int complain(const struct err *err)
{
    fprintf(stderr, "tenax token: %s\n", err->msg);
    return CLI_REFUSED;
}

/* Prints it, or writes it to the file that is open. */
static int give(struct private_file *out, struct str token)
{
    if (!out->path)
        return print_token(token);
    struct buf line = {0};
    buf_print(&line, "%.*s\n", STR_ARG(token));
    struct err err = private_file_commit(out, buf_view(&line));
    OPENSSL_cleanse(line.at, line.len);
    buf_fini(&line);
    return err.code == ERR_OK ? CLI_OK : complain(&err);
}

static int create(struct client *c, const struct token_args *args, struct private_file *out)
{
    write_body(args, c->now, &c->call.body);
    int code = client_ask(c, "POST", "/tokens");
    if (code == CLI_OK)
        code = give(out, view_text(&c->arena, client_answer(c), "token"));
    return code;
}

/* False at the end. A name may be empty. */
static bool next_name(const char **list, struct str *name)
{
    if (!*list || !**list)
        return false;
    size_t n = strcspn(*list, ",");
    *name = (struct str){*list, n};
    *list += n + ((*list)[n] == ',');
    return true;
}

static struct err read_spec(const struct token_args *args, struct str *queues,
                            struct token_spec *spec)
{
    const char *rest = args->role;
    struct str word;
    enum role role;
    while (next_name(&rest, &word)) {
        if (!rights_role_parse(word, &role))
            return err_make(ERR_BAD_VALUE, "there is no role '%.*s'",
                            (int)(word.len < 32 ? word.len : 32), word.at);
        spec->roles |= 1u << role;
    }
    rest = args->queues ? args->queues : "";
    spec->queues = queues;
    /* `--queues "$Q"` without a Q must not come to mean all of them. */
    if (args->queues && !*args->queues)
        return err_make(ERR_BAD_VALUE, "--queues: an empty list would be no queue; leave it out "
                                       "for all");
    while (next_name(&rest, &word)) {
        if (spec->queue_count == RIGHTS_PATTERNS_MAX)
            return err_make(ERR_TOO_MANY, "--queues: at most %d", RIGHTS_PATTERNS_MAX);
        queues[spec->queue_count++] = word;
    }
    spec->name = str_from(args->name ? args->name : "");
    spec->payloads = args->payloads;
    spec->quota = (struct token_quota){(uint64_t)args->waiting, (uint64_t)args->budgets,
                                       (uint64_t)args->keys};
    return err_none();
}

static int create_here(const struct token_args *args, instant now, struct private_file *out)
{
    struct str queues[RIGHTS_PATTERNS_MAX];
    struct token_spec spec = {.created = now, .expires = INSTANT_NONE};
    char text[TOKEN_TEXT_LEN];
    struct token *token = NULL;
    if (args->expires.ms)
        spec.expires = instant_add(now, args->expires);
    struct err err = rootdir_check(args->root_dir, ROOTDIR_ANY);
    if (err.code == ERR_OK)
        err = read_spec(args, queues, &spec);
    if (err.code == ERR_OK)
        err = token_new(&spec, &token, text);
    if (err.code == ERR_OK)
        err = token_file_write(args->root_dir, token);
    token_free(token);
    int code = err.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    if (err.code == ERR_OK)
        code = give(out, (struct str){text, sizeof text});
    else
        complain(&err);
    OPENSSL_cleanse(text, sizeof text);
    return code;
}

/* --- list --- */

static void write_joined(struct buf *b, struct str list)
{
    struct view_list l = view_list(list);
    for (struct str item; view_next(&l, &item);) {
        if (b->len)
            buf_byte(b, ',');
        if (item.len > 1)
            buf_add(b, item.at + 1, item.len - 2);
    }
}

static enum table_style read_roles(struct client *c, struct str token, struct buf *b)
{
    (void)c;
    write_joined(b, view_get(token, "roles"));
    return TABLE_PLAIN;
}

static enum table_style read_queues(struct client *c, struct str token, struct buf *b)
{
    (void)c;
    write_joined(b, view_get(token, "queues"));
    if (!b->len)
        buf_lit(b, "all");
    return TABLE_PLAIN;
}

static enum table_style read_time(struct client *c, struct str token, const char *member,
                                  struct buf *b)
{
    int64_t at;
    if (view_int(token, member, &at))
        when_relative(b, (instant){at}, c->now);
    else
        buf_lit(b, "never");
    return b->len > 5 ? TABLE_PLAIN : TABLE_FAINT;
}

static enum table_style read_expires(struct client *c, struct str token, struct buf *b)
{
    return read_time(c, token, "expires_at", b);
}

static enum table_style read_used(struct client *c, struct str token, struct buf *b)
{
    return read_time(c, token, "used_at", b);
}

static enum table_style read_made(struct client *c, struct str token, struct buf *b)
{
    return read_time(c, token, "created_at", b);
}

/* "waiting 100, keys 20" */
static enum table_style read_quota(struct client *c, struct str token, struct buf *b)
{
    static const char *const kinds[] = {"waiting", "budgets", "keys"};
    struct str quota = view_get(token, "quota");
    (void)c;
    for (size_t i = 0; quota.len && i < COUNT(kinds); i++) {
        int64_t most;
        if (view_int(quota, kinds[i], &most))
            buf_print(b, "%s%s %lld", b->len ? ", " : "", kinds[i], (long long)most);
    }
    if (!b->len)
        buf_lit(b, "none");
    return quota.len ? TABLE_PLAIN : TABLE_FAINT;
}

static const struct listing_column columns[] = {
    {"ID", .member = "id"},
    {"ROLES", .read = read_roles},
    {"QUEUES", .read = read_queues, .least = 12},
    {"QUOTA", .read = read_quota},
    {"NAME", .member = "name", .least = 12},
    {"PAYLOADS", .member = "payloads", .wide = true},
    {"CREATED", .read = read_made, .wide = true},
    {"EXPIRES", .read = read_expires},
    {"USED", .read = read_used},
    {0},
};

static const struct listing_kind kind = {
    columns, "id", "There are no tokens: whoever reaches the server may do everything."};

static int fetch(struct listing *l, void *ctx)
{
    int code = client_ask(l->client, "GET", "/tokens");
    (void)ctx;
    if (code == CLI_OK)
        listing_add_all(l, view_get(client_answer(l->client), "tokens"));
    return code;
}

/* --- the command --- */

static int delete (struct client *c, const char *id)
{
    struct buf path = {0};
    buf_lit(&path, "/tokens");
    client_segment(&path, str_from(id));
    int code = client_ask(c, "DELETE", client_path(&path));
    if (code == CLI_OK)
        fprintf(stderr, "Deleted the token %s.\n", id);
    buf_fini(&path);
    return code;
}

static bool is(const struct options *o, const char *verb)
{
    return strcmp(o->rest_count ? o->rest[0] : "list", verb) == 0;
}

static const char *check(const struct token_args *args, const struct options *o)
{
    bool about_new = args->role || args->queues || args->name || args->payloads ||
                     args->expires.ms || args->root_dir || args->out || args->waiting ||
                     args->budgets || args->keys;
    if (!is(o, "list") && !is(o, "create") && !is(o, "delete"))
        return "list, create or delete is meant";
    if (!is(o, "list") && args->client.watch.ms)
        return "--watch is for list";
    if (is(o, "create") && o->rest_count > 1)
        return "create takes no words, only options";
    if (is(o, "create"))
        return !args->role || !*args->role ? "--role is needed" : NULL;
    if (about_new)
        return "these options are for create";
    if (is(o, "list"))
        return o->rest_count > 1 ? "list takes no name" : NULL;
    return o->rest_count != 2 || !*o->rest[1] ? "which token? `tenax token list` has their ids"
                                              : NULL;
}

static int ask(const struct token_args *args, const struct options *o, struct private_file *out)
{
    struct client c;
    int code = admin_open(&c, &token_command, &args->client, o);
    if (code != CLI_OK)
        return code;
    if (is(o, "create"))
        code = create(&c, args, out);
    else
        code = is(o, "list") ? listing_run(&c, &kind, fetch, NULL) : delete (&c, o->rest[1]);
    client_close(&c);
    return code;
}

int token_main(int argc, char **argv)
{
    struct token_args args = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&token_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    const char *wrong = check(&args, &o);
    if (wrong)
        return subcommand_usage(&token_command, "%s", wrong);
    struct private_file out = {.fd = -1};
    struct err err = args.out ? private_file_open(&out, args.out) : err_none();
    if (err.code != ERR_OK)
        return complain(&err);
    code = args.root_dir ? create_here(&args, when_now(), &out) : ask(&args, &o, &out);
    private_file_abandon(&out);
    return code;
}
