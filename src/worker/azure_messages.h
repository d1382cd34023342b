/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_AZURE_MESSAGES_H
#define WORKER_AZURE_MESSAGES_H

/* What a queue of Azure's storage answers to GET messages, as seed 002 describes it: an XML
 * document with up to 32 messages, each of which names a pending run in Base64 and JSON. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#define AZURE_MESSAGES_MAX 32
#define AZURE_TEXT_MAX     ((size_t)64 << 10) /* bytes of an element's text: Azure's limit */

struct azure_message {
    struct str id, receipt;
    int64_t dequeues; /* 0: not said */
    struct str task_id;
    int64_t run;
    bool bad; /* it names no run: nobody can claim it */
};

/* Reads a QueueMessagesList; the texts live in the arena. Elements that are not known are passed
 * over; more than 32 messages are not read. ERR_BAD_VALUE if it is none, or a message has no id or
 * no receipt. */
NODISCARD struct err azure_messages_read(struct str xml, struct arena *a,
                                         struct azure_message messages[AZURE_MESSAGES_MAX],
                                         size_t *count);

/* Whether the text could be the id of a task: a slugid, 22 letters, digits, '-' and '_'. */
bool azure_is_slugid(struct str text);

#endif
