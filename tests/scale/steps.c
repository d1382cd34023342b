/* SPDX-License-Identifier: Apache-2.0 */
#include "steps.h"

#define BULK         10000 /* jobs of one request */
#define MEASURED_MAX 64

/* --- counting --- */

static uint64_t blocks, reads;

/* Called by the compiler's marks. The test runs on one thread; the store's commits are its own. */
void __sanitizer_cov_trace_pc(void); /* NOLINT: the compiler's name */
void __sanitizer_cov_trace_pc(void)  /* NOLINT */
{
    blocks++;
}

static const struct store_vt *below;
static struct store_vt counting;

static struct err count_get(struct store *s, struct str key, bool *found, struct buf *value)
{
    reads++;
    return below->get(s, key, found, value);
}

static void count_step(struct store_cursor *c, bool backwards)
{
    reads++;
    below->cursor_step(c, backwards);
}

int steps_setup(void **state)
{
    int failed = yard_setup(state);
    struct yard *y = *state;
    below = y->store->vt;
    counting = *below;
    counting.get = count_get;
    counting.cursor_step = count_step;
    y->store->vt = &counting;
    return failed;
}

/* --- measuring --- */

static struct {
    struct steps few[MEASURED_MAX];
    size_t count, at;
    bool many; /* the second play */
    uint64_t slack;
} play;

void steps_allow(uint64_t more)
{
    play.slack = more;
}

static void judge(const char *what, struct steps s)
{
    if (!what)
        return;
    if (!play.many) {
        assert_true(play.count < MEASURED_MAX);
        play.few[play.count++] = s;
        return;
    }
    assert_true(play.at < play.count);
    const struct steps *few = &play.few[play.at++];
    if (s.blocks > 4 * few->blocks + play.slack)
        fail_msg("%s: %lu steps, with few things %lu", what, (unsigned long)s.blocks,
                 (unsigned long)few->blocks);
}

static void begin(void)
{
    blocks = reads = 0;
}

struct steps steps_of(struct yard *y, const char *what, struct command c, struct answer *a)
{
    struct steps s = {0};
    *a = (struct answer){0};
    begin();
    yard_send(y, c, a);
    for (; !a->came; s.turns++) {
        assert_true(s.turns < 100);
        assert_ok(backend_turn(y->b));
    }
    s.blocks = blocks;
    s.reads = reads;
    if (a->err.code != ERR_OK)
        fail_msg("%s: %s", what ? what : "a command", a->err.msg);
    judge(what, s);
    return s;
}

struct steps steps_of_turns(struct yard *y, const char *what, unsigned turns)
{
    struct steps s = {.turns = turns};
    begin();
    for (unsigned i = 0; i < turns; i++)
        assert_ok(backend_turn(y->b));
    s.blocks = blocks;
    s.reads = reads;
    judge(what, s);
    return s;
}

void steps_assert_few(struct steps s)
{
    assert_in_range(s.reads, 0, 100); /* a page of ten takes most: two looks at two records */
    assert_in_range(s.turns, 0, 4);
}

static void run(steps_scene scene, size_t things)
{
    void *state;
    assert_int_equal(steps_setup(&state), 0);
    struct yard *y = state;
    scene(y, things);
    engine_check(embedded_engine(y->b));
    assert_int_equal(yard_teardown(&state), 0);
}

void steps_compare(steps_scene scene, size_t many)
{
    play.count = play.at = 0;
    play.slack = STEPS_SLACK;
    play.many = false;
    run(scene, STEPS_FEW);
    play.many = true;
    run(scene, many);
    assert_int_equal(play.at, play.count);
}

/* --- very many --- */

static void add_some(struct yard *y, size_t from, size_t count, steps_vary vary)
{
    struct enqueue *specs = test_calloc(count, sizeof *specs);
    char(*texts)[STEPS_TEXT] = test_calloc(count, sizeof *texts);
    for (size_t i = 0; i < count; i++) {
        specs[i] = yard_spec("q");
        vary(&specs[i], texts[i], from + i);
    }
    struct answer a = {0};
    yard_ask(y, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, count}}, &a);
    assert_ok(a.err);
    test_free(texts);
    test_free(specs);
}

struct id steps_add_jobs(struct yard *y, size_t n, steps_vary vary)
{
    for (size_t from = 0; from < n; from += BULK)
        add_some(y, from, n - from < BULK ? n - from : BULK, vary);
    struct answer last = {0};
    yard_ask(y, (struct command){.kind = CMD_LIST, .list = {.limit = 1, .backwards = true}}, &last);
    return last.ids[0];
}
