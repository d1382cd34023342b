/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/must.h"
#include "base/strmap.h"
#include "kube/kube_watch_line.h"

/* Of a page, so much is looked at in one turn of the loop. */
#define SLICE_BYTES ((size_t)256 << 10)
/* A stream that has been open for so long was no failure. */
#define SETTLED_MS 1000
/* What the server may take longer than it was asked to. */
#define GRACE_MS 30000
/* So much is kept of a buffer for the next line. */
#define LINE_KEPT ((size_t)256 << 10)
/* After so many failures in a row, what was known is no longer a place to resume from. */
#define FAILURES_MAX 3

/* An object that was reported. */
struct known {
    uint32_t round; /* of the last list that it was in, or that was before it came */
    uint32_t uid_len, version_len;
    char text[]; /* uid, version */
};

enum state { LISTING, READING, WATCHING, PAUSED, OVER };

struct kube_watch {
    struct kube_client *client;
    struct kube_counters *counters;
    struct kube_watch_spec spec;
    char *path, *label_selector, *field_selector;
    enum state state;
    uv_timer_t timer; /* READING: the next slice; WATCHING: settled; PAUSED: the end of it */
    struct kube_client_call *call;
    struct strmap known; /* "namespace/name" to struct known */
    uint32_t round;
    struct buf version;            /* where to resume; empty: by a list */
    struct buf list_version, next; /* of the list under way, and its next page */
    struct buf page;
    struct json_cursor items; /* of the page */
    struct buf line;          /* the beginning of one */
    bool listed, live, started;
    bool heard;   /* a line came that was no error */
    int failures; /* in a row */
};

struct kube_watch_spec kube_watch_defaults(void)
{
    return (struct kube_watch_spec){
        .page = 500, .object_max = (size_t)8 << 20, .watch_time = {300000}, .stall = {150000}};
}

static void go_on(struct kube_watch *w);

static void set(struct buf *b, struct str s)
{
    b->len = 0;
    buf_str(b, s);
}

/* --- what is known --- */

static struct str uid_of(const struct known *k)
{
    return (struct str){k->text, k->uid_len};
}

static struct str version_of(const struct known *k)
{
    return (struct str){k->text + k->uid_len, k->version_len};
}

static void write_key(struct buf *b, const struct kube_watch_object *o)
{
    buf_str(b, o->namespace);
    buf_byte(b, '/');
    buf_str(b, o->name);
}

static struct known *known_new(const struct kube_watch_object *o, uint32_t round)
{
    struct known *k = alloc_get(sizeof *k + o->uid.len + o->version.len);
    *k = (struct known){round, (uint32_t)o->uid.len, (uint32_t)o->version.len};
    if (o->uid.len)
        memcpy(k->text, o->uid.at, o->uid.len);
    if (o->version.len)
        memcpy(k->text + o->uid.len, o->version.at, o->version.len);
    return k;
}

/* One that went while nobody watched. */
static void report_gone(struct kube_watch *w, struct str key, struct known *k)
{
    const char *slash = memchr(key.at, '/', key.len);
    size_t len = (size_t)(slash - key.at);
    const struct kube_watch_object o = {.namespace = {key.at, len},
                                        .name = {slash + 1, key.len - len - 1},
                                        .uid = uid_of(k),
                                        .version = version_of(k)};
    w->spec.removed(w->spec.ctx, &o);
}

static void take(struct kube_watch *w, const struct kube_watch_object *o)
{
    struct buf key = {0};
    write_key(&key, o);
    struct known *old = strmap_get(&w->known, buf_view(&key));
    if (old && str_eq(uid_of(old), o->uid) && str_eq(version_of(old), o->version) &&
        o->version.len) {
        old->round = w->round;
    } else {
        strmap_put(&w->known, buf_view(&key), known_new(o, w->round));
        if (old && !str_eq(uid_of(old), o->uid))
            report_gone(w, buf_view(&key), old);
        free(old);
        if (w->state != OVER)
            w->spec.changed(w->spec.ctx, o);
    }
    buf_fini(&key);
}

static void drop(struct kube_watch *w, const struct kube_watch_object *o)
{
    struct buf key = {0};
    write_key(&key, o);
    struct known *old = strmap_remove(&w->known, buf_view(&key));
    buf_fini(&key);
    free(old);
    if (old)
        w->spec.removed(w->spec.ctx, o);
}

/* What was not in the list that is complete now. */
static void drop_unlisted(struct kube_watch *w)
{
    struct buf keys = {0};
    for (size_t i = 0; i < w->known.cap; i++) {
        const struct strmap_slot *s = &w->known.slots[i];
        if (!s->key || ((struct known *)s->val)->round == w->round)
            continue;
        buf_add(&keys, &s->len, sizeof s->len);
        buf_add(&keys, s->key, s->len);
    }
    for (size_t at = 0; at < keys.len && w->state != OVER;) {
        size_t len;
        memcpy(&len, keys.at + at, sizeof len);
        struct str key = {keys.at + at + sizeof len, len};
        struct known *k = strmap_remove(&w->known, key);
        report_gone(w, key, k);
        free(k);
        at += sizeof len + len;
    }
    buf_fini(&keys);
}

/* --- pauses and failures --- */

static void on_pause_over(uv_timer_t *timer)
{
    go_on(timer->data);
}

/* Goes on at once after the first failure, later and later after others. */
static void pause_then_go_on(struct kube_watch *w, const struct kube_answer *answer)
{
    span pause = {0};
    if (w->failures > 1 || (answer && answer->retry_after.ms > 0))
        pause = kube_client_backoff(w->client, w->failures - 1, answer);
    w->state = PAUSED;
    uv_timer_start(&w->timer, on_pause_over, (uint64_t)pause.ms, 0);
}

static void start_over(struct kube_watch *w)
{
    w->version.len = 0;
    w->next.len = 0;
    w->live = false;
}

static void fail(struct kube_watch *w, const struct kube_answer *answer)
{
    w->failures++;
    w->live = false;
    if (w->spec.failed)
        w->spec.failed(w->spec.ctx, answer);
    if (w->state != OVER)
        pause_then_go_on(w, answer);
}

static void fail_malformed(struct kube_watch *w, const char *what)
{
    char text[400];
    snprintf(text, sizeof text, "%.120s%.160s: %s", kube_client_server(w->client), w->path, what);
    const struct kube_answer answer = {
        .reason = KUBE_ANSWER_MALFORMED, .message = str_from(text), .retry_after = {-1}};
    start_over(w);
    fail(w, &answer);
}

static bool is_expired(const struct kube_answer *answer)
{
    return answer->reason == KUBE_ANSWER_EXPIRED || answer->reason == KUBE_ANSWER_GONE;
}

static void expire(struct kube_watch *w)
{
    w->counters->watch_expired++;
    w->failures++;
    start_over(w);
    pause_then_go_on(w, NULL);
}

/* --- the list --- */

static void finish_list(struct kube_watch *w)
{
    w->counters->lists++;
    buf_fini(&w->page);
    set(&w->version, buf_view(&w->list_version));
    drop_unlisted(w);
    if (w->state == OVER)
        return;
    w->listed = true;
    w->spec.synced(w->spec.ctx);
    if (w->state != OVER)
        go_on(w);
}

static void on_slice(uv_timer_t *timer);

static struct err read_slice(struct kube_watch *w, bool *more)
{
    struct arena a = {0};
    struct err err = err_none();
    size_t from = w->items.pos;
    while (err.code == ERR_OK && w->items.pos - from < SLICE_BYTES && w->state != OVER) {
        struct kube_watch_object o;
        struct str raw;
        err = json_next_element(&w->items, more);
        if (err.code != ERR_OK || !*more)
            break;
        err = json_skip(&w->items, &raw);
        if (err.code == ERR_OK)
            err = kube_watch_line_object(raw, &a, &o);
        if (err.code == ERR_OK)
            take(w, &o);
        arena_reset(&a);
    }
    arena_fini(&a);
    return err;
}

static void read_page(struct kube_watch *w)
{
    bool more = true;
    struct err err = read_slice(w, &more);
    if (w->state == OVER)
        return;
    if (err.code != ERR_OK)
        fail_malformed(w, err.msg);
    else if (more)
        uv_timer_start(&w->timer, on_slice, 0, 0);
    else if (w->next.len)
        go_on(w);
    else
        finish_list(w);
}

static void on_slice(uv_timer_t *timer)
{
    read_page(timer->data);
}

static void take_page(struct kube_watch *w, struct str body)
{
    struct arena a = {0};
    struct kube_watch_line_list list;
    set(&w->page, body);
    struct err err = kube_watch_line_list(buf_view(&w->page), &a, &list);
    if (err.code == ERR_OK) {
        if (!w->next.len)
            set(&w->list_version, list.version);
        set(&w->next, list.next);
        w->items = list.items;
    }
    arena_fini(&a);
    w->state = READING;
    if (err.code != ERR_OK)
        fail_malformed(w, err.msg);
    else if (!list.has_items)
        w->next.len ? go_on(w) : finish_list(w);
    else
        read_page(w);
}

static void on_list(void *ctx, const struct kube_answer *answer)
{
    struct kube_watch *w = ctx;
    w->call = NULL;
    if (answer->reason == KUBE_ANSWER_OK) {
        take_page(w, answer->object);
    } else if (is_expired(answer)) {
        expire(w);
    } else {
        if (!kube_answer_is_passing(answer->reason))
            start_over(w);
        fail(w, answer);
    }
}

static void write_selectors(const struct kube_watch *w, struct buf *path)
{
    if (w->label_selector)
        kube_client_query(path, "labelSelector", str_from(w->label_selector));
    if (w->field_selector)
        kube_client_query(path, "fieldSelector", str_from(w->field_selector));
}

static void list_page(struct kube_watch *w)
{
    struct buf path = {0};
    w->state = LISTING;
    if (!w->next.len)
        w->round++;
    buf_print(&path, "%s?limit=%d", w->path, w->spec.page);
    write_selectors(w, &path);
    if (w->next.len)
        kube_client_query(&path, "continue", buf_view(&w->next));
    buf_byte(&path, '\0');
    const struct kube_client_spec call = {
        .verb = KUBE_LIST, .path = path.at, .retry = KUBE_CLIENT_ONCE, .done = on_list, .ctx = w};
    w->call = kube_client_call(w->client, &call);
    buf_fini(&path);
}

/* --- the stream --- */

static void on_settled(uv_timer_t *timer)
{
    struct kube_watch *w = timer->data;
    w->failures = 0;
}

static void on_opened(void *ctx)
{
    struct kube_watch *w = ctx;
    w->counters->watch_starts++;
    w->counters->watch_restarts += w->started;
    w->started = true;
    w->live = w->listed;
    uv_timer_start(&w->timer, on_settled, SETTLED_MS, 0);
    if (w->live && w->spec.opened)
        w->spec.opened(w->spec.ctx);
}

static void leave_stream(struct kube_watch *w)
{
    struct kube_client_call *call = w->call;
    w->call = NULL;
    uv_timer_stop(&w->timer);
    w->line.len = 0;
    if (call)
        kube_client_cancel(call);
}

/* The stream is over when the server has said what is wrong. */
static void take_error(struct kube_watch *w, struct str status, struct arena *a)
{
    struct kube_answer answer;
    kube_answer_read_status(status, a, &answer);
    leave_stream(w);
    if (is_expired(&answer)) {
        expire(w);
        return;
    }
    if (!kube_answer_is_passing(answer.reason))
        start_over(w);
    fail(w, &answer);
}

static void take_line(struct kube_watch *w, struct str line)
{
    struct arena a = {0};
    struct kube_watch_line e;
    struct err err = kube_watch_line(line, &a, &e);
    if (err.code != ERR_OK) {
        leave_stream(w);
        fail_malformed(w, err.msg);
    } else if (e.type == KUBE_WATCH_LINE_ERROR) {
        take_error(w, e.object.json, &a);
    } else if (e.type != KUBE_WATCH_LINE_OTHER) {
        w->heard = true;
        w->failures = 0;
        if (e.object.version.len)
            set(&w->version, e.object.version);
        if (e.type == KUBE_WATCH_LINE_CHANGED)
            take(w, &e.object);
        else if (e.type == KUBE_WATCH_LINE_REMOVED)
            drop(w, &e.object);
    }
    arena_fini(&a);
}

static void forget_line(struct kube_watch *w)
{
    w->line.len = 0;
    if (w->line.cap > LINE_KEPT)
        buf_fini(&w->line);
}

static void on_bytes(void *ctx, struct str bytes)
{
    struct kube_watch *w = ctx;
    char text[80];
    while (bytes.len && w->state == WATCHING) {
        const char *lf = memchr(bytes.at, '\n', bytes.len);
        size_t len = lf ? (size_t)(lf - bytes.at) : bytes.len;
        if (len > w->spec.object_max - w->line.len) {
            snprintf(text, sizeof text, "an object of more than %zu bytes", w->spec.object_max);
            leave_stream(w);
            fail_malformed(w, text);
            return;
        }
        struct str line = {bytes.at, len};
        if (!lf || w->line.len) {
            buf_str(&w->line, line);
            line = buf_view(&w->line);
        }
        if (lf && line.len)
            take_line(w, line);
        if (lf)
            forget_line(w);
        len += lf != NULL;
        bytes = (struct str){bytes.at + len, bytes.len - len};
    }
}

static void on_stream_over(void *ctx, const struct kube_answer *answer)
{
    struct kube_watch *w = ctx;
    w->call = NULL;
    leave_stream(w);
    if (answer->reason == KUBE_ANSWER_OK) {
        if (!w->heard)
            w->failures++;
        pause_then_go_on(w, NULL);
        return;
    }
    if (is_expired(answer)) {
        expire(w);
        return;
    }
    if (answer->reason == KUBE_ANSWER_TIMED_OUT)
        w->counters->watch_stalls++;
    if (w->failures + 1 >= FAILURES_MAX ||
        (answer->status && !kube_answer_is_passing(answer->reason)))
        start_over(w);
    fail(w, answer);
}

static void watch(struct kube_watch *w)
{
    struct buf path = {0};
    uint64_t seconds = (uint64_t)(w->spec.watch_time.ms + 999) / 1000;
    seconds += kube_client_random(w->client, seconds + 1);
    w->state = WATCHING;
    w->heard = false;
    w->line.len = 0;
    buf_print(&path, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%llu", w->path,
              (unsigned long long)seconds);
    write_selectors(w, &path);
    kube_client_query(&path, "resourceVersion", buf_view(&w->version));
    buf_byte(&path, '\0');
    const struct kube_client_spec call = {
        .verb = KUBE_WATCH,
        .path = path.at,
        .data = on_bytes,
        .opened = on_opened,
        .idle_timeout = w->spec.stall,
        .stream_timeout = {(int64_t)seconds * 1000 + GRACE_MS},
        .done = on_stream_over,
        .ctx = w,
    };
    w->call = kube_client_call(w->client, &call);
    buf_fini(&path);
}

static void go_on(struct kube_watch *w)
{
    if (w->version.len && !w->next.len)
        watch(w);
    else
        list_page(w);
}

/* --- the interface --- */

static char *copy_of(const char *text)
{
    return text ? alloc_text(text, strlen(text)) : NULL;
}

struct kube_watch *kube_watch_new(struct kube_client *client, const struct kube_watch_spec *spec)
{
    must(spec->path && spec->changed && spec->removed && spec->synced && spec->page > 0);
    struct kube_watch *w = ALLOC(struct kube_watch);
    w->client = client;
    w->counters = kube_client_counters(client);
    w->spec = *spec;
    w->path = copy_of(spec->path);
    w->label_selector = copy_of(spec->label_selector);
    w->field_selector = copy_of(spec->field_selector);
    w->known.seed = kube_client_random(client, UINT64_MAX);
    must(uv_timer_init(kube_client_loop(client), &w->timer) == 0);
    w->timer.data = w;
    go_on(w);
    return w;
}

static void on_watch_closed(uv_handle_t *handle)
{
    struct kube_watch *w = handle->data;
    for (size_t i = 0; i < w->known.cap; i++)
        if (w->known.slots[i].key)
            free(w->known.slots[i].val);
    strmap_fini(&w->known);
    buf_fini(&w->version);
    buf_fini(&w->list_version);
    buf_fini(&w->next);
    buf_fini(&w->page);
    buf_fini(&w->line);
    free(w->path);
    free(w->label_selector);
    free(w->field_selector);
    free(w);
}

/* The memory stays until the loop has let go of the timer: a callback may be on its way back. */
void kube_watch_free(struct kube_watch *w)
{
    if (!w)
        return;
    must(w->state != OVER);
    if (w->call)
        kube_client_cancel(w->call);
    w->call = NULL;
    w->state = OVER;
    uv_close((uv_handle_t *)&w->timer, on_watch_closed);
}

bool kube_watch_is_live(const struct kube_watch *w)
{
    return w->live;
}

size_t kube_watch_count(const struct kube_watch *w)
{
    return w->known.count;
}
