/* SPDX-License-Identifier: Apache-2.0 */
#include "api/api_history.h"

/* A page is read in one turn: some milliseconds from a cold disk. */
#define PAGE_SIZE 100

static bool is_among(const struct name_list *l, struct str name)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->at[i], name))
            return true;
    return l->count == 0;
}

/* The newest entry of a job says how many failures it has had. */
static struct api_history_job *open_job(struct api_history *h, const struct history_entry *e)
{
    struct arena *a = h->arena;
    struct api_history_job *j = ARENA_NEW(a, struct api_history_job);
    size_t left = h->limit - h->wanted;
    uint32_t failures = e->job.state.attempts;
    j->job = (struct job){.id = e->job.id, .retry_limit = RETRY_LIMIT_DEFAULT};
    j->job.queue = arena_copy(a, e->job.queue);
    j->job.type = arena_copy(a, e->job.type);
    j->job.state.status = e->succeeded ? STATUS_COMPLETED : STATUS_DEAD;
    j->wanted = failures < left ? failures : (uint32_t)left;
    j->runs = arena_zero(a, j->wanted * sizeof *j->runs);
    h->more |= j->wanted < failures;
    h->wanted += j->wanted;
    h->jobs[h->count++] = j;
    idmap_put(&h->by_id, j->job.id, j);
    return j;
}

static struct run own_run(const struct run *from, struct arena *a)
{
    struct run run = *from;
    struct failure *f = &run.failure;
    struct str *const texts[] = {
        &run.reason,  &f->message,     &f->error_type,          &f->node,
        &f->category, &f->subcategory, &f->termination_message, &f->culprit_evidence};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i] = arena_copy(a, *texts[i]);
    struct container_result *list = arena_get(a, f->container_count * sizeof *list + 1);
    for (size_t i = 0; i < f->container_count; i++) {
        list[i] = f->containers[i];
        list[i].name = arena_copy(a, list[i].name);
        list[i].reason = arena_copy(a, list[i].reason);
        list[i].message = arena_copy(a, list[i].message);
    }
    f->containers = list;
    return run;
}

static void add_failure(struct api_history *h, struct api_history_job *j,
                        const struct history_entry *e)
{
    uint32_t at = e->job.state.attempts - 1;
    if (at >= j->wanted || j->runs[at].attempt)
        return;
    j->runs[at] = own_run(&e->run, h->arena);
    j->job.retry_limit = e->job.retry_limit;
    j->job.backoff = e->job.backoff;
    j->job.options.retry_policies = arena_copy(h->arena, e->job.options.retry_policies);
    j->job.options.memory = e->job.options.memory;
    j->job.options.cpu = e->job.options.cpu;
    j->job.options.when_no_policy = e->job.options.when_no_policy;
    j->found++;
    h->found++;
}

static void see(struct api_history *h, const struct history_entry *e)
{
    struct api_history_job *j = api_history_find(h, e->job.id);
    h->looked_at++;
    if (!j && (!is_among(&h->queues, e->job.queue) || !is_among(&h->types, e->job.type)))
        return;
    if (!j && h->wanted == h->limit) {
        h->more = true;
        return;
    }
    if (!j)
        j = open_job(h, e);
    if (!e->succeeded)
        add_failure(h, j, e);
}

static void ask(struct api_history *h, uint64_t below);

static void on_page(void *ctx, const struct reply *r)
{
    struct api_history *h = ctx;
    if (r->err.code != ERR_OK) {
        h->done(h->ctx, &r->err);
        return;
    }
    const struct history_page *p = r->history;
    h->kept = p->kept;
    for (size_t i = 0; i < p->count; i++)
        see(h, &p->entries[i]);
    bool enough = h->wanted == h->limit && h->found == h->wanted;
    h->more |= enough && p->next;
    if (p->next && !enough)
        ask(h, p->next);
    else
        h->done(h->ctx, &r->err);
}

static void ask(struct api_history *h, uint64_t below)
{
    struct command c = {.kind = CMD_HISTORY_READ, .done = on_page, .ctx = h};
    c.history = (struct history_command){.below = below, .limit = PAGE_SIZE};
    backend_submit(h->backend, &c);
}

void api_history_read(struct api_history *h)
{
    h->jobs = arena_get(h->arena, h->limit * sizeof(struct api_history_job *));
    ask(h, 0);
}

struct api_history_job *api_history_find(const struct api_history *h, struct id id)
{
    return idmap_get(&h->by_id, id);
}

void api_history_fini(struct api_history *h)
{
    idmap_fini(&h->by_id);
}
