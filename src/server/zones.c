/* SPDX-License-Identifier: Apache-2.0 */
#include "server/zones.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/strmap.h"

#define NAME_MAX_BYTES 64 /* the longest name of the database has about 32 */
#define FAR            (INT64_C(400) * 366 * 86400)

struct zone {
    struct cron_zone zone; /* its ctx is this */
    GTimeZone *tz;
    struct cron_period last; /* the answer to the last question: the next is often the same */
};

struct zones {
    struct strmap by_name; /* of struct zone */
    struct zone *local;
};

/* --- periods --- */

static int interval_at(const struct zone *z, int64_t utc)
{
    return g_time_zone_find_interval(z->tz, G_TIME_TYPE_UNIVERSAL, utc);
}

/* GLib returns the number of the interval that contains a second, but not its end. The numbers
 * ascend: leave the interval in steps of doubling width, then bisect. dir is 1 or -1. */
static int64_t last_of_interval(const struct zone *z, int64_t utc, int dir)
{
    int interval = interval_at(z, utc);
    int64_t step = 3600;
    while (step < FAR && interval_at(z, utc + dir * step) == interval)
        step *= 2;
    if (step >= FAR)
        return dir * CRON_EVER;
    int64_t in = 0, out = step;
    while (out - in > 1) {
        int64_t mid = in + (out - in) / 2;
        if (interval_at(z, utc + dir * mid) == interval)
            in = mid;
        else
            out = mid;
    }
    return utc + dir * in;
}

static struct cron_period period(void *ctx, int64_t utc)
{
    struct zone *z = ctx;
    if (z->last.begin <= utc && utc < z->last.end)
        return z->last;
    int64_t end = last_of_interval(z, utc, 1);
    z->last = (struct cron_period){
        .begin = last_of_interval(z, utc, -1),
        .end = end < CRON_EVER ? end + 1 : end,
        .offset = g_time_zone_get_offset(z->tz, interval_at(z, utc)),
    };
    return z->last;
}

/* --- finding --- */

/* Names like Europe/Berlin or Etc/GMT+3, and nothing that leads elsewhere in the file system. The
 * zones under right/ count leap seconds, which instants do not. */
static bool is_name(struct str name)
{
    if (name.len == 0 || name.len > NAME_MAX_BYTES || memmem(name.at, name.len, "//", 2) ||
        name.at[name.len - 1] == '/' || (name.len > 6 && memcmp(name.at, "right/", 6) == 0))
        return false;
    if (!g_ascii_isalpha(name.at[0]))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!g_ascii_isalnum(name.at[i]) && (name.at[i] == '\0' || !strchr("/_+-", name.at[i])))
            return false;
    return true;
}

/* GLib accepts a POSIX rule as a zone, and complains loudly about a file that is not a zone. */
static bool is_zone_file(const char *name)
{
    const char *dir = getenv("TZDIR");
    char *path = g_build_filename(dir ? dir : "/usr/share/zoneinfo", name, NULL);
    char magic[4] = "";
    FILE *f = fopen(path, "rb");
    bool is = f && fread(magic, 1, 4, f) == 4 && memcmp(magic, "TZif", 4) == 0;
    if (f)
        fclose(f);
    g_free(path);
    return is;
}

static struct zone *zone_new(GTimeZone *tz)
{
    struct zone *z = ALLOC(struct zone);
    z->tz = tz;
    z->zone = (struct cron_zone){z, period};
    return z;
}

static const struct cron_zone *local_zone(struct zones *z)
{
    if (!z->local)
        z->local = zone_new(g_time_zone_new_local());
    return &z->local->zone;
}

const struct cron_zone *zones_find(struct zones *z, struct str name)
{
    if (name.len == 0)
        return local_zone(z);
    struct zone *zone = strmap_get(&z->by_name, name);
    if (zone)
        return &zone->zone;
    if (!is_name(name))
        return NULL;
    char text[NAME_MAX_BYTES + 1] = "";
    memcpy(text, name.at, name.len);
    GTimeZone *tz = is_zone_file(text) ? g_time_zone_new_identifier(text) : NULL;
    if (!tz)
        return NULL;
    zone = zone_new(tz);
    strmap_put(&z->by_name, name, zone);
    return &zone->zone;
}

struct zones *zones_new(void)
{
    return ALLOC(struct zones);
}

static void zone_free(struct zone *z)
{
    if (!z)
        return;
    g_time_zone_unref(z->tz);
    free(z);
}

void zones_free(struct zones *z)
{
    if (!z)
        return;
    for (size_t i = 0; i < z->by_name.cap; i++)
        if (z->by_name.slots[i].key)
            zone_free(z->by_name.slots[i].val);
    strmap_fini(&z->by_name);
    zone_free(z->local);
    free(z);
}
