/* SPDX-License-Identifier: Apache-2.0 */
#include "brain.h"

static struct str copy(char text[BRAIN_TEXT_MAX], struct str s)
{
    assert_true(s.len < BRAIN_TEXT_MAX);
    memcpy(text, s.at ? s.at : "", s.len);
    text[s.len] = '\0';
    return (struct str){text, s.len};
}

static struct err submit(struct evaluator *e, const struct eval_request *r)
{
    struct brain *brain = (struct brain *)e;
    if (brain->busy)
        return err_make(ERR_BUSY, "busy");
    assert_true(brain->count < BRAIN_MAX && r->count <= 64);
    struct question *q = test_calloc(1, sizeof *q);
    q->request = *r;
    for (int i = 0; i < 2; i++)
        q->request.exprs[i] = copy(q->texts[i], r->exprs[i]);
    for (size_t i = 0; i < r->count; i++)
        q->inputs[i] = copy(q->texts[2 + i], r->inputs[i]);
    q->request.inputs = q->inputs;
    brain->questions[brain->count++] = q;
    brain->asked++;
    return err_none();
}

void brain_install(struct brain *brain, struct yard *y)
{
    *brain = (struct brain){.evaluator = {submit}};
    y->evaluator = &brain->evaluator;
    y->questions = &brain->count;
    yard_restart(y);
}

void brain_fini(struct brain *brain)
{
    for (size_t i = 0; i < brain->count; i++)
        test_free(brain->questions[i]);
    brain->count = 0;
}

static struct err verdict(const struct brain *brain, const struct eval_request *r)
{
    if (brain->ill != ERR_OK)
        return err_make(brain->ill, "ill");
    if (strstr(r->exprs[0].at, "wrong") || strstr(r->exprs[1].at, "wrong"))
        return err_make(ERR_UNPROCESSABLE, "wrong");
    return err_none();
}

static struct str join(const struct eval_request *r, char out[2 * BRAIN_TEXT_MAX])
{
    if (!str_eq(r->exprs[1], STR("join")))
        return r->exprs[1];
    int n = snprintf(out, 2 * BRAIN_TEXT_MAX, "%.*s,%s", (int)r->inputs[0].len - 1, r->inputs[0].at,
                     r->inputs[1].at + 1);
    return (struct str){out, (size_t)n};
}

static void answer(struct brain *brain, size_t place)
{
    assert_true(place < brain->count);
    struct question *q = brain->questions[place];
    memmove(brain->questions + place, brain->questions + place + 1,
            (--brain->count - place) * sizeof(struct question *));
    const struct eval_request *r = &q->request;
    struct eval_answer answers[64] = {0};
    char text[2 * BRAIN_TEXT_MAX];
    size_t count = r->kind == EVAL_FILTER ? r->count : r->kind == EVAL_FOLD;
    struct err err = verdict(brain, r);
    for (size_t i = 0; i < count; i++)
        answers[i].truth = r->kind == EVAL_FOLD ? str_eq(r->exprs[0], STR("yes"))
                                                : strstr(r->inputs[i].at, r->exprs[0].at) != NULL;
    if (r->kind == EVAL_FOLD && answers[0].truth)
        answers[0].payload = join(r, text);
    r->done(r->ctx, &err, answers, err.code == ERR_OK ? count : 0, brain->takes);
    test_free(q);
}

void brain_answer(struct brain *brain)
{
    answer(brain, 0);
}

void brain_answer_newest(struct brain *brain)
{
    answer(brain, brain->count - 1);
}

void brain_settle(struct brain *brain, struct yard *y)
{
    yard_settle(y);
    while (brain->count > 0) {
        brain_answer(brain);
        yard_settle(y);
    }
}
