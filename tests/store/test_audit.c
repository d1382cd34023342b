/* SPDX-License-Identifier: Apache-2.0 */
#include "store/audit.h"

#include <stdio.h>

#include "base/must.h"
#include "store/cm.h"
#include "store/memory.h"
#include "store/eventlog.h"
#include "store/record.h"
#include "store/scratch.h"

static const struct id ID = {1, 100}, OTHER = {1, 200};

struct result {
    struct audit_counts counts;
    int of_kind[AUDIT_KINDS];
    struct id job;  /* of the last problem */
    char what[320]; /* of the last problem */
};

static void on_problem(void *ctx, const struct audit_problem *p)
{
    struct result *r = ctx;
    assert_true(p->what[0] != '\0' && audit_meaning(p->kind)[0] != '\0');
    r->of_kind[p->kind]++;
    r->job = p->job;
    snprintf(r->what, sizeof r->what, "%s", p->what);
}

static struct result run(struct store *s)
{
    struct result r = {0};
    audit_run(s, on_problem, &r, &r.counts);
    return r;
}

static void assert_clean(struct store *s)
{
    struct result r = run(s);
    if (r.counts.problems)
        fail_msg("unexpected problem: %s", r.what);
}

/* Exactly one problem, of that kind and about that job. */
static void assert_problem(struct store *s, enum audit_kind kind, struct id job)
{
    struct result r = run(s);
    if (r.counts.problems != 1 || r.of_kind[kind] != 1)
        fail_msg("%d problems, the last: %s", (int)r.counts.problems, r.what);
    assert_int_equal(id_cmp(r.job, job), 0);
}

static struct job_state ready(uint32_t runs)
{
    return (struct job_state){.status = STATUS_READY,
                              .ready_at = {1000},
                              .dequeued_at = INSTANT_NONE,
                              .failed_at = INSTANT_NONE,
                              .completed_at = INSTANT_NONE,
                              .purge_at = INSTANT_NONE,
                              .lease_end = INSTANT_NONE,
                              .runs = runs};
}

static struct job_state dead(uint32_t runs)
{
    struct job_state s = ready(runs);
    s.status = STATUS_DEAD;
    s.resolution = RESOLUTION_FAILED;
    s.attempts = runs;
    s.purge_at = (instant){9000};
    return s;
}

static struct job_state claimed(uint32_t runs)
{
    struct job_state s = ready(runs);
    s.status = STATUS_IN_FLIGHT;
    s.token = 7;
    s.lease_end = (instant){5000};
    return s;
}

static struct job a_job(struct id id, struct str payload)
{
    return (struct job){.id = id,
                        .queue = STR("mail"),
                        .type = STR("send"),
                        .payload = payload,
                        .retry_limit = RETRY_LIMIT_DEFAULT,
                        .completed_retention = RETENTION_DEFAULT,
                        .dead_retention = RETENTION_DEFAULT,
                        .state = ready(0)};
}

static void put_job(struct store *s, struct id id, struct str payload)
{
    struct batch b = {0};
    struct job job = a_job(id, payload);
    record_put_job(&b, &job);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void put_state(struct store *s, struct id id, struct job_state state)
{
    struct batch b = {0};
    record_put_state(&b, id, &state);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void put_run(struct store *s, struct id id, uint32_t index)
{
    struct batch b = {0};
    struct run run = {.index = index,
                      .taken_at = {1},
                      .lease_end = INSTANT_NONE,
                      .ended_at = {2},
                      .outcome = OUTCOME_FAILED,
                      .retry_at = INSTANT_NONE,
                      .failure = {.run_time = {-1}}};
    record_put_run(&b, id, &run);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void put_note(struct store *s, struct id id, enum note_kind kind, struct str text)
{
    struct batch b = {0};
    struct note note = {.at = {1}, .text = text};
    record_put_note(&b, id, kind, &note);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void put_take(struct store *s, struct id id, uint32_t run)
{
    struct batch b = {0};
    struct take take = {id, run};
    record_put_takes(&b, 1, (instant){1}, &take, 1);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void put_lease(struct store *s, uint64_t seq, struct id id, uint32_t run)
{
    struct batch b = {0};
    struct lease lease = {.id = id, .run = run, .token = 5, .taken_at = {1}, .end = {2}};
    record_put_leases(&b, seq, (instant){1}, &lease, 1);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void put_raw(struct store *s, struct record_key key, struct str value)
{
    struct batch b = {0};
    batch_put(&b, record_key_view(&key), value);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void delete_key(struct store *s, struct record_key key)
{
    struct batch b = {0};
    batch_delete(&b, record_key_view(&key));
    scratch_commit(s, &b);
    batch_fini(&b);
}

static struct str large_payload(void)
{
    static char text[RECORD_APART_MIN + 100];
    memset(text, 'x', sizeof text);
    text[0] = text[sizeof text - 1] = '"';
    return (struct str){text, sizeof text};
}

/* One job in every state that a server leaves behind. */
static int set_up(void **state)
{
    struct store *s = memory_new();
    put_raw(s, record_meta_key(RECORD_FORMAT_KEY), STR(RECORD_FORMAT));
    put_job(s, (struct id){1, 1}, STR("{}"));
    put_job(s, (struct id){1, 2}, large_payload());
    put_job(s, (struct id){1, 3}, STR("{}"));
    put_state(s, (struct id){1, 3}, dead(2));
    put_run(s, (struct id){1, 3}, 0);
    put_run(s, (struct id){1, 3}, 1);
    put_job(s, (struct id){1, 4}, STR("{}"));
    put_state(s, (struct id){1, 4}, claimed(2));
    put_run(s, (struct id){1, 4}, 0);
    struct job_state noted = ready(0);
    noted.extras.notes = NOTE_BIT(NOTE_PROGRESS) | NOTE_BIT(NOTE_CHECKPOINT);
    put_job(s, (struct id){1, 5}, STR("{}"));
    put_state(s, (struct id){1, 5}, noted);
    put_note(s, (struct id){1, 5}, NOTE_PROGRESS, STR("half way"));
    put_note(s, (struct id){1, 5}, NOTE_CHECKPOINT, STR("[7]"));
    put_job(s, ID, STR("[1]"));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    store_close(*state);
    return 0;
}

/* The lease was renewed, and its older record goes on with another's run. */
static void a_leased_job_is_in_flight_and_counted_once(void **state)
{
    struct store *s = *state;
    put_lease(s, 1, ID, 0);
    put_lease(s, 2, ID, 0);
    put_lease(s, 3, (struct id){1, 4}, 0); /* has ended */
    struct result r = run(s);
    assert_int_equal(r.counts.problems, 0);
    assert_int_equal(r.counts.jobs[STATUS_READY], 3);
    assert_int_equal(r.counts.jobs[STATUS_IN_FLIGHT], 2);
    put_lease(s, 4, (struct id){1, 1}, 7);
    r = run(s);
    assert_int_equal(r.counts.problems, 1);
    assert_int_equal(r.of_kind[AUDIT_BAD_TAKE], 1);
}

static void what_a_server_leaves_is_clean_and_counted(void **state)
{
    struct store *s = *state;
    put_take(s, ID, 0);
    struct result r = run(s);
    assert_int_equal(r.counts.problems, 0);
    assert_int_equal(r.counts.jobs[STATUS_READY], 4);
    assert_int_equal(r.counts.jobs[STATUS_DEAD], 1);
    assert_int_equal(r.counts.jobs[STATUS_IN_FLIGHT], 1);
    assert_int_equal(r.counts.streamed, 1);
    assert_int_equal(r.counts.runs, 3);
    assert_int_equal(r.counts.payloads, 1);
    assert_int_equal(r.counts.records, 17);
}

static void entries_of_front_ends_are_known(void **state)
{
    struct store *s = *state;
    struct batch b = {0};
    const struct kv_entry e = {STR("s"), STR("k"), STR("v"), {1000}, 1};
    record_put_kv(&b, &e);
    record_put_kv_newest(&b, 1);
    scratch_commit(s, &b);
    batch_fini(&b);
    assert_clean(s);
    struct str broken[] = {STR("\x01"), STR("\x01\x07")};
    char room[RECORD_KV_KEY_MAX];
    struct str keys[] = {record_kv_key(e.space, e.key, room), {0}};
    char index_room[RECORD_KV_KEY_MAX];
    keys[1] = record_kv_expiry_key(e.expires, e.space, e.key, index_room);
    for (int i = 0; i < 2; i++)
        batch_put(&b, keys[i], broken[i]);
    scratch_commit(s, &b);
    batch_fini(&b);
    struct result r = run(s);
    assert_int_equal(r.of_kind[AUDIT_BROKEN], 2);
    assert_int_equal(r.counts.problems, 2);
}

static void groups_are_known(void **state)
{
    struct store *s = *state;
    struct batch b = {0};
    char room[RECORD_GROUP_KEY_MAX];
    const struct group_record g = {STR("g"), STR("me"), {1000}, INSTANT_NONE};
    record_put_group(&b, &g);
    scratch_commit(s, &b);
    batch_fini(&b);
    assert_clean(s);
    batch_put(&b, record_group_key(g.name, room), STR("\x01\x09"));
    scratch_commit(s, &b);
    batch_fini(&b);
    assert_problem(s, AUDIT_BROKEN, (struct id){0});
}

static void an_empty_store_is_clean(void **state)
{
    (void)state;
    struct store *s = memory_new();
    assert_clean(s);
    store_close(s);
}

static void a_record_that_does_not_decode_is_found_and_only_that(void **state)
{
    /* It keeps the job's other records from being reported as orphans. */
    put_raw(*state, record_job_key((struct id){1, 3}), STR("\x01\xff"));
    assert_problem(*state, AUDIT_BROKEN, (struct id){1, 3});
}

static void a_broken_state_is_found_and_only_that(void **state)
{
    put_raw(*state, record_state_key((struct id){1, 3}), STR("\x01"));
    assert_problem(*state, AUDIT_BROKEN, (struct id){1, 3});
}

static void a_newer_record_is_said_to_be_newer(void **state)
{
    put_raw(*state, record_state_key((struct id){1, 3}), STR("\x02zzz"));
    assert_problem(*state, AUDIT_NEWER, (struct id){1, 3});
}

static void a_newer_format_is_said_to_be_newer(void **state)
{
    put_raw(*state, record_meta_key(RECORD_FORMAT_KEY), STR("999"));
    assert_problem(*state, AUDIT_NEWER, (struct id){0});
}

static void a_key_of_no_known_kind_is_found(void **state)
{
    scratch_put(*state, "zebra", "1");
    assert_problem(*state, AUDIT_UNKNOWN, (struct id){0});
}

static void records_of_jobs_that_are_not_there_are_orphans(void **state)
{
    struct store *s = *state;
    put_state(s, OTHER, ready(0));
    put_run(s, (struct id){0, 5}, 0);
    put_run(s, OTHER, 0);
    struct result r = run(s);
    assert_int_equal(r.of_kind[AUDIT_ORPHAN], 3);
    assert_int_equal(r.counts.problems, 3);
}

static void a_payload_that_is_missing_is_found(void **state)
{
    delete_key(*state, record_payload_key((struct id){1, 2}));
    assert_problem(*state, AUDIT_PAYLOAD_MISSING, (struct id){1, 2});
}

static void a_payload_that_nobody_wants_is_an_orphan(void **state)
{
    struct batch b = {0};
    struct job job = a_job(ID, large_payload());
    record_put_job(&b, &job);
    scratch_commit(*state, &b);
    batch_fini(&b);
    put_job(*state, ID, STR("1"));
    assert_problem(*state, AUDIT_ORPHAN, ID);
}

static void a_payload_that_is_no_json_is_found(void **state)
{
    put_job(*state, ID, STR("{\"a\":"));
    assert_problem(*state, AUDIT_BAD_PAYLOAD, ID);
}

static void a_name_that_nobody_could_give_is_found(void **state)
{
    struct batch b = {0};
    struct job job = a_job(ID, STR("1"));
    job.queue = STR("a,b");
    record_put_job(&b, &job);
    scratch_commit(*state, &b);
    batch_fini(&b);
    assert_problem(*state, AUDIT_BAD_NAME, ID);
}

static void a_hole_between_runs_is_found(void **state)
{
    put_state(*state, ID, dead(3));
    put_run(*state, ID, 0);
    put_run(*state, ID, 2);
    assert_problem(*state, AUDIT_RUN_MISSING, ID);
}

static void runs_missing_at_the_end_are_found(void **state)
{
    put_state(*state, ID, dead(3));
    put_run(*state, ID, 0);
    assert_problem(*state, AUDIT_RUN_MISSING, ID);
}

static void a_run_that_has_not_been_is_found(void **state)
{
    put_run(*state, ID, 0);
    assert_problem(*state, AUDIT_RUN_UNEXPECTED, ID);
}

static void a_run_on_record_for_a_claim_that_lives_is_found(void **state)
{
    put_run(*state, (struct id){1, 4}, 1);
    assert_problem(*state, AUDIT_RUN_UNEXPECTED, (struct id){1, 4});
}

static void states_that_contradict_themselves_are_found(void **state)
{
    struct job_state bad[7];
    for (int i = 0; i < 7; i++)
        bad[i] = i < 4 ? ready(0) : dead(0);
    bad[0].ready_at = INSTANT_NONE;
    bad[1].status = STATUS_IN_FLIGHT; /* without a lease */
    bad[2].attempts = 1;              /* without a run */
    bad[3].status = STATUS_COMPLETED;
    bad[4].resolution = RESOLUTION_NONE;
    bad[5].purge_at = INSTANT_NONE;
    bad[6].status = STATUS_BLOCKED;
    for (int i = 0; i < 7; i++) {
        put_state(*state, ID, bad[i]);
        assert_problem(*state, AUDIT_BAD_STATE, ID);
    }
}

static void notes_and_states_must_agree(void **state)
{
    struct id id = {1, 5};
    put_note(*state, id, NOTE_RESULT, STR("1"));
    assert_problem(*state, AUDIT_ORPHAN, id);
    delete_key(*state, record_note_key(id, NOTE_RESULT));
    put_note(*state, OTHER, NOTE_RESULT, STR("1"));
    assert_problem(*state, AUDIT_ORPHAN, OTHER);
    delete_key(*state, record_note_key(OTHER, NOTE_RESULT));
    put_note(*state, id, NOTE_CHECKPOINT, STR("half"));
    assert_problem(*state, AUDIT_BROKEN, id);
    delete_key(*state, record_note_key(id, NOTE_CHECKPOINT));
    assert_problem(*state, AUDIT_BAD_STATE, id);
}

static void a_take_of_the_next_run_or_of_an_older_one_is_fine(void **state)
{
    put_take(*state, (struct id){1, 3}, 1);
    assert_clean(*state);
    put_take(*state, ID, 0);
    assert_clean(*state);
    put_take(*state, OTHER, 5); /* deleted since */
    assert_clean(*state);
}

static void a_take_that_does_not_fit_its_job_is_found(void **state)
{
    put_take(*state, ID, 1);
    assert_problem(*state, AUDIT_BAD_TAKE, ID);
    put_take(*state, (struct id){1, 3}, 2); /* it is dead */
    assert_problem(*state, AUDIT_BAD_TAKE, (struct id){1, 3});
    put_take(*state, (struct id){1, 4}, 2); /* it is claimed */
    assert_problem(*state, AUDIT_BAD_TAKE, (struct id){1, 4});
}

static void put_events(struct store *s, uint64_t number, uint64_t before)
{
    struct batch b = {0};
    struct eventlog_writer w = {.before = before};
    struct job_event ev = {.number = number,
                           .id = ID,
                           .queue = STR("q"),
                           .type = STR("t"),
                           .event = EVENT_ENQUEUE,
                           .from = STATUS_GONE,
                           .run = -1,
                           .ready_at = INSTANT_NONE,
                           .ruling = RULING_NONE};
    eventlog_add(&w, &ev);
    eventlog_flush(&w, &(struct event_mark){.at = INSTANT_NONE}, &b);
    scratch_commit(s, &b);
    eventlog_writer_fini(&w);
    batch_fini(&b);
}

static void a_log_of_events_without_its_beginning_is_fine(void **state)
{
    put_events(*state, 7, 1000);
    assert_clean(*state);
}

static void a_hole_in_the_log_of_events_is_found(void **state)
{
    put_events(*state, 7, 0);
    put_events(*state, 9, 100);
    assert_problem(*state, AUDIT_BAD_EVENTS, (struct id){0, 0});
}

static void events_that_do_not_decode_are_found(void **state)
{
    put_raw(*state, eventlog_key(7), STR("\1\1\1"));
    assert_problem(*state, AUDIT_BROKEN, (struct id){0, 0});
}

static void put_history(struct store *s, uint64_t number)
{
    struct batch b = {0};
    struct history_entry h = {.job = {.id = ID, .queue = STR("q"), .state.attempts = 1},
                              .succeeded = true};
    record_put_history(&b, number, &h);
    scratch_commit(s, &b);
    batch_fini(&b);
}

static void a_failure_history_outlives_its_jobs(void **state)
{
    put_history(*state, 7);
    put_history(*state, 8);
    assert_clean(*state);
}

static void a_hole_in_the_failure_history_is_found(void **state)
{
    put_history(*state, 7);
    put_history(*state, 9);
    assert_problem(*state, AUDIT_BROKEN, (struct id){0, 0});
}

static void an_entry_of_the_failure_history_that_does_not_decode_is_found(void **state)
{
    put_raw(*state, record_history_key(7), STR("\1\1\1"));
    assert_problem(*state, AUDIT_BROKEN, (struct id){0, 0});
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_server_leaves_is_clean_and_counted),
        TEST(a_leased_job_is_in_flight_and_counted_once),
        TEST(entries_of_front_ends_are_known),
        TEST(groups_are_known),
        TEST(an_empty_store_is_clean),
        TEST(a_record_that_does_not_decode_is_found_and_only_that),
        TEST(a_broken_state_is_found_and_only_that),
        TEST(a_newer_record_is_said_to_be_newer),
        TEST(a_newer_format_is_said_to_be_newer),
        TEST(a_key_of_no_known_kind_is_found),
        TEST(records_of_jobs_that_are_not_there_are_orphans),
        TEST(a_payload_that_is_missing_is_found),
        TEST(a_payload_that_nobody_wants_is_an_orphan),
        TEST(a_payload_that_is_no_json_is_found),
        TEST(a_name_that_nobody_could_give_is_found),
        TEST(a_hole_between_runs_is_found),
        TEST(runs_missing_at_the_end_are_found),
        TEST(a_run_that_has_not_been_is_found),
        TEST(a_run_on_record_for_a_claim_that_lives_is_found),
        TEST(states_that_contradict_themselves_are_found),
        TEST(notes_and_states_must_agree),
        TEST(a_take_of_the_next_run_or_of_an_older_one_is_fine),
        TEST(a_take_that_does_not_fit_its_job_is_found),
        TEST(a_log_of_events_without_its_beginning_is_fine),
        TEST(a_hole_in_the_log_of_events_is_found),
        TEST(events_that_do_not_decode_are_found),
        TEST(a_failure_history_outlives_its_jobs),
        TEST(a_hole_in_the_failure_history_is_found),
        TEST(an_entry_of_the_failure_history_that_does_not_decode_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
