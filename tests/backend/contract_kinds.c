/* SPDX-License-Identifier: Apache-2.0 */

/* The example of each kind of command is answered exactly once, with what commands.def says, and
 * not before its writes are durable. */

#include "contract_examples.h"

#define F struct fixture *f = *state

/* --- the tests --- */

#define STORES_NOTHING false
#define STORES_ADDS    true
#define STORES_CHANGES true
#define STORES_FREES   true

static const struct {
    const char *name;
    bool stores;
} kinds[COMMAND_COUNT] = {
#define COMMAND(kind, writes, shape, subject, handler) {#kind, STORES_##writes},
#include "core/commands.def"
#undef COMMAND
};

struct outcome_of {
    const struct example *example;
    unsigned came;
    struct err err;
    bool as_said;
};

static void on_reply(void *ctx, const struct reply *r)
{
    struct outcome_of *o = ctx;
    o->came++;
    o->err = r->err;
    o->as_said = r->err.code != ERR_OK || !o->example->holds || o->example->holds(r);
}

/* Submits the example of a kind, made by its `make`. */
static void submit(struct fixture *f, enum command_kind kind, struct parts *p, struct outcome_of *o)
{
    *o = (struct outcome_of){.example = &contract_examples[kind]};
    p->c.kind = kind;
    p->c.done = on_reply;
    p->c.ctx = o;
    backend_submit(f->b, &p->c);
    if (o->came)
        fail_msg("%s was answered from inside of backend_submit", kinds[kind].name);
}

static void expect(const struct outcome_of *o, enum command_kind kind, enum err_code code)
{
    if (o->came != 1)
        fail_msg("%s was answered %u times", kinds[kind].name, o->came);
    if (o->err.code != code)
        fail_msg("%s: code %d instead of %d: %s", kinds[kind].name, o->err.code, code, o->err.msg);
    if (!o->as_said)
        fail_msg("%s was not answered with what commands.def says", kinds[kind].name);
}

static void every_kind_has_an_example(void **state)
{
    (void)state;
    for (int k = 0; k < COMMAND_COUNT; k++)
        if (!contract_examples[k].make)
            fail_msg("there is no example of %s", kinds[k].name);
}

static void for_each_kind(void (*check)(struct fixture *f, enum command_kind kind, struct parts *p))
{
    for (int k = 0; k < COMMAND_COUNT; k++) {
        void *state;
        struct parts p = {.c.kind = (enum command_kind)k};
        fixture_setup(&state);
        contract_examples[k].make(state, &p);
        check(state, (enum command_kind)k, &p);
        fixture_teardown(&state);
    }
}

static void is_answered_once(struct fixture *f, enum command_kind kind, struct parts *p)
{
    struct outcome_of o;
    submit(f, kind, p, &o);
    memset(p, 0x5a, sizeof *p); /* it was borrowed for the call */
    fixture_settle(f);
    fixture_settle(f);
    expect(&o, kind, ERR_OK);
}

static void every_kind_is_answered_exactly_once(void **state)
{
    (void)state;
    for_each_kind(is_answered_once);
}

/* CLOCK_RESET has nothing to store while the clock is right. */
static bool stores(enum command_kind kind)
{
    /* What was stopped has stored what it did before. */
    return kinds[kind].stores && kind != CMD_CLOCK_RESET && kind != CMD_OPERATION_STOP;
}

static void waits_for_the_disk(struct fixture *f, enum command_kind kind, struct parts *p)
{
    struct outcome_of o;
    if (!stores(kind))
        return;
    fixture_hold(f, true);
    submit(f, kind, p, &o);
    for (int i = 0; i < 5; i++)
        fixture_turn(f);
    if (o.came)
        fail_msg("%s was answered before it was durable", kinds[kind].name);
    fixture_hold(f, false);
    fixture_settle(f);
    expect(&o, kind, ERR_OK);
}

static void no_kind_that_stores_is_answered_before_it_is_durable(void **state)
{
    (void)state;
    for_each_kind(waits_for_the_disk);
}

static void is_answered_on_a_full_disk(struct fixture *f, enum command_kind kind, struct parts *p)
{
    struct outcome_of o;
    struct answer vain = {0};
    fixture_fill(f, true);
    fixture_enqueue(f, "vain", &vain);
    fixture_settle(f);
    assert_code(vain.err, ERR_DISK_FULL);
    submit(f, kind, p, &o);
    fixture_settle(f);
    o.as_said |= kind == CMD_METER || kind == CMD_STATUS; /* which report that nothing is stored */
    expect(&o, kind, kinds[kind].stores ? ERR_DISK_FULL : ERR_OK);
}

static void on_a_full_disk_kinds_that_store_are_refused_and_others_answered(void **state)
{
    (void)state;
    for_each_kind(is_answered_on_a_full_disk);
}

static void is_answered_while_stopping(struct fixture *f, enum command_kind kind, struct parts *p)
{
    struct outcome_of o;
    backend_stop(f->b);
    submit(f, kind, p, &o);
    fixture_settle(f);
    expect(&o, kind, kind == CMD_EVENTS_PLACE ? ERR_STOPPING : ERR_OK);
}

static void every_kind_is_still_answered_while_it_stops(void **state)
{
    (void)state;
    for_each_kind(is_answered_while_stopping);
}

int contract_kinds(bool with_full_disk)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_an_example),
        cmocka_unit_test(every_kind_is_answered_exactly_once),
        cmocka_unit_test(every_kind_is_still_answered_while_it_stops),
        cmocka_unit_test(no_kind_that_stores_is_answered_before_it_is_durable),
    };
    const struct CMUnitTest full[] = {
        cmocka_unit_test(on_a_full_disk_kinds_that_store_are_refused_and_others_answered),
    };
    int failed = cmocka_run_group_tests_name("kinds of commands", tests, NULL, NULL);
    if (with_full_disk)
        failed += cmocka_run_group_tests_name("kinds of commands, full disk", full, NULL, NULL);
    return failed;
}
