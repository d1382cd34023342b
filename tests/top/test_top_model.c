/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "top/top_model.h"

#define ID1 "03h9wu3rpcpyzb7739rynr4a1"
#define ID2 "03h9wu3rpcpyzb7739rynr4a2"
#define ID3 "03h9wu3rpcpyzb7739rynr4a3"

static unsigned event(struct top_model *m, const char *line, int64_t second)
{
    return top_model_event(m, str_from(line), second);
}

static void counts_are_those_of_the_server(void **state)
{
    (void)state;
    struct top_model m = {0};
    top_model_counts(&m,
                     STR("{\"status\":\"ok\",\"jobs\":{\"ready\":3,\"in_flight\":2,\"dead\":1}}"));
    assert_true(m.counted);
    assert_int_equal(m.counts[TOP_READY], 3);
    assert_int_equal(m.counts[TOP_IN_FLIGHT], 2);
    assert_int_equal(m.counts[TOP_SCHEDULED], 0);
    assert_int_equal(m.counts[TOP_DEAD], 1);
    top_model_fini(&m);
}

static void rates_are_of_the_last_seconds(void **state)
{
    (void)state;
    struct top_model m = {0};
    for (int i = 0; i < 18; i++)
        event(&m, "{\"event\":\"job_enqueued\",\"number\":1,\"to\":\"ready\"}", 1000);
    for (int i = 0; i < 9; i++)
        event(&m, "{\"event\":\"job_requeued\",\"cause\":\"retry\"}", 1001);
    /* The second that is still going on does not count yet. */
    assert_true(top_model_rate(&m, TOP_ENQUEUED, 1000) == 0);
    assert_true(top_model_rate(&m, TOP_ENQUEUED, 1001) == 2);
    assert_true(top_model_rate(&m, TOP_FAILED, 1002) == 1);
    assert_true(top_model_rate(&m, TOP_COMPLETED, 1002) == 0);
    assert_true(top_model_rate(&m, TOP_ENQUEUED, 1009) == 2);
    assert_true(top_model_rate(&m, TOP_ENQUEUED, 1010) == 0);
    assert_true(top_model_rate(&m, TOP_FAILED, 5000) == 0);
    top_model_fini(&m);
}

static void an_event_says_what_is_stale(void **state)
{
    (void)state;
    struct top_model m = {0};
    top_model_go(&m, TOP_READY);
    const char *taken = "{\"event\":\"job_taken\",\"cursor\":\"a-7\",\"id\":\"" ID1
                        "\",\"from\":\"ready\",\"to\":\"in_flight\"}";
    assert_int_equal(event(&m, taken, 1), TOP_STALE_COUNTS | TOP_STALE_PAGE);
    assert_string_equal(m.since, "a-7");
    top_model_go(&m, TOP_DEAD);
    assert_int_equal(event(&m, taken, 1), TOP_STALE_COUNTS);
    strcpy(m.detail, ID1);
    assert_int_equal(event(&m, taken, 1), TOP_STALE_COUNTS | TOP_STALE_DETAIL);
    assert_int_equal(event(&m, "", 1), 0);
    assert_int_equal(event(&m, "{\"event\":", 1), 0);
    top_model_fini(&m);
}

static void a_gap_makes_everything_stale(void **state)
{
    (void)state;
    struct top_model m = {0};
    assert_int_equal(event(&m, "{\"event\":\"gap\",\"from\":8,\"to\":90,\"cursor\":\"a-90\"}", 1),
                     TOP_STALE_ALL | TOP_GAP);
    assert_string_equal(m.since, "a-90");
    assert_true(top_model_rate(&m, TOP_ENQUEUED, 2) == 0);
    top_model_fini(&m);
}

static const char page[] = "{\"jobs\":[{\"id\":\"" ID1 "\"},{\"id\":\"" ID2 "\"},{\"id\":\"" ID3
                           "\"}],\"pages\":{\"next\":\"/jobs?from=x\",\"prev\":null}}";

static void the_selection_stays_on_its_job(void **state)
{
    (void)state;
    struct top_model m = {0};
    struct buf name = {0};
    top_model_go(&m, TOP_READY);
    top_model_page(&m, str_from(page));
    top_model_move(&m, 2, 10);
    assert_string_equal(top_model_name(&m, &name), ID3);
    top_model_page(&m, STR("{\"jobs\":[{\"id\":\"" ID3 "\"}]}"));
    assert_string_equal(top_model_name(&m, &name), ID3);
    assert_int_equal(m.selected, 0);
    top_model_page(&m, STR("{\"jobs\":[]}"));
    assert_string_equal(top_model_name(&m, &name), "");
    assert_int_equal(top_model_row(&m).len, 0);
    buf_fini(&name);
    top_model_fini(&m);
}

static void the_selection_stays_in_the_window(void **state)
{
    (void)state;
    struct top_model m = {0};
    top_model_go(&m, TOP_READY);
    top_model_page(&m, str_from(page));
    top_model_move(&m, 1, 1);
    assert_int_equal(m.top, 1);
    top_model_move(&m, 100, 1);
    assert_int_equal(m.selected, 2);
    top_model_move(&m, -100, 2);
    assert_int_equal(m.selected, 0);
    assert_int_equal(m.top, 0);
    top_model_fini(&m);
}

static void a_page_leads_to_the_next(void **state)
{
    (void)state;
    struct top_model m = {0};
    top_model_go(&m, TOP_READY);
    top_model_page(&m, str_from(page));
    assert_false(top_model_turn(&m, false));
    assert_true(m.loaded);
    assert_true(top_model_turn(&m, true));
    assert_string_equal(m.path, "/jobs?from=x");
    assert_false(m.loaded);
    top_model_page(&m, STR("{\"jobs\":[],\"pages\":{\"next\":\"/jobs?from=y\"}}"));
    assert_true(top_model_turn(&m, true));
    assert_true(top_model_turn(&m, false));
    assert_string_equal(m.path, "/jobs?from=x");
    assert_true(top_model_turn(&m, false));
    assert_string_equal(m.path, "/jobs?status=ready&limit=100");
    assert_false(top_model_turn(&m, false));
    assert_false(top_model_turn(&m, true));
    top_model_fini(&m);
}

static void a_search_becomes_a_query(void **state)
{
    (void)state;
    static const char *const searches[][2] = {
        {"", "/jobs?status=ready&limit=100"},
        {"mail", "/jobs?status=ready&queue=mail&limit=100"},
        {"queue:a b", "/jobs?status=ready&queue=a%20b&limit=100"},
        {"type:x", "/jobs?status=ready&type=x&limit=100"},
        {"worker:a/1", "/jobs?status=ready&worker=a%2F1&limit=100"},
        {".n>1", "/jobs?status=ready&filter=.n%3E1&limit=100"},
        {ID1, "/jobs?id=" ID1 "&limit=100"},
    };
    struct top_model m = {0};
    top_model_go(&m, TOP_READY);
    for (size_t i = 0; i < COUNT(searches); i++) {
        top_model_search(&m, searches[i][0]);
        assert_string_equal(m.path, searches[i][1]);
    }
    top_model_fini(&m);
}

static void queues_are_searched_by_part_of_their_name(void **state)
{
    (void)state;
    struct top_model m = {0};
    struct buf name = {0};
    top_model_go(&m, TOP_QUEUES);
    assert_string_equal(m.path, "/queues?details=true&limit=100");
    top_model_search(&m, "ai");
    top_model_page(&m, STR("{\"queues\":[{\"name\":\"img\"},{\"name\":\"mail\"},\"brain\"]}"));
    assert_int_equal(m.page.count, 2);
    assert_string_equal(top_model_name(&m, &name), "mail");
    top_model_move(&m, 1, 5);
    assert_string_equal(top_model_name(&m, &name), "brain");
    buf_fini(&name);
    top_model_fini(&m);
}

static void workers_have_pages_and_are_searched_by_part_of_their_name(void **state)
{
    (void)state;
    struct top_model m = {0};
    struct buf name = {0};
    const char *workers = "{\"workers\":[{\"name\":\"img-1\"},{\"name\":\"mail-1\"}],"
                          "\"next\":\"/workers?limit=100&after=mail-1\"}";
    top_model_go(&m, TOP_WORKERS);
    assert_string_equal(m.path, "/workers?limit=100");
    top_model_page(&m, str_from(workers));
    assert_int_equal(m.page.count, 2);
    top_model_move(&m, 1, 5);
    assert_string_equal(top_model_name(&m, &name), "mail-1");
    assert_true(top_model_turn(&m, true));
    assert_string_equal(m.path, "/workers?limit=100&after=mail-1");
    top_model_page(&m, STR("{\"workers\":[],\"next\":null}"));
    assert_false(top_model_turn(&m, true));
    assert_true(top_model_turn(&m, false));
    assert_string_equal(m.path, "/workers?limit=100");
    top_model_search(&m, "worker:mail");
    top_model_page(&m, str_from(workers));
    assert_int_equal(m.page.count, 1);
    assert_string_equal(top_model_name(&m, &name), "mail-1");
    buf_fini(&name);
    top_model_fini(&m);
}

static void any_event_makes_the_page_of_workers_stale(void **state)
{
    (void)state;
    struct top_model m = {0};
    top_model_go(&m, TOP_WORKERS);
    assert_int_equal(event(&m, "{\"event\":\"job_taken\",\"to\":\"in_flight\"}", 1),
                     TOP_STALE_COUNTS | TOP_STALE_PAGE);
    top_model_fini(&m);
}

static void the_longest_name_of_a_worker_fits(void **state)
{
    (void)state;
    struct top_model m = {0};
    char search[7 + 255 + 1] = "worker:";
    memset(search + 7, '%', 255); /* each is encoded as three bytes */
    top_model_go(&m, TOP_IN_FLIGHT);
    top_model_search(&m, search);
    const char *end = strstr(m.path, "&limit=100");
    assert_non_null(end);
    assert_int_equal(end - strstr(m.path, "worker=") - 7, 3 * 255);
    top_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_server),
        cmocka_unit_test(rates_are_of_the_last_seconds),
        cmocka_unit_test(an_event_says_what_is_stale),
        cmocka_unit_test(a_gap_makes_everything_stale),
        cmocka_unit_test(the_selection_stays_on_its_job),
        cmocka_unit_test(the_selection_stays_in_the_window),
        cmocka_unit_test(a_page_leads_to_the_next),
        cmocka_unit_test(a_search_becomes_a_query),
        cmocka_unit_test(queues_are_searched_by_part_of_their_name),
        cmocka_unit_test(workers_have_pages_and_are_searched_by_part_of_their_name),
        cmocka_unit_test(any_event_makes_the_page_of_workers_stale),
        cmocka_unit_test(the_longest_name_of_a_worker_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
