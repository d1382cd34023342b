/* SPDX-License-Identifier: Apache-2.0 */

/* tenax check DIR: reads a root directory that no server is using and reports its faults. */

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "client/client.h"
#include "cli/commands.h"
#include "cli/rootdir.h"
#include "store/audit.h"
#include "store/rocks.h"

#define CACHE_BYTES ((uint64_t)32 * 1024 * 1024)
/* Of each kind; more are only counted. */
#define SHOWN_MAX 100

struct check_args {
    int output;
    const char *root_dir;
};

static const struct option_def options[] = {
    {"root-dir", "DIR", OPTION_TEXT, offsetof(struct check_args, root_dir), .env = "TENAX_ROOT_DIR",
     .help = "the root directory, in the place of the word DIR"},
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
        "Exit code 0: no faults. 1: there are faults. 2: it could not be checked, "
        "because a server is using DIR or it is not a root directory.",
    .examples = "  tenax check /var/lib/tenax\n"
                "  tenax check --output json ./tenax-root\n",
    .options = options,
    .rest = "DIR",
};

struct check {
    const char *dir;
    bool json;
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
    buf_lit(&b, "]}\n");
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
    subcommand_print(stdout, &b);
    buf_fini(&b);
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
    on_problem(c, &(struct audit_problem){.kind = AUDIT_UNREADABLE, .what = e.msg});
}

static int check(struct check *c)
{
    int fd = -1;
    struct err e = lock(c->dir, &fd);
    if (e.code != ERR_OK) {
        fprintf(stderr, "tenax check: %s\n", e.msg);
        return CLI_USAGE;
    }
    audit(c);
    rocks_unlock(fd);
    if (c->json)
        print_json(c);
    else
        print_text(c);
    buf_fini(&c->problems);
    return c->counts.problems ? CLI_REFUSED : CLI_OK;
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
    struct check c = {.dir = dir, .json = args.output == CLIENT_JSON};
    return check(&c);
}
