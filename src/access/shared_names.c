/* SPDX-License-Identifier: Apache-2.0 */
#include "access/shared_names.h"

#include <stdlib.h>

#include "access/mac.h"
#include "base/base64.h"
#include "base/must.h"

static const struct {
    enum shared_rule rule;
    const char *words, *why;
} rows[SHARED_COUNT] = {
#define SHARED(kind, words, rule, why) [SHARED_##kind] = {SHARED_##rule, words, why},
#include "access/shared_names.def"
#undef SHARED
};

enum shared_rule shared_names_rule(enum shared_kind kind)
{
    return rows[kind].rule;
}

/* --- marks --- */

static int compare(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

/* No pattern has a comma. */
static void write_queues(struct buf *b, struct glob_list queues)
{
    struct str sorted[RIGHTS_PATTERNS_MAX];
    must(queues.count <= RIGHTS_PATTERNS_MAX);
    memcpy(sorted, queues.at, queues.count * sizeof *sorted);
    qsort(sorted, queues.count, sizeof *sorted, compare);
    for (size_t i = 0; i < queues.count; i++) {
        if (i && str_eq(sorted[i], sorted[i - 1]))
            continue;
        buf_str(b, sorted[i]);
        buf_byte(b, ',');
    }
}

void shared_names_mark(struct rights *r)
{
    unsigned char mac[MAC_BYTES];
    struct buf text = {0}, id = {0};
    if (!r->queues.count)
        return;
    write_queues(&text, r->queues);
    mac_make(STR("tenax queues"), buf_view(&text), mac);
    base64_write_url(&id, (struct str){(const char *)mac, sizeof mac});
    mark_make(id.at, r->mark);
    buf_fini(&text);
    buf_fini(&id);
}

struct str shared_names_mark_of(const struct rights *who)
{
    return (struct str){who->mark, who->queues.count ? sizeof who->mark : 0};
}

struct err shared_names_own(enum shared_kind kind, const struct rights *who, size_t most,
                            struct arena *a, struct str *name)
{
    enum shared_rule rule = rows[kind].rule;
    struct str mark = shared_names_mark_of(who);
    if (!name->len || !mark.len || (rule != SHARED_OWN && rule != SHARED_OWN_OR))
        return err_none();
    if (name->len + mark.len > most)
        return err_make(ERR_BAD_VALUE,
                        "of credentials that are limited to queues, names of %s have at most %zu "
                        "bytes, not %zu",
                        rows[kind].words, most - mark.len, name->len);
    *name = mark_add(mark, *name, a);
    return err_none();
}

/* --- the document --- */

void shared_names_markdown(struct buf *b)
{
    static const char *const rules[] = {
        [SHARED_OWN] = "its own",
        [SHARED_OWN_OR] = "one that is there for all and that it may see, else its own",
        [SHARED_QUEUE] = "within its queues",
        [SHARED_SENDER] = "of each sender",
        [SHARED_SERVER] = "the server's; it makes none",
    };
    buf_lit(b, "What a name means that comes from somebody limited to queues. Its own are those of "
               "all who are limited to\nthe same queues, in any order.\n\n"
               "| Names | Limited to queues | Because of |\n|---|---|---|\n");
    for (int i = 0; i < SHARED_COUNT; i++)
        buf_print(b, "| %s | %s | %s |\n", rows[i].words, rules[rows[i].rule], rows[i].why);
}
