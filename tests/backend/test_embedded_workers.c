/* SPDX-License-Identifier: Apache-2.0 */
#include "yard.h"

#include "base/must.h"
#include "core/explain.h"
#include "core/workers.h"

/* Workers, which are "w" here: who is quiet is on the disk, and stopping one goes in steps. */

#define Y struct yard *y = *state

struct look {
    uint64_t in_flight;
    uint32_t streams, claims;
    bool quiet, found;
    unsigned came;
};

static void on_workers(void *ctx, const struct reply *r)
{
    struct look *l = ctx;
    l->came++;
    l->found = r->err.code == ERR_OK;
    if (!l->found)
        return;
    const struct worker_view *v = &r->workers[0];
    l->in_flight = v->in_flight;
    l->quiet = v->worker.quiet;
    l->streams = v->worker.streams;
    l->claims = v->worker.claims;
}

static struct look look(struct yard *y)
{
    const struct workers_query q = {.name = STR("w"), .limit = 1};
    struct look l = {0};
    struct command c = {.kind = CMD_WORKERS, .workers = &q, .done = on_workers, .ctx = &l};
    backend_submit(y->b, &c);
    yard_settle(y);
    assert_int_equal(l.came, 1);
    return l;
}

static struct err hush(struct yard *y, bool quiet)
{
    struct answer a;
    yard_ask(y, (struct command){.kind = CMD_WORKER_HUSH, .worker = {STR("w"), quiet}}, &a);
    return a.err;
}

static size_t claim(struct yard *y, uint32_t count)
{
    struct answer a = {0};
    yard_claim(y, "q", count, (span){0}, &a);
    yard_settle(y);
    assert_int_equal(a.came, 1);
    return a.count;
}

static void a_quiet_worker_gets_nothing_until_it_is_resumed(void **state)
{
    Y;
    struct stream s = {0};
    yard_add(y, "q");
    assert_ok(hush(y, true));
    yard_stream(y, "q", 10, &s);
    assert_int_equal(claim(y, 1), 0);
    yard_settle(y);
    assert_int_equal(s.count, 0);
    assert_int_equal(look(y).streams, 1);
    assert_ok(hush(y, false));
    yard_settle(y);
    assert_int_equal(s.count, 1);
}

static void a_claim_that_waits_is_answered_when_its_worker_becomes_quiet(void **state)
{
    Y;
    struct answer a = {0}, b = {0};
    yard_claim(y, "q", 1, (span){5000}, &a);
    yard_settle(y);
    assert_int_equal(look(y).claims, 1);
    assert_ok(hush(y, true));
    yard_settle(y);
    assert_int_equal(a.came, 1);
    assert_int_equal(a.count, 0);
    /* The next one waits as long as it says, and does not come again at once. */
    yard_claim(y, "q", 1, (span){5000}, &b);
    yard_add(y, "q");
    yard_settle(y);
    assert_int_equal(b.came, 0);
    yard_turn_after(y, 5000);
    yard_settle(y);
    assert_int_equal(b.came, 1);
    assert_int_equal(b.count, 0);
    assert_int_equal(look(y).claims, 0);
}

static void on_explained(void *ctx, const struct reply *r)
{
    char *text = ctx;
    assert_ok(r->err);
    must(r->explanation->summary.len < 500);
    memcpy(text, r->explanation->summary.at, r->explanation->summary.len);
    text[r->explanation->summary.len] = '\0';
}

static const char *explained(struct yard *y, struct id id)
{
    static char text[500];
    struct command c = {.kind = CMD_EXPLAIN, .id = id, .done = on_explained, .ctx = text};
    backend_submit(y->b, &c);
    yard_settle(y);
    return text;
}

static void who_says_why_he_asks_for_nothing_is_quoted_until_he_asks(void **state)
{
    Y;
    struct answer a;
    const struct str q = STR("q");
    struct worker_greeting g = {
        .name = STR("w"), .queues = &q, .queue_count = 1, .notice = STR("no right to make pods")};
    struct command c = {.kind = CMD_WORKER_NOTICE, .greeting = &g};
    struct id id = yard_add(y, "q");
    assert_null(strstr(explained(y, id), "takes none now"));
    yard_ask(y, c, &a);
    assert_ok(a.err);
    assert_non_null(strstr(explained(y, id), "worker 'w' takes none now: no right to make pods"));
    yard_turn_after(y, 6 * 60 * 1000);
    assert_null(strstr(explained(y, id), "takes none now"));
    yard_ask(y, c, &a);
    assert_non_null(strstr(explained(y, id), "takes none now"));
    assert_int_equal(claim(y, 1), 1);
    id = yard_add(y, "q");
    assert_null(strstr(explained(y, id), "takes none now"));
    /* Of another queue it says nothing. */
    yard_ask(y, c, &a);
    assert_null(strstr(explained(y, yard_add(y, "r")), "takes none now"));
}

static void who_is_quiet_outlives_a_restart(void **state)
{
    Y;
    assert_ok(hush(y, true));
    yard_restart(y);
    assert_true(look(y).quiet);
    yard_add(y, "q");
    assert_int_equal(claim(y, 1), 0);
    assert_ok(hush(y, false));
    yard_restart(y);
    assert_int_equal(claim(y, 1), 1);
}

static void a_commit_that_failed_makes_nobody_quiet(void **state)
{
    Y;
    yard_faults(y, (struct memory_faults){.fail = ERR_DISK_FULL});
    assert_code(hush(y, true), ERR_DISK_FULL);
    yard_faults(y, (struct memory_faults){0});
    yard_turn_after(y, 2000);
    yard_settle(y);
    yard_add(y, "q");
    assert_int_equal(claim(y, 1), 1);
    assert_false(look(y).quiet);
}

static void very_many_runs_go_back_in_steps(void **state)
{
    Y;
    enum { JOBS = 1500 };
    struct answer a;
    struct stream s = {0};
    for (int i = 0; i < JOBS; i++)
        yard_add(y, "q");
    for (int i = 0; i < JOBS / ANSWER_LIST_MAX + 1; i++)
        claim(y, ANSWER_LIST_MAX);
    assert_int_equal(look(y).in_flight, JOBS);
    yard_stream(y, "r", 1, &s);
    yard_settle(y);
    struct command stop = {.kind = CMD_WORKER_STOP, .worker.name = STR("w")};
    yard_ask(y, stop, &a);
    assert_ok(a.err);
    assert_int_equal(a.count, 1000);
    assert_true(a.more);
    assert_int_equal(s.closed, 0);
    yard_ask(y, stop, &a);
    assert_int_equal(a.count, JOBS - 1000);
    assert_false(a.more);
    yard_settle(y);
    assert_int_equal(s.closed, 1);
    struct look l = look(y);
    assert_int_equal(l.in_flight, 0);
    assert_true(l.quiet);
    assert_int_equal(l.streams, 0);
}

static void nobody_is_there_who_was_never_heard_of(void **state)
{
    Y;
    assert_false(look(y).found);
    claim(y, 1);
    assert_true(look(y).found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_quiet_worker_gets_nothing_until_it_is_resumed),
        TEST(a_claim_that_waits_is_answered_when_its_worker_becomes_quiet),
        TEST(who_says_why_he_asks_for_nothing_is_quoted_until_he_asks),
        TEST(who_is_quiet_outlives_a_restart),
        TEST(a_commit_that_failed_makes_nobody_quiet),
        TEST(very_many_runs_go_back_in_steps),
        TEST(nobody_is_there_who_was_never_heard_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
