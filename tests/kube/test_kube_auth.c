/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/rfc3339.h"

/* Exec plugins: real programs, run for a real server. */

struct got {
    struct kube_client_call *call;
    int done;
    enum kube_answer_reason reason;
    char message[700];
};

static void on_done(void *ctx, const struct kube_answer *a)
{
    struct got *g = ctx;
    g->done++;
    g->reason = a->reason;
    snprintf(g->message, sizeof g->message, "%.*s", STR_ARG(a->message));
}

static void start(struct rig *r, struct got *g)
{
    *g = (struct got){0};
    const struct kube_client_spec spec = {
        .verb = KUBE_GET, .path = "/api", .retry = KUBE_CLIENT_ONCE, .done = on_done, .ctx = g};
    g->call = kube_client_call(r->client, &spec);
}

static void ask(struct rig *r, struct got *g)
{
    start(r, g);
    RIG_AWAIT(r, g->done);
}

static void serve_object(struct rig *r, struct http_exchange *x, const struct http_request *req,
                         int n)
{
    (void)r;
    (void)req;
    (void)n;
    rig_json(x, 200, "{}");
}

static void serve_held(struct rig *r, struct http_exchange *x, const struct http_request *req,
                       int n)
{
    (void)req;
    (void)n;
    rig_hold(r, x);
}

static const char *const no_texts[] = {NULL};
static char command[256];

/* A shell script is the plugin; it runs in the rig's folder. */
static void use_plugin(struct rig *r, const char *script)
{
    struct buf b = {0};
    buf_print(&b, "#!/bin/sh\ncd %s\necho run >>runs\n%s\n", r->folder, script);
    buf_byte(&b, '\0');
    rig_write(r, "plugin", b.at, 0700);
    buf_fini(&b);
    snprintf(command, sizeof command, "%s", rig_path(r, "plugin"));
    r->config.exec = (struct kube_config_exec){.command = command,
                                               .args = no_texts,
                                               .env = no_texts,
                                               .api_version = "client.authentication.k8s.io/v1"};
    r->serve = serve_object;
}

static int runs(struct rig *r)
{
    char *text = rig_read(r, "runs");
    int n = (int)strlen(text) / 4;
    free(text);
    return n;
}

#define CREDENTIAL(status)                                                                         \
    "cat "                                                                                         \
    "<<'END'\n{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\","    \
    "\"spec\":{},\"status\":{" status "}}\nEND\n"

static void what_it_prints_is_shown(void **state)
{
    struct rig *r = *state;
    use_plugin(r, CREDENTIAL("\"token\":\"t0ken\""));
    rig_start(r);
    struct got g;
    for (int i = 0; i < 3; i++) {
        ask(r, &g);
        assert_int_equal(g.reason, KUBE_ANSWER_OK);
        assert_string_equal(r->requests[i].authorization, "Bearer t0ken");
    }
    assert_int_equal(runs(r), 1);
    assert_int_equal(kube_client_counters(r->client)->logins, 1);
}

static void calls_share_one_run(void **state)
{
    struct rig *r = *state;
    use_plugin(r, CREDENTIAL("\"token\":\"t0ken\""));
    rig_start(r);
    struct got g[4];
    for (size_t i = 0; i < COUNT(g); i++)
        start(r, &g[i]);
    kube_client_cancel(g[1].call);
    RIG_AWAIT(r, g[0].done && g[2].done && g[3].done);
    assert_int_equal(g[1].done, 0);
    assert_int_equal(runs(r), 1);
    assert_int_equal(r->served, 3);
}

/* r->now is a day of July 2026. */
static void it_runs_again_before_its_credentials_expire(void **state)
{
    struct rig *r = *state;
    struct buf b = {0};
    buf_lit(&b, CREDENTIAL("\"token\":\"t0ken\",\"expirationTimestamp\":\"@\""));
    struct buf script = {0};
    char *at = strchr(b.at, '@');
    buf_add(&script, b.at, (size_t)(at - b.at));
    rfc3339_write(&script, instant_add(r->now, (span){3600000}));
    buf_add(&script, at + 1, b.len - (size_t)(at + 1 - b.at));
    buf_byte(&script, '\0');
    use_plugin(r, script.at);
    buf_fini(&script);
    buf_fini(&b);
    rig_start(r);
    struct got g;
    ask(r, &g);
    r->now.ms += 3600000 - 30001;
    ask(r, &g);
    assert_int_equal(runs(r), 1);
    r->now.ms += 1;
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(runs(r), 2);
    /* What it prints now has nearly expired, or has by the clock here: it is used for a while. */
    r->now.ms += 30000;
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(runs(r), 3);
    ask(r, &g);
    assert_int_equal(runs(r), 3);
    r->now.ms += 60000;
    ask(r, &g);
    assert_int_equal(runs(r), 4);
}

static void serve_by_run(struct rig *r, struct http_exchange *x, const struct http_request *req,
                         int n)
{
    (void)r;
    (void)n;
    rig_json(x, str_eq(req->authorization, STR("Bearer run-2")) ? 200 : 401, "{}");
}

static void it_runs_again_when_the_server_refuses(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "t=run-$(grep -c run runs)\n"
                  "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                  "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"'$t'\"}}'");
    r->serve = serve_by_run;
    rig_start(r);
    struct got g;
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    assert_int_equal(r->served, 2);
    assert_int_equal(runs(r), 2);
    /* Once per call, not for ever. */
    rig_write(r, "runs", "", 0600);
    kube_client_free(r->client);
    rig_start(r);
    rig_write(r, "runs", "run\nrun\nrun\n", 0600);
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_UNAUTHORIZED);
    assert_int_equal(runs(r), 5);
}

/* Several were refused with the same credentials: one run is enough. */
static void refusals_at_the_same_time_share_a_run(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "t=run-$(grep -c run runs)\n"
                  "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                  "\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"'$t'\"}}'");
    r->serve = serve_held;
    rig_start(r);
    struct got g[3];
    for (size_t i = 0; i < COUNT(g); i++)
        start(r, &g[i]);
    RIG_AWAIT(r, r->held_count == 3);
    r->serve = serve_by_run;
    for (int i = 0; i < 3; i++)
        rig_json(r->held[i], 401, "{}");
    r->held_count = 0;
    RIG_AWAIT(r, g[0].done && g[1].done && g[2].done);
    for (size_t i = 0; i < COUNT(g); i++)
        assert_int_equal(g[i].reason, KUBE_ANSWER_OK);
    assert_int_equal(runs(r), 2);
}

static const struct {
    const char *script, *says;
} failing[] = {
    {"echo first >&2; echo 'log in first' >&2; exit 3", "failed with exit code 3: log in first"},
    {"exit 1", "failed with exit code 1"},
    {"kill -9 $$", "was ended by signal 9"},
    {"echo rubbish", "printed no credentials: "},
    {"true", "printed no credentials: "},
    {"echo '{}'", "kind: expected ExecCredential"},
    {"echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"v7\"}'", "apiVersion: expected "},
    {"echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\"}'",
     "status: it is missing"},
    {CREDENTIAL(""), "neither a token nor a certificate"},
    {CREDENTIAL("\"token\":5"), "token: expected a string"},
    {CREDENTIAL("\"token\":\"a\\nb\""), "one line without blanks"},
    {CREDENTIAL("\"clientKeyData\":\"x\",\"token\":\"t\""), "belong together"},
    {CREDENTIAL("\"token\":\"t\",\"expirationTimestamp\":\"soon\""), "an RFC 3339 time"},
    {CREDENTIAL("\"token\":\"t\"") "echo more", "printed no credentials"},
    {"yes s3cret | head -c 2000000", "printed more than 1048576 bytes"},
};

static void every_failure_is_said(void **state)
{
    struct rig *r = *state;
    for (size_t i = 0; i < COUNT(failing); i++) {
        use_plugin(r, failing[i].script);
        rig_start(r);
        struct got g;
        ask(r, &g);
        assert_int_equal(g.reason, KUBE_ANSWER_NO_CREDENTIALS);
        if (!strstr(g.message, failing[i].says) || strstr(g.message, "s3cret"))
            fail_msg("%s: %s", failing[i].script, g.message);
        kube_client_free(r->client);
    }
    r->client = NULL;
    assert_int_equal(r->served, 0);
}

static void a_plugin_that_is_not_there(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "");
    r->config.exec.command = "/nowhere/login";
    r->config.exec.install_hint = "get it from there";
    rig_start(r);
    struct got g;
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_NO_CREDENTIALS);
    assert_non_null(strstr(g.message, "/nowhere/login cannot be started: no such file"));
    assert_non_null(strstr(g.message, "get it from there"));
}

static void one_that_failed_is_not_started_at_once_again(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "exit 1");
    rig_start(r);
    struct got g;
    for (int i = 0; i < 5; i++)
        ask(r, &g);
    assert_int_equal(runs(r), 1);
    r->now.ms += 1000;
    ask(r, &g);
    assert_int_equal(runs(r), 2);
}

static bool is_running(struct rig *r)
{
    char *text = rig_read(r, "pid");
    long pid = strtol(text, NULL, 10);
    free(text);
    return pid > 0 && kill((pid_t)pid, 0) == 0;
}

/* With what it has started. */
static void one_that_hangs_is_ended(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "sleep 1000 & echo $! >pid.new; mv pid.new pid; wait");
    r->settings.plugin_timeout = (span){300};
    rig_start(r);
    struct got g;
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_NO_CREDENTIALS);
    assert_non_null(strstr(g.message, "did not end within 300 ms"));
    while (is_running(r)) /* it was killed */
        rig_settle(r);
}

/* Files change without the loop's noticing. */
static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void one_that_hangs_ends_with_the_client(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "sleep 1000 & echo $! >pid.new; mv pid.new pid; wait");
    rig_start(r);
    struct got g;
    start(r, &g);
    uv_timer_t tick;
    uv_timer_init(&r->loop, &tick);
    uv_timer_start(&tick, on_tick, 5, 5);
    RIG_AWAIT(r, is_running(r));
    kube_client_free(r->client);
    r->client = NULL;
    RIG_AWAIT(r, !is_running(r));
    uv_close((uv_handle_t *)&tick, NULL);
    assert_int_equal(g.done, 0);
}

/* Something that it left in the background holds its output open. */
static void what_it_leaves_behind_is_not_waited_for(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "sleep 1000 & echo $! >pid\n" CREDENTIAL("\"token\":\"t\""));
    rig_start(r);
    struct got g;
    ask(r, &g);
    assert_int_equal(g.reason, KUBE_ANSWER_OK);
    char *text = rig_read(r, "pid");
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
    free(text);
}

static void it_is_told_what_it_is_for(void **state)
{
    struct rig *r = *state;
    use_plugin(r, "printf '%s' \"$KUBERNETES_EXEC_INFO\" >info; echo \"$A$1$2\" >given\n"
                  "if read -r line; then echo input >>given; fi\n" CREDENTIAL("\"token\":\"t\""));
    r->config.exec.args = (const char *const[]){"x", "y z", NULL};
    r->config.exec.env = (const char *const[]){"A=a=b", NULL};
    r->config.exec.wants_cluster = true;
    r->config.server_name = "kubernetes";
    r->config.ca = STR("PEM");
    rig_start(r);
    struct got g;
    start(r, &g);
    RIG_AWAIT(r, g.done);
    char *info = rig_read(r, "info"), *given = rig_read(r, "given"), want[400];
    snprintf(want, sizeof want,
             "{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","
             "\"spec\":{\"interactive\":false,\"cluster\":{\"server\":\"%s\","
             "\"tls-server-name\":\"kubernetes\",\"certificate-authority-data\":\"UEVN\"}}}",
             r->url);
    assert_string_equal(info, want);
    assert_string_equal(given, "a=bxy z\n");
    free(info);
    free(given);
}

static void its_certificate_is_shown(void **state)
{
    struct rig *r = *state;
    char ca[128];
    rig_use_tls(r, "127.0.0.1", 7, true);
    snprintf(ca, sizeof ca, "%s", rig_path(r, "ca.pem"));
    use_plugin(r, "c=$(awk '{printf \"%s\\\\n\", $0}' client.pem)\n"
                  "k=$(awk '{printf \"%s\\\\n\", $0}' client-key.pem)\n"
                  "printf '%s' '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                  "\"client.authentication.k8s.io/v1\",\"status\":{\"clientCertificateData\":\"'"
                  "\"$c\"'\",\"clientKeyData\":\"'\"$k\"'\"}}'\n");
    r->config.ca_file = ca;
    rig_start(r);
    struct got g;
    ask(r, &g);
    if (g.reason != KUBE_ANSWER_OK)
        fail_msg("%s", g.message);
    assert_string_equal(r->requests[0].authorization, "");
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_it_prints_is_shown),
        T(calls_share_one_run),
        T(it_runs_again_before_its_credentials_expire),
        T(it_runs_again_when_the_server_refuses),
        T(refusals_at_the_same_time_share_a_run),
        T(every_failure_is_said),
        T(a_plugin_that_is_not_there),
        T(one_that_failed_is_not_started_at_once_again),
        T(one_that_hangs_is_ended),
        T(one_that_hangs_ends_with_the_client),
        T(what_it_leaves_behind_is_not_waited_for),
        T(it_is_told_what_it_is_for),
        T(its_certificate_is_shown),
    };
    return cmocka_run_group_tests_name("kube/kube_auth", tests, NULL, NULL);
}
