/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BUILDS_STATUS_RIG_H
#define TESTS_BUILDS_STATUS_RIG_H

/* What the tests of build_status.h share. */

#include "build_rig.h"

#include <string.h>

#include "builds/build_status.h"

#define TOKEN "abc." RIG_SECRET ".def"

static inline struct build_status_settings settings(const struct rig *r)
{
    return (struct build_status_settings){
        .dir = r->state,
        .timeout = {10000},
        .delay = {1},
        .delay_max = {4},
        .age_max = {3600000},
        .seed = 7,
        .now = rig_clock,
    };
}

static inline void close_it(void *open)
{
    struct build_status *s = open;
    s->ops->close(s);
}

static inline struct build_status *open_with(struct rig *r, const struct build_status_settings *set)
{
    struct build_status *s;
    struct err e = build_status_new(&r->loop, set, &s);
    if (e.code != ERR_OK)
        fail_msg("%s", e.msg);
    r->close = close_it;
    r->open = s;
    return s;
}

static inline struct build_status *open_it(struct rig *r)
{
    const struct build_status_settings set = settings(r);
    return open_with(r, &set);
}

static inline struct build_update update(struct rig *r, const char *build, const char *message)
{
    return (struct build_update){.api = str_from(r->url),
                                 .build = str_from(build),
                                 .token = STR(TOKEN),
                                 .status = STR("FAILURE"),
                                 .message = str_from(message),
                                 .image_pull_start = INSTANT_NONE};
}

static inline void put(struct rig *r, struct build_status *s, const char *build,
                       const char *message)
{
    const struct build_update u = update(r, build, message);
    s->ops->put(s, &u, rig_kept, r);
}

static inline void put_hint(struct rig *r, struct build_status *s, const char *build,
                            const char *message)
{
    struct build_update u = update(r, build, message);
    u.hint = true;
    u.status = (struct str){0};
    s->ops->put(s, &u, rig_kept, r);
}

static inline struct build_status_stats of(const struct build_status *s)
{
    return s->ops->stats(s);
}

/* What the API answers. */
static inline void take(struct rig *r, struct http_exchange *x, int n)
{
    (void)r;
    (void)n;
    rig_answer(x, 200, NULL);
}

static inline void hold(struct rig *r, struct http_exchange *x, int n)
{
    (void)n;
    rig_hold(r, x);
}

/* One status after the other, then 200. */
static inline void by_list(struct rig *r, struct http_exchange *x, int n)
{
    const int *list = r->mine;
    for (int i = 0; i < n && *list; i++)
        list++;
    rig_answer(x, *list ? *list : 200, NULL);
}

static inline bool asked(const struct rig *r, int n, const char *path, const char *message)
{
    return r->served > n && strcmp(r->requests[n].path, path) == 0 &&
           strstr(r->requests[n].body, message);
}

#endif
