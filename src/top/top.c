/* SPDX-License-Identifier: Apache-2.0 */

/* top: a live view in the terminal. */

#include "top/top.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* Included last: it defines macros with common names. */
#include <curses.h>

struct top_args {
    struct client_args client;
};

static const struct option_def options[] = {
    CLIENT_OPTIONS(struct top_args),
    {0},
};

const struct subcommand top_command = {
    .name = "top",
    .usage = "[OPTIONS]",
    .summary = "watch queues, jobs and workers live, in the terminal",
    .about =
        "Shows how many jobs are in which status, how many come and go per second, and the "
        "jobs themselves; the screen follows every change on the server. Enter shows what "
        "is known about a job with its runs and the reasons, d deletes it, r retries a dead one, "
        "both after confirmation; 8 shows the workers, of which s makes one quiet or gives it jobs "
        "again, and x stops one; / searches, ? explains the keys.\n"
        "It never blocks on the server: it says so when an answer takes long, and keeps "
        "trying when there is none.",
    .examples = "  tenax top\n"
                "  tenax top --url https://jobs.example.org:7890 --ca-cert ca-cert.pem\n",
    .options = options,
};

static volatile sig_atomic_t told_to_end;

static void on_signal(int number)
{
    (void)number;
    told_to_end = 1;
}

static void run(struct top *t)
{
    mono drawn = {0};
    top_model_go(&t->model, TOP_IN_FLIGHT);
    top_feed_want(t, TOP_STALE_ALL);
    t->dirty = true;
    while (!t->quit && !told_to_end) {
        /* Ages and rates change with time. */
        if (t->dirty || when_ms_between(when_mono(), drawn) >= 1000) {
            t->client.now = when_now();
            t->dirty = false;
            top_view_draw(t);
            drawn = when_mono();
        }
        top_feed_turn(t);
        for (int key; (key = getch()) != ERR;)
            top_keys_take(t, key);
    }
}

int top_main(int argc, char **argv)
{
    struct top_args args = {0};
    struct options o;
    static struct top t; /* its calls must stay where they are in memory */
    int code;
    if (!subcommand_begin(&top_command, OPTIONS_ANYWHERE, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count)
        return subcommand_usage(&top_command, "unexpected '%s'", o.rest[0]);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return subcommand_usage(&top_command,
                                "this needs a terminal; `tenax queues` and `tenax jobs` "
                                "print the same into a pipe");
    code = client_open(&t.client, &top_command, &args.client);
    if (code != CLI_OK)
        return code;
    if (!top_view_open()) {
        client_close(&t.client);
        return subcommand_usage(&top_command, "there is no description of this terminal ($TERM)");
    }
    signal(SIGTERM, on_signal);
    signal(SIGHUP, on_signal);
    top_feed_init(&t);
    run(&t);
    top_view_close();
    top_feed_fini(&t);
    top_model_fini(&t.model);
    client_close(&t.client);
    return CLI_OK;
}
