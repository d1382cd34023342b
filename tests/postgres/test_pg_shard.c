/* SPDX-License-Identifier: Apache-2.0 */
#include "postgres/pg_shard.h"

#include <stdio.h>

#include "postgres/pg_alarm.h"
#include "postgres/pg_node.h"
#include "store/cm.h"

#define LEASE ((span){2000})

static struct pg_node node;

static int start(void **state)
{
    (void)state;
    pg_node_start(&node, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    pg_node_remove(&node);
    return 0;
}

struct fixture {
    struct pg *pg;
    int shard;
};

static int set_up(void **state)
{
    static struct fixture f;
    f.pg = pg_node_open(&node);
    f.shard = pg_node_shard(&node);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    pg_close(((struct fixture *)*state)->pg);
    return 0;
}

static uint64_t take(struct fixture *f, const char *owner)
{
    struct pg_shard s;
    uint64_t epoch;
    assert_ok(pg_shard_read(f->pg, f->shard, &s));
    assert_ok(pg_shard_take(f->pg, f->shard, &s, owner, "127.0.0.1:1", LEASE, &epoch));
    return epoch;
}

/* A batch by itself, as the log commits it. */
static struct err commit(struct fixture *f, uint64_t epoch, uint64_t seq)
{
    static const struct pg_statement s = {
        "t_commit", "SELECT tenax.commit($1::bigint, $2::bigint, $3::bigint, $4::bytea, NULL)"};
    struct pg_param params[] = {pg_number(f->shard), pg_number((int64_t)epoch),
                                pg_number((int64_t)seq), pg_bytes(STR("batch"))};
    return pg_run(f->pg, &s, params, 4, NULL);
}

static void a_new_shard_is_nobodys(void **state)
{
    struct fixture *f = *state;
    struct pg_shard s;
    assert_ok(pg_shard_read(f->pg, f->shard, &s));
    assert_false(s.owned);
    assert_int_equal(s.seq, 0);
    assert_code(pg_shard_read(f->pg, 30000, &s), ERR_NOT_FOUND);
}

static void the_owner_is_known_to_all(void **state)
{
    struct fixture *f = *state;
    struct pg_shard s;
    uint64_t epoch = take(f, "first");
    assert_ok(pg_shard_read(f->pg, f->shard, &s));
    assert_true(s.owned);
    assert_string_equal(s.owner, "first");
    assert_string_equal(s.address, "127.0.0.1:1");
    assert_int_equal(s.epoch, epoch);
    assert_int_equal(s.lease.ms, LEASE.ms);
}

static void a_beat_is_seen_and_forestalls_a_takeover(void **state)
{
    struct fixture *f = *state;
    struct pg_shard before, after;
    uint64_t epoch = take(f, "first"), other;
    assert_ok(pg_shard_read(f->pg, f->shard, &before));
    assert_ok(pg_shard_beat(f->pg, f->shard, epoch, 0));
    assert_ok(pg_shard_read(f->pg, f->shard, &after));
    assert_true(after.beat > before.beat);
    assert_code(pg_shard_take(f->pg, f->shard, &before, "second", "", LEASE, &other), ERR_CONFLICT);
    assert_ok(pg_shard_take(f->pg, f->shard, &after, "second", "", LEASE, &other));
    assert_true(other > epoch);
}

static void of_two_that_take_at_once_one_gets_it(void **state)
{
    struct fixture *f = *state;
    struct pg_shard seen;
    uint64_t a, b;
    assert_ok(pg_shard_read(f->pg, f->shard, &seen));
    assert_ok(pg_shard_take(f->pg, f->shard, &seen, "a", "", LEASE, &a));
    assert_code(pg_shard_take(f->pg, f->shard, &seen, "b", "", LEASE, &b), ERR_CONFLICT);
}

static void whoever_was_replaced_can_do_nothing_any_more(void **state)
{
    struct fixture *f = *state;
    char sql[256];
    uint64_t seq, epoch = take(f, "frozen");
    assert_ok(commit(f, epoch, 1));
    uint64_t next = take(f, "second");
    assert_code(commit(f, epoch, 2), ERR_FENCED);
    assert_code(pg_shard_beat(f->pg, f->shard, epoch, 0), ERR_FENCED);
    assert_code(pg_shard_settle(f->pg, f->shard, epoch, &seq), ERR_FENCED);
    assert_ok(pg_shard_release(f->pg, f->shard, epoch));
    snprintf(sql, sizeof sql,
             "SELECT tenax.flush(%d, %llu, ARRAY['k'::bytea], ARRAY['v'::bytea], NULL)", f->shard,
             (unsigned long long)epoch);
    assert_code(pg_script(f->pg, sql), ERR_FENCED);
    snprintf(sql, sizeof sql, "SELECT tenax.flushed(%d, %llu, 1, 0)", f->shard,
             (unsigned long long)epoch);
    assert_code(pg_script(f->pg, sql), ERR_FENCED);
    snprintf(sql, sizeof sql, "SELECT tenax.let_go(%d, %llu, 0)", f->shard,
             (unsigned long long)epoch);
    assert_code(pg_script(f->pg, sql), ERR_FENCED);
    struct pg_shard s;
    assert_ok(pg_shard_read(f->pg, f->shard, &s));
    assert_true(s.owned);
    assert_int_equal(s.seq, 1);
    assert_ok(commit(f, next, 2));
}

static void a_commit_that_waits_for_a_lock_is_refused_after_a_takeover(void **state)
{
    struct fixture *f = *state;
    struct fixture other = {pg_node_open(&node), f->shard};
    struct pg_shard seen;
    uint64_t epoch = take(f, "first"), fresh;
    assert_ok(pg_shard_read(other.pg, f->shard, &seen));
    assert_ok(pg_script(other.pg, "BEGIN"));
    assert_ok(pg_shard_take(other.pg, f->shard, &seen, "second", "", LEASE, &fresh));
    static const struct pg_statement s = {
        "w_commit", "SELECT tenax.commit($1::bigint, $2::bigint, 1, 'b', NULL)"};
    struct pg_param params[] = {pg_number(f->shard), pg_number((int64_t)epoch)};
    assert_ok(pg_send(f->pg, &s, params, 2));
    assert_ok(pg_script(other.pg, "COMMIT"));
    assert_code(pg_receive(f->pg, NULL), ERR_FENCED);
    pg_close(other.pg);
}

static void a_batch_out_of_order_is_refused(void **state)
{
    struct fixture *f = *state;
    uint64_t seq, epoch = take(f, "first");
    assert_ok(commit(f, epoch, 1));
    assert_code(commit(f, epoch, 3), ERR_POSTGRES_LOST);
    assert_code(commit(f, epoch, 1), ERR_POSTGRES_LOST);
    assert_ok(pg_shard_settle(f->pg, f->shard, epoch, &seq));
    assert_int_equal(seq, 1);
}

static void a_batch_and_its_rows_of_the_inbox_are_one(void **state)
{
    struct fixture *f = *state;
    char sql[256];
    uint64_t epoch = take(f, "first");
    assert_ok(pg_script(f->pg,
                        "DELETE FROM tenax.inbox; INSERT INTO tenax.inbox (job, body) VALUES "
                        "('a', '{}'), ('b', '{}')"));
    snprintf(sql, sizeof sql,
             "SELECT tenax.commit(%d, %llu, 1, 'x', array_agg(id) || 0::bigint) FROM tenax.inbox",
             f->shard, (unsigned long long)epoch);
    assert_code(pg_script(f->pg, sql), ERR_CONFLICT);
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.inbox"), 2);
    snprintf(sql, sizeof sql,
             "SELECT tenax.commit(%d, %llu, 1, 'x', array_agg(id)) FROM tenax.inbox", f->shard,
             (unsigned long long)epoch);
    assert_ok(pg_script(f->pg, sql));
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.inbox"), 0);
}

static void a_lease_given_up_is_anybodys_and_heard_of(void **state)
{
    struct fixture *f = *state;
    struct pg_shard s;
    bool any;
    struct pg *other = pg_node_open(&node);
    assert_ok(pg_listen(other, PG_LEASE_CHANNEL));
    uint64_t epoch = take(f, "first");
    assert_ok(pg_shard_release(f->pg, f->shard, epoch));
    assert_ok(pg_shard_read(other, f->shard, &s));
    assert_ok(pg_notified(other, &any));
    assert_true(any);
    assert_false(s.owned);
    assert_code(pg_shard_beat(f->pg, f->shard, epoch, 0), ERR_FENCED);
    assert_ok(pg_shard_release(f->pg, f->shard, epoch));
    pg_close(other);
}

static struct pg_alarm alarm_of(struct fixture *f, uint64_t epoch, uint64_t seq)
{
    struct pg_seen seen = {.epoch = epoch, .seq = seq};
    struct pg_alarm a;
    assert_ok(pg_alarm_read(f->pg, f->shard, &seen, &a));
    memcpy(seen.cluster, a.cluster, sizeof seen.cluster);
    assert_ok(pg_alarm_read(f->pg, f->shard, &seen, &a));
    return a;
}

static bool lacks(struct fixture *f, uint64_t epoch, uint64_t seq)
{
    return alarm_of(f, epoch, seq).lacks;
}

static void what_was_seen_is_compared_by_epoch_and_batch(void **state)
{
    struct fixture *f = *state;
    uint64_t first = take(f, "first");
    assert_ok(commit(f, first, 1));
    assert_ok(commit(f, first, 2));
    uint64_t second = take(f, "second");
    assert_ok(commit(f, second, 3));
    assert_false(lacks(f, 0, 0));
    assert_false(lacks(f, first, 2));
    assert_false(lacks(f, second, 3));
    assert_true(lacks(f, first, 3));     /* which is another one's */
    assert_true(lacks(f, first + 1, 1)); /* an epoch that never was */
    assert_true(lacks(f, second, 4));
    assert_true(lacks(f, second + 1, 1));
    struct pg_seen other = {.cluster = "another schema", .epoch = second + 1, .seq = 100};
    struct pg_alarm a;
    assert_ok(pg_alarm_read(f->pg, f->shard, &other, &a));
    assert_false(a.lacks);
}

static void an_owner_that_knows_more_does_not_renew_its_lease(void **state)
{
    struct fixture *f = *state;
    uint64_t epoch = take(f, "first");
    assert_ok(commit(f, epoch, 1));
    assert_ok(pg_shard_beat(f->pg, f->shard, epoch, 1));
    assert_code(pg_shard_beat(f->pg, f->shard, epoch, 2), ERR_POSTGRES_LOST);
}

static void amid_an_alarm_nobody_owns_the_jobs_until_it_is_accepted(void **state)
{
    struct fixture *f = *state;
    struct pg_shard s;
    uint64_t epoch = take(f, "first"), other;
    const struct pg_seen seen = {.epoch = epoch, .seq = 9};
    assert_ok(pg_alarm_raise(f->pg, f->shard, "first", &seen, "batch 9 is gone"));
    assert_ok(pg_alarm_raise(f->pg, f->shard, "second", &seen, "the first one counts"));
    struct pg_alarm a = alarm_of(f, epoch, 0);
    assert_true(a.raised);
    assert_string_equal(a.server, "first");
    assert_string_equal(a.why, "batch 9 is gone");
    assert_code(pg_shard_beat(f->pg, f->shard, epoch, 0), ERR_POSTGRES_LOST);
    assert_ok(pg_shard_read(f->pg, f->shard, &s));
    assert_code(pg_shard_take(f->pg, f->shard, &s, "x", "", LEASE, &other), ERR_POSTGRES_LOST);
    assert_ok(pg_alarm_accept(f->pg, f->shard, "second", &seen));
    assert_false(alarm_of(f, epoch, 9).raised);
    assert_false(lacks(f, epoch, 9));
    assert_false(lacks(f, epoch + 3000000, 9)); /* of a later owner whose commits are lost, too */
    assert_ok(pg_alarm_raise(f->pg, f->shard, "late", &seen, "that is known"));
    assert_false(alarm_of(f, epoch, 9).raised);
    assert_code(commit(f, epoch, 1), ERR_FENCED);
    uint64_t fresh = take(f, "second");
    assert_true(fresh > epoch + 3000000);
    assert_ok(commit(f, fresh, 1));
    assert_true(lacks(f, fresh, 2));
}

static void a_backend_that_waits_for_a_lock_is_told_from_one_that_rests(void **state)
{
    struct fixture *f = *state;
    struct pg *other = pg_node_open(&node), *third = pg_node_open(&node);
    bool waits = true;
    uint64_t epoch = take(f, "first");
    assert_ok(pg_shard_waits(third, pg_backend(f->pg), &waits));
    assert_false(waits);
    assert_ok(pg_script(other, "BEGIN; LOCK TABLE tenax.shard IN EXCLUSIVE MODE"));
    static const struct pg_statement s = {
        "v_commit", "SELECT tenax.commit($1::bigint, $2::bigint, 1, 'b', NULL)"};
    struct pg_param params[] = {pg_number(f->shard), pg_number((int64_t)epoch)};
    assert_ok(pg_send(f->pg, &s, params, 2));
    while (!waits)
        assert_ok(pg_shard_waits(third, pg_backend(f->pg), &waits));
    assert_ok(pg_script(other, "COMMIT"));
    assert_ok(pg_receive(f->pg, NULL));
    pg_close(other);
    pg_close(third);
}

static void a_postgres_that_forgot_an_epoch_is_found_out(void **state)
{
    struct fixture *f = *state;
    struct pg_shard before, after;
    char sql[256];
    uint64_t epoch = take(f, "first");
    assert_ok(commit(f, epoch, 1));
    assert_ok(pg_shard_read(f->pg, f->shard, &before));
    snprintf(sql, sizeof sql,
             "UPDATE tenax.shard SET epoch = 0, seq = 0 WHERE shard = %d; UPDATE tenax.lease SET "
             "epoch = 0 WHERE shard = %d; DELETE FROM tenax.epochs WHERE shard = %d",
             f->shard, f->shard, f->shard);
    assert_ok(pg_script(f->pg, sql));
    assert_code(commit(f, epoch, 2), ERR_POSTGRES_LOST);
    assert_code(pg_shard_beat(f->pg, f->shard, epoch, 0), ERR_POSTGRES_LOST);
    assert_ok(pg_shard_read(f->pg, f->shard, &after));
    assert_true(lacks(f, before.epoch, before.seq));
    assert_false(lacks(f, after.epoch, after.seq));
}

struct list {
    int count;
    struct pg_server last;
};

static struct err add(void *ctx, const struct pg_server *s)
{
    struct list *l = ctx;
    l->count++;
    l->last = *s;
    return err_none();
}

static void servers_are_listed_until_they_are_forgotten(void **state)
{
    struct fixture *f = *state;
    struct list l = {0};
    struct pg_servers_self s = {"a", "h:1", "1.0", "standby", true, true};
    assert_ok(pg_servers_note(f->pg, f->shard, &s));
    s.name = "b";
    assert_ok(pg_servers_note(f->pg, f->shard, &s));
    s = (struct pg_servers_self){"b", "h:3", "1.1", "owner", false, false};
    assert_ok(pg_servers_note(f->pg, f->shard, &s));
    assert_ok(pg_servers_each(f->pg, f->shard, add, &l));
    assert_int_equal(l.count, 2);
    assert_string_equal(l.last.name, "b");
    assert_string_equal(l.last.address, "h:3");
    assert_string_equal(l.last.version, "1.1");
    assert_string_equal(l.last.role, "owner");
    assert_false(l.last.room);
    assert_ok(pg_servers_forget(f->pg, f->shard, "b"));
    l.count = 0;
    assert_ok(pg_servers_each(f->pg, f->shard, add, &l));
    assert_int_equal(l.count, 1);
}

static void what_an_acknowledgement_is_worth_is_said(void **state)
{
    struct fixture *f = *state;
    struct pg_durability d;
    assert_ok(pg_durability_read(f->pg, &d));
    assert_false(d.fsync);
    assert_string_equal(d.synchronous_commit, "on");
    assert_non_null(strstr(d.text, "fsync=off"));
    assert_ok(pg_script(f->pg, "SET synchronous_commit = off"));
    assert_ok(pg_durability_read(f->pg, &d));
    assert_string_equal(d.synchronous_commit, "off");
    assert_false(d.standbys_wanted);
    assert_int_equal(d.standbys, 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_new_shard_is_nobodys),
        T(the_owner_is_known_to_all),
        T(a_beat_is_seen_and_forestalls_a_takeover),
        T(of_two_that_take_at_once_one_gets_it),
        T(whoever_was_replaced_can_do_nothing_any_more),
        T(a_commit_that_waits_for_a_lock_is_refused_after_a_takeover),
        T(a_batch_out_of_order_is_refused),
        T(a_batch_and_its_rows_of_the_inbox_are_one),
        T(a_lease_given_up_is_anybodys_and_heard_of),
        T(what_was_seen_is_compared_by_epoch_and_batch),
        T(an_owner_that_knows_more_does_not_renew_its_lease),
        T(amid_an_alarm_nobody_owns_the_jobs_until_it_is_accepted),
        T(a_backend_that_waits_for_a_lock_is_told_from_one_that_rests),
        T(a_postgres_that_forgot_an_epoch_is_found_out),
        T(servers_are_listed_until_they_are_forgotten),
        T(what_an_acknowledgement_is_worth_is_said),
    };
#undef T
    return cmocka_run_group_tests_name("pg_shard", tests, start, end);
}
