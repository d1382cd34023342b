/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "base/must.h"
#include "base/utf8.h"
#include "policy/category_document.h"
#include "policy/policy_document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the format, the rest is a text of documents. Whatever was read is written
 * as JSON and as YAML, and read back to the same. */

static void check_fault(const struct document_fault *f)
{
    must(f->code != ERR_OK && f->expected[0] != '\0');
    struct buf b = {0};
    document_fault_write(f, &b);
    must(utf8_check(buf_view(&b)) == b.len);
    must(document_fault_err(f).code == f->code);
    buf_fini(&b);
}

static void check_reads_back(struct str text, enum document_format format, struct str json)
{
    struct arena a = {0};
    struct document_list list;
    struct document_fault fault;
    struct buf again = {0};
    must(document_read(text, format, &a, &list, &fault));
    must(list.count == 1);
    document_write_json(list.first, &again);
    must(str_eq(buf_view(&again), json));
    buf_fini(&again);
    arena_fini(&a);
}

static void check_tree(const struct document_node *root)
{
    struct buf json = {0}, yaml = {0};
    document_write_json(root, &json);
    document_write_yaml(root, &yaml);
    if (json.len <= DOCUMENT_TEXT_MAX)
        check_reads_back(buf_view(&json), DOCUMENT_JSON, buf_view(&json));
    if (yaml.len <= DOCUMENT_TEXT_MAX)
        check_reads_back(buf_view(&yaml), DOCUMENT_YAML, buf_view(&json));
    buf_fini(&json);
    buf_fini(&yaml);
}

static void try_policy(const struct document_node *root)
{
    struct policy_document d, again;
    struct document_fault fault;
    if (!policy_document_read(root, &d, &fault)) {
        check_fault(&fault);
        return;
    }
    struct arena a = {0};
    const struct document_node *tree = policy_document_tree(&d.policy, d.resource_version, &a);
    check_tree(tree);
    must(policy_document_read(tree, &again, &fault));
    must(again.policy.rule_count == d.policy.rule_count);
    for (size_t i = 0; i < d.policy.rule_count; i++)
        must(again.policy.rules[i].key == d.policy.rules[i].key);
    policy_document_free(&again);
    policy_document_free(&d);
    arena_fini(&a);
}

static void try_categories(const struct document_node *root)
{
    struct category_document d;
    struct document_fault fault;
    if (!category_document_read(root, &d, &fault)) {
        check_fault(&fault);
        return;
    }
    struct arena a = {0};
    check_tree(category_document_tree(&d.categorizer, d.resource_version, &a));
    category_document_free(&d);
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum document_format format = (enum document_format)(data[0] % 3);
    struct arena a = {0};
    struct document_list list;
    struct document_fault fault;
    if (document_read((struct str){(const char *)data + 1, size - 1}, format, &a, &list, &fault)) {
        for (const struct document_node *n = list.first; n; n = n->next) {
            check_tree(n);
            try_policy(n);
            try_categories(n);
        }
    } else {
        check_fault(&fault);
    }
    arena_fini(&a);
    return 0;
}
