/* SPDX-License-Identifier: Apache-2.0 */

/* What every backend does when its storage is full. */

#include "contract_fixture.h"

#define F      struct fixture *f = *state
#define MINUTE ((span){60000})

/* Starts a commit that will fail. */
static void enqueue_in_vain(struct fixture *f, struct answer *to)
{
    fixture_hold(f, true);
    fixture_fill(f, true);
    fixture_enqueue(f, "q", to);
    fixture_turn(f);
    fixture_hold(f, false);
    fixture_settle(f);
    fixture_fill(f, false);
}

static void a_failed_commit_answers_everything_under_way_with_its_error(void **state)
{
    F;
    struct answer committing = {0}, built = {0}, read = {0}, list = {0};
    fixture_hold(f, true);
    fixture_fill(f, true);
    fixture_enqueue(f, "q", &committing);
    fixture_turn(f);
    fixture_enqueue(f, "q", &built);
    fixture_send(f, (struct command){.kind = CMD_QUEUES}, &read);
    fixture_send(f, (struct command){.kind = CMD_LIST, .list = {.limit = 10}}, &list);
    fixture_hold(f, false);
    fixture_settle(f);
    assert_int_equal(committing.came, 1);
    assert_code(committing.err, ERR_DISK_FULL);
    assert_int_equal(built.came, 1);
    assert_code(built.err, ERR_DISK_FULL);
    assert_int_equal(read.came, 1);
    assert_code(read.err, ERR_DISK_FULL);
    assert_int_equal(list.came, 1);
    assert_code(list.err, ERR_DISK_FULL);
    fixture_empty(f);
    assert_int_equal(fixture_count(f), 0);
}

static void a_failed_commit_closes_streams_and_answers_claims(void **state)
{
    F;
    struct id held = fixture_add(f, "s");
    struct stream s = {0};
    struct answer waiting = {0}, a = {0};
    fixture_stream(f, "s", 1, &s);
    fixture_claim(f, "empty", 1, MINUTE, &waiting);
    fixture_settle(f);
    assert_int_equal(s.count, 1);
    enqueue_in_vain(f, &a);
    fixture_settle(f);
    assert_int_equal(s.closed, 1);
    assert_int_equal(waiting.came, 1);
    assert_code(waiting.err, ERR_DISK_FULL);
    assert_int_equal(fixture_status(f, held), STATUS_READY);
    fixture_empty(f);
    struct answer runs;
    fixture_ask(f, (struct command){.kind = CMD_RUNS, .runs = {.id = held, .from = -1, .limit = 9}},
                &runs);
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.runs[0].outcome, OUTCOME_LOST);
}

static void a_job_whose_take_failed_is_not_delivered(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct stream s = {0};
    struct answer claim = {0};
    fixture_fill(f, true);
    fixture_stream(f, "q", 1, &s);
    fixture_settle(f);
    assert_int_equal(s.count, 0);
    assert_int_equal(s.closed, 1);
    fixture_empty(f);
    fixture_fill(f, true);
    fixture_claim(f, "q", 1, MINUTE, &claim);
    fixture_settle(f);
    assert_int_equal(claim.came, 1);
    assert_code(claim.err, ERR_DISK_FULL);
    assert_int_equal(claim.count, 0);
    fixture_empty(f);
    assert_int_equal(fixture_status(f, id), STATUS_READY);
}

static void a_lease_outlives_a_failed_commit(void **state)
{
    F;
    struct id id = fixture_add(f, "l");
    struct answer claim = {0}, a = {0};
    fixture_claim(f, "l", 1, MINUTE, &claim);
    fixture_settle(f);
    enqueue_in_vain(f, &a);
    fixture_settle(f);
    fixture_empty(f);
    fixture_ask(f, (struct command){.kind = CMD_SUCCEED, .run = {id, claim.tokens[0]}}, &a);
    assert_ok(a.err);
}

static void it_goes_on_by_itself_when_there_is_room(void **state)
{
    F;
    struct id id = fixture_add(f, "q");
    struct answer a = {0};
    enqueue_in_vain(f, &a);
    fixture_settle(f);
    instant at;
    assert_true(backend_next_due(f->b, &at));
    fixture_pass(f, instant_diff(at, fixture_now(f)));
    fixture_settle(f);
    struct stream s = {0};
    fixture_stream(f, "q", 10, &s);
    struct id more = fixture_add(f, "q");
    fixture_settle(f);
    assert_int_equal(s.count, 2);
    assert_id(s.ids[0], id);
    assert_id(s.ids[1], more);
}

struct pair {
    struct fixture *f;
    struct stream *stream;
};

static void close_stream(void *ctx)
{
    struct pair *p = ctx;
    if (p->stream->closed || !p->stream->handle)
        return;
    backend_stream_close(p->f->b, p->stream->handle);
    p->stream->handle = NULL;
}

static void whoever_hears_of_the_failure_may_close_a_stream_at_once(void **state)
{
    F;
    fixture_add(f, "q");
    fixture_add(f, "q");
    struct stream s[2] = {0};
    struct pair p[2] = {{f, &s[1]}, {f, &s[0]}};
    struct answer a = {.then = close_stream, .ctx = &p[0]};
    for (int i = 0; i < 2; i++) {
        s[i].on_closed = close_stream;
        s[i].ctx = &p[i];
        fixture_stream(f, "q", 1, &s[i]);
    }
    fixture_settle(f);
    enqueue_in_vain(f, &a);
    fixture_settle(f);
    assert_int_equal(s[0].closed + s[1].closed, 1);
    fixture_empty(f);
    assert_int_equal(fixture_count(f), 2);
}

int contract_disk(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(a_failed_commit_answers_everything_under_way_with_its_error),
        FIXTURE_TEST(a_failed_commit_closes_streams_and_answers_claims),
        FIXTURE_TEST(a_job_whose_take_failed_is_not_delivered),
        FIXTURE_TEST(a_lease_outlives_a_failed_commit),
        FIXTURE_TEST(it_goes_on_by_itself_when_there_is_room),
        FIXTURE_TEST(whoever_hears_of_the_failure_may_close_a_stream_at_once),
    };
    return cmocka_run_group_tests_name("full disk", tests, NULL, NULL);
}
