/* SPDX-License-Identifier: Apache-2.0 */
/* What a bridge reads: URLs, jobs, events, and AMQP's tables of headers, by the first byte. What
 * was made of it must be what the other side takes. */

#include <stdlib.h>

#include "amqp/amqp_session.h"
#include "base/must.h"
#include "bridge/bridge_event.h"
#include "bridge/bridge_field.h"
#include "bridge/bridge_message.h"
#include "bridge/bridge_url.h"
#include "client/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WIRE_BYTES 131072

/* A message that was made has to fit into a frame, and to be a job again. */
static void check_message(const struct bridge_message *m)
{
    static char wire[WIRE_BYTES];
    const struct bridge_intake in = {
        .queue = "q", .payload = BRIDGE_MESSAGE, .key = BRIDGE_KEY_ID, .vhost = "/", .source = "s"};
    const struct bridge_delivery d = {.body = m->body,
                                      .exchange = m->exchange,
                                      .routing_key = m->routing_key,
                                      .properties = &m->properties};
    struct buf b = {0};
    bool keyed;
    must(m->routing_key.len <= 255);
    must(amqp_encode_properties(AMQP_BASIC_CLASS, (void *)(uintptr_t)&m->properties,
                                (amqp_bytes_t){sizeof wire, wire}) > 0);
    if (bridge_message_job(&b, &in, &d, "p", &keyed).code == ERR_OK)
        must(view_check(buf_view(&b), NULL).code == ERR_OK);
    buf_fini(&b);
}

static void read_job(struct str text, struct arena *a)
{
    struct bridge_message m;
    for (int payload = BRIDGE_BODY; payload <= BRIDGE_MESSAGE; payload++) {
        const struct bridge_outlet to = {.exchange = "e", .payload = (enum bridge_payload)payload};
        if (view_check(text, NULL).code == ERR_OK &&
            bridge_message_read(&to, text, a, &m).code == ERR_OK)
            check_message(&m);
    }
}

static void read_event(struct str text, struct arena *a)
{
    struct bridge_notes notes = {0};
    const struct bridge_topics to = {"events", true};
    if (bridge_event_read(text, (struct event_cursor){1, 1}, &to, a, &notes).code != ERR_OK)
        return;
    for (size_t i = 0; i < notes.count; i++)
        must(notes.at[i].routing_key.len <= 255 && notes.at[i].exchange.len <= 255 &&
             view_check(notes.at[i].body, NULL).code == ERR_OK);
}

static void read_table(struct str bytes)
{
    amqp_pool_t pool;
    amqp_table_t t;
    size_t offset = 0;
    struct buf b = {0};
    init_amqp_pool(&pool, 4096);
    if (amqp_decode_table(amqp_session_bytes(bytes), &pool, &t, &offset) == AMQP_STATUS_OK &&
        bridge_field_write(&b, &t).code == ERR_OK)
        must(view_check(buf_view(&b), NULL).code == ERR_OK);
    buf_fini(&b);
    empty_amqp_pool(&pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct bridge_url url;
    if (size == 0)
        return 0;
    /* A copy of exactly this size, so that a byte too far is noticed. */
    char *copy = malloc(size - 1);
    struct str text = {copy, size - 1};
    must(copy || size == 1);
    if (size > 1)
        memcpy(copy, data + 1, size - 1);
    switch (data[0]) {
    case 'u':
        if (bridge_url_read(text, &a, &url).code == ERR_OK)
            must(url.address_count > 0 && url.vhost);
        break;
    case 'j':
        read_job(text, &a);
        break;
    case 'e':
        read_event(text, &a);
        break;
    default:
        read_table(text);
    }
    arena_fini(&a);
    free(copy);
    return 0;
}
