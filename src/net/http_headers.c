/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_headers.h"

#include <strings.h>

#include "base/must.h"

enum times { ONE, LIST };

static const struct {
    struct str name;
    enum times times;
} headers[] = {
#define HEADER(name, member, times) {{name, sizeof(name) - 1}, times},
#include "net/http_headers.def"
#undef HEADER
};

/* --- the hash --- */

#define SLOT_BITS      7
#define MULTIPLIER_MAX (1u << 20)

static_assert(HTTP_HEADERS * 4 <= 1 << SLOT_BITS,
              "a multiplier is found at once in a sparse table");

static uint32_t multiplier; /* with which no two names have the same slot */
static uint8_t slots[1 << SLOT_BITS];

/* The cases of a letter differ in bit 5. */
static uint32_t fold(char c)
{
    return (unsigned char)c | 0x20;
}

static size_t slot_of(struct str name, uint32_t factor)
{
    size_t last = name.len - 1;
    uint32_t key = (uint32_t)name.len << 24 | fold(name.at[0]) << 16 |
                   fold(name.at[last > 2 ? last - 2 : 0]) << 8 | fold(name.at[last]);
    return key * factor >> (32 - SLOT_BITS);
}

static bool fill(uint32_t factor)
{
    memset(slots, HTTP_HEADERS, sizeof slots);
    for (unsigned h = 0; h < HTTP_HEADERS; h++) {
        uint8_t *slot = &slots[slot_of(headers[h].name, factor)];
        if (*slot != HTTP_HEADERS)
            return false;
        *slot = (uint8_t)h;
    }
    return true;
}

/* Before main, so that a new line of the table needs nothing else and no thread ever waits. */
__attribute__((constructor)) static void find_multiplier(void)
{
    for (multiplier = 1; !fill(multiplier); multiplier += 2)
        must(multiplier < MULTIPLIER_MAX);
}

enum http_header http_header_find(struct str name)
{
    if (name.len == 0)
        return HTTP_HEADERS;
    enum http_header h = slots[slot_of(name, multiplier)];
    if (h == HTTP_HEADERS || headers[h].name.len != name.len)
        return HTTP_HEADERS;
    /* HTTP/2 has lower case only. */
    bool same = memcmp(headers[h].name.at, name.at, name.len) == 0 ||
                strncasecmp(headers[h].name.at, name.at, name.len) == 0;
    return same ? h : HTTP_HEADERS;
}

bool http_header_is_list(enum http_header h)
{
    must(h < HTTP_HEADERS);
    return headers[h].times == LIST;
}

struct err http_header_repeated(enum http_header h)
{
    must(h < HTTP_HEADERS);
    return err_make(ERR_BAD_REQUEST, "the header %.*s comes more than once",
                    STR_ARG(headers[h].name));
}
