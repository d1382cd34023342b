/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

#include "base/duration.h"
#include "client/when.h"

struct watch {
    struct client *client;
    bool terminal;
    bool away;      /* the server did not answer the last time */
    bool any;       /* something was printed */
    uint64_t shown; /* listing.seen of it */
    size_t count;
    sigset_t unblocked;
};

static volatile sig_atomic_t ended;

static void end(int signal)
{
    (void)signal;
    ended = 1;
}

/* Both are blocked while nothing is awaited, so that none is missed right before a wait. */
static void catch_signals(struct watch *w)
{
    struct sigaction act = {.sa_handler = end};
    sigset_t set;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &w->unblocked);
}

/* False once it is to end. */
static bool wait_for(struct watch *w, span time)
{
    struct timespec t = {time.ms / 1000, time.ms % 1000 * 1000000};
    if (!ended)
        pselect(0, NULL, NULL, NULL, &t, &w->unblocked);
    return !ended;
}

/* libcurl calls this about once a second while it waits. */
static int stop_request(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    struct watch *w = ctx;
    (void)a, (void)b, (void)c, (void)d;
    pselect(0, NULL, NULL, NULL, &(struct timespec){0}, &w->unblocked);
    w->client->mute |= ended;
    return ended;
}

/* --- showing --- */

static size_t lines_of_terminal(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 2 ? size.ws_row : 24;
}

/* Adds the lines that have room, each clearing what stood there before. */
static void add_screen(struct buf *screen, struct str text, size_t room)
{
    while (text.len && room) {
        const char *end_of_line = memchr(text.at, '\n', text.len);
        size_t n = end_of_line ? (size_t)(end_of_line - text.at) : text.len;
        bool cut = room == 1 && n + 1 < text.len;
        buf_str(screen, cut ? STR("…") : (struct str){text.at, n});
        buf_lit(screen, "\x1b[K\n");
        n += end_of_line != NULL;
        text = (struct str){text.at + n, text.len - n};
        room--;
    }
}

static void draw(struct watch *w, struct listing *l)
{
    struct buf screen = {0};
    buf_str(&screen, w->any ? STR("\x1b[H") : STR("\x1b[2J\x1b[H"));
    buf_print(&screen, "tenax %s, every ", w->client->command->name);
    duration_write(&screen, w->client->args.watch);
    buf_lit(&screen, "; ");
    when_clock(&screen, w->client->now);
    buf_lit(&screen, "\x1b[K\n\x1b[K\n");
    buf_str(&l->out, buf_view(&l->notes));
    add_screen(&screen, buf_view(&l->out), lines_of_terminal() - 3);
    buf_lit(&screen, "\x1b[J");
    subcommand_print(stdout, &screen);
    fflush(stdout);
    buf_fini(&screen);
}

static void print(struct watch *w, struct listing *l)
{
    if (w->any && w->shown == l->seen && w->count == l->count)
        return;
    if (w->client->args.output == CLIENT_YAML)
        fputs("---\n", stdout);
    else if (w->any && client_for_people(w->client))
        putchar('\n');
    subcommand_print(stdout, &l->out);
    fflush(stdout);
    subcommand_print(stderr, &l->notes);
}

static void show(struct watch *w, struct listing *l)
{
    if (w->away && !w->terminal)
        fprintf(stderr, "tenax %s: the server answers again\n", w->client->command->name);
    w->away = false;
    listing_finish(l);
    if (w->terminal)
        draw(w, l);
    else
        print(w, l);
    w->any = true;
    w->shown = l->seen;
    w->count = l->count;
}

/* --- the loop --- */

/* The server may answer later: it was not reached, or has no time now. */
static bool is_away(const struct watch *w)
{
    return w->client->result == CALL_UNREACHABLE || w->client->result == CALL_TRY_LATER;
}

static void say_away(struct watch *w)
{
    struct buf every = {0};
    if (w->away)
        return;
    duration_write(&every, w->client->args.watch);
    fprintf(stderr, "tenax %s: it is asked again every %.*s\n", w->client->command->name,
            STR_ARG(buf_view(&every)));
    buf_fini(&every);
    w->away = true;
}

static int look(struct watch *w, const struct listing_kind *kind, listing_fetch *fetch, void *ctx)
{
    struct client *c = w->client;
    struct listing l;
    arena_reset(&c->arena);
    c->now = when_now();
    c->width = table_terminal_width(stdout);
    c->mute = w->away;
    c->result = CALL_DONE;
    c->call.body.len = 0;
    listing_init(&l, c, kind);
    int code = fetch(&l, ctx);
    if (code == CLI_OK)
        show(w, &l);
    else if (!ended && is_away(w)) {
        say_away(w);
        code = CLI_OK;
    }
    listing_fini(&l);
    return code;
}

int watch_run(struct client *c, const struct listing_kind *kind, listing_fetch *fetch, void *ctx)
{
    struct watch w = {.client = c, .terminal = c->width > 0};
    catch_signals(&w);
    if (c->call.curl) {
        curl_easy_setopt(c->call.curl, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(c->call.curl, CURLOPT_XFERINFOFUNCTION, stop_request);
        curl_easy_setopt(c->call.curl, CURLOPT_XFERINFODATA, &w);
    }
    int code;
    do
        code = look(&w, kind, fetch, ctx);
    while (code == CLI_OK && !ferror(stdout) && wait_for(&w, c->args.watch));
    return ended ? CLI_OK : code;
}
