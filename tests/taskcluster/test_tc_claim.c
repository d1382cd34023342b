/* SPDX-License-Identifier: Apache-2.0 */

/* What claimWork answers when the run that it was given is over before the answer is made. */

#include "front.h"

#define WORK  "/api/queue/v1/claim-work/p%2Fq"
#define TURNS 6

/* The only task of an answer to claimWork, or NULL. */
static const struct document_node *only_task(struct str body, struct arena *a)
{
    struct document_list all;
    struct document_fault fault;
    const struct document_node *root;
    assert_true(document_read(body, DOCUMENT_JSON, a, &all, &fault));
    assert_true(document_only(&all, &root, &fault));
    const struct document_node *tasks = document_member(root, "tasks");
    assert_true(tasks->count <= 1);
    return tasks->first;
}

/* Whoever gets a run has it, and no other. */
static void answered(void *ctx, int status, struct str body)
{
    struct asked *a = ctx;
    struct arena arena = {0};
    a->status = status;
    assert_int_equal(status, 200);
    const struct document_node *task = a->worker ? only_task(body, &arena) : NULL;
    if (task) {
        const struct document_node *all = document_member(task, "status");
        const struct document_node *newest = document_member(all, "runs")->last;
        a->run = strtoll(document_member(task, "runId")->text.at, NULL, 10);
        assert_int_equal(strtoll(document_member(newest, "runId")->text.at, NULL, 10), a->run);
        assert_true(str_eq(document_text(newest, "workerId"), str_from(a->worker)));
        assert_true(str_eq(document_text(newest, "state"), STR("running")));
    }
    arena_fini(&arena);
}

static void claim(struct world *w, struct asked *a, const char *worker)
{
    struct buf body = {0};
    *a = (struct asked){.worker = worker, .run = -1};
    buf_print(&body, "{\"workerGroup\":\"g\",\"workerId\":\"%s\",\"tasks\":1}", worker);
    const struct fake_request asked = {
        .method = HTTP_POST, .target = STR(WORK), .body = buf_view(&body)};
    fake_ask(w->router, &asked, answered, a, &a->x);
    buf_fini(&body);
}

/* --- the test --- */

/* Two workers ask for the next run of a task, some turns apart, and some turns later the claim that
 * has it ends. */
static void two_ask(int apart, int later)
{
    struct world w;
    struct asked task, other, first, second, third;
    front_begin(&w);
    front_create(&w, TASK, "q", answered, &task);
    front_wait_for(&w, &task);
    claim(&w, &first, "w1");
    front_wait_for(&w, &first);
    assert_int_equal(first.run, 0);
    w.now = instant_add(w.now, CLAIM);
    front_turn(&w);
    front_create(&w, OTHER, "other", answered,
                 &other); /* something to commit, which reads wait for */
    claim(&w, &second, "w2");
    for (int i = 0; i < apart; i++)
        front_turn(&w);
    claim(&w, &third, "w3");
    for (int i = 0; i < later; i++)
        front_turn(&w);
    w.now = instant_add(w.now, CLAIM);
    for (int i = 0; i < 1000 && !(second.status && third.status); i++) {
        front_turn(&w);
        w.now.ms += 100; /* until nobody waits any more */
    }
    assert_int_equal(second.status, 200);
    assert_int_equal(third.status, 200);
    assert_true(second.run != third.run || second.run < 0);
    front_end(&w);
}

static void nobody_is_given_a_run_that_is_another_workers(void **state)
{
    (void)state;
    for (int apart = 0; apart < TURNS; apart++)
        for (int later = 0; later < TURNS; later++)
            two_ask(apart, later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_is_given_a_run_that_is_another_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
