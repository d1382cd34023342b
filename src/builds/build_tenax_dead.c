/* SPDX-License-Identifier: Apache-2.0 */

/* Dead jobs whose builds were not told: see build_tenax.h. A page of them at a time, from the
 * oldest; as these are settled they are deleted, and make room for the next. */

#include <inttypes.h>
#include <stdio.h>

#include "builds/build_tenax_internal.h"
#include "client/client.h"
#include "client/view.h"
#include "client/when.h"

#define PAGE     20
#define PERIOD   ((span){60000})
#define SOON     ((span){2000})
#define YOUNG_MS INT64_C(5000) /* whoever let it die is telling its build */
/* All but those that somebody canceled. */
#define ENDS                                                                                       \
    "failed,claim-expired,poison,deadline-exceeded,worker-shutdown,intermittent-task,"             \
    "malformed-payload,resource-unavailable,internal-error,superseded,dependency-dead,"            \
    "wait-exceeded,gang-dead"

static bool is_young(const struct tenax *t, struct str job)
{
    instant died = view_time(job, "failed_at");
    return instant_is_set(died) && when_now().ms + t->ahead_ms - died.ms < YOUNG_MS;
}

static enum build_channel channel_of(const struct tenax *t, struct str job)
{
    struct arena a = {0};
    bool main = str_eq(view_text(&a, job, "queue"), str_from(t->claims[BUILD_CHANNEL_MAIN].queue));
    arena_fini(&a);
    return main ? BUILD_CHANNEL_MAIN : BUILD_CHANNEL_READY;
}

static void read_page(struct tenax *t, struct str body)
{
    struct str job;
    size_t count = 0;
    bool young = false;
    for (struct view_list l = view_list(view_get(body, "jobs")); view_next(&l, &job); count++) {
        if (is_young(t, job))
            young = true;
        else
            tenax_jobs_found_dead(t, channel_of(t, job), job);
    }
    t->scan_due = when_after(when_mono(), young || count == PAGE ? SOON : PERIOD);
}

static void on_listed(void *ctx, const struct remote_answer *a)
{
    struct tenax *t = ctx;
    t->scan = NULL;
    tenax_note(t, a);
    if (a->result == CALL_DONE) {
        t->scan_tries = 0;
        read_page(t, a->body);
    } else {
        t->scan_due = tenax_again(t, t->scan_tries++);
    }
    tenax_wake(t, t->scan_due);
}

void tenax_dead_turn(struct tenax *t, mono now, mono *next)
{
    struct buf path = {0}, queues = {0};
    char number[24];
    if (t->scan || t->quiet)
        return;
    if (t->scan_due.ns > now.ns) {
        holder_sooner(next, t->scan_due);
        return;
    }
    buf_print(&queues, "%s%s%s", t->claims[BUILD_CHANNEL_MAIN].queue, t->verified ? "," : "",
              t->verified ? t->claims[BUILD_CHANNEL_READY].queue : "");
    buf_lit(&path, "/jobs");
    client_query(&path, "queue", client_path(&queues));
    client_query(&path, "status", "dead");
    client_query(&path, "resolution", ENDS);
    snprintf(number, sizeof number, "%" PRId64,
             when_now().ms + t->ahead_ms - build_span(t->settings, BUILD_MAIN_TTL).ms);
    client_query(&path, "since", number);
    snprintf(number, sizeof number, "%d", PAGE);
    client_query(&path, "limit", number);
    t->scan = remote_ask(t->remote, "GET", client_path(&path), (struct str){0}, TENAX_CALL_TIMEOUT,
                         on_listed, t);
    buf_fini(&path);
    buf_fini(&queues);
}
