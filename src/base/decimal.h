/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

/* Numbers as JSON spells them (RFC 8259 §6), to and from C's, independent of the locale. All but
 * decimal_digits are only for json.c, which has checked the spelling: they take valid text. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* For the rest: any number of digits, a point, an exponent. */
bool decimal_whole_long(struct str raw, int64_t *v);

/* For what nearly every number is: a few digits and nothing else. */
static inline bool decimal_whole_short(struct str raw, int64_t *v)
{
    bool negative = *raw.at == '-';
    if (raw.len > 18)
        return false;
    int64_t m = 0;
    for (size_t i = negative; i < raw.len; i++) {
        unsigned digit = (unsigned char)raw.at[i] - (unsigned)'0';
        if (digit > 9)
            return false;
        m = m * 10 + digit;
    }
    *v = negative ? -m : m;
    return true;
}

/* The whole number that raw stands for; false if it is none or too large. */
static inline bool decimal_whole(struct str raw, int64_t *v)
{
    return decimal_whole_short(raw, v) || decimal_whole_long(raw, v);
}

/* Reads 1 to `most` digits and nothing else; most is at most 18. False, with *v unchanged, if the
 * text is anything else. */
bool decimal_digits(struct str text, size_t most, int64_t *v);

/* The nearest double; infinite if none is near. */
double decimal_double(struct str raw);

#define DECIMAL_TEXT_MAX 48
/* The shortest spelling of a finite number that reads back the same. */
void decimal_text(double v, char text[DECIMAL_TEXT_MAX]);

#endif
