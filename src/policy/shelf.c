/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/shelf.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/strmap.h"

/* A document, held by its item and by the arenas in which it is shown. */
struct held {
    const struct shelf_kind *kind;
    unsigned holders;
    size_t bytes; /* of its text */
    alignas(max_align_t) char doc[];
};

struct item {
    struct str name; /* owned by the map */
    uint64_t version;
    struct held *held; /* iff why is empty */
    char why[256];     /* why it can no longer be read, or empty */
};

struct shelf {
    const struct shelf_kind *kind;
    struct policies_sink sink;
    uint64_t *version;
    struct strmap items; /* of struct item */
    struct item **sorted;
    size_t count, cap;
    uint64_t bytes, weight; /* of all documents */
};

struct shelf *shelf_new(const struct shelf_kind *kind, const struct policies_sink *sink,
                        uint64_t *version)
{
    struct shelf *s = ALLOC(struct shelf);
    s->kind = kind;
    s->sink = *sink;
    s->version = version;
    return s;
}

static void let_go(void *held)
{
    struct held *h = held;
    if (!h || --h->holders > 0)
        return;
    h->kind->free(h->doc);
    free(h);
}

static uint64_t bytes_of(const struct item *it)
{
    return it && it->held ? it->held->bytes : 0;
}

static uint64_t weight_of(const struct item *it)
{
    return it && it->held ? it->held->kind->weight(it->held->doc) : 0;
}

/* Replaces what the item holds by h, which it owns from now on; NULL: nothing. */
static void hold(struct shelf *s, struct item *it, struct held *h)
{
    s->bytes -= bytes_of(it);
    s->weight -= weight_of(it);
    let_go(it->held);
    it->held = h;
    s->bytes += bytes_of(it);
    s->weight += weight_of(it);
}

static void free_item(struct shelf *s, struct item *it)
{
    hold(s, it, NULL);
    free(it);
}

void shelf_free(struct shelf *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++)
        free_item(s, s->sorted[i]);
    strmap_fini(&s->items);
    free(s->sorted);
    free(s);
}

/* --- items --- */

static struct item *insert(struct shelf *s, struct str name)
{
    struct item *it = ALLOC(struct item);
    ALLOC_GROW(s->sorted, s->count, s->cap, 16);
    it->name = strmap_put(&s->items, name, it);
    size_t i = s->count++;
    for (; i > 0 && str_cmp(it->name, s->sorted[i - 1]->name) < 0; i--)
        s->sorted[i] = s->sorted[i - 1];
    s->sorted[i] = it;
    return it;
}

static void forget(struct shelf *s, struct item *it)
{
    size_t i = 0;
    while (s->sorted[i] != it)
        i++;
    s->count--;
    memmove(&s->sorted[i], &s->sorted[i + 1], (s->count - i) * sizeof(struct item *));
    must(strmap_remove(&s->items, it->name) == it);
    free_item(s, it);
}

/* --- reading --- */

static struct err no_such(const struct shelf *s, struct str name)
{
    return err_make(ERR_NOT_FOUND, "there is no %s '%.*s'", s->kind->one, NAME_ARG(name));
}

static void show(const struct item *it, struct arena *a, struct resource_view *out)
{
    *out = (struct resource_view){.name = arena_copy(a, it->name), .version = it->version};
    if (it->held) {
        it->held->holders++;
        arena_defer(a, let_go, it->held);
        out->value = it->held->doc;
        out->bytes = it->held->bytes;
    } else {
        out->broken = arena_copy(a, str_from(it->why));
    }
}

struct err shelf_read(const struct shelf *s, struct str name, struct arena *a,
                      struct resource_view **views, size_t *count)
{
    const struct item *one = name.len ? strmap_get(&s->items, name) : NULL;
    if (name.len && !one)
        return no_such(s, name);
    *count = one ? 1 : s->count;
    *views = arena_get(a, *count * sizeof **views);
    for (size_t i = 0; i < *count; i++)
        show(one ? one : s->sorted[i], a, &(*views)[i]);
    return err_none();
}

bool shelf_has(const struct shelf *s, struct str name)
{
    return strmap_get(&s->items, name) != NULL;
}

const void *shelf_get(const struct shelf *s, struct str name)
{
    const struct item *it = strmap_get(&s->items, name);
    return it && it->held ? it->held->doc : NULL;
}

size_t shelf_count(const struct shelf *s)
{
    return s->count;
}

const void *shelf_at(const struct shelf *s, size_t i)
{
    must(i < s->count);
    return s->sorted[i]->held ? s->sorted[i]->held->doc : NULL;
}

struct str shelf_name_at(const struct shelf *s, size_t i)
{
    must(i < s->count);
    return s->sorted[i]->name;
}

/* --- changing --- */

static struct err check_put(const struct shelf *s, const struct policies_put *put, struct str name,
                            int64_t stated, const struct item *old)
{
    const char *one = s->kind->one;
    if (put->name.len && !str_eq(name, put->name))
        return err_make(ERR_BAD_VALUE, "metadata.name: expected the one in the path, '%.*s'",
                        NAME_ARG(put->name));
    if (put->create && old)
        return err_make(ERR_CONFLICT, "there is a %s '%.*s' already", one, NAME_ARG(name));
    if (stated && !old)
        return err_make(ERR_CONFLICT, "metadata.resourceVersion: there is no %s '%.*s' any more",
                        one, NAME_ARG(name));
    if (stated && (uint64_t)stated != old->version)
        return err_make(ERR_CONFLICT, "metadata.resourceVersion: it is %llu by now, not %lld",
                        (unsigned long long)old->version, (long long)stated);
    if (!old && s->count >= s->kind->most)
        return err_make(ERR_TOO_MANY, "there are at most %zu %s", s->kind->most, s->kind->many);
    return err_none();
}

/* A document with memory of its own, or NULL with a fault. */
static struct held *parse(const struct shelf *s, struct str text, struct document_fault *fault)
{
    struct held *h = alloc_zero(sizeof *h + s->kind->size);
    h->kind = s->kind;
    h->holders = 1;
    h->bytes = text.len;
    if (s->kind->parse(text, h->doc, fault))
        return h;
    free(h);
    return NULL;
}

/* The canonical form of a value, which is accepted again like the text that it was read from. */
static struct str canonical(const struct shelf *s, const void *value, uint64_t version,
                            struct arena *a)
{
    struct buf b = {0};
    document_write_json(s->kind->tree(value, (int64_t)version, a), &b);
    struct str text = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return text;
}

static struct err check_room(const struct shelf *s, const struct item *old, const struct held *h)
{
    if (s->bytes - bytes_of(old) + h->bytes > SHELF_TEXT_MAX)
        return err_make(ERR_TOO_MANY, "all %s together may be %llu bytes long", s->kind->many,
                        (unsigned long long)SHELF_TEXT_MAX);
    if (s->weight - weight_of(old) + s->kind->weight(h->doc) > SHELF_WEIGHT_MAX)
        return err_make(ERR_TOO_MANY,
                        "the regular expressions of all %s together may have %llu bytes, compiled",
                        s->kind->many, (unsigned long long)SHELF_WEIGHT_MAX);
    return err_none();
}

struct err shelf_put(struct shelf *s, const struct policies_put *put, struct arena *a,
                     struct resource_view **view)
{
    struct document_fault fault = {0};
    struct str name = s->kind->name(put->value);
    struct item *it = strmap_get(&s->items, name);
    TRY(check_put(s, put, name, put->version, it));
    struct str text = canonical(s, put->value, *s->version + 1, a);
    struct held *h = parse(s, text, &fault);
    if (!h)
        return document_fault_err(&fault);
    struct err full = check_room(s, it, h);
    if (full.code != ERR_OK) {
        let_go(h);
        return full;
    }
    if (!it)
        it = insert(s, name);
    hold(s, it, h);
    it->why[0] = '\0';
    it->version = ++*s->version;
    s->sink.put(s->sink.ctx, s->kind->kind, it->name, it->version, text);
    *view = ARENA_NEW(a, struct resource_view);
    show(it, a, *view);
    return err_none();
}

struct err shelf_remove(struct shelf *s, struct str name)
{
    struct item *it = strmap_get(&s->items, name);
    if (!it)
        return no_such(s, name);
    s->sink.put(s->sink.ctx, s->kind->kind, name, 0, (struct str){0});
    forget(s, it);
    return err_none();
}

struct err shelf_restore(struct shelf *s, struct str name, uint64_t version, struct str body)
{
    struct document_fault fault = {0};
    struct err err = err_none();
    struct held *h = parse(s, body, &fault);
    if (!h) {
        err = document_fault_err(&fault);
    } else if (!str_eq(s->kind->name(h->doc), name)) {
        err = err_make(ERR_CORRUPT, "it says that it has another name");
        let_go(h);
        h = NULL;
    }
    struct item *it = insert(s, name);
    it->version = version;
    hold(s, it, h);
    if (err.code != ERR_OK) {
        memcpy(it->why, err.msg, sizeof err.msg < sizeof it->why ? sizeof err.msg : sizeof it->why);
        it->why[sizeof it->why - 1] = '\0';
    }
    return err;
}
