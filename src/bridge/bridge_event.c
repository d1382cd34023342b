/* SPDX-License-Identifier: Apache-2.0 */
#include "bridge/bridge_event.h"

#include <stdio.h>

#include "amqp/amqp_session.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "client/view.h"

#define NAME_BYTES_MAX 255 /* of exchanges and routing keys */

static struct str print_id(struct arena *a, struct event_cursor at, size_t index)
{
    struct buf text = {0};
    event_cursor_write(&text, at);
    if (index)
        buf_print(&text, ".%zu", index);
    struct str id = arena_copy(a, buf_view(&text));
    buf_fini(&text);
    return id;
}

static struct bridge_note *add(struct bridge_notes *out, struct arena *a)
{
    ARENA_GROW(a, out->at, out->count, out->cap, 4);
    out->at[out->count] = (struct bridge_note){0};
    return &out->at[out->count++];
}

/* Without the messages, which have exchanges of their own. */
static struct err without_messages(struct str event, struct arena *a, struct str *out)
{
    struct json_cursor c = json_open(event);
    struct buf b = {0};
    struct err e = json_enter_object(&c);
    for (bool more = e.code == ERR_OK; more;) {
        struct json_string key;
        struct str value;
        e = json_next_member(&c, &more, &key);
        if (e.code == ERR_OK && more)
            e = json_skip(&c, &value);
        more = more && e.code == ERR_OK;
        if (more && !str_eq(key.raw, STR("messages")))
            buf_print(&b, "%s\"%.*s\":%.*s", b.len ? "," : "{", STR_ARG(key.raw), STR_ARG(value));
    }
    buf_str(&b, b.len ? STR("}") : STR("{}"));
    if (e.code == ERR_OK)
        *out = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return e;
}

/* "mail.job_dead"; "_" for no queue. A name of a queue that is too long is cut off. */
static struct str key_of(struct str queue, struct str event, struct arena *a)
{
    char text[NAME_BYTES_MAX + 1];
    size_t room = NAME_BYTES_MAX - 1 - event.len;
    if (queue.len == 0)
        queue = STR("_");
    if (queue.len > room)
        queue.len = room;
    queue.len = utf8_check(queue); /* not within a character */
    int n = snprintf(text, sizeof text, "%.*s.%.*s", STR_ARG(queue), STR_ARG(event));
    return arena_copy(a, (struct str){text, (size_t)n});
}

static struct err add_event(struct str event, struct event_cursor at, const char *exchange,
                            struct arena *a, struct bridge_notes *out)
{
    struct str name = view_text(a, event, "event");
    if (name.len == 0 || name.len > NAME_BYTES_MAX / 2)
        return err_make(ERR_MISSING_FIELD, "it has no name");
    struct bridge_note n = {.exchange = str_from(exchange),
                            .routing_key = key_of(view_text(a, event, "queue"), name, a),
                            .message_id = print_id(a, at, 0),
                            .type = name};
    TRY(without_messages(event, a, &n.body));
    *add(out, a) = n;
    return err_none();
}

static struct err add_routes(struct str message, struct arena *a, amqp_array_t *out)
{
    size_t count = 0, cap = 0;
    struct str cc = view_get(message, "cc"), raw;
    for (struct view_list l = view_list(cc); view_next(&l, &raw);) {
        struct json_cursor c = json_open(raw);
        struct json_string s;
        struct str route;
        TRY(json_read_string(&c, &s));
        TRY(json_text(s, a, &route));
        ARENA_GROW(a, out->entries, count, cap, 4);
        out->entries[count++] = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_UTF8,
                                                     .value.bytes = amqp_session_bytes(route)};
        out->num_entries = (int)count;
    }
    return err_none();
}

static struct err add_message(struct str message, struct event_cursor at, size_t index,
                              struct arena *a, struct bridge_notes *out)
{
    struct bridge_note n = {.exchange = view_text(a, message, "exchange"),
                            .routing_key = view_text(a, message, "routingKey"),
                            .body = view_get(message, "payload"),
                            .message_id = print_id(a, at, index)};
    if (n.exchange.len == 0 || n.exchange.len > NAME_BYTES_MAX ||
        n.routing_key.len > NAME_BYTES_MAX || n.body.len == 0)
        return err_make(ERR_BAD_VALUE,
                        "message %zu has no exchange, routing key or payload that "
                        "RabbitMQ would take",
                        index);
    TRY(add_routes(message, a, &n.cc));
    *add(out, a) = n;
    return err_none();
}

struct err bridge_event_read(struct str event, struct event_cursor at,
                             const struct bridge_topics *to, struct arena *a,
                             struct bridge_notes *out)
{
    struct str message;
    size_t index = 0;
    TRY(view_check(event, NULL));
    if (to->exchange)
        TRY(add_event(event, at, to->exchange, a, out));
    if (!to->taskcluster)
        return err_none();
    for (struct view_list l = view_list(view_get(event, "messages")); view_next(&l, &message);)
        TRY(add_message(message, at, ++index, a, out));
    return err_none();
}
