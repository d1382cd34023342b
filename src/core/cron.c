/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cron.h"

#include <string.h>

#include "base/array.h"
#include "base/must.h"

#define DAY_SECONDS  INT64_C(86400)
#define SEARCH_YEARS 100

/* --- parsing --- */

struct field {
    const char *name;
    unsigned lo, hi;
    const char *const *names; /* of lo, lo + 1 …; NULL: none */
    unsigned name_count;
};

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun",
                                          "jul", "aug", "sep", "oct", "nov", "dec"};
static const char *const day_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

enum { SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR, FIELDS };

static const struct field fields[FIELDS] = {
    [SECOND] = {"second", 0, 59, NULL, 0},
    [MINUTE] = {"minute", 0, 59, NULL, 0},
    [HOUR] = {"hour", 0, 23, NULL, 0},
    [DAY] = {"day of the month", 1, 31, NULL, 0},
    [MONTH] = {"month", 1, 12, month_names, 12},
    [WEEKDAY] = {"day of the week", 0, 7, day_names, 7},
    [YEAR] = {"year", 1, 9999, NULL, 0},
};

/* Walks one field. */
struct parser {
    const struct field *field;
    struct str text;
    size_t at, end; /* the field is text[at .. end) */
    struct cron *out;
};

/* Of ASCII alone, whatever the locale. */
static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(unsigned char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

#define BAD(p, where, fmt, ...)                                                                    \
    err_at(ERR_BAD_CRON, (int64_t)(where), "%s: " fmt, (p)->field->name, ##__VA_ARGS__)

static bool take(struct parser *p, char c)
{
    if (p->at == p->end || p->text.at[p->at] != c)
        return false;
    p->at++;
    return true;
}

static struct err read_number(struct parser *p, unsigned *v)
{
    size_t start = p->at;
    *v = 0;
    while (p->at < p->end && is_digit((unsigned char)p->text.at[p->at])) {
        if (p->at - start >= 4)
            return BAD(p, start, "the number is too long");
        *v = *v * 10 + (unsigned)(p->text.at[p->at++] - '0');
    }
    must(p->at > start);
    return err_none();
}

static bool take_letter(struct parser *p, char lower)
{
    if (p->at == p->end || (p->text.at[p->at] | 32) != lower)
        return false;
    p->at++;
    return true;
}

static struct err read_name(struct parser *p, unsigned *v)
{
    size_t start = p->at;
    while (p->at < p->end && is_letter((unsigned char)p->text.at[p->at]))
        p->at++;
    /* friL */
    if (p->field == &fields[WEEKDAY] && p->at - start == 4 && (p->text.at[p->at - 1] | 32) == 'l')
        p->at--;
    struct str word = {p->text.at + start, p->at - start};
    for (unsigned i = 0; i < p->field->name_count; i++)
        if (word.len == 3 && strncasecmp(word.at, p->field->names[i], 3) == 0) {
            *v = p->field->lo + i;
            return err_none();
        }
    if (!p->field->names)
        return BAD(p, start, "'%.*s' is not a number", (int)(word.len < 20 ? word.len : 20),
                   word.at);
    return BAD(p, start, "'%.*s' is none of %s to %s", (int)(word.len < 20 ? word.len : 20),
               word.at, p->field->names[0], p->field->names[p->field->name_count - 1]);
}

static struct err unexpected(const struct parser *p)
{
    if (p->at == p->end)
        return BAD(p, p->at, "a value is missing");
    unsigned char c = (unsigned char)p->text.at[p->at];
    if (c == '?')
        return BAD(p, p->at, "'?' can only stand for any day of the month or of the week");
    if (c >= ' ' && c < 0x7f)
        return BAD(p, p->at, "'%c' is not expected here", c);
    return BAD(p, p->at, "byte 0x%02x is not expected here", c);
}

static struct err read_value(struct parser *p, unsigned *v)
{
    const struct field *f = p->field;
    size_t start = p->at;
    unsigned char c = p->at < p->end ? (unsigned char)p->text.at[p->at] : 0;
    if (is_digit(c))
        TRY(read_number(p, v));
    else if (is_letter(c))
        TRY(read_name(p, v));
    else
        return unexpected(p);
    if (*v < f->lo || *v > f->hi)
        return BAD(p, start, "%u is outside %u-%u", *v, f->lo, f->hi);
    return err_none();
}

static struct err read_step(struct parser *p, unsigned *step)
{
    size_t start = p->at;
    if (p->at == p->end || !is_digit((unsigned char)p->text.at[p->at]))
        return BAD(p, p->at, "a number must follow '/'");
    TRY(read_number(p, step));
    if (*step == 0)
        return BAD(p, start, "a step must be at least 1");
    /* A step past the end would tick once per round: never what "every 90 minutes" means, and
     * exactly what "every 60 minutes" does. */
    if (*step > p->field->hi + (p->field->lo == 0))
        return BAD(p, start, "the step %u is larger than the field, which ends at %u", *step,
                   p->field->hi);
    return err_none();
}

/* What follows a day of the week, or some: which of the month. Without it every one. */
static struct err read_nth(struct parser *p, uint64_t days, uint64_t *bits)
{
    size_t start = p->at;
    unsigned n = 0;
    bool hash = take(p, '#');
    if (!take_letter(p, 'l')) {
        if (!hash) {
            *bits |= days;
            return err_none();
        }
        if (p->at == p->end || !is_digit((unsigned char)p->text.at[p->at]))
            return BAD(p, p->at, "a number or L must follow '#'");
        TRY(read_number(p, &n));
        if (n < 1 || n > CRON_NTH_MAX)
            return BAD(p, start + 1, "%u is outside 1-%d", n, CRON_NTH_MAX);
    }
    p->out->nth[n] |= (uint8_t)((days | days >> 7) & 0x7f);
    return err_none();
}

/* L, LW and 15W; false: it is none of these, and the text is as before. */
static bool read_special_day(struct parser *p)
{
    size_t start = p->at;
    unsigned day = 0;
    if (take_letter(p, 'l')) {
        *(take_letter(p, 'w') ? &p->out->nearest_to_last : &p->out->last_day) = true;
        return true;
    }
    while (p->at < p->end && p->at - start < 2 && is_digit((unsigned char)p->text.at[p->at]))
        day = day * 10 + (unsigned)(p->text.at[p->at++] - '0');
    if (day >= 1 && day <= 31 && take_letter(p, 'w')) {
        p->out->nearest |= 1u << day;
        return true;
    }
    p->at = start;
    return false;
}

static bool is_days(const struct parser *p)
{
    return p->field == &fields[DAY] || p->field == &fields[WEEKDAY];
}

static bool is_star(const struct parser *p, size_t at)
{
    return at < p->end && (p->text.at[at] == '*' || (is_days(p) && p->text.at[at] == '?'));
}

static void add_year(struct cron *c, unsigned year)
{
    unsigned bit = year - CRON_YEAR_FIRST;
    if (year >= CRON_YEAR_FIRST && bit < CRON_YEARS)
        c->years[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* The bits of lo, lo + step … hi. Years are noted elsewhere, for they are too many. */
static uint64_t add_values(struct parser *p, unsigned lo, unsigned hi, unsigned step)
{
    uint64_t bits = 0;
    for (unsigned v = lo; v <= hi; v += step) {
        if (p->field == &fields[YEAR])
            add_year(p->out, v);
        else
            bits |= UINT64_C(1) << v;
    }
    return bits;
}

/* One element of a list. */
static struct err read_range(struct parser *p, uint64_t *all)
{
    const struct field *f = p->field;
    size_t start = p->at;
    unsigned lo = f->lo, hi = f->hi, step = 1;
    uint64_t values;
    bool star = is_star(p, start);
    p->at += star;
    if (f == &fields[DAY] && !star && read_special_day(p))
        return err_none();
    if (star) {
        /* Sunday is not there twice. */
        hi = f == &fields[WEEKDAY] ? 6 : hi;
        if (take(p, '/'))
            TRY(read_step(p, &step));
    } else {
        TRY(read_value(p, &lo));
        hi = lo;
        bool range = take(p, '-');
        if (range) {
            TRY(read_value(p, &hi));
            /* fri-sun */
            if (f == &fields[WEEKDAY] && hi == 0 && lo > 0)
                hi = 7;
        }
        if (hi < lo)
            return BAD(p, start, "the range %u-%u runs backwards", lo, hi);
        if (take(p, '/')) {
            TRY(read_step(p, &step));
            if (!range)
                hi = f->hi;
        }
    }
    values = add_values(p, lo, hi, step);
    p->out->any_year |= f == &fields[YEAR] && star && step == 1;
    if (f == &fields[WEEKDAY] && (!star || step > 1))
        return read_nth(p, values, all);
    *all |= values;
    return err_none();
}

static struct err read_field(struct parser *p, uint64_t *bits, bool *any)
{
    *bits = 0;
    *any = is_star(p, p->at);
    do
        TRY(read_range(p, bits));
    while (take(p, ','));
    return p->at == p->end ? err_none() : unexpected(p);
}

static const struct {
    const char *name, *fields;
} nicknames[] = {
    {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
};

/* The fields that a name stands for; anything else as it is. */
static struct str named_fields(struct str text)
{
    struct str word = text;
    while (word.len && is_space(*word.at))
        word = (struct str){word.at + 1, word.len - 1};
    while (word.len && is_space(word.at[word.len - 1]))
        word.len--;
    for (size_t i = 0; i < COUNT(nicknames); i++)
        if (word.len == strlen(nicknames[i].name) &&
            strncasecmp(word.at, nicknames[i].name, word.len) == 0)
            return str_from(nicknames[i].fields);
    return text;
}

/* Where the fields are. */
static struct err split(struct str text, struct parser parts[FIELDS], int *count)
{
    *count = 0;
    if (text.len > CRON_EXPRESSION_MAX)
        return err_at(ERR_BAD_CRON, CRON_EXPRESSION_MAX,
                      "the expression has %zu bytes; at most %d are allowed", text.len,
                      CRON_EXPRESSION_MAX);
    for (size_t i = 0; i < text.len;) {
        if (is_space(text.at[i])) {
            i++;
            continue;
        }
        size_t start = i;
        while (i < text.len && !is_space(text.at[i]))
            i++;
        if (*count < FIELDS)
            parts[*count] = (struct parser){NULL, text, start, i, NULL};
        else if (*count == FIELDS)
            return err_at(ERR_BAD_CRON, (int64_t)start,
                          "the expression has more than 7 fields; this would be the eighth");
        ++*count;
    }
    if (*count && text.at[parts[0].at] == '@')
        return err_at(
            ERR_BAD_CRON, (int64_t)parts[0].at,
            "such a name is not known; there are @yearly, @monthly, @weekly, @daily and @hourly");
    if (*count < 5)
        return err_at(ERR_BAD_CRON, (int64_t)text.len,
                      "the expression has %d %s; 5 are needed (minute, hour, day of the month, "
                      "month, day of the week), 6 with a second before them, or 7 with a year, too",
                      *count, *count == 1 ? "field" : "fields");
    return err_none();
}

static bool is_alone(const struct parser *p, char c)
{
    return p->end - p->at == 1 && p->text.at[p->at] == c;
}

/* classic: the rule for days of before. */
static struct err parse(struct str text, bool classic, struct cron *out)
{
    struct parser parts[FIELDS];
    uint64_t bits[FIELDS] = {[SECOND] = 1};
    bool any[FIELDS] = {false}, both = false;
    int count;
    *out = (struct cron){0};
    TRY(split(text, parts, &count));
    int first = count == 5 ? MINUTE : SECOND;
    out->any_year = count < FIELDS;
    for (int i = 0; i < count; i++) {
        struct parser *p = &parts[i];
        p->field = &fields[first + i];
        p->out = out;
        bool days = is_days(p);
        if (p->field == &fields[WEEKDAY] && !classic && take(p, '+'))
            both = true;
        both |= days && (is_alone(p, '*') || is_alone(p, '?'));
        TRY(read_field(p, &bits[first + i], &any[first + i]));
        both |= days && classic && any[first + i];
    }
    if (bits[WEEKDAY] & 1u << 7)
        bits[WEEKDAY] |= 1;
    out->seconds = bits[SECOND];
    out->minutes = bits[MINUTE];
    out->hours = (uint32_t)bits[HOUR];
    out->days = (uint32_t)bits[DAY];
    out->months = (uint32_t)bits[MONTH];
    out->weekdays = (uint32_t)bits[WEEKDAY] & 0x7f;
    out->both_days = both;
    out->any_minute = any[MINUTE];
    return err_none();
}

struct err cron_parse(struct str text, struct cron *out)
{
    return parse(named_fields(text), false, out);
}

struct err cron_parse_classic(struct str text, struct cron *out)
{
    return parse(text, true, out);
}

bool cron_days_differ(struct str text)
{
    struct cron now, before;
    return cron_parse(text, &now).code == ERR_OK &&
           cron_parse_classic(text, &before).code == ERR_OK && now.both_days != before.both_days;
}

/* --- the calendar: local seconds since the epoch, as if they were UTC --- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

struct date {
    int64_t year;
    unsigned month, day; /* from 1 */
};

/* Years begin in March here, so that the leap day is their last; eras have 400 years. */
static struct date date_of(int64_t days)
{
    int64_t shifted = days + 719468; /* from 0000-03-01 */
    int64_t era = floor_div(shifted, 146097);
    unsigned in_era = (unsigned)(shifted - era * 146097);
    unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    unsigned in_year = in_era - (365 * year + year / 4 - year / 100);
    unsigned march = (5 * in_year + 2) / 153;
    unsigned month = march < 10 ? march + 3 : march - 9;
    return (struct date){era * 400 + year + (month <= 2), month,
                         in_year - (153 * march + 2) / 5 + 1};
}

static unsigned month_days(struct date d)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = d.year % 4 == 0 && (d.year % 100 != 0 || d.year % 400 == 0);
    return d.month == 2 && leap ? 29 : days[d.month - 1];
}

/* Of the day `by` days after one that is that weekday. */
static unsigned weekday_of(unsigned weekday, int by)
{
    return (unsigned)((int)weekday + by + 35) % 7;
}

/* The closest day from Monday to Friday within the month of `length` days. */
static unsigned closest(unsigned day, unsigned weekday, unsigned length)
{
    if (weekday == 6)
        return day > 1 ? day - 1 : day + 2;
    if (weekday == 0)
        return day < length ? day + 1 : day - 2;
    return day;
}

/* Whether that day, which is such a weekday, is the closest to one that is asked for. */
static bool nearest_matches(const struct cron *c, unsigned day, unsigned weekday, unsigned length)
{
    uint32_t asked = c->nearest | (c->nearest_to_last ? 1u << length : 0);
    for (unsigned of = day > 2 ? day - 2 : 1; asked && of <= day + 2 && of <= length; of++) {
        unsigned its = weekday_of(weekday, (int)of - (int)day);
        if (asked >> of & 1 && closest(of, its, length) == day)
            return true;
    }
    return false;
}

static bool day_matches(const struct cron *c, struct date d, int64_t day)
{
    /* 1970-01-01 was a Thursday. */
    unsigned weekday = (unsigned)(day + 4 - 7 * floor_div(day + 4, 7)), length = month_days(d);
    bool by_day = c->days >> d.day & 1 || (c->last_day && d.day == length) ||
                  nearest_matches(c, d.day, weekday, length);
    unsigned weekdays = c->weekdays | c->nth[(d.day - 1) / 7 + 1];
    if (d.day + 7 > length)
        weekdays |= c->nth[0];
    bool by_weekday = weekdays >> weekday & 1;
    return c->both_days ? by_day && by_weekday : by_day || by_weekday;
}

static bool month_matches(const struct cron *c, struct date d)
{
    int64_t year = d.year - CRON_YEAR_FIRST;
    bool of_year =
        c->any_year || (year >= 0 && year < CRON_YEARS && c->years[year / 64] >> year % 64 & 1);
    return of_year && c->months >> d.month & 1;
}

/* The lowest set bit from `from` on, or -1. */
static int bit_from(uint64_t bits, int from)
{
    uint64_t rest = from < 64 ? bits >> from << from : 0;
    return rest ? __builtin_ctzll(rest) : -1;
}

/* The first matching time of day, in seconds, from `from` on, or -1. */
static int time_from(const struct cron *c, int from)
{
    int h = from / 3600, m = from / 60 % 60, s = from % 60;
    for (int hour = bit_from(c->hours, h); hour >= 0; hour = bit_from(c->hours, hour + 1)) {
        if (hour > h)
            m = s = 0;
        for (int min = bit_from(c->minutes, m); min >= 0; min = bit_from(c->minutes, min + 1)) {
            int sec = bit_from(c->seconds, min > m ? 0 : s);
            if (sec >= 0)
                return hour * 3600 + min * 60 + sec;
        }
    }
    return -1;
}

/* The first matching local time in [from, end); end if there is none. */
static int64_t next_local(const struct cron *c, int64_t from, int64_t end)
{
    int64_t day = floor_div(from, DAY_SECONDS);
    int time = (int)(from - day * DAY_SECONDS);
    while (day * DAY_SECONDS < end) {
        struct date d = date_of(day);
        int found = -1;
        if (!month_matches(c, d)) {
            day += month_days(d) - d.day;
        } else if (day_matches(c, d, day)) {
            found = time_from(c, time);
        }
        if (found >= 0)
            return day * DAY_SECONDS + found < end ? day * DAY_SECONDS + found : end;
        day++;
        time = 0;
    }
    return end;
}

/* --- ticks --- */

static struct cron_period always_utc(void *ctx, int64_t utc)
{
    (void)ctx;
    (void)utc;
    return (struct cron_period){-CRON_EVER, CRON_EVER, 0};
}

const struct cron_zone cron_utc = {NULL, always_utc};

static bool runs_hourly(const struct cron *c)
{
    return c->hours == (1u << 24) - 1;
}

/* The first tick of period p at or after utc, or p.end (or limit, if that is earlier). */
static int64_t tick_in(const struct cron *c, const struct cron_zone *zone, struct cron_period p,
                       int64_t utc, int64_t limit)
{
    int64_t end = p.end < limit ? p.end : limit;
    int64_t from = utc + p.offset;
    if (p.begin > -CRON_EVER && !runs_hourly(c)) {
        struct cron_period before = zone->period(zone->ctx, p.begin - 1);
        /* Where local time would be if the clocks had not been changed. */
        int64_t unchanged = p.begin + before.offset;
        if (utc == p.begin && before.offset < p.offset && next_local(c, unchanged, from) < from)
            return utc;
        if (before.offset > p.offset && !c->any_minute && from < unchanged)
            from = unchanged;
    }
    if (from >= end + p.offset)
        return end;
    return next_local(c, from, end + p.offset) - p.offset;
}

bool cron_next(const struct cron *c, const struct cron_zone *zone, instant after, instant *next)
{
    int64_t utc = floor_div(after.ms, 1000) + 1;
    int64_t limit = utc + SEARCH_YEARS * 366 * DAY_SECONDS;
    while (utc < limit) {
        struct cron_period p = zone->period(zone->ctx, utc);
        must(p.begin <= utc && utc < p.end);
        int64_t end = p.end < limit ? p.end : limit;
        int64_t tick = tick_in(c, zone, p, utc, limit);
        if (tick < end) {
            next->ms = tick * 1000;
            return true;
        }
        utc = end;
    }
    return false;
}
