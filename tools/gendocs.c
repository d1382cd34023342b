/* SPDX-License-Identifier: Apache-2.0 */

/* Prints the documents that are generated from tables of the program, so that they cannot
 * contradict it: gendocs lifecycle | culprits | errors | settings |
 * build-settings. Further, gendocs
 * vocabulary prints the words of those tables that handwritten documents repeat, which
 * tools/vocabulary.py compares; and gendocs routes prints the table of endpoints, from which
 * tools/openapi.py makes docs/openapi.json. */

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/must.h"
#include "server/settings.h"
#include "builds/build_settings.h"
#include "access/rights.h"
#include "api/api.h"
#include "api/api_words.h"
#include "core/culprit.h"
#include "core/lifecycle.h"

#define GENERATED(source)                                                                          \
    "<!-- Generated from " source " by `make docs`; edit that, not this. -->\n\n"

static const char *target_name(enum status s)
{
    return s == STATUS_GONE ? "gone" : lifecycle_status_name(s);
}

static void write_statuses(struct buf *b)
{
    buf_lit(b, "| Status | Meaning |\n|---|---|\n");
    for (int s = 0; s < STATUS_COUNT; s++)
        buf_print(b, "| `%s` | %s |\n", lifecycle_status_name((enum status)s),
                  lifecycle_status_meaning((enum status)s));
}

static void write_events(struct buf *b)
{
    buf_lit(b, "| Event | In `GET /events` | Meaning |\n|---|---|---|\n");
    for (int e = 0; e < EVENT_COUNT; e++)
        buf_print(b, "| `%s` | `%s` | %s |\n", lifecycle_event_name((enum event)e),
                  lifecycle_event_kind((enum event)e), lifecycle_event_meaning((enum event)e));
}

static void write_moves(struct buf *b)
{
    buf_lit(b, "| Status |");
    for (int e = 0; e < EVENT_COUNT; e++)
        buf_print(b, " `%s` |", lifecycle_event_name((enum event)e));
    buf_lit(b, "\n|---|");
    for (int e = 0; e < EVENT_COUNT; e++)
        buf_lit(b, "---|");
    for (int s = 0; s <= STATUS_GONE; s++) {
        buf_print(b, "\n| `%s` |", target_name((enum status)s));
        for (int e = 0; e < EVENT_COUNT; e++) {
            enum status to;
            bool may = lifecycle_next((enum status)s, (enum event)e, &to);
            buf_print(b, " %s |", may ? target_name(to) : "");
        }
    }
    buf_lit(b, "\n");
}

/* RANK (core/engine_internal.h) in words. */
static void write_order(struct buf *b)
{
    buf_lit(b,
            "\n## In what order ready jobs are handed out\n\n"
            "Ready jobs are compared by `priority`, then kind, then id:\n\n"
            "1. The lowest `priority` comes first.\n"
            "2. At the same priority, retries that a [policy](policies.md) granted come before all "
            "other jobs, even before older ones that never ran.\n"
            "3. Within one kind, the job that was enqueued first comes first. Retries by a job's "
            "own `backoff`, at the time that a worker asked for (`retry_at`) or after an expired "
            "lease are jobs like any other: they keep their place by age.\n\n"
            "A share keeps new jobs from starving: while both kinds wait in a queue at its lowest "
            "`priority`, `--retries-share` percent of the jobs that it hands out (15) are "
            "granted retries, and the rest are others. When it is the turn of the others and the "
            "queue has none, its retries count as others for workers that take from several "
            "queues.\n\n"
            "A retry counts as granted until its run ends: it keeps its place across a restart, a "
            "lost worker, `release` and `PATCH`. The next failure decides anew, and a job that was "
            "brought back by hand is not a granted retry. A gang has the place of its first "
            "member.\n");
}

static void write_lifecycle(struct buf *b)
{
    buf_lit(b, GENERATED("src/core/lifecycle.def"));
    buf_lit(b, "# The life of a job\n\n## Statuses\n\n");
    write_statuses(b);
    buf_lit(b, "\n## What can happen to a job\n\n");
    write_events(b);
    buf_lit(b, "\n## Where it leads\n\nAn empty cell is refused. `gone`: the job no longer exists."
               "\n\n");
    write_moves(b);
    write_order(b);
}

static void write_errors(struct buf *b)
{
    buf_lit(b, GENERATED("src/base/errors.def"));
    buf_lit(b, "# Error codes\n\n"
               "An error is JSON with `error`, a sentence for a person, and `code`, one of these. "
               "*Retry*: the same request may succeed later.\n\n"
               "| `code` | HTTP status | Retry | Meaning |\n|---|---|---|---|\n");
    for (int c = ERR_OK + 1; c < ERR_COUNT; c++)
        buf_print(b, "| `%s` | %d | %s | %s |\n", err_wire((enum err_code)c),
                  err_status((enum err_code)c), err_retryable((enum err_code)c) ? "yes" : "",
                  err_meaning((enum err_code)c));
}

static void write_builds(struct buf *b)
{
    buf_lit(b, "# Settings of the build worker\n\n");
    buf_lit(b, GENERATED("src/builds/build_settings.def"));
    buf_lit(b,
            "For `tenax build-worker` ([builds](builds.md)). A variable overrides the file, and an "
            "empty variable counts as not set. Objects and arrays are JSON in a variable. "
            "Members of the file that are not listed are passed over.\n\n");
    build_settings_markdown(b);
}

static void write_rights(struct buf *b)
{
    buf_lit(b, GENERATED("src/access/rights.def"));
    buf_lit(b,
            "# Rights\n\n[access.md](access.md) explains tokens, roles and queues. The last column "
            "says what credentials that are limited to queues may do.\n\n");
    rights_markdown(b);
}

static void write_settings(struct buf *b)
{
    buf_lit(b, GENERATED("src/server/settings.c"));
    buf_lit(b, "# Settings of the server\n\n"
               "A flag of `tenax serve` overrides its variable, which overrides its alias, which "
               "overrides the file that `--config` names, which overrides the default. An empty "
               "variable counts as not set. In the file, settings have the names of their flags "
               "without the dashes; those with a ↻ are read again on SIGHUP. See "
               "[operations.md](operations.md). \n\n"
               "Durations are written `30s`, `1.5h`, `2hours 5min`, `1week`, or as milliseconds: "
               "numbers with the units of Rust's humantime, which are ns, us, ms, s (sec, "
               "second), m (min, minute), h (hr, hour), d (day), w (week), M (month, 30.44 days) "
               "and y (year, 365 days), with or without spaces and a plural. What is below a "
               "millisecond is rounded, but never to 0. Sizes are written `64MiB`, `1.5GB`, "
               "`10 mb`, or as bytes: k, kb, m, mb, g, gb ... are powers of 1000, ki, kib, mi, "
               "mib, gi, gib ... of 1024, in any case. The command line and `undo=` of the API "
               "take durations in the same form.\n\n");
    options_markdown(b, settings_command.options);
}

/* --- culprits --- */

static const char *quoted(const char *kind, const char *name)
{
    static char text[64];
    snprintf(text, sizeof text, "%s `%s`", kind, name);
    return text;
}

static const char *exception(enum outcome o)
{
    return quoted("exception", job_outcome_name(o));
}

static const char *condition_name(enum condition c)
{
    return quoted("condition", job_condition_name(c));
}

static void write_culprits(struct buf *b)
{
    buf_lit(b, "# Whose fault a failure was\n\n");
    buf_lit(b, GENERATED("src/core/culprits.def and src/core/culprit_signs.def"));
    buf_lit(b,
            "Every run that failed, and every one that ended without a word of its worker, has a\n"
            "`culprit` and, as `culprit_evidence`, a sentence that says how that is known. Runs,\n"
            "errors and events show both, and so do `tenax job`, `tenax explain` and the console.\n"
            "Runs of versions that did not know culprits have none, nor have runs that were given\n"
            "back or canceled.\n\n"
            "| Culprit | Free retries | Meaning |\n|---|---|---|\n");
    const struct culprit_bounds bounds = culprit_bounds_default();
    for (int c = CULPRIT_NONE + 1; c < CULPRIT_COUNT; c++)
        buf_print(b, "| `%s` | %u | %s |\n", culprit_name((enum culprit)c), bounds.free[c],
                  culprit_sentence((enum culprit)c));
    buf_lit(
        b,
        "\n## What it costs\n\n"
        "Where no retry policy decides and the worker says nothing itself (`kill`,\n"
        "`retry_at`), a retry after a failure that is somebody else's fault is free: it spends\n"
        "nothing of the job's `retry_limit`, even if that is 0, and its wait is that of the\n"
        "first, second ... retry of its kind. The table says how many of them a job may have\n"
        "for each culprit, counted by itself and over restarts; `tenax serve --free-retries`\n"
        "sets other bounds. Beyond the bound the job is charged, and the reason of the run says\n"
        "so: \"dead: no retries are allowed; all 20 free retries after failures of culprit\n"
        "disruption are used up\". Bringing the job back by hand forgets all of them.\n\n"
        "The following stays as it was: retry policies decide by their rules, which may name\n"
        "culprits themselves (`onCulprit`), and count by them; `when_no_policy: fail` means\n"
        "that nothing is retried; exceptions that are final (`malformed-payload`,\n"
        "`resource-unavailable`, `internal-error`, `superseded`) end the\n"
        "job; a worker that took a job by a confirmed claim and fell silent costs it a retry,\n"
        "for the job may be what silenced it; the retries of Taskcluster's tasks are counted\n"
        "by Taskcluster's rules. While policies are enabled `globalMaxRetries` caps free\n"
        "retries, too, unless `globalMaxRetriesExempt` names their culprit.\n");
    buf_lit(b,
            "\n## How it is found\n\n"
            "The first of these that says anything counts:\n\n"
            "1. what the report of the failure names as `culprit`, with its "
            "`culprit_evidence`;\n"
            "2. the exception that it reports;\n"
            "3. its `condition`, or that of the first container that failed;\n"
            "4. a failure `category` with the name of a culprit, which the\n"
            "   [failure categories](policies.md#failure-categories) may give by your rules;\n"
            "5. the signal that ended the process, or an exit code of 128 and more;\n"
            "6. its exit code, by the names of `sysexits.h`;\n"
            "7. otherwise it is the `job`.\n\n"
            "A worker that falls silent is to blame itself (`worker`), unless its lease ran out\n"
            "while the server was away (`server`). Of a run that ends because another member of\n"
            "its gang failed it is the `gang`, of one whose job's deadline came the `deadline`.\n"
            "\n| Sign | Culprit | Evidence |\n|---|---|---|\n");
#define SIGN(sign, id, evidence)                                                                   \
    buf_print(b, "| %s | `%s` | %s |\n", sign, culprit_name(CULPRIT_##id), evidence);
#define EXCEPTION(outcome, id, evidence)   SIGN(exception(OUTCOME_##outcome), id, evidence)
#define CONDITION(condition, id, evidence) SIGN(condition_name(CONDITION_##condition), id, evidence)
#define SIGNAL(number, name, id, evidence)                                                         \
    SIGN("signal " name ", exit code 128 + " #number, id, evidence)
#define EXIT(code, id, evidence) SIGN("exit code " #code, id, evidence)
#include "core/culprit_signs.def"
}

/* --- vocabulary --- */

/* A line for each table: its name, and its words. */
static void write_vocabulary(struct buf *b)
{
    static const struct {
        const char *name;
        const struct shape_words *words;
    } tables[] = {
        {"status", &api_status_words},
        {"event", &api_event_words},
        {"cause", &api_cause_words},
        {"outcome", &api_outcome_words},
        {"resolution", &api_resolution_words},
        {"condition", &api_condition_words},
        {"culprit", &api_culprit_words},
        {"decided_by", &api_decider_words},
        {"unique_while", &api_unique_words},
        {"when", &api_when_words},
        {"on_dependency_death", &api_death_words},
        {"when_no_policy", &api_fallback_words},
        {"explain", &api_obstacle_words},
        {"strategy", &api_strategy_words},
        {"error", &api_error_words},
    };
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        const struct shape_words *words = tables[t].words;
        buf_str(b, str_from(tables[t].name));
        for (int i = 0; i < words->count; i++) {
            const char *word = words->word(i);
            must(word || i == 0); /* 0 may stand for "none" */
            buf_print(b, "%s%s", word ? " " : "", word ? word : "");
        }
        buf_lit(b, "\n");
    }
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*write)(struct buf *b);
    } documents[] = {{"lifecycle", write_lifecycle},   {"errors", write_errors},
                     {"culprits", write_culprits},     {"settings", write_settings},
                     {"rights", write_rights},         {"build-settings", write_builds},
                     {"vocabulary", write_vocabulary}, {"routes", api_write_routes}};
    for (size_t i = 0; argc == 2 && i < sizeof documents / sizeof *documents; i++) {
        if (strcmp(argv[1], documents[i].name) != 0)
            continue;
        struct buf b = {0};
        documents[i].write(&b);
        bool written = fwrite(b.at, 1, b.len, stdout) == b.len && fflush(stdout) == 0;
        buf_fini(&b);
        return written ? 0 : 1;
    }
    fprintf(stderr,
            "usage: gendocs lifecycle|culprits|errors|settings|build-settings|vocabulary|routes\n");
    return 2;
}
