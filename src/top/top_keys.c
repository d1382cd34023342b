/* SPDX-License-Identifier: Apache-2.0 */

/* What the keys do. */

#include <stdio.h>
#include <string.h>

#include "top/top.h"
#include "client/view.h"

/* Included last: it defines macros with common names. */
#include <curses.h>

#define KEY_ESCAPE 27
#define CTRL(key)  ((key)&0x1f)

static void say(struct top *t, bool bad, const char *text)
{
    snprintf(t->message, sizeof t->message, "%s", text);
    t->bad = bad;
}

/* An answer in progress is for what was shown before. */
static void leave_page(struct top *t)
{
    t->ask[TOP_ASK_PAGE].old = t->ask[TOP_ASK_PAGE].call.busy;
    t->ask[TOP_ASK_PAGE].not_before = (mono){0};
    t->ask[TOP_ASK_PAGE].wanted = true;
}

void top_keys_detail(struct top *t, const char *id)
{
    struct top_model *m = &t->model;
    if (strcmp(m->detail, id) == 0)
        return;
    snprintf(m->detail, sizeof m->detail, "%s", id);
    m->job.len = m->runs.len = m->scroll = 0;
    for (enum top_ask ask = TOP_ASK_JOB; ask <= TOP_ASK_RUNS; ask++) {
        t->ask[ask].old = t->ask[ask].call.busy;
        t->ask[ask].not_before = (mono){0};
    }
    top_feed_want(t, TOP_STALE_DETAIL);
}

/* The pane follows the selection. */
static void follow(struct top *t)
{
    struct buf name = {0};
    if (*t->model.detail && t->model.page.count)
        top_keys_detail(t, top_model_name(&t->model, &name));
    buf_fini(&name);
}

static void step_by(struct top *t, long by)
{
    top_model_move(&t->model, by, t->shown);
    follow(t);
}

static void go(struct top *t, int tab)
{
    top_model_go(&t->model, (enum top_tab)((tab + TOP_TABS) % TOP_TABS));
    top_keys_detail(t, "");
    leave_page(t);
}

/* Those of a queue or a worker. */
static void show_jobs(struct top *t, const char *of, const char *name, enum top_tab tab)
{
    char search[sizeof t->model.search];
    snprintf(search, sizeof search, "%s:%s", of, name);
    top_model_search(&t->model, search);
    go(t, (int)tab);
}

static void open_detail(struct top *t)
{
    struct buf name = {0};
    const char *id = top_model_name(&t->model, &name);
    if (!*id)
        say(t, false, "nothing is selected");
    else if (t->model.tab == TOP_QUEUES)
        show_jobs(t, "queue", id, TOP_READY);
    else if (t->model.tab == TOP_WORKERS)
        show_jobs(t, "worker", id, TOP_IN_FLIGHT);
    else
        top_keys_detail(t, *t->model.detail ? "" : id);
    buf_fini(&name);
}

/* --- changes --- */

/* Asks the user to confirm a request about the selected job: its method and the path after the
 * job's. */
static void confirm(struct top *t, const char *method, const char *after, const char *verb,
                    const char *done)
{
    struct buf name = {0}, path = {0};
    const char *id = top_model_name(&t->model, &name);
    if (!*id) {
        say(t, false, "nothing is selected");
    } else {
        buf_lit(&path, "/jobs");
        client_segment(&path, str_from(id));
        buf_str(&path, str_from(after));
        t->body[0] = '\0';
        snprintf(t->method, sizeof t->method, "%s", method);
        snprintf(t->target, sizeof t->target, "%s", client_path(&path));
        snprintf(t->question, sizeof t->question, "%s job %s? (y/n)", verb, id);
        snprintf(t->done, sizeof t->done, "%s %s", done, id);
        t->mode = TOP_MODE_CONFIRM;
    }
    buf_fini(&name);
    buf_fini(&path);
}

static void confirm_queue(struct top *t)
{
    struct buf name = {0}, path = {0};
    const char *queue = top_model_name(&t->model, &name);
    if (*queue) {
        buf_lit(&path, "/jobs/retry");
        client_query(&path, "queue", queue);
        t->body[0] = '\0';
        snprintf(t->method, sizeof t->method, "POST");
        snprintf(t->target, sizeof t->target, "%s", client_path(&path));
        snprintf(t->question, sizeof t->question, "Retry all dead jobs of %.100s? (y/n)", queue);
        snprintf(t->done, sizeof t->done, "retried the dead jobs of %.100s", queue);
        t->mode = TOP_MODE_CONFIRM;
    }
    buf_fini(&name);
    buf_fini(&path);
}

static void retry(struct top *t)
{
    struct arena a = {0};
    struct str status = view_text(&a, top_model_row(&t->model), "status");
    if (t->model.tab == TOP_QUEUES)
        confirm_queue(t);
    else if (t->model.tab == TOP_WORKERS)
        say(t, true, "a job is retried, not a worker: Enter shows the jobs of one");
    else if (status.len && !str_eq(status, STR("dead")))
        say(t, true, "only dead jobs are retried");
    else
        confirm(t, "POST", "/retry", "Retry", "retried");
    arena_fini(&a);
}

static void delete_selected(struct top *t)
{
    if (t->model.tab == TOP_QUEUES)
        say(t, true, "a job is deleted, not a queue: Enter shows the jobs of one");
    else if (t->model.tab == TOP_WORKERS)
        say(t, true, "a job is deleted, not a worker: Enter shows the jobs of one");
    else
        confirm(t, "DELETE", "", "Delete", "deleted");
}

static void cancel(struct top *t)
{
    struct arena a = {0};
    struct str status = view_text(&a, top_model_row(&t->model), "status");
    if (t->model.tab == TOP_QUEUES)
        say(t, true, "a job is canceled, not a queue: s stops a queue");
    else if (t->model.tab == TOP_WORKERS)
        say(t, true, "a job is canceled, not a worker: s makes a worker quiet, x stops it");
    else if (str_eq(status, STR("dead")) || str_eq(status, STR("completed")))
        say(t, true, "it has ended already");
    else
        confirm(t, "POST", "/cancel", "Cancel", "canceled");
    arena_fini(&a);
}

/* The selected queue, or that of the selected job. */
static void pause_queue(struct top *t)
{
    struct arena a = {0};
    struct buf name = {0}, path = {0};
    struct str row = top_model_row(&t->model), queue = view_text(&a, row, "queue");
    bool paused = str_eq(view_get(row, "paused"), STR("true"));
    if (t->model.tab == TOP_QUEUES)
        queue = str_from(top_model_name(&t->model, &name));
    if (!queue.len) {
        say(t, false, "nothing is selected");
    } else {
        buf_lit(&path, "/queues");
        client_segment(&path, queue);
        snprintf(t->method, sizeof t->method, "PATCH");
        snprintf(t->target, sizeof t->target, "%s", client_path(&path));
        snprintf(t->body, sizeof t->body, "{\"paused\":%s}", paused ? "false" : "true");
        snprintf(t->question, sizeof t->question, "%s the queue %.*s? (y/n)",
                 paused ? "Resume" : "Pause", (int)(queue.len < 100 ? queue.len : 100), queue.at);
        snprintf(t->done, sizeof t->done, "%s %.*s", paused ? "resumed" : "paused",
                 (int)(queue.len < 100 ? queue.len : 100), queue.at);
        t->mode = TOP_MODE_CONFIRM;
    }
    buf_fini(&name);
    buf_fini(&path);
    arena_fini(&a);
}

enum worker_action { WORKER_QUIET, WORKER_RESUME, WORKER_STOP };
static const struct {
    const char *path, *before, *after; /* the question: its name stands between these */
    const char *done;                  /* after its name */
} worker_actions[] = {
    [WORKER_QUIET] = {"/quiet", "Give nothing more to", "", "is quiet"},
    [WORKER_RESUME] = {"/resume", "Give jobs again to", "", "is given jobs again"},
    [WORKER_STOP] = {"/stop", "Stop", ", so that its jobs go back", "is stopped"},
};

static void confirm_worker(struct top *t, enum worker_action action)
{
    struct buf name = {0}, path = {0};
    const char *worker = top_model_name(&t->model, &name);
    if (!*worker) {
        say(t, false, "nothing is selected");
    } else {
        buf_lit(&path, "/workers");
        client_segment(&path, str_from(worker));
        buf_str(&path, str_from(worker_actions[action].path));
        t->body[0] = '\0';
        snprintf(t->method, sizeof t->method, "POST");
        snprintf(t->target, sizeof t->target, "%s", client_path(&path));
        snprintf(t->question, sizeof t->question, "%s %.100s%s? (y/n)",
                 worker_actions[action].before, worker, worker_actions[action].after);
        snprintf(t->done, sizeof t->done, "%.100s %s", worker, worker_actions[action].done);
        t->mode = TOP_MODE_CONFIRM;
    }
    buf_fini(&name);
    buf_fini(&path);
}

static void pause_selected(struct top *t)
{
    struct str quiet = view_get(top_model_row(&t->model), "quiet");
    if (t->model.tab == TOP_WORKERS)
        confirm_worker(t, str_eq(quiet, STR("true")) ? WORKER_RESUME : WORKER_QUIET);
    else
        pause_queue(t);
}

static void stop_worker(struct top *t)
{
    if (t->model.tab == TOP_WORKERS && top_rights_ask(t, "stopWorker"))
        confirm_worker(t, WORKER_STOP);
    else if (t->model.tab != TOP_WORKERS)
        say(t, true, "x stops a worker: 8 shows them");
}

static void take_confirm(struct top *t, int key)
{
    t->mode = TOP_MODE_LIST;
    if (key == 'y' || key == 'Y')
        top_feed_act(t);
    else
        say(t, false, "nothing was changed");
}

/* --- the search --- */

static void begin_search(struct top *t)
{
    snprintf(t->typed, sizeof t->typed, "%s", t->model.search);
    t->mode = TOP_MODE_SEARCH;
}

static void take_search(struct top *t, int key)
{
    size_t n = strlen(t->typed);
    if (key == KEY_ESCAPE) {
        t->mode = TOP_MODE_LIST;
    } else if (key == '\n' || key == '\r' || key == KEY_ENTER) {
        t->mode = TOP_MODE_LIST;
        top_model_search(&t->model, t->typed);
        top_keys_detail(t, "");
        leave_page(t);
    } else if (key == KEY_BACKSPACE || key == 127 || key == 8) {
        while (n && ((unsigned char)t->typed[--n] & 0xc0) == 0x80)
            ;
        t->typed[n] = '\0';
    } else if (key == CTRL('u')) {
        t->typed[0] = '\0';
    } else if (key >= ' ' && key < 256 && n + 1 < sizeof t->typed) {
        t->typed[n] = (char)key;
        t->typed[n + 1] = '\0';
    }
}

/* --- the list --- */

static void turn_page(struct top *t, bool forward)
{
    if (top_model_turn(&t->model, forward))
        leave_page(t);
    else if (t->model.loaded)
        say(t, false, forward ? "this is the last page" : "this is the first page");
}

static void scroll_by(struct top *t, long by)
{
    long to = (long)t->model.scroll + by;
    t->model.scroll = to < 0 ? 0 : (size_t)to;
}

static void escape(struct top *t)
{
    if (*t->model.detail) {
        top_keys_detail(t, "");
    } else if (*t->model.search) {
        top_model_search(&t->model, "");
        leave_page(t);
    }
}

static bool take_motion(struct top *t, int key)
{
    long page = t->shown > 1 ? (long)t->shown - 1 : 1;
    switch (key) {
    case KEY_UP:
    case 'k':
        step_by(t, -1);
        return true;
    case KEY_DOWN:
    case 'j':
        step_by(t, 1);
        return true;
    case KEY_PPAGE:
        step_by(t, -page);
        return true;
    case KEY_NPAGE:
    case ' ':
        step_by(t, page);
        return true;
    case KEY_HOME:
    case 'g':
        step_by(t, -1000000);
        return true;
    case KEY_END:
    case 'G':
        step_by(t, 1000000);
        return true;
    case KEY_LEFT:
    case 'h':
    case KEY_BTAB:
        go(t, (int)t->model.tab - 1);
        return true;
    case KEY_RIGHT:
    case 'l':
    case '\t':
        go(t, (int)t->model.tab + 1);
        return true;
    default:
        return false;
    }
}

/* An action on the selected job, its queue, or a worker; false: the key means something else. */
static bool take_action(struct top *t, int key)
{
    switch (key) {
    case '\n':
    case '\r':
    case KEY_ENTER:
        open_detail(t);
        return true;
    case 'd':
    case KEY_DC:
        if (top_rights_ask(t, "deleteJob"))
            delete_selected(t);
        return true;
    case 'r':
        if (top_rights_ask(t, t->model.tab == TOP_QUEUES ? "retryJobs" : "retryJob"))
            retry(t);
        return true;
    case 'c':
        if (top_rights_ask(t, "cancelJob"))
            cancel(t);
        return true;
    case 's':
        if (top_rights_ask(t, t->model.tab == TOP_WORKERS ? "quietWorker" : "patchQueue"))
            pause_selected(t);
        return true;
    case 'x':
        stop_worker(t);
        return true;
    default:
        return false;
    }
}

static void take_list(struct top *t, int key)
{
    if (take_motion(t, key) || take_action(t, key))
        return;
    switch (key) {
    case '1' ... '8':
        go(t, key - '1');
        return;
    case 'W': /* as in the console */
        go(t, TOP_WORKERS);
        return;
    case KEY_ESCAPE:
        escape(t);
        return;
    case '/':
        begin_search(t);
        return;
    case 'n':
        turn_page(t, true);
        return;
    case 'p':
        turn_page(t, false);
        return;
    case '[':
        scroll_by(t, -3);
        return;
    case ']':
        scroll_by(t, 3);
        return;
    case '?':
        t->mode = TOP_MODE_HELP;
        return;
    case 'q':
    case CTRL('c'):
        t->quit = true;
        return;
    default:
        return;
    }
}

void top_keys_take(struct top *t, int key)
{
    t->dirty = true;
    if (key == KEY_RESIZE)
        return;
    if (t->mode == TOP_MODE_LIST)
        t->message[0] = '\0';
    if (t->mode == TOP_MODE_SEARCH)
        take_search(t, key);
    else if (t->mode == TOP_MODE_CONFIRM)
        take_confirm(t, key);
    else if (t->mode == TOP_MODE_HELP)
        t->mode = TOP_MODE_LIST;
    else
        take_list(t, key);
}
