/* SPDX-License-Identifier: Apache-2.0 */
#include "base/duration.h"

#include "base/array.h"

/* At most so many bytes of a bad text are quoted in a message. */
#define QUOTE_MAX 40
/* No name of a unit is longer. */
#define UNIT_NAME_MAX 8
/* Further digits of a fraction do not matter. */
#define FRACTION_DIGITS 18

struct unit {
    const char *names; /* between spaces */
    uint64_t factor;
};

#define NS_PER_MS 1000000
#define SECOND    ((uint64_t)1000 * NS_PER_MS)
#define DAY       (24 * 60 * 60 * SECOND)

/* As Rust's humantime has them, but for the year, which has 365 days here. In nanoseconds. */
static const struct unit time_units[] = {
    {" ms msec millis ", NS_PER_MS},
    {" s sec secs second seconds ", SECOND},
    {" m min mins minute minutes ", 60 * SECOND},
    {" h hr hrs hour hours ", 60 * 60 * SECOND},
    {" d day days ", DAY},
    {" w wk wks week weeks ", 7 * DAY},
    {" M month months ", 2630016 * SECOND}, /* 30.44 days */
    {" y yr yrs year years ", 365 * DAY},
    {" us usec \xc2\xb5s ", 1000},
    {" ns nsec nanos ", 1},
};

/* As Rust's bytesize has them; upper or lower case. */
static const struct unit size_units[] = {
    {" b ", 1},
    {" k kb ", 1000},
    {" m mb ", 1000 * 1000},
    {" g gb ", 1000 * 1000 * 1000},
    {" t tb ", (uint64_t)1000 * 1000 * 1000 * 1000},
    {" p pb ", (uint64_t)1000 * 1000 * 1000 * 1000 * 1000},
    {" e eb ", (uint64_t)1000 * 1000 * 1000 * 1000 * 1000 * 1000},
    {" ki kib ", 1 << 10},
    {" mi mib ", 1 << 20},
    {" gi gib ", 1 << 30},
    {" ti tib ", (uint64_t)1 << 40},
    {" pi pib ", (uint64_t)1 << 50},
    {" ei eib ", (uint64_t)1 << 60},
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\xc2' || c == '\xb5';
}

static void skip_spaces(struct str *text)
{
    while (text->len > 0 && (*text->at == ' ' || *text->at == '\t'))
        *text = (struct str){text->at + 1, text->len - 1};
}

/* NULL unless the letters in front are the name of one. */
static const struct unit *take_unit(struct str *text, const struct unit *units, size_t n,
                                    bool any_case)
{
    char name[UNIT_NAME_MAX + 3] = " ";
    size_t len = 0;
    for (; len < text->len && is_letter(text->at[len]); len++) {
        if (len == UNIT_NAME_MAX)
            return NULL;
        char c = text->at[len];
        name[1 + len] = any_case && c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    name[1 + len] = ' ';
    *text = (struct str){text->at + len, text->len - len};
    for (size_t i = 0; len > 0 && i < n; i++)
        if (strstr(units[i].names, name))
            return &units[i];
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
                    "with units (ms, s, m, h, d, w, M, y) like 12.5s, 1h30m or 2hours 5min",
                    (int)(text.len < QUOTE_MAX ? text.len : QUOTE_MAX), text.at ? text.at : "");
}

static struct err long_duration(struct str text)
{
    return err_make(
        ERR_BAD_VALUE, "\"%.*s\" is too long: a duration is at most %lld ms (about 8,900 years)",
        (int)(text.len < QUOTE_MAX ? text.len : QUOTE_MAX), text.at, (long long)SPAN_MAX_MS);
}

/* whole + numerator / denominator, times the unit; below 2^120. */
static unsigned __int128 times(uint64_t whole, uint64_t numerator, uint64_t denominator,
                               const struct unit *unit)
{
    unsigned __int128 part = (unsigned __int128)numerator * unit->factor / denominator;
    return part + (unsigned __int128)whole * unit->factor;
}

/* Adds one number with its unit, in nanoseconds; false if it is none. */
static bool take_part(struct str *rest, unsigned __int128 *sum)
{
    uint64_t whole, numerator, denominator;
    if (!take_whole(rest, &whole) || !take_fraction(rest, &numerator, &denominator))
        return false;
    skip_spaces(rest);
    const struct unit *unit = take_unit(rest, time_units, COUNT(time_units), false);
    skip_spaces(rest);
    if (!unit)
        return false;
    *sum += times(whole, numerator, denominator, unit);
    if (*sum > (unsigned __int128)1 << 120)
        *sum = (unsigned __int128)1 << 120; /* too long whatever follows, but must not wrap */
    return true;
}

/* To the nearest; but what is not nothing never becomes 0, which often means "without a limit". */
static unsigned __int128 to_ms(unsigned __int128 ns)
{
    unsigned __int128 ms = (ns + NS_PER_MS / 2) / NS_PER_MS;
    return ms == 0 && ns > 0 ? 1 : ms;
}

struct err duration_parse(struct str text, span *d)
{
    struct str rest = text;
    uint64_t raw;
    unsigned __int128 ms = 0, ns = 0;
    if (take_whole(&rest, &raw) && rest.len == 0) {
        ms = raw;
    } else {
        rest = text;
        skip_spaces(&rest);
        do {
            if (!take_part(&rest, &ns))
                return bad_duration(text);
        } while (rest.len > 0);
        ms = to_ms(ns);
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

/* False if it is none, or has a part of a byte without a unit. */
static bool read_size(struct str rest, unsigned __int128 *bytes)
{
    static const struct unit byte = {"", 1};
    uint64_t whole, numerator, denominator;
    if (!take_whole(&rest, &whole) || !take_fraction(&rest, &numerator, &denominator))
        return false;
    const struct unit *unit = &byte;
    if (rest.len > 0) {
        skip_spaces(&rest);
        unit = take_unit(&rest, size_units, COUNT(size_units), true);
    }
    if (!unit || rest.len > 0 || whole == UINT64_MAX || (unit->factor == 1 && denominator > 1))
        return false;
    *bytes = times(whole, numerator, denominator, unit);
    if (*bytes == 0 && numerator > 0)
        *bytes = 1;
    return true;
}

struct err duration_parse_size(struct str text, uint64_t *bytes)
{
    unsigned __int128 v;
    if (!read_size(text, &v) || v > UINT64_MAX)
        return err_make(ERR_BAD_VALUE,
                        "\"%.*s\" is not a size below 2^64: expected bytes like 1048576, or a "
                        "number with a unit (KB, MB, GB, KiB, MiB, GiB ...) like 4MiB or 1.5 GiB",
                        (int)(text.len < QUOTE_MAX ? text.len : QUOTE_MAX), text.at ? text.at : "");
    *bytes = (uint64_t)v;
    return err_none();
}
