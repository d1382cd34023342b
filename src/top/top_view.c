/* SPDX-License-Identifier: Apache-2.0 */

/* What `tenax top` looks like. Everything is drawn anew to ncurses' image of the screen, which
 * sends only what has changed: that keeps it usable on a slow connection. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/array.h"
#include "base/duration.h"
#include "client/jobtext.h"
#include "top/top.h"
#include "client/view.h"
#include "client/when.h"
#include "client/workertext.h"

/* Included last: it defines macros with common names. */
#include <curses.h>

#define WIDTH_MIN  40
#define HEIGHT_MIN 10
#define WIDTH_FULL 72   /* below this, words are truncated and columns left out */
#define WIDTH_TABS 80   /* below this, only the current tab has its name */
#define LIST_AT    6    /* the first row of the list */
#define WAIT_SHOWN 1000 /* milliseconds after which waiting is reported */

enum colour { PLAIN, BUSY, GOOD, WAIT, BAD };

static bool colours;

bool top_view_open(void)
{
    if (!newterm(NULL, stdout, stdin))
        return false;
    raw();
    noecho();
    nodelay(stdscr, TRUE);
    keypad(stdscr, TRUE);
    set_escdelay(25);
    curs_set(0);
    const char *no = getenv("NO_COLOR");
    colours = has_colors() && !(no && *no);
    if (colours) {
        start_color();
        use_default_colors();
        init_pair(BUSY, COLOR_CYAN, -1);
        init_pair(GOOD, COLOR_GREEN, -1);
        init_pair(WAIT, COLOR_YELLOW, -1);
        init_pair(BAD, COLOR_RED, -1);
    }
    return true;
}

void top_view_close(void)
{
    endwin();
}

static attr_t look(enum colour c)
{
    return colours && c != PLAIN ? (attr_t)COLOR_PAIR(c) : A_NORMAL;
}

/* Writes as much of a text as fits into the cells, and pads with blanks. Returns how many cells the
 * text took. */
static int put(int y, int x, int cells, attr_t attr, struct str text)
{
    struct buf safe = {0};
    mbstate_t state = {0};
    int used = 0;
    table_harmless(&safe, text);
    attrset((int)attr);
    move(y, x);
    for (size_t i = 0; i < safe.len;) {
        wchar_t c;
        size_t n = mbrtowc(&c, safe.at + i, safe.len - i, &state);
        if (n == 0 || n > safe.len - i)
            break;
        int w = wcwidth(c);
        if (w < 0 || used + w > cells)
            break;
        addnstr(safe.at + i, (int)n);
        used += w;
        i += n;
    }
    for (int i = used; i < cells; i++)
        addch(' ');
    attrset(A_NORMAL);
    buf_fini(&safe);
    return used;
}

static int put_z(int y, int x, int cells, attr_t attr, const char *text)
{
    return put(y, x, cells, attr, str_from(text));
}

static bool is_narrow(void)
{
    return COLS < WIDTH_FULL;
}

/* --- the head --- */

static void write_count(struct buf *b, int64_t v)
{
    if (v >= 10000000)
        buf_print(b, "%lldM", (long long)(v / 1000000));
    else if (v >= 100000)
        buf_print(b, "%lldk", (long long)(v / 1000));
    else
        buf_print(b, "%lld", (long long)v);
}

static void draw_title(const struct top *t)
{
    struct buf right = {0};
    span waiting = top_feed_waiting(t);
    attr_t attr = A_REVERSE;
    if (t->down) {
        buf_lit(&right, "NO ANSWER, trying again ");
        attr |= A_BOLD;
    } else if (waiting.ms >= WAIT_SHOWN) {
        buf_lit(&right, "waiting for the server, ");
        duration_write(&right, (span){waiting.ms / 1000 * 1000});
        buf_byte(&right, ' ');
    } else {
        buf_str(&right, t->model.live ? STR("live ")
                        : t->polls    ? STR("every 2 s ")
                                      : STR("connecting "));
    }
    int width = (int)right.len < COLS ? (int)right.len : COLS;
    struct buf left = {0};
    buf_print(&left, " tenax top  %s", t->client.url);
    put(0, 0, COLS, attr, buf_view(&left));
    put(0, COLS - width, width, attr, buf_view(&right));
    buf_fini(&left);
    buf_fini(&right);
}

static const struct {
    const char *name;
    enum colour colour;
    char fill; /* of its part of the bar, for those who cannot see colours */
    enum top_tab tab;
} parts[] = {{"in flight", BUSY, '#', TOP_IN_FLIGHT}, {"ready", GOOD, '=', TOP_READY},
             {"scheduled", WAIT, '-', TOP_SCHEDULED}, {"dead", BAD, 'x', TOP_DEAD},
             {"blocked", WAIT, '.', TOP_BLOCKED},     {"done", PLAIN, '+', TOP_DONE}};
#define PARTS     COUNT(parts)
#define PARTS_BAR 5 /* ended jobs are not part of the load */

static void draw_counts(struct top *t)
{
    int x = 1;
    put_z(1, 0, COLS, A_NORMAL, "");
    for (size_t i = 0; i < PARTS; i++) {
        struct buf b = {0};
        buf_print(&b, "%.*s ", is_narrow() ? 4 : 20, parts[i].name);
        if (t->model.counted)
            write_count(&b, t->model.counts[parts[i].tab]);
        else
            buf_byte(&b, '?');
        if (x < COLS)
            x += put(1, x, COLS - x, look(parts[i].colour) | A_BOLD, buf_view(&b)) +
                 (is_narrow() ? 1 : 2);
        buf_fini(&b);
    }
}

static void draw_rates(struct top *t)
{
    static const char *const rates[] = {"in", "taken", "done", "failed"};
    struct buf b = {0};
    for (size_t r = 0; r < TOP_RATES && t->model.live; r++)
        buf_print(&b, "%s %.1f/s  ", rates[r],
                  top_model_rate(&t->model, (enum top_rate)r, top_second()));
    if (!t->model.live)
        buf_lit(&b, "rates are not known");
    put(2, 1, COLS - 1, A_NORMAL, buf_view(&b));
    buf_fini(&b);
    if (*t->model.search) {
        struct buf search = {0};
        buf_print(&search, "/%s ", t->model.search);
        int width = (int)search.len < COLS / 2 ? (int)search.len : COLS / 2;
        put(2, COLS - width, width, look(WAIT) | A_BOLD, buf_view(&search));
        buf_fini(&search);
    }
}

/* The distribution of jobs over the statuses. Any status with jobs has at least one cell. */
static void draw_bar(const struct top *t)
{
    int64_t total = 0;
    int width = COLS - 2, used = 0;
    for (size_t i = 0; i < PARTS_BAR; i++)
        total += t->model.counts[parts[i].tab];
    put_z(3, 0, COLS, A_NORMAL, "");
    mvaddch(3, 0, '[');
    for (size_t i = 0; i < PARTS_BAR && total > 0; i++) {
        int64_t count = t->model.counts[parts[i].tab];
        int cells = (int)((double)count / (double)total * width + 0.5);
        cells = count && cells == 0 ? 1 : cells;
        for (int k = 0; k < cells && used < width; k++, used++)
            mvaddch(3, 1 + used, (chtype)parts[i].fill | look(parts[i].colour));
    }
    mvaddch(3, COLS - 1, ']');
}

static void draw_tabs(const struct top *t)
{
    static const char *const names[] = {"1 In flight", "2 Ready",   "3 Sched", "4 Dead",
                                        "5 Queues",    "6 Blocked", "7 Done",  "8 Workers"};
    bool tight = COLS < WIDTH_TABS;
    int x = tight ? 0 : 1, gap = tight || COLS >= WIDTH_TABS + TOP_TABS;
    put_z(4, 0, COLS, A_NORMAL, "");
    for (int i = 0; i < TOP_TABS; i++) {
        struct buf b = {0};
        /* Also in brackets: not every terminal shows reversed text. */
        bool here = (int)t->model.tab == i;
        /* If there is little room, the others are only numbers. */
        buf_print(&b, here ? "[%.*s]" : " %.*s ", tight && !here ? 1 : 20, names[i]);
        attr_t attr = (int)t->model.tab == i ? A_REVERSE | A_BOLD : A_NORMAL;
        if (x < COLS)
            x += put(4, x, (int)b.len < COLS - x ? (int)b.len : COLS - x, attr, buf_view(&b)) + gap;
        buf_fini(&b);
    }
}

/* --- the list --- */

/* Where columns begin. Names share what the fixed columns leave, up to what they need; the last
 * column gets all the rest: of jobs the worker or reason, of workers the queues. */
#define COLUMNS_MAX 7
struct columns {
    int count;
    int at[COLUMNS_MAX + 1]; /* and the end */
};

#define NAME_WIDE 40
#define WHEN_WIDE 16

/* Cells that the names of the page need. */
enum { WIDE_QUEUE, WIDE_TYPE, WIDE_WORKER, WIDE_ADDRESS, WIDE_VERSION, WIDE_NAMES };
static int name_widths[WIDE_NAMES];

static void measure_names(const struct top_page *p)
{
    static const char *const keys[] = {"queue", "type", "name", "address", "version"};
    static const int heads[] = {6, 6, 7, 8, 8};
    for (int k = 0; k < WIDE_NAMES; k++) {
        name_widths[k] = heads[k];
        for (size_t i = 0; i < p->count; i++) {
            struct arena a = {0};
            int width = (int)table_width(view_text(&a, p->rows[i], keys[k])) + 1;
            name_widths[k] = width > name_widths[k] ? width : name_widths[k];
            arena_fini(&a);
        }
    }
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static struct columns arrange_jobs(void)
{
    bool narrow = is_narrow();
    int id = narrow ? 9 : TOP_ID_LEN + 2;
    int attempts = narrow ? 0 : 4, when = narrow ? 13 : WHEN_WIDE;
    int most = smaller(NAME_WIDE, (COLS - id - attempts - when) * (narrow ? 10 : 7) / 20);
    struct columns c = {6, {1, id}};
    c.at[2] = id + smaller(name_widths[WIDE_QUEUE], most);
    c.at[3] = narrow ? c.at[2] : c.at[2] + smaller(name_widths[WIDE_TYPE], most);
    c.at[4] = c.at[3] + attempts;
    c.at[5] = c.at[4] + when;
    c.at[6] = COLS;
    return c;
}

/* Name, state, runs, last seen, address, version, queues. */
static struct columns arrange_workers(void)
{
    bool narrow = is_narrow();
    int state = 6, runs = narrow ? 4 : 10, seen = narrow ? 11 : 12;
    int room = COLS - 1 - state - runs - seen;
    struct columns c = {7, {1}};
    c.at[1] = 1 + smaller(name_widths[WIDE_WORKER], narrow ? room * 2 / 3 : room * 3 / 10);
    c.at[2] = c.at[1] + state;
    c.at[3] = c.at[2] + runs;
    c.at[4] = c.at[3] + seen;
    c.at[5] = c.at[4] + (narrow ? 0 : smaller(name_widths[WIDE_ADDRESS], room / 3));
    c.at[6] = c.at[5] + (narrow ? 0 : smaller(name_widths[WIDE_VERSION], room * 2 / 7));
    c.at[7] = COLS;
    return c;
}

static void draw_cells(int y, attr_t attr, const struct columns *c, const struct str *text)
{
    put_z(y, 0, COLS, attr, "");
    for (int i = 0; i < c->count; i++) {
        int room = c->at[i + 1] - c->at[i];
        if (room > 1 && c->at[i] < COLS)
            put(y, c->at[i], room - (c->at[i + 1] < COLS), attr, text[i]);
    }
}

/* Its worker, its progress, and its note. */
static void write_run(struct buf *b, struct arena *a, struct str row)
{
    struct str progress = view_get(row, "progress"), value = view_get(progress, "value");
    struct str note = view_text(a, progress, "note");
    buf_str(b, view_text(a, row, "worker"));
    if (value.len) {
        char number[32];
        snprintf(number, sizeof number, "%.*s", (int)(value.len < 31 ? value.len : 31), value.at);
        buf_print(b, " %.0f %%", strtod(number, NULL) * 100);
    }
    if (note.len)
        buf_print(b, " %.*s", STR_ARG(note));
}

/* How long it has been running, which advances between requests. */
static void write_elapsed(struct buf *b, const struct top *t, struct str row)
{
    instant taken = view_time(row, "dequeued_at");
    int64_t ms = instant_is_set(taken) ? t->client.now.ms - taken.ms : 0;
    buf_lit(b, "for ");
    duration_write(b, (span){ms > 0 ? ms / 1000 * 1000 : 0});
}

static void draw_job(const struct top *t, int y, attr_t attr, struct str row)
{
    struct arena a = {0};
    struct buf when = {0}, last = {0};
    struct columns c = arrange_jobs();
    bool runs = str_eq(view_text(&a, row, "status"), STR("in_flight"));
    if (runs)
        write_elapsed(&when, t, row);
    else
        jobtext_when(&when, &a, row, t->client.now);
    if (runs)
        write_run(&last, &a, row);
    else
        jobtext_why(&last, &a, row);
    struct str id = view_text(&a, row, "id");
    if (is_narrow() && id.len > 7) /* jobs that were enqueued together differ at the end */
        id = (struct str){id.at + id.len - 7, 7};
    const struct str text[] = {id,
                               view_text(&a, row, "queue"),
                               view_text(&a, row, "type"),
                               view_text(&a, row, "attempts"),
                               buf_view(&when),
                               buf_view(&last)};
    draw_cells(y, attr, &c, text);
    buf_fini(&when);
    buf_fini(&last);
    arena_fini(&a);
}

static const char *const queue_counts[] = {"ready", "in_flight", "scheduled", "dead"};
#define QUEUE_COLUMN (is_narrow() ? 7 : 11)

static void draw_queue(int y, attr_t attr, struct str row)
{
    struct arena a = {0};
    bool bare = row.len && row.at[0] == '"';
    struct str name = bare ? (struct str){row.at + 1, row.len - 2} : view_text(&a, row, "name");
    int width = COLS - 5 * QUEUE_COLUMN - 1;
    struct str jobs = view_get(row, "jobs");
    bool paused = str_eq(view_get(row, "paused"), STR("true"));
    put_z(y, 0, COLS, attr, "");
    put(y, 1, width > 10 ? width - 1 : 10, attr, name);
    for (int i = 0; i < 5; i++) {
        struct buf b = {0};
        int64_t v = 0;
        int x = (width > 10 ? width : 10) + i * QUEUE_COLUMN;
        if (i < 4 && view_int(jobs, queue_counts[i], &v))
            write_count(&b, v);
        else if (i == 4 && paused)
            buf_lit(&b, "paused");
        else if (i == 4 && view_int(row, "oldest_ready_age_ms", &v))
            duration_write(&b, (span){v});
        struct buf cell = {0};
        buf_print(&cell, "%*.*s", QUEUE_COLUMN, STR_ARG(buf_view(&b)));
        if (x + QUEUE_COLUMN <= COLS)
            put(y, x, QUEUE_COLUMN, attr, buf_view(&cell));
        buf_fini(&b);
        buf_fini(&cell);
    }
    arena_fini(&a);
}

static void draw_worker(const struct top *t, int y, attr_t attr, struct str row)
{
    struct arena a = {0};
    struct buf seen = {0}, queues = {0};
    struct columns c = arrange_workers();
    instant last = view_time(row, "last_seen");
    if (instant_is_set(last))
        when_relative(&seen, last, t->client.now);
    workertext_queues(&queues, row);
    const struct str text[] = {view_text(&a, row, "name"),
                               workertext_state(row),
                               view_text(&a, row, "in_flight"),
                               buf_view(&seen),
                               view_text(&a, row, "address"),
                               view_text(&a, row, "version"),
                               buf_view(&queues)};
    draw_cells(y, attr, &c, text);
    buf_fini(&seen);
    buf_fini(&queues);
    arena_fini(&a);
}

static void draw_job_heads(attr_t attr, bool run)
{
    struct columns c = arrange_jobs();
    const struct str text[] = {STR("JOB"), STR("QUEUE"), STR("TYPE"),
                               STR("TRY"), STR("WHEN"),  run ? STR("WORKER") : STR("WHY")};
    draw_cells(5, attr, &c, text);
}

static void draw_worker_heads(attr_t attr)
{
    struct columns c = arrange_workers();
    const struct str text[] = {
        STR("WORKER"),    STR("STATE"),   is_narrow() ? STR("RUN") : STR("IN FLIGHT"),
        STR("LAST SEEN"), STR("ADDRESS"), STR("VERSION"),
        STR("QUEUES")};
    draw_cells(5, attr, &c, text);
}

static void draw_queue_heads(attr_t attr)
{
    static const char *const wide[] = {"READY", "IN FLIGHT", "SCHEDULED", "DEAD", "OLDEST"};
    static const char *const narrow[] = {"READY", "RUN", "SCHED", "DEAD", "OLDEST"};
    const char *const *heads = is_narrow() ? narrow : wide;
    int width = COLS - 5 * QUEUE_COLUMN - 1;
    put_z(5, 0, COLS, attr, " QUEUE");
    for (int i = 0; i < 5; i++) {
        char cell[16];
        snprintf(cell, sizeof cell, "%*s", QUEUE_COLUMN, heads[i]);
        int x = (width > 10 ? width : 10) + i * QUEUE_COLUMN;
        if (x + QUEUE_COLUMN <= COLS)
            put_z(5, x, QUEUE_COLUMN, attr, cell);
    }
}

static void draw_heads(const struct top *t)
{
    if (t->model.tab == TOP_QUEUES)
        draw_queue_heads(A_UNDERLINE);
    else if (t->model.tab == TOP_WORKERS)
        draw_worker_heads(A_UNDERLINE);
    else
        draw_job_heads(A_UNDERLINE, t->model.tab == TOP_IN_FLIGHT);
}

static void draw_empty(const struct top *t)
{
    bool workers = t->model.tab == TOP_WORKERS;
    const char *words =
        !t->model.loaded ? "..."
        : !*t->model.search
            ? workers ? "no worker that has a name (--worker, Worker-Id)" : "nothing"
        : workers ? "no worker's name has this in it"
                  : "nothing matches; queue:NAME, type:NAME, worker:NAME, a job's id, or "
                    "a jq filter that begins with a dot";
    put_z(LIST_AT, 1, COLS - 1, A_DIM, words);
}

static void draw_list(struct top *t, int rows)
{
    struct top_model *m = &t->model;
    t->shown = (size_t)rows;
    top_model_move(m, 0, t->shown);
    for (int i = 0; i < rows; i++) {
        size_t at = m->top + (size_t)i;
        attr_t attr = at == m->selected ? A_REVERSE : t->down ? A_DIM : A_NORMAL;
        if (at >= m->page.count || !m->loaded)
            put_z(LIST_AT + i, 0, COLS, A_NORMAL, "");
        else if (m->tab == TOP_QUEUES)
            draw_queue(LIST_AT + i, attr, m->page.rows[at]);
        else if (m->tab == TOP_WORKERS)
            draw_worker(t, LIST_AT + i, attr, m->page.rows[at]);
        else
            draw_job(t, LIST_AT + i, attr, m->page.rows[at]);
    }
    if (!m->page.count || !m->loaded)
        draw_empty(t);
}

/* --- the pane --- */

static void add_fact(struct buf *b, const char *name, struct str text)
{
    if (text.len)
        buf_print(b, "%-9s %.*s\n", name, STR_ARG(text));
}

static void add_run(struct buf *b, struct arena *a, struct str run)
{
    struct str outcome = view_text(a, run, "outcome"), worker = view_text(a, run, "worker");
    struct str message = view_text(a, run, "message"), reason = view_text(a, run, "reason");
    struct str failure = view_get(run, "failure");
    if (!message.len)
        message = view_text(a, failure, "message");
    buf_print(b, "run %-5.*s %.*s", STR_ARG(view_text(a, run, "run")), STR_ARG(outcome));
    if (worker.len)
        buf_print(b, " by %.*s", STR_ARG(worker));
    if (message.len)
        buf_print(b, ": %.*s", STR_ARG(message));
    buf_byte(b, '\n');
    if (reason.len)
        buf_print(b, "          %.*s\n", STR_ARG(reason));
}

static void write_detail(const struct top *t, struct buf *b)
{
    static const char *const facts[][2] = {
        {"status", "status"},     {"why", "reason"},        {"queue", "queue"},    {"type", "type"},
        {"priority", "priority"}, {"attempts", "attempts"}, {"payload", "payload"}};
    struct arena a = {0};
    struct str job = buf_view(&t->model.job);
    if (!job.len)
        buf_lit(b, "...\n");
    for (size_t i = 0; i < COUNT(facts) && job.len; i++)
        add_fact(b, facts[i][0], view_text(&a, job, facts[i][1]));
    struct view_list l = view_list(view_get(buf_view(&t->model.runs), "runs"));
    for (struct str run; view_next(&l, &run);)
        add_run(b, &a, run);
    arena_fini(&a);
}

static size_t count_lines(const struct buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->at[i] == '\n';
    return n;
}

static void draw_detail(struct top *t, int y, int rows)
{
    struct buf text = {0}, head = {0};
    buf_print(&head, " job %s ", t->model.detail);
    put_z(y, 0, COLS, A_REVERSE, "");
    put(y, 0, COLS, A_REVERSE, buf_view(&head));
    write_detail(t, &text);
    size_t lines = count_lines(&text), room = (size_t)(rows - 1);
    if (t->model.scroll + room > lines)
        t->model.scroll = lines > room ? lines - room : 0;
    size_t at = 0;
    for (size_t i = 0; i < t->model.scroll; i++)
        at += strcspn(text.at + at, "\n") + 1;
    buf_byte(&text, '\0');
    for (int i = 1; i < rows; i++) {
        size_t n = at < text.len ? strcspn(text.at + at, "\n") : 0;
        put(y + i, 1, COLS - 1, A_NORMAL, n ? (struct str){text.at + at, n} : (struct str){"", 0});
        at += n + (at + n < text.len && text.at[at + n] == '\n');
    }
    buf_fini(&text);
    buf_fini(&head);
}

/* --- the foot --- */

/* Keys that act, as far as the user may. */
static const char *keys_of(const struct top *t)
{
    if (is_narrow())
        return "/ search  ? help";
    if (t->model.tab == TOP_WORKERS)
        return top_rights_may(t, "stopWorker")
                   ? "Enter jobs  / search  s quiet, resume  x stop  ? help"
                   : "Enter jobs  / search  ? help";
    return top_rights_may(t, "cancelJob")
               ? "Enter detail  / search  c cancel  r retry  s pause  ? help"
               : "Enter detail  / search  ? help";
}

static void draw_keys(const struct top *t)
{
    struct buf b = {0};
    if (t->mode == TOP_MODE_SEARCH)
        buf_lit(&b, " Enter search  Esc leave it");
    else if (t->mode == TOP_MODE_CONFIRM)
        buf_lit(&b, " y yes  any other key: no");
    else
        buf_print(&b, " q quit  1-8 tabs  %s", keys_of(t));
    put(LINES - 1, 0, COLS, A_REVERSE, buf_view(&b));
    buf_fini(&b);
}

static void draw_foot(struct top *t)
{
    struct buf b = {0};
    attr_t attr = t->bad ? look(BAD) | A_BOLD : A_NORMAL;
    if (t->mode == TOP_MODE_SEARCH)
        buf_print(&b, "/%s_", t->typed);
    else if (t->mode == TOP_MODE_CONFIRM)
        buf_print(&b, "%s", t->question);
    else if (t->down)
        buf_print(&b, "%s", t->why);
    else
        buf_print(&b, "%s", t->message);
    if (t->mode == TOP_MODE_CONFIRM || (t->down && t->mode == TOP_MODE_LIST))
        attr = look(t->down ? BAD : WAIT) | A_BOLD;
    put(LINES - 2, 1, COLS - 1, attr, buf_view(&b));
    buf_fini(&b);
    draw_keys(t);
}

static void draw_help(const struct top *t)
{
    static const struct {
        const char *text, *needs;
    } lines[] = {
        {"1-8, left, right   the tabs, from in flight to workers (these also by W)", NULL},
        {"up, down, PgUp, PgDn, Home, End   move in the list", NULL},
        {"n, p               the next page, the previous page", NULL},
        {"Enter              details of a job; the jobs of a queue or a worker", NULL},
        {"[, ]               scroll the details", NULL},
        {"/                  search: a queue, type:NAME, worker:NAME, a job's id, or a", NULL},
        {"                   jq filter about payloads that begins with a dot", NULL},
        {"d, c               delete, cancel the job, after confirmation", "deleteJob"},
        {"r                  retry the dead job, or all dead ones of the queue", "retryJob"},
        {"s                  stop the queue (of the job), or resume it", "patchQueue"},
        {"                   give a worker nothing more, or jobs again", "quietWorker"},
        {"x                  stop the worker: its jobs go back", "stopWorker"},
        {"Esc                leave the pane, then the search", NULL},
        {"q                  quit", NULL},
        {"The bar: # in flight, = ready, - scheduled, x dead, . blocked. Rates are", NULL},
        {"those of the last 10 seconds. Press any key to continue.", NULL}};
    size_t i = 0;
    put_z(LIST_AT - 1, 0, COLS, A_NORMAL, "");
    for (int y = LIST_AT; y < LINES - 2; y++) {
        while (i < COUNT(lines) && lines[i].needs && !top_rights_may(t, lines[i].needs))
            i++;
        put_z(y, 0, COLS, A_NORMAL, "");
        put_z(y, 2, COLS - 2, A_NORMAL, i < COUNT(lines) ? lines[i++].text : "");
    }
}

void top_view_draw(struct top *t)
{
    erase();
    if (COLS < WIDTH_MIN || LINES < HEIGHT_MIN) {
        put_z(0, 0, COLS, A_NORMAL, "the window is too small");
        refresh();
        return;
    }
    int rows = LINES - LIST_AT - 2;
    int pane = *t->model.detail ? rows * 3 / 5 : 0;
    draw_title(t);
    draw_counts(t);
    draw_rates(t);
    draw_bar(t);
    draw_tabs(t);
    measure_names(&t->model.page);
    draw_heads(t);
    draw_list(t, rows - pane);
    if (pane)
        draw_detail(t, LIST_AT + rows - pane, pane);
    if (t->mode == TOP_MODE_HELP)
        draw_help(t);
    draw_foot(t);
    refresh();
}
