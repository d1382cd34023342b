/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/array.h"
#include "executor/exec_identity.h"

static const char *const queues[] = {"build", "test"};

static struct exec_identity usual(void)
{
    return (struct exec_identity){.cwd = "/srv",
                                  .home = "/root",
                                  .server = "http://127.0.0.1:7890",
                                  .queues = queues,
                                  .queue_count = COUNT(queues),
                                  .kubeconfig = "/etc/kube.yaml",
                                  .namespace = "jobs",
                                  .prefix = "tenax"};
}

static void assert_name(const struct exec_identity *id, const char *wanted, bool same)
{
    struct buf b = {0};
    exec_identity_name(id, &b);
    assert_int_equal(str_eq(buf_view(&b), str_from(wanted)), same);
    assert_true(exec_identity_is_name(buf_view(&b)));
    buf_fini(&b);
}

/* A new version that names executors otherwise would not find its pods again. */
static const char usual_name[] = "executor-f13815080ca977ed";

static void a_name_never_changes_between_versions(void **state)
{
    (void)state;
    struct exec_identity id = usual();
    struct buf b = {0};
    exec_identity_name(&id, &b);
    buf_byte(&b, '\0');
    assert_string_equal(b.at, usual_name);
    buf_fini(&b);
}

static void the_order_of_queues_does_not_matter(void **state)
{
    (void)state;
    static const char *const other[] = {"test", "build", "test"};
    struct exec_identity id = usual();
    id.queues = other;
    id.queue_count = COUNT(other);
    assert_name(&id, usual_name, true);
}

static void every_part_makes_another_executor(void **state)
{
    (void)state;
    const char **parts[7];
    struct exec_identity id = usual();
    parts[0] = &id.cwd;
    parts[1] = &id.home;
    parts[2] = &id.server;
    parts[3] = &id.kubeconfig;
    parts[4] = &id.context;
    parts[5] = &id.namespace;
    parts[6] = &id.prefix;
    for (size_t i = 0; i < COUNT(parts); i++) {
        id = usual();
        *parts[i] = "other";
        assert_name(&id, usual_name, false);
    }
    id = usual();
    id.queue_count = 1;
    assert_name(&id, usual_name, false);
    id = usual();
    id.cluster = STR("-----BEGIN CERTIFICATE-----");
    assert_name(&id, usual_name, false);
    /* What is moved from one part to the next is not the same. */
    id = usual();
    id.cwd = "/srv/root";
    id.home = "";
    assert_name(&id, usual_name, false);
}

static void the_state_directory_follows_from_home(void **state)
{
    (void)state;
    static const struct {
        const char *xdg, *home, *wanted;
    } rows[] = {
        {NULL, "/root", "/root/.local/state/tenax/e1"},
        {"/var/state", "/root", "/var/state/tenax/e1"},
        {"relative", "/root", "/root/.local/state/tenax/e1"},
        {NULL, NULL, "/srv/.tenax/e1"},
        {"", "", "/srv/.tenax/e1"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buf b = {0};
        exec_identity_dir(rows[i].xdg, rows[i].home, "/srv", STR("e1"), &b);
        buf_byte(&b, '\0');
        assert_string_equal(b.at, rows[i].wanted);
        buf_fini(&b);
    }
}

static void a_name_is_a_value_of_a_label(void **state)
{
    (void)state;
    char longest[65];
    memset(longest, 'a', sizeof longest - 1);
    longest[64] = '\0';
    assert_true(exec_identity_is_name(STR("a")));
    assert_true(exec_identity_is_name(STR("East-1.b_2")));
    assert_true(exec_identity_is_name((struct str){longest, 63}));
    assert_false(exec_identity_is_name((struct str){longest, 64}));
    assert_false(exec_identity_is_name(STR("")));
    assert_false(exec_identity_is_name(STR("-a")));
    assert_false(exec_identity_is_name(STR("a.")));
    assert_false(exec_identity_is_name(STR("a b")));
    assert_false(exec_identity_is_name(STR("\xc3\xa4")));
    assert_false(exec_identity_is_name(((struct str){"a\0b", 3})));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_never_changes_between_versions),
        cmocka_unit_test(the_order_of_queues_does_not_matter),
        cmocka_unit_test(every_part_makes_another_executor),
        cmocka_unit_test(the_state_directory_follows_from_home),
        cmocka_unit_test(a_name_is_a_value_of_a_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
