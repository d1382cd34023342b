/* SPDX-License-Identifier: Apache-2.0 */

/* retry, cancel, patch, delete: changes to jobs, by id or to all that match. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/filter.h"
#include "cli/jobid.h"
#include "cli/listing.h"
#include "cli/unknown.h"
#include "cli/apply.h"
#include "client/view.h"

struct change_args {
    struct client_args client;
    struct filter_args filter;
    bool dry_run, everything, completed, yes, detach;
    int ids; /* how many were given */
    int64_t rate;
    int64_t canary; /* 0: none */
    const char *set;
    span undo;
    struct option_list files;
};

#define AT(field) .offset = offsetof(struct change_args, field)

#define MANY_OPTIONS                                                                               \
    FILTER_OPTIONS(struct change_args),                                                            \
        {"everything", NULL, OPTION_SWITCH, AT(everything),                                        \
         .help = "all jobs; without it, ids or at least one of the options above are required"},   \
        {"dry-run", NULL, OPTION_SWITCH, AT(dry_run),                                              \
         .help = "change nothing; say how many jobs would be changed, and show some of them"},     \
        {"yes", NULL, OPTION_SWITCH, AT(yes),                                                      \
         .help = "do not ask, as a terminal is asked before more than 1,000 jobs are changed"},    \
    {                                                                                              \
        "undo", "DURATION", OPTION_SPAN, AT(undo),                                                 \
            .help = "for so long the change can be undone: it prints the operation for "           \
                    "`tenax operations ID --undo`"                                                 \
    }

static const struct option_def retry_options[] = {
    MANY_OPTIONS,
    {"rate", "COUNT", OPTION_INT, AT(rate), .min = 1, .max = 1000000,
     .help = "make at most this many ready per second, instead of all at once"},
    {"canary", "COUNT", OPTION_INT, AT(canary), .min = 1, .max = 100,
     .help = "retry so many first, and the rest only if the next run of each of these succeeds"},
    {"completed", NULL, OPTION_SWITCH, AT(completed),
     .help = "with ids: completed jobs, too, which are run once more"},
    CLIENT_OPTIONS_IN(struct change_args, CLIENT_LIST_FORMATS),
    {0},
};

static const struct option_def cancel_options[] = {
    MANY_OPTIONS,
    CLIENT_OPTIONS_IN(struct change_args, CLIENT_LIST_FORMATS),
    {0},
};

static const struct option_def delete_options[] = {
    {"file", "FILE", OPTION_LIST, AT(files),
     .help = "the resources described by this YAML or JSON file, not jobs; - is standard input",
     .letter = 'f'},
    {"detach", NULL, OPTION_SWITCH, AT(detach),
     .help = "with a retry policy: take it from the queues that have it, instead of being refused"},
    MANY_OPTIONS,
    CLIENT_OPTIONS_IN(struct change_args, CLIENT_LIST_FORMATS),
    {0},
};

static const struct option_def patch_options[] = {
    {"set", "JSON", OPTION_TEXT, AT(set),
     .help = "what to change: queue, priority, ready_at, retry_limit, backoff, retention, "
             "max_run_ms, retry_for_ms; null resets to the server's default"},
    MANY_OPTIONS,
    CLIENT_OPTIONS_IN(struct change_args, CLIENT_LIST_FORMATS),
    {0},
};

const struct subcommand retry_command = {
    .name = "retry",
    .usage = "ID... [--completed] | FILTERS [--canary N] [--rate N] [--dry-run]",
    .summary = "bring dead jobs back",
    .about = "A dead job that is brought back is ready at once with all its retries; its "
             "earlier runs stay on record.\n"
             "Canceled jobs are left alone unless they are named by their ids, or selected with "
             "--resolution canceled.",
    .examples = "  tenax retry 03fr82s077azjmurys29qjch4\n"
                "  tenax retry --queue mail --dry-run\n"
                "  tenax retry --queue mail --rate 50\n"
                "  tenax retry --queue mail --canary 2 --rate 50\n"
                "  tenax retry --since 2h --error ECONNREFUSED\n",
    .options = retry_options,
    .rest = "ID",
};

const struct subcommand cancel_command = {
    .name = "cancel",
    .usage = "ID... | FILTERS [--dry-run]",
    .summary = "cancel jobs that have not ended",
    .about = "A canceled job is dead, with that as its resolution. If a worker has it, the worker "
             "learns "
             "of it at its next report or renewal.",
    .examples = "  tenax cancel 03fr82s077azjmurys29qjch4\n"
                "  tenax cancel --group build-42\n"
                "  tenax cancel --queue mail --status scheduled --dry-run\n",
    .options = cancel_options,
    .rest = "ID",
};

const struct subcommand patch_command = {
    .name = "patch",
    .usage = "ID... --set JSON | FILTERS --set JSON [--dry-run]",
    .summary = "change jobs that have not ended",
    .about =
        "Changes the queue, priority, time or retry settings of jobs. A job in flight keeps its "
        "run; the change takes effect when that ends.",
    .examples = "  tenax patch 03fr82s077azjmurys29qjch4 --set '{\"priority\": 10}'\n"
                "  tenax patch --queue mail --set '{\"queue\": \"bulk-mail\"}' --dry-run\n"
                "  tenax patch --status scheduled --set '{\"ready_at\": null}'\n",
    .options = patch_options,
    .rest = "ID",
};

const struct subcommand delete_command = {
    .name = "delete",
    .usage = "ID... | FILTERS | KIND NAME... | -f FILE",
    .summary = "delete jobs and their history, retry policies, settings of queues",
    .about =
        "Deleted jobs are gone, whatever their status. A worker that has one learns of it when "
        "it reports.\n"
        "With -f, or after the word retrypolicy or queue, it deletes resources and no jobs: "
        "`tenax delete queue mail` deletes the settings of the queue, `tenax delete "
        "--queue mail` deletes its jobs. A retry policy that a queue uses is refused without "
        "--detach. A file in Armada's form detaches, and may name what does not exist.",
    .examples = "  tenax delete 03fr82s077azjmurys29qjch4\n"
                "  tenax delete --status dead --type thumbnail --dry-run\n"
                "  tenax delete --everything --undo 1h\n"
                "  tenax delete retrypolicy infra\n"
                "  tenax delete -f policies.yaml\n",
    .options = delete_options,
    .rest = "ID",
};

/* The HTTP requests of a command. */
struct change {
    const struct subcommand *page;
    const char *method;
    const char *one; /* after /jobs/ID */
    const char *many;
    const char *number; /* in the answer about many */
};

static void set_body(struct client *c, const struct change_args *args)
{
    c->call.body.len = 0;
    if (args->set)
        buf_str(&c->call.body, str_from(args->set));
}

/* Of several a list; job is empty if it is gone. */
static void add_changed(struct listing *changed, const char *id, struct str job, int ids)
{
    struct buf gone = {0};
    buf_print(&gone, "{\"id\":\"%s\",\"deleted\":true}", id);
    job = job.len ? job : buf_view(&gone);
    if (ids == 1)
        listing_show(changed, job, NULL);
    else
        listing_add(changed, job);
    buf_fini(&gone);
}

static int change_one(struct client *c, const struct change *ch, const struct change_args *args,
                      const char *given, struct listing *changed)
{
    char id[ID_TEXT_LEN + 1];
    if (!jobid_is_possible(given))
        return jobid_refuse(ch->page, given);
    int code = jobid_find(c, given, id);
    if (code != CLI_OK)
        return code;
    struct buf path = {0};
    buf_print(&path, "/jobs/%s%s%s", id, ch->one, args->completed ? "?completed=true" : "");
    set_body(c, args);
    code = client_ask(c, ch->method, client_path(&path));
    buf_fini(&path);
    if (code != CLI_OK)
        return code;
    struct str job = client_answer(c);
    if (!client_for_people(c))
        add_changed(changed, id, job, args->ids);
    else if (job.len)
        printf("%s %.*s %.*s\n", id, STR_ARG(view_text(&c->arena, job, "status")),
               STR_ARG(view_text(&c->arena, job, "reason")));
    else
        printf("%s gone\n", id);
    return CLI_OK;
}

/* If one cannot be changed, the others still are. */
static int change_each(struct client *c, const struct change *ch, const struct change_args *args,
                       char **ids)
{
    static const struct listing_kind kind = {NULL, "id", NULL};
    struct listing changed;
    int code = CLI_OK;
    listing_init(&changed, c, &kind);
    for (int i = 0; i < args->ids; i++) {
        int one = change_one(c, ch, args, ids[i], &changed);
        code = one == CLI_OK ? code : one;
    }
    if (changed.count || args->ids > 1)
        listing_end(&changed);
    else
        listing_fini(&changed);
    return code;
}

static const char *job_or_jobs(struct str count)
{
    return str_eq(count, STR("1")) ? "job" : "jobs";
}

static void print_sample(struct client *c, struct str answer)
{
    struct view_list l = view_list(view_get(answer, "sample"));
    for (struct str job; view_next(&l, &job);)
        printf("  %.*s %.*s %.*s %.*s\n", STR_ARG(view_text(&c->arena, job, "id")),
               STR_ARG(view_text(&c->arena, job, "status")),
               STR_ARG(view_text(&c->arena, job, "queue")),
               STR_ARG(view_text(&c->arena, job, "type")));
}

static void print_canaries(struct client *c, struct str answer)
{
    struct view_list l = view_list(view_get(answer, "canaries"));
    for (struct str job; view_next(&l, &job);)
        printf("  %.*s\n", STR_ARG(view_text(&c->arena, job, "id")));
}

static void many_path(struct buf *path, struct client *c, const struct change *ch,
                      const struct change_args *args)
{
    buf_str(path, str_from(ch->many));
    filter_query(path, &args->filter, c->now);
}

/* Beyond so many it takes a while, and an oversight cannot be mended one by one. */
#define ASK_ABOVE  1000
#define UNDO_HOURS 1

/* One line of the terminal; 'n' for none. */
static char read_choice(void)
{
    char line[16] = "";
    if (!fgets(line, sizeof line, stdin))
        return 'n';
    if (!strchr(line, '\n'))
        for (int byte = getchar(); byte != '\n' && byte != EOF;)
            byte = getchar();
    return line[0] == 'Y' ? 'y' : line[0] == 'U' ? 'u' : line[0];
}

/* False if whoever sits there does not want it. They may choose that it can be undone. */
static bool ask(const struct change *ch, struct change_args *args, int64_t count)
{
    bool offers = !args->undo.ms && !args->canary;
    fprintf(stderr, "%lld jobs would be %s. ", (long long)count, ch->number);
    if (args->undo.ms)
        fprintf(stderr, "That can be undone afterwards. ");
    fprintf(stderr,
            offers ? "Go on? y: yes, u: so that it can be undone for %d h, N: no "
                   : "Go on? [y/N] ",
            UNDO_HOURS);
    fflush(stderr);
    char choice = read_choice();
    if (offers && choice == 'u')
        args->undo = (span){(int64_t)UNDO_HOURS * 3600 * 1000};
    return choice == 'y' || (offers && choice == 'u');
}

/* Counts them first, and asks; CLI_OK to go on. Only where somebody can answer. */
static int ask_first(struct client *c, const struct change *ch, struct change_args *args)
{
    if (args->dry_run || args->yes || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return CLI_OK;
    struct buf path = {0};
    int64_t count;
    many_path(&path, c, ch, args);
    client_query(&path, "dry_run", "true");
    set_body(c, args);
    int code = client_ask(c, ch->method, client_path(&path));
    buf_fini(&path);
    if (code != CLI_OK || !view_int(client_answer(c), "count", &count) || count <= ASK_ABOVE)
        return code;
    if (ask(ch, args, count))
        return CLI_OK;
    fprintf(stderr, "nothing was changed\n");
    return CLI_REFUSED;
}

/* Whether no job was meant. */
static bool is_zero(struct str answer, const struct change *ch, const struct change_args *args)
{
    int64_t n = 1;
    return !args->canary && view_int(answer, args->dry_run ? "count" : ch->number, &n) && n == 0;
}

static int change_many(struct client *c, const struct change *ch, struct change_args *args)
{
    int code = ask_first(c, ch, args);
    if (code != CLI_OK)
        return code;
    struct buf path = {0};
    char rate[24], undo[24], canary[24];
    snprintf(canary, sizeof canary, "%lld", (long long)args->canary);
    snprintf(rate, sizeof rate, "%lld", (long long)args->rate);
    snprintf(undo, sizeof undo, "%lldms", (long long)args->undo.ms);
    many_path(&path, c, ch, args);
    client_query(&path, "rate", args->rate ? rate : NULL);
    client_query(&path, "canary", args->canary ? canary : NULL);
    client_query(&path, "undo", args->undo.ms ? undo : NULL);
    client_query(&path, "dry_run", args->dry_run ? "true" : NULL);
    set_body(c, args);
    code = client_ask(c, ch->method, client_path(&path));
    buf_fini(&path);
    if (code != CLI_OK)
        return code;
    struct str answer = client_answer(c);
    if (!client_for_people(c)) {
        client_print_answer(c);
    } else if (args->dry_run) {
        struct str count = view_text(&c->arena, answer, "count");
        printf("%.*s %s would be %s\n", STR_ARG(count), job_or_jobs(count), ch->number);
        print_sample(c, answer);
    } else if (args->canary) {
        struct str number = view_text(&c->arena, answer, "id");
        printf("canary retry %.*s: the rest follows if these succeed\n", STR_ARG(number));
        print_canaries(c, answer);
    } else {
        struct str count = view_text(&c->arena, answer, ch->number);
        struct str operation = view_text(&c->arena, answer, "operation");
        printf("%.*s %s %s\n", STR_ARG(count), job_or_jobs(count), ch->number);
        if (operation.len)
            printf("tenax operations %.*s --undo\n", STR_ARG(operation));
    }
    if (client_for_people(c) && is_zero(answer, ch, args))
        unknown_queues_warn(c, ch->page->name, args->filter.queue);
    return CLI_OK;
}

static int check_set(const char *set)
{
    if (!set)
        return subcommand_usage(&patch_command, "--set says what to change");
    struct err e = view_check(str_from(set), NULL);
    if (e.code == ERR_OK)
        return CLI_OK;
    return subcommand_usage(&patch_command, "option '--set': not valid JSON: %s", e.msg);
}

static int check_args(const struct change *ch, const struct change_args *args, int ids)
{
    if (ch->page == &patch_command) {
        int code = check_set(args->set);
        if (code != CLI_OK)
            return code;
    }
    struct err err = filter_check(&args->filter);
    if (err.code != ERR_OK)
        return subcommand_usage(ch->page, "%s", err.msg);
    bool filtered = filter_is_given(&args->filter) || args->everything;
    if (ids && (filtered || args->dry_run))
        return subcommand_usage(ch->page, "either ids or options that select jobs, not both");
    if (ids && args->rate)
        return subcommand_usage(ch->page,
                                "--rate goes with options that select jobs, not with ids");
    if (ids && args->canary)
        return subcommand_usage(ch->page,
                                "--canary goes with options that select jobs, not with ids");
    if (args->canary && args->undo.ms)
        return subcommand_usage(ch->page, "either --canary or --undo, not both");
    if (ids && args->yes)
        return subcommand_usage(ch->page, "--yes goes with options that select jobs, not with ids");
    if (ids && args->undo.ms)
        return subcommand_usage(ch->page,
                                "--undo goes with options that select jobs, not with ids");
    if (!ids && args->completed)
        return subcommand_usage(ch->page,
                                "--completed goes with ids, not with options that select");
    if (!ids && args->client.output == CLIENT_NAME)
        return subcommand_usage(ch->page,
                                "--output name goes with ids; options that select give table, "
                                "json, jsonl, yaml and wide");
    if (!ids && !filtered)
        return subcommand_usage(ch->page,
                                "which jobs? give ids, options that select, or --everything");
    return CLI_OK;
}

static int delete_resources(const struct change_args *args, struct options *o)
{
    struct client c;
    struct resources list = {0};
    const struct resource_kind *all = NULL;
    if (filter_is_given(&args->filter) || args->everything)
        return subcommand_usage(&delete_command,
                                "options that select jobs do not go with resources");
    if (args->files.count && o->rest_count)
        return subcommand_usage(&delete_command, "either -f or words, not both");
    int code = client_open(&c, &delete_command, &args->client);
    if (code != CLI_OK)
        return code;
    if (args->files.count)
        code = resources_files(&c, RESOURCES_DELETE, &args->files, NULL, args->dry_run);
    else
        code = resources_words(&delete_command, o->rest, o->rest_count, &c.arena, &list, &all);
    if (all)
        code = subcommand_usage(&delete_command, "which %s? give its name", all->word);
    for (struct resource *r = list.first; r; r = r->next)
        r->detach |= args->detach;
    if (!all && code == CLI_OK && list.first)
        code = resources_do(&c, RESOURCES_DELETE, &list, args->dry_run);
    client_close(&c);
    return code;
}

static int run(const struct change *ch, int argc, char **argv)
{
    struct change_args args = {0};
    struct options o;
    struct client c;
    int code;
    if (!subcommand_begin(ch->page, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (ch->page == &delete_command &&
        (args.files.count || (o.rest_count && resources_meant(o.rest[0]))))
        return delete_resources(&args, &o);
    code = check_args(ch, &args, o.rest_count);
    if (code != CLI_OK)
        return code;
    code = client_open(&c, ch->page, &args.client);
    if (code != CLI_OK)
        return code;
    args.ids = o.rest_count;
    code = o.rest_count ? change_each(&c, ch, &args, o.rest) : change_many(&c, ch, &args);
    client_close(&c);
    return code;
}

int retry_main(int argc, char **argv)
{
    static const struct change ch = {&retry_command, "POST", "/retry", "/jobs/retry", "retried"};
    return run(&ch, argc, argv);
}

int cancel_main(int argc, char **argv)
{
    static const struct change ch = {&cancel_command, "POST", "/cancel", "/jobs/cancel",
                                     "canceled"};
    return run(&ch, argc, argv);
}

int patch_main(int argc, char **argv)
{
    static const struct change ch = {&patch_command, "PATCH", "", "/jobs", "patched"};
    return run(&ch, argc, argv);
}

int delete_main(int argc, char **argv)
{
    static const struct change ch = {&delete_command, "DELETE", "", "/jobs", "deleted"};
    return run(&ch, argc, argv);
}
