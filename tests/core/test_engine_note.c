/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>
#include <string.h>

#define CHECKPOINT(text)                                                                           \
    &(struct news)                                                                                 \
    {                                                                                              \
        .has_checkpoint = true, .checkpoint = STR(text)                                            \
    }

/* token: 0: that of the live run */
static struct err note(struct rig *r, struct id id, uint64_t token, const struct news *news)
{
    struct run_ref ref = token ? (struct run_ref){id, token} : rig_ref(r, id);
    return engine_note(r->e, r->now, ref, news);
}

static const struct note *kept(const struct rig *r, struct id id, enum note_kind kind)
{
    const struct rig_record *record = rig_record(r, id);
    assert_int_equal(record->has_notes & NOTE_BIT(kind), NOTE_BIT(kind));
    return &record->notes[kind];
}

static uint64_t notes_in_state(struct rig *r, struct id id)
{
    const struct job *job = rig_read(r, id);
    assert_int_equal(job->state.extras.notes, rig_record(r, id)->has_notes);
    return job->state.extras.notes;
}

/* A job in flight by a claim. */
static struct id claimed(struct rig *r)
{
    struct id id = rig_add(r, "q");
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    return id;
}

static void the_next_run_gets_the_checkpoint(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    assert_string_equal(r->got[0].checkpoint, "");
    assert_ok(note(r, id, r->got[0].token, CHECKPOINT("{\"at\":1}")));
    assert_ok(note(r, id, r->got[0].token, CHECKPOINT("{\"at\":2}")));
    rig_fail(r, id);
    rig_clear(r);
    rig_claim(r, "w", "q", 1, (span){600000});
    rig_turn_after(r, 600000);
    rig_assert_got(r, id);
    assert_string_equal(r->got[0].checkpoint, "{\"at\":2}");
    assert_int_equal(r->got[0].checkpoint_run, 0);
    assert_int_equal(r->got[0].run, 1);
}

static void a_checkpoint_outlives_a_crash_and_the_end_of_a_lease(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    assert_ok(note(r, id, 0, CHECKPOINT("[7]")));
    rig_restart(r);
    rig_turn_after(r, RIG_LEASE.ms); /* expires */
    rig_clear(r);
    rig_claim(r, "w", "q", 1, (span){600000});
    rig_turn_after(r, 600000);
    rig_assert_got(r, id);
    assert_string_equal(r->got[0].checkpoint, "[7]");
}

static void a_stream_may_leave_a_checkpoint_that_outlives_a_crash(void **state)
{
    struct rig *r = *state;
    struct id id = rig_add(r, "q");
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    assert_ok(note(r, id, 0, CHECKPOINT("[7]")));
    assert_int_equal(notes_in_state(r, id), NOTE_BIT(NOTE_CHECKPOINT));
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_restart(r);
    assert_int_equal(rig_status(r, id), STATUS_READY);
    rig_clear(r);
    rig_stream(r, "s", "q", 1);
    rig_turn(r);
    rig_assert_got(r, id);
    assert_string_equal(r->got[0].checkpoint, "[7]");
    rig_succeed(r, id); /* deletes everything there is, or the port reports an error */
    assert_int_equal(rig_status(r, id), STATUS_GONE);
}

static void a_stale_run_leaves_nothing(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    uint64_t old = r->got[0].token;
    assert_ok(note(r, id, old, CHECKPOINT("1")));
    rig_fail(r, id);
    unsigned writes = r->writes;
    assert_code(note(r, id, old, CHECKPOINT("2")), ERR_STALE);
    assert_code(note(r, id, 0, CHECKPOINT("2")), ERR_NOT_IN_FLIGHT);
    rig_claim(r, "w", "q", 1, (span){600000});
    rig_turn_after(r, 600000);
    assert_true(r->writes > writes);
    writes = r->writes;
    assert_code(note(r, id, old, CHECKPOINT("2")), ERR_STALE);
    assert_code(note(r, (struct id){1, 1}, 0, CHECKPOINT("2")), ERR_NOT_FOUND);
    assert_int_equal(r->writes, writes);
    assert_true(str_eq(kept(r, id, NOTE_CHECKPOINT)->text, STR("1")));
}

static void progress_says_which_run_and_when(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    struct news news = {.has_progress = true, .progress = 0.25, .progress_note = STR("a quarter")};
    r->now.ms += 5;
    assert_ok(note(r, id, 0, &news));
    const struct note *n = kept(r, id, NOTE_PROGRESS);
    assert_true(n->value == 0.25 && n->run == 0 && n->at.ms == r->now.ms);
    assert_true(str_eq(n->text, STR("a quarter")));
    /* Progress alone leaves the checkpoint unchanged. */
    assert_ok(note(r, id, 0, CHECKPOINT("1")));
    assert_ok(note(r, id, 0, &news));
    assert_int_equal(notes_in_state(r, id), NOTE_BIT(NOTE_PROGRESS) | NOTE_BIT(NOTE_CHECKPOINT));
}

static void progress_is_an_event_only_where_that_is_asked_for(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    struct news news = {.has_progress = true, .progress_note = STR("silent")};
    assert_ok(note(r, id, 0, &news));
    rig_assert_events(r, id, EVENT_ENQUEUE, EVENT_TAKE);
    news = (struct news){
        .has_progress = true, .progress_event = true, .progress_note = STR("waiting: no node")};
    assert_ok(note(r, id, 0, &news));
    const struct job_event *ev = rig_event(r);
    assert_int_equal(ev->event, EVENT_PROGRESS);
    assert_true(ev->from == STATUS_IN_FLIGHT && ev->to == STATUS_IN_FLIGHT && ev->run == 0);
    assert_true(str_eq(ev->reason, STR("waiting: no node")));
    /* What is no progress is no event. */
    assert_ok(note(r, id, 0, &(struct news){.progress_event = true, .has_checkpoint = true}));
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_assert_events(r, id, EVENT_ENQUEUE, EVENT_TAKE, EVENT_PROGRESS);
    rig_restart(r);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
}

static void an_empty_checkpoint_takes_the_last_one_away(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    assert_ok(note(r, id, 0, CHECKPOINT("1")));
    assert_ok(note(r, id, 0, CHECKPOINT("")));
    assert_int_equal(notes_in_state(r, id), 0);
    assert_ok(note(r, id, 0, CHECKPOINT("")));
    rig_restart(r);
    assert_int_equal(notes_in_state(r, id), 0);
}

static void a_result_is_kept_and_the_checkpoint_goes(void **state)
{
    struct rig *r = *state;
    r->settings.completed_retention = (span){1000};
    rig_restart(r);
    struct id id = claimed(r);
    assert_ok(note(r, id, 0, CHECKPOINT("1")));
    assert_ok(note(r, id, 0, &(struct news){.result = STR("{\"n\":1}")}));
    rig_succeed(r, id);
    assert_int_equal(rig_status(r, id), STATUS_COMPLETED);
    assert_int_equal(notes_in_state(r, id), NOTE_BIT(NOTE_RESULT));
    struct job_notes notes;
    assert_ok(engine_read_notes(r->e, rig_read(r, id), &r->turn, &notes));
    assert_true(str_eq(notes.at[NOTE_RESULT].text, STR("{\"n\":1}")));
    rig_turn_after(r, 1000); /* purged, with all there is */
    assert_int_equal(rig_status(r, id), STATUS_GONE);
}

static void a_dead_job_that_is_brought_back_goes_on_from_its_checkpoint(void **state)
{
    struct rig *r = *state;
    struct job job;
    struct id id = claimed(r);
    assert_ok(note(r, id, 0, CHECKPOINT("1")));
    struct failure_report report = {.ref = rig_ref(r, id),
                                    .failure = {.message = STR("no"), .run_time = {-1}},
                                    .kill = true,
                                    .retry_at = INSTANT_NONE};
    assert_ok(engine_fail(r->e, r->now, &report, &r->turn, &job));
    assert_int_equal(rig_status(r, id), STATUS_DEAD);
    assert_ok(engine_rerun(r->e, r->now, id, (struct rerun){.at = r->now}, &r->turn, &job));
    rig_clear(r);
    rig_claim(r, "w", "q", 1, (span){0});
    rig_turn(r);
    assert_string_equal(r->got[0].checkpoint, "1");
    assert_ok(engine_remove(r->e, r->now, id));
}

/* The rig compares the status of each event with the events before it. */
static void a_file_of_a_job_whose_time_has_just_come_is_told_in_order(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    rig_fail(r, id);
    rig_turn(r);
    r->now.ms += 86400000;
    assert_ok(engine_artifact(r->e, r->now, id, 0, STR("log")));
    assert_int_equal(r->events[r->event_count - 1].from, STATUS_SCHEDULED);
    rig_turn(r);
    assert_ok(engine_artifact(r->e, r->now, id, 0, STR("log")));
    assert_int_equal(r->events[r->event_count - 1].from, STATUS_READY);
}

static void a_renewal_keeps_the_last_reason(void **state)
{
    struct rig *r = *state;
    struct id id = claimed(r);
    struct job job = rig_fail(r, id);
    char reason[200];
    snprintf(reason, sizeof reason, "%.*s", STR_ARG(job.state.reason));
    assert_true(strlen(reason) > 0);
    rig_claim(r, "w", "q", 1, (span){600000});
    rig_turn_after(r, 600000);
    instant end;
    assert_ok(engine_renew(r->e, r->now, rig_ref(r, id), (span){1000}, &end));
    assert_int_equal(end.ms, r->now.ms + 1000);
    assert_true(str_eq(rig_read(r, id)->state.reason, str_from(reason)));
    rig_restart(r);
    assert_int_equal(rig_status(r, id), STATUS_IN_FLIGHT);
    rig_turn_after(r, 1000);
    assert_int_equal(rig_run(r, id, 1)->outcome, OUTCOME_EXPIRED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_next_run_gets_the_checkpoint),
        TEST(a_checkpoint_outlives_a_crash_and_the_end_of_a_lease),
        TEST(a_stream_may_leave_a_checkpoint_that_outlives_a_crash),
        TEST(a_stale_run_leaves_nothing),
        TEST(progress_says_which_run_and_when),
        TEST(progress_is_an_event_only_where_that_is_asked_for),
        TEST(an_empty_checkpoint_takes_the_last_one_away),
        TEST(a_result_is_kept_and_the_checkpoint_goes),
        TEST(a_dead_job_that_is_brought_back_goes_on_from_its_checkpoint),
        TEST(a_file_of_a_job_whose_time_has_just_come_is_told_in_order),
        TEST(a_renewal_keeps_the_last_reason),
    };
    return cmocka_run_group_tests_name("core/engine_note", tests, NULL, NULL);
}
