/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_date.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/must.h"

void http_date_write(char date[HTTP_DATE_LEN + 1], int64_t seconds)
{
    static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t t = (time_t)seconds;
    struct tm tm;
    must(gmtime_r(&t, &tm));
    char line[64];
    int n = snprintf(line, sizeof line, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday],
                     tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
                     tm.tm_sec);
    must(n == HTTP_DATE_LEN);
    memcpy(date, line, HTTP_DATE_LEN + 1);
}

bool http_date_read(struct str text, int64_t *seconds)
{
    static const char *const forms[] = {"%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT",
                                        "%a %b %d %H:%M:%S %Y"};
    char copy[64];
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.at, '\0', text.len))
        return false;
    memcpy(copy, text.at, text.len);
    copy[text.len] = '\0';
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct tm tm = {0};
        const char *end = strptime(copy, forms[i], &tm);
        if (!end || *end)
            continue;
        *seconds = (int64_t)timegm(&tm);
        return true;
    }
    return false;
}
