/* SPDX-License-Identifier: Apache-2.0 */

/* Records: {"build":B,"at":MS,"length":MS,"started":MS,"config":TEXT}, the configuration as a text,
 * so that it comes back byte for byte. A timer that is replaced is removed after the new one was
 * added: after a crash between the two the newer one counts. */

#include "builds/build_timers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/must.h"
#include "base/strmap.h"
#include "builds/build_due.h"
#include "builds/build_store.h"
#include "client/view.h"
#include "client/when.h"

#define AGAIN     ((span){5000}) /* until it is cleared */
#define EACH_TURN 100            /* that are fired before the loop does other things */
#define BYTES_MAX ((size_t)448 << 20)

struct timer {
    struct build_due due; /* first: what is due is a timer */
    struct str build;     /* the map's copy */
    struct build_record *record;
};

struct build_timers {
    uv_loop_t *loop;
    instant (*now)(void);
    void (*fired)(void *ctx, const struct build_timer *t);
    void *ctx;
    struct build_store *store;
    struct strmap by_build;
    struct build_dues due;
    uv_timer_t turn;
    bool closed;
};

/* --- when --- */

static void on_turn(uv_timer_t *t);

static void arm(struct build_timers *s)
{
    uint64_t ms = build_due_wait(&s->due);
    if (ms)
        uv_timer_start(&s->turn, on_turn, ms, 0);
    else
        uv_timer_stop(&s->turn);
}

/* By this process' clock, which does not jump: the wall clock says only how much is left. */
static span left_of(const struct build_timers *s, instant at, span length)
{
    int64_t left = instant_diff(at, s->now()).ms;
    left = left < length.ms ? left : length.ms;
    return (span){left > 0 ? left : 0};
}

/* --- records --- */

static void write_record(struct buf *b, const struct build_timer *t)
{
    buf_lit(b, "{\"build\":");
    build_store_write_text(b, t->build, SIZE_MAX);
    buf_print(b, ",\"at\":%" PRId64 ",\"length\":%" PRId64 ",\"started\":%" PRId64 ",\"config\":",
              t->at.ms, t->length.ms, t->started.ms);
    build_store_write_text(b, t->config, SIZE_MAX);
    buf_byte(b, '}');
}

static bool read_record(struct str json, struct arena *a, struct build_timer *out)
{
    *out = (struct build_timer){
        .build = view_text(a, json, "build"),
        .at = view_time(json, "at"),
        .started = view_time(json, "started"),
        .config = view_text(a, json, "config"),
    };
    return out->build.len && instant_is_set(out->at) && view_int(json, "length", &out->length.ms);
}

/* --- timers --- */

static void forget(struct build_timers *s, struct timer *t)
{
    build_due_unset(&s->due, &t->due);
    strmap_remove(&s->by_build, t->build);
    build_store_remove(s->store, t->record);
    free(t);
}

static void enter(struct build_timers *s, const struct build_timer *timer,
                  struct build_record *record)
{
    struct timer *old = strmap_get(&s->by_build, timer->build);
    if (old)
        forget(s, old);
    struct timer *t = ALLOC(struct timer);
    t->record = record;
    t->build = strmap_put(&s->by_build, timer->build, t);
    build_due_set(&s->due, &t->due, left_of(s, timer->at, timer->length));
}

void build_timers_set(struct build_timers *s, const struct build_timer *timer,
                      void (*kept)(void *ctx), void *ctx)
{
    struct buf b = {0};
    must(timer->build.len > 0 && instant_is_set(timer->at));
    write_record(&b, timer);
    enter(s, timer, build_store_add(s->store, buf_view(&b), kept, ctx));
    buf_fini(&b);
    arm(s);
}

void build_timers_clear(struct build_timers *s, struct str build)
{
    struct timer *t = strmap_get(&s->by_build, build);
    if (t)
        forget(s, t);
}

size_t build_timers_count(const struct build_timers *s)
{
    return s->by_build.count;
}

/* It may be gone after this. */
static void fire(struct build_timers *s, struct timer *t)
{
    struct arena a = {0};
    struct buf text = {0};
    struct build_timer copy;
    build_due_set(&s->due, &t->due, AGAIN);
    build_store_fetch(s->store, t->record, &text);
    must(read_record(buf_view(&text), &a, &copy));
    s->fired(s->ctx, &copy);
    buf_fini(&text);
    arena_fini(&a);
}

static void on_turn(uv_timer_t *timer)
{
    struct build_timers *s = timer->data;
    mono now = when_mono();
    for (int i = 0; i < EACH_TURN && !s->closed; i++) {
        struct build_due *d = build_due_take(&s->due, now);
        if (!d)
            break;
        fire(s, (struct timer *)d);
    }
    if (!s->closed)
        arm(s);
}

/* --- beginning and end --- */

static void load(void *ctx, struct build_record *record)
{
    struct build_timers *s = ctx;
    struct arena a = {0};
    struct buf text = {0};
    struct build_timer t;
    build_store_fetch(s->store, record, &text);
    if (read_record(buf_view(&text), &a, &t)) {
        enter(s, &t, record);
    } else {
        log_error("passed over a record of the state directory that is no timer of a build");
        build_store_remove(s->store, record);
    }
    buf_fini(&text);
    arena_fini(&a);
}

struct err build_timers_new(uv_loop_t *loop, const char *dir, instant (*now)(void),
                            void (*fired)(void *ctx, const struct build_timer *t), void *ctx,
                            struct build_timers **out)
{
    struct build_store *store;
    TRY(build_store_open_lean(loop, dir, BYTES_MAX, &store));
    struct build_timers *s = ALLOC(struct build_timers);
    s->loop = loop;
    s->now = now;
    s->fired = fired;
    s->ctx = ctx;
    s->store = store;
    must(getrandom(&s->by_build.seed, sizeof s->by_build.seed, 0) ==
         (ssize_t)sizeof s->by_build.seed);
    must(uv_timer_init(loop, &s->turn) == 0);
    s->turn.data = s;
    build_store_each(store, load, s);
    arm(s);
    *out = s;
    return err_none();
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void build_timers_close(struct build_timers *s)
{
    s->closed = true;
    uv_timer_stop(&s->turn);
    build_store_close(s->store);
    for (size_t i = 0; i < s->by_build.cap; i++)
        if (s->by_build.slots[i].key)
            free(s->by_build.slots[i].val);
    strmap_fini(&s->by_build);
    build_dues_fini(&s->due);
    uv_close((uv_handle_t *)&s->turn, on_closed);
}
