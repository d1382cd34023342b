/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/workertext.h"

static void a_worker_works_or_is_quiet(void **state)
{
    (void)state;
    assert_true(str_eq(workertext_state(STR("{\"quiet\":true}")), STR("quiet")));
    assert_true(str_eq(workertext_state(STR("{\"quiet\":false}")), STR("works")));
}

static void queues(const char *worker, const char *text)
{
    struct buf b = {0};
    buf_lit(&b, "from ");
    workertext_queues(&b, str_from(worker));
    buf_byte(&b, '\0');
    assert_string_equal(b.at, text);
    buf_fini(&b);
}

static void without_queues_it_asks_for_all(void **state)
{
    (void)state;
    queues("{\"queues\":[\"a\",\"b\"]}", "from a,b");
    queues("{\"queues\":[]}", "from all");
    queues("{\"queues\":[7,\"a\"]}", "from a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_works_or_is_quiet),
        cmocka_unit_test(without_queues_it_asks_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
