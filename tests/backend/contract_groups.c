/* SPDX-License-Identifier: Apache-2.0 */

/* Groups of jobs, as every backend keeps them. */

#include "contract_fixture.h"

#define F struct fixture *f = *state

struct group {
    struct err err;
    uint64_t jobs, unended;
    instant sealed_at;
    unsigned came;
};

static void on_group(void *ctx, const struct reply *r)
{
    struct group *g = ctx;
    g->came++;
    g->err = r->err;
    if (r->err.code != ERR_OK)
        return;
    g->jobs = r->group->jobs;
    g->unended = r->group->unended;
    g->sealed_at = r->group->record.sealed_at;
}

static struct group ask(struct fixture *f, enum command_kind kind, struct str name)
{
    struct group g = {0};
    struct command c = {.kind = kind, .group = name, .done = on_group, .ctx = &g};
    backend_submit(f->b, &c);
    fixture_settle(f);
    assert_int_equal(g.came, 1);
    return g;
}

static struct answer enqueue(struct fixture *f, const char *group, size_t count)
{
    struct enqueue specs[8];
    struct answer a;
    assert_true(count <= 8);
    for (size_t i = 0; i < count; i++) {
        specs[i] = answers_spec("q");
        specs[i].options.group = str_from(group);
    }
    fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, count}}, &a);
    return a;
}

static struct list_command in_group(const char *group, unsigned statuses)
{
    return (struct list_command){
        .filter = {.group = str_from(group), .statuses = statuses}, .limit = 10, .ids_max = 10};
}

static struct answer where(struct fixture *f, enum command_kind kind, struct list_command list)
{
    struct answer a;
    fixture_ask(f, (struct command){.kind = kind, .list = list}, &a);
    assert_ok(a.err);
    return a;
}

static void its_numbers_outlive_a_crash(void **state)
{
    F;
    struct answer a = enqueue(f, "g", 3);
    fixture_ask(f, (struct command){.kind = CMD_CANCEL, .id = a.ids[0]}, &a);
    assert_ok(ask(f, CMD_GROUP_SEAL, STR("g")).err);
    for (int i = 0; i < 2; i++) {
        struct group g = ask(f, CMD_GROUP_READ, STR("g"));
        assert_ok(g.err);
        assert_int_equal(g.jobs, 3);
        assert_int_equal(g.unended, 2);
        assert_true(instant_is_set(g.sealed_at));
        fixture_crash(f);
    }
    assert_code(ask(f, CMD_GROUP_READ, STR("none")).err, ERR_NOT_FOUND);
}

static void a_filter_by_group_is_about_its_jobs_alone(void **state)
{
    F;
    struct answer a = enqueue(f, "g", 3);
    enqueue(f, "other", 2);
    fixture_add(f, "q");
    const struct id first = a.ids[0], last = a.ids[2];
    a = where(f, CMD_LIST, in_group("g", 0));
    assert_int_equal(a.count, 3);
    assert_id(a.ids[0], first);
    struct list_command back = in_group("g", 0);
    back.backwards = true;
    back.limit = 2;
    a = where(f, CMD_LIST, back);
    assert_id(a.ids[0], last);
    assert_true(a.more);
    back.from = (struct id_place){true, a.ids[1]};
    a = where(f, CMD_LIST, back);
    assert_int_equal(a.count, 1);
    assert_id(a.ids[0], first);
    assert_int_equal(where(f, CMD_COUNT, in_group("g", 0)).count, 3);
    assert_int_equal(where(f, CMD_COUNT, in_group("g", 1u << STATUS_DEAD)).count, 0);
    struct list_command both = in_group("g", 0);
    both.filter.ids = &last;
    both.filter.id_count = 1;
    assert_int_equal(where(f, CMD_COUNT, both).count, 1);
    both.filter.group = STR("other");
    assert_int_equal(where(f, CMD_COUNT, both).count, 0);
}

static void a_group_is_canceled_with_all_that_has_not_ended(void **state)
{
    F;
    struct answer a = enqueue(f, "g", 4), claim = {0};
    const struct id ended = a.ids[0], held = a.ids[1];
    fixture_ask(f, (struct command){.kind = CMD_CANCEL, .id = ended}, &a);
    fixture_claim(f, "q", 1, (span){0}, &claim);
    fixture_settle(f);
    assert_id(claim.ids[0], held);
    struct list_command dry = in_group("g", 0);
    dry.dry_run = true;
    assert_int_equal(where(f, CMD_CANCEL_WHERE, dry).count, 3);
    assert_int_equal(ask(f, CMD_GROUP_READ, STR("g")).unended, 3);
    a = where(f, CMD_CANCEL_WHERE, in_group("g", 0));
    assert_int_equal(a.count, 3);
    assert_id(a.ids[0], held);
    assert_int_equal(fixture_status(f, held), STATUS_DEAD);
    struct group g = ask(f, CMD_GROUP_READ, STR("g"));
    assert_int_equal(g.unended, 0);
    assert_int_equal(g.jobs, 4);
    assert_int_equal(where(f, CMD_CANCEL_WHERE, in_group("g", 0)).count, 0);
}

static void an_enqueue_into_a_sealed_group_adds_nothing_at_all(void **state)
{
    F;
    enqueue(f, "g", 1);
    assert_ok(ask(f, CMD_GROUP_SEAL, STR("g")).err);
    struct enqueue specs[] = {answers_spec("q"), answers_spec("q")};
    struct answer a;
    specs[1].options.group = STR("g");
    fixture_ask(f, (struct command){.kind = CMD_ENQUEUE, .enqueue = {specs, 2}}, &a);
    assert_code(a.err, ERR_GROUP_SEALED);
    assert_int_equal(fixture_count(f), 1);
}

static void the_group_goes_with_its_last_job(void **state)
{
    F;
    enqueue(f, "g", 2);
    assert_ok(ask(f, CMD_GROUP_SEAL, STR("g")).err);
    assert_int_equal(where(f, CMD_REMOVE_WHERE, in_group("g", 0)).count, 2);
    assert_code(ask(f, CMD_GROUP_READ, STR("g")).err, ERR_NOT_FOUND);
    fixture_crash(f);
    assert_code(ask(f, CMD_GROUP_READ, STR("g")).err, ERR_NOT_FOUND);
    assert_ok(enqueue(f, "g", 1).err);
}

int contract_groups(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(its_numbers_outlive_a_crash),
        FIXTURE_TEST(a_filter_by_group_is_about_its_jobs_alone),
        FIXTURE_TEST(a_group_is_canceled_with_all_that_has_not_ended),
        FIXTURE_TEST(an_enqueue_into_a_sealed_group_adds_nothing_at_all),
        FIXTURE_TEST(the_group_goes_with_its_last_job),
    };
    return cmocka_run_group_tests_name("groups of jobs", tests, NULL, NULL);
}
