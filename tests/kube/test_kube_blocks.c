/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kube_blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"

static struct arena arena;

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    arena = (struct arena){0};
    return 0;
}

static const char values[] =
    "{\"yes\": true, \"no\": false, \"zero\": 0, \"zeros\": -0.0e7, \"one\": 0.10, \"empty\": \"\","
    " \"text\": \"{{no}}\", \"none\": null, \"nil\": [], \"bare\": {}, \"map\": {\"a\": {\"b\": "
    "1}},"
    " \"list\": [{\"x\": \"p\", \"l\": [1, 2]}, {\"x\": \"q\", \"l\": []}], \"words\": [\"u\", "
    "\"v\"]}";

static const struct document_node *look_up(const void *root, struct str name)
{
    return kube_template_path(root, name);
}

/* What is left of the text; or the fault, after "! ". */
static struct kube_expansion expand(const char *text, struct document_fault *fault)
{
    struct document_list list;
    struct kube_blocks *blocks;
    struct kube_expansion e = {0};
    struct buf b = {0};
    *fault = (struct document_fault){0};
    assert_true(document_read(str_from(values), DOCUMENT_JSON, &arena, &list, fault));
    if (kube_blocks_read(str_from(text), &arena, &blocks, fault) &&
        kube_blocks_expand(blocks, look_up, list.first, &arena, &e, fault))
        return e;
    buf_lit(&b, "! ");
    document_fault_write(fault, &b);
    e.text = arena_copy(&arena, buf_view(&b));
    buf_fini(&b);
    return e;
}

static void is(const char *text, const char *should)
{
    struct document_fault fault;
    struct str out = expand(text, &fault).text;
    if (!str_eq(out, str_from(should)))
        fail_msg("'%s' became '%.*s', not '%s'", text, STR_ARG(out), should);
}

static void blocks_are_there_or_not(void **state)
{
    (void)state;
    static const char *const something[] = {"yes",    "one",     "text",     "map",
                                            "list",   "map.a.b", "list.0.x", "@root.yes",
                                            "../yes", "this.yes"};
    static const char *const nothing[] = {"no", "zero", "zeros", "empty", "none", "nil", "bare"};
    char text[160];
    for (size_t i = 0; i < COUNT(something) + COUNT(nothing); i++) {
        bool has = i < COUNT(something);
        const char *name = has ? something[i] : nothing[i - COUNT(something)];
        snprintf(text, sizeof text, "a {{#if %s}}b{{else}}c{{/if}} d", name);
        is(text, has ? "a b d" : "a c d");
        snprintf(text, sizeof text, "a {{#if %s}}b{{/if}} d", name);
        is(text, has ? "a b d" : "a  d");
        snprintf(text, sizeof text, "{{#unless  %s }}b{{ else }}c{{ /unless }}", name);
        is(text, has ? "c" : "b");
    }
}

static void lists_are_repeated(void **state)
{
    (void)state;
    is("{{#each words}}- {{this}}\n{{/each}}", "- {{words.0}}\n- {{words.1}}\n");
    is("{{#each list}}{{x}},{{this.x}},{{../yes}},{{@root.no}};{{/each}}",
       "{{list.0.x}},{{list.0.x}},{{yes}},{{no}};{{list.1.x}},{{list.1.x}},{{yes}},{{no}};");
    is("{{#each list}}[{{#each "
       "this.l}}{{this}}{{../x}}{{../../one}}{{else}}-{{x}}{{/each}}]{{/each}}",
       "[{{list.0.l.0}}{{list.0.x}}{{one}}{{list.0.l.1}}{{list.0.x}}{{one}}][-{{list.1.x}}]");
    is("{{#each nil}}a{{else}}b{{/each}}{{#each bare}}a{{/each}}{{#each none}}a{{else}}c{{/each}}",
       "bc");
    is("{{#each list}}{{#if l}}{{x}}{{/if}}{{/each}}", "{{list.0.x}}");
}

static void a_tag_alone_takes_its_line_along(void **state)
{
    (void)state;
    is("a: 1\n  {{#if yes}}  \n  b: 2\n  {{else}}\n  c: 3\n  {{/if}}\nd: 4\n",
       "a: 1\n  b: 2\nd: 4\n");
    is("{{#if no}}\na\n{{/if}}", "");
    is("{{#if yes}}\r\na\r\n{{/if}}\r\n", "a\r\n");
    is("{{! said }}\na {{!-- {{#if x}} --}}b\n{{!-- x\n y --}}\nc", "a b\nc");
    is("x {{#if yes}}\ny{{/if}}\n", "x \ny\n");
    is("{{#each words}}\n- {{this}}\n{{/each}}\nend\n", "- {{words.0}}\n- {{words.1}}\nend\n");
    is("{{yes}}\n{{ map.a.b }}\n", "{{yes}}\n{{map.a.b}}\n");
    is("no blocks, { } and }}", "no blocks, { } and }}");
    is("", "");
}

static void everything_else_is_refused_where_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t line, column;
        const char *part;
    } rows[] = {
        {"a\n  {{#if yes}}\nb\n", 2, 3, "an end to this block"},
        {"{{#if yes}}a{{else}}b{{else}}c{{/if}}", 1, 22, "end of the block"},
        {"a\n{{/if}}", 2, 1, "/if"},
        {"{{else}}", 1, 1, "else"},
        {"{{#if yes}}{{/each}}", 1, 12, "/each"},
        {"{{#each list}}{{#if yes}}{{/each}}{{/if}}", 1, 26, "/each"},
        {"{{#with map}}{{/with}}", 1, 1, "#with map"},
        {"{{#if}}{{/if}}", 1, 1, "#if"},
        {"{{#if (eq a b)}}{{/if}}", 1, 1, "no helper"},
        {"{{#if a b}}{{/if}}", 1, 1, "no helper"},
        {"{{#each list as |x|}}{{/each}}", 1, 1, "no helper"},
        {"{{#if yes}}{{else if no}}{{/if}}", 1, 12, "else if no"},
        {"a {{> part}}", 1, 3, "> part"},
        {"{{{yes}}}", 1, 1, "{yes"},
        {"{{~yes}}", 1, 1, "~yes"},
        {"{{&yes}}", 1, 1, "&yes"},
        {"{{^yes}}", 1, 1, "^yes"},
        {"{{upper yes}}", 1, 1, "upper yes"},
        {"{{@index}}", 1, 1, "@index"},
        {"{{}}", 1, 1, "a name"},
        {"\n ä {{yes", 2, 4, "}}"},
        {"{{!-- }}", 1, 1, "--}}"},
        {"{{#if typo}}{{/if}}", 1, 1, "a value for typo"},
        {"\n{{#each list}}{{#if typo}}{{/if}}{{/each}}", 2, 15, "a value for typo"},
        {"{{#each yes}}{{/each}}", 1, 1, "a list for {{#each yes}}"},
        {"{{#each map}}{{/each}}", 1, 1, "an object"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct document_fault fault;
        struct str out = expand(rows[i].text, &fault).text;
        if (!out.at || out.len < 2 || out.at[0] != '!' ||
            !memmem(out.at, out.len, rows[i].part, strlen(rows[i].part)))
            fail_msg("'%s' gave '%.*s'", rows[i].text, STR_ARG(out));
        assert_int_equal(fault.line, rows[i].line);
        assert_int_equal(fault.column, rows[i].column);
    }
}

static void work_is_bounded(void **state)
{
    (void)state;
    struct document_fault fault;
    struct buf b = {0};
    for (int i = 0; i < KUBE_BLOCKS_DEPTH_MAX; i++)
        buf_lit(&b, "{{#each @root.words}}");
    buf_lit(&b, "x");
    for (int i = 0; i < KUBE_BLOCKS_DEPTH_MAX; i++)
        buf_lit(&b, "{{/each}}");
    buf_byte(&b, '\0');
    assert_true(expand(b.at, &fault).text.len == 1 << KUBE_BLOCKS_DEPTH_MAX);
    b.len = 0;
    for (int i = 0; i <= KUBE_BLOCKS_DEPTH_MAX; i++)
        buf_lit(&b, "{{#if yes}}");
    buf_byte(&b, '\0');
    assert_non_null(strstr(expand(b.at, &fault).text.at, "at most 16 deep"));
    b.len = 0;
    for (int i = 0; i < KUBE_BLOCKS_DEPTH_MAX; i++)
        buf_lit(&b, "{{#each @root.words}}");
    buf_lit(&b, "01234567890123456789");
    for (int i = 0; i < KUBE_BLOCKS_DEPTH_MAX; i++)
        buf_lit(&b, "{{/each}}");
    buf_byte(&b, '\0');
    expand(b.at, &fault);
    assert_non_null(strstr(fault.expected, "at most 1 MiB"));
    buf_fini(&b);
}

static void faults_are_placed_in_the_template(void **state)
{
    (void)state;
    struct document_fault fault;
    struct kube_template *t;
    struct kube_expansion e = expand("a: 1\n{{#if no}}\nb: 2\n{{/if}}\n{{#each words}}\nc:\n"
                                     "{{/each}}\nd: [\n",
                                     &fault);
    assert_true(str_eq(e.text, STR("a: 1\nc:\nc:\nd: [\n")));
    for (size_t i = 0; i < 4; i++) {
        static const uint32_t lines[] = {1, 6, 6, 8};
        fault.line = (uint32_t)i + 1;
        kube_blocks_place(&e, &fault);
        assert_int_equal(fault.line, lines[i]);
    }
    e = expand("{{#if yes}}\nx: y\n{{/if}}\nz: {{{{\n", &fault);
    assert_int_equal(fault.line, 4);
    e = expand("{{#if yes}}\nx: {{no}}\n{{/if}}\n\"{{no}}\": 1\n", &fault);
    assert_false(kube_template_read(e.text, &arena, &t, &fault));
    kube_blocks_place(&e, &fault);
    assert_int_equal(fault.line, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(blocks_are_there_or_not, tear_down),
        cmocka_unit_test_teardown(lists_are_repeated, tear_down),
        cmocka_unit_test_teardown(a_tag_alone_takes_its_line_along, tear_down),
        cmocka_unit_test_teardown(everything_else_is_refused_where_it_stands, tear_down),
        cmocka_unit_test_teardown(work_is_bounded, tear_down),
        cmocka_unit_test_teardown(faults_are_placed_in_the_template, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
