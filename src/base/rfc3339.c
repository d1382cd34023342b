/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rfc3339.h"

#include <time.h>

#include "base/must.h"

/* A reader over the text; every step is a no-op once one has failed. */
struct reader {
    struct str left;
    bool ok;
};

static int digits(struct reader *r, size_t n, int lo, int hi)
{
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        if (i >= r->left.len || r->left.at[i] < '0' || r->left.at[i] > '9') {
            r->ok = false;
            return lo;
        }
        v = v * 10 + (r->left.at[i] - '0');
    }
    r->left = (struct str){r->left.at + n, r->left.len - n};
    if (v < lo || v > hi)
        r->ok = false;
    return v;
}

/* Passes one byte of the set and returns it, or fails. */
static char one_of(struct reader *r, const char *set)
{
    char c = r->left.len ? *r->left.at : '\0';
    if (!c || !strchr(set, c)) {
        r->ok = false;
        return '\0';
    }
    r->left = (struct str){r->left.at + 1, r->left.len - 1};
    return c;
}

/* ".125" to milliseconds; further digits are passed over. */
static int fraction(struct reader *r)
{
    int ms = 0, scale = 100;
    if (!r->left.len || *r->left.at != '.')
        return 0;
    one_of(r, ".");
    do {
        ms += digits(r, 1, 0, 9) * scale;
        scale /= 10;
    } while (r->ok && r->left.len && *r->left.at >= '0' && *r->left.at <= '9');
    return ms;
}

/* "Z" or "+01:00" as seconds east of UTC. */
static int zone(struct reader *r)
{
    char sign = one_of(r, "Zz+-");
    if (!r->ok || sign == 'Z' || sign == 'z')
        return 0;
    int hours = digits(r, 2, 0, 23);
    one_of(r, ":");
    int s = hours * 3600 + digits(r, 2, 0, 59) * 60;
    return sign == '-' ? -s : s;
}

bool rfc3339_parse(struct str text, instant *t)
{
    struct reader r = {text, true};
    struct tm tm = {.tm_year = digits(&r, 4, 1970, 9999) - 1900};
    one_of(&r, "-");
    tm.tm_mon = digits(&r, 2, 1, 12) - 1;
    one_of(&r, "-");
    int day = tm.tm_mday = digits(&r, 2, 1, 31);
    one_of(&r, "Tt ");
    tm.tm_hour = digits(&r, 2, 0, 23);
    one_of(&r, ":");
    tm.tm_min = digits(&r, 2, 0, 59);
    one_of(&r, ":");
    tm.tm_sec = digits(&r, 2, 0, 60);
    int ms = fraction(&r);
    int east = zone(&r);
    if (!r.ok || r.left.len)
        return false;
    int seconds = tm.tm_sec; /* apart, as a leap second may carry into the next day */
    tm.tm_sec = 0;
    t->ms = ((int64_t)timegm(&tm) + seconds - east) * 1000 + ms;
    /* timegm turns the 31st of April into the 1st of May. */
    return tm.tm_mday == day && t->ms >= 0;
}

static char *put_digits(char *to, int v, int count)
{
    for (int i = count - 1; i >= 0; i--, v /= 10)
        to[i] = (char)('0' + v % 10);
    return to + count;
}

/* Without strftime and printf, which cost a status with several times a microsecond. */
void rfc3339_write(struct buf *b, instant t)
{
    struct tm tm;
    char text[24], *at = text;
    time_t seconds = (time_t)(t.ms / 1000);
    must(t.ms >= 0 && gmtime_r(&seconds, &tm) && tm.tm_year + 1900 <= 9999);
    const struct {
        int value, count;
        char end;
    } parts[] = {{tm.tm_year + 1900, 4, '-'}, {tm.tm_mon + 1, 2, '-'}, {tm.tm_mday, 2, 'T'},
                 {tm.tm_hour, 2, ':'},        {tm.tm_min, 2, ':'},     {tm.tm_sec, 2, '.'},
                 {(int)(t.ms % 1000), 3, 'Z'}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        at = put_digits(at, parts[i].value, parts[i].count);
        *at++ = parts[i].end;
    }
    buf_add(b, text, sizeof text);
}
