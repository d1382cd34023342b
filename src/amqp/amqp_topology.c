/* SPDX-License-Identifier: Apache-2.0 */
#include "amqp/amqp_topology.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/decimal.h"
#include "base/must.h"

#define FORBIDDEN    403
#define NOT_FOUND    404
#define INEQUIVALENT 406

void amqp_differences_fini(struct amqp_differences *d)
{
    free(d->at);
    *d = (struct amqp_differences){0};
}

static struct amqp_difference *add(struct amqp_differences *d, const char *name)
{
    ALLOC_GROW(d->at, d->count, d->cap, 8);
    struct amqp_difference *new = &d->at[d->count++];
    *new = (struct amqp_difference){.name = name};
    return new;
}

/* --- the broker's words --- */

/* What stands between two texts; false if they are not there in this order. */
static bool between(struct str *rest, const char *before, const char *after, char *out, size_t size)
{
    const char *from = memmem(rest->at, rest->len, before, strlen(before));
    if (!from)
        return false;
    from += strlen(before);
    size_t left = rest->len - (size_t)(from - rest->at);
    const char *to = *after ? memmem(from, left, after, strlen(after)) : from + left;
    if (!to)
        return false;
    snprintf(out, size, "%.*s", (int)(to - from), from);
    *rest = (struct str){to, left - (size_t)(to - from)};
    return true;
}

/* "the value '5000' of type 'signedint'", "'true'" or "none": the bare value. */
static void unwrap(char *text)
{
    if (strncmp(text, "the value ", 10) == 0)
        memmove(text, text + 10, strlen(text) - 9);
    char *end = text[0] == '\'' ? strstr(text + 1, "' of type") : NULL;
    if (!end && text[0] == '\'')
        end = strrchr(text + 1, '\'');
    if (!end)
        return;
    *end = '\0';
    memmove(text, text + 1, strlen(text));
}

bool amqp_topology_parse(struct str text, struct amqp_difference *out)
{
    if (!between(&text, "inequivalent arg '", "'", out->argument, sizeof out->argument) ||
        !between(&text, "received ", " but current is ", out->wanted, sizeof out->wanted) ||
        !between(&text, " but current is ", "", out->found, sizeof out->found))
        return false;
    unwrap(out->wanted);
    unwrap(out->found);
    return true;
}

/* --- asking --- */

/* What an entity is declared with: as wanted at first, then as the broker has it. */
struct shape {
    bool durable, auto_delete;
    char type[64]; /* of an exchange */
    size_t count;
    char names[AMQP_ARGS_MAX * 2][64];
    amqp_field_value_t values[AMQP_ARGS_MAX * 2];
    char texts[AMQP_ARGS_MAX * 2][128];
};

static void set_arg(struct shape *s, size_t i, const char *text, bool number, int64_t value)
{
    if (number) {
        s->values[i] = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_I64, .value.i64 = value};
        return;
    }
    snprintf(s->texts[i], sizeof s->texts[i], "%s", text);
    s->values[i] = (amqp_field_value_t){.kind = AMQP_FIELD_KIND_UTF8,
                                        .value.bytes = amqp_cstring_bytes(s->texts[i])};
}

static struct shape queue_shape(const struct amqp_queue *q)
{
    struct shape s = {.durable = true, .count = q->arg_count};
    must(q->arg_count <= AMQP_ARGS_MAX);
    for (size_t i = 0; i < q->arg_count; i++) {
        snprintf(s.names[i], sizeof s.names[i], "%s", q->args[i].name);
        set_arg(&s, i, q->args[i].text, q->args[i].type == AMQP_ARG_INT, q->args[i].number);
    }
    return s;
}

static amqp_table_t table_of(struct shape *s, amqp_table_entry_t entries[AMQP_ARGS_MAX * 2])
{
    for (size_t i = 0; i < s->count; i++) {
        entries[i].key = amqp_cstring_bytes(s->names[i]);
        entries[i].value = s->values[i];
        if (entries[i].value.kind == AMQP_FIELD_KIND_UTF8)
            entries[i].value.value.bytes = amqp_cstring_bytes(s->texts[i]);
    }
    return (amqp_table_t){.num_entries = (int)s->count, .entries = entries};
}

/* Takes over the broker's value of the argument, so that the next difference shows. */
static bool learn(struct shape *s, const struct amqp_difference *d)
{
    if (strcmp(d->argument, "durable") == 0) {
        s->durable = strcmp(d->found, "true") == 0;
        return true;
    }
    if (strcmp(d->argument, "auto_delete") == 0) {
        s->auto_delete = strcmp(d->found, "true") == 0;
        return true;
    }
    if (strcmp(d->argument, "type") == 0) {
        snprintf(s->type, sizeof s->type, "%s", d->found);
        return true;
    }
    size_t i = 0;
    while (i < s->count && strcmp(s->names[i], d->argument) != 0)
        i++;
    if (strcmp(d->found, "none") == 0) {
        if (i == s->count)
            return false;
        s->count--;
        memcpy(s->names[i], s->names[s->count], sizeof s->names[i]);
        memcpy(s->texts[i], s->texts[s->count], sizeof s->texts[i]);
        s->values[i] = s->values[s->count];
        return true;
    }
    if (i == AMQP_ARGS_MAX * 2)
        return false;
    if (i == s->count)
        snprintf(s->names[s->count++], sizeof s->names[i], "%s", d->argument);
    int64_t number;
    bool whole = decimal_digits(str_from(d->found), 18, &number);
    set_arg(s, i, d->found, whole, number);
    return true;
}

/* What is asked about: a queue if it is not NULL, else the exchange. */
struct entity {
    const struct amqp_queue *queue;
    const struct amqp_topology *topology;
};

static const char *name_of(const struct entity *e)
{
    return e->queue ? e->queue->name : e->topology->exchange;
}

static amqp_rpc_reply_t ask(struct amqp_session *s, const struct entity *e, struct shape *shape,
                            bool passive)
{
    amqp_table_entry_t entries[AMQP_ARGS_MAX * 2];
    amqp_table_t args = passive ? amqp_empty_table : table_of(shape, entries);
    amqp_bytes_t name = amqp_cstring_bytes(name_of(e));
    if (e->queue)
        amqp_queue_declare(s->state, AMQP_CONTROL, name, passive, shape->durable, 0,
                           shape->auto_delete, args);
    else
        amqp_exchange_declare(s->state, AMQP_CONTROL, name, amqp_cstring_bytes(shape->type),
                              passive, shape->durable, shape->auto_delete, 0, args);
    return amqp_get_rpc_reply(s->state);
}

/* Sets *code to that of the refusal, 0 if it was accepted; text is valid until the next question.
 */
static struct err put_question(struct amqp_session *s, const struct entity *e, struct shape *shape,
                               bool passive, int *code, struct amqp_difference *difference)
{
    struct str text;
    char what[200];
    TRY(amqp_session_control(s));
    amqp_rpc_reply_t reply = ask(s, e, shape, passive);
    *code = amqp_session_refusal(reply, &text);
    if (*code == INEQUIVALENT && !amqp_topology_parse(text, difference)) {
        snprintf(difference->argument, sizeof difference->argument, "?");
        snprintf(difference->found, sizeof difference->found, "%.*s", STR_ARG(text));
    }
    if (*code)
        amqp_session_control_closed(s);
    if (*code == INEQUIVALENT || *code == NOT_FOUND)
        return err_none();
    snprintf(what, sizeof what, "'%.100s' cannot be looked at", name_of(e));
    if (*code == FORBIDDEN)
        return err_make(ERR_FORBIDDEN, "%s at %s: %.*s", what, s->peer, STR_ARG(text));
    return amqp_session_check(s, reply, what);
}

static struct err compare(struct amqp_session *s, const struct entity *e, struct shape *shape,
                          struct amqp_differences *out)
{
    for (;;) {
        int code;
        struct amqp_difference found = {.name = name_of(e)};
        TRY(put_question(s, e, shape, false, &code, &found));
        if (code == 0)
            return err_none();
        if (code == NOT_FOUND)
            found.missing = true;
        *add(out, found.name) = found;
        if (found.missing || !learn(shape, &found))
            return err_none();
    }
}

static struct err examine(struct amqp_session *s, const struct entity *e, bool create,
                          struct amqp_differences *out)
{
    struct shape shape = e->queue ? queue_shape(e->queue) : (struct shape){.durable = true};
    if (!e->queue)
        snprintf(shape.type, sizeof shape.type, "%s", e->topology->exchange_type);
    int code;
    TRY(put_question(s, e, &shape, true, &code, &(struct amqp_difference){0}));
    if (code == NOT_FOUND && !create) {
        if (!e->queue || !e->queue->on_demand)
            add(out, name_of(e))->missing = true;
        return err_none();
    }
    return compare(s, e, &shape, out);
}

static struct err bind_queue(struct amqp_session *s, const struct amqp_topology *t,
                             const struct amqp_queue *q)
{
    amqp_queue_bind(s->state, AMQP_CHANNEL, amqp_cstring_bytes(q->name),
                    amqp_cstring_bytes(t->exchange), amqp_cstring_bytes(q->routing_key),
                    amqp_empty_table);
    return amqp_session_check(s, amqp_get_rpc_reply(s->state), "cannot bind a queue");
}

static struct err examine_allowed(struct amqp_session *s, const struct entity *e,
                                  struct amqp_differences *out, bool *limited)
{
    struct err err = examine(s, e, false, out);
    if (err.code != ERR_FORBIDDEN)
        return err;
    *limited = true;
    return err_none();
}

struct err amqp_topology_check_allowed(struct amqp_session *s, const struct amqp_topology *t,
                                       struct amqp_differences *out, bool *limited)
{
    *limited = false;
    TRY(examine_allowed(s, &(struct entity){.topology = t}, out, limited));
    for (size_t i = 0; i < t->queue_count; i++)
        TRY(examine_allowed(s, &(struct entity){&t->queues[i], t}, out, limited));
    return err_none();
}

struct err amqp_topology_declare(struct amqp_session *s, const struct amqp_topology *t,
                                 struct amqp_differences *out)
{
    TRY(examine(s, &(struct entity){.topology = t}, true, out));
    for (size_t i = 0; i < t->queue_count; i++)
        TRY(amqp_topology_declare_queue(s, t, &t->queues[i], out));
    return err_none();
}

struct err amqp_topology_declare_queue(struct amqp_session *s, const struct amqp_topology *t,
                                       const struct amqp_queue *q, struct amqp_differences *out)
{
    TRY(examine(s, &(struct entity){q, t}, true, out));
    return bind_queue(s, t, q);
}

struct err amqp_topology_check_queue(struct amqp_session *s, const struct amqp_queue *q,
                                     struct amqp_differences *out)
{
    return examine(s, &(struct entity){.queue = q}, false, out);
}

struct err amqp_topology_has_exchange(struct amqp_session *s, const char *name, bool *exists)
{
    struct amqp_topology t = {.exchange = name};
    struct shape shape = {.durable = true};
    int code;
    TRY(put_question(s, &(struct entity){.topology = &t}, &shape, true, &code,
                     &(struct amqp_difference){0}));
    *exists = code == 0;
    return err_none();
}

struct err amqp_topology_count(struct amqp_session *s, const char *queue, bool *exists,
                               uint32_t *messages, uint32_t *consumers)
{
    struct str text;
    TRY(amqp_session_control(s));
    amqp_queue_declare_ok_t *found = amqp_queue_declare(
        s->state, AMQP_CONTROL, amqp_cstring_bytes(queue), 1, 0, 0, 0, amqp_empty_table);
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(s->state);
    *exists = found != NULL;
    if (!found && amqp_session_refusal(reply, &text) == NOT_FOUND) {
        amqp_session_control_closed(s);
        return err_none();
    }
    TRY(amqp_session_check(s, reply, "a queue cannot be looked at"));
    *messages = found->message_count;
    *consumers = found->consumer_count;
    return err_none();
}
