/* SPDX-License-Identifier: Apache-2.0 */
#include "builds/build_store.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/must.h"
#include "base/utf8.h"
#include "client/journal.h"

struct build_record {
    struct list node;              /* in parked, unkept or settled */
    struct journal_record *record; /* NULL: parked */
    char *text;                    /* of a parked one */
    size_t len;
    build_store_kept *kept; /* NULL: nobody waits for it, or it was called */
    void *ctx;
};

struct call {
    struct list node;
    build_store_kept *kept;
    void *ctx;
};

struct build_store {
    uv_loop_t *loop;
    struct journal *journal;
    size_t bytes, bytes_max; /* of records in the journal */
    struct list parked, unkept, settled;
    struct list calls; /* to be made */
    uv_timer_t soon;
};

/* --- calls --- */

static void make_calls(struct build_store *s)
{
    while (!list_is_empty(&s->calls)) {
        struct call *c = LIST_OF(s->calls.next, struct call, node);
        struct call copy = *c;
        list_unlink(&c->node);
        free(c);
        copy.kept(copy.ctx);
    }
}

static void on_soon(uv_timer_t *t)
{
    make_calls(t->data);
}

static void add_call(struct build_store *s, build_store_kept *kept, void *ctx)
{
    if (!kept)
        return;
    struct call *c = ALLOC(struct call);
    *c = (struct call){.kept = kept, .ctx = ctx};
    list_init(&c->node);
    list_append(&s->calls, &c->node);
}

void build_store_call(struct build_store *s, build_store_kept *kept, void *ctx)
{
    add_call(s, kept, ctx);
    if (kept)
        uv_timer_start(&s->soon, on_soon, 0, 0);
}

/* Records become kept in their order. */
static void on_changed(void *ctx)
{
    struct build_store *s = ctx;
    while (!list_is_empty(&s->unkept)) {
        struct build_record *r = LIST_OF(s->unkept.next, struct build_record, node);
        if (!r->record->kept)
            break;
        add_call(s, r->kept, r->ctx);
        r->kept = NULL;
        list_unlink(&r->node);
        list_append(&s->settled, &r->node);
    }
    make_calls(s);
}

/* --- records --- */

static bool has_room(const struct build_store *s, size_t len)
{
    return s->bytes == 0 || (len <= s->bytes_max && s->bytes <= s->bytes_max - len);
}

static void enter(struct build_store *s, struct build_record *r, struct str json)
{
    r->record = journal_add(s->journal, json);
    s->bytes += r->len;
    list_append(&s->unkept, &r->node);
}

static void park(struct build_store *s, struct build_record *r, struct str json)
{
    if (list_is_empty(&s->parked))
        log_warn("%zu bytes wait on disk for the other side; more is not accepted meanwhile",
                 s->bytes);
    r->text = alloc_text(json.at, json.len);
    list_append(&s->parked, &r->node);
}

static void unpark(struct build_store *s)
{
    while (!list_is_empty(&s->parked)) {
        struct build_record *r = LIST_OF(s->parked.next, struct build_record, node);
        if (!has_room(s, r->len))
            return;
        char *text = r->text;
        list_unlink(&r->node);
        enter(s, r, (struct str){text, r->len});
        r->text = NULL;
        free(text);
    }
}

struct build_record *build_store_add(struct build_store *s, struct str json, build_store_kept *kept,
                                     void *ctx)
{
    struct build_record *r = ALLOC(struct build_record);
    *r = (struct build_record){.len = json.len, .kept = kept, .ctx = ctx};
    list_init(&r->node);
    if (list_is_empty(&s->parked) && has_room(s, json.len))
        enter(s, r, json);
    else
        park(s, r, json);
    return r;
}

struct str build_store_text(const struct build_record *r)
{
    return r->record ? journal_text(r->record) : (struct str){r->text, r->len};
}

void build_store_fetch(const struct build_store *s, const struct build_record *r, struct buf *out)
{
    if (r->record)
        journal_fetch(s->journal, r->record, out);
    else
        buf_add(out, r->text, r->len);
}

static void drop(struct build_record *r)
{
    list_unlink(&r->node);
    free(r->text);
    free(r);
}

void build_store_remove(struct build_store *s, struct build_record *r)
{
    build_store_call(s, r->kept, r->ctx);
    if (r->record) {
        s->bytes -= r->len;
        journal_remove(s->journal, r->record);
    }
    drop(r);
    unpark(s);
}

void build_store_each(struct build_store *s, void (*see)(void *ctx, struct build_record *r),
                      void *ctx)
{
    for (struct list *n = s->settled.next, *next; n != &s->settled; n = next) {
        next = n->next;
        see(ctx, LIST_OF(n, struct build_record, node));
    }
}

/* --- texts --- */

void build_store_write_text(struct buf *b, struct str s, size_t max)
{
    struct buf clean = {0};
    bool cut = s.len > max;
    s.len = cut ? max : s.len;
    while (s.len) {
        size_t good = utf8_check(s);
        buf_add(&clean, s.at, good);
        /* A character that the cut has halved is left out. */
        if (good < s.len && !(cut && s.len - good < 4))
            buf_byte(&clean, '?');
        good += good < s.len;
        s = (struct str){s.at + good, s.len - good};
    }
    json_write_string(b, buf_view(&clean));
    buf_fini(&clean);
}

/* --- opening and closing --- */

static void load(struct build_store *s)
{
    LIST_EACH (n, journal_records(s->journal)) {
        struct build_record *r = ALLOC(struct build_record);
        r->record = LIST_OF(n, struct journal_record, node);
        r->len = r->record->len;
        s->bytes += r->len;
        list_init(&r->node);
        list_append(&s->settled, &r->node);
    }
}

static struct err open_it(uv_loop_t *loop, const char *dir, size_t bytes_max, bool lean,
                          struct build_store **out)
{
    struct build_store *s = ALLOC(struct build_store);
    struct err e = lean ? journal_open_lean(loop, dir, on_changed, s, &s->journal)
                        : journal_open(loop, dir, on_changed, s, &s->journal);
    if (e.code != ERR_OK) {
        free(s);
        return e;
    }
    s->loop = loop;
    s->bytes_max = bytes_max;
    list_init(&s->parked);
    list_init(&s->unkept);
    list_init(&s->settled);
    list_init(&s->calls);
    must(uv_timer_init(loop, &s->soon) == 0);
    s->soon.data = s;
    load(s);
    *out = s;
    return err_none();
}

struct err build_store_open(uv_loop_t *loop, const char *dir, size_t bytes_max,
                            struct build_store **out)
{
    return open_it(loop, dir, bytes_max, false, out);
}

struct err build_store_open_lean(uv_loop_t *loop, const char *dir, size_t bytes_max,
                                 struct build_store **out)
{
    return open_it(loop, dir, bytes_max, true, out);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static void drop_all(struct list *l)
{
    while (!list_is_empty(l))
        drop(LIST_OF(l->next, struct build_record, node));
}

void build_store_close(struct build_store *s)
{
    uv_timer_stop(&s->soon);
    drop_all(&s->parked);
    drop_all(&s->unkept);
    drop_all(&s->settled);
    while (!list_is_empty(&s->calls)) {
        struct call *c = LIST_OF(s->calls.next, struct call, node);
        list_unlink(&c->node);
        free(c);
    }
    /* It may run the loop: this comes before anything is freed by it. */
    journal_close(s->journal);
    uv_close((uv_handle_t *)&s->soon, on_closed);
}
