/* SPDX-License-Identifier: Apache-2.0 */
#include "access/static_workers.h"

#include <string.h>

#include "base/buf.h"

#define NAME_LEN_MAX 38

static bool is_lower(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool all_words(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!is_lower(s.at[i]) && !(s.at[i] >= 'A' && s.at[i] <= 'Z') && s.at[i] != '_' &&
            s.at[i] != '-')
            return false;
    return true;
}

static bool is_name(struct str s)
{
    return s.len >= 1 && s.len <= NAME_LEN_MAX && all_words(s);
}

static bool is_worker_type(struct str s)
{
    if (s.len < 1 || s.len > NAME_LEN_MAX || s.at[0] < 'a' || s.at[0] > 'z' ||
        s.at[s.len - 1] == '-')
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (!is_lower(s.at[i]) && s.at[i] != '-')
            return false;
    return true;
}

static bool is_pool(struct str s)
{
    const char *slash = s.len ? memchr(s.at, '/', s.len) : NULL;
    size_t n = slash ? (size_t)(slash - s.at) : 0;
    return slash && is_name((struct str){s.at, n}) &&
           is_worker_type((struct str){slash + 1, s.len - n - 1});
}

static bool is_secret(struct str s)
{
    return s.len == STATIC_SECRET_LEN && all_words(s);
}

static struct err read_text(struct json_cursor *c, struct arena *a, struct str *text,
                            bool (*allows)(struct str s), const char *must_be)
{
    struct json_string s;
    TRY(json_read_string(c, &s));
    TRY(json_text(s, a, text));
    if (!allows(*text))
        return err_at(ERR_BAD_VALUE, (int64_t)s.offset, "%s", must_be);
    return err_none();
}

#define WORDS "1 to 38 of A-Z a-z 0-9 _ -"

struct err static_worker_read_pool(struct json_cursor *c, struct arena *a, struct static_worker *w)
{
    return read_text(c, a, &w->pool, is_pool,
                     "workerPoolId is PROVISIONER/TYPE: " WORDS
                     ", and of the type a-z 0-9 -, beginning with a letter");
}

struct err static_worker_read_group(struct json_cursor *c, struct arena *a, struct static_worker *w)
{
    return read_text(c, a, &w->group, is_name, "workerGroup has " WORDS);
}

struct err static_worker_read_id(struct json_cursor *c, struct arena *a, struct static_worker *w)
{
    return read_text(c, a, &w->id, is_name, "workerId has " WORDS);
}

struct err static_worker_read_provider(struct json_cursor *c, struct arena *a,
                                       struct static_worker *w)
{
    return read_text(c, a, &w->provider, is_name, "providerId has " WORDS);
}

struct err static_worker_read_secret(struct json_cursor *c, struct arena *a,
                                     struct static_worker *w)
{
    return read_text(c, a, &w->secret, is_secret, "staticSecret has exactly 44 of A-Z a-z 0-9 _ -");
}

struct err static_worker_read_config(struct json_cursor *c, struct arena *a,
                                     struct static_worker *w)
{
    enum json_type type;
    (void)a;
    TRY(json_peek(c, &type)); /* skips white space */
    int64_t begin = (int64_t)c->pos;
    if (type != JSON_OBJECT)
        return err_at(ERR_BAD_TYPE, begin, "workerConfig is an object");
    return json_skip(c, &w->config);
}

/* No part has a space in it, and only the pool a slash. */
static void write_key(struct buf *b, struct str pool, struct str group, struct str id)
{
    buf_print(b, "%.*s %.*s/%.*s", STR_ARG(pool), STR_ARG(group), STR_ARG(id));
}

bool static_worker_add(struct strmap *all, struct static_worker *w, struct arena *a)
{
    struct buf key = {0};
    write_key(&key, w->pool, w->group, w->id);
    bool fresh = !strmap_get(all, buf_view(&key));
    if (!w->provider.len)
        w->provider = STR("static");
    if (!w->config.len)
        w->config = STR("{}");
    if (fresh)
        strmap_put(all, arena_copy(a, buf_view(&key)), w);
    buf_fini(&key);
    return fresh;
}

const struct static_worker *static_worker_find(const struct strmap *all, struct str pool,
                                               struct str group, struct str id)
{
    struct buf key = {0};
    write_key(&key, pool, group, id);
    const struct static_worker *w = strmap_get(all, buf_view(&key));
    buf_fini(&key);
    return w;
}
