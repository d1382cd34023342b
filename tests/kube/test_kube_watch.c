/* SPDX-License-Identifier: Apache-2.0 */
#include "kube_rig.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "kube/kube_watch.h"

/* What a watch reported, as text: "+a1 " for object a in version 1, "-a " for its removal, "s " for
 * a complete list, "!Reason " for a failure. */
struct log {
    struct rig *rig;
    struct kube_watch *watch;
    struct buf text;
    char message[500];
    int changed, removed, synced, failed;
    bool free_at_change;
    int pages; /* of many */
};

static void say(struct log *l, const char *what)
{
    buf_print(&l->text, "%s ", what);
    *buf_room(&l->text, 1) = '\0';
}

static void on_changed(void *ctx, const struct kube_watch_object *o)
{
    struct log *l = ctx;
    char what[64];
    l->changed++;
    if (l->pages)
        return;
    snprintf(what, sizeof what, "+%.*s%.*s", STR_ARG(o->name), STR_ARG(o->version));
    say(l, what);
    assert_true(o->json.len && o->json.at[0] == '{');
    if (l->free_at_change)
        kube_watch_free(l->watch);
}

static void on_removed(void *ctx, const struct kube_watch_object *o)
{
    struct log *l = ctx;
    char what[64];
    l->removed++;
    snprintf(what, sizeof what, "-%.*s%s", STR_ARG(o->name), o->json.len ? "" : "?");
    say(l, what);
}

static void on_synced(void *ctx)
{
    struct log *l = ctx;
    l->synced++;
    say(l, "s");
}

static void on_failed(void *ctx, const struct kube_answer *answer)
{
    struct log *l = ctx;
    char what[64];
    l->failed++;
    snprintf(what, sizeof what, "!%s", kube_answer_reason_name(answer->reason));
    snprintf(l->message, sizeof l->message, "%.*s", STR_ARG(answer->message));
    say(l, what);
}

static struct kube_watch_spec spec_of(struct log *l)
{
    struct kube_watch_spec s = kube_watch_defaults();
    s.path = "/api/v1/namespaces/n/pods";
    s.changed = on_changed;
    s.removed = on_removed;
    s.synced = on_synced;
    s.failed = on_failed;
    s.ctx = l;
    return s;
}

/* Takes the text that was reported so far. */
static void expect(struct rig *r, struct log *l, const char *want)
{
    RIG_AWAIT(r, l->text.len >= strlen(want));
    assert_string_equal(l->text.at, want);
    l->text.len = 0;
}

/* An object of the list or stream. */
#define POD(name, uid, version)                                                                    \
    "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\","                   \
    "\"uid\":\"" uid "\",\"resourceVersion\":\"" version "\"},\"spec\":{}}"
#define LIST(version, next, items)                                                                 \
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version "\","                     \
    "\"continue\":\"" next "\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define VERSION(version)    "{\"metadata\":{\"resourceVersion\":\"" version "\"}}"
#define BOOKMARK(version)   EVENT("BOOKMARK", VERSION(version))
#define STATUS(members)     "{\"kind\":\"Status\"," members "}"
#define EXPIRED             STATUS("\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"")

/* A list answers lists (the n-th call to the server is answered by the n-th text, the last one for
 * ever); a watch is a stream. */
static const char *const *lists;
static int list_count;

static void serve(struct rig *r, struct http_exchange *x, const struct http_request *req, int n)
{
    (void)n;
    struct buf q = {0};
    buf_str(&q, req->query);
    buf_byte(&q, '\0');
    if (strstr(q.at, "watch=true")) {
        rig_stream(r, x);
    } else {
        rig_json(x, 200, lists[list_count]);
        if (lists[list_count + 1])
            list_count++;
    }
    buf_fini(&q);
}

#define LISTS(...)                                                                                 \
    do {                                                                                           \
        static const char *const lists_[] = {__VA_ARGS__, NULL};                                   \
        lists = lists_;                                                                            \
        list_count = 0;                                                                            \
    } while (0)

static void start(struct rig *r, struct log *l, const struct kube_watch_spec *spec)
{
    l->rig = r;
    if (!r->serve)
        r->serve = serve;
    if (!r->client)
        rig_start(r);
    l->watch = kube_watch_new(r->client, spec);
    assert_int_equal(l->text.len, 0);
}

static void finish(struct log *l)
{
    if (l->watch)
        kube_watch_free(l->watch);
    buf_fini(&l->text);
}

static const char *query_of(struct rig *r, int n)
{
    return r->requests[n].query;
}

/* A watch of one object in version 1, of a list in version 5, with its stream open. */
static void open_one(struct rig *r, struct log *l, const struct kube_watch_spec *spec)
{
    start(r, l, spec);
    expect(r, l, "+a1 s ");
    RIG_AWAIT(r, r->stream && kube_watch_is_live(l->watch));
}

/* --- lists --- */

static void a_list_comes_in_pages(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("7", "p 2", POD("a", "ua", "1") "," POD("b", "ub", "2")),
          LIST("7", "p3", POD("c", "uc", "3")), LIST("7", "", ""));
    struct kube_watch_spec s = spec_of(&l);
    s.page = 2;
    s.label_selector = "x=y,z";
    s.field_selector = "status.phase!=Failed";
    start(r, &l, &s);
    expect(r, &l, "+a1 +b2 +c3 s ");
    RIG_AWAIT(r, r->stream);
    assert_int_equal(kube_watch_count(l.watch), 3);
    const char *selectors = "&labelSelector=x%3Dy%2Cz&fieldSelector=status.phase%21%3DFailed";
    char want[200];
    snprintf(want, sizeof want, "limit=2%s", selectors);
    assert_string_equal(query_of(r, 0), want);
    snprintf(want, sizeof want, "limit=2%s&continue=p%%202", selectors);
    assert_string_equal(query_of(r, 1), want);
    snprintf(want, sizeof want, "limit=2%s&continue=p3", selectors);
    assert_string_equal(query_of(r, 2), want);
    snprintf(want, sizeof want, "%s&resourceVersion=7", selectors);
    assert_non_null(strstr(query_of(r, 3), want));
    assert_non_null(strstr(query_of(r, 3), "watch=true&allowWatchBookmarks=true&timeoutSeconds="));
    assert_int_equal(kube_client_counters(r->client)->lists, 1);
    finish(&l);
}

static void an_empty_list_is_one(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS("{\"metadata\":{\"resourceVersion\":\"3\"},\"items\":null}");
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "s ");
    RIG_AWAIT(r, kube_watch_is_live(l.watch));
    finish(&l);
}

static void serve_expiring_pages(struct rig *r, struct http_exchange *x,
                                 const struct http_request *req, int n)
{
    if (n == 1)
        rig_json(x, 410, EXPIRED);
    else
        serve(r, x, req, n);
}

static void a_page_that_expired_begins_the_list_anew(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("7", "p2", POD("a", "ua", "1") "," POD("b", "ub", "1")),
          LIST("9", "", POD("b", "ub", "1") "," POD("c", "uc", "8")));
    r->serve = serve_expiring_pages;
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "+a1 +b1 +c8 -a? s ");
    assert_string_equal(query_of(r, 2), "limit=500");
    assert_int_equal(l.failed, 0);
    finish(&l);
}

static void a_page_that_is_none_is_a_failure(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS("{\"items\":[]}", "{\"metadata\":{},\"items\":[]}",
          "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":{}}", LIST("1", "", "{}"),
          LIST("1", "", "{\"metadata\":{\"name\":\"a/b\"}}"),
          "{\"metadata\":", LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "!Malformed !Malformed !Malformed !Malformed !Malformed !Malformed +a1 s ");
    finish(&l);
}

static void serve_forbidden(struct rig *r, struct http_exchange *x, const struct http_request *req,
                            int n)
{
    if (n < 2)
        rig_json(x, 403,
                 "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"may not list\"}");
    else
        serve(r, x, req, n);
}

static void a_refusal_is_reported_and_tried_again(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    r->serve = serve_forbidden;
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "!Forbidden !Forbidden +a1 s ");
    assert_string_equal(l.message, "may not list");
    finish(&l);
}

/* --- the stream --- */

static void what_happens_is_reported(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    rig_send(r, EVENT("ADDED", POD("b", "ub", "6")) EVENT("MODIFIED", POD("a", "ua", "7")));
    expect(r, &l, "+b6 +a7 ");
    rig_send(r, EVENT("MODIFIED", POD("a", "ua", "7")) EVENT("NOVEL", "{}")
                    EVENT("DELETED", POD("b", "ub", "8")) EVENT("DELETED", POD("b", "ub", "8")));
    expect(r, &l, "-b ");
    /* Another one of the same name. */
    rig_send(r, EVENT("ADDED", POD("a", "other", "9")));
    expect(r, &l, "-a? +a9 ");
    assert_int_equal(kube_watch_count(l.watch), 1);
    finish(&l);
}

static void lines_may_come_in_any_pieces(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    const char *text = EVENT("ADDED", POD("b", "ub", "6")) "\n" EVENT("ADDED", POD("c", "uc", "7"));
    for (const char *at = text; *at; at++) {
        rig_send(r, (char[]){*at, '\0'});
        rig_settle(r);
    }
    expect(r, &l, "+b6 +c7 ");
    finish(&l);
}

static void await_new_stream(struct rig *r, int closed)
{
    RIG_AWAIT(r, r->streams_closed == closed && r->stream);
}

static void an_ended_stream_is_resumed_where_it_was(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    rig_send(r, EVENT("MODIFIED", POD("a", "ua", "6")));
    expect(r, &l, "+a6 ");
    http_stream_end(r->stream);
    await_new_stream(r, 1);
    assert_non_null(strstr(query_of(r, 2), "&resourceVersion=6"));
    rig_send(r, BOOKMARK("17"));
    rig_settle(r);
    http_stream_end(r->stream);
    await_new_stream(r, 2);
    assert_non_null(strstr(query_of(r, 3), "&resourceVersion=17"));
    rig_send(r, EVENT("DELETED", POD("a", "ua", "18")));
    expect(r, &l, "-a ");
    http_stream_end(r->stream);
    await_new_stream(r, 3);
    assert_non_null(strstr(query_of(r, 4), "&resourceVersion=18"));
    assert_int_equal(l.failed, 0);
    const struct kube_counters *c = kube_client_counters(r->client);
    assert_int_equal(c->lists, 1);
    RIG_AWAIT(r, c->watch_starts == 4);
    assert_int_equal(c->watch_restarts, 3);
    finish(&l);
}

static void half_a_line_does_not_count(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    rig_send(r, EVENT("ADDED", POD("b", "ub", "6")) "{\"type\":\"ADDED\",\"object\":{\"meta");
    expect(r, &l, "+b6 ");
    http_stream_abort(r->stream);
    await_new_stream(r, 1);
    expect(r, &l, "!Lost ");
    assert_non_null(strstr(query_of(r, 2), "&resourceVersion=6"));
    /* A whole event, but for its line feed. */
    rig_send(r, "{\"type\":\"ADDED\",\"object\":" POD("c", "uc", "7") "}");
    rig_settle(r);
    http_stream_end(r->stream);
    await_new_stream(r, 2);
    assert_non_null(strstr(query_of(r, 3), "&resourceVersion=6"));
    rig_send(r, EVENT("ADDED", POD("c", "uc", "7")));
    expect(r, &l, "+c7 ");
    finish(&l);
}

/* --- 410 --- */

static void expired_in_the_stream_lists_again(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1") "," POD("b", "ub", "2")),
          LIST("50", "", POD("b", "ub", "2") "," POD("c", "uc", "40")));
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "+a1 +b2 s ");
    RIG_AWAIT(r, r->stream);
    rig_send(r, EVENT("ERROR", EXPIRED));
    expect(r, &l, "+c40 -a? s ");
    await_new_stream(r, 1);
    assert_non_null(strstr(query_of(r, 3), "&resourceVersion=50"));
    assert_int_equal(l.failed, 0);
    assert_int_equal(kube_client_counters(r->client)->watch_expired, 1);
    finish(&l);
}

static void serve_expired_watch(struct rig *r, struct http_exchange *x,
                                const struct http_request *req, int n)
{
    if (n == 1)
        rig_json(x, 410, EXPIRED);
    else
        serve(r, x, req, n);
}

static void expired_as_the_answer_lists_again(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")), LIST("50", "", ""));
    r->serve = serve_expired_watch;
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "+a1 s -a? s ");
    RIG_AWAIT(r, r->stream);
    finish(&l);
}

/* A server that never remembers is asked less and less. */
static void serve_always_expired(struct rig *r, struct http_exchange *x,
                                 const struct http_request *req, int n)
{
    serve(r, x, req, n);
    if (r->stream)
        rig_send(r, EVENT("ERROR", EXPIRED));
}

static void expired_for_ever_is_no_busy_loop(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    r->serve = serve_always_expired;
    r->settings.backoff_first = (span){60000};
    r->settings.backoff_max = (span){60000};
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "+a1 s s ");
    RIG_AWAIT(r, r->streams_closed == 2);
    rig_settle(r);
    assert_int_equal(r->served, 4);
    finish(&l);
}

static void other_errors_in_the_stream(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")), LIST("9", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    /* A passing one: resumed. */
    rig_send(r, EVENT("ERROR", "{\"kind\":\"Status\",\"code\":500,\"message\":\"etcd\"}"));
    expect(r, &l, "!InternalError ");
    await_new_stream(r, 1);
    assert_non_null(strstr(query_of(r, 2), "&resourceVersion=5"));
    /* Another: listed again. */
    rig_send(r, EVENT("ERROR", "{\"kind\":\"Status\",\"code\":400,\"message\":\"what?\"}"));
    expect(r, &l, "!BadRequest s ");
    assert_string_equal(l.message, "what?");
    finish(&l);
}

/* --- faults --- */

static void rubbish_in_the_stream_lists_again(void **state)
{
    static const char *const rubbish[] = {
        "rubbish\n",
        "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"ADDED\",\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":7}}}\n",
        "{\"type\":5,\"object\":{}}\n",
        "[]\n",
    };
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    for (size_t i = 0; i < COUNT(rubbish); i++) {
        rig_send(r, rubbish[i]);
        expect(r, &l, "!Malformed s ");
        await_new_stream(r, (int)i + 1);
    }
    finish(&l);
}

static void an_object_over_the_limit_is_not_kept(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    s.object_max = 100000;
    open_one(r, &l, &s);
    char part[10001];
    memset(part, 'x', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    rig_send(r, "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"");
    for (int i = 0; i < 100 && !l.failed; i++) {
        rig_send(r, part);
        rig_settle(r);
    }
    expect(r, &l, "!Malformed s ");
    await_new_stream(r, 1);
    assert_non_null(strstr(l.message, "an object of more than 100000 bytes"));
    finish(&l);
}

static void silence_is_a_fault(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    s.stall = (span){40};
    start(r, &l, &s);
    expect(r, &l, "+a1 s !TimedOut ");
    RIG_AWAIT(r, r->served >= 3);
    assert_non_null(strstr(query_of(r, 2), "&resourceVersion=5"));
    assert_true(kube_client_counters(r->client)->watch_stalls >= 1);
    finish(&l);
}

static void a_server_that_restarts_is_found_again(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")), LIST("9", "", POD("a", "ua", "8")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    rig_cut(r);
    RIG_AWAIT(r, l.failed >= 3);
    assert_false(kube_watch_is_live(l.watch));
    rig_listen(r);
    RIG_AWAIT(r, l.synced == 2);
    RIG_AWAIT(r, kube_watch_is_live(l.watch));
    assert_int_equal(l.changed, 2);
    assert_int_equal(l.removed, 0);
    rig_send(r, EVENT("DELETED", POD("a", "ua", "10")));
    RIG_AWAIT(r, l.removed == 1);
    finish(&l);
}

static void it_may_be_freed_from_a_callback(void **state)
{
    struct rig *r = *state;
    struct log l = {.free_at_change = true};
    LISTS(LIST("5", "", POD("a", "ua", "1") "," POD("b", "ub", "1")));
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    expect(r, &l, "+a1 ");
    rig_settle(r);
    l.watch = NULL;
    l.free_at_change = false;
    start(r, &l, &s); /* another one */
    expect(r, &l, "+a1 +b1 s ");
    finish(&l);
}

static void in_the_stream_too(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    LISTS(LIST("5", "", POD("a", "ua", "1")));
    struct kube_watch_spec s = spec_of(&l);
    open_one(r, &l, &s);
    l.free_at_change = true;
    rig_send(r, EVENT("ADDED", POD("b", "ub", "6")) EVENT("ADDED", POD("c", "uc", "7")));
    RIG_AWAIT(r, r->streams_closed == 1);
    assert_string_equal(l.text.at, "+b6 ");
    l.watch = NULL;
    finish(&l);
}

/* --- many --- */

#define MANY     50000
#define PAGE     500
#define HOLD_MAX 50 /* ms */

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A page of pods of two kilobytes each. */
static void serve_many(struct rig *r, struct http_exchange *x, const struct http_request *req,
                       int n)
{
    struct log *l = r->mine;
    (void)n;
    if (l->pages * PAGE >= MANY) {
        serve(r, x, req, n);
        return;
    }
    struct buf b = {0};
    l->pages++;
    buf_print(&b, "{\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"%s\"},\"items\":[",
              l->pages * PAGE < MANY ? "more" : "");
    for (int i = 0; i < PAGE; i++)
        buf_print(&b,
                  "%s{\"metadata\":{\"name\":\"pod-%d-%d\",\"namespace\":\"n\",\"uid\":\"u%d\","
                  "\"resourceVersion\":\"%d\",\"annotations\":{\"x\":\"%02000d\"}}}",
                  i ? "," : "", l->pages, i, i, i, i);
    buf_lit(&b, "]}");
    http_reply(x, 200, STR("application/json"), buf_view(&b), NULL);
    buf_fini(&b);
}

static void fifty_thousand_objects_do_not_hold_up_the_loop(void **state)
{
    struct rig *r = *state;
    struct log l = {0};
    int64_t longest = 0;
    LISTS("{}");
    r->serve = serve_many;
    r->mine = &l;
    struct kube_watch_spec s = spec_of(&l);
    start(r, &l, &s);
    rig_guard(r, __FILE__, __LINE__, "the list");
    while (!l.synced) {
        assert_int_equal(l.failed, 0);
        int64_t from = cpu_ns();
        rig_step(r);
        int64_t took = cpu_ns() - from;
        longest = took > longest ? took : longest;
    }
    rig_unguard(r);
    assert_int_equal(l.changed, MANY);
    assert_int_equal(kube_watch_count(l.watch), MANY);
    print_message("the longest round took %.1f ms of processor time\n", (double)longest / 1e6);
    assert_true(longest < (int64_t)HOLD_MAX * 1000000);
    finish(&l);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_list_comes_in_pages),
        T(an_empty_list_is_one),
        T(a_page_that_expired_begins_the_list_anew),
        T(a_page_that_is_none_is_a_failure),
        T(a_refusal_is_reported_and_tried_again),
        T(what_happens_is_reported),
        T(lines_may_come_in_any_pieces),
        T(an_ended_stream_is_resumed_where_it_was),
        T(half_a_line_does_not_count),
        T(expired_in_the_stream_lists_again),
        T(expired_as_the_answer_lists_again),
        T(expired_for_ever_is_no_busy_loop),
        T(other_errors_in_the_stream),
        T(rubbish_in_the_stream_lists_again),
        T(an_object_over_the_limit_is_not_kept),
        T(silence_is_a_fault),
        T(a_server_that_restarts_is_found_again),
        T(it_may_be_freed_from_a_callback),
        T(in_the_stream_too),
        T(fifty_thousand_objects_do_not_hold_up_the_loop),
    };
    return cmocka_run_group_tests_name("kube/kube_watch", tests, NULL, NULL);
}
