/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/exec_identity.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strmap.h"

#define SEED 0x6578656375746f72u /* of the names: never to be changed */

/* With its length before it, so that no two lists of texts look the same. */
static void add(struct buf *b, struct str s)
{
    buf_print(b, "%zu:", s.len);
    buf_str(b, s);
}

static void add_queues(struct buf *b, const struct exec_identity *id)
{
    struct str *names = alloc_get((id->queue_count + 1) * sizeof *names);
    for (size_t i = 0; i < id->queue_count; i++)
        names[i] = str_from(id->queues[i]);
    if (id->queue_count)
        qsort(names, id->queue_count, sizeof *names, str_cmp_at);
    for (size_t i = 0; i < id->queue_count; i++)
        if (i == 0 || !str_eq(names[i], names[i - 1]))
            add(b, names[i]);
    free(names);
}

void exec_identity_name(const struct exec_identity *id, struct buf *name)
{
    struct buf b = {0};
    add(&b, str_from(id->cwd));
    add(&b, str_from(id->home));
    add(&b, str_from(id->server));
    add(&b, str_from(id->kubeconfig));
    add(&b, str_from(id->context));
    add(&b, str_from(id->namespace));
    add(&b, str_from(id->prefix));
    add(&b, id->cluster);
    add_queues(&b, id);
    buf_print(name, "executor-%016" PRIx64, strmap_hash(SEED, buf_view(&b)));
    buf_fini(&b);
}

void exec_identity_dir(const char *xdg_state_home, const char *home, const char *cwd,
                       struct str name, struct buf *dir)
{
    if (xdg_state_home && *xdg_state_home == '/')
        buf_print(dir, "%s/tenax/", xdg_state_home);
    else if (home && *home == '/')
        buf_print(dir, "%s/.local/state/tenax/", home);
    else
        buf_print(dir, "%s/.tenax/", cwd);
    buf_str(dir, name);
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool exec_identity_is_name(struct str name)
{
    if (name.len < 1 || name.len > 63 || !is_alnum(name.at[0]) || !is_alnum(name.at[name.len - 1]))
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!is_alnum(name.at[i]) && !memchr("-_.", name.at[i], 3))
            return false;
    return true;
}
