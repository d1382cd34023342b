/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <math.h>

#include "base/array.h"

static const struct {
    char suffix[3];
    uint64_t unit;
} units[] = {
    {"Ei", (uint64_t)1 << 60},
    {"Pi", (uint64_t)1 << 50},
    {"Ti", (uint64_t)1 << 40},
    {"Gi", 1 << 30},
    {"Mi", 1 << 20},
    {"Ki", 1 << 10},
    {"E", 1000000000000000000},
    {"P", 1000000000000000},
    {"T", 1000000000000},
    {"G", 1000000000},
    {"M", 1000000},
    {"k", 1000},
    {"", 1},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The digits before and after the point; long double keeps 64 bits of them. */
static bool read_number(struct str *text, long double *v)
{
    long double place = 1;
    size_t i = 0, digits = 0;
    bool point = false;
    *v = 0;
    for (; i < text->len && (is_digit(text->at[i]) || (text->at[i] == '.' && !point)); i++) {
        if (text->at[i] == '.') {
            point = true;
            continue;
        }
        digits++;
        if (point)
            place /= 10;
        *v = point ? *v + place * (text->at[i] - '0') : *v * 10 + (text->at[i] - '0');
    }
    bool ends_well = i > 0 && is_digit(text->at[i - 1]) && is_digit(text->at[0]);
    *text = (struct str){text->at + i, text->len - i};
    return ends_well && digits <= 30;
}

bool quantity_parse(struct str text, uint64_t *bytes)
{
    long double v;
    if (!read_number(&text, &v))
        return false;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (!str_eq(text, str_from(units[i].suffix)))
            continue;
        /* What a decimal fraction is off by in binary is not a part of a byte. */
        v = v * (long double)units[i].unit;
        long double whole = floorl(v + 0.0001L);
        whole += v - whole > 0.0001L;
        if (whole < 1 || whole > (long double)QUANTITY_MAX)
            return false;
        *bytes = (uint64_t)whole;
        return true;
    }
    return false;
}

void quantity_write(struct buf *b, uint64_t bytes)
{
    size_t best = COUNT(units) - 1;
    for (size_t i = 0; i < COUNT(units); i++)
        if (bytes % units[i].unit == 0 && bytes / units[i].unit > 0 &&
            units[i].unit > units[best].unit)
            best = i;
    buf_print(b, "%llu%s", (unsigned long long)(bytes / units[best].unit), units[best].suffix);
}
