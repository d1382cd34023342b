/* SPDX-License-Identifier: Apache-2.0 */

/* While an executor takes nothing, for it may not make pods or does not hear from its cluster, it
 * tells Tenax's server why: whoever asks why a job waits is told. The server forgets it when the
 * executor asks for jobs again, and by itself after some minutes, so it is repeated. */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/utf8.h"
#include "client/client.h"
#include "client/when.h"
#include "executor/exec_internal.h"

#define CALL_TIMEOUT ((span){15000})
#define REPEAT       ((span){60000})
/* A watch that broke off is opened again before that is worth a word. */
#define AWAY_AFTER ((span){5000})

static void on_told(void *ctx, const struct remote_answer *a)
{
    struct executor *x = ctx;
    struct exec_notice *n = &x->notice;
    bool again = a->result == CALL_UNREACHABLE || a->result == CALL_TRY_LATER;
    n->call = NULL;
    /* A server that is older than its executor does without. */
    n->tell_at = when_after(when_mono(), again ? exec_backoff(x, n->tries++) : REPEAT);
    n->tries = again ? n->tries : 0;
    exec_wake(x);
}

static void tell(struct executor *x, struct str why)
{
    struct buf path = {0}, body = {0};
    buf_lit(&path, "/workers");
    client_segment(&path, str_from(x->settings->name));
    buf_lit(&path, "/notice");
    buf_lit(&body, "{\"queues\":[");
    for (size_t i = 0; i < x->settings->queue_count; i++) {
        if (i)
            buf_byte(&body, ',');
        json_write_string(&body, str_from(x->settings->queues[i].name));
    }
    buf_lit(&body, "],\"notice\":");
    json_write_string(&body, (struct str){why.at, utf8_whole(why, EXEC_NOTICE_MAX)});
    buf_byte(&body, '}');
    x->notice.call =
        remote_ask(x->server, "PUT", client_path(&path), buf_view(&body), CALL_TIMEOUT, on_told, x);
    buf_fini(&path);
    buf_fini(&body);
}

/* Why it takes none; false if it does. */
static bool find_why(struct executor *x, mono now, struct buf *why, mono *next)
{
    struct exec_notice *n = &x->notice;
    bool away = !exec_watch_usable(x);
    if (!away)
        n->away_since = (mono){0};
    else if (!n->away_since.ns)
        n->away_since = now;
    if (exec_access_is_suspended(&x->access)) {
        buf_str(why, str_from(x->access.why));
        return true;
    }
    if (!away)
        return false;
    mono said = when_after(n->away_since, AWAY_AFTER);
    if (said.ns > now.ns) {
        exec_sooner(next, said);
        return false;
    }
    return exec_watch_say(x, why);
}

void exec_notice_turn(struct executor *x, mono now, mono *next)
{
    struct exec_notice *n = &x->notice;
    struct buf why = {0};
    if (x->stopping || !find_why(x, now, &why, next)) {
        exec_notice_fini(x);
        buf_fini(&why);
        return;
    }
    /* Another reason is told once the one before has been. */
    if (!n->call && (!n->why || !str_eq(buf_view(&why), str_from(n->why)))) {
        free(n->why);
        n->why = alloc_text(why.at, why.len);
        n->tell_at = now;
    }
    if (!n->call && n->tell_at.ns <= now.ns)
        tell(x, buf_view(&why));
    else if (!n->call)
        exec_sooner(next, n->tell_at);
    buf_fini(&why);
}

void exec_notice_fini(struct executor *x)
{
    free(x->notice.why);
    x->notice.why = NULL;
}
