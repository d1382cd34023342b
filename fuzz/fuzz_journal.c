/* SPDX-License-Identifier: Apache-2.0 */

/* The file of an executor's records: what it says is read whatever it holds; and what is written
 * after it is found again. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "client/journal.h"

struct seen {
    size_t count;
    uint64_t number;
    struct str json;
};

static void is(void *ctx, uint64_t number, struct str json)
{
    struct seen *s = ctx;
    must(json.len > 0);
    *s = (struct seen){s->count + 1, number, json};
}

static void gone(void *ctx, uint64_t number)
{
    ((struct seen *)ctx)->count++;
    must(number > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen s = {0};
    struct buf b = {0};
    const struct journal_reader r = {is, gone, &s};
    journal_read((struct str){(const char *)data, size}, &r);
    buf_add(&b, data, size);
    buf_byte(&b, '\n');
    size_t before = s.count;
    journal_line(&b, 42, STR("{\"x\":1}"));
    s.count = 0;
    journal_read(buf_view(&b), &r);
    must(s.count >= before + 1 && s.number == 42 && str_eq(s.json, STR("{\"x\":1}")));
    buf_fini(&b);
    return 0;
}
