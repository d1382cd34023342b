/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mark.h"

#include <string.h>

#define SECOND '\x1f'

void mark_make(const char id[MARK_ID_LEN], char mark[MARK_LEN])
{
    mark[0] = MARK_FIRST;
    mark[1] = SECOND;
    memcpy(mark + 2, id, MARK_ID_LEN);
    mark[MARK_LEN - 1] = SECOND;
}

static bool is_id_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool mark_is_at(const char *at, const char *end)
{
    if (end - at < MARK_LEN || at[0] != MARK_FIRST || at[1] != SECOND || at[MARK_LEN - 1] != SECOND)
        return false;
    for (int i = 2; i < MARK_LEN - 1; i++)
        if (!is_id_byte(at[i]))
            return false;
    return true;
}

struct str mark_of(struct str name)
{
    bool marked = name.len && mark_is_at(name.at, name.at + name.len);
    return (struct str){name.at, marked ? MARK_LEN : 0};
}

struct str mark_bare(struct str name)
{
    size_t skip = mark_of(name).len;
    return skip ? (struct str){name.at + skip, name.len - skip} : name;
}

struct str mark_add(struct str mark, struct str name, struct arena *a)
{
    if (mark.len == 0)
        return name;
    char *at = arena_get(a, mark.len + name.len);
    memcpy(at, mark.at, mark.len);
    if (name.len)
        memcpy(at + mark.len, name.at, name.len);
    return (struct str){at, mark.len + name.len};
}
