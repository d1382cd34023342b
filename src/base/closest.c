/* SPDX-License-Identifier: Apache-2.0 */
#include "base/closest.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 40, ERRORS_MAX = 2, NONE = ERRORS_MAX + 1 };

struct closest closest_to(struct str typed)
{
    return (struct closest){.typed = typed, .fewest = NONE};
}

/* Edit distance where swapping two neighbours is one edit; three rows suffice. */
static size_t edits(struct str a, struct str b)
{
    size_t rows[3][LONGEST + 1];
    if (a.len > LONGEST || b.len > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t best = last[j - 1] + (a.at[i - 1] != b.at[j - 1]);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a.at[i - 1] == b.at[j - 2] && a.at[i - 2] == b.at[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[a.len % 3][b.len];
}

static bool is_separator(char c)
{
    return c == '_' || c == '-';
}

/* readyAt and ready_at are spelt alike. */
static bool is_alike(struct str a, struct str b)
{
    size_t i = 0, j = 0;
    for (;;) {
        while (i < a.len && is_separator(a.at[i]))
            i++;
        while (j < b.len && is_separator(b.at[j]))
            j++;
        if (i == a.len || j == b.len)
            return i == a.len && j == b.len;
        if (tolower((unsigned char)a.at[i++]) != tolower((unsigned char)b.at[j++]))
            return false;
    }
}

void closest_offer(struct closest *c, struct str word)
{
    struct str typed = c->typed;
    size_t n = typed.len && is_alike(typed, word) ? 0 : edits(typed, word);
    /* A single edit turns one letter into any other: that would not be a hint. */
    if (n < c->fewest && n < word.len && n < typed.len) {
        c->fewest = n;
        c->word = word;
    } else if (c->fewest == NONE && typed.len >= 2 && typed.len < word.len && !c->word.len &&
               memcmp(word.at, typed.at, typed.len) == 0) {
        c->word = word;
    }
}
