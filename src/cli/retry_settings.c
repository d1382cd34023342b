/* SPDX-License-Identifier: Apache-2.0 */

/* retry-settings: the settings that apply to all retry policies. */

#include <ctype.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "client/client.h"
#include "client/input.h"
#include "cli/commands.h"
#include "cli/policy_plan.h"
#include "client/view.h"

struct settings_args {
    struct client_args client;
    const char *enabled, *most, *exempt, *no_policy, *policy, *backoff, *grace;
    bool dry_run;
};

#define AT(field) .offset = offsetof(struct settings_args, field)

static const struct option_def settings_options[] = {
    {"enabled", "true|false", OPTION_TEXT, AT(enabled), .help = "whether policies decide at all"},
    {"global-max-retries", "LIMIT", OPTION_TEXT, AT(most),
     .help = "maximum number of retries of a job, whatever grants them; 0 stops them all"},
    {"exempt", "WHICH", OPTION_TEXT, AT(exempt),
     .help = "retries exempt from the maximum, as a,b: defaultBackoff, leaseExpired, preempted, "
             "evicted, "
             "and names of culprits, as disruption; an empty text: none"},
    {"when-no-policy", "default|fail", OPTION_TEXT, AT(no_policy),
     .help = "what happens to failed jobs without an effective policy: the usual retries, or "
             "they fail"},
    {"default-policy", "NAME", OPTION_TEXT, AT(policy),
     .help = "the policy of jobs that have no other; an empty text: none"},
    {"default-backoff", "JSON", OPTION_TEXT, AT(backoff),
     .help = "the backoff of policies that state none: {\"initialDelay\": \"10s\", \"maxDelay\": "
             "\"5m\", \"multiplier\": 2}, or just 10s; null: retries at once"},
    {"preempted-grace-period", "TIME", OPTION_TEXT, AT(grace),
     .help = "how long a retry waits for the end of a preempted run if its worker does not say"},
    {"dry-run", NULL, OPTION_SWITCH, AT(dry_run),
     .help = "change nothing: show what the last failures would have become with policies switched "
             "on and these settings, and which queues have no policy"},
    CLIENT_OPTIONS(struct settings_args),
    {0},
};

const struct subcommand retry_settings_command = {
    .name = "retry-settings",
    .usage = "[OPTIONS]",
    .summary = "show or change the settings of retry policies",
    .about = "Prints JSON. Settings that are not given stay unchanged.",
    .examples = "  tenax retry-settings --global-max-retries 0\n"
                "  tenax retry-settings --default-backoff 30s\n"
                "  tenax retry-settings --enabled true --dry-run\n",
    .options = settings_options,
};

/* The server checks the value: text that is not JSON is sent as a string. */
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

/* "10s" alone is the initial delay. */
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

static void add_exempt(struct buf *b, const char *value)
{
    if (!value)
        return;
    buf_print(b, "%s\"globalMaxRetriesExempt\":", b->len ? "," : "{");
    input_names(b, value);
}

/* Identifies the user, for the record of the last change: user@host. */
static void sign(struct client *c)
{
    char host[65] = "", user[65], line[160];
    gethostname(host, sizeof host - 1);
    const struct passwd *entry = getpwuid(getuid());
    if (entry)
        snprintf(user, sizeof user, "%s", entry->pw_name);
    else
        snprintf(user, sizeof user, "%u", (unsigned)getuid());
    int n = snprintf(line, sizeof line, "Worker-Id: %s@%s", user, host);
    /* Names from a directory service, such as DOMAIN\user, may contain what a name here must
     * not. */
    for (char *at = line + strlen("Worker-Id: "); at < line + n; at++)
        if (!isalnum((unsigned char)*at) && !strchr("@._-+", *at))
            *at = '_';
    call_header(&c->call, line);
}

static void write_settings(struct buf *body, const struct settings_args *args)
{
    add_member(body, "enabled", args->enabled, false);
    add_member(body, "globalMaxRetries", args->most, false);
    add_exempt(body, args->exempt);
    add_member(body, "whenNoPolicy", args->no_policy, true);
    add_member(body, "defaultPolicyName", args->policy, true);
    add_member(body, "preemptedGracePeriod", args->grace, true);
    add_backoff(body, args->backoff);
    if (body->len)
        buf_byte(body, '}');
}

static int try_out(struct client *c, struct buf *body)
{
    if (!body->len)
        buf_lit(body, "{}");
    return policy_plan_settings(c, buf_view(body));
}

static int change_or_show(struct client *c, const struct buf *body)
{
    bool change = body->len > 0;
    if (change)
        sign(c);
    int code = client_ask(c, change ? "PUT" : "GET", "/settings/retry");
    if (code == CLI_OK)
        client_print_answer(c);
    return code;
}

int retry_settings_main(int argc, char **argv)
{
    struct settings_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&retry_settings_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&retry_settings_command, "unexpected '%s'", o.rest[0]);
    code = client_open(&c, &retry_settings_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct buf *body = &c.call.body;
    write_settings(body, &args);
    if (args.dry_run)
        code = try_out(&c, body);
    else
        code = change_or_show(&c, body);
    client_close(&c);
    return code;
}
