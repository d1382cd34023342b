/* SPDX-License-Identifier: Apache-2.0 */
#include "core/event_history.h"

#include <string.h>

#define VERSION "1 "

static const struct event_cursor *find_before(const struct event_history *h, uint64_t id)
{
    for (uint32_t i = 0; i < h->count; i++)
        if (h->before[i].history == id)
            return &h->before[i];
    return NULL;
}

void event_history_turn(struct event_history *h, uint64_t id, uint64_t newest)
{
    if (id == h->id || find_before(h, id))
        return;
    if (h->count == EVENT_HISTORY_BEFORE_MAX)
        memmove(h->before, h->before + 1, --h->count * sizeof *h->before);
    h->before[h->count++] = (struct event_cursor){h->id, newest};
    h->id = id;
    /* What follows the new beginning is none of theirs. */
    for (uint32_t i = 0; i < h->count; i++)
        if (h->before[i].number > newest)
            h->before[i].number = newest;
}

uint64_t event_history_place(const struct event_history *h, struct event_cursor c, uint64_t oldest,
                             uint64_t newest, bool *gap)
{
    const struct event_cursor *last = h->count ? &h->before[h->count - 1] : NULL;
    const struct event_cursor *of = find_before(h, c.history);
    *gap = false;
    if (c.number == 0)
        return 0;
    if (c.history && c.history != h->id) {
        *gap = !of || c.number > of->number;
        if (of)
            return *gap ? of->number : c.number;
    } else if (c.number <= newest) {
        return c.number;
    } else {
        *gap = true;
        if (c.history)
            return newest;
        if (last)
            return last->number;
    }
    return oldest ? oldest - 1 : newest;
}

void event_history_write(struct buf *b, const struct event_history *h)
{
    buf_lit(b, VERSION);
    event_cursor_write(b, (struct event_cursor){h->id, 0});
    for (uint32_t i = 0; i < h->count; i++) {
        buf_byte(b, ' ');
        event_cursor_write(b, h->before[i]);
    }
}

static struct str next_word(struct str *text)
{
    const char *space = text->len ? memchr(text->at, ' ', text->len) : NULL;
    struct str word = {text->at, space ? (size_t)(space - text->at) : text->len};
    size_t passed = word.len + (space != NULL);
    *text = (struct str){text->at + passed, text->len - passed};
    return word;
}

struct err event_history_read(struct str text, struct event_history *h)
{
    struct event_history read = {0};
    struct event_cursor c;
    if (!str_eq(next_word(&text), STR("1")))
        return err_make(ERR_VERSION, "the id of the events' history is of a newer version");
    bool good = event_cursor_read(next_word(&text), &c) && c.history;
    read.id = good ? c.history : 0;
    while (good && text.len) {
        good = read.count < EVENT_HISTORY_BEFORE_MAX && event_cursor_read(next_word(&text), &c) &&
               c.history;
        if (good)
            read.before[read.count++] = c;
    }
    if (!good)
        return err_make(ERR_CORRUPT, "the id of the events' history is damaged");
    *h = read;
    return err_none();
}
