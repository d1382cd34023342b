/* SPDX-License-Identifier: Apache-2.0 */
#include "server/owner_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "postgres/pg_shard.h"

#define EVERY_MS   1000
#define TIMEOUT_MS 1000
#define ANSWER_MAX ((size_t)64 << 10)

struct owner_probe {
    uv_timer_t timer;
    struct fetcher *fetcher;
    const struct fetch_tls *tls;
    struct fetch *asked; /* NULL: no request is under way */
    char url[PG_ADDRESS_MAX + 1];
    struct owner_health heard;
};

/* The first member of the answer: it is written by a server of the same kind. */
static void read_status(struct str body, struct owner_health *h)
{
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(body.len < 63 ? body.len : 63), body.at);
    if (sscanf(text, "{\"status\":\"%23[a-z_]\"", h->status) != 1)
        h->status[0] = '\0';
}

static void on_answer(void *ctx, const struct fetch_answer *a)
{
    struct owner_probe *p = ctx;
    p->asked = NULL;
    p->heard = (struct owner_health){.silent = a->fault != FETCH_ANSWERED, .bad = a->status == 503};
    if (!p->heard.silent)
        read_status(a->body, &p->heard);
}

static void ask(struct owner_probe *p)
{
    char url[PG_ADDRESS_MAX + 16];
    if (p->asked || !*p->url)
        return;
    snprintf(url, sizeof url, "%s/health", p->url);
    const struct fetch_spec spec = {.method = "GET",
                                    .url = url,
                                    .tls = p->tls,
                                    .connect_timeout = {TIMEOUT_MS},
                                    .timeout = {TIMEOUT_MS},
                                    .answer_max = ANSWER_MAX,
                                    .done = on_answer,
                                    .ctx = p};
    p->asked = fetch_start(p->fetcher, &spec);
}

static void on_timer(uv_timer_t *t)
{
    ask(t->data);
}

struct owner_probe *owner_probe_new(uv_loop_t *loop, const struct fetch_tls *tls)
{
    struct owner_probe *p = ALLOC(struct owner_probe);
    p->tls = tls;
    p->fetcher = fetcher_new(loop);
    uv_timer_init(loop, &p->timer);
    p->timer.data = p;
    uv_timer_start(&p->timer, on_timer, EVERY_MS, EVERY_MS);
    return p;
}

void owner_probe_at(struct owner_probe *p, const char *url)
{
    if (strcmp(p->url, url ? url : "") == 0)
        return;
    if (p->asked)
        fetch_abort(p->asked);
    p->asked = NULL;
    p->heard = (struct owner_health){0};
    snprintf(p->url, sizeof p->url, "%s", url ? url : "");
    ask(p);
}

void owner_probe_read(const struct owner_probe *p, const char *url, struct owner_health *out)
{
    *out = strcmp(p->url, url) == 0 ? p->heard : (struct owner_health){0};
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

void owner_probe_free(struct owner_probe *p)
{
    if (!p)
        return;
    fetcher_free(p->fetcher);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}
