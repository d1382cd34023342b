/* SPDX-License-Identifier: Apache-2.0 */

/* pods.yaml: what is to be read from a pod, row by row. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/buf.h"
#include "kube/kube_failure.h"
#include "kube/kube_verdict.h"
#include "wire/document.h"

#define ROWS_MIN 80
#define WAITED   ((span){180000})

static const char *table_path, *docs_path;

static struct buf read_file(const char *path)
{
    struct buf b = {0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n;
    do {
        n = fread(buf_room(&b, 65536), 1, 65536, f);
        b.len += n;
    } while (n > 0);
    fclose(f);
    return b;
}

/* A copy of its members, to which others are added. */
static struct document_node *copy_map(const struct document_node *from, struct arena *a)
{
    struct document_node *to = document_map(a);
    for (const struct document_node *m = from ? from->first : NULL; m; m = m->next) {
        struct document_node *copy = ARENA_NEW(a, struct document_node);
        *copy = *m;
        copy->next = NULL;
        char *key = arena_zero(a, m->key.len + 1);
        memcpy(key, m->key.at, m->key.len);
        document_add(to, key, copy);
    }
    return to;
}

/* The pod of a row with what all of them have in common. */
static struct str pod_json(const struct document_node *row, struct arena *a)
{
    const struct document_node *given = document_member(row, "pod");
    struct document_node *pod = document_map(a);
    document_add(pod, "apiVersion", document_string(a, STR("v1")));
    document_add(pod, "kind", document_string(a, STR("Pod")));
    struct document_node *metadata =
        document_add(pod, "metadata", copy_map(document_member(given, "metadata"), a));
    document_add(metadata, "name", document_string(a, STR("p")));
    document_add(metadata, "uid", document_string(a, STR("u-1")));
    struct document_node *spec =
        document_add(pod, "spec", copy_map(document_member(given, "spec"), a));
    if (!document_member(spec, "containers")) {
        struct document_node *list = document_add(spec, "containers", document_list(a));
        struct document_node *one = document_add(list, "", document_map(a));
        document_add(one, "name", document_string(a, STR("main")));
    }
    const struct document_node *status = document_member(given, "status");
    if (status)
        document_add(pod, "status", copy_map(status, a));
    struct buf b = {0};
    document_write_json(pod, &b);
    struct str json = arena_copy(a, buf_view(&b));
    buf_fini(&b);
    return json;
}

/* --- comparing --- */

static struct str fact;
static size_t wrong;

static void expect(const char *what, struct str want, struct str got)
{
    if (str_eq(want, got))
        return;
    print_error("%.*s: %s: expected \"%.*s\", found \"%.*s\"\n", STR_ARG(fact), what, STR_ARG(want),
                STR_ARG(got));
    wrong++;
}

static void expect_int(const char *what, const struct document_node *row, int64_t got)
{
    const struct document_node *n = document_member(row, what);
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)got);
    expect(what, n ? n->text : STR("0"), str_from(text));
}

static void expect_within(const char *what, struct str want, struct str got)
{
    if (want.len && (got.len < want.len || !memmem(got.at, got.len, want.at, want.len)))
        expect(what, want, got);
}

static void check_containers(const struct document_node *row, const struct kube_failure *f)
{
    const struct document_node *list = document_member(row, "containers");
    const struct document_node *want = list ? list->first : NULL;
    for (size_t i = 0; list && i < f->container_count; i++) {
        const struct kube_failure_container *c = &f->containers[i];
        struct buf b = {0};
        buf_print(&b, "%s%.*s %d %.*s", c->init ? "init " : "", STR_ARG(c->name), c->exit_code,
                  STR_ARG(c->reason));
        /* The message is compared where the row has one. */
        if (want && memmem(want->text.at, want->text.len, ": ", 2))
            buf_print(&b, ": %.*s", STR_ARG(c->message));
        expect("containers", want ? want->text : STR("no more of them"), buf_view(&b));
        want = want ? want->next : NULL;
        buf_fini(&b);
    }
    if (list && want)
        expect("containers", want->text, STR(""));
}

static void check_failure(const struct document_node *row, const struct kube_pod *p,
                          struct arena *a)
{
    static const char *const found[] = {"ended", "not-started", "no-node",    "slow",
                                        "gone",  "overdue",     "ended-alien"};
    struct str word = document_text(row, "found");
    size_t i = 0;
    while (i < COUNT(found) && !str_eq(word, str_from(found[i])))
        i++;
    assert_true(i < COUNT(found));
    struct kube_failure f =
        kube_failure(p, (enum kube_failure_found)i, KUBE_VERDICT_BY_NODE, WAITED, NULL, 0, a);
    expect("cause", document_text(row, "cause"), str_from(kube_failure_name(f.cause)));
    expect("condition", document_text(row, "condition"), str_from(f.condition));
    if (document_text(row, "culprit").len || f.cause == KUBE_FAILURE_CONTAINER)
        expect("culprit", document_text(row, "culprit"), str_from(f.culprit));
    expect("error", document_text(row, "error"), f.pod_error);
    expect("node", p->node, f.node);
    expect_within("message", document_text(row, "message"), f.message);
    expect_int("exit", row, f.exit_code);
    expect_int("signal", row, f.signal);
    expect_int("grace", row, f.grace.ms);
    check_containers(row, &f);
    if (f.message.len == 0)
        expect("message", STR("a sentence"), f.message);
}

static void check_verdict(const struct document_node *row, const struct kube_pod *p)
{
    struct kube_verdict v = kube_verdict(p, KUBE_VERDICT_BY_NODE);
    struct kube_verdict older = kube_verdict(p, KUBE_VERDICT_PENDING_IS_HEALTHY);
    struct str start = document_text(row, "start"), other = document_text(row, "older");
    expect("start", start, str_from(kube_verdict_name(v.start)));
    expect("older", other.len ? other : start, str_from(kube_verdict_name(older.start)));
    struct buf b = {0};
    if (v.start == KUBE_VERDICT_FAILED)
        kube_verdict_write(&v, &b);
    expect("why", document_text(row, "why"), buf_view(&b));
    buf_fini(&b);
}

static void pods_are_read_as_the_table_says(void **state)
{
    (void)state;
    struct arena a = {0}, pod_memory = {0};
    struct buf text = read_file(table_path);
    struct document_list rows;
    struct document_fault fault;
    if (!document_read(buf_view(&text), DOCUMENT_YAML, &a, &rows, &fault))
        fail_msg("line %u: %s", fault.line, fault.expected);
    for (const struct document_node *row = rows.first; row; row = row->next) {
        struct kube_pod p;
        fact = document_text(row, "fact");
        struct err e = kube_pod_read(pod_json(row, &pod_memory), &pod_memory, &p);
        if (e.code != ERR_OK)
            fail_msg("%.*s: %s", STR_ARG(fact), e.msg);
        check_verdict(row, &p);
        if (document_text(row, "found").len)
            check_failure(row, &p, &pod_memory);
        arena_reset(&pod_memory);
    }
    assert_int_equal(wrong, 0);
    assert_true(rows.count >= ROWS_MIN);
    buf_fini(&text);
    arena_fini(&pod_memory);
    arena_fini(&a);
}

/* Every reason of the table has a row that shows what it means. */
static void every_reason_is_shown(void **state)
{
    (void)state;
    struct buf text = read_file(table_path);
    struct kube_verdict_row row;
    for (size_t i = 0; kube_verdict_row(i, &row); i++) {
        if (!memmem(text.at, text.len, row.reason, strlen(row.reason)))
            fail_msg("no pod in the table has the reason %s", row.reason);
    }
    buf_fini(&text);
}

static const char *words_of(const char *meaning)
{
    static const char *const words[][2] = {{"image", "check your image"},
                                           {"administrator", "contact your administrator"},
                                           {"by-phase", "the phase decides"},
                                           {"healthy", "running"}};
    for (size_t i = 0; i < COUNT(words); i++)
        if (strcmp(words[i][0], meaning) == 0)
            return words[i][1];
    fail_msg("%s has no words", meaning);
    return NULL;
}

/* docs/kubernetes.md has the rows of the table, in its order, and no others. */
static void the_documentation_has_the_same_table(void **state)
{
    (void)state;
    struct buf text = read_file(docs_path), want = {0};
    struct kube_verdict_row row;
    buf_lit(&want, "| reason | verdict | with `pending-is-healthy` |\n|---|---|---|\n");
    for (size_t i = 0; kube_verdict_row(i, &row); i++)
        buf_print(&want, "| `%s` | %s | %s |\n", row.reason, words_of(row.meaning[0]),
                  words_of(row.meaning[1]));
    buf_lit(&want, "\n");
    if (!memmem(text.at, text.len, want.at, want.len))
        fail_msg("docs/kubernetes.md should have\n%.*s", (int)want.len, want.at);
    for (int cause = KUBE_FAILURE_CONTAINER; cause <= KUBE_FAILURE_POD; cause++) {
        const char *name = kube_failure_name((enum kube_failure_cause)cause);
        want.len = 0;
        buf_print(&want, "\n| `%s` | ", name);
        if (!memmem(text.at, text.len, want.at, want.len))
            fail_msg("docs/kubernetes.md has no row for %s", name);
    }
    buf_fini(&text);
    buf_fini(&want);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_are_read_as_the_table_says),
        cmocka_unit_test(every_reason_is_shown),
        cmocka_unit_test(the_documentation_has_the_same_table),
    };
    if (argc != 3)
        return 2;
    table_path = argv[1];
    docs_path = argv[2];
    return cmocka_run_group_tests_name("kube_table", tests, NULL, NULL);
}
