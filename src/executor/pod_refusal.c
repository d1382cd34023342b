/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/pod_refusal.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "executor/pod_mask.h"
#include "kube/kube_template.h"
#include "wire/document.h"

#define NAMED_MAX 8 /* containers */

/* What the message does not say of the causes: "spec.containers[0].image: Required value". */
static void add_causes(const struct kube_answer *a, struct buf *b)
{
    for (size_t i = 0; i < a->cause_count; i++) {
        const struct kube_answer_cause *c = &a->causes[i];
        if (!c->field.len || memmem(a->message.at, a->message.len, c->field.at, c->field.len))
            continue;
        buf_print(b, "%s%.*s", b->len ? "; " : "", STR_ARG(c->field));
        if (c->message.len)
            buf_print(b, ": %.*s", STR_ARG(c->message));
    }
}

/* --- the names of containers --- */

struct mention {
    bool init;
    size_t index;
};

static const struct {
    const char *field, *word;
} lists[] = {{"containers", "container"}, {"initContainers", "init container"}};

/* The next "containers[3]" or "initContainers[3]" of the text; false: there is none. */
static bool next_mention(struct str *text, struct mention *out)
{
    static const char word[] = "ontainers[";
    const size_t len = sizeof word - 1;
    for (const char *at; text->len && (at = memmem(text->at, text->len, word, len));) {
        const char *end = text->at + text->len, *start = text->at, *digits = at + len;
        size_t index = 0, n = 0;
        for (; digits + n < end && n < 4 && digits[n] >= '0' && digits[n] <= '9'; n++)
            index = index * 10 + (size_t)(digits[n] - '0');
        *text = (struct str){digits + n, (size_t)(end - digits) - n};
        bool init = at - start >= 5 && memcmp(at - 5, "initC", 5) == 0;
        bool plain = at > start && at[-1] == 'c';
        if (n && text->len && *text->at == ']' && (init || plain)) {
            *out = (struct mention){init, index};
            return true;
        }
    }
    return false;
}

static void add_name(const struct document_node *pod, struct mention m, bool first, struct buf *out)
{
    char path[64], shown[80] = "";
    snprintf(path, sizeof path, "spec.%s.%zu.name", lists[m.init].field, m.index);
    const struct document_node *name = kube_template_path(pod, str_from(path));
    if (name && name->type == DOCUMENT_STRING)
        document_quote(shown, sizeof shown, name->text);
    buf_print(out, "%s%s ", first ? " (" : ", ", lists[m.init].word);
    if (*shown)
        buf_print(out, "'%s'", shown);
    else
        buf_print(out, "%zu, which has no name", m.index + 1);
}

static void add_names(struct str text, struct str json, struct arena *a, struct buf *out)
{
    struct document_list list;
    struct document_fault fault;
    struct mention seen[NAMED_MAX], m;
    size_t count = 0;
    if (!document_read(json, DOCUMENT_JSON, a, &list, &fault))
        return;
    while (count < COUNT(seen) && next_mention(&text, &m)) {
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known |= seen[i].init == m.init && seen[i].index == m.index;
        if (known)
            continue;
        add_name(list.first, m, count == 0, out);
        seen[count++] = m;
    }
    if (count)
        buf_byte(out, ')');
}

/* --- the whole --- */

void pod_refusal_write(const struct kube_answer *answer, struct str pod, struct buf *out)
{
    struct arena a = {0};
    struct pod_mask mask;
    struct buf said = {0};
    buf_str(&said, answer->message);
    add_causes(answer, &said);
    if (pod_mask_read(pod, &a, &mask).code != ERR_OK)
        mask = (struct pod_mask){.all = true};
    pod_mask_apply(&mask, buf_view(&said), false, true, out);
    if (!mask.all)
        add_names(buf_view(&said), pod, &a, out);
    buf_fini(&said);
    arena_fini(&a);
}
