/* SPDX-License-Identifier: Apache-2.0 */

/* What a poll URL answers. */

#include <stdint.h>
#include <stdlib.h>

#include "base/must.h"
#include "worker/azure_messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct azure_message messages[AZURE_MESSAGES_MAX];
    struct arena a = {0};
    size_t count = 0;
    struct err e =
        azure_messages_read((struct str){(const char *)data, size}, &a, messages, &count);
    must(count <= AZURE_MESSAGES_MAX);
    must(e.code == ERR_OK || (e.code == ERR_BAD_VALUE && e.msg[0]));
    for (size_t i = 0; i < count; i++) {
        must(messages[i].id.len && messages[i].receipt.len && messages[i].dequeues >= 0);
        must(messages[i].bad || (azure_is_slugid(messages[i].task_id) && messages[i].run >= 0));
    }
    arena_fini(&a);
    return 0;
}
