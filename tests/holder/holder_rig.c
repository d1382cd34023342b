/* SPDX-License-Identifier: Apache-2.0 */
#include "holder_rig.h"
#include "served.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "client/when.h"

#define PAGE "<html>Bad Gateway</html>"

/* Renewals come when they want: they are answered from the script only by name. */
static bool is_for(const struct holder_answer *a, const char *path)
{
    bool none = !a || (!a->status && !a->body);
    return !none && (a->path ? strstr(path, a->path) != NULL : !strstr(path, "/renew"));
}

static void serve(struct rig *r, struct http_exchange *x, const struct http_request *req, int n)
{
    struct holder_rig *t = r->mine;
    const struct holder_answer *a = t->answers;
    (void)req;
    assert_true(n < RIG_REQUESTS);
    if (!is_for(a, r->requests[n].path)) {
        served_done(x, &r->requests[n]);
        return;
    }
    t->answers++;
    if (a->status == HOLD)
        rig_hold(r, x);
    else
        rig_json(x, a->status == LOST ? 502 : a->status, a->status == LOST ? PAGE : a->body);
}

/* --- the user --- */

static void on_wake(void *ctx)
{
    ((struct holder_rig *)ctx)->wakes++;
}

static void on_heard(void *ctx, const struct remote_answer *a)
{
    (void)ctx, (void)a;
}

static void keep(struct holder_rig *t, const struct holder_job *job)
{
    assert_true(t->kept_count < sizeof t->kept / sizeof *t->kept);
    struct kept *k = &t->kept[t->kept_count++];
    *k = (struct kept){.rig = t, .again = job->again, .index = job->run};
    k->run = holder_runs_hold(t->holder, job, k);
}

static void on_job(void *mine, const struct holder_job *job)
{
    struct holder_rig *t = mine;
    if (t->returns)
        holder_runs_return(t->holder, job);
    else
        keep(t, job);
}

static bool on_knows(void *mine, struct str job)
{
    (void)job;
    return ((struct holder_rig *)mine)->knows;
}

static void on_answered(void *mine, const struct remote_answer *a)
{
    struct holder_rig *t = mine;
    t->answered++;
    t->refused += a->result != CALL_DONE;
}

static void on_lost(void *mine, const struct remote_answer *a)
{
    struct kept *k = mine;
    k->run = NULL;
    k->lost++;
    k->status = a->status;
}

static void on_reported(void *mine, const struct remote_answer *a)
{
    struct kept *k = mine;
    k->run = NULL;
    k->reported++;
    k->status = a->status;
}

/* --- the rig --- */

int holder_rig_setup(void **state)
{
    void *rig;
    assert_int_equal(rig_setup(&rig), 0);
    struct holder_rig *t = ALLOC(struct holder_rig);
    t->rig = rig;
    t->rig->mine = t;
    t->rig->serve = serve;
    rig_start(t->rig);
    t->server = remote_new(&t->rig->loop, t->rig->url, &(struct call_tls){.no_token = true}, NAME);
    *state = t;
    return 0;
}

void holder_rig_start(struct holder_rig *t, const struct holder_scope *scope)
{
    static const struct holder_user user = {.wake = on_wake,
                                            .heard = on_heard,
                                            .job = on_job,
                                            .knows = on_knows,
                                            .answered = on_answered,
                                            .lost = on_lost,
                                            .reported = on_reported};
    t->holder = holder_new(
        &(struct holder_settings){
            .server = t->server, .worker = NAME, .lease = {LEASE_MS}, .timeout = {60000}},
        &user, t);
    t->claims = holder_claims_new(t->holder, scope, t);
}

int holder_rig_teardown(void **state)
{
    struct holder_rig *t = *state;
    holder_free(t->holder);
    assert_int_equal(remote_count(t->server), 0); /* it has left nothing behind */
    remote_free(t->server);
    void *rig = t->rig;
    assert_int_equal(rig_teardown(&rig), 0);
    free(t);
    return 0;
}

void holder_rig_turn(struct holder_rig *t, int64_t after_ms)
{
    t->next = (mono){0};
    holder_turn(t->holder, when_after(when_mono(), (span){after_ms}), &t->next);
    RIG_AWAIT(t->rig, remote_count(t->server) == (size_t)t->rig->held_count);
}

struct kept *holder_rig_hold(struct holder_rig *t, int n)
{
    struct holder_job job = {.run = 3, .since = when_mono()};
    char token[19];
    snprintf(token, sizeof token, "\"%016x\"", (unsigned)n);
    job.token = str_from(token);
    assert_int_equal(id_parse(str_from(holder_rig_id(n)), &job.id).code, ERR_OK);
    keep(t, &job);
    return &t->kept[t->kept_count - 1];
}

const char *holder_rig_id(int n)
{
    static char texts[4][ID_TEXT_LEN + 1];
    static unsigned next;
    char *text = texts[next++ % 4];
    uint8_t bytes[16] = {1, 2, 3, 4, 5, 6, [15] = (uint8_t)n};
    id_format(id_decode(bytes), text);
    text[ID_TEXT_LEN] = '\0';
    return text;
}

void holder_rig_assert(struct holder_rig *t, int n, const char *words)
{
    assert_true(n < t->rig->served);
    const struct rig_request *q = &t->rig->requests[n];
    char text[1024];
    snprintf(text, sizeof text, "%s %s%s%s",
             q->method == HTTP_GET      ? "GET"
             : q->method == HTTP_DELETE ? "DELETE"
                                        : "POST",
             q->path, *q->query ? "?" : "", q->query);
    assert_string_equal(text, words);
}

bool holder_rig_has(struct holder_rig *t, int n, const char *text)
{
    assert_true(n < t->rig->served);
    return strstr(t->rig->requests[n].body.at, text) != NULL;
}
