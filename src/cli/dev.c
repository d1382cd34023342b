/* SPDX-License-Identifier: Apache-2.0 */

/* tenax dev: a server with throwaway data, its events, and a worker that starts again when its
 * files change, in one terminal. Each is a process of its own (worker/child.h), which also ends if
 * this one is killed. */

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/folder.h"
#include "cli/commands.h"
#include "cli/tree_watch.h"
#include "client/subcommand.h"
#include "client/table.h"
#include "client/when.h"
#include "worker/child.h"

/* Editors and version control write many files at once: the worker starts after the last. */
#define SETTLE_MS 150
/* What is told to end has so long. */
#define GRACE_MS 10000
#define URL_MAX  128

struct dev_args {
    int64_t port;
    const char *root_dir;
    struct option_list watch;
    bool no_events, policies;
};

#define AT(field) .offset = offsetof(struct dev_args, field)

static const struct option_def options[] = {
    {"port", "PORT", OPTION_INT, AT(port), .max = 65535, .def = "7890",
     .help = "the server's port; 0 picks a free one"},
    {"root-dir", "DIR", OPTION_TEXT, AT(root_dir),
     .help = "keep the jobs here, and leave them at the end; otherwise they are in a temporary "
             "directory, which is removed"},
    {"watch", "PATH", OPTION_LIST, AT(watch),
     .help = "restart the command when this file, or a file below this directory, changes; may be "
             "given several times; otherwise the current directory"},
    {"no-events", NULL, OPTION_SWITCH, AT(no_events), .help = "do not print what happens to jobs"},
    {"retry-policies", NULL, OPTION_SWITCH, AT(policies), .help = "enable retry policies"},
    {0},
};

const struct subcommand dev_command = {
    .name = "dev",
    .usage = "[OPTIONS] [[--] COMMAND [ARGUMENT...]]",
    .summary = "try things out: a server, its events and your worker in one terminal",
    .about =
        "Starts a server on 127.0.0.1 whose jobs are thrown away at the end, prints its address "
        "and the console's, and shows what happens to jobs. The command is run beside it, with "
        "TENAX_URL in its environment, and is started again whenever source files change: hidden "
        "files, logs and the directories node_modules, vendor, target, build and __pycache__ do "
        "not count. It is told to end with SIGTERM, and killed 10 seconds later.\n"
        "The server takes its settings from the options here alone: TENAX_… variables, which may "
        "be about a real one, are not passed on to it, and your token and context to nobody. "
        "Ctrl-C ends all.",
    .examples = "  tenax dev\n"
                "  tenax dev -- node worker.js\n"
                "  tenax dev --watch src -- python3 -m myapp.worker\n"
                "  tenax dev -- sh -c 'tenax work --queue mail -- ./send'\n",
    .options = options,
    .rest = "COMMAND",
};

enum part { SERVER, EVENTS, WORKER, PARTS };

struct dev {
    const struct dev_args *args;
    char *const *command; /* NULL: none */
    struct child part[PARTS];
    mono kill_at[PARTS]; /* iff ending */
    bool ending[PARTS];
    char *root; /* a temporary directory, or NULL */
    char url[URL_MAX];
    struct buf line; /* of the server's output, incomplete */
    struct tree_watch *tree;
    int signals;
    mono start_at; /* the worker's next start, iff due */
    bool due, stopping, colour;
    int code;
};

/* A line of our own among those of the others. */
static void say(const struct dev *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(const struct dev *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%stenax dev: ", table_on(TABLE_FAINT, d->colour));
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "%s\n", table_off(TABLE_FAINT, d->colour));
    va_end(args);
}

/* --- environments --- */

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* What names a server, or proves who asks it. */
static bool is_connection(const char *variable)
{
    static const char *const names[] = {
        "URL=",        "CONTEXT=", "CA_CERT=",   "CLIENT_CERT=", "CLIENT_KEY=",
        "TOKEN_FILE=", "TOKEN=",   "ADMIN_URL=", "OUTPUT="};
    for (size_t i = 0; i < COUNT(names); i++)
        if (begins_with(variable + strlen("TENAX_"), names[i]))
            return true;
    return false;
}

static bool is_kept(enum part p, const char *variable)
{
    if (begins_with(variable, "ZIZQ_"))
        return false;
    return !begins_with(variable, "TENAX_") || (p == WORKER && !is_connection(variable));
}

/* Free with free(). */
static char **environment_of(enum part p, char *url)
{
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    char **env = alloc_get((n + 2) * sizeof *env);
    for (size_t i = 0; i < n; i++)
        if (is_kept(p, environ[i]))
            env[used++] = environ[i];
    if (p != SERVER)
        env[used++] = url;
    env[used] = NULL;
    return env;
}

/* --- starting and ending --- */

static struct err start_part(struct dev *d, enum part p, char *const *argv,
                             void (*output)(void *, struct str))
{
    struct buf url = {0};
    buf_print(&url, "TENAX_URL=%s", d->url);
    buf_byte(&url, '\0');
    char **env = environment_of(p, url.at);
    struct child_setting s = {.argv = argv, .env = env, .output = output, .ctx = d};
    struct err e = child_start_as(&d->part[p], &s);
    free(env);
    buf_fini(&url);
    return e;
}

static bool runs(const struct dev *d, enum part p)
{
    return d->part[p].pid != 0;
}

static void end_part(struct dev *d, enum part p)
{
    if (!runs(d, p) || d->ending[p])
        return;
    d->ending[p] = true;
    d->kill_at[p] = when_after(when_mono(), (span){GRACE_MS});
    child_signal(&d->part[p], SIGTERM);
}

/* The worker first, while there is still a server that takes its reports; the server last. */
static void go_on_stopping(struct dev *d)
{
    end_part(d, WORKER);
    if (!runs(d, WORKER))
        end_part(d, EVENTS);
    if (!runs(d, WORKER) && !runs(d, EVENTS))
        end_part(d, SERVER);
}

static void start_worker(struct dev *d)
{
    d->due = false;
    struct err e = start_part(d, WORKER, d->command, NULL);
    if (e.code != ERR_OK)
        say(d, "%s; it is tried again when a file changes", e.msg);
}

static void restart_worker(struct dev *d, const char *name)
{
    if (!d->due)
        say(d, "%s has changed; restarting %s", name, d->command[0]);
    d->due = true;
    d->start_at = when_after(when_mono(), (span){SETTLE_MS});
    end_part(d, WORKER);
}

static void start_events(struct dev *d)
{
    char *argv[] = {"/proc/self/exe", "events", "--follow", "--since", "0", NULL};
    struct err e = d->args->no_events ? err_none() : start_part(d, EVENTS, argv, NULL);
    if (e.code != ERR_OK)
        say(d, "%s", e.msg);
}

static void server_is_ready(struct dev *d)
{
    say(d, "server   %s", d->url);
    say(d, "console  %s/console", d->url);
    say(d, "data     %s%s", d->root ? d->root : d->args->root_dir,
        d->root ? ", removed at the end" : "");
    say(d, "try      %s enqueue --url %s --queue mail --type welcome '{\"to\": \"ada\"}'",
        program_invocation_name, d->url);
    start_events(d);
    if (d->command)
        start_worker(d);
}

/* --- the server's output --- */

static void take_server_line(struct dev *d, struct str line)
{
    static const char listening[] = "Listening on ";
    size_t n = strlen(listening);
    bool first = !*d->url && line.len > n && memcmp(line.at, listening, n) == 0;
    if (first && line.at[line.len - 1] != ')') {
        snprintf(d->url, sizeof d->url, "%.*s", (int)(line.len - n), line.at + n);
        server_is_ready(d);
    } else if (!first) {
        fprintf(stderr, "%.*s\n", STR_ARG(line));
    }
}

static void take_server_output(void *ctx, struct str bytes)
{
    struct dev *d = ctx;
    const char *end;
    buf_str(&d->line, bytes);
    while ((end = memchr(d->line.at, '\n', d->line.len))) {
        size_t n = (size_t)(end - d->line.at);
        take_server_line(d, (struct str){d->line.at, n});
        buf_drop(&d->line, n + 1);
    }
}

static struct err start_server(struct dev *d)
{
    char port[8];
    snprintf(port, sizeof port, "%d", (int)d->args->port);
    char *root = d->root ? d->root : (char *)(uintptr_t)d->args->root_dir;
    char *argv[] = {"/proc/self/exe",
                    "serve",
                    "--host",
                    "127.0.0.1",
                    "--port",
                    port,
                    "--admin-port",
                    "0",
                    "--root-dir",
                    root,
                    "--log-level",
                    "warn",
                    d->args->policies ? "--retry-policy-enabled" : NULL,
                    NULL};
    return start_part(d, SERVER, argv, take_server_output);
}

/* --- the loop --- */

static void describe_end(const struct child *c, char text[40])
{
    if (WIFSIGNALED(c->status))
        snprintf(text, 40, "was ended by signal %d", WTERMSIG(c->status));
    else
        snprintf(text, 40, "ended with %d", WEXITSTATUS(c->status));
}

static void server_ended(struct dev *d)
{
    if (d->stopping)
        return;
    if (d->line.len)
        fprintf(stderr, "%.*s\n", STR_ARG(buf_view(&d->line)));
    if (!*d->url && d->args->port)
        say(d, "the server did not start; --port 0 picks a free port");
    else
        say(d, "the server has ended by itself");
    d->code = CLI_REFUSED;
    d->stopping = true;
}

static void part_ended(struct dev *d, enum part p)
{
    char how[40];
    bool told = d->ending[p];
    d->ending[p] = false;
    if (p == SERVER)
        server_ended(d);
    if (p != WORKER || told)
        return;
    describe_end(&d->part[p], how);
    say(d, "%s %s; it starts again when a file changes", d->command[0], how);
}

static void look_at_part(struct dev *d, enum part p)
{
    if (!runs(d, p))
        return;
    child_pump(&d->part[p]);
    if (child_reap(&d->part[p], true))
        part_ended(d, p);
    else if (d->ending[p] && when_ms_between(when_mono(), d->kill_at[p]) >= 0)
        child_signal(&d->part[p], SIGKILL);
}

static void take_signals(struct dev *d)
{
    struct signalfd_siginfo info;
    while (read(d->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            continue;
        for (enum part p = 0; p < PARTS && d->stopping; p++)
            child_signal(&d->part[p], SIGKILL); /* the second time */
        d->stopping = true;
    }
}

static void take_changes(struct dev *d)
{
    const char *name;
    if (d->tree && tree_watch_changed(d->tree, &name) && *d->url && !d->stopping)
        restart_worker(d, name);
}

static int wait_ms(const struct dev *d)
{
    int64_t least = d->due ? when_ms_between(d->start_at, when_mono()) : 60000;
    for (enum part p = 0; p < PARTS; p++) {
        int64_t left = when_ms_between(d->kill_at[p], when_mono());
        if (d->ending[p] && left < least)
            least = left;
    }
    return least < 0 ? 10 : (int)least + 1;
}

static void wait_for_something(struct dev *d)
{
    struct pollfd fds[PARTS + 2] = {
        {.fd = d->signals, .events = POLLIN},
        {.fd = d->tree ? tree_watch_fd(d->tree) : -1, .events = POLLIN}};
    for (enum part p = 0; p < PARTS; p++)
        fds[p + 2] = (struct pollfd){.fd = runs(d, p) ? d->part[p].err : -1, .events = POLLIN};
    poll(fds, COUNT(fds), wait_ms(d));
}

static bool all_have_ended(const struct dev *d)
{
    return !runs(d, SERVER) && !runs(d, EVENTS) && !runs(d, WORKER);
}

static void run_until_ended(struct dev *d)
{
    while (!d->stopping || !all_have_ended(d)) {
        wait_for_something(d);
        take_signals(d);
        take_changes(d);
        for (enum part p = 0; p < PARTS; p++)
            look_at_part(d, p);
        if (d->stopping)
            go_on_stopping(d);
        else if (d->due && !runs(d, WORKER) && when_ms_between(when_mono(), d->start_at) >= 0)
            start_worker(d);
    }
}

/* --- the beginning --- */

static struct err open_signals(struct dev *d)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    d->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return d->signals >= 0 ? err_none()
                           : err_make(ERR_IO, "cannot wait for signals: %s", strerror(errno));
}

static struct err make_root(struct dev *d)
{
    const char *tmp = getenv("TMPDIR");
    struct buf path = {0};
    if (d->args->root_dir)
        return err_none();
    buf_print(&path, "%s/tenax-dev-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    buf_byte(&path, '\0');
    if (!mkdtemp(path.at)) {
        struct err e = folder_error("make", path.at);
        buf_fini(&path);
        return e;
    }
    d->root = path.at;
    return err_none();
}

static struct err watch_files(struct dev *d)
{
    const struct option_list *paths = &d->args->watch;
    struct err e;
    if (!d->command)
        return err_none();
    d->tree = tree_watch_new(&e);
    for (size_t i = 0; i < paths->count && e.code == ERR_OK; i++)
        e = tree_watch_add(d->tree, paths->at[i]);
    return paths->count || e.code != ERR_OK ? e : tree_watch_add(d->tree, ".");
}

static struct err begin(struct dev *d)
{
    TRY(watch_files(d));
    TRY(open_signals(d));
    TRY(make_root(d));
    return start_server(d);
}

static void dev_fini(struct dev *d)
{
    struct err e = d->root ? folder_remove(d->root) : err_none();
    if (e.code != ERR_OK)
        say(d, "%s", e.msg);
    for (enum part p = 0; p < PARTS; p++)
        child_fini(&d->part[p]);
    tree_watch_free(d->tree);
    if (d->signals >= 0)
        close(d->signals);
    buf_fini(&d->line);
    free(d->root);
}

int dev_main(int argc, char **argv)
{
    struct dev_args args = {0};
    struct options o;
    int code;
    if (!subcommand_begin(&dev_command, OPTIONS_FIRST, argc, argv, &args, &o, &code))
        return code;
    if (o.rest_count && !child_can_run(o.rest[0]))
        return subcommand_usage(&dev_command, "cannot find the command '%.80s'", o.rest[0]);
    if (args.watch.count && !o.rest_count)
        return subcommand_usage(&dev_command, "--watch needs a command to restart");
    struct dev d = {.args = &args,
                    .command = o.rest_count ? o.rest : NULL,
                    .signals = -1,
                    .colour = table_colour(stderr)};
    for (enum part p = 0; p < PARTS; p++)
        d.part[p] = (struct child){.in = -1, .err = -1};
    struct err e = begin(&d);
    if (e.code == ERR_OK) {
        run_until_ended(&d);
    } else {
        fprintf(stderr, "tenax dev: %s\n", e.msg);
        d.code = CLI_REFUSED;
    }
    dev_fini(&d);
    return d.code;
}
