/* SPDX-License-Identifier: Apache-2.0 */

/* queue: shows a queue, and changes its settings. */

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/duration.h"
#include "base/json.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/unknown.h"
#include "client/input.h"
#include "client/view.h"

struct queue_args {
    struct client_args client;
    bool pause, resume, remove;
    const char *concurrency, *per_key, *rate, *burst, *retry_limit, *retain_completed, *retain_dead;
    const char *policies, *no_policy, *max_run;
};

#define AT(field) offsetof(struct queue_args, field)

static const struct option_def queue_options[] = {
    {"pause", NULL, OPTION_SWITCH, AT(pause), .help = "hand out nothing; running jobs continue"},
    {"resume", NULL, OPTION_SWITCH, AT(resume), .help = "hand out jobs again"},
    {"concurrency", "N", OPTION_TEXT, AT(concurrency),
     .help = "maximum number of jobs in flight; none: any number"},
    {"concurrency-per-key", "N", OPTION_TEXT, AT(per_key),
     .help = "maximum number of jobs in flight with the same concurrency key; none: any number"},
    {"rate", "N/TIME", OPTION_TEXT, AT(rate),
     .help = "maximum number of jobs started per time, as in 100/1s; none: any number"},
    {"burst", "N", OPTION_TEXT, AT(burst),
     .help = "with --rate: how many unused starts can be saved up; N of the rate by default"},
    {"retry-limit", "N", OPTION_TEXT, AT(retry_limit),
     .help = "for jobs that state none; none: the server's"},
    {"retain-completed", "TIME", OPTION_TEXT, AT(retain_completed),
     .help = "for jobs that state none; none: the server's"},
    {"retain-dead", "TIME", OPTION_TEXT, AT(retain_dead),
     .help = "for jobs that state none; none: the server's"},
    {"retry-policy", "NAMES", OPTION_TEXT, AT(policies),
     .help = "the retry policies of all its jobs, as a,b; an empty text: no policies"},
    {"when-no-policy", "default|fail", OPTION_TEXT, AT(no_policy),
     .help = "what happens to failed jobs without an effective retry policy while policies are "
             "enabled: the usual retries, or they fail; none: the server's setting"},
    {"max-run", "TIME", OPTION_TEXT, AT(max_run),
     .help = "how long one run of its jobs may take: then it has failed, whatever its worker says; "
             "a shorter limit of a job's own counts; none: any time"},
    {"delete", NULL, OPTION_SWITCH, AT(remove),
     .help = "delete all its settings; refused while jobs wait or run in it"},
    CLIENT_LIST_OPTIONS(struct queue_args),
    {0},
};

const struct subcommand queue_command = {
    .name = "queue",
    .usage = "NAME [OPTIONS]",
    .summary = "show a queue, pause it, or set its limits",
    .about = "Prints JSON. Settings that are not given stay unchanged; the word none resets one. "
             "Changes take effect at once and survive restarts.",
    .examples = "  tenax queue mail\n"
                "  tenax queue mail --pause\n"
                "  tenax queue mail --resume --concurrency 20 --rate 100/1s --burst 10\n"
                "  tenax queue render --retry-policy machines,memory\n",
    .options = queue_options,
    .rest = "QUEUE",
};

static void add_key(struct buf *b, const char *name)
{
    buf_print(b, "%s\"%s\":", b->len ? "," : "{", name);
}

static bool is_none(const char *text)
{
    return strcmp(text, "none") == 0;
}

/* A whole number; the server checks its range. */
static bool is_number(const char *text, size_t len)
{
    return len > 0 && len < 10 && strspn(text, "0123456789") >= len && (text[0] != '0' || len == 1);
}

static bool add_number(struct buf *b, const char *name, const char *value)
{
    if (!value)
        return true;
    add_key(b, name);
    buf_str(b, is_none(value) ? STR("null") : str_from(value));
    return is_none(value) || is_number(value, strlen(value));
}

static bool add_span(struct buf *b, const char *name, const char *value)
{
    span d;
    buf_print(b, "\"%s\":", name);
    if (is_none(value)) {
        buf_lit(b, "null");
        return true;
    }
    if (duration_parse(str_from(value), &d).code != ERR_OK)
        return false;
    buf_int(b, d.ms);
    return true;
}

/* "100/1s" */
static bool add_rate(struct buf *b, const char *rate, const char *burst)
{
    if (!rate)
        return !burst;
    add_key(b, "rate");
    if (is_none(rate)) {
        buf_lit(b, "null");
        return !burst;
    }
    size_t n = strcspn(rate, "/");
    span per;
    if (!rate[n] || !is_number(rate, n) || (burst && !is_number(burst, strlen(burst))) ||
        duration_parse(str_from(rate + n + 1), &per).code != ERR_OK)
        return false;
    buf_print(b, "{\"count\":%.*s,\"per_ms\":%lld", (int)n, rate, (long long)per.ms);
    if (burst)
        buf_print(b, ",\"burst\":%s", burst);
    buf_byte(b, '}');
    return true;
}

static bool add_retention(struct buf *b, const struct queue_args *args)
{
    if (!args->retain_completed && !args->retain_dead)
        return true;
    add_key(b, "retention");
    buf_byte(b, '{');
    if (args->retain_completed && !add_span(b, "completed_ms", args->retain_completed))
        return false;
    if (args->retain_completed && args->retain_dead)
        buf_byte(b, ',');
    if (args->retain_dead && !add_span(b, "dead_ms", args->retain_dead))
        return false;
    buf_byte(b, '}');
    return true;
}

/* NULL, or the fault. An empty body: nothing is to be changed. */
static const char *write_body(const struct queue_args *args, struct buf *b)
{
    if (args->pause && args->resume)
        return "--pause and --resume exclude each other";
    if (args->pause || args->resume) {
        add_key(b, "paused");
        buf_str(b, args->pause ? STR("true") : STR("false"));
    }
    if (!add_number(b, "concurrency", args->concurrency))
        return "--concurrency is a number or none";
    if (!add_number(b, "concurrency_per_key", args->per_key))
        return "--concurrency-per-key is a number or none";
    if (!add_rate(b, args->rate, args->burst))
        return args->rate ? "--rate is N/TIME as in 100/1s, or none; --burst is a number"
                          : "--burst goes with --rate";
    if (!add_number(b, "retry_limit", args->retry_limit))
        return "--retry-limit is a number or none";
    if (!add_retention(b, args))
        return "--retain-completed and --retain-dead are durations as in 7d, or none";
    if (args->policies) {
        add_key(b, "retry_policies");
        input_names(b, args->policies);
    }
    if (args->no_policy) {
        add_key(b, "when_no_policy");
        if (is_none(args->no_policy))
            buf_lit(b, "null");
        else
            json_write_string(b, str_from(args->no_policy));
    }
    if (args->max_run) {
        buf_byte(b, b->len ? ',' : '{');
        if (!add_span(b, "max_run_ms", args->max_run))
            return "--max-run is a duration as in 30m, or none";
    }
    if (args->remove && b->len)
        return "--delete cannot be combined with other changes";
    if (b->len)
        buf_byte(b, '}');
    return NULL;
}

static int ask(struct client *c, const char *method, const char *name)
{
    struct buf path = {0};
    buf_lit(&path, "/queues");
    client_segment(&path, str_from(name));
    int code = client_ask(c, method, client_path(&path));
    buf_fini(&path);
    return code;
}

static const struct listing_kind kind = {NULL, "name", NULL};

static int fetch(struct listing *l, void *ctx)
{
    int code = ask(l->client, "GET", ctx);
    if (code == CLI_OK)
        listing_show(l, client_answer(l->client), NULL);
    return code;
}

/* Changes take effect for a queue that is to come, too; but that is said. */
static int change(struct client *c, const char *name)
{
    struct buf changes = c->call.body;
    c->call.body = (struct buf){0};
    bool unknown = unknown_queue(c, name);
    c->call.body = changes;
    int code = ask(c, "PATCH", name);
    if (code != CLI_OK)
        return code;
    listing_print(c, &kind, client_answer(c), NULL);
    c->call.body.len = 0;
    if (unknown)
        unknown_queue_warn(c, "queue", name, true);
    return CLI_OK;
}

int queue_main(int argc, char **argv)
{
    struct queue_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&queue_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count != 1 || !*o.rest[0])
        return subcommand_usage(&queue_command, "which queue? `tenax queues` lists them");
    code = client_open(&c, &queue_command, &args.client);
    if (code != CLI_OK)
        return code;
    const char *wrong = write_body(&args, &c.call.body);
    if (!wrong && args.client.watch.ms && (args.remove || c.call.body.len))
        wrong = "--watch shows; it changes nothing";
    if (wrong) {
        code = subcommand_usage(&queue_command, "%s", wrong);
    } else if (args.remove) {
        code = ask(&c, "DELETE", o.rest[0]);
        if (code == CLI_OK)
            fprintf(stderr, "Deleted the settings of the queue %s.\n", o.rest[0]);
    } else if (c.call.body.len) {
        code = change(&c, o.rest[0]);
    } else {
        code = listing_run(&c, &kind, fetch, o.rest[0]);
        if (code == CLI_OK && client_for_people(&c) && !args.client.watch.ms &&
            unknown_queue(&c, o.rest[0]))
            unknown_queue_warn(&c, "queue", o.rest[0], false);
    }
    client_close(&c);
    return code;
}
