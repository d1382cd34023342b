/* SPDX-License-Identifier: Apache-2.0 */

/* policy, queue, retry-settings: retry policies and who has them. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/view.h"
#include "policy/document.h"

struct policy_args {
    struct client_args client;
    const char *file;
};

static const struct option_def policy_options[] = {
    {"file", "FILE", OPTION_TEXT, offsetof(struct policy_args, file),
     .help = "YAML or JSON with one policy or more; - is standard input"},
    CLIENT_OPTIONS(struct policy_args),
    {0},
};

const struct subcommand policy_command = {
    .name = "policy",
    .usage = "apply --file FILE | get [NAME] | delete NAME",
    .summary = "put, show or delete retry policies",
    .about = "apply adds the policies of a file, or replaces those that are there; it stops at the "
             "first that is refused. get prints JSON.",
    .examples = "  tenax policy apply --file policies.yaml\n"
                "  tenax policy get nightly\n"
                "  tenax policy delete nightly\n",
    .options = policy_options,
    .words = "apply|get|delete",
};

struct queue_args {
    struct client_args client;
    const char *policies;
};

static const struct option_def queue_options[] = {
    {"retry-policy", "NAMES", OPTION_TEXT, offsetof(struct queue_args, policies),
     .help = "the retry policies of all its jobs, as a,b; an empty text takes them away"},
    CLIENT_OPTIONS(struct queue_args),
    {0},
};

const struct subcommand queue_command = {
    .name = "queue",
    .usage = "NAME [--retry-policy NAMES]",
    .summary = "show or set the retry policies of a queue",
    .about = "Prints JSON.",
    .examples = "  tenax queue render --retry-policy machines,memory\n",
    .options = queue_options,
};

/* --- what is common --- */

static void add_segment(struct buf *path, const char *name)
{
    buf_byte(path, '/');
    for (; *name; name++) {
        unsigned char c = (unsigned char)*name;
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            strchr("-_~", c))
            buf_byte(path, (char)c);
        else
            buf_print(path, "%%%02X", c);
    }
}

static int ask(struct client *c, const char *method, const char *below, const char *name)
{
    struct buf path = {0};
    buf_str(&path, str_from(below));
    if (name)
        add_segment(&path, name);
    int code = client_ask(c, method, client_path(&path));
    buf_fini(&path);
    return code;
}

static void show(struct client *c)
{
    struct buf out = {0};
    if (c->args.output == CLIENT_JSON)
        json_write_one_line(&out, client_answer(c));
    else
        view_pretty(&out, client_answer(c), 0);
    buf_byte(&out, '\n');
    command_print(stdout, &out);
    buf_fini(&out);
}

/* --- policy --- */

static bool read_file(const char *name, struct buf *to)
{
    FILE *in = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
    size_t n = 0;
    if (in) {
        do {
            n = fread(buf_room(to, 65536), 1, 65536, in);
            to->len += n;
        } while (n && to->len <= DOCUMENT_TEXT_MAX);
    }
    bool good = in && !ferror(in);
    if (!good)
        fprintf(stderr, "tenax policy: cannot read %s: %s\n", name, strerror(errno));
    if (in && in != stdin)
        fclose(in);
    return good;
}

static int apply_one(struct client *c, const struct document_node *root)
{
    char name[256];
    struct str given = document_text(document_member(root, "metadata"), "name");
    snprintf(name, sizeof name, "%.*s", STR_ARG(given));
    c->call.body.len = 0;
    document_write_json(root, &c->call.body);
    /* Without a name the server says what else is wrong. */
    int code =
        name[0] ? ask(c, "PUT", "/retry-policies", name) : ask(c, "POST", "/retry-policies", NULL);
    if (code == CLI_OK && c->args.output == CLIENT_JSON)
        show(c);
    else if (code == CLI_OK)
        fprintf(stderr, "Applied the retry policy %s.\n", name);
    return code;
}

static int apply(struct client *c, const char *file)
{
    struct buf text = {0};
    struct document_list list;
    struct document_fault fault = {0};
    if (!read_file(file, &text)) {
        buf_fini(&text);
        return CLI_USAGE;
    }
    int code = CLI_OK;
    if (!document_read(buf_view(&text), DOCUMENT_ANY, &c->arena, &list, &fault)) {
        struct err err = document_fault_err(&fault);
        fprintf(stderr, "tenax policy: %s: %s\n", file, err.msg);
        code = CLI_USAGE;
    } else if (list.count == 0) {
        fprintf(stderr, "tenax policy: %s has no policy in it\n", file);
        code = CLI_USAGE;
    } else {
        for (const struct document_node *n = list.first; n && code == CLI_OK; n = n->next)
            code = apply_one(c, n);
    }
    buf_fini(&text);
    return code;
}

/* NULL if the words fit together, else what is wrong. */
static const char *check(const struct policy_args *args, const struct options *o)
{
    const char *verb = o->rest_count ? o->rest[0] : "";
    if (strcmp(verb, "apply") == 0)
        return args->file && o->rest_count == 1 ? NULL : "apply which file? --file FILE";
    if (args->file)
        return "--file is for apply";
    if (strcmp(verb, "get") == 0)
        return o->rest_count <= 2 ? NULL : "get takes one name or none";
    if (strcmp(verb, "delete") == 0)
        return o->rest_count == 2 && *o->rest[1] ? NULL : "delete which policy?";
    return "apply, get or delete is meant";
}

int policy_main(int argc, char **argv)
{
    struct policy_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!command_begin(&policy_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    const char *wrong = check(&args, &o);
    if (wrong)
        return command_usage(&policy_command, "%s", wrong);
    code = client_open(&c, &policy_command, &args.client);
    if (code != CLI_OK)
        return code;
    const char *name = o.rest_count == 2 ? o.rest[1] : NULL;
    if (strcmp(o.rest[0], "apply") == 0) {
        code = apply(&c, args.file);
    } else if (strcmp(o.rest[0], "get") == 0) {
        code = ask(&c, "GET", "/retry-policies", name);
        if (code == CLI_OK)
            show(&c);
    } else {
        code = ask(&c, "DELETE", "/retry-policies", name);
        if (code == CLI_OK)
            fprintf(stderr, "Deleted the retry policy %s.\n", name);
    }
    client_close(&c);
    return code;
}

/* --- queue --- */

static void write_names(struct buf *b, const char *names)
{
    buf_lit(b, "{\"retry_policies\":[");
    for (bool first = true; *names; first = false) {
        size_t n = strcspn(names, ",");
        if (!first)
            buf_byte(b, ',');
        json_write_string(b, (struct str){names, n});
        names += names[n] ? n + 1 : n;
    }
    buf_lit(b, "]}");
}

int queue_main(int argc, char **argv)
{
    struct queue_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!command_begin(&queue_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1 || !*o.rest[0])
        return command_usage(&queue_command, "which queue? `tenax queues` lists them");
    code = client_open(&c, &queue_command, &args.client);
    if (code != CLI_OK)
        return code;
    if (args.policies)
        write_names(&c.call.body, args.policies);
    code = ask(&c, args.policies ? "PUT" : "GET", "/queues", o.rest[0]);
    if (code == CLI_OK)
        show(&c);
    client_close(&c);
    return code;
}

/* --- retry-settings --- */

struct settings_args {
    struct client_args client;
    const char *enabled, *most, *policy;
};

#define AT(field) .offset = offsetof(struct settings_args, field)

static const struct option_def settings_options[] = {
    {"enabled", "true|false", OPTION_TEXT, AT(enabled), .help = "whether policies decide at all"},
    {"global-max-retries", "LIMIT", OPTION_TEXT, AT(most),
     .help = "most retries of a job by all policies; 0 stops them all"},
    {"default-policy", "NAME", OPTION_TEXT, AT(policy),
     .help = "the policy of jobs that have no other; an empty text: none"},
    CLIENT_OPTIONS(struct settings_args),
    {0},
};

const struct subcommand retry_settings_command = {
    .name = "retry-settings",
    .usage = "[OPTIONS]",
    .summary = "show or change the settings of retry policies",
    .about = "Prints JSON. What is not given stays as it is.",
    .examples = "  tenax retry-settings --global-max-retries 0\n",
    .options = settings_options,
};

/* The server says what is wrong with a value: text that is no JSON goes as a string. */
static void add_member(struct buf *b, const char *name, const char *value, bool text)
{
    struct str given = str_from(value ? value : ""), checked;
    if (!value)
        return;
    buf_print(b, "%s\"%s\":", b->len ? "," : "{", name);
    if (text || view_check(given, &checked).code != ERR_OK)
        json_write_string(b, given);
    else
        buf_str(b, given);
}

int retry_settings_main(int argc, char **argv)
{
    struct settings_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!command_begin(&retry_settings_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return command_usage(&retry_settings_command, "unexpected '%s'", o.rest[0]);
    code = client_open(&c, &retry_settings_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct buf *body = &c.call.body;
    add_member(body, "enabled", args.enabled, false);
    add_member(body, "globalMaxRetries", args.most, false);
    add_member(body, "defaultPolicyName", args.policy, true);
    bool change = body->len > 0;
    if (change)
        buf_byte(body, '}');
    code = ask(&c, change ? "PUT" : "GET", "/settings/retry", NULL);
    if (code == CLI_OK)
        show(&c);
    client_close(&c);
    return code;
}
