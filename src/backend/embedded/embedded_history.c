/* SPDX-License-Identifier: Apache-2.0 */

/* The failure history: a ring of records that are numbered in a row. A new one pushes out the
 * oldest in the same batch, so after any crash it holds the newest that were acknowledged. */

#include "backend/embedded/embedded_undo.h"
#include "base/must.h"
#include "core/history.h"
#include "store/record.h"

/* What is deleted in one turn once it is over the limit. */
#define TRIM_PER_TURN 2000

static uint64_t kept(const struct history *h)
{
    return h->next - h->oldest;
}

/* Deletes the n oldest. */
static void drop(struct embedded *b, uint64_t n)
{
    for (; n > 0; n--) {
        struct record_key key = record_history_key(b->history.oldest++);
        batch_delete(&b->building->batch, record_key_view(&key));
    }
}

static void put_history(void *ctx, const struct history_entry *entry)
{
    struct embedded *b = ctx;
    struct history *h = &b->history;
    uint64_t most = b->settings.failure_history;
    if (!entry->succeeded)
        embedded_failures_add(b, entry);
    if (most == 0)
        return;
    struct arena scratch = {0};
    struct history_entry bounded = *entry;
    bounded.run.failure = history_cut(&entry->run.failure, &scratch);
    record_put_history(&b->building->batch, h->next++, &bounded);
    arena_fini(&scratch);
    if (kept(h) > most)
        drop(b, 1);
}

void embedded_history_port(struct port *port)
{
    port->put_history = put_history;
}

bool embedded_history_trim(struct embedded *b)
{
    uint64_t most = b->settings.failure_history, n = kept(&b->history);
    if (n <= most)
        return false;
    drop(b, n - most < TRIM_PER_TURN ? n - most : TRIM_PER_TURN);
    return kept(&b->history) > most;
}

/* --- recovery --- */

/* The number of the first or last entry; false if there is none. */
static bool find_end(struct embedded *b, struct store_cursor *c, bool last, uint64_t *number)
{
    struct record_key from = record_history_key(last ? UINT64_MAX : 0);
    struct str key, value;
    store_cursor_seek(c, b->env.store, record_key_view(&from), last);
    return store_cursor_at(c, b->env.store, &key, &value) && record_key_is_history(key, number);
}

struct err embedded_history_recover(struct embedded *b)
{
    struct history *h = &b->history;
    uint64_t newest;
    struct store_cursor *c = store_cursor_new(b->env.store);
    *h = (struct history){1, 1};
    if (find_end(b, c, false, &h->oldest) && find_end(b, c, true, &newest))
        h->next = newest + 1;
    b->more_due |= kept(h) > b->settings.failure_history;
    return store_cursor_free(c, b->env.store);
}

/* --- commands --- */

static struct err read_entry(struct embedded *b, uint64_t number, struct arena *a,
                             struct history_page *page, struct history_entry *to)
{
    bool found;
    struct str value;
    TRY(embedded_read_key(b, record_history_key(number), a, &found, &value));
    if (!found)
        return err_none(); /* of a turn that was dropped */
    page->count++;
    return record_read_history(value, a, to);
}

void embedded_history_read(struct embedded *b, const struct command *command, struct reply *r)
{
    const struct history_command *c = &command->history;
    const struct history *h = &b->history;
    struct arena *a = &b->building->arena;
    struct history_page *page = ARENA_NEW(a, struct history_page);
    must(c->limit > 0 && c->limit <= HISTORY_PAGE_MAX);
    uint64_t at = c->below && c->below < h->next ? c->below : h->next;
    uint64_t left = at > h->oldest ? at - h->oldest : 0;
    uint64_t end = at - (left < c->limit ? left : c->limit);
    struct history_entry *entries = arena_get(a, (at - end) * sizeof *entries + 1);
    page->entries = entries;
    page->kept = kept(h);
    while (at > end && r->err.code == ERR_OK)
        r->err = read_entry(b, --at, a, page, &entries[page->count]);
    page->next = at > h->oldest ? at : 0;
    r->history = page;
}

void embedded_history_clear(struct embedded *b, const struct command *c, struct reply *r)
{
    (void)c;
    uint64_t n = kept(&b->history);
    drop(b, n < TRIM_PER_TURN ? n : TRIM_PER_TURN);
    bool groups = embedded_failures_clear(b);
    embedded_undo_expire_all(b);
    r->more = kept(&b->history) > 0 || groups;
}
