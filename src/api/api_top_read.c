/* SPDX-License-Identifier: Apache-2.0 */

/* What `zizq top` says over its WebSocket. */

#include "api/api_top.h"
#include "base/array.h"

#define POSITION_MAX ((int64_t)1 << 53)
#define NAMES_MAX    100

static const char *const list_names[TOP_LISTS] = {"ready", "in_flight", "scheduled"};

const char *api_top_name(enum top_list list)
{
    return list_names[list];
}

enum status api_top_status(enum top_list list)
{
    static const enum status statuses[TOP_LISTS] = {STATUS_READY, STATUS_IN_FLIGHT,
                                                    STATUS_SCHEDULED};
    return statuses[list];
}

/* --- values --- */

static struct err read_word(struct json_cursor *c, struct arena *a, const char *const *words,
                            size_t count, unsigned *at)
{
    struct str text;
    TRY(field_text(c, a, &text));
    for (*at = 0; *at < count; ++*at)
        if (str_eq(text, str_from(words[*at])))
            return err_none();
    return err_make(ERR_BAD_VALUE, "'%.*s' is not known here", (int)(text.len < 32 ? text.len : 32),
                    text.at);
}

/* What the members of a message are read into. */
struct fields {
    struct top_message *to;
    unsigned kind, list, direction;
    int64_t limit;
    struct field_part anchor, query;
};

static struct err read_kind(struct json_cursor *c, struct arena *a, void *out)
{
    static const char *const words[] = {"subscribe", "set_detail_level", "delete_job", "find"};
    return read_word(c, a, words, COUNT(words), &((struct fields *)out)->kind);
}

static struct err read_list(struct json_cursor *c, struct arena *a, void *out)
{
    return read_word(c, a, list_names, TOP_LISTS, &((struct fields *)out)->list);
}

static struct err read_direction(struct json_cursor *c, struct arena *a, void *out)
{
    static const char *const words[] = {"forward", "backward", "locate"};
    return read_word(c, a, words, COUNT(words), &((struct fields *)out)->direction);
}

static struct err read_limit(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 0, POSITION_MAX, &((struct fields *)out)->limit);
}

static struct err read_detail(struct json_cursor *c, struct arena *a, void *out)
{
    return field_bool(c, a, &((struct fields *)out)->to->detail);
}

/* An id that is none names no job. */
static struct err read_job(struct json_cursor *c, struct arena *a, struct id *id)
{
    struct str text;
    TRY(field_text(c, a, &text));
    if (id_parse(text, id).code != ERR_OK)
        *id = (struct id){0};
    return err_none();
}

static struct err read_id(struct json_cursor *c, struct arena *a, void *out)
{
    return read_job(c, a, &((struct fields *)out)->to->id);
}

/* --- anchors --- */

struct anchor {
    struct window_command *window;
    unsigned kind, fallback;
    int64_t offset;
};

static const char *const anchor_kinds[] = {"head",   "tail",  "offset", "around",
                                           "job_id", "start", "end"};
enum anchor_kind { AT_HEAD, AT_TAIL, AT_OFFSET, AT_AROUND, AT_JOB, AT_START, AT_END };

static struct err read_anchor_kind(struct json_cursor *c, struct arena *a, void *out)
{
    return read_word(c, a, anchor_kinds, COUNT(anchor_kinds), &((struct anchor *)out)->kind);
}

static struct err read_fallback(struct json_cursor *c, struct arena *a, void *out)
{
    static const char *const words[] = {"nowhere", "head", "tail"};
    return read_word(c, a, words, COUNT(words), &((struct anchor *)out)->fallback);
}

static struct err read_offset(struct json_cursor *c, struct arena *a, void *out)
{
    (void)a;
    return json_read_int(c, 0, POSITION_MAX, &((struct anchor *)out)->offset);
}

static struct err read_anchor_id(struct json_cursor *c, struct arena *a, void *out)
{
    return read_job(c, a, &((struct anchor *)out)->window->id);
}

static const struct field anchor_table[] = {
    {"kind", true, read_anchor_kind, 0},
    {"id", false, read_anchor_id, 0},
    {"fallback", false, read_fallback, 0},
    {"offset", false, read_offset, 0},
};

static struct err read_anchor(struct fields *f, struct arena *arena, struct anchor *anchor)
{
    *anchor = (struct anchor){.window = &f->to->window};
    return field_read_part(false, &f->anchor, arena, anchor_table, COUNT(anchor_table), "anchor",
                           anchor);
}

static struct err read_subscription(struct fields *f, struct arena *arena)
{
    static const enum window_anchor anchors[] = {
        [AT_HEAD] = WINDOW_HEAD,     [AT_TAIL] = WINDOW_TAIL,  [AT_OFFSET] = WINDOW_OFFSET,
        [AT_AROUND] = WINDOW_AROUND, [AT_JOB] = WINDOW_AROUND, [AT_START] = WINDOW_HEAD,
        [AT_END] = WINDOW_TAIL};
    static const enum window_anchor fallbacks[] = {WINDOW_NOWHERE, WINDOW_HEAD, WINDOW_TAIL};
    struct anchor anchor;
    TRY(read_anchor(f, arena, &anchor));
    f->to->window.anchor = anchors[anchor.kind];
    f->to->window.fallback = fallbacks[anchor.fallback];
    f->to->window.offset = (uint64_t)anchor.offset;
    return err_none();
}

/* --- searches --- */

struct query {
    struct window_command *window;
};

static struct err read_names(struct json_cursor *c, struct arena *a, const struct str **names,
                             size_t *count)
{
    struct str *at = arena_get(a, NAMES_MAX * sizeof *at);
    *count = 0;
    *names = at;
    TRY(json_enter_array(c));
    for (;;) {
        bool more;
        TRY(json_next_element(c, &more));
        if (!more)
            return err_none();
        if (*count == NAMES_MAX)
            return err_make(ERR_TOO_MANY, "more than %d names", NAMES_MAX);
        TRY(field_text(c, a, &at[(*count)++]));
    }
}

static struct err read_queues(struct json_cursor *c, struct arena *a, void *out)
{
    struct window_command *w = ((struct query *)out)->window;
    return read_names(c, a, &w->queues, &w->queue_count);
}

static struct err read_types(struct json_cursor *c, struct arena *a, void *out)
{
    struct window_command *w = ((struct query *)out)->window;
    return read_names(c, a, &w->types, &w->type_count);
}

static const struct field query_table[] = {
    {"queues", false, read_queues, 0},
    {"types", false, read_types, 0},
};

enum direction { FORWARD, BACKWARD, LOCATE };

static struct err read_search(struct fields *f, struct arena *arena)
{
    static const enum window_anchor anchors[] = {WINDOW_NEXT, WINDOW_PREVIOUS, WINDOW_AROUND};
    struct window_command *w = &f->to->window;
    struct query query = {w};
    struct anchor anchor;
    TRY(read_anchor(f, arena, &anchor));
    TRY(field_read_part(false, &f->query, arena, query_table, COUNT(query_table), "query", &query));
    w->anchor = anchors[f->direction];
    w->fallback = WINDOW_NOWHERE;
    if ((anchor.kind == AT_START && f->direction == BACKWARD) ||
        (anchor.kind == AT_END && f->direction == FORWARD))
        w->anchor = WINDOW_NOWHERE; /* there is nothing to look at */
    return err_none();
}

/* --- messages --- */

static const struct field message_table[] = {
    {"type", true, read_kind, 0},
    {"list", false, read_list, 0},
    {"anchor", false, field_part, offsetof(struct fields, anchor)},
    {"limit", false, read_limit, 0},
    {"detail", false, read_detail, 0},
    {"id", false, read_id, 0},
    {"direction", false, read_direction, 0},
    {"query", false, field_part, offsetof(struct fields, query), true},
};

struct err api_top_read(struct str text, struct arena *arena, struct top_message *m)
{
    struct json_cursor c = json_open(text);
    struct fields f = {.to = m, .limit = WINDOW_MAX};
    *m = (struct top_message){0};
    TRY(field_read_object(false, &c, arena, message_table, COUNT(message_table), &f));
    TRY(json_close(&c));
    m->kind = (enum top_request)f.kind;
    m->list = (enum top_list)f.list;
    m->window.limit = f.limit < 1 ? 1 : f.limit < WINDOW_MAX ? (uint32_t)f.limit : WINDOW_MAX;
    if (m->kind == TOP_SUBSCRIBE)
        return read_subscription(&f, arena);
    return m->kind == TOP_FIND ? read_search(&f, arena) : err_none();
}
