/* SPDX-License-Identifier: Apache-2.0 */
#include "jq/pool.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/must.h"
#include "jq/frame.h"
#include "jq/pool_task.h"

#define START_LIMIT_MS 20000 /* for a process to start, on a busy machine */
#define PROCESSES_MAX  64
#define RECHECK_MS     5

enum mood {
    HELPER_NONE,     /* no process */
    HELPER_STARTING, /* not ready yet; may already have its task */
    HELPER_IDLE,
    HELPER_BUSY,
    HELPER_ENDING, /* killed, or its pipe broke: waiting for its exit */
};

enum end_cause { END_BY_ITSELF, END_TIME, END_WALL, END_BUDGET, END_STALL, END_SIZE };

/* A moment of a task. */
struct moment {
    int64_t cpu_ms; /* processor time of the helper since it was started */
    int64_t ms;     /* by uv_hrtime */
};

struct helper {
    struct pool *pool;
    enum mood mood;
    enum end_cause cause;
    uv_process_t process;
    uv_pipe_t in, out; /* its standard input and output */
    uv_timer_t clock;
    int open_handles; /* of process, in and out */
    int64_t exit_code;
    int signal;
    struct buf said; /* not parsed yet */
    struct pool_task *task;
    bool began;          /* whether it has begun to read the task */
    struct moment begin; /* when it did */
    struct moment heard; /* when it last answered, or began */
    struct moment now;   /* when it was last looked at */
    bool late;           /* it was over a limit when the clock was last looked at */
    uint64_t served;
};

struct pool {
    struct evaluator evaluator; /* must be first */
    uv_loop_t *loop;
    struct pool_settings settings;
    struct pool_line filters, others;
    int count; /* of helpers: one more than `processes`, which never runs filters */
    bool closing;
    int open_handles; /* while closing */
    struct helper helpers[];
};

struct pool_settings pool_defaults(void)
{
    return (struct pool_settings){.processes = 2,
                                  .time_limit = {1000},
                                  .wall_limit = {5000},
                                  .memory_limit = 256u << 20,
                                  .queue_max = 4096,
                                  .queue_bytes = 64u << 20,
                                  .answer_max = 16u << 20};
}

static void finish(struct pool_task *t, const struct err *err, span spent)
{
    bool good = err->code == ERR_OK;
    t->done(t->ctx, err, good ? t->answers : NULL, good ? t->count : 0, spent);
    pool_task_free(t);
}

static struct pool_line *line_of(struct pool *p, const struct pool_task *t)
{
    return t->is_filter ? &p->filters : &p->others;
}

/* --- the life of a process --- */

static void pump(struct pool *p);

static void end(struct helper *h, enum end_cause cause)
{
    if (h->mood == HELPER_ENDING || h->mood == HELPER_NONE)
        return;
    h->mood = HELPER_ENDING;
    h->cause = cause;
    uv_timer_stop(&h->clock);
    uv_process_kill(&h->process, SIGKILL);
}

static void set_clock(struct helper *h, uv_timer_cb expired, span limit)
{
    uv_update_time(h->pool->loop);
    uv_timer_start(&h->clock, expired, (uint64_t)limit.ms, 0);
}

/* Where a helper's processor time cannot be read, all time counts. Not for one that has ended. */
static void look_at(struct helper *h)
{
    clockid_t clock;
    struct timespec ts;
    h->now.ms = (int64_t)(uv_hrtime() / 1000000);
    if (clock_getcpuclockid(h->process.pid, &clock) == 0 && clock_gettime(clock, &ts) == 0)
        h->now.cpu_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    else
        h->now.cpu_ms = h->now.ms;
}

/* How much is charged for a millisecond by the clock. */
static double clock_price(const struct pool_settings *s)
{
    return (double)s->time_limit.ms / (double)s->wall_limit.ms;
}

/* Processor time, or the clock's in the ratio of the two limits, whichever is more: so a limit ends
 * what is slow on a busy machine as it ends what is slow by itself. */
static int64_t charged(const struct helper *h, const struct moment *from)
{
    int64_t cpu = h->now.cpu_ms - from->cpu_ms;
    int64_t wall = (int64_t)((double)(h->now.ms - from->ms) * clock_price(&h->pool->settings));
    return cpu > wall ? cpu : wall;
}

/* What the task had been charged when the helper was last looked at. */
static span spent_by(const struct helper *h)
{
    return (span){h->began ? charged(h, &h->begin) : 0};
}

/* Why the helper is over the limit of one evaluation. */
static enum end_cause cause_of(const struct helper *h)
{
    int64_t cpu = h->now.cpu_ms - h->heard.cpu_ms;
    if (cpu >= h->pool->settings.time_limit.ms)
        return END_TIME;
    return cpu > 0 ? END_WALL : END_STALL;
}

/* How much more may be charged before the next answer. *cause: which limit that is. */
static int64_t left_to(const struct helper *h, enum end_cause *cause)
{
    span limit = h->pool->settings.time_limit, all = h->task->left;
    int64_t left = limit.ms - charged(h, &h->heard);
    *cause = cause_of(h);
    if (all.ms > 0 && all.ms - spent_by(h).ms < left) {
        left = all.ms - spent_by(h).ms;
        *cause = END_BUDGET;
    }
    return left;
}

/* The soonest that so much can have been charged. */
static span soonest(const struct helper *h, int64_t left)
{
    double price = clock_price(&h->pool->settings);
    int64_t ms = price > 1 ? (int64_t)((double)left / price) : left;
    return (span){ms > RECHECK_MS ? ms : RECHECK_MS};
}

/* The task is answered on the process's exit, not here: an exit arrives in the loop's I/O phase,
 * after which a turn of the backend follows. What is over a limit is looked at twice, because
 * answers may be waiting to be read when the loop was busy. */
static void on_task_clock(uv_timer_t *t)
{
    struct helper *h = t->data;
    enum end_cause cause;
    look_at(h);
    int64_t left = left_to(h, &cause);
    if (left <= 0 && h->late) {
        end(h, cause);
        return;
    }
    h->late = left <= 0;
    set_clock(h, on_task_clock, soonest(h, left));
}

/* Sets the time limit until the next answer. */
static void set_task_clock(struct helper *h)
{
    enum end_cause cause;
    look_at(h);
    h->heard = h->now;
    if (!h->began)
        h->begin = h->now;
    h->began = true;
    h->late = false;
    int64_t left = left_to(h, &cause);
    set_clock(h, on_task_clock, soonest(h, left));
}

static void on_start_clock(uv_timer_t *t)
{
    end(t->data, END_STALL);
}

static struct err error_of(const struct helper *h)
{
    const struct pool_settings *s = &h->pool->settings;
    if (h->cause == END_TIME)
        return err_make(ERR_UNPROCESSABLE, "the expression ran longer than %lld ms and was stopped",
                        (long long)s->time_limit.ms);
    if (h->cause == END_WALL)
        return err_make(ERR_UNPROCESSABLE,
                        "the expression took longer than %lld ms by the clock and was stopped",
                        (long long)s->wall_limit.ms);
    if (h->cause == END_BUDGET)
        return err_make(ERR_UNPROCESSABLE,
                        "the expressions of this request ran too long in total, and were stopped");
    if (h->cause == END_STALL)
        return err_make(ERR_BUSY,
                        "the machine is too busy: the process that runs the expression made no "
                        "progress; try again");
    if (h->cause == END_SIZE)
        return err_make(ERR_UNPROCESSABLE, "the expression makes more than %zu bytes",
                        s->answer_max);
    if (h->exit_code == FRAME_EXIT_MEMORY)
        return err_make(ERR_UNPROCESSABLE,
                        "the expression needs more than %llu MiB of memory and was stopped",
                        (unsigned long long)(s->memory_limit >> 20));
    if (h->signal == SIGSEGV || h->signal == SIGABRT || h->signal == SIGBUS)
        return err_make(ERR_UNPROCESSABLE, "the expression crashed jq, as too deep nesting does");
    return err_make(ERR_INTERNAL, "the process that ran the expression ended (%s %d)",
                    h->signal ? "signal" : "exit code", h->signal ? h->signal : (int)h->exit_code);
}

static void after_end(struct helper *h)
{
    struct pool *p = h->pool;
    struct pool_task *t = h->task;
    bool again = t && h->exit_code == FRAME_EXIT_MEMORY && h->served > 0 && !t->again;
    struct err err = error_of(h);
    span spent = spent_by(h);
    h->mood = HELPER_NONE;
    h->task = NULL;
    h->began = false;
    h->said.len = 0;
    if (again) {
        /* Garbage of earlier expressions may have been the cause. */
        t->again = true;
        t->count = 0;
        pool_line_add(line_of(p, t), t, true);
    } else if (t) {
        finish(t, &err, spent);
    }
    pump(p);
}

static void pool_handle_closed(struct pool *p)
{
    if (--p->open_handles > 0)
        return;
    for (int i = 0; i < p->count; i++)
        buf_fini(&p->helpers[i].said);
    free(p);
}

static void on_closed(uv_handle_t *handle)
{
    struct helper *h = handle->data;
    if (h->pool->closing) {
        pool_handle_closed(h->pool);
        return;
    }
    if (--h->open_handles == 0)
        after_end(h);
}

static void on_exit_of(uv_process_t *process, int64_t code, int signal)
{
    struct helper *h = process->data;
    uv_timer_stop(&h->clock);
    h->exit_code = code;
    h->signal = signal;
    h->mood = HELPER_ENDING;
    uv_close((uv_handle_t *)&h->process, on_closed);
    uv_close((uv_handle_t *)&h->in, on_closed);
    uv_close((uv_handle_t *)&h->out, on_closed);
}

/* --- its answers --- */

static void add_answer(struct helper *h, bool truth, struct str payload)
{
    struct pool_task *t = h->task;
    if (t->count < t->expected)
        t->answers[t->count++] = (struct eval_answer){truth, payload};
}

/* Ends the request; `said` is what its answers point into. */
static void complete(struct helper *h, const struct err *err)
{
    struct pool_task *t = h->task;
    struct buf said = h->said;
    span spent = spent_by(h);
    h->said = (struct buf){0};
    h->task = NULL;
    h->began = false;
    h->mood = HELPER_IDLE;
    h->served++;
    uv_timer_stop(&h->clock);
    finish(t, err, spent);
    buf_fini(&said);
    pump(h->pool);
}

static bool is_complete(const struct pool_task *t)
{
    bool lacks_payload =
        t->is_fold && t->count == 1 && t->answers[0].truth && !t->answers[0].payload.at;
    return t->count == t->expected && !lacks_payload;
}

/* True if nothing more is to be read from `said`. */
static bool understand(struct helper *h, enum frame_kind kind, struct str body)
{
    struct err err = err_none();
    if (kind == FRAME_READY) {
        h->mood = h->task ? HELPER_BUSY : HELPER_IDLE;
        if (h->task)
            set_task_clock(h);
        else
            uv_timer_stop(&h->clock);
        return false;
    }
    if (!h->task)
        return false;
    switch (kind) {
    case FRAME_TRUE:
    case FRAME_FALSE:
        add_answer(h, kind == FRAME_TRUE, (struct str){0});
        return false;
    case FRAME_JSON:
        h->task->answers[0].payload = body;
        return false;
    case FRAME_ERROR:
        err = err_make(ERR_UNPROCESSABLE, "%.*s", STR_ARG(body));
        complete(h, &err);
        return true;
    case FRAME_END:
        if (!is_complete(h->task))
            break;
        complete(h, &err);
        return true;
    case FRAME_READY:
    case FRAME_STEP:
        return false;
    }
    /* A violation of the protocol: the helper is broken. */
    end(h, END_BY_ITSELF);
    return true;
}

/* A payload is the last frame but one, so everything parsed before the end of the request can stay
 * where it is. */
static void listen_to(struct helper *h)
{
    size_t pos = 0;
    uint32_t len;
    while (h->said.len - pos >= sizeof len) {
        memcpy(&len, h->said.at + pos, sizeof len);
        if (len > h->pool->settings.answer_max + 1) {
            end(h, END_SIZE);
            return;
        }
        if (len == 0) {
            end(h, END_BY_ITSELF);
            return;
        }
        if (h->said.len - pos - sizeof len < len)
            break;
        const char *frame = h->said.at + pos + sizeof len;
        if (*frame == FRAME_JSON)
            break;
        pos += sizeof len + len;
        if (understand(h, (enum frame_kind) * frame, (struct str){frame + 1, len - 1}))
            return;
    }
    buf_drop(&h->said, pos);
    /* A payload and the end after it are parsed together. */
    if (h->said.len < sizeof len + 1 || h->said.at[sizeof len] != FRAME_JSON)
        return;
    memcpy(&len, h->said.at, sizeof len);
    size_t whole = sizeof len + len;
    if (h->said.len < whole + sizeof len + 1)
        return;
    if (!h->task || h->said.at[whole + sizeof len] != FRAME_END) {
        end(h, END_BY_ITSELF);
        return;
    }
    understand(h, FRAME_JSON, (struct str){h->said.at + sizeof len + 1, len - 1});
    understand(h, FRAME_END, (struct str){0});
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct helper *h = handle->data;
    *buf = uv_buf_init(buf_room(&h->said, suggested), (unsigned)suggested);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct helper *h = stream->data;
    (void)buf;
    if (h->mood == HELPER_ENDING)
        return;
    if (n < 0) {
        end(h, END_BY_ITSELF);
        return;
    }
    h->said.len += (size_t)n;
    if (h->mood == HELPER_BUSY)
        set_task_clock(h);
    listen_to(h);
}

/* --- starting and sending --- */

static struct err start(struct helper *h)
{
    struct pool *p = h->pool;
    char memory[24];
    snprintf(memory, sizeof memory, "%llu", (unsigned long long)p->settings.memory_limit);
    char *args[] = {"tenax", "jq-helper", memory, NULL};
    char *environment[] = {NULL};
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&h->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&h->out},
        {.flags = UV_IGNORE},
    };
    uv_process_options_t options = {
        .file = p->settings.program ? p->settings.program : "/proc/self/exe",
        .args = args,
        .env = environment,
        .stdio = stdio,
        .stdio_count = 3,
        .exit_cb = on_exit_of,
    };
    uv_pipe_init(p->loop, &h->in, 0);
    uv_pipe_init(p->loop, &h->out, 0);
    h->process.data = h->in.data = h->out.data = h;
    h->open_handles = 3;
    h->cause = END_BY_ITSELF;
    h->exit_code = h->signal = 0;
    h->served = 0;
    int bad = uv_spawn(p->loop, &h->process, &options);
    if (bad) {
        h->mood = HELPER_ENDING;
        h->exit_code = 127;
        uv_close((uv_handle_t *)&h->process, on_closed);
        uv_close((uv_handle_t *)&h->in, on_closed);
        uv_close((uv_handle_t *)&h->out, on_closed);
        return err_make(ERR_INTERNAL, "cannot start a process for jq: %s", uv_strerror(bad));
    }
    h->mood = HELPER_STARTING;
    set_clock(h, on_start_clock, (span){START_LIMIT_MS});
    uv_read_start((uv_stream_t *)&h->out, give_room, on_read);
    return err_none();
}

static void on_written(uv_write_t *w, int status)
{
    /* A helper that does not read has ended, which is noticed elsewhere. */
    (void)status;
    free(w);
}

/* The frame stays with the task, because it may be sent again. */
struct write {
    uv_write_t req; /* must be first */
    char bytes[];
};

static void give(struct helper *h)
{
    struct buf *frame = &h->task->frame;
    struct write *w = alloc_get(sizeof *w + frame->len);
    memcpy(w->bytes, frame->at, frame->len);
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)frame->len);
    if (uv_write(&w->req, (uv_stream_t *)&h->in, &buf, 1, on_written))
        free(w);
}

/* Among the first `most`. */
static struct helper *with_mood(struct pool *p, int most, enum mood mood)
{
    for (int i = 0; i < most; i++)
        if (p->helpers[i].mood == mood)
            return &p->helpers[i];
    return NULL;
}

/* The idle helper that has most likely compiled the expression. The last helper never gets a
 * filter, so that batched enqueues need not wait for filters. */
static struct helper *choose(struct pool *p, const struct pool_task *t)
{
    int most = p->settings.processes;
    struct helper *h = &p->helpers[t->affinity % (uint64_t)most];
    if (h->mood == HELPER_IDLE || h->mood == HELPER_NONE)
        return h;
    h = with_mood(p, most, HELPER_IDLE);
    if (!h)
        h = with_mood(p, most, HELPER_NONE);
    if (h || t->is_filter)
        return h;
    h = with_mood(p, p->count, HELPER_IDLE);
    return h ? h : with_mood(p, p->count, HELPER_NONE);
}

static void begin(struct helper *h, struct pool_task *t)
{
    h->task = t;
    if (h->mood == HELPER_NONE) {
        /* If it cannot start, its handles close, and then the task is answered. */
        struct err err = start(h);
        if (err.code != ERR_OK)
            return;
    } else {
        h->mood = HELPER_BUSY;
        set_task_clock(h);
    }
    give(h);
}

static bool pump_line(struct pool *p, struct pool_line *l)
{
    if (list_is_empty(&l->tasks))
        return false;
    struct helper *h = choose(p, LIST_OF(l->tasks.next, struct pool_task, node));
    if (!h)
        return false;
    begin(h, pool_line_take(l));
    return true;
}

static void pump(struct pool *p)
{
    while (!p->closing && (pump_line(p, &p->others) || pump_line(p, &p->filters))) {
    }
}

/* --- interface --- */

static struct err submit(struct evaluator *e, const struct eval_request *r)
{
    struct pool *p = (struct pool *)e;
    struct pool_task *t = pool_task_new(r);
    struct pool_line *l = line_of(p, t);
    bool full = l->count >= p->settings.queue_max ||
                (l->count > 0 && l->bytes + t->frame.len > p->settings.queue_bytes);
    if (full) {
        pool_task_free(t);
        return err_make(ERR_BUSY, "%zu jq expressions are waiting already", l->count);
    }
    pool_line_add(l, t, false);
    pump(p);
    return err_none();
}

struct pool *pool_new(uv_loop_t *loop, const struct pool_settings *settings)
{
    must(settings->processes > 0 && settings->processes <= PROCESSES_MAX);
    int count = settings->processes + 1;
    struct pool *p = alloc_zero(sizeof *p + (size_t)count * sizeof(struct helper));
    p->count = count;
    p->evaluator.submit = submit;
    p->loop = loop;
    p->settings = *settings;
    list_init(&p->filters.tasks);
    list_init(&p->others.tasks);
    for (int i = 0; i < count; i++) {
        struct helper *h = &p->helpers[i];
        h->pool = p;
        h->clock.data = h;
        uv_timer_init(loop, &h->clock);
        /* Waiting for an expression does not keep the loop alive by itself. */
        uv_unref((uv_handle_t *)&h->clock);
    }
    return p;
}

static void close_handle(struct helper *h, uv_handle_t *handle)
{
    h->pool->open_handles++;
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

void pool_close(struct pool *p)
{
    p->closing = true;
    while (!list_is_empty(&p->filters.tasks))
        pool_task_free(pool_line_take(&p->filters));
    while (!list_is_empty(&p->others.tasks))
        pool_task_free(pool_line_take(&p->others));
    for (int i = 0; i < p->count; i++) {
        struct helper *h = &p->helpers[i];
        if (h->task)
            pool_task_free(h->task);
        h->task = NULL;
        close_handle(h, (uv_handle_t *)&h->clock);
        if (h->mood == HELPER_NONE)
            continue;
        if (!uv_is_closing((uv_handle_t *)&h->process))
            uv_process_kill(&h->process, SIGKILL);
        close_handle(h, (uv_handle_t *)&h->process);
        close_handle(h, (uv_handle_t *)&h->in);
        close_handle(h, (uv_handle_t *)&h->out);
    }
}

struct evaluator *pool_evaluator(struct pool *p)
{
    return &p->evaluator;
}

int pool_pids(const struct pool *p, int *pids, int most)
{
    int n = 0;
    for (int i = 0; i < p->count && n < most; i++)
        if (p->helpers[i].mood != HELPER_NONE && p->helpers[i].mood != HELPER_ENDING)
            pids[n++] = p->helpers[i].process.pid;
    return n;
}
