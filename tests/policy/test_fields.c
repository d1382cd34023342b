/* SPDX-License-Identifier: Apache-2.0 */

/* A document that is read as JSON: from each position of that text back to its tree. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/array.h"
#include "policy/fields.h"

static struct document_node *tree_of(const char *yaml, struct arena *a)
{
    struct document_list list;
    struct document_fault fault;
    assert_true(document_read(str_from(yaml), DOCUMENT_YAML, a, &list, &fault));
    return list.first;
}

static void walk(struct json_cursor *c, const struct document_node *n);

static void walk_map(struct json_cursor *c, const struct document_node *map)
{
    size_t at = c->pos;
    bool more;
    struct json_string key;
    assert_int_equal(json_enter_object(c).code, ERR_OK);
    for (const struct document_node *n = map->first; n; n = n->next) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", STR_ARG(n->key));
        assert_int_equal(json_next_member(c, &more, &key).code, ERR_OK);
        assert_true(more);
        assert_int_equal(fields_member(c, at, name), c->pos);
        walk(c, n);
    }
    assert_int_equal(json_next_member(c, &more, &key).code, ERR_OK);
    assert_false(more);
}

static void walk_list(struct json_cursor *c, const struct document_node *list)
{
    size_t at = c->pos, count, i = 0;
    assert_int_equal(fields_list(c, "a list", &count).code, ERR_OK);
    assert_int_equal(count, list->count);
    for (const struct document_node *n = list->first; n; n = n->next) {
        fields_next(c);
        assert_int_equal(fields_entry(c, at, i++), c->pos);
        walk(c, n);
    }
    fields_end(c);
}

static void walk(struct json_cursor *c, const struct document_node *n)
{
    assert_ptr_equal(fields_node(c), n);
    if (n->type == DOCUMENT_MAP)
        walk_map(c, n);
    else if (n->type == DOCUMENT_LIST)
        walk_list(c, n);
    else
        assert_int_equal(json_skip(c, NULL).code, ERR_OK);
}

static void each_value_leads_back_to_its_node(void **state)
{
    (void)state;
    static const char yaml[] =
        "a: {b: [1, [], {}, [x, [y, 'z\"']], 2], c: null, \"q\\\"\": {d: {}}}\n"
        "e: true\n"
        "f: [[[[g]]], {h: {i: [1.5, 'j']}}, k]\n"
        "\"\": last\n";
    struct arena a = {0};
    struct document_fault fault;
    struct fields f;
    const struct document_node *root = tree_of(yaml, &a);
    struct json_cursor c = fields_open(&f, root, NULL, &a, &fault);
    walk(&c, root);
    assert_int_equal(json_close(&c).code, ERR_OK);
    arena_fini(&a);
}

struct pair {
    bool first, second;
};
static const struct field pair_table[] = {
    {"first", true, fields_bool, offsetof(struct pair, first)},
    {"second", false, fields_bool, offsetof(struct pair, second)},
};

static struct err read_pair(struct json_cursor *c, struct arena *a, void *into)
{
    (void)a;
    return fields_read(c, pair_table, COUNT(pair_table), into);
}

static struct err read_pairs(struct json_cursor *c, struct arena *a, void *into)
{
    size_t n;
    TRY(fields_list(c, "a list of pairs", &n));
    for (size_t i = 0; i < n; i++) {
        fields_next(c);
        TRY(read_pair(c, a, into));
    }
    fields_end(c);
    return err_none();
}

static const struct field top_table[] = {{"pairs", true, read_pairs, 0}};

static void a_fault_has_its_path_its_place_and_what_was_found(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *name, *fault;
    } cases[] = {
        {"pairs: [{first: true}, {first: 1}]", NULL,
         "line 1, column 32: pairs[1].first: expected true or false, found 1"},
        {"pairs:\n- {first: true, second: false}\n- {second: true}", NULL,
         "line 3, column 3: pairs[1].first: expected this field, found nothing"},
        {"pairs:\n- first: true\n  third: x", NULL,
         "line 3, column 3: pairs[0].third: expected one of the fields first, second, found "
         "\"third\""},
        {"pairs:\n- first: true\n  \"\": x", NULL,
         "line 3, column 3: pairs[0].\"\": expected one of the fields first, second, found \"\""},
        {"pairs: [[]]", NULL,
         "line 1, column 9: pairs[0]: expected a mapping, found an empty list"},
        {"pairs: no", "part",
         "line 1, column 8: part.pairs: expected a list of pairs, found \"no\""},
        {"{}", "part", "line 1, column 1: part.pairs: expected this field, found nothing"},
        {"[]", "part", "line 1, column 1: part: expected a mapping, found an empty list"},
        {"[]", NULL, "line 1, column 1: expected a mapping, found an empty list"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a = {0};
        struct buf b = {0};
        struct document_fault fault;
        struct fields f;
        struct pair p;
        struct json_cursor c =
            fields_open(&f, tree_of(cases[i].yaml, &a), cases[i].name, &a, &fault);
        struct err err = fields_read(&c, top_table, COUNT(top_table), &p);
        assert_int_not_equal(err.code, ERR_OK);
        assert_int_equal(err.code, fault.code);
        document_fault_write(&fault, &b);
        buf_byte(&b, '\0');
        assert_string_equal(b.at, cases[i].fault);
        buf_fini(&b);
        arena_fini(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_value_leads_back_to_its_node),
        cmocka_unit_test(a_fault_has_its_path_its_place_and_what_was_found),
    };
    return cmocka_run_group_tests_name("fields", tests, NULL, NULL);
}
