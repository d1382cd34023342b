/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kv.h"

static struct err check_space(struct str space)
{
    if (space.len == 0 || space.len > KV_SPACE_MAX)
        return err_make(ERR_BAD_VALUE, "the name of a space has 1 to %d bytes, not %zu",
                        KV_SPACE_MAX, space.len);
    for (size_t i = 0; i < space.len; i++)
        if (space.at[i] <= ' ' || space.at[i] > '~')
            return err_make(ERR_BAD_VALUE,
                            "the name of a space has the byte 0x%02x at %zu; only printable ASCII "
                            "characters without spaces are allowed",
                            (unsigned char)space.at[i], i);
    return err_none();
}

static struct err check_length(struct str key)
{
    if (key.len <= KV_KEY_MAX)
        return err_none();
    return err_make(ERR_BAD_VALUE, "a key is %zu bytes long; at most %d are allowed", key.len,
                    KV_KEY_MAX);
}

static struct err check_change(const struct kv_change *c)
{
    const struct kv_entry *e = &c->entry;
    TRY(check_space(e->space));
    TRY(check_length(e->key));
    if (e->key.len == 0)
        return err_make(ERR_BAD_VALUE, "a key is empty");
    if (e->value.len > KV_VALUE_MAX)
        return err_make(ERR_TOO_LARGE, "a value is %zu bytes long; at most %d are allowed",
                        e->value.len, KV_VALUE_MAX);
    return err_none();
}

static bool is_same(const struct kv_entry *a, const struct kv_entry *b)
{
    return str_eq(a->key, b->key) && str_eq(a->space, b->space);
}

struct err kv_check_put(const struct kv_put *put)
{
    if (put->count == 0 || put->count > KV_CHANGES_MAX)
        return err_make(ERR_BAD_VALUE, "%zu entries at a time; 1 to %d are allowed", put->count,
                        KV_CHANGES_MAX);
    for (size_t i = 0; i < put->count; i++) {
        TRY(check_change(&put->changes[i]));
        for (size_t j = 0; j < i; j++)
            if (is_same(&put->changes[i].entry, &put->changes[j].entry))
                return err_make(ERR_BAD_VALUE, "changes %zu and %zu are about the same entry", j,
                                i);
    }
    return err_none();
}

struct err kv_check_query(const struct kv_query *query)
{
    bool all = query->prefix && query->space.len == 0 && query->key.len == 0;
    if (!all)
        TRY(check_space(query->space));
    TRY(check_length(query->key));
    TRY(check_length(query->after));
    if (query->limit > KV_PAGE_MAX)
        return err_make(ERR_BAD_VALUE, "a page has at most %d entries, not %u", KV_PAGE_MAX,
                        query->limit);
    return err_none();
}
