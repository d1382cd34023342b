/* SPDX-License-Identifier: Apache-2.0 */

/* Records of what an enqueue was answered: what is written is read back, and nothing else. */

#include "store/record.h"

#include <stdio.h>
#include <string.h>

#include "store/records.h"

#define ID     ((struct id){0x0123456789abcdefu, 0xfedcba9876543210u})
#define COUNT_ 3

static void fill(struct enqueued jobs[COUNT_], struct record_answer *answer)
{
    for (int i = 0; i < COUNT_; i++) {
        jobs[i] = (struct enqueued){.duplicate = i == 1, .folded = i == 2};
        jobs[i].job = (struct job){
            .id = ID,
            .queue = STR("mail"),
            .type = STR("send"),
            .retry_limit = RETRY_LIMIT_DEFAULT,
            .completed_retention = RETENTION_DEFAULT,
            .dead_retention = RETENTION_DEFAULT,
            .options.alias = STR("a"),
            .state = {.status = STATUS_READY,
                      .priority = 7,
                      .ready_at = {1700000000000},
                      .dequeued_at = INSTANT_NONE,
                      .failed_at = INSTANT_NONE,
                      .completed_at = INSTANT_NONE,
                      .purge_at = INSTANT_NONE,
                      .lease_end = INSTANT_NONE},
        };
    }
    *answer = (struct record_answer){.jobs = jobs, .count = COUNT_};
    memset(answer->request, 0xab, sizeof answer->request);
}

static void an_answer_is_read_back(void **state)
{
    (void)state;
    struct arena a = {0};
    struct enqueued jobs[COUNT_];
    struct record_answer answer, back;
    fill(jobs, &answer);
    assert_ok(record_read_answer(record_write_answer(&answer, &a), &a, &back));
    assert_memory_equal(back.request, answer.request, sizeof back.request);
    assert_int_equal(back.count, COUNT_);
    for (int i = 0; i < COUNT_; i++) {
        const struct enqueued *e = &back.jobs[i];
        assert_int_equal(e->duplicate, i == 1);
        assert_int_equal(e->folded, i == 2);
        assert_true(id_eq(e->job.id, ID));
        assert_str(e->job.queue, "mail");
        assert_str(e->job.options.alias, "a");
        assert_int_equal(e->job.state.priority, 7);
        assert_int_equal(e->job.state.ready_at.ms, 1700000000000);
        assert_null(e->job.payload.at);
    }
    arena_fini(&a);
}

#define DIGEST "abababababababababababababababababababababababababababababababab"
#define BYTES                                                                                      \
    "01" DIGEST "01"                                                                               \
    "000123456789abcdeffedcba9876543210"                                                           \
    "2d"                                                                                           \
    "01046d61696c0473656e64000000000000280161000200"                                               \
    "0781d095ffbc31000000000000000000000000000000"

static void it_has_these_bytes(void **state)
{
    (void)state;
    struct arena a = {0};
    struct enqueued jobs[COUNT_];
    struct record_answer answer;
    fill(jobs, &answer);
    answer.count = 1;
    assert_hex(record_write_answer(&answer, &a), BYTES);
    arena_fini(&a);
}

static void what_is_cut_short_or_goes_on_is_corrupt(void **state)
{
    (void)state;
    struct arena a = {0};
    struct enqueued jobs[COUNT_];
    struct record_answer answer, back;
    fill(jobs, &answer);
    struct str value = record_write_answer(&answer, &a);
    char *longer = arena_get(&a, value.len + 1);
    memcpy(longer, value.at, value.len);
    longer[value.len] = 0;
    for (size_t n = 0; n < value.len; n++)
        assert_code(record_read_answer((struct str){longer, n}, &a, &back), ERR_CORRUPT);
    assert_code(record_read_answer((struct str){longer, value.len + 1}, &a, &back), ERR_CORRUPT);
    longer[0] = 3;
    assert_code(record_read_answer((struct str){longer, value.len}, &a, &back), ERR_VERSION);
    arena_fini(&a);
}

/* Three jobs made one after the other, of which the last was made over the end of the counter. */
static void fill_in_a_row(struct enqueued jobs[COUNT_], struct record_answer *answer)
{
    fill(jobs, answer);
    jobs[0].job.id = (struct id){7, 0x12fffffe11111111u};
    jobs[1].job.id = (struct id){7, 0x12ffffff22222222u};
    jobs[2].job.id = (struct id){7, 0x1300000033333333u};
    jobs[1].job.state.status = STATUS_SCHEDULED;
    jobs[1].job.state.ready_at.ms += 5;
}

static struct str shortened(struct arena *a)
{
    struct enqueued jobs[COUNT_];
    struct record_answer answer;
    struct str brief;
    fill_in_a_row(jobs, &answer);
    assert_ok(record_shorten_answer(record_write_answer(&answer, a), a, &brief));
    return brief;
}

static void a_brief_answer_has_ids_and_statuses(void **state)
{
    (void)state;
    struct arena a = {0};
    struct enqueued jobs[COUNT_];
    struct record_answer answer, back;
    fill_in_a_row(jobs, &answer);
    assert_false(record_answer_is_brief(record_write_answer(&answer, &a)));
    assert_true(record_answer_is_brief(shortened(&a)));
    assert_ok(record_read_answer(shortened(&a), &a, &back));
    assert_true(back.brief);
    assert_memory_equal(back.request, answer.request, sizeof back.request);
    assert_int_equal(back.count, COUNT_);
    for (int i = 0; i < COUNT_; i++) {
        const struct enqueued *e = &back.jobs[i];
        assert_int_equal(e->duplicate, i == 1);
        assert_int_equal(e->folded, i == 2);
        assert_true(id_eq(e->job.id, jobs[i].job.id));
        assert_int_equal(e->job.state.status, jobs[i].job.state.status);
        assert_int_equal(e->job.state.ready_at.ms, jobs[i].job.state.ready_at.ms);
    }
    arena_fini(&a);
}

static void a_brief_answer_has_these_bytes(void **state)
{
    (void)state;
    struct arena a = {0};
    assert_hex(shortened(&a), "02" DIGEST "03"
                              "2880a0abfef962"
                              "000000000000000712fffffe11111111"
                              "650a22222222"
                              "6a0933333333");
    arena_fini(&a);
}

static void a_brief_answer_that_is_cut_short_is_corrupt(void **state)
{
    (void)state;
    struct arena a = {0};
    struct record_answer back;
    struct str brief = shortened(&a), again;
    for (size_t n = 0; n < brief.len; n++)
        assert_code(record_read_answer((struct str){brief.at, n}, &a, &back), ERR_CORRUPT);
    assert_code(record_shorten_answer(brief, &a, &again), ERR_VERSION);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_read_back),
        cmocka_unit_test(it_has_these_bytes),
        cmocka_unit_test(what_is_cut_short_or_goes_on_is_corrupt),
        cmocka_unit_test(a_brief_answer_has_ids_and_statuses),
        cmocka_unit_test(a_brief_answer_has_these_bytes),
        cmocka_unit_test(a_brief_answer_that_is_cut_short_is_corrupt),
    };
    return cmocka_run_group_tests_name("record_answer", tests, NULL, NULL);
}
