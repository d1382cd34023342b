/* SPDX-License-Identifier: Apache-2.0 */
#include "base/event_cursor.h"

#include "base/decimal.h"

#define ID_DIGITS     16
#define NUMBER_DIGITS 18

static bool read_id(struct str text, uint64_t *id)
{
    uint64_t v = 0;
    if (text.len != ID_DIGITS)
        return false;
    for (size_t i = 0; i < ID_DIGITS; i++) {
        char c = text.at[i];
        if (c >= '0' && c <= '9')
            v = v << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            v = v << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    *id = v ? v : EVENT_CURSOR_NOBODYS;
    return true;
}

void event_cursor_write(struct buf *b, struct event_cursor c)
{
    if (c.history)
        buf_print(b, "%016llx-",
                  c.history == EVENT_CURSOR_NOBODYS ? 0 : (unsigned long long)c.history);
    buf_int(b, (int64_t)c.number);
}

bool event_cursor_read(struct str text, struct event_cursor *c)
{
    struct event_cursor read = {0};
    int64_t number;
    if (text.len > ID_DIGITS && text.at[ID_DIGITS] == '-') {
        if (!read_id((struct str){text.at, ID_DIGITS}, &read.history))
            return false;
        text = (struct str){text.at + ID_DIGITS + 1, text.len - ID_DIGITS - 1};
    }
    if (!decimal_digits(text, NUMBER_DIGITS, &number))
        return false;
    read.number = (uint64_t)number;
    *c = read;
    return true;
}
