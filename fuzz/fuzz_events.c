/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "base/must.h"
#include "store/eventlog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A record of events. There is only one encoding: what is accepted is encoded to the same bytes
 * again, but for older versions, which nobody writes any more. */

#define FIRST  7
#define NEWEST 5 /* version */

/* True if all of it was read and added to the writer. */
static bool copy_all(struct str value, struct eventlog_writer *w, struct eventlog_head *head)
{
    struct eventlog_reader r;
    struct err e = eventlog_open(value, FIRST, head, &r);
    bool more = e.code == ERR_OK;
    while (more) {
        struct job_event ev;
        e = eventlog_next(&r, &more, &ev);
        more &= e.code == ERR_OK;
        if (more && value.at[0] == NEWEST)
            eventlog_add(w, &ev);
    }
    if (e.code == ERR_OK)
        return true;
    must(e.code == ERR_CORRUPT || e.code == ERR_VERSION);
    must(e.msg[0] != '\0');
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str value = {(const char *)data, size};
    struct eventlog_writer w = {0};
    struct eventlog_head head;
    if (copy_all(value, &w, &head) && value.at[0] == NEWEST) {
        struct batch b = {0};
        struct record_key key = eventlog_key(FIRST);
        w.before = head.before;
        eventlog_flush(&w, &head.mark, &b);
        const struct batch_op *op = batch_find(&b, record_key_view(&key));
        must(op && op->value.len == value.len);
        must(memcmp(op->value.at, value.at, value.len) == 0);
        batch_fini(&b);
    }
    eventlog_writer_fini(&w);
    return 0;
}
