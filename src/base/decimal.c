/* SPDX-License-Identifier: Apache-2.0 */
#include "base/decimal.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A number as its digits × 10^exponent. The digits stay where they are in the
 * text, perhaps with a point among them, but without zeros at either end; there
 * are none iff the number is zero. */
struct decimal {
    bool negative;
    const char *at;
    const char *end;
    int64_t count; /* of the digits */
    int64_t exponent;
};

/* The number after the 'e', held where neither it nor its sum with the length
 * of any text can overflow. */
static int64_t exponent_of(const char *p, const char *end)
{
    const int64_t bound = (int64_t)1 << 58;
    bool negative = *p == '-';
    if (*p == '-' || *p == '+')
        p++;
    int64_t v = 0;
    for (; p < end && v < bound; p++)
        v = v * 10 + (*p - '0');
    v = v < bound ? v : bound;
    return negative ? -v : v;
}

static struct decimal decimal_of(struct str raw)
{
    struct decimal d = {.negative = *raw.at == '-'};
    const char *end = raw.at + raw.len;
    d.at = raw.at + d.negative;
    d.end = d.at;
    while (d.end < end && *d.end != 'e' && *d.end != 'E')
        d.end++;
    d.exponent = d.end < end ? exponent_of(d.end + 1, end) : 0;
    const char *point = memchr(d.at, '.', (size_t)(d.end - d.at));
    if (point)
        d.exponent -= d.end - point - 1;
    for (; d.end > d.at && (d.end[-1] == '0' || d.end[-1] == '.'); d.end--)
        d.exponent += d.end[-1] == '0';
    while (d.at < d.end && (*d.at == '0' || *d.at == '.'))
        d.at++;
    d.count = d.end - d.at - (point && d.at < point && point < d.end);
    return d;
}

/* False if the magnitude does not fit. */
static bool magnitude_of(struct decimal d, uint64_t *v)
{
    *v = 0;
    if (d.count + d.exponent > 20)
        return d.count == 0;
    for (const char *p = d.at; p < d.end; p++) {
        if (*p == '.')
            continue;
        if (__builtin_mul_overflow(*v, 10u, v) ||
            __builtin_add_overflow(*v, (unsigned)(*p - '0'), v))
            return false;
    }
    for (int64_t e = 0; e < d.exponent && *v; e++) {
        if (__builtin_mul_overflow(*v, 10u, v))
            return false;
    }
    return true;
}

bool decimal_whole_long(struct str raw, int64_t *v)
{
    struct decimal d = decimal_of(raw);
    uint64_t m;
    if ((d.count > 0 && d.exponent < 0) || !magnitude_of(d, &m))
        return false;
    if (m > (uint64_t)INT64_MAX + d.negative)
        return false;
    *v = (int64_t)(d.negative ? 0 - m : m);
    return true;
}

/* More digits than this cannot change which double is nearest, except by being
 * there at all: the longest halfway point between two doubles has 768. */
#define DIGITS_MAX 800

/* strtod gets the digits without a point: so the locale has no say. */
double decimal_double(struct str raw)
{
    struct decimal d = decimal_of(raw);
    char text[DIGITS_MAX + 32];
    size_t n = 0;
    text[n++] = d.negative ? '-' : '+';
    text[n++] = '0';
    const char *p = d.at;
    for (; p < d.end && n < DIGITS_MAX; p++) {
        if (*p != '.')
            text[n++] = *p;
    }
    int64_t left_out = d.count - (int64_t)(n - 2);
    if (left_out > 0) {
        text[n++] = '1'; /* stands for the rest, which is not zero */
        left_out--;
    }
    snprintf(text + n, sizeof text - n, "e%" PRId64, d.count ? d.exponent + left_out : 0);
    return strtod(text, NULL);
}

/* Brings what printf's %g wrote into the shortest spelling that JSON allows:
 * a point for whatever the locale has in its place, and an exponent without
 * plus sign and leading zeros. */
static void tidy_double(char *text)
{
    char *to = text;
    const char *p = text;
    while (*p && *p != 'e') {
        bool point = *p != '-' && !(*p >= '0' && *p <= '9');
        if (!point)
            *to++ = *p;
        else if (to[-1] != '.') /* the locale's point may have several bytes */
            *to++ = '.';
        p++;
    }
    if (*p == 'e') {
        *to++ = *p++;
        if (*p == '-')
            *to++ = '-';
        p += strspn(p, "+-0");
        while (*p)
            *to++ = *p++;
    }
    *to = '\0';
}

void decimal_text(double v, char text[DECIMAL_TEXT_MAX])
{
    /* Fewer than 15 digits are asked for only where a double has fewer: %g leaves
     * out trailing zeros by itself. */
    int precision = fabs(v) < DBL_MIN ? 1 : 15;
    do {
        snprintf(text, DECIMAL_TEXT_MAX, "%.*g", precision++, v);
    } while (precision <= 17 && strtod(text, NULL) != v);
    tidy_double(text);
}

bool decimal_digits(struct str text, size_t most, int64_t *v)
{
    int64_t sum = 0;
    if (text.len == 0 || text.len > most)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return false;
        sum = sum * 10 + (text.at[i] - '0');
    }
    *v = sum;
    return true;
}
