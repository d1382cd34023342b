/* SPDX-License-Identifier: Apache-2.0 */

/* A template, then a line of "===", then the values as JSON. What is filled in stays within its
 * scalar: the tree has the same shape before and after. */

#include <string.h>

#include "base/must.h"
#include "kube/kube_template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct document_node *look_up(const void *values, struct str name)
{
    must(name.len > 0 && name.len <= KUBE_TEMPLATE_NAME_MAX);
    return kube_template_path(values, name);
}

static const struct document_node *look_up_same(const void *value, struct str name)
{
    (void)name;
    return value;
}

static bool same_shape(const struct document_node *a, const struct document_node *b)
{
    bool inner = a->type == DOCUMENT_LIST || a->type == DOCUMENT_MAP;
    if (inner && (a->type != b->type || a->count != b->count))
        return false;
    if (!inner && (b->type == DOCUMENT_LIST || b->type == DOCUMENT_MAP))
        return false;
    const struct document_node *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (!str_eq(x->key, y->key) || !same_shape(x, y))
            return false;
    return !x && !y;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size}, values = STR("{}");
    struct arena a = {0};
    struct kube_template *t;
    struct document_list list;
    struct document_fault fault;
    struct document_node *root, *other;
    const char *cut = size ? memmem(data, size, "\n===\n", 5) : NULL;
    if (cut) {
        text.len = (size_t)(cut - text.at);
        values = (struct str){cut + 5, size - text.len - 5};
    }
    const struct document_node word = {.type = DOCUMENT_STRING, .text = STR("x\": [\n- {")};
    if (kube_template_read(text, &a, &t, &fault)) {
        must(kube_template_fill(t, look_up_same, &word, &a, &root, &fault));
        if (document_read(values, DOCUMENT_JSON, &a, &list, &fault) &&
            kube_template_fill(t, look_up, list.first, &a, &other, &fault))
            must(same_shape(root, other));
    }
    arena_fini(&a);
    return 0;
}
