/* SPDX-License-Identifier: Apache-2.0 */

/* tenax check DIR: reads a root directory that no server is using and reports its faults; with
 * --salvage also what of a damaged log would be lost, and writes the rest. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/rootdir.h"
#include "store/audit.h"
#include "store/rocks.h"
#include "store/rocks_salvage.h"

#define CACHE_BYTES ((uint64_t)32 * 1024 * 1024)
/* Of each kind; more are only counted. */
#define SHOWN_MAX 100

struct check_args {
    int output;
    bool salvage;
    const char *root_dir, *into;
};

static const struct option_def options[] = {
    {"root-dir", "DIR", OPTION_TEXT, offsetof(struct check_args, root_dir), .env = "TENAX_ROOT_DIR",
     .help = "the root directory, in the place of the word DIR"},
    {"salvage", NULL, OPTION_SWITCH, offsetof(struct check_args, salvage),
     .help = "say what would be lost if a server went on with what can be read"},
    {"into", "NEW", OPTION_TEXT, offsetof(struct check_args, into),
     .help = "with --salvage: write what can be read to this folder, which is empty or absent"},
    {"output", "FORMAT", OPTION_CHOICE, offsetof(struct check_args, output),
     .choices = "table|json", .env = "TENAX_OUTPUT", .def = "table",
     .help = "for people or for programs"},
    {0},
};

const struct subcommand check_command = {
    .name = "check",
    .usage = "[OPTIONS] [DIR]",
    .summary = "check a root directory for damage",
    .about =
        "Reads all of a root directory while no server is using it: the checksums of the files, "
        "each record by itself, and how the records fit together. Prints what the directory "
        "contains, and "
        "what each fault means. Nothing is changed.\n"
        "With --salvage it also says which commits of a damaged log would be lost, and with --into "
        "it copies everything else to a new root directory: also the commits behind those that are "
        "lost. Jobs that ended in a lost commit are then as they were before it, and may run "
        "again; jobs that have lost a part are set apart.\n"
        "Exit code 0: no faults, or the new root directory was written. 1: there are faults. "
        "2: it could not be checked, because a server is using DIR or it is not a root directory.",
    .examples = "  tenax check /var/lib/tenax\n"
                "  tenax check --output json ./tenax-root\n"
                "  tenax check --salvage --into /var/lib/tenax-new /var/lib/tenax\n",
    .options = options,
    .rest = "DIR",
};

struct check {
    const char *dir, *into;
    bool json, salvage;
    struct log_survey survey;
    struct err surveyed; /* whether there is one */
    struct buf salvaged; /* what --salvage says */
    bool written;
    struct audit_counts counts;
    uint64_t of_kind[AUDIT_KINDS];
    struct buf problems;
};

/* --- problems --- */

static void add_json(struct check *c, const struct audit_problem *p)
{
    struct buf *b = &c->problems;
    buf_str(b, b->len ? STR(",\n  {\"code\":") : STR("\n  {\"code\":"));
    json_write_string(b, str_from(audit_wire(p->kind)));
    if (!id_is_none(p->job)) {
        char text[ID_TEXT_LEN];
        id_format(p->job, text);
        buf_lit(b, ",\"job\":");
        json_write_string(b, (struct str){text, sizeof text});
    }
    buf_lit(b, ",\"message\":");
    /* A corrupt name may contain anything. */
    struct buf what = {0};
    table_harmless(&what, str_from(p->what));
    json_write_string(b, buf_view(&what));
    buf_fini(&what);
    buf_lit(b, ",\"meaning\":");
    json_write_string(b, str_from(audit_meaning(p->kind)));
    buf_lit(b, "}");
}

static void add_text(struct check *c, const struct audit_problem *p)
{
    struct buf *b = &c->problems;
    buf_print(b, "%s: ", audit_wire(p->kind));
    if (!id_is_none(p->job)) {
        char text[ID_TEXT_LEN];
        id_format(p->job, text);
        buf_print(b, "job %.*s: ", ID_TEXT_LEN, text);
    }
    table_harmless(b, str_from(p->what));
    buf_lit(b, "\n");
    if (c->of_kind[p->kind] == 1)
        buf_print(b, "  (%s)\n", audit_meaning(p->kind));
}

static void on_problem(void *ctx, const struct audit_problem *p)
{
    struct check *c = ctx;
    if (++c->of_kind[p->kind] > SHOWN_MAX)
        return;
    (c->json ? add_json : add_text)(c, p);
}

/* --- the contents --- */

static void print_json(struct check *c)
{
    const struct audit_counts *n = &c->counts;
    struct buf b = {0};
    buf_lit(&b, "{\"dir\":");
    json_write_string(&b, str_from(c->dir));
    buf_print(&b, ",\"ok\":%s,\"jobs\":{", n->problems ? "false" : "true");
    for (unsigned s = 0; s < STATUS_COUNT; s++)
        buf_print(&b, "%s\"%s\":%llu", s ? "," : "", lifecycle_status_name((enum status)s),
                  (unsigned long long)n->jobs[s]);
    buf_print(&b, "},\"streamed\":%llu,\"runs\":%llu,\"records\":%llu,\"bytes\":%llu",
              (unsigned long long)n->streamed, (unsigned long long)n->runs,
              (unsigned long long)n->records, (unsigned long long)n->bytes);
    buf_print(&b, ",\"problem_count\":%llu,\"problems\":[", (unsigned long long)n->problems);
    buf_str(&b, buf_view(&c->problems));
    buf_lit(&b, "]");
    if (c->salvaged.len) {
        buf_lit(&b, ",\"salvage\":");
        buf_str(&b, buf_view(&c->salvaged));
    }
    buf_lit(&b, "}\n");
    subcommand_print(stdout, &b);
    buf_fini(&b);
}

static void print_text(struct check *c)
{
    const struct audit_counts *n = &c->counts;
    struct buf b = {0};
    buf_str(&b, buf_view(&c->problems));
    for (unsigned k = 0; k < AUDIT_KINDS; k++)
        if (c->of_kind[k] > SHOWN_MAX)
            buf_print(&b, "%s: %llu more\n", audit_wire((enum audit_kind)k),
                      (unsigned long long)(c->of_kind[k] - SHOWN_MAX));
    uint64_t jobs = 0;
    for (unsigned s = 0; s < STATUS_COUNT; s++)
        jobs += n->jobs[s];
    buf_print(&b, "%s: %llu jobs", c->dir, (unsigned long long)jobs);
    for (unsigned s = 0; s < STATUS_COUNT; s++)
        if (n->jobs[s])
            buf_print(&b, ", %llu %s", (unsigned long long)n->jobs[s],
                      lifecycle_status_name((enum status)s));
    buf_print(&b, "; %llu runs; %llu records in %.1f MiB; ", (unsigned long long)n->runs,
              (unsigned long long)n->records, (double)n->bytes / (1024 * 1024));
    if (n->problems)
        buf_print(&b, "%llu problem%s\n", (unsigned long long)n->problems,
                  n->problems == 1 ? "" : "s");
    else
        buf_lit(&b, "no faults found\n");
    buf_str(&b, buf_view(&c->salvaged));
    subcommand_print(stdout, &b);
    buf_fini(&b);
}

/* --- what of the log is lost --- */

static void print_range(struct buf *b, uint64_t first, uint64_t last)
{
    if (first == last)
        buf_print(b, "batch %llu", (unsigned long long)first);
    else
        buf_print(b, "batches %llu to %llu", (unsigned long long)first, (unsigned long long)last);
}

static void name_lost(struct check *c)
{
    uint64_t first, last, from = 0;
    const struct log_survey_batch *before;
    while (log_survey_missing(&c->survey, from, &first, &last, &before)) {
        struct buf what = {0};
        print_range(&what, first, last);
        buf_lit(&what, " of the log cannot be read");
        if (before)
            buf_print(&what, ": segment-%06" PRIu64 " from byte %" PRIu64 " on", before->segment,
                      before->at + before->size);
        if (last < c->survey.last)
            buf_print(&what, "; batch %" PRIu64 " behind it can", last + 1);
        buf_byte(&what, '\0');
        c->counts.problems++;
        on_problem(c, &(struct audit_problem){.kind = AUDIT_LOST, .what = what.at});
        buf_fini(&what);
        from = last + 1;
    }
    if (!c->survey.end_missing)
        return;
    char what[96];
    snprintf(what, sizeof what,
             "the end of the log is missing, with any batches that came after batch %" PRIu64,
             c->survey.last);
    c->counts.problems++;
    on_problem(c, &(struct audit_problem){.kind = AUDIT_LOST, .what = what});
}

static void say_lost_json(struct check *c)
{
    const struct log_survey *s = &c->survey;
    uint64_t first, last, from = 0;
    const struct log_survey_batch *before;
    struct buf *b = &c->salvaged;
    buf_print(b, "{\"batches_readable\":%llu,\"batches_lost\":%llu,\"lost\":[",
              (unsigned long long)s->count, (unsigned long long)s->missing);
    for (; log_survey_missing(s, from, &first, &last, &before); from = last + 1)
        buf_print(b, "%s{\"first\":%llu,\"last\":%llu}", from ? "," : "", (unsigned long long)first,
                  (unsigned long long)last);
    buf_print(b, "],\"end_missing\":%s", s->end_missing ? "true" : "false");
}

static void say_lost_text(struct check *c)
{
    const struct log_survey *s = &c->survey;
    struct buf *b = &c->salvaged;
    uint64_t first, last, from = 0;
    const struct log_survey_batch *before;
    buf_print(b, "salvage: all that tables hold, and %llu batches of the log, can be read; ",
              (unsigned long long)s->count);
    bool lost = s->missing || s->end_missing;
    buf_str(b, lost ? STR("lost would be ") : STR("nothing would be lost"));
    for (; log_survey_missing(s, from, &first, &last, &before); from = last + 1) {
        buf_str(b, from ? STR(", ") : STR(""));
        print_range(b, first, last);
    }
    if (s->end_missing)
        buf_print(
            b, "%sany batches that came after batch %" PRIu64 ", for the end of the log is missing",
            from ? ", and " : "", s->last);
    if (lost)
        buf_lit(b, ": jobs enqueued in them are gone, and jobs that ended or changed in them are "
                   "as before and may run again");
    buf_lit(b, "\n");
}

static void write_salvaged(struct check *c, struct err *e)
{
    struct rocks_salvaged out;
    *e = rocks_salvage(c->dir, &c->survey, c->into, &out);
    c->written = e->code == ERR_OK;
    if (!c->written)
        return;
    if (c->json) {
        buf_lit(&c->salvaged, ",\"into\":");
        json_write_string(&c->salvaged, str_from(c->into));
        buf_print(&c->salvaged, ",\"jobs_set_apart\":%llu", (unsigned long long)out.apart);
    } else {
        buf_print(&c->salvaged,
                  "salvage: %s was written; %llu jobs that have lost a part are set "
                  "apart there\n",
                  c->into, (unsigned long long)out.apart);
    }
}

/* An error: nothing could be written. */
static struct err salvage(struct check *c)
{
    struct err e = c->surveyed;
    if (e.code == ERR_OK && c->json)
        say_lost_json(c);
    else if (e.code == ERR_OK)
        say_lost_text(c);
    if (e.code == ERR_OK && c->into)
        write_salvaged(c, &e);
    if (c->surveyed.code == ERR_OK && c->json)
        buf_lit(&c->salvaged, "}");
    return e;
}

/* --- checking --- */

static struct err lock(const char *dir, int *fd)
{
    TRY(rootdir_check(dir, ROOTDIR_USED));
    return rocks_lock(dir, fd);
}

static void audit(struct check *c)
{
    struct store *s;
    struct err e = rocks_open_reader(c->dir, CACHE_BYTES, &s);
    if (e.code == ERR_OK) {
        audit_run(s, on_problem, c, &c->counts);
        store_close(s);
        return;
    }
    c->counts.problems = 1;
    c->surveyed = rocks_salvage_survey(c->dir, &c->survey);
    bool lost = c->surveyed.code == ERR_OK && (c->survey.missing || c->survey.end_missing);
    on_problem(
        c, &(struct audit_problem){.kind = lost ? AUDIT_LOST : AUDIT_UNREADABLE, .what = e.msg});
    if (lost)
        name_lost(c);
}

static struct err audit_and_salvage(struct check *c)
{
    audit(c);
    if (!c->salvage)
        return err_none();
    if (c->surveyed.code == ERR_OK && !c->survey.from)
        c->surveyed = rocks_salvage_survey(c->dir, &c->survey);
    return salvage(c);
}

static int check(struct check *c)
{
    int fd = -1;
    struct err e = lock(c->dir, &fd);
    if (e.code != ERR_OK) {
        fprintf(stderr, "tenax check: %s\n", e.msg);
        return CLI_USAGE;
    }
    e = audit_and_salvage(c);
    rocks_unlock(fd);
    if (c->json)
        print_json(c);
    else
        print_text(c);
    if (e.code != ERR_OK)
        fprintf(stderr, "tenax check: %s\n", e.msg);
    buf_fini(&c->problems);
    buf_fini(&c->salvaged);
    log_survey_fini(&c->survey);
    if (e.code != ERR_OK)
        return e.code == ERR_USAGE ? CLI_USAGE : CLI_REFUSED;
    return c->counts.problems && !c->written ? CLI_REFUSED : CLI_OK;
}

int check_main(int argc, char **argv)
{
    struct check_args args = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&check_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    bool by_flag = options_source_of(&o, "root-dir") == OPTION_FROM_FLAG;
    const char *dir = o.rest_count ? o.rest[0] : args.root_dir;
    if (o.rest_count > 1 || (o.rest_count && by_flag) || !dir)
        return subcommand_usage(&check_command, "name one root directory");
    if (args.into && !args.salvage)
        return subcommand_usage(&check_command, "--into belongs to --salvage");
    struct check c = {
        .dir = dir, .into = args.into, .salvage = args.salvage, .json = args.output == CLIENT_JSON};
    return check(&c);
}
