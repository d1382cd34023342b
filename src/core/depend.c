/* SPDX-License-Identifier: Apache-2.0 */
#include "core/depend.h"

#include "base/array.h"
#include "base/must.h"

static const char *const when_names[DEPEND_WHENS] = {"all_completed", "all_ended"};
static const char *const death_names[DEPEND_DEATHS] = {"block", "run", "die"};

static bool find(struct str name, const char *const *names, size_t count, size_t *at)
{
    for (*at = 0; *at < count; ++*at)
        if (str_eq(name, str_from(names[*at])))
            return true;
    return false;
}

const char *depend_when_name(enum depend_when w)
{
    must(w < COUNT(when_names));
    return when_names[w];
}

bool depend_when_parse(struct str name, enum depend_when *w)
{
    size_t at;
    if (!find(name, when_names, COUNT(when_names), &at))
        return false;
    *w = (enum depend_when)at;
    return true;
}

const char *depend_death_name(enum depend_death d)
{
    must(d < COUNT(death_names));
    return death_names[d];
}

bool depend_death_parse(struct str name, enum depend_death *d)
{
    size_t at;
    if (!find(name, death_names, COUNT(death_names), &at))
        return false;
    *d = (enum depend_death)at;
    return true;
}

bool depend_has(struct str ids, struct id id)
{
    for (size_t i = 0; i < depend_count(ids); i++)
        if (id_eq(depend_at(ids, i), id))
            return true;
    return false;
}

struct str depend_new(struct arena *a, size_t count)
{
    return (struct str){arena_get(a, count * DEPEND_ID_LEN + 1), 0};
}

void depend_add(struct str *ids, struct id id)
{
    id_encode(id, (uint8_t *)ids->at + ids->len);
    ids->len += DEPEND_ID_LEN;
}

struct str depend_without(struct str ids, struct id id, struct arena *a)
{
    struct str left = depend_new(a, depend_count(ids));
    for (size_t i = 0; i < depend_count(ids); i++)
        if (!id_eq(depend_at(ids, i), id))
            depend_add(&left, depend_at(ids, i));
    return left;
}
