/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include "base/array.h"

/* At most so many bytes of a bad text are quoted in a message. */
#define QUOTE_MAX 40
/* Further digits of a fraction are below a millisecond of any unit. */
#define FRACTION_DIGITS 18

struct unit {
    struct str name;
    uint64_t factor;
};

/* Longest name first where one begins another. */
static const struct unit time_units[] = {
    {{"ms", 2}, 1},
    {{"s", 1}, 1000},
    {{"m", 1}, 60 * 1000},
    {{"h", 1}, 60 * 60 * 1000},
    {{"d", 1}, 24 * 60 * 60 * 1000},
    {{"w", 1}, 7 * 24 * 60 * 60 * 1000},
    {{"y", 1}, (uint64_t)365 * 24 * 60 * 60 * 1000},
};

static const struct unit size_units[] = {
    {{"KB", 2}, 1000},     {{"MB", 2}, 1000 * 1000}, {{"GB", 2}, 1000 * 1000 * 1000},
    {{"KiB", 3}, 1 << 10}, {{"MiB", 3}, 1 << 20},    {{"GiB", 3}, 1 << 30},
};

static const struct unit *take_unit(struct str *text, const struct unit *units, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct str name = units[i].name;
        if (text->len >= name.len && memcmp(text->at, name.at, name.len) == 0) {
            *text = (struct str){text->at + name.len, text->len - name.len};
            return &units[i];
        }
    }
    return NULL;
}

static bool take_digit(struct str *text, unsigned *digit)
{
    if (text->len == 0 || text->at[0] < '0' || text->at[0] > '9')
        return false;
    *digit = (unsigned)(text->at[0] - '0');
    *text = (struct str){text->at + 1, text->len - 1};
    return true;
}

/* A whole number; one that does not fit becomes UINT64_MAX. False without digits. */
static bool take_whole(struct str *text, uint64_t *v)
{
    unsigned digit;
    size_t before = text->len;
    *v = 0;
    while (take_digit(text, &digit))
        if (__builtin_mul_overflow(*v, 10, v) || __builtin_add_overflow(*v, digit, v)) {
            while (take_digit(text, &digit))
                ;
            *v = UINT64_MAX;
        }
    return text->len < before;
}

/* The part behind a decimal point, if there is one, as numerator / denominator.
 * False if the point has no digits. */
static bool take_fraction(struct str *text, uint64_t *numerator, uint64_t *denominator)
{
    *numerator = 0;
    *denominator = 1;
    if (text->len == 0 || text->at[0] != '.')
        return true;
    *text = (struct str){text->at + 1, text->len - 1};
    unsigned digit, n = 0;
    for (; take_digit(text, &digit); n++)
        if (n < FRACTION_DIGITS) {
            *numerator = *numerator * 10 + digit;
            *denominator *= 10;
        }
    return n > 0;
}

static struct err bad_duration(struct str text)
{
    return err_make(ERR_BAD_VALUE,
                    "\"%.*s\" is not a duration: expected milliseconds like 1500, or numbers "
                    "with units (ms, s, m, h, d, w, y) like 12.5s or 1h30m",
                    (int)(text.len < QUOTE_MAX ? text.len : QUOTE_MAX), text.at ? text.at : "");
}

static struct err long_duration(struct str text)
{
    return err_make(
        ERR_BAD_VALUE, "\"%.*s\" is too long: a duration is at most %lld ms (about 8,900 years)",
        (int)(text.len < QUOTE_MAX ? text.len : QUOTE_MAX), text.at, (long long)SPAN_MAX_MS);
}

/* Adds one number with its unit; false if it is none. One is below 2^100, so no
 * text is long enough to overflow the sum. */
static bool take_part(struct str *rest, unsigned __int128 *sum)
{
    uint64_t whole, numerator, denominator;
    if (!take_whole(rest, &whole) || !take_fraction(rest, &numerator, &denominator))
        return false;
    const struct unit *unit = take_unit(rest, time_units, COUNT(time_units));
    if (!unit)
        return false;
    unsigned __int128 part = (unsigned __int128)numerator * unit->factor;
    part = (part + denominator / 2) / denominator;
    part += (unsigned __int128)whole * unit->factor;
    *sum += part;
    return true;
}

struct err duration_parse(struct str text, span *d)
{
    struct str rest = text;
    uint64_t raw;
    unsigned __int128 ms = 0;
    if (take_whole(&rest, &raw) && rest.len == 0) {
        ms = raw;
    } else {
        rest = text;
        do {
            if (!take_part(&rest, &ms))
                return bad_duration(text);
        } while (rest.len > 0);
    }
    if (ms > SPAN_MAX_MS)
        return long_duration(text);
    *d = (span){(int64_t)ms};
    return err_none();
}

static uint64_t rounded(uint64_t v, uint64_t unit)
{
    return v / unit + (v % unit >= unit - unit / 2);
}

/* v counts the small unit, of which n make a big one. */
static void write_parts(struct buf *b, uint64_t v, uint64_t n, const char *big, const char *small)
{
    buf_print(b, "%llu %s", (unsigned long long)(v / n), big);
    if (v % n)
        buf_print(b, " %llu %s", (unsigned long long)(v % n), small);
}

void duration_write(struct buf *b, span d)
{
    uint64_t ms = d.ms < 0 ? 0 - (uint64_t)d.ms : (uint64_t)d.ms;
    if (d.ms < 0)
        buf_byte(b, '-');
    /* Round first and compare then, or 59.96 s would read "60 s". */
    uint64_t tenths = rounded(ms, 100), s = rounded(ms, 1000), min = rounded(ms, 60 * 1000);
    if (ms < 1000)
        buf_print(b, "%llu ms", (unsigned long long)ms);
    else if (tenths < 600 && tenths % 10)
        buf_print(b, "%llu.%llu s", (unsigned long long)(tenths / 10),
                  (unsigned long long)(tenths % 10));
    else if (tenths < 600)
        buf_print(b, "%llu s", (unsigned long long)(tenths / 10));
    else if (s < 60 * 60)
        write_parts(b, s, 60, "min", "s");
    else if (min < 24 * 60)
        write_parts(b, min, 60, "h", "min");
    else
        write_parts(b, rounded(ms, 60 * 60 * 1000), 24, "d", "h");
}

struct err duration_parse_size(struct str text, uint64_t *bytes)
{
    struct str rest = text;
    uint64_t v;
    bool good = take_whole(&rest, &v);
    const struct unit *unit = rest.len ? take_unit(&rest, size_units, COUNT(size_units)) : NULL;
    good = good && rest.len == 0;
    if (!good || v == UINT64_MAX || __builtin_mul_overflow(v, unit ? unit->factor : 1, &v))
        return err_make(ERR_BAD_VALUE,
                        "\"%.*s\" is not a size below 2^64: expected bytes like 1048576, or a "
                        "whole number with a unit (KB, MB, GB, KiB, MiB, GiB) like 4MiB",
                        (int)(text.len < QUOTE_MAX ? text.len : QUOTE_MAX), text.at ? text.at : "");
    *bytes = v;
    return err_none();
}
