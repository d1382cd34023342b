/* SPDX-License-Identifier: Apache-2.0 */

/* Polls that take longer than their messages are invisible. */

#include "front.h"

#define URLS "/api/queue/v1/poll-task-url/p/q"

/* Of the poll URL of tasks with the lowest priority, from its path on. */
static char url[512];

static void on_urls(void *ctx, int status, struct str body)
{
    static const char host[] = "http://localhost";
    struct asked *a = ctx;
    struct arena arena = {0};
    struct document_list all;
    struct document_fault fault;
    const struct document_node *root;
    a->status = status;
    assert_true(document_read(body, DOCUMENT_JSON, &arena, &all, &fault));
    assert_true(document_only(&all, &root, &fault));
    struct str text = document_text(document_member(root, "queues")->last, "signedPollUrl");
    assert_true(text.len > sizeof host && text.len < sizeof url);
    memcpy(url, text.at + sizeof host - 1, text.len - sizeof host + 1);
    arena_fini(&arena);
}

static void answered(void *ctx, int status, struct str body)
{
    struct asked *a = ctx;
    a->status = status;
    a->run = memmem(body.at, body.len, "<DequeueCount>", 14) ? 0 : -1;
}

static void ask(struct world *w, struct asked *a, int messages)
{
    struct buf target = {0};
    *a = (struct asked){.run = -1};
    buf_print(&target, "%s&numofmessages=%d", url, messages);
    const struct fake_request asked = {.method = HTTP_GET, .target = buf_view(&target)};
    fake_ask(w->router, &asked, answered, a, &a->x);
    buf_fini(&target);
}

static void become_visible(struct world *w)
{
    w->now.ms += 301 * 1000;
}

static void its_answer_waits_until_a_message_that_another_poll_has_by_now_is_stored(void **state)
{
    (void)state;
    struct world w;
    struct asked a, slow, other;
    front_begin(&w);
    front_create(&w, TASK, "q", answered, &a);
    front_wait_for(&w, &a);
    a = (struct asked){0};
    const struct fake_request asked = {.method = HTTP_GET, .target = STR(URLS)};
    fake_ask(w.router, &asked, on_urls, &a, &a.x);
    front_wait_for(&w, &a);
    ask(&w, &a, 1);
    front_wait_for(&w, &a);
    assert_int_equal(a.run, 0);
    become_visible(&w);
    /* It has the message, and looks for a second one behind a commit that takes long. */
    memory_set_faults(w.store, (struct memory_faults){.hold = true});
    front_create(&w, OTHER, "other", answered, &a);
    ask(&w, &slow, 2);
    front_turn(&w);
    become_visible(&w);
    ask(&w, &other, 1);
    front_turn(&w);
    memory_release(w.store);
    for (int i = 0; i < 5; i++) /* the next commit takes long, too */
        front_turn(&w);
    assert_int_equal(a.status, 200);
    assert_int_equal(other.status, 0);
    assert_int_equal(slow.status, 0);
    memory_set_faults(w.store, (struct memory_faults){0});
    memory_release(w.store);
    front_wait_for(&w, &slow);
    front_wait_for(&w, &other);
    assert_int_equal(slow.run, 0);
    assert_int_equal(other.run, 0);
    front_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_answer_waits_until_a_message_that_another_poll_has_by_now_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
