/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_rig.h"

#include <stdio.h>
#include <string.h>

#include "client/when.h"

/* A pod of a run of a job, as the API has it. more: members of its metadata, status: of its status.
 */
static const char *pod(int n, int run, const char *uid, const char *more, const char *status)
{
    static char texts[4][1200];
    static unsigned next;
    static int version;
    char *text = texts[next++ % 4];
    snprintf(
        text, sizeof texts[0],
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"pod-%s\",\"namespace\":"
        "\"jobs\",\"uid\":\"%s\",\"resourceVersion\":\"%d\",\"labels\":{\"tenax.dev/job\":\"%s\","
        "\"tenax.dev/run\":\"%d\",\"tenax.dev/executor\":\"" NAME "\"}%s},\"spec\":{"
        "\"containers\":[{\"name\":\"main\"}]},\"status\":{%s}}",
        uid, uid, ++version, exec_rig_text(n), run, more, status);
    return text;
}

#define RUNNING                                                                                    \
    "\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"main\",\"state\":{\"running\":{}}}]"
#define PENDING "\"phase\":\"Pending\""
#define ENDED   "\"phase\":\"Succeeded\""
#define DELETED ",\"deletionTimestamp\":\"2026-11-22T09:00:30Z\",\"deletionGracePeriodSeconds\":30"

/* What the cluster answers: a list of that text, and then a watch. */
static const char *listed = "";

static bool serve_pods(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q)
{
    char body[4000];
    if (strstr(q->query, "watch=")) {
        rig_stream(e->rig, x);
        return true;
    }
    snprintf(body, sizeof body,
             "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"100\"},\"items\":[%s]}",
             listed);
    rig_json(x, 200, body);
    return true;
}

static void start(struct exec_rig *e, const char *items)
{
    listed = items;
    e->serve = serve_pods;
    exec_watch_start(&e->x);
    RIG_AWAIT(e->rig, exec_watch_synced(&e->x) && e->rig->stream);
}

static void show(struct exec_rig *e, const char *type, const char *object)
{
    char line[2000];
    snprintf(line, sizeof line, "{\"type\":\"%s\",\"object\":%s}\n", type, object);
    rig_send(e->rig, line);
}

static struct exec_run *run_of(struct exec_rig *e, int n, int64_t run)
{
    return exec_runs_find(&e->x, exec_rig_id(n), run);
}

static void only_pods_with_the_label_of_this_executor_are_watched(void **state)
{
    struct exec_rig *e = *state;
    start(e, "");
    const struct rig_request *q = exec_rig_request(e, 0);
    assert_string_equal(q->path, "/api/v1/namespaces/jobs/pods");
    assert_non_null(strstr(q->query, "labelSelector=tenax.dev%2Fexecutor%3D" NAME));
    RIG_AWAIT(e->rig, exec_watch_live(&e->x));
}

static void a_pod_of_ours_whose_run_is_not_known_is_taken_over(void **state)
{
    struct exec_rig *e = *state;
    start(e, pod(1, 2, "u1", "", RUNNING));
    const struct exec_run *r = run_of(e, 1, 2);
    assert_non_null(r);
    assert_true(r->adopted);
    assert_int_equal(r->plan.pod, PLAN_POD_RUNNING);
    assert_string_equal(r->name, "pod-u1");
    assert_string_equal(r->uid, "u1");
    assert_int_equal(e->x.counters.adopted, 1);
    assert_non_null(r->pod_record); /* and is in the journal from now on */
}

static void pods_of_others_are_passed_over(void **state)
{
    struct exec_rig *e = *state;
    start(
        e,
        "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"labels\":{\"tenax.dev/job\":\"1\","
        "\"tenax.dev/run\":\"0\",\"tenax.dev/executor\":\"another\"}},\"spec\":{},\"status\":{}}");
    assert_int_equal(e->x.run_count, 0);
    /* A label that others have copied. */
    exec_rig_run(e, 1, 0);
    show(e, "ADDED", pod(1, 0, "u1", "", RUNNING));
    RIG_AWAIT(e->rig, run_of(e, 1, 0)->plan.pod == PLAN_POD_RUNNING);
    show(e, "ADDED", pod(1, 0, "u2", "", ENDED));
    show(e, "ADDED", pod(2, 0, "u3", "", RUNNING));
    RIG_AWAIT(e->rig, run_of(e, 2, 0));
    assert_string_equal(run_of(e, 1, 0)->uid, "u1");
    assert_int_equal(run_of(e, 1, 0)->plan.pod, PLAN_POD_RUNNING);
}

static void what_went_while_nobody_watched_is_found_by_the_next_list(void **state)
{
    struct exec_rig *e = *state;
    char both[2500];
    snprintf(both, sizeof both, "%s,%s", pod(1, 0, "u1", "", RUNNING),
             pod(2, 0, "u2", "", RUNNING));
    start(e, both);
    listed = pod(2, 0, "u2", "", RUNNING);
    show(e, "ERROR",
         "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Expired\",\"code\":410}");
    RIG_AWAIT(e->rig, run_of(e, 1, 0)->plan.pod == PLAN_POD_GONE);
    assert_int_equal(run_of(e, 2, 0)->plan.pod, PLAN_POD_RUNNING);
}

static void a_pod_of_the_journal_that_is_not_listed_is_gone(void **state)
{
    struct exec_rig *e = *state;
    struct exec_run *was = exec_rig_run(e, 1, 0), *never = exec_rig_run(e, 2, 0);
    was->name = strdup("pod-u1");
    was->namespace = strdup("jobs");
    strcpy(was->uid, "u1");
    exec_reports_pod(&e->x, was);
    start(e, "");
    assert_int_equal(was->plan.pod, PLAN_POD_GONE);
    assert_int_equal(never->plan.pod, PLAN_POD_NONE); /* it is still to be created */
}

static void an_answer_that_is_older_than_what_was_watched_changes_nothing(void **state)
{
    struct exec_rig *e = *state;
    exec_rig_run(e, 1, 0);
    start(e, pod(1, 0, "u1", "", ENDED));
    exec_watch_seen(&e->x, str_from(pod(1, 0, "u1", "", PENDING)));
    assert_int_equal(run_of(e, 1, 0)->plan.pod, PLAN_POD_SUCCEEDED);
}

static void a_pod_that_had_ended_before_it_went_is_known_by_its_last_object(void **state)
{
    struct exec_rig *e = *state;
    exec_rig_run(e, 1, 0);
    exec_rig_run(e, 2, 0);
    start(e, "");
    show(e, "ADDED", pod(1, 0, "u1", "", RUNNING));
    show(e, "DELETED", pod(1, 0, "u1", "", ENDED));
    show(e, "ADDED", pod(2, 0, "u2", "", RUNNING));
    show(e, "DELETED", pod(2, 0, "u2", "", RUNNING));
    RIG_AWAIT(e->rig, run_of(e, 2, 0)->plan.pod == PLAN_POD_GONE);
    const struct exec_run *r = run_of(e, 1, 0);
    assert_int_equal(r->plan.pod, PLAN_POD_SUCCEEDED);
    assert_int_equal(r->plan.logs, PLAN_LOGS_READ); /* they are gone, too */
    assert_true(r->gone);
}

static void the_object_of_a_pod_is_kept_only_for_its_end(void **state)
{
    struct exec_rig *e = *state;
    exec_rig_run(e, 1, 0)->job_text = strdup("{}");
    start(e, pod(1, 0, "u1", "", RUNNING));
    assert_null(run_of(e, 1, 0)->pod_text);
    assert_null(run_of(e, 1, 0)->job_text); /* it will not be created again */
    show(e, "MODIFIED", pod(1, 0, "u1", "", ENDED));
    RIG_AWAIT(e->rig, run_of(e, 1, 0)->plan.pod == PLAN_POD_SUCCEEDED);
    assert_non_null(run_of(e, 1, 0)->pod_text);
}

static void a_node_that_does_not_confirm_an_end_is_lost_after_its_time(void **state)
{
    struct exec_rig *e = *state;
    start(e, pod(1, 0, "u1", DELETED, RUNNING));
    struct exec_run *r = run_of(e, 1, 0);
    assert_true(r->plan.deleting);
    mono seen = when_mono(), next = {0};
    exec_watch_check_overdue(r, seen, &next);
    assert_int_equal(r->plan.pod, PLAN_POD_RUNNING);
    assert_int_equal(next.ns, r->overdue_at.ns);
    /* The grace period of 30 s, and a minute. */
    assert_true(next.ns <= when_after(seen, (span){90000}).ns);
    assert_true(next.ns > when_after(seen, (span){60000}).ns);
    exec_watch_check_overdue(r, next, &next);
    assert_int_equal(r->plan.pod, PLAN_POD_NODE_LOST);
    assert_false(r->plan.deleting); /* it is deleted once more, by force */
}

static void times_are_of_our_clock_whatever_the_cluster_says(void **state)
{
    struct exec_rig *e = *state;
    mono before = when_mono();
    start(e, pod(1, 0, "u1", ",\"creationTimestamp\":\"2099-01-01T00:00:00Z\"", PENDING));
    const struct exec_run *r = run_of(e, 1, 0);
    assert_int_equal(r->plan.pod, PLAN_POD_WAITING);
    assert_true(r->plan.created.ns >= before.ns && r->plan.created.ns <= when_mono().ns);
}

#define NO_NODE(message)                                                                           \
    PENDING ",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":"         \
            "\"Unschedulable\",\"message\":\"" message "\"}]"
/* A turn of the progress, and its answer; whether the n-th request told that. */
static bool tells(struct exec_rig *e, mono now, const char *what)
{
    int before = e->rig->served;
    mono next = {0};
    exec_progress_turn(&e->x, now, &next);
    e->next = next;
    if (!e->x.telling)
        return false;
    RIG_AWAIT(e->rig, !e->x.telling);
    return exec_rig_body_has(e, before, what);
}

static bool serve_progress(struct exec_rig *e, struct http_exchange *x, const struct rig_request *q)
{
    if (strstr(q->path, "/progress")) {
        rig_json(x, 204, "");
        return true;
    }
    return serve_pods(e, x, q);
}

static void other_words_for_a_phase_are_told_later_each_time_and_without_an_event(void **state)
{
    struct exec_rig *e = *state;
    start(e, pod(1, 0, "u1", "", NO_NODE("no memory")));
    e->serve = serve_progress;
    struct exec_run *r = run_of(e, 1, 0);
    mono now = when_mono();
    assert_true(tells(e, now, "\"event\":true,\"note\":\"waiting: no memory\""));
    assert_false(tells(e, when_after(now, (span){300000}), "")); /* nothing is new */
    show(e, "MODIFIED", pod(1, 0, "u1", "", NO_NODE("no cpu")));
    RIG_AWAIT(e->rig, r->reworded);
    assert_false(tells(e, now, ""));
    assert_int_equal(e->next.ns, r->look_at.ns);
    assert_true(r->look_at.ns >= when_after(now, (span){30000}).ns);
    assert_true(tells(e, r->look_at, "{\"value\":0,\"note\":\"waiting: no cpu\""));
    /* Of a pod that is being initialized: after 30 s, 40 s, 50 s. */
    for (int n = 0; n < 3; n++) {
        mono before = when_mono();
        char text[40];
        snprintf(text, sizeof text, "Reason%d on", n);
        if (n == 0)
            r->phase = PLAN_POD_INITIALIZING, r->looks = 0, r->look_at = (mono){1};
        free(r->note);
        r->note = strdup(text);
        r->reworded = true;
        assert_true(tells(e, r->look_at, text));
        assert_int_equal(r->looks, n + 1);
        int64_t wait_ms = 30000 + (n + 1) * 10000;
        assert_true(r->look_at.ns >= when_after(before, (span){wait_ms}).ns);
        assert_true(r->look_at.ns <= when_after(when_mono(), (span){wait_ms}).ns);
    }
}

static void another_phase_is_told_at_once_with_its_words_and_looks_begin_anew(void **state)
{
    struct exec_rig *e = *state;
    start(e, pod(1, 0, "u1", "", NO_NODE("no memory")));
    e->serve = serve_progress;
    struct exec_run *r = run_of(e, 1, 0);
    assert_true(tells(e, when_mono(), "waiting: no memory"));
    r->looks = 7;
    r->phase = PLAN_POD_RUNNING; /* any other */
    show(e, "MODIFIED", pod(1, 0, "u1", "", NO_NODE("no cpu")));
    RIG_AWAIT(e->rig, r->untold);
    assert_int_equal(r->looks, 0);
    assert_false(r->reworded);
    assert_true(tells(e, when_mono(), "\"event\":true,\"note\":\"waiting: no cpu\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, exec_rig_setup, exec_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_pods_with_the_label_of_this_executor_are_watched),
        TEST(a_pod_of_ours_whose_run_is_not_known_is_taken_over),
        TEST(pods_of_others_are_passed_over),
        TEST(what_went_while_nobody_watched_is_found_by_the_next_list),
        TEST(a_pod_of_the_journal_that_is_not_listed_is_gone),
        TEST(an_answer_that_is_older_than_what_was_watched_changes_nothing),
        TEST(a_pod_that_had_ended_before_it_went_is_known_by_its_last_object),
        TEST(the_object_of_a_pod_is_kept_only_for_its_end),
        TEST(a_node_that_does_not_confirm_an_end_is_lost_after_its_time),
        TEST(times_are_of_our_clock_whatever_the_cluster_says),
        TEST(other_words_for_a_phase_are_told_later_each_time_and_without_an_event),
        TEST(another_phase_is_told_at_once_with_its_words_and_looks_begin_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
