/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_array.h"

/* Dimensions, whether there are NULLs, type of the elements, count, index of the first one: four
 * bytes each, big-endian; then each element after its length. */
#define HEAD     20
#define BYTEA_ID 17

static void write32(char *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (char)(v >> (24 - 8 * i));
}

void pg_array_reset(struct pg_array *a)
{
    a->bytes.len = 0;
    a->count = 0;
    char *head = buf_room(&a->bytes, HEAD);
    write32(head, 1);
    write32(head + 4, 0);
    write32(head + 8, BYTEA_ID);
    write32(head + 12, 0);
    write32(head + 16, 1);
    a->bytes.len = HEAD;
}

void pg_array_add(struct pg_array *a, struct str element)
{
    if (a->bytes.len == 0)
        pg_array_reset(a);
    write32(buf_room(&a->bytes, 4), (uint32_t)element.len);
    a->bytes.len += 4;
    buf_str(&a->bytes, element);
    a->count++;
}

struct str pg_array_view(struct pg_array *a)
{
    if (a->bytes.len == 0)
        pg_array_reset(a);
    write32(a->bytes.at + 12, a->count);
    return buf_view(&a->bytes);
}

void pg_array_fini(struct pg_array *a)
{
    buf_fini(&a->bytes);
    a->count = 0;
}
