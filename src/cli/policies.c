/* SPDX-License-Identifier: Apache-2.0 */

/* policy, retry-settings: retry policies, and whether they decide. */

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "cli/commands.h"
#include "cli/resources.h"
#include "cli/view.h"

struct policy_args {
    struct client_args client;
    struct option_list files;
};

static const struct option_def policy_options[] = {
    {"file", "FILE", OPTION_LIST, offsetof(struct policy_args, files),
     .help = "YAML or JSON with one policy or more; - is standard input", .letter = 'f'},
    CLIENT_OPTIONS(struct policy_args),
    {0},
};

const struct subcommand policy_command = {
    .name = "policy",
    .usage = "apply --file FILE | get [NAME] | delete NAME",
    .summary = "put, show or delete retry policies",
    .about = "apply and delete are `tenax apply` and `tenax delete retrypolicy`; get prints JSON.",
    .examples = "  tenax policy apply --file policies.yaml\n"
                "  tenax policy get nightly\n"
                "  tenax policy delete nightly\n",
    .options = policy_options,
    .words = "apply|get|delete",
};

static int ask(struct client *c, const char *method, const char *below, const char *name)
{
    struct buf path = {0};
    buf_str(&path, str_from(below));
    if (name)
        client_segment(&path, str_from(name));
    int code = client_ask(c, method, client_path(&path));
    buf_fini(&path);
    return code;
}

/* --- policy --- */

/* NULL if the words fit together, else what is wrong. */
static const char *check(const struct policy_args *args, const struct options *o)
{
    const char *verb = o->rest_count ? o->rest[0] : "";
    if (strcmp(verb, "apply") == 0)
        return args->files.count && o->rest_count == 1 ? NULL : "apply which file? --file FILE";
    if (args->files.count)
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
        code = resources_files(&c, RESOURCES_APPLY, &args.files, false);
    } else if (strcmp(o.rest[0], "get") == 0) {
        code = ask(&c, "GET", "/retry-policies", name);
        if (code == CLI_OK)
            client_print_answer(&c);
    } else {
        struct resources list = {0};
        resource_add(&list, resource_kind_of(STR("retrypolicy")), str_from(name), &c.arena);
        code = resources_do(&c, RESOURCES_DELETE, &list, false);
    }
    client_close(&c);
    return code;
}

/* --- retry-settings --- */

struct settings_args {
    struct client_args client;
    const char *enabled, *most, *policy, *backoff;
};

#define AT(field) .offset = offsetof(struct settings_args, field)

static const struct option_def settings_options[] = {
    {"enabled", "true|false", OPTION_TEXT, AT(enabled), .help = "whether policies decide at all"},
    {"global-max-retries", "LIMIT", OPTION_TEXT, AT(most),
     .help = "most retries of a job by all policies; 0 stops them all"},
    {"default-policy", "NAME", OPTION_TEXT, AT(policy),
     .help = "the policy of jobs that have no other; an empty text: none"},
    {"default-backoff", "JSON", OPTION_TEXT, AT(backoff),
     .help = "the wait of policies that state none: {\"initialDelay\": \"10s\", \"maxDelay\": "
             "\"5m\", \"multiplier\": 2}, or just 10s; null: retries at once"},
    CLIENT_OPTIONS(struct settings_args),
    {0},
};

const struct subcommand retry_settings_command = {
    .name = "retry-settings",
    .usage = "[OPTIONS]",
    .summary = "show or change the settings of retry policies",
    .about = "Prints JSON. What is not given stays as it is.",
    .examples = "  tenax retry-settings --global-max-retries 0\n"
                "  tenax retry-settings --default-backoff 30s\n",
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

/* "10s" stands for the delay alone. */
static void add_backoff(struct buf *b, const char *value)
{
    span delay;
    struct buf object = {0};
    if (value && duration_parse(str_from(value), &delay).code == ERR_OK) {
        buf_lit(&object, "{\"initialDelay\":");
        json_write_string(&object, str_from(value));
        buf_lit(&object, "}");
        buf_byte(&object, '\0');
        value = object.at;
    }
    add_member(b, "defaultBackoff", value, false);
    buf_fini(&object);
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
    add_backoff(body, args.backoff);
    bool change = body->len > 0;
    if (change)
        buf_byte(body, '}');
    code = ask(&c, change ? "PUT" : "GET", "/settings/retry", NULL);
    if (code == CLI_OK)
        client_print_answer(&c);
    client_close(&c);
    return code;
}
