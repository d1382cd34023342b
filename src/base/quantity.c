/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <math.h>

#include "base/array.h"
#include "base/duration.h"

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

/* What a decimal fraction is off by in binary is not a part of a unit. */
static long double round_up(long double v)
{
    long double whole = floorl(v + 0.0001L);
    return whole + (v - whole > 0.0001L);
}

bool quantity_parse(struct str text, uint64_t *bytes)
{
    long double v;
    if (!read_number(&text, &v))
        return false;
    for (size_t i = 0; i < COUNT(units); i++) {
        if (!str_eq(text, str_from(units[i].suffix)))
            continue;
        v = round_up(v * (long double)units[i].unit);
        if (v < 1 || v > (long double)QUANTITY_MAX)
            return false;
        *bytes = (uint64_t)v;
        return true;
    }
    return false;
}

bool quantity_parse_option(struct str text, uint64_t *bytes)
{
    if (quantity_parse(text, bytes))
        return true;
    return duration_parse_size(text, bytes).code == ERR_OK && *bytes > 0 && *bytes <= QUANTITY_MAX;
}

bool quantity_parse_cpu(struct str text, uint64_t *thousandths)
{
    long double v;
    if (!read_number(&text, &v))
        return false;
    if (text.len == 0)
        v *= 1000;
    else if (!str_eq(text, STR("m")))
        return false;
    v = round_up(v);
    if (v < 1 || v > (long double)QUANTITY_CPU_MAX)
        return false;
    *thousandths = (uint64_t)v;
    return true;
}

void quantity_write_cpu(struct buf *b, uint64_t thousandths)
{
    bool whole = thousandths % 1000 == 0;
    buf_print(b, "%llu%s", (unsigned long long)(whole ? thousandths / 1000 : thousandths),
              whole ? "" : "m");
}

/* --- all that Kubernetes accepts --- */

/* A sign, digits and a point; at least one digit. */
static bool read_signed(struct str *text, long double *v)
{
    long double place = 1;
    size_t i = text->len && text->at[0] == '+', digits = 0;
    bool point = false;
    *v = 0;
    for (; i < text->len && (is_digit(text->at[i]) || (text->at[i] == '.' && !point)); i++) {
        if (text->at[i] == '.') {
            point = true;
            continue;
        }
        digits++;
        place = point ? place / 10 : 1;
        *v = point ? *v + place * (text->at[i] - '0') : *v * 10 + (text->at[i] - '0');
    }
    *text = (struct str){text->at + i, text->len - i};
    return digits > 0 && digits <= 40;
}

/* e or E, a sign, digits. */
static bool read_exponent(struct str text, int *exponent)
{
    bool negative = text.len > 1 && text.at[1] == '-';
    size_t i = text.len > 1 && (text.at[1] == '-' || text.at[1] == '+') ? 2 : 1;
    if (text.len == 0 || (text.at[0] != 'e' && text.at[0] != 'E') || i >= text.len ||
        text.len - i > 3)
        return false;
    *exponent = 0;
    for (; i < text.len && is_digit(text.at[i]); i++)
        *exponent = *exponent * 10 + (text.at[i] - '0');
    if (negative)
        *exponent = -*exponent;
    return i == text.len;
}

static bool read_unit(struct str suffix, long double *unit)
{
    static const struct {
        const char *suffix;
        long double unit;
    } parts[] = {{"m", 1e-3L}, {"u", 1e-6L}, {"n", 1e-9L}};
    int exponent;
    for (size_t i = 0; i < COUNT(units); i++)
        if (str_eq(suffix, str_from(units[i].suffix)))
            return *unit = (long double)units[i].unit, true;
    for (size_t i = 0; i < COUNT(parts); i++)
        if (str_eq(suffix, str_from(parts[i].suffix)))
            return *unit = parts[i].unit, true;
    if (!read_exponent(suffix, &exponent))
        return false;
    *unit = powl(10, exponent);
    return true;
}

bool quantity_read(struct str text, uint64_t scale, uint64_t max, uint64_t *out)
{
    long double v, unit;
    if (!read_signed(&text, &v) || !read_unit(text, &unit))
        return false;
    long double whole = round_up(v * unit * (long double)scale);
    if (!(whole <= (long double)max))
        return false;
    *out = (uint64_t)whole + (whole < 1 && v > 0);
    return true;
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
