/* SPDX-License-Identifier: Apache-2.0 */

/* create, apply, update, get, and `delete` for resources. */

#include "cli/apply.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/commands.h"
#include "client/input.h"
#include "client/view.h"

struct resources_args {
    struct client_args client;
    struct option_list files;
    const char *retry_policies, *retry_policy;
    bool dry_run;
};

#define AT(field) .offset = offsetof(struct resources_args, field)

#define FILE_ROW                                                                                   \
    {                                                                                              \
        "file", "FILE", OPTION_LIST, AT(files),                                                    \
            .help =                                                                                \
                "YAML or JSON with one document or more; - is standard input; may be repeated",    \
            .letter = 'f'                                                                          \
    }

static const struct option_def change_options[] = {
    FILE_ROW,
    {"retry-policies", "NAMES", OPTION_TEXT, AT(retry_policies),
     .help = "for a queue: the retry policies of all its jobs, as a,b"},
    {"retry-policy", "NAMES", OPTION_TEXT, AT(retry_policy),
     .help = "the same as --retry-policies"},
    {"dry-run", NULL, OPTION_SWITCH, AT(dry_run),
     .help = "change nothing on the server; say what would be done"},
    CLIENT_OPTIONS_IN(struct resources_args, CLIENT_LIST_FORMATS),
    {0},
};

static const struct option_def get_options[] = {
    FILE_ROW,
    CLIENT_OPTIONS_IN(struct resources_args, CLIENT_LIST_FORMATS),
    {0},
};

#define DOCUMENTS                                                                                  \
    "A document has apiVersion (tenax.dev/v1), kind (RetryPolicy, FailureCategories or Queue), "   \
    "metadata with a name and a spec; in YAML, documents are separated by a line of ---. Nothing " \
    "is "                                                                                          \
    "sent if any of them "                                                                         \
    "is malformed. Retry policies and queues of Armada (armadaproject.io/v1beta1) are understood " \
    "as well. With a KIND before -f, documents of other kinds are refused. A document that is "    \
    "valid but "                                                                                   \
    "probably "                                                                                    \
    "not what was meant causes a warning on standard error."

const struct subcommand create_command = {
    .name = "create",
    .usage = "[KIND] -f FILE | queue NAME [--retry-policies NAMES]",
    .summary = "create policies, failure categories and queues",
    .about = DOCUMENTS "\nIf one exists already, it is refused, and the others are created; "
                       "one in Armada's form is replaced.",
    .examples = "  tenax create -f policies.yaml\n"
                "  tenax create retry-policy -f infra.yaml\n"
                "  tenax create queue ml --retry-policies infra,ml-training\n",
    .options = change_options,
    .words = "queue",
};

const struct subcommand apply_command = {
    .name = "apply",
    .usage = "[KIND] -f FILE | queue NAME [--retry-policies NAMES]",
    .summary = "create or change policies, failure categories and queues",
    .about = DOCUMENTS "\nWhat does not exist is created, what differs is changed, and the rest is "
                       "left unchanged; the command may be repeated any number of times.",
    .examples = "  tenax apply -f policies.yaml -f queues.yaml\n"
                "  sed 's/retryLimit: 3/retryLimit: 5/' policies.yaml | tenax apply -f -\n",
    .options = change_options,
    .words = "queue",
};

const struct subcommand update_command = {
    .name = "update",
    .usage = "[KIND] -f FILE | queue NAME [--retry-policies NAMES]",
    .summary = "change existing policies, failure categories and queues",
    .about = DOCUMENTS
    "\nWhat does not exist is refused. If metadata.resourceVersion is given, it must be the "
    "current version, so that nobody's change is overwritten unseen.",
    .examples = "  tenax get retrypolicy infra -o yaml > infra.yaml\n"
                "  tenax update -f infra.yaml\n",
    .options = change_options,
    .words = "queue",
};

const struct subcommand get_command = {
    .name = "get",
    .usage = "KIND [NAME...] | -f FILE",
    .summary = "show policies, failure categories and queues",
    .about = "KIND is retrypolicy, failurecategories or queue, or one in the plural. With --output "
             "yaml or json the documents are printed so that they can be applied again.",
    .examples = "  tenax get retrypolicies\n"
                "  tenax get retrypolicy infra -o yaml\n"
                "  tenax get queue ml -o json\n",
    .options = get_options,
    .words = "retrypolicy|queue",
};

/* --- asking --- */

static const char *path_of(struct buf *path, const struct resource_kind *kind, struct str name)
{
    path->len = 0;
    buf_str(path, str_from(kind->path));
    if (name.len)
        client_segment(path, name);
    return client_path(path);
}

/* The server's resource, or NULL. With to_show, also one that nobody created but get shows. */
static int find(struct client *c, const struct resource *r, bool to_show,
                const struct document_node **answer)
{
    struct buf path = {0};
    bool found;
    int code = client_find(c, path_of(&path, r->kind, r->name), &found);
    buf_fini(&path);
    *answer = NULL;
    if (code != CLI_OK || !found)
        return code;
    /* Copied, because the next answer overwrites this one. */
    const struct document_node *tree =
        resource_tree(arena_copy(&c->arena, client_answer(c)), &c->arena);
    bool there = to_show && r->kind->shown ? r->kind->shown(tree) : r->kind->exists(tree);
    *answer = there ? tree : NULL;
    return CLI_OK;
}

static int send_to(struct client *c, const char *method, const struct resource *r, struct str body)
{
    struct buf path = {0};
    bool post = strcmp(method, "POST") == 0;
    c->call.body.len = 0;
    buf_str(&c->call.body, body);
    (void)path_of(&path, r->kind, post ? (struct str){0} : r->name);
    path.len--; /* the byte that ends it */
    if (strcmp(method, "DELETE") == 0 && r->detach && r->kind->detachable)
        client_query(&path, "detach", "true");
    int code = client_ask(c, method, client_path(&path));
    buf_fini(&path);
    return code;
}

/* --- reporting --- */

struct shown {
    struct table t;
    const struct resource_kind *kind; /* the kind of the table's rows */
    struct buf json;
    size_t count;
    bool policies; /* one of them is a retry policy */
};

static void print_yaml(const struct document_node *document, bool first)
{
    struct buf out = {0};
    if (!first)
        buf_lit(&out, "---\n");
    document_write_yaml(document, &out);
    subcommand_print(stdout, &out);
    buf_fini(&out);
}

/* JSON of several is one document of the kind List, which can be applied like any other. */
#define LIST_BEGIN "{\"kind\": \"List\", \"items\": ["
#define LIST_END   "]}\n"

static void add_json(struct client *c, struct shown *s, const struct document_node *document)
{
    if (c->args.output == CLIENT_JSON && s->count)
        buf_lit(&s->json, ",\n ");
    document_write_json(document, &s->json);
    if (c->args.output == CLIENT_JSONL)
        buf_byte(&s->json, '\n');
}

/* list: print a list even of a single one, because several were requested. */
static void print_json(struct client *c, struct shown *s, bool list)
{
    if (c->args.output == CLIENT_JSON && list)
        printf(LIST_BEGIN "%.*s" LIST_END, STR_ARG(buf_view(&s->json)));
    else if (c->args.output == CLIENT_JSON && s->count)
        printf("%.*s\n", STR_ARG(buf_view(&s->json)));
    else
        subcommand_print(stdout, &s->json);
    buf_fini(&s->json);
}

/* Prints "retrypolicy/infra created", or whatever was done. */
static void tell(struct client *c, struct shown *s, const struct resource *r, const char *what,
                 bool dry_run)
{
    bool table = client_for_people(c) || strcmp(what, "deleted") == 0;
    if (c->args.output == CLIENT_NAME) {
        printf("%s/%.*s\n", r->kind->word, STR_ARG(r->name));
        return;
    }
    if (table || dry_run) {
        printf("%s/%.*s %s%s\n", r->kind->word, STR_ARG(r->name), what,
               dry_run ? " (dry run)" : "");
        return;
    }
    const struct document_node *now = r->kind->document(
        resource_tree(arena_copy(&c->arena, client_answer(c)), &c->arena), &c->arena);
    if (c->args.output == CLIENT_YAML)
        print_yaml(now, s->count == 0);
    else
        add_json(c, s, now);
    s->count++;
}

static int refuse(struct client *c, const struct resource *r, int code, const char *why)
{
    fprintf(stderr, "tenax %s: ", c->command->name);
    if (r->file)
        fprintf(stderr, "%s, line %u: ", r->file, r->line);
    fprintf(stderr, "%s/%.*s %s\n", r->kind->word, STR_ARG(r->name), why);
    return code;
}

static void warn(const struct client *c, const struct resource *r)
{
    for (const struct document_node *n = r->warnings ? r->warnings->first : NULL; n; n = n->next) {
        fprintf(stderr, "tenax %s: ", c->command->name);
        if (r->file)
            fprintf(stderr, "%s, line %u: ", r->file, r->line);
        fprintf(stderr, "warning: %s/%.*s: %.*s\n", r->kind->word, STR_ARG(r->name),
                STR_ARG(n->text));
    }
}

/* --- the verbs --- */

static int put(struct client *c, struct shown *s, enum resources_verb verb,
               const struct resource *r, bool dry_run)
{
    const struct document_node *now;
    int code = find(c, r, false, &now);
    if (code != CLI_OK)
        return code;
    if (verb == RESOURCES_CREATE && now && !r->of_armada)
        return refuse(c, r, CLI_REFUSED, "already exists; apply and update change it");
    if (verb == RESOURCES_UPDATE && !now)
        return refuse(c, r, CLI_NOT_FOUND, "does not exist; apply and create make it");
    warn(c, r);
    const char *what = !now                               ? "created"
                       : r->kind->same(r, now, &c->arena) ? "unchanged"
                                                          : "configured";
    /* POST and not PUT, because since the check someone else may have created one. */
    const char *method = verb == RESOURCES_CREATE && !now ? "POST" : r->partial ? "PATCH" : "PUT";
    if (!dry_run && strcmp(what, "unchanged") != 0)
        code = send_to(c, method, r, r->body);
    if (code == CLI_OK)
        tell(c, s, r, what, dry_run);
    return code;
}

static int take_away(struct client *c, const struct resource *r, bool dry_run)
{
    const struct document_node *now;
    int code = find(c, r, false, &now);
    if (code == CLI_OK && !now && r->may_miss)
        return refuse(c, r, CLI_OK, "does not exist; nothing was deleted");
    if (code == CLI_OK && !now)
        return refuse(c, r, CLI_NOT_FOUND, "does not exist");
    if (code == CLI_OK && !dry_run)
        code = send_to(c, "DELETE", r, (struct str){0});
    if (code == CLI_OK)
        tell(c, &(struct shown){0}, r, "deleted", dry_run);
    return code;
}

/* Starts with the last one: in a file, a queue comes after the policies that it names. */
static int delete_backwards(struct client *c, const struct resource *r, bool dry_run)
{
    if (!r)
        return CLI_OK;
    int others = delete_backwards(c, r->next, dry_run);
    int code = take_away(c, r, dry_run);
    return others != CLI_OK ? others : code;
}

/* --- get --- */

static void end_table(struct client *c, struct shown *s)
{
    struct buf out = {0};
    if (!s->kind)
        return;
    table_write(&s->t, &out, c->colour, c->args.output == CLIENT_WIDE ? 0 : c->width);
    table_fini(&s->t);
    subcommand_print(stdout, &out);
    buf_fini(&out);
    s->kind = NULL;
}

/* What the server says of a stored one that was most likely not meant. */
static void warn_of_stored(const struct client *c, const struct resource_kind *kind,
                           const struct document_node *answer)
{
    const struct document_node *list = document_member(answer, "warnings");
    const struct document_node *metadata = document_member(answer, "metadata");
    struct str name = document_text(metadata ? metadata : answer, "name");
    for (const struct document_node *n = list ? list->first : NULL; n; n = n->next)
        fprintf(stderr, "tenax %s: warning: %s/%.*s: %.*s\n", c->command->name, kind->word,
                STR_ARG(name), STR_ARG(n->text));
}

static void show(struct client *c, struct shown *s, const struct resource_kind *kind,
                 const struct document_node *answer)
{
    warn_of_stored(c, kind, answer);
    const struct document_node *document = kind->document(answer, &c->arena);
    if (c->args.output == CLIENT_YAML) {
        print_yaml(document, s->count == 0);
    } else if (c->args.output == CLIENT_NAME) {
        const struct document_node *metadata = document_member(document, "metadata");
        printf("%s/%.*s\n", kind->word,
               STR_ARG(document_text(metadata ? metadata : document, "name")));
    } else if (!client_for_people(c)) {
        add_json(c, s, document);
    } else {
        if (s->kind != kind) {
            end_table(c, s);
            if (s->count)
                puts("");
            table_init(&s->t, kind->headers);
            s->kind = kind;
        }
        kind->row(answer, &s->t);
    }
    s->count++;
    s->policies |= str_eq(str_from(kind->word), STR("retrypolicy"));
}

static void end_show(struct client *c, struct shown *s, bool list)
{
    end_table(c, s);
    print_json(c, s, list);
}

/* Policies may be switched off for the whole server: then they have no effect. */
static void warn_if_off(struct client *c, bool any)
{
    if (!any || call_wait(&c->call, "GET", "/settings/retry", c->args.timeout) != CALL_DONE)
        return;
    if (str_eq(view_text(&c->arena, client_answer(c), "enabled"), STR("false")))
        fprintf(stderr,
                "tenax %s: warning: retry policies are not enabled on this server, so that these "
                "have no effect; `tenax retry-settings --enabled true` switches them on, and "
                "with --dry-run it shows what that would have changed\n",
                c->command->name);
}

static int get_named(struct client *c, const struct resources *list)
{
    struct shown s = {0};
    int code = CLI_OK;
    for (const struct resource *r = list->first; r; r = r->next) {
        const struct document_node *now;
        int one = find(c, r, true, &now);
        if (one == CLI_OK && now)
            show(c, &s, r->kind, now);
        else if (one == CLI_OK)
            one = refuse(c, r, CLI_NOT_FOUND, "does not exist");
        code = code == CLI_OK ? one : code;
    }
    end_show(c, &s, list->first != list->last);
    warn_if_off(c, s.policies);
    return code;
}

/* Shows a page; *next becomes the path of the following page, or empty. */
static int get_page(struct client *c, const struct resource_kind *kind, struct buf *next,
                    struct shown *s)
{
    int code = client_ask(c, "GET", client_path(next));
    next->len = 0;
    if (code != CLI_OK)
        return code;
    const struct document_node *page =
        resource_tree(arena_copy(&c->arena, client_answer(c)), &c->arena);
    const struct document_node *items = document_member(page, kind->items);
    const struct document_node *pages = document_member(page, "pages");
    for (const struct document_node *n = items ? items->first : NULL; n; n = n->next)
        show(c, s, kind, n);
    struct str path = pages ? document_text(pages, "next") : STR("");
    if (path.len && path.at[0] == '/')
        buf_str(next, path);
    return CLI_OK;
}

static int get_all(struct client *c, const struct resource_kind *kind)
{
    struct shown s = {0};
    struct buf path = {0};
    int code;
    buf_str(&path, str_from(kind->path));
    buf_str(&path, str_from(kind->query ? kind->query : ""));
    do
        code = get_page(c, kind, &path, &s);
    while (code == CLI_OK && path.len);
    buf_fini(&path);
    if (s.count == 0 && code == CLI_OK && client_for_people(c))
        fprintf(stderr, "There are no %s.\n", kind->words);
    end_show(c, &s, true);
    warn_if_off(c, s.policies);
    return code;
}

/* --- shared by the commands --- */

static bool has_policies(const struct resource *r)
{
    struct str word = str_from(r->kind->word), names = view_get(r->body, "retry_policies");
    return str_eq(word, STR("retrypolicy")) || names.len > 2; /* not [] */
}

int resources_do(struct client *c, enum resources_verb verb, const struct resources *list,
                 bool dry_run)
{
    if (verb == RESOURCES_GET)
        return get_named(c, list);
    if (verb == RESOURCES_DELETE)
        return delete_backwards(c, list->first, dry_run);
    struct shown s = {0};
    int code = CLI_OK;
    for (const struct resource *r = list->first; r; r = r->next) {
        int one = put(c, &s, verb, r, dry_run);
        code = code == CLI_OK ? one : code;
    }
    print_json(c, &s, s.count > 1);
    bool any = false;
    for (const struct resource *r = list->first; r; r = r->next)
        any |= has_policies(r);
    if (code == CLI_OK)
        warn_if_off(c, any);
    return code;
}

int resources_files(struct client *c, enum resources_verb verb, const struct option_list *files,
                    const struct resource_kind *only, bool dry_run)
{
    struct resources list = {0};
    for (size_t i = 0; i < files->count; i++) {
        int code = resource_load(c->command, files->at[i], &c->arena, &list);
        if (code != CLI_OK)
            return code;
    }
    for (const struct resource *r = only ? list.first : NULL; r; r = r->next)
        if (r->kind != only) {
            fprintf(stderr, "tenax %s: %s, line %u: found a %s, expected a %s\n", c->command->name,
                    r->file, r->line, r->kind->kind, only->kind);
            return CLI_USAGE;
        }
    return resources_do(c, verb, &list, dry_run);
}

static int refuse_kind(const struct subcommand *command, const char *word)
{
    struct buf known = {0};
    resource_kinds(&known);
    subcommand_usage(command, "'%.60s' is not a kind of resource; the kinds are %.*s", word,
                     STR_ARG(buf_view(&known)));
    buf_fini(&known);
    return CLI_USAGE;
}

/* Removes "KIND/" from the front of the word. */
static const struct resource_kind *take_kind(struct str *word)
{
    const char *slash = word->len ? memchr(word->at, '/', word->len) : NULL;
    if (!slash)
        return NULL;
    struct str kind = {word->at, (size_t)(slash - word->at)};
    *word = (struct str){slash + 1, word->len - kind.len - 1};
    return resource_kind_of(kind);
}

bool resources_meant(const char *word)
{
    return resource_kind_of((struct str){word, strcspn(word, "/")}) != NULL;
}

int resources_words(const struct subcommand *command, char **words, int count, struct arena *a,
                    struct resources *list, const struct resource_kind **all)
{
    bool each = strchr(words[0], '/') != NULL;
    *all = each ? NULL : resource_kind_of(str_from(words[0]));
    if (!each && !*all)
        return refuse_kind(command, words[0]);
    for (int i = each ? 0 : 1; i < count; i++) {
        struct str name = str_from(words[i]);
        const struct resource_kind *kind = each ? take_kind(&name) : *all;
        if (!kind)
            return refuse_kind(command, words[i]);
        if (!name.len)
            return subcommand_usage(command, "a name must not be empty");
        /* armadactl's spelling, by which scripts delete what may be gone. */
        resource_add(list, kind, name, a)->may_miss = strncmp(words[0], "retry-policy", 12) == 0;
    }
    if (list->first)
        *all = NULL;
    return CLI_OK;
}

/* --- create, apply, update --- */

/* A queue as described by the options. */
static int from_words(struct client *c, const struct resources_args *args, struct options *o,
                      struct resources *list)
{
    const struct resource_kind *all;
    const char *names = args->retry_policies ? args->retry_policies : args->retry_policy;
    int code = resources_words(c->command, o->rest, o->rest_count, &c->arena, list, &all);
    if (code != CLI_OK)
        return code;
    if (all)
        return subcommand_usage(c->command, "which %s? give its name", all->word);
    for (struct resource *r = list->first; r; r = r->next) {
        struct buf body = {0};
        if (!r->kind->from_words)
            return subcommand_usage(c->command, "a %s comes from a file: -f FILE", r->kind->word);
        buf_lit(&body, "{\"name\":");
        json_write_string(&body, r->name);
        buf_lit(&body, ",\"retry_policies\":");
        input_names(&body, names ? names : "");
        buf_lit(&body, "}");
        r->body = arena_copy(&c->arena, buf_view(&body));
        r->partial = true;
        buf_fini(&body);
    }
    if (!names)
        return subcommand_usage(c->command, "what should it have? --retry-policies NAMES");
    return CLI_OK;
}

static int change_main(const struct subcommand *page, enum resources_verb verb, int argc,
                       char **argv)
{
    struct resources_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(page, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    /* A kind may precede the file, as in `create retry-policy -f FILE`. */
    const struct resource_kind *only =
        args.files.count && o.rest_count == 1 ? resource_kind_of(str_from(o.rest[0])) : NULL;
    if (!args.files.count == !o.rest_count && !only)
        return subcommand_usage(page, "%s",
                                o.rest_count ? "either -f or a queue, not both" : "what? -f FILE");
    if (args.retry_policies && args.retry_policy)
        return subcommand_usage(page, "--retry-policies and --retry-policy are the same; give one");
    if (args.files.count && (args.retry_policies || args.retry_policy))
        return subcommand_usage(page, "--%s goes with a queue, not with -f",
                                args.retry_policies ? "retry-policies" : "retry-policy");
    code = client_open(&c, page, &args.client);
    if (code != CLI_OK)
        return code;
    struct resources list = {0};
    if (args.files.count)
        code = resources_files(&c, verb, &args.files, only, args.dry_run);
    else if ((code = from_words(&c, &args, &o, &list)) == CLI_OK)
        code = resources_do(&c, verb, &list, args.dry_run);
    client_close(&c);
    return code;
}

int create_main(int argc, char **argv)
{
    return change_main(&create_command, RESOURCES_CREATE, argc, argv);
}

int apply_main(int argc, char **argv)
{
    return change_main(&apply_command, RESOURCES_APPLY, argc, argv);
}

int update_main(int argc, char **argv)
{
    return change_main(&update_command, RESOURCES_UPDATE, argc, argv);
}

int get_main(int argc, char **argv)
{
    struct resources_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&get_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (!args.files.count == !o.rest_count)
        return subcommand_usage(&get_command, "%s",
                                o.rest_count
                                    ? "either -f or words, not both"
                                    : "what? retrypolicies, failurecategories, queues, or -f FILE");
    code = client_open(&c, &get_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct resources list = {0};
    const struct resource_kind *all = NULL;
    if (args.files.count)
        code = resources_files(&c, RESOURCES_GET, &args.files, NULL, false);
    else if ((code = resources_words(&get_command, o.rest, o.rest_count, &c.arena, &list, &all)) ==
             CLI_OK)
        code = all ? get_all(&c, all) : resources_do(&c, RESOURCES_GET, &list, false);
    client_close(&c);
    return code;
}
