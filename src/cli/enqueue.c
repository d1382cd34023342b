/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/bulk.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/jobid.h"
#include "cli/newjob.h"
#include "client/view.h"
#include "client/when.h"
#include "core/job.h"

#define AT(field) .offset = offsetof(struct enqueue_args, field)

static const struct option_def options[] = {
    {"queue", "QUEUE", OPTION_TEXT, AT(queue), .env = "TENAX_QUEUE",
     .help = "the queue to put the job into"},
    {"type", "TYPE", OPTION_TEXT, AT(type), .help = "the kind of job, for the worker"},
    {"file", "FILE", OPTION_TEXT, AT(file), .help = "read the payload (or bulk lines) from a file",
     .letter = 'f'},
    {"text", NULL, OPTION_SWITCH, AT(text),
     .help = "the payload is plain text; it is sent as a JSON string"},
    {"delay", "DURATION", OPTION_SPAN, AT(delay), .help = "not before this much time has passed"},
    {"at", "TIME", OPTION_TEXT, AT(at),
     .help = "not before this time, as 2030-01-31T09:00:00Z or milliseconds since 1970"},
    {"priority", "NUMBER", OPTION_INT, AT(priority), .max = 65535,
     .help = "0 is the most urgent, 65535 the least; the server's default is 32768"},
    {"retry-limit", "COUNT", OPTION_INT, AT(retry_limit), .max = JOB_RETRY_LIMIT_MAX,
     .help = "how often to retry after failures, instead of the server's default"},
    {"backoff", "BASE,EXPONENT,JITTER", OPTION_TEXT, AT(backoff),
     .help = "the wait before a retry, instead of the server's default; as in 15s,4,30s"},
    {"retain-completed", "DURATION", OPTION_SPAN, AT(retain_completed),
     .help = "how long to keep the job after it has completed"},
    {"retain-dead", "DURATION", OPTION_SPAN, AT(retain_dead),
     .help = "how long to keep the job after it is dead"},
    {"unique-key", "KEY", OPTION_TEXT, AT(unique_key),
     .help = "do not add the job if another one has this key; print the other one's id instead"},
    {"unique-while", "SCOPE", OPTION_CHOICE, AT(unique_while), .choices = "queued|active|exists",
     .def = "queued", .help = "how long the key is reserved"},
    {"idempotency-key", "KEY", OPTION_TEXT, AT(idempotency_key),
     .help = "makes the command safe to repeat: the same job with the same key is added once, and "
             "its id printed again; not with --bulk"},
    {"concurrency-key", "KEY", OPTION_TEXT, AT(concurrency_key),
     .help = "jobs of a queue with the same key can be limited together; see `tenax queue`"},
    {"budget", "KEY[=COST]", OPTION_LIST, AT(budgets),
     .help = "draw so many tokens, by default 1, on this budget when it is handed out; may be "
             "given several times; see `tenax budgets`"},
    {"alias", "NAME", OPTION_TEXT, AT(alias),
     .help = "a further name, by which the job is found as alias:NAME as long as it exists; if a "
             "job has this "
             "alias already, print its id and add none"},
    {"deadline", "TIME", OPTION_TEXT, AT(deadline),
     .help = "the job is dead if it has not ended by then: a duration, as 2h, or a time, as "
             "2030-01-31T09:00:00Z"},
    {"retry-for", "DURATION", OPTION_SPAN, AT(retry_for),
     .help = "how long after its first failure a retry may begin, whatever --retry-limit leaves"},
    {"max-run", "DURATION", OPTION_SPAN, AT(max_run),
     .help = "how long one run may take: then it has failed, whatever its worker says"},
    {"group", "NAME", OPTION_TEXT, AT(group),
     .help = "of jobs that belong together, to be listed or canceled by it"},
    {"group-owner", "NAME", OPTION_TEXT, AT(group_owner),
     .help = "whom the group belongs to: jobs that name another owner are refused"},
    {"memory", "AMOUNT", OPTION_TEXT, AT(memory),
     .help = "the memory that its runs need, as 512Mi or 4Gi; a retry policy may increase it"},
    {"cpu", "AMOUNT", OPTION_TEXT, AT(cpu),
     .help = "the processors that its runs need, as 500m or 2; likewise"},
    {"gang", "NAME,COUNT", OPTION_TEXT, AT(gang),
     .help = "the job is one of COUNT that are handed out together, or not at all"},
    {"retry-policies", "NAME[,NAME]", OPTION_TEXT, AT(retry_policies),
     .help = "retry policies of its own, after those of its queue; see `tenax get retrypolicies`"},
    {"batch-key", "KEY", OPTION_TEXT, AT(batch_key),
     .help = "fold the payload into that of a waiting job with this key, if there is one, and "
             "print that job's id"},
    {"batch-when", "JQ", OPTION_TEXT, AT(batch_when),
     .help = "fold only if this is true of $existing and $new, the payloads; otherwise a new job "
             "waits"},
    {"batch-fold", "JQ", OPTION_TEXT, AT(batch_fold),
     .help = "the folded payload, as in '$existing + $new'"},
    {"depends-on", "ID[,ID]", OPTION_TEXT, AT(depends_on),
     .help = "the job waits until these have completed; the first 6 letters of an id may do"},
    {"depends-when", "WHEN", OPTION_CHOICE, AT(depends_when), .choices = "all_completed|all_ended",
     .def = "all_completed",
     .help = "wait until they have completed, or until they have ended in any way"},
    {"on-dependency-death", "WHAT", OPTION_CHOICE, AT(on_dependency_death),
     .choices = "block|run|die", .def = "block",
     .help =
         "if one of them dies: wait for someone to retry it, run as if it had completed, or die"},
    {"bulk", NULL, OPTION_SWITCH, AT(bulk),
     .help = "read many jobs, one JSON object per line, from standard input or --file"},
    {"batch", "COUNT", OPTION_INT, AT(batch), .min = 1, .max = 100000, .def = "1000",
     .help = "with --bulk: jobs per request"},
    CLIENT_OPTIONS_IN(struct enqueue_args, CLIENT_LIST_FORMATS),
    {0},
};

const struct subcommand enqueue_command = {
    .name = "enqueue",
    .usage = "--queue QUEUE --type TYPE [PAYLOAD | --file FILE | -]\n"
             "  tenax enqueue --bulk [--queue QUEUE] [--type TYPE] [--file FILE]",
    .summary = "put jobs into a queue",
    .about = "Stores a job and prints its id. Once the id is printed, the job is on the server's "
             "disk. The payload is JSON, from the command line, a file, or, as '-', from standard "
             "input; a worker gets it byte for byte.\n"
             "With --bulk each line is a job: {\"queue\": …, \"type\": …, \"payload\": …, "
             "\"priority\": …, \"ready_at\": …, \"retry_limit\": …}. What a line omits comes "
             "from the options. Jobs are sent in batches; each is stored completely or not at "
             "all, and the first malformed line ends the whole run.",
    .examples = "  tenax enqueue --queue mail --type welcome '{\"to\": \"ada@example.org\"}'\n"
                "  tenax enqueue --queue mail --type reminder --delay 24h --text 'Call Bob'\n"
                "  tenax enqueue --queue img --type resize --retry-limit 3 --file photo.json\n"
                "  jq -c '.users[] | {payload: .}' all.json |\n"
                "    tenax enqueue --bulk --queue mail --type welcome\n",
    .options = options,
};

static struct err read_all(FILE *in, struct buf *to)
{
    size_t n;
    do {
        n = fread(buf_room(to, 65536), 1, 65536, in);
        to->len += n;
    } while (n);
    return ferror(in) ? err_make(ERR_IO, "cannot read it: %s", strerror(errno)) : err_none();
}

/* NULL after printing the reason. "-" and no file mean standard input. */
static FILE *open_input(const char *file)
{
    if (!file || strcmp(file, "-") == 0)
        return stdin;
    FILE *f = fopen(file, "re");
    if (!f)
        fprintf(stderr, "tenax enqueue: cannot open %s: %s\n", file, strerror(errno));
    return f;
}

/* Removes one line break at the end, which editors and `echo` put there. */
static struct err wrap_text(struct buf *raw)
{
    struct str s = buf_view(raw);
    if (s.len && s.at[s.len - 1] == '\n')
        s.len--;
    if (utf8_check(s) < s.len)
        return err_at(ERR_BAD_UTF8, (int64_t)utf8_check(s), "the text is not valid UTF-8");
    struct buf wrapped = {0};
    json_write_string(&wrapped, s);
    buf_fini(raw);
    *raw = wrapped;
    return err_none();
}

static int bad_payload(struct str raw, const struct err *e)
{
    fputs("tenax enqueue: the payload is not valid", stderr);
    if (e->offset >= 0) {
        size_t line, column;
        view_position(raw, (size_t)e->offset, &line, &column);
        fprintf(stderr, " at line %zu, column %zu", line, column);
    }
    fprintf(stderr, ": %s\n", e->msg);
    if (e->code == ERR_BAD_JSON)
        fputs("A payload is JSON; --text sends plain text as a JSON string.\n", stderr);
    return CLI_USAGE;
}

static struct err check_payload(struct buf *raw, bool text, struct str *payload)
{
    if (text)
        TRY(wrap_text(raw));
    return view_check(buf_view(raw), payload);
}

/* Reads the payload from its source into raw, which owns it. */
static int read_payload(const struct enqueue_args *args, const struct options *o, struct buf *raw,
                        struct str *payload)
{
    const char *word = o->rest_count ? o->rest[0] : NULL;
    if (o->rest_count > 1)
        return subcommand_usage(&enqueue_command, "one payload at a time; put it in quotes, or use "
                                                  "--bulk");
    if (word && args->file)
        return subcommand_usage(&enqueue_command, "a payload and --file exclude each other");
    if (!word && !args->file)
        return subcommand_usage(&enqueue_command,
                                "no payload: give it as a word, with --file, or as "
                                "'-' to read standard input");
    struct err e = err_none();
    if (word && strcmp(word, "-") != 0) {
        buf_str(raw, str_from(word));
    } else {
        FILE *in = open_input(args->file);
        if (!in)
            return CLI_USAGE;
        e = read_all(in, raw);
        if (in != stdin)
            fclose(in);
    }
    if (e.code == ERR_OK)
        e = check_payload(raw, args->text, payload);
    return e.code == ERR_OK ? CLI_OK : bad_payload(buf_view(raw), &e);
}

static void print_job(struct client *c)
{
    struct str job = client_answer(c);
    struct buf out = {0};
    if (client_for_people(c) || c->args.output == CLIENT_NAME) {
        table_harmless(&out, view_text(&c->arena, job, "id"));
        buf_byte(&out, '\n');
    } else {
        client_write_value(c, &out, job);
    }
    subcommand_print(stdout, &out);
    buf_fini(&out);
}

/* False if it could not be a header of its own. */
static bool send_key(struct client *c, const char *key)
{
    struct buf line = {0};
    for (const char *at = key; *at; at++)
        if (*at < ' ' || *at > '~')
            return false;
    buf_print(&line, "Idempotency-Key: %s", key);
    buf_byte(&line, '\0');
    call_header(&c->call, line.at);
    buf_fini(&line);
    return *key != '\0';
}

static int enqueue_one(struct client *c, const struct enqueue_args *args, const struct options *o,
                       const struct newjob_defaults *d)
{
    struct buf raw = {0};
    struct str payload = {0};
    if (!args->queue || !args->type)
        return subcommand_usage(&enqueue_command, "--%s is missing",
                                args->queue ? "type" : "queue");
    if (args->idempotency_key && !send_key(c, args->idempotency_key))
        return subcommand_usage(&enqueue_command,
                                "--idempotency-key takes 1 to 255 printable ASCII characters");
    int code = read_payload(args, o, &raw, &payload);
    if (code == CLI_OK) {
        newjob_single(&c->call.body, d, payload);
        code = client_ask(c, "POST", "/jobs");
    }
    if (code == CLI_OK)
        print_job(c);
    buf_fini(&raw);
    return code;
}

static int enqueue_bulk(struct client *c, const struct enqueue_args *args, const struct options *o,
                        const struct newjob_defaults *d)
{
    if (args->text || args->idempotency_key)
        return subcommand_usage(&enqueue_command, "--%s and --bulk exclude each other",
                                args->text ? "text" : "idempotency-key");
    if (o->rest_count && (strcmp(o->rest[0], "-") != 0 || args->file || o->rest_count > 1))
        return subcommand_usage(&enqueue_command,
                                "--bulk reads jobs from standard input or --file, "
                                "not from '%.60s'",
                                o->rest[0]);
    FILE *in = open_input(args->file);
    if (!in)
        return CLI_USAGE;
    int code = bulk_run(c, args, d, in);
    if (in != stdin)
        fclose(in);
    return code;
}

static int enqueue_jobs(struct client *c, const struct enqueue_args *args, const struct options *o)
{
    struct newjob_defaults d;
    int code;
    struct err e = newjob_init(&d, args, o, c->now);
    if (e.code != ERR_OK)
        code = subcommand_usage(&enqueue_command, "%s", e.msg);
    else
        code = args->bulk ? enqueue_bulk(c, args, o, &d) : enqueue_one(c, args, o, &d);
    newjob_fini(&d);
    return code;
}

int enqueue_main(int argc, char **argv)
{
    struct enqueue_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(&enqueue_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    code = client_open(&c, &enqueue_command, &args.client);
    if (code != CLI_OK)
        return code;
    struct buf ids = {0};
    if (args.depends_on) {
        code = jobid_find_list(&c, args.depends_on, &ids);
        args.depends_on = ids.at;
    }
    if (code == CLI_OK)
        code = enqueue_jobs(&c, &args, &o);
    buf_fini(&ids);
    client_close(&c);
    return code;
}
