/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_counters.h"

#include <inttypes.h>

#include "base/array.h"
#include "base/must.h"
#include "net/probes.h"

/* The first stands for no answer, the last for any other code. */
static const struct {
    long status;
    const char *name;
} codes[] = {
    {0, "none"},  {200, "200"}, {201, "201"}, {202, "202"}, {204, "204"}, {400, "400"},
    {401, "401"}, {403, "403"}, {404, "404"}, {405, "405"}, {406, "406"}, {408, "408"},
    {409, "409"}, {410, "410"}, {413, "413"}, {415, "415"}, {422, "422"}, {429, "429"},
    {500, "500"}, {501, "501"}, {502, "502"}, {503, "503"}, {504, "504"}, {-1, "other"},
};
_Static_assert(COUNT(codes) == KUBE_COUNTERS_CODES, "a count for each code");

static const char *const verbs[KUBE_VERBS] = {
    [KUBE_GET] = "get",       [KUBE_LIST] = "list",     [KUBE_WATCH] = "watch",
    [KUBE_CREATE] = "create", [KUBE_UPDATE] = "update", [KUBE_PATCH] = "patch",
    [KUBE_DELETE] = "delete",
};

void kube_counters_add(struct kube_counters *c, enum kube_counters_verb verb, long status)
{
    must(verb < KUBE_VERBS);
    size_t i = 0;
    while (i + 1 < COUNT(codes) && codes[i].status != status)
        i++;
    c->calls[verb][i]++;
}

const char *kube_counters_verb_name(enum kube_counters_verb verb)
{
    must(verb < KUBE_VERBS);
    return verbs[verb];
}

const char *kube_counters_code_name(size_t i)
{
    return i < COUNT(codes) ? codes[i].name : NULL;
}

void kube_counters_write_calls(const struct kube_counters *c, const char *name, struct buf *b)
{
    probes_family(b, name, "counter", "requests to the API server by verb and answer");
    for (size_t v = 0; v < COUNT(c->calls); v++)
        for (size_t i = 0; i < COUNT(codes); i++)
            if (c->calls[v][i])
                buf_print(b, "%s{verb=\"%s\",code=\"%s\"} %" PRIu64 "\n", name, verbs[v],
                          codes[i].name, c->calls[v][i]);
}
