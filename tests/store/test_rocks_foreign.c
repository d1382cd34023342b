/* SPDX-License-Identifier: Apache-2.0 */
#include "store/rocks_foreign.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "base/rng.h"
#include "postgres/pg_log.h"
#include "postgres/pg_wire.h"
#include "store/cm.h"
#include "store/contract.h"
#include "base/folder.h"
#include "store/rocks.h"
#include "store/place.h"
#include "store/scratch.h"

/* --- as every store --- */

/* A folder that is opened again is that of the same shard. */
static struct store *open_for_contract(const char *dir)
{
    static struct place last;
    if (!last.dir || strcmp(last.dir, dir) != 0) {
        free(last.dir);
        last = (struct place){.dir = alloc_text(dir, strlen(dir)),
                              .shard = pg_node_shard(&place_node),
                              .url = place_node.url,
                              .flush_after = {20}};
    }
    last.epoch = place_take(last.shard);
    struct err e = place_try_open(&last);
    if (e.code != ERR_OK)
        print_error("%s\n", e.msg);
    return e.code == ERR_OK ? last.s : NULL;
}

/* --- copies --- */

static void a_copy_that_was_closed_is_good(void **state)
{
    struct place *p = *state;
    place_expect_start(p, ROCKS_FOREIGN_NEW, 0);
    scratch_put(p->s, "a", "1");
    place_open_again(p);
    place_expect_start(p, ROCKS_FOREIGN_KEPT, 0);
    scratch_expect(p->s, "a", "1");
    assert_int_equal(store_number(p->s), 1);
    scratch_put(p->s, "b", "2");
    assert_int_equal(store_number(p->s), 2);
}

static void without_a_copy_all_comes_from_postgresql(void **state)
{
    struct place *p = *state;
    scratch_put(p->s, "a", "1");
    scratch_put(p->s, "a", "2");
    place_close(p);
    place_remove_copy(p);
    place_open(p);
    place_expect_start(p, ROCKS_FOREIGN_NEW, 2);
    scratch_expect(p->s, "a", "2");
}

static void what_another_owner_has_committed_meanwhile_is_read(void **state)
{
    struct place *p = *state, other;
    scratch_put(p->s, "a", "1");
    place_close(p);
    place_init(&other, p->shard);
    place_open(&other);
    scratch_expect(other.s, "a", "1");
    scratch_put(other.s, "a", "2");
    scratch_put(other.s, "b", "1");
    place_open(p);
    place_expect_start(p, ROCKS_FOREIGN_KEPT, 2);
    scratch_expect(p->s, "a", "2");
    scratch_expect(p->s, "b", "1");
    place_fini(&other);
}

static void who_has_lost_the_shard_commits_nothing_more(void **state)
{
    struct place *p = *state, other;
    struct batch b = {0};
    scratch_put(p->s, "a", "1");
    place_init(&other, p->shard);
    place_open(&other);
    scratch_put(other.s, "a", "2");
    batch_put(&b, STR("a"), STR("mine"));
    assert_code(scratch_try_commit(p->s, &b, true), ERR_FENCED);
    assert_code(store_failure(p->s), ERR_FENCED);
    scratch_expect(p->s, "a", "1");
    assert_code(store_reopen(p->s), ERR_FENCED);
    scratch_expect(other.s, "a", "2");
    batch_fini(&b);
    place_fini(&other);
}

static void a_copy_of_another_database_is_thrown_away(void **state)
{
    struct place *p = *state;
    scratch_put(p->s, "a", "1");
    place_close(p);
    pg_node_sql(&place_node, "UPDATE tenax.schema_version SET cluster = gen_random_uuid()");
    place_open(p);
    place_expect_start(p, ROCKS_FOREIGN_STALE, 1);
    scratch_expect(p->s, "a", "1");
}

static void a_copy_of_another_shard_is_thrown_away(void **state)
{
    struct place *p = *state;
    scratch_put(p->s, "a", "1");
    place_close(p);
    p->shard = pg_node_shard(&place_node);
    place_open(p);
    place_expect_start(p, ROCKS_FOREIGN_STALE, 0);
    scratch_expect(p->s, "a", NULL);
    assert_int_equal(store_number(p->s), 0);
}

static void a_damaged_copy_is_made_anew(void **state)
{
    struct place *p = *state;
    char command[512];
    scratch_put(p->s, "a", "1");
    place_close(p);
    snprintf(command, sizeof command, "for f in %s/cache/*.sst; do : > $f; done", p->dir);
    assert_int_equal(system(command), 0);
    place_open(p);
    place_expect_start(p, ROCKS_FOREIGN_DAMAGED, 1);
    scratch_expect(p->s, "a", "1");
}

static void the_folder_of_another_kind_of_server_is_refused(void **state)
{
    struct place *p = *state, other;
    struct store *s;
    place_close(p);
    struct err e = scratch_try_open(p->dir, &s);
    assert_code(e, ERR_USAGE);
    assert_non_null(strstr(e.msg, "--postgres"));
    place_init(&other, p->shard);
    s = scratch_open_rocks(other.dir);
    scratch_put(s, "a", "1");
    store_close(s);
    other.epoch = place_take(other.shard);
    e = place_try_open(&other);
    assert_code(e, ERR_USAGE);
    assert_non_null(strstr(e.msg, "without PostgreSQL"));
    s = scratch_open_rocks(other.dir);
    scratch_expect(s, "a", "1");
    store_close(s);
    place_fini(&other);
}

static void a_copy_from_before_the_log_begins_is_thrown_away(void **state)
{
    struct place *p = *state, other;
    scratch_put(p->s, "a", "1");
    place_close(p);
    place_init(&other, p->shard);
    other.flush_after = (span){20};
    place_open(&other);
    place_await_emptied(&other);
    uint64_t last = store_number(other.s);
    place_fini(&other);
    place_open(p);
    assert_int_equal(place_state(p).start, ROCKS_FOREIGN_STALE);
    assert_int_equal(store_number(p->s), last);
    scratch_expect(p->s, "a", "1");
}

/* --- commits that PostgreSQL has lost --- */

static void forget_after(struct place *p, int seq)
{
    char sql[300];
    snprintf(sql, sizeof sql, "UPDATE tenax.shard SET seq = %d WHERE shard = %d", seq, p->shard);
    pg_node_sql(&place_node, sql);
    for (int i = 0; i < PG_LOG_TABLES; i++) { /* the log may have gone on in another one */
        snprintf(sql, sizeof sql, "DELETE FROM tenax.log_%d WHERE shard = %d AND seq > %d", i,
                 p->shard, seq);
        pg_node_sql(&place_node, sql);
    }
}

static void a_postgresql_that_has_lost_commits_is_told_from_a_stale_copy(void **state)
{
    struct place *p = *state, other;
    scratch_put(p->s, "a", "1");
    scratch_put(p->s, "b", "2");
    place_close(p);
    forget_after(p, 1);
    p->epoch = place_take(p->shard);
    struct err e = place_try_open(p);
    assert_code(e, ERR_POSTGRES_LOST);
    place_init(&other, p->shard); /* who does not know of it goes on */
    place_open(&other);
    scratch_put(other.s, "c", "3");
    scratch_put(other.s, "d", "4");
    place_fini(&other);
    p->epoch = place_take(p->shard);
    assert_code(place_try_open(p), ERR_POSTGRES_LOST); /* although there are as many now */
    p->accept_loss = true;
    assert_ok(place_try_open(p));
    assert_int_equal(place_state(p).start, ROCKS_FOREIGN_LOST);
    scratch_expect(p->s, "a", "1");
    scratch_expect(p->s, "b", NULL);
    scratch_expect(p->s, "d", "4");
    p->accept_loss = false;
    place_open_again(p);
    place_expect_start(p, ROCKS_FOREIGN_KEPT, 0);
}

static void what_is_lost_once_the_store_is_open_was_accepted_by_nobody(void **state)
{
    struct place *p = *state;
    p->accept_loss = true;
    place_open_again(p);
    scratch_put(p->s, "a", "1");
    scratch_put(p->s, "b", "2");
    forget_after(p, 1);
    assert_code(store_reopen(p->s), ERR_POSTGRES_LOST);
}

/* As after the restore of a backup that was made right after the installation. */
static void a_postgresql_that_has_forgotten_its_first_epochs_is_found_out(void **state)
{
    struct place *p = *state, other;
    char sql[300];
    scratch_put(p->s, "a", "1");
    place_close(p);
    forget_after(p, 0);
    snprintf(sql, sizeof sql,
             "DELETE FROM tenax.epochs WHERE shard = %d; UPDATE tenax.shard SET epoch = 0 WHERE "
             "shard = %d",
             p->shard, p->shard);
    pg_node_sql(&place_node, sql);
    place_init(&other, p->shard);
    place_open(&other);
    scratch_put(other.s, "b", "2");
    scratch_put(other.s, "c", "3");
    place_fini(&other);
    p->epoch = place_take(p->shard);
    assert_code(place_try_open(p), ERR_POSTGRES_LOST);
    p->accept_loss = true;
    assert_ok(place_try_open(p));
    scratch_expect(p->s, "a", NULL);
    scratch_expect(p->s, "c", "3");
}

static void an_epoch_that_is_forgotten_without_a_commit_is_no_loss(void **state)
{
    struct place *p = *state;
    char sql[200];
    scratch_put(p->s, "a", "1");
    uint64_t before = p->epoch;
    place_open_again(p);
    place_close(p);
    snprintf(sql, sizeof sql,
             "DELETE FROM tenax.epochs WHERE shard = %d AND epoch > %" PRIu64
             "; UPDATE tenax.shard SET epoch = %" PRIu64 " WHERE shard = %d",
             p->shard, before, before, p->shard);
    pg_node_sql(&place_node, sql);
    place_open(p);
    scratch_expect(p->s, "a", "1");
}

/* --- faults of PostgreSQL's --- */

static void an_answer_that_is_lost_loses_nothing(void **state)
{
    struct place *p = *state;
    struct pg_wire *wire = pg_wire_new(&place_node);
    p->url = pg_wire_url(wire);
    place_open_again(p);
    for (int n = 1; n <= 5; n++) {
        char value[8];
        snprintf(value, sizeof value, "%d", n);
        pg_wire_lose_answer(wire);
        scratch_put(p->s, "a", value);
        assert_int_equal(store_number(p->s), n);
    }
    p->url = place_node.url;
    place_close(p);
    place_remove_copy(p);
    place_open(p);
    scratch_expect(p->s, "a", "5");
    pg_wire_free(wire);
}

static void a_postgresql_that_starts_again_is_waited_for(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    struct err e;
    place_flush_soon(p);
    scratch_put(p->s, "a", "1");
    pg_node_kill(&place_node);
    batch_put(&b, STR("a"), STR("2"));
    store_commit(p->s, &b, true);
    pg_node_again(&place_node);
    store_wait(p->s);
    assert_true(store_reap(p->s, &e));
    assert_ok(e);
    batch_fini(&b);
    scratch_expect(p->s, "a", "2");
    struct rocks_foreign_state s;
    do {
        poll(NULL, 0, 5);
        s = place_state(p);
    } while (s.flushed < 2);
    assert_int_equal(place_count_records(p), 1);
}

static mono a_moment_ago(void *ctx)
{
    (void)ctx;
    return pg_after(pg_now(), (span){-1});
}

static _Atomic bool lease_is_over;

static mono while_owned(void *ctx)
{
    return atomic_load(&lease_is_over) ? a_moment_ago(ctx) : pg_after(pg_now(), (span){60000});
}

static void nothing_is_acknowledged_after_the_lease(void **state)
{
    struct place *p = *state;
    struct batch b = {0};
    lease_is_over = false;
    p->owned_until = while_owned;
    place_open_again(p);
    scratch_put(p->s, "a", "1");
    lease_is_over = true;
    batch_put(&b, STR("a"), STR("2"));
    assert_code(scratch_try_commit(p->s, &b, true), ERR_FENCED);
    assert_code(store_reopen(p->s), ERR_FENCED);
    batch_fini(&b);
}

/* --- a process that is killed --- */

#define ROLE "commit"

/* Says each number on its standard output, after the commit. */
static int commit_until_killed(char *argv[])
{
    struct place p = {.dir = argv[3],
                      .url = argv[2],
                      .shard = atoi(argv[4]),
                      .epoch = strtoull(argv[5], NULL, 10),
                      .flush_after = {10}};
    if (place_try_open(&p).code != ERR_OK)
        return 1;
    for (uint64_t n = store_number(p.s) + 1;; n++) {
        char key[32];
        snprintf(key, sizeof key, "key%" PRIu64, n);
        scratch_put(p.s, key, key);
        if (write(STDOUT_FILENO, &n, sizeof n) != sizeof n)
            return 2;
    }
}

static pid_t start_child(const struct place *p, uint64_t epoch, int *out)
{
    int pipes[2];
    char shard[16], text[32];
    snprintf(shard, sizeof shard, "%d", p->shard);
    snprintf(text, sizeof text, "%" PRIu64, epoch);
    assert_int_equal(pipe(pipes), 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]);
        execl("/proc/self/exe", "test", ROLE, p->url, p->dir, shard, text, (char *)NULL);
        _exit(127);
    }
    close(pipes[1]);
    *out = pipes[0];
    return pid;
}

/* The last number that was acknowledged. */
static uint64_t kill_after(const struct place *p, uint64_t epoch, int count)
{
    int out, status;
    uint64_t n = 0;
    pid_t pid = start_child(p, epoch, &out);
    for (int i = 0; i < count; i++)
        assert_int_equal(read(out, &n, sizeof n), sizeof n);
    kill(pid, SIGKILL);
    while (read(out, &n, sizeof n) == sizeof n)
        ;
    must(waitpid(pid, &status, 0) == pid);
    assert_true(WIFSIGNALED(status));
    close(out);
    return n;
}

static void what_was_acknowledged_outlives_a_kill(void **state)
{
    struct place *p = *state;
    place_close(p);
    for (int round = 0; round < 6; round++) {
        uint64_t last = kill_after(p, place_take(p->shard), 30 + 40 * round);
        if (round % 3 == 2)
            place_remove_copy(p);
        place_open(p);
        assert_true(store_number(p->s) >= last);
        for (uint64_t n = 1; n <= last; n++) {
            char key[32];
            snprintf(key, sizeof key, "key%" PRIu64, n);
            scratch_expect(p->s, key, key);
        }
        place_close(p);
    }
}

#define T(test) cmocka_unit_test_setup_teardown(test, place_set_up, place_tear_down)

int main(int argc, char *argv[])
{
    if (argc == 6 && strcmp(argv[1], ROLE) == 0)
        return commit_until_killed(argv);
    const struct CMUnitTest tests[] = {
        T(a_copy_that_was_closed_is_good),
        T(without_a_copy_all_comes_from_postgresql),
        T(what_another_owner_has_committed_meanwhile_is_read),
        T(who_has_lost_the_shard_commits_nothing_more),
        T(a_copy_of_another_database_is_thrown_away),
        T(a_copy_of_another_shard_is_thrown_away),
        T(a_damaged_copy_is_made_anew),
        T(the_folder_of_another_kind_of_server_is_refused),
        T(a_postgresql_that_has_lost_commits_is_told_from_a_stale_copy),
        T(what_is_lost_once_the_store_is_open_was_accepted_by_nobody),
        T(a_postgresql_that_has_forgotten_its_first_epochs_is_found_out),
        T(an_epoch_that_is_forgotten_without_a_commit_is_no_loss),
        T(a_copy_from_before_the_log_begins_is_thrown_away),
        T(an_answer_that_is_lost_loses_nothing),
        T(a_postgresql_that_starts_again_is_waited_for),
        T(nothing_is_acknowledged_after_the_lease),
        T(what_was_acknowledged_outlives_a_kill),
    };
    pg_node_start(&place_node, NULL);
    int failed = contract_run("a store whose log is in PostgreSQL", open_for_contract);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    pg_node_remove(&place_node);
    return failed;
}
