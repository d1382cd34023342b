/* SPDX-License-Identifier: Apache-2.0 */
#include "store/log_postgres.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "postgres/pg_node.h"
#include "postgres/pg_shard.h"
#include "postgres/pg_wire.h"
#include "store/batch.h"
#include "store/batch_bytes.h"
#include "store/cm.h"
#include "store/log_contract.h"

#define SMALL ((size_t)2000)

static struct pg_node node;

/* --- as every log --- */

struct kept {
    int shard;
    uint64_t epoch;
};

static uint64_t take(int shard)
{
    struct pg *pg = pg_node_open(&node);
    struct pg_shard s;
    uint64_t epoch;
    assert_ok(pg_shard_read(pg, shard, &s));
    assert_ok(pg_shard_take(pg, shard, &s, "test", "", (span){2000}, &epoch));
    pg_close(pg);
    return epoch;
}

static void *make(void)
{
    struct kept *k = ALLOC(struct kept);
    k->shard = pg_node_shard(&node);
    k->epoch = take(k->shard);
    return k;
}

static struct err open_it(void *state, uint64_t from, struct log **out)
{
    const struct kept *k = state;
    struct log_postgres_settings s = {.pg = {.url = node.url, .purpose = "log"},
                                      .shard = k->shard,
                                      .epoch = k->epoch,
                                      .from = from,
                                      .begin = true};
    return log_postgres_open(&s, out);
}

static void unmake(void *state)
{
    free(state);
}

/* --- faults --- */

struct fixture {
    struct kept kept;
    struct pg_wire *wire;
    struct log *l;
    _Atomic int64_t lease_ms; /* from now; 0: no lease */
    _Atomic uint64_t connections;
};

static mono owned_until(void *ctx)
{
    struct fixture *f = ctx;
    int64_t ms = atomic_load(&f->lease_ms);
    return pg_after(pg_now(), (span){ms ? ms : 60000});
}

static uint64_t connections(void *ctx)
{
    return atomic_load(&((struct fixture *)ctx)->connections);
}

static struct err open_on_wire(struct fixture *f, uint64_t from)
{
    struct log_postgres_settings s = {.pg = {.url = pg_wire_url(f->wire), .purpose = "log"},
                                      .shard = f->kept.shard,
                                      .epoch = f->kept.epoch,
                                      .from = from,
                                      .owned_until = owned_until,
                                      .connections = connections,
                                      .ctx = f};
    return log_postgres_open(&s, &f->l);
}

static int set_up(void **state)
{
    struct fixture *f = ALLOC(struct fixture);
    f->kept.shard = pg_node_shard(&node);
    f->kept.epoch = take(f->kept.shard);
    f->wire = pg_wire_new(&node);
    assert_ok(open_on_wire(f, 1));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->l)
        log_close(f->l);
    pg_wire_free(f->wire);
    free(f);
    return 0;
}

static uint64_t begin(struct fixture *f)
{
    struct buf b = {0};
    uint64_t number, expected = log_durable(f->l) + 1;
    log_batch(expected, SMALL, &b);
    assert_ok(log_append(f->l, buf_view(&b), true, &number));
    assert_int_equal(number, expected);
    buf_fini(&b);
    return number;
}

static void reopen_and_expect(struct fixture *f, uint64_t last)
{
    log_close(f->l);
    f->l = NULL;
    assert_ok(open_on_wire(f, 1));
    assert_int_equal(log_durable(f->l), last);
    log_batch_expect(f->l, 1, SMALL);
}

static void a_commit_whose_answer_is_lost_counts_once(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 3, SMALL);
    for (uint64_t n = 4; n <= 10; n++) {
        pg_wire_lose_answer(f->wire);
        assert_ok(log_wait(f->l, begin(f)));
        assert_int_equal(log_durable(f->l), n);
    }
    assert_int_equal(pg_wire_lost(f->wire), 7);
    log_batch_fill(f->l, 20, SMALL);
    reopen_and_expect(f, 20);
}

/* The process of the log's connection, if it waits in PostgreSQL for that. */
static int64_t waiting(const char *what)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT pid FROM pg_stat_activity WHERE application_name = 'tenax log' AND "
             "wait_event_type || '/' || wait_event = '%s' AND state = 'active'",
             what);
    return pg_node_ask(&node, sql);
}

static int64_t await_waiting(const char *what)
{
    int64_t pid;
    while ((pid = waiting(what)) < 0)
        poll(NULL, 0, 5);
    return pid;
}

/* PostgreSQL heeds the setting some time after it was told. */
static uint64_t begin_one_that_waits_for_a_standby(struct fixture *f)
{
    struct err e;
    uint64_t n;
    pg_node_set(&node, "synchronous_standby_names = 'missing'");
    do {
        n = begin(f);
        while (waiting("IPC/SyncRep") < 0 && !log_ended(f->l, n, &e))
            poll(NULL, 0, 5);
    } while (log_durable(f->l) == n);
    return n;
}

static void signal_backend(const char *how, int64_t pid)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT %s(%lld)", how, (long long)pid);
    pg_node_sql(&node, sql);
}

static void a_commit_that_had_no_effect_is_sent_again(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 3, SMALL);
    struct pg *blocker = pg_node_open(&node);
    assert_ok(pg_script(blocker, "BEGIN; LOCK TABLE tenax.log_0 IN SHARE MODE"));
    uint64_t n = begin(f);
    signal_backend("pg_terminate_backend", await_waiting("Lock/relation"));
    assert_ok(pg_script(blocker, "COMMIT"));
    assert_ok(log_wait(f->l, n));
    reopen_and_expect(f, n);
    pg_close(blocker);
}

static void a_wire_that_is_cut_for_a_while_costs_nothing(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 3, SMALL);
    pg_wire_cut(f->wire, true);
    uint64_t n = begin(f);
    pg_wire_cut(f->wire, false);
    assert_ok(log_wait(f->l, n));
    reopen_and_expect(f, n);
}

/* As after a fail-over to another PostgreSQL, while the first one has not closed its connections.
 */
static void a_commit_is_not_waited_for_on_a_connection_that_others_have_left(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 3, SMALL);
    int64_t pid = pg_node_ask(&node, "SELECT pid FROM pg_stat_activity WHERE application_name = "
                                     "'tenax log'");
    assert_int_equal(kill((pid_t)pid, SIGSTOP), 0);
    uint64_t n = begin(f);
    atomic_fetch_add(&f->connections, 1);
    struct err e = log_wait(f->l, n);
    assert_int_equal(kill((pid_t)pid, SIGCONT), 0); /* and it is refused what it was sent */
    assert_ok(e);
    assert_ok(log_wait(f->l, begin(f)));
    reopen_and_expect(f, n + 1);
}

static void a_restart_of_postgres_costs_nothing_that_was_acknowledged(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 50, SMALL);
    pg_node_kill(&node);
    uint64_t n = begin(f);
    pg_node_again(&node);
    assert_ok(log_wait(f->l, n));
    reopen_and_expect(f, n);
}

struct waiter {
    struct log *l;
    uint64_t number;
    struct err result;
};

static void *wait_for_it(void *ctx)
{
    struct waiter *w = ctx;
    w->result = log_wait(w->l, w->number);
    return NULL;
}

static void a_cancelled_wait_for_a_standby_is_no_acknowledgement(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    log_batch_fill(f->l, 3, SMALL);
    struct waiter w = {f->l, begin_one_that_waits_for_a_standby(f), {0}};
    int64_t pid = await_waiting("IPC/SyncRep");
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    /* Each time it settles the outcome by another commit, which has to wait as well. */
    for (int i = 0; i < 3; i++) {
        signal_backend("pg_cancel_backend", pid);
        int64_t next;
        while ((next = await_waiting("IPC/SyncRep")) == pid)
            poll(NULL, 0, 5);
        pid = next;
    }
    pg_node_set(&node, "synchronous_standby_names = ''");
    pthread_join(thread, NULL);
    assert_ok(w.result);
    reopen_and_expect(f, w.number);
}

static void a_standby_that_stays_away_ends_the_lease(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 3, SMALL);
    uint64_t n = begin_one_that_waits_for_a_standby(f);
    int64_t pid = await_waiting("IPC/SyncRep");
    signal_backend("pg_cancel_backend", pid);
    atomic_store(&f->lease_ms, -1);
    assert_code(log_wait(f->l, n), ERR_FENCED);
    assert_int_equal(log_durable(f->l), n - 1);
    pg_node_set(&node, "synchronous_standby_names = ''");
}

/* --- owners --- */

static void another_owner_fences_the_first(void **state)
{
    struct fixture *f = *state;
    struct err e;
    log_batch_fill(f->l, 5, SMALL);
    uint64_t old = f->kept.epoch;
    struct log *first = f->l;
    f->kept.epoch = take(f->kept.shard);
    assert_ok(open_on_wire(f, 1));
    log_batch_fill(f->l, 10, SMALL);
    struct buf b = {0};
    uint64_t n;
    log_batch(99, SMALL, &b);
    assert_ok(log_append(first, buf_view(&b), true, &n));
    assert_code(log_wait(first, n), ERR_FENCED);
    assert_true(log_ended(first, n, &e));
    assert_code(e, ERR_FENCED);
    assert_code(log_append(first, buf_view(&b), true, &n), ERR_FENCED);
    buf_fini(&b);
    log_close(first);
    reopen_and_expect(f, 10);
    struct log *again;
    struct kept k = {f->kept.shard, old};
    assert_code(open_it(&k, 1, &again), ERR_FENCED);
}

static void an_owner_that_slept_past_its_lease_acknowledges_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t n;
    log_batch_fill(f->l, 5, SMALL);
    uint64_t sent = begin(f);
    atomic_store(&f->lease_ms, -1);
    assert_code(log_wait(f->l, sent), ERR_FENCED);
    assert_code(log_append(f->l, STR("late"), true, &n), ERR_FENCED);
    atomic_store(&f->lease_ms, 0);
    assert_code(log_append(f->l, STR("late"), true, &n), ERR_FENCED); /* for good */
}

static void a_commit_under_a_takeover_is_there_or_not_but_never_later(void **state)
{
    struct fixture *f = *state;
    log_batch_fill(f->l, 5, SMALL);
    struct pg *blocker = pg_node_open(&node);
    assert_ok(pg_script(blocker, "BEGIN; LOCK TABLE tenax.log_0 IN SHARE MODE"));
    uint64_t n = begin(f);
    await_waiting("Lock/relation");
    atomic_store(&f->lease_ms, -1);
    assert_code(log_wait(f->l, n), ERR_FENCED);
    log_close(f->l);
    assert_ok(pg_script(blocker, "COMMIT"));
    pg_close(blocker);
    f->kept.epoch = take(f->kept.shard);
    atomic_store(&f->lease_ms, 0);
    assert_ok(open_on_wire(f, 1));
    uint64_t last = log_durable(f->l);
    assert_in_range(last, 5, n);
    log_batch_expect(f->l, 1, SMALL);
    log_batch_fill(f->l, last + 5, SMALL);
    reopen_and_expect(f, last + 5);
}

static void a_postgres_that_knows_less_stops_the_log(void **state)
{
    struct fixture *f = *state;
    char sql[256];
    log_batch_fill(f->l, 5, SMALL);
    snprintf(sql, sizeof sql,
             "DELETE FROM tenax.log_0 WHERE shard = %d AND seq > 3; UPDATE tenax.shard SET seq = 3 "
             "WHERE shard = %d",
             f->kept.shard, f->kept.shard);
    pg_node_sql(&node, sql);
    pg_wire_cut(f->wire, true);
    uint64_t n = begin(f);
    pg_wire_cut(f->wire, false);
    assert_code(log_wait(f->l, n), ERR_POSTGRES_LOST);
    log_close(f->l);
    f->l = NULL;
    assert_code(open_on_wire(f, 6), ERR_CORRUPT);
}

static void without_a_break_it_is_found_out_as_well(void **state)
{
    struct fixture *f = *state;
    char sql[256];
    log_batch_fill(f->l, 5, SMALL);
    snprintf(sql, sizeof sql, "UPDATE tenax.shard SET seq = 3 WHERE shard = %d", f->kept.shard);
    pg_node_sql(&node, sql);
    assert_code(log_wait(f->l, begin(f)), ERR_POSTGRES_LOST);
}

/* --- the inbox --- */

static void a_batch_takes_rows_of_the_inbox_with_it(void **state)
{
    struct fixture *f = *state;
    struct batch b = {0};
    struct buf bytes = {0};
    uint64_t n;
    char key[LOG_POSTGRES_INBOX_KEY];
    pg_node_sql(&node, "DELETE FROM tenax.inbox");
    pg_node_sql(&node, "INSERT INTO tenax.inbox (job, body) VALUES ('a', '{}'), ('b', '{}'), ('c', "
                       "'{}')");
    int64_t first = pg_node_ask(&node, "SELECT min(id) FROM tenax.inbox"), id;
    batch_put(&b, STR("key"), STR("value"));
    for (int i = 0; i < 2; i++) {
        log_postgres_inbox_key(first + i, key);
        assert_true(log_postgres_inbox_id((struct str){key, sizeof key}, &id));
        assert_int_equal(id, first + i);
        batch_delete(&b, (struct str){key, sizeof key});
    }
    batch_bytes_write(&b, &bytes);
    assert_ok(log_append(f->l, buf_view(&bytes), true, &n));
    assert_ok(log_wait(f->l, n));
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.inbox"), 1);
    assert_ok(log_append(f->l, buf_view(&bytes), true, &n));
    assert_code(log_wait(f->l, n), ERR_CONFLICT);
    assert_int_equal(pg_node_ask(&node, "SELECT count(*) FROM tenax.inbox"), 1);
    batch_fini(&b);
    buf_fini(&bytes);
}

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

int main(void)
{
    static const struct log_kind kind = {"log in PostgreSQL", make, open_it, unmake};
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(a_commit_whose_answer_is_lost_counts_once),
        T(a_commit_that_had_no_effect_is_sent_again),
        T(a_wire_that_is_cut_for_a_while_costs_nothing),
        T(a_commit_is_not_waited_for_on_a_connection_that_others_have_left),
        T(a_restart_of_postgres_costs_nothing_that_was_acknowledged),
        T(a_cancelled_wait_for_a_standby_is_no_acknowledgement),
        T(a_standby_that_stays_away_ends_the_lease),
        T(another_owner_fences_the_first),
        T(an_owner_that_slept_past_its_lease_acknowledges_nothing),
        T(a_commit_under_a_takeover_is_there_or_not_but_never_later),
        T(a_postgres_that_knows_less_stops_the_log),
        T(without_a_break_it_is_found_out_as_well),
        T(a_batch_takes_rows_of_the_inbox_with_it),
    };
#undef T
    pg_node_start(&node, NULL);
    int failures = log_contract_run(&kind);
    pg_node_remove(&node);
    return failures + cmocka_run_group_tests_name("log_postgres", tests, start, end);
}
