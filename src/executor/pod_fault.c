/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_fault.h"

#include <string.h>

#include "base/array.h"
#include "base/must.h"
#include "base/quantity.h"

/* The names of core/culprits.def, which this program's reports carry as words. */
#define WORD_INPUT   "input"
#define WORD_ACCESS  "access"
#define WORD_CLUSTER "cluster"

static const struct pod_fault faults[KUBE_ANSWER_REASONS] = {
    [KUBE_ANSWER_OK] = {POD_FAULT_NONE, POD_FAULT_GO_ON, NULL},
#define REFUSAL(answer, domain, reaction, culprit)                                                 \
    [KUBE_ANSWER_##answer] = {POD_FAULT_##domain, POD_FAULT_##reaction, WORD_##culprit},
#include "executor/pod_faults.def"
#undef REFUSAL
};

static const struct pod_fault of_access = {POD_FAULT_ACCESS, POD_FAULT_SUSPEND, WORD_ACCESS};

/* A namespace that was just made has no service account yet, and no pod can be made in it. */
static bool lacks_account(const struct kube_answer *a)
{
    static const char words[] = "serviceaccount \"default\" not found";
    return a->message.at && memmem(a->message.at, a->message.len, words, sizeof words - 1);
}

/* An API server refuses in its own words. Those of a proxy say nothing of the pod, except that it
 * is too large to pass, and that there are too many requests. */
static bool is_of_proxy(const struct kube_answer *a)
{
    return a->foreign && a->status >= 400 && a->status < 500 &&
           a->reason != KUBE_ANSWER_TOO_LARGE && a->reason != KUBE_ANSWER_TOO_MANY_REQUESTS &&
           a->reason != KUBE_ANSWER_TIMEOUT;
}

struct pod_fault pod_fault_of(const struct kube_answer *a, bool own)
{
    bool of_namespace =
        a->reason == KUBE_ANSWER_NOT_FOUND || a->reason == KUBE_ANSWER_NAMESPACE_TERMINATING;
    must(a->reason < KUBE_ANSWER_REASONS);
    if (is_of_proxy(a) || (of_namespace && own) ||
        (a->reason == KUBE_ANSWER_ADMISSION && lacks_account(a)))
        return of_access;
    if (a->reason == KUBE_ANSWER_QUOTA && pod_fault_quota_too_small(a->message))
        return (struct pod_fault){POD_FAULT_JOB, POD_FAULT_FAIL, WORD_INPUT};
    return faults[a->reason];
}

/* --- quotas --- */

/* What follows the word, up to the next of the three lists. */
static struct str list_after(struct str text, const char *word)
{
    const char *at = text.at ? memmem(text.at, text.len, word, strlen(word)) : NULL;
    if (!at)
        return (struct str){0};
    at += strlen(word);
    size_t len = (size_t)(text.at + text.len - at);
    static const char *const ends[] = {", used:", ", limited:"};
    for (size_t i = 0; i < COUNT(ends); i++) {
        const char *end = memmem(at, len, ends[i], strlen(ends[i]));
        if (end)
            len = (size_t)(end - at);
    }
    return (struct str){at, len};
}

/* The next "name=amount" of a list; false after the last. */
static bool next_amount(struct str *list, struct str *name, struct str *amount)
{
    while (list->len && (*list->at == ' ' || *list->at == ','))
        *list = (struct str){list->at + 1, list->len - 1};
    const char *end = list->len ? memchr(list->at, ',', list->len) : NULL;
    size_t len = end ? (size_t)(end - list->at) : list->len;
    const char *sign = len ? memchr(list->at, '=', len) : NULL;
    if (!sign)
        return false;
    *name = (struct str){list->at, (size_t)(sign - list->at)};
    *amount = (struct str){sign + 1, len - name->len - 1};
    *list = (struct str){list->at + len, list->len - len};
    return true;
}

#define THOUSANDTHS 1000

/* A quota of nothing closes a namespace to all pods, and is opened again. */
static bool is_more(struct str amount, struct str than)
{
    uint64_t a, b;
    return quantity_read(amount, THOUSANDTHS, UINT64_MAX / 2, &a) &&
           quantity_read(than, THOUSANDTHS, UINT64_MAX / 2, &b) && b && a > b;
}

bool pod_fault_quota_too_small(struct str message)
{
    struct str requested = list_after(message, "requested: "), name, amount;
    while (next_amount(&requested, &name, &amount)) {
        struct str limited = list_after(message, "limited: "), of, limit;
        while (next_amount(&limited, &of, &limit))
            if (str_eq(name, of) && is_more(amount, limit))
                return true;
    }
    return false;
}

/* --- names --- */

const char *pod_fault_domain_name(enum pod_fault_domain d)
{
    static const char *const names[] = {[POD_FAULT_NONE] = "none",
                                        [POD_FAULT_JOB] = "job",
                                        [POD_FAULT_ACCESS] = "access",
                                        [POD_FAULT_CLUSTER] = "cluster"};
    must(d < COUNT(names));
    return names[d];
}

const char *pod_fault_reaction_name(enum pod_fault_reaction r)
{
    static const char *const names[] = {[POD_FAULT_GO_ON] = "go on",
                                        [POD_FAULT_FAIL] = "fail",
                                        [POD_FAULT_SUSPEND] = "suspend",
                                        [POD_FAULT_GIVE_BACK] = "give back",
                                        [POD_FAULT_WAIT] = "wait"};
    must(r < COUNT(names));
    return names[r];
}
