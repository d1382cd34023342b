/* SPDX-License-Identifier: Apache-2.0 */
#include "net/content_range.h"

#include <string.h>
#include <strings.h>

#include "net/http_date.h"

static bool skip(struct str *s, const char *text)
{
    size_t len = strlen(text);
    if (s->len < len || strncasecmp(s->at, text, len) != 0)
        return false;
    *s = (struct str){s->at + len, s->len - len};
    return true;
}

static void skip_any(struct str *s, const char *set)
{
    while (s->len && strchr(set, s->at[0]) && s->at[0])
        *s = (struct str){s->at + 1, s->len - 1};
}

/* --- conditions --- */

/* The next entity tag of the list, with its quotes. */
static bool next_tag(struct str *list, struct str *tag, bool *weak)
{
    skip_any(list, " \t,");
    *weak = list->len >= 2 && memcmp(list->at, "W/", 2) == 0;
    if (*weak)
        *list = (struct str){list->at + 2, list->len - 2};
    if (list->len < 2 || list->at[0] != '"')
        return false;
    const char *end = memchr(list->at + 1, '"', list->len - 1);
    if (!end)
        return false;
    *tag = (struct str){list->at, (size_t)(end - list->at) + 1};
    *list = (struct str){end + 1, list->len - tag->len};
    return true;
}

/* A tag that a proxy has made weak stands for the same bytes, as far as this goes. */
static bool lists_tag(struct str list, struct str etag)
{
    struct str tag;
    bool weak;
    if (str_eq(list, STR("*")))
        return true;
    while (next_tag(&list, &tag, &weak))
        if (str_eq(tag, etag))
            return true;
    return false;
}

static bool client_has_it(const struct content_request *r, const struct content_version *v)
{
    int64_t since;
    if (r->if_none_match.len) /* which says more than a date */
        return lists_tag(r->if_none_match, v->etag);
    return v->modified >= 0 && http_date_read(r->if_modified_since, &since) && v->modified <= since;
}

/* Whether the part that the client has is of this version. */
static bool fits_if_range(struct str condition, const struct content_version *v)
{
    int64_t date;
    if (condition.len == 0)
        return true;
    if (condition.at[0] == '"')
        return str_eq(condition, v->etag);
    return v->modified >= 0 && http_date_read(condition, &date) && date == v->modified;
}

/* --- the range --- */

/* Numbers beyond what can be are the largest. */
static bool read_number(struct str *s, uint64_t *v)
{
    bool any = false;
    *v = 0;
    for (; s->len && s->at[0] >= '0' && s->at[0] <= '9'; any = true) {
        uint64_t digit = (uint64_t)(s->at[0] - '0');
        *v = *v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : *v * 10 + digit;
        *s = (struct str){s->at + 1, s->len - 1};
    }
    return any;
}

/* The last bytes, so many. An empty content has none, but is no error either. */
static struct content_choice choose_last(uint64_t count, uint64_t size)
{
    if (count == 0)
        return (struct content_choice){.answer = CONTENT_OUTSIDE};
    return (struct content_choice){.answer = size ? CONTENT_PART : CONTENT_WHOLE,
                                   .from = count < size ? size - count : 0,
                                   .until = size};
}

static struct content_choice choose_range(struct str range, uint64_t size)
{
    const struct content_choice whole = {.answer = CONTENT_WHOLE, .until = size};
    uint64_t first, last = UINT64_MAX;
    if (!skip(&range, "bytes="))
        return whole;
    skip_any(&range, " \t");
    bool has_first = read_number(&range, &first);
    if (!skip(&range, "-"))
        return whole;
    bool has_last = read_number(&range, &last);
    skip_any(&range, " \t");
    if (range.len || (!has_first && !has_last))
        return whole;
    if (!has_first)
        return choose_last(last, size);
    if (!has_last)
        last = UINT64_MAX;
    if (last < first)
        return whole; /* malformed */
    if (first >= size)
        return (struct content_choice){.answer = CONTENT_OUTSIDE};
    return (struct content_choice){
        .answer = CONTENT_PART, .from = first, .until = last < size ? last + 1 : size};
}

struct content_choice content_choose(const struct content_request *r,
                                     const struct content_version *v)
{
    if (client_has_it(r, v))
        return (struct content_choice){.answer = CONTENT_UNCHANGED};
    if (r->range.len && !r->head && fits_if_range(r->if_range, v))
        return choose_range(r->range, v->size);
    return (struct content_choice){.answer = CONTENT_WHOLE, .until = v->size};
}
