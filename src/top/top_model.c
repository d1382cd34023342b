/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "client/client.h"
#include "client/jobtext.h"
#include "client/view.h"

#define PAGE_LIMIT "100"

static const char *const statuses[TOP_TABS] = {"in_flight", "ready",   "scheduled", "dead",
                                               NULL,        "blocked", "completed", NULL};

const char *top_tab_status(enum top_tab tab)
{
    return statuses[tab];
}

void top_model_fini(struct top_model *m)
{
    buf_fini(&m->page.text);
    free(m->page.rows);
    buf_fini(&m->trail);
    buf_fini(&m->job);
    buf_fini(&m->runs);
    *m = (struct top_model){0};
}

/* --- counts and rates --- */

static void add_counts(struct top_model *m, struct str jobs)
{
    int64_t count;
    for (size_t i = 0; i < TOP_TABS; i++)
        if (statuses[i] && view_int(jobs, statuses[i], &count))
            m->counts[i] += count;
}

void top_model_counts(struct top_model *m, struct str json)
{
    struct str queue;
    memset(m->counts, 0, sizeof m->counts);
    add_counts(m, view_get(json, "jobs"));
    for (struct view_list l = view_list(view_get(json, "queues")); view_next(&l, &queue);)
        add_counts(m, view_get(queue, "jobs"));
    m->counted = true;
}

/* Empties the buckets of the seconds that have passed. */
static void advance(struct top_model *m, int64_t second)
{
    int64_t passed = second - m->second;
    for (int64_t i = 1; i <= passed && i <= TOP_SECONDS; i++)
        for (size_t r = 0; r < TOP_RATES; r++)
            m->buckets[r][(m->second + i) % TOP_SECONDS] = 0;
    if (passed > 0)
        m->second = second;
}

double top_model_rate(struct top_model *m, enum top_rate rate, int64_t second)
{
    int64_t sum = 0;
    advance(m, second);
    /* The current second is not over, and would make the rate too small. */
    for (int64_t i = 0; i < TOP_SECONDS; i++)
        if (i != second % TOP_SECONDS)
            sum += m->buckets[rate][i];
    return (double)sum / (TOP_SECONDS - 1);
}

static bool is(struct str s, const char *word)
{
    return str_eq(s, str_from(word));
}

static void count_event(struct top_model *m, struct str event, struct str cause, int64_t second)
{
    static const char *const kinds[TOP_FAILED] = {"job_enqueued", "job_taken", "job_completed"};
    static const char *const failures[] = {"retry", "retry_now", "exhaust"};
    size_t at = (size_t)(second % TOP_SECONDS);
    advance(m, second);
    for (size_t i = 0; i < TOP_FAILED; i++)
        m->buckets[i][at] += is(event, kinds[i]);
    for (size_t i = 0; i < COUNT(failures); i++)
        m->buckets[TOP_FAILED][at] += is(cause, failures[i]);
}

unsigned top_model_event(struct top_model *m, struct str line, int64_t second)
{
    struct arena a = {0};
    unsigned stale = TOP_STALE_COUNTS;
    if (line.len == 0 || view_check(line, NULL).code != ERR_OK)
        return 0;
    struct str event = view_text(&a, line, "event");
    struct str from = view_text(&a, line, "from"), to = view_text(&a, line, "to");
    bool gap = is(event, "gap");
    struct str cursor = view_text(&a, line, "cursor");
    if (cursor.len && cursor.len < sizeof m->since)
        snprintf(m->since, sizeof m->since, "%.*s", STR_ARG(cursor));
    const char *status = top_tab_status(m->tab);
    if (!status || is(from, status) || is(to, status))
        stale |= TOP_STALE_PAGE;
    if (*m->detail && is(view_text(&a, line, "id"), m->detail))
        stale |= TOP_STALE_DETAIL;
    if (!gap)
        count_event(m, event, view_text(&a, line, "cause"), second);
    arena_fini(&a);
    return gap ? TOP_STALE_ALL | TOP_GAP : stale;
}

/* --- a page --- */

struct str top_model_row(const struct top_model *m)
{
    return m->loaded && m->selected < m->page.count ? m->page.rows[m->selected] : (struct str){0};
}

static bool has_jobs(enum top_tab tab)
{
    return statuses[tab] != NULL;
}

static void write_name(enum top_tab tab, struct str row, struct buf *b)
{
    struct arena a = {0};
    b->len = 0;
    if (row.len && row.at[0] == '"') { /* only its name */
        struct json_cursor c = json_open(row);
        struct json_string s;
        struct str name;
        if (json_read_string(&c, &s).code == ERR_OK && json_text(s, &a, &name).code == ERR_OK)
            buf_str(b, name);
    } else {
        buf_str(b, view_text(&a, row, has_jobs(tab) ? "id" : "name"));
    }
    buf_byte(b, '\0');
    arena_fini(&a);
}

const char *top_model_name(const struct top_model *m, struct buf *b)
{
    write_name(m->tab, top_model_row(m), b);
    return b->at;
}

/* "queue:mail" has led to the jobs of a queue; back at the queues it is that queue. */
static const char *searched_name(const struct top_model *m)
{
    const char *prefix = m->tab == TOP_QUEUES ? "queue:" : "worker:";
    size_t len = strlen(prefix);
    return strncmp(m->search, prefix, len) == 0 ? m->search + len : m->search;
}

bool top_model_shows(const struct top_model *m, struct str row)
{
    struct buf name = {0};
    if (has_jobs(m->tab) || !*m->search)
        return true;
    write_name(m->tab, row, &name);
    bool shows = strstr(name.at, searched_name(m)) != NULL;
    buf_fini(&name);
    return shows;
}

static void add_row(struct top_page *p, struct str row)
{
    ALLOC_GROW(p->rows, p->count, p->cap, 64);
    p->rows[p->count++] = row;
}

static struct str bare(struct str text)
{
    return text.len >= 2 && text.at[0] == '"' ? (struct str){text.at + 1, text.len - 2}
                                              : (struct str){0};
}

static const char *list_key(enum top_tab tab)
{
    return tab == TOP_QUEUES ? "queues" : tab == TOP_WORKERS ? "workers" : "jobs";
}

void top_model_page(struct top_model *m, struct str json)
{
    struct buf before = {0}, name = {0};
    struct top_page *p = &m->page;
    top_model_name(m, &before);
    p->text.len = p->count = 0;
    buf_str(&p->text, json);
    struct str all = buf_view(&p->text);
    struct str pages = m->tab == TOP_WORKERS ? all : view_get(all, "pages");
    struct view_list l = view_list(view_get(all, list_key(m->tab)));
    for (struct str row; view_next(&l, &row);)
        if (top_model_shows(m, row))
            add_row(p, row);
    p->next = bare(view_get(pages, "next"));
    m->loaded = true;
    for (size_t i = 0; i < p->count; i++) {
        write_name(m->tab, p->rows[i], &name);
        if (before.len > 1 && strcmp(name.at, before.at) == 0)
            m->selected = i;
    }
    if (m->selected >= p->count)
        m->selected = p->count ? p->count - 1 : 0;
    buf_fini(&before);
    buf_fini(&name);
}

void top_model_move(struct top_model *m, long by, size_t shown)
{
    long last = (long)m->page.count - 1, to = (long)m->selected + by;
    to = to > last ? last : to;
    m->selected = to < 0 ? 0 : (size_t)to;
    if (m->selected < m->top)
        m->top = m->selected;
    if (shown && m->selected >= m->top + shown)
        m->top = m->selected - shown + 1;
    if (shown && m->top + shown > m->page.count)
        m->top = m->page.count > shown ? m->page.count - shown : 0;
}

/* --- navigation --- */

static void add_search(struct buf *path, const char *text)
{
    if (strncmp(text, "type:", 5) == 0)
        client_query(path, "type", text + 5);
    else if (strncmp(text, "worker:", 7) == 0)
        client_query(path, "worker", text + 7);
    else if (strncmp(text, "queue:", 6) == 0)
        client_query(path, "queue", text + 6);
    else if (*text == '.')
        client_query(path, "filter", text);
    else if (*text)
        client_query(path, "queue", text);
}

static void leave(struct top_model *m)
{
    m->loaded = false;
    m->page.count = m->selected = m->top = 0;
    m->page.next = (struct str){0};
}

static void set_path(struct top_model *m)
{
    struct buf path = {0};
    if (m->tab == TOP_QUEUES) {
        buf_lit(&path, "/queues");
        client_query(&path, "details", "true");
    } else if (m->tab == TOP_WORKERS) {
        buf_lit(&path, "/workers");
    } else {
        buf_lit(&path, "/jobs");
        /* A search for one job must find it in any status. */
        if (jobtext_is_id(m->search)) {
            client_query(&path, "id", m->search);
        } else {
            client_query(&path, "status", statuses[m->tab]);
            bool ended = m->tab == TOP_DEAD || m->tab == TOP_DONE;
            client_query(&path, "order", ended ? "desc" : NULL);
            add_search(&path, m->search);
        }
    }
    client_query(&path, "limit", PAGE_LIMIT);
    snprintf(m->path, sizeof m->path, "%s", client_path(&path));
    buf_fini(&path);
    m->trail.len = 0;
    leave(m);
}

void top_model_go(struct top_model *m, enum top_tab tab)
{
    m->tab = tab;
    set_path(m);
}

void top_model_search(struct top_model *m, const char *text)
{
    snprintf(m->search, sizeof m->search, "%s", text);
    set_path(m);
}

/* Not the server's link to the previous page, which would list it backwards. */
static bool turn_back(struct top_model *m)
{
    size_t at = m->trail.len;
    if (at == 0)
        return false;
    for (at--; at > 0 && m->trail.at[at - 1]; at--)
        ;
    snprintf(m->path, sizeof m->path, "%s", m->trail.at + at);
    m->trail.len = at;
    return true;
}

static bool turn_on(struct top_model *m)
{
    struct str to = m->page.next;
    if (!to.len || to.at[0] != '/' || to.len >= sizeof m->path)
        return false;
    buf_add(&m->trail, m->path, strlen(m->path) + 1);
    memcpy(m->path, to.at, to.len);
    m->path[to.len] = '\0';
    return true;
}

bool top_model_turn(struct top_model *m, bool forward)
{
    bool turned = forward ? turn_on(m) : turn_back(m);
    if (turned)
        leave(m);
    return turned;
}
