/* SPDX-License-Identifier: Apache-2.0 */

/* The entry of a retry with canaries. Lines: "1 state began ended since rate retried", the filter,
 * the reason, who asked, and the canaries as "id" each. Which of them have succeeded follows from
 * the events. */

#include <stdio.h>
#include <stdlib.h>

#include "api/api_canary_internal.h"
#include "base/alloc.h"

char *api_canary_text(struct str s)
{
    char *copy = alloc_get(s.len + 1);
    if (s.len)
        memcpy(copy, s.at, s.len);
    copy[s.len] = '\0';
    return copy;
}

void api_canary_write(const struct canary *c, struct buf *b)
{
    char id[ID_TEXT_LEN + 1] = "";
    buf_print(b, "1 %d %lld %lld %llu %u %llu\n%s\n%s\n%s\n", (int)c->next, (long long)c->began.ms,
              (long long)c->ended.ms, (unsigned long long)c->since, c->rate,
              (unsigned long long)c->retried, c->query, c->next_reason, c->by);
    for (size_t i = 0; i < c->count; i++) {
        id_format(c->jobs[i].id, id);
        buf_print(b, "%.25s\n", id);
    }
}

static struct str take_line(struct str *text)
{
    const char *end = text->len ? memchr(text->at, '\n', text->len) : NULL;
    struct str line = {text->at, end ? (size_t)(end - text->at) : text->len};
    size_t used = line.len + (end ? 1 : 0);
    *text = (struct str){text->at + used, text->len - used};
    return line;
}

static bool read_head(struct canary *c, struct str line)
{
    char head[160];
    int state;
    long long began, ended;
    unsigned long long since, retried;
    snprintf(head, sizeof head, "%.*s", line.len < 159 ? (int)line.len : 159, line.at);
    if (sscanf(head, "1 %d %lld %lld %llu %u %llu", &state, &began, &ended, &since, &c->rate,
               &retried) != 6 ||
        state < 0 || state >= STATES)
        return false;
    c->state = c->next = (enum canary_state)state;
    c->began.ms = began;
    c->ended.ms = ended;
    c->since = since;
    c->retried = retried;
    return true;
}

bool api_canary_load(struct canary *c, const struct kv_entry *e)
{
    struct str text = e->value;
    char key[32];
    snprintf(key, sizeof key, "%.*s", e->key.len < 31 ? (int)e->key.len : 31, e->key.at);
    c->number = strtoull(key, NULL, 10);
    bool ok = read_head(c, take_line(&text)) && c->number > 0;
    c->query = api_canary_text(take_line(&text));
    struct str reason = take_line(&text);
    snprintf(c->reason, sizeof c->reason, "%.*s", (int)reason.len, reason.len ? reason.at : "");
    memcpy(c->next_reason, c->reason, sizeof c->reason);
    c->by = api_canary_text(take_line(&text));
    c->jobs = alloc_get(CANARY_JOBS_MAX * sizeof *c->jobs);
    while (ok && text.len && c->count < CANARY_JOBS_MAX) {
        struct canary_job *job = &c->jobs[c->count++];
        *job = (struct canary_job){.succeeded = c->state == STATE_REST || c->state == STATE_DONE};
        ok = id_parse(take_line(&text), &job->id).code == ERR_OK;
    }
    c->known = true;
    c->uncounted = c->state == STATE_REST;
    return ok;
}
