/* SPDX-License-Identifier: Apache-2.0 */

/* Whether the service is there. */

#include "base/rfc3339.h"
#include "taskcluster/tc_handlers.h"

void tc_ping(struct tc_call *c)
{
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"alive\":true,\"uptime\":");
    buf_print(b, "%lld}", (long long)((c->now.ms - c->tc->started.ms) / 1000));
    tc_reply(c, b);
}

void tc_heartbeat(struct tc_call *c)
{
    tc_reply_empty(c);
}

void tc_version(struct tc_call *c)
{
    struct buf *b = tc_body(c);
    buf_lit(b, "{\"version\":\"" TENAX_VERSION "\",\"source\":\"tenax\",\"commit\":\"\","
               "\"build\":\"\"}");
    tc_reply(c, b);
}
