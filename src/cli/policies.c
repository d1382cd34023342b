/* SPDX-License-Identifier: Apache-2.0 */

/* queue, retry-settings: who has retry policies, and what holds for all of them. */

#include <stdio.h>
#include <string.h>

#include "base/duration.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/view.h"

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

/* --- queue --- */

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
    if (args.policies) {
        buf_lit(&c.call.body, "{\"retry_policies\":");
        input_names(&c.call.body, args.policies);
        buf_lit(&c.call.body, "}");
    }
    code = ask(&c, args.policies ? "PATCH" : "GET", "/queues", o.rest[0]);
    if (code == CLI_OK)
        client_print_answer(&c);
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
