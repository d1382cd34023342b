/* SPDX-License-Identifier: Apache-2.0 */
#include "server/inbox.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/id.h"
#include "base/log.h"
#include "base/must.h"
#include "base/utf8.h"
#include "postgres/pg_inbox.h"

#define ROWS_MAX 500

/* Between looks: while rows come, and how long after the last one; asleep; and after a failure. */
#define BUSY_MS    10
#define BUSY_FOR   ((span){1000})
#define ASLEEP_MS  1000
#define FAILURE_MS 500

enum phase {
    READING,   /* the thread's turn */
    READ,      /* rows are for the loop */
    SUBMITTED, /* the backend has them */
};

struct row {
    struct inbox *inbox;
    int64_t number;
    struct str job, body; /* of rows */
    struct err refused;   /* for good, or ERR_OK */
};

struct inbox {
    struct inbox_settings settings;
    pthread_t thread;
    pthread_mutex_t lock; /* of phase, stopping and state */
    int wake;             /* an eventfd: the thread is to look at phase or stopping */
    enum phase phase;
    bool stopping, joined;
    struct inbox_state state;
    /* Of whose turn it is: */
    struct pg_rows *rows;
    struct row list[ROWS_MAX];
    size_t count;
    bool postponed; /* some of them stay where they are */
    /* The loop's: */
    size_t unanswered;
    struct arena arena;
    /* The thread's: */
    struct pg *pg;
    bool asleep;
    mono last_row;
};

/* --- both --- */

static enum phase phase_of(struct inbox *in)
{
    pthread_mutex_lock(&in->lock);
    enum phase phase = in->phase;
    pthread_mutex_unlock(&in->lock);
    return phase;
}

static bool is_stopping(struct inbox *in)
{
    pthread_mutex_lock(&in->lock);
    bool stopping = in->stopping;
    pthread_mutex_unlock(&in->lock);
    return stopping;
}

static void set_phase(struct inbox *in, enum phase phase)
{
    pthread_mutex_lock(&in->lock);
    in->phase = phase;
    pthread_mutex_unlock(&in->lock);
}

static void wake_thread(struct inbox *in)
{
    uint64_t one = 1;
    must(write(in->wake, &one, sizeof one) == sizeof one);
}

/* --- by the loop --- */

static void all_answered(struct inbox *in)
{
    arena_fini(&in->arena);
    set_phase(in, READING);
    wake_thread(in);
}

/* What may go well another time stays. */
static void note_answer(struct row *row, const struct err *e)
{
    if (e->code == ERR_OK)
        return;
    if (err_retryable(e->code) || e->code == ERR_STOPPING)
        row->inbox->postponed = true;
    else
        row->refused = *e;
    /* A message that was cut off within a character is no text for PostgreSQL. */
    char *text = row->refused.msg;
    for (size_t at; row->refused.code != ERR_OK && text[at = utf8_check(str_from(text))];)
        text[at] = '?';
}

static void on_enqueued(void *ctx, const struct reply *r)
{
    struct row *row = ctx;
    struct inbox *in = row->inbox;
    note_answer(row, &r->err);
    if (r->err.code == ERR_OK) {
        pthread_mutex_lock(&in->lock);
        in->state.taken++;
        pthread_mutex_unlock(&in->lock);
    }
    if (--in->unanswered == 0)
        all_answered(in);
}

NODISCARD static struct err decode(struct inbox *in, const struct row *row, struct enqueue *spec)
{
    TRY(api_read_job(in->settings.api, row->body, &in->arena, spec));
    TRY(id_parse(row->job, &spec->id));
    spec->receipt = (uint64_t)row->number;
    return err_none();
}

static void submit(struct inbox *in, struct row *row)
{
    struct enqueue spec;
    struct err e = decode(in, row, &spec);
    if (e.code != ERR_OK) {
        note_answer(row, &e);
        return;
    }
    struct command c = {.kind = CMD_ENQUEUE,
                        .enqueue = {.specs = &spec, .count = 1},
                        .done = on_enqueued,
                        .ctx = row};
    in->unanswered++;
    backend_submit(in->settings.backend, &c);
}

void inbox_turn(struct inbox *in)
{
    if (phase_of(in) != READ || is_stopping(in))
        return;
    set_phase(in, SUBMITTED);
    in->unanswered = 1; /* an answer may not come before all are asked */
    for (size_t i = 0; i < in->count; i++)
        submit(in, &in->list[i]);
    if (--in->unanswered == 0)
        all_answered(in);
}

/* --- by the thread --- */

/* Until the loop has something for it, NOTIFY has come, or that time has passed. */
static void rest(struct inbox *in, int ms, bool listening)
{
    uint64_t count;
    struct pollfd fds[2] = {{.fd = in->wake, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (listening)
        fds[1].fd = pg_fd(in->pg);
    if (poll(fds, 2, ms) > 0 && fds[0].revents)
        must(read(in->wake, &count, sizeof count) == sizeof count);
}

NODISCARD static struct err set_asleep(struct inbox *in, bool asleep)
{
    if (in->asleep == asleep)
        return err_none();
    TRY(pg_inbox_sleep(in->pg, in->settings.shard, asleep));
    in->asleep = asleep;
    return err_none();
}

static void take_rows(struct inbox *in, struct pg_rows *rows)
{
    in->rows = rows;
    in->count = pg_rows_count(rows);
    in->postponed = false;
    must(in->count <= ROWS_MAX);
    for (size_t i = 0; i < in->count; i++)
        in->list[i] = (struct row){.inbox = in,
                                   .number = pg_get_int(rows, i, 0),
                                   .job = pg_get(rows, i, 1),
                                   .body = pg_get(rows, i, 2)};
}

static void drop_rows(struct inbox *in)
{
    pg_rows_free(in->rows);
    in->rows = NULL;
    in->count = 0;
}

static void say_refused(const struct row *row)
{
    log_warn("job %.*s of the inbox in PostgreSQL is refused, and kept in tenax.inbox_refused: %s",
             STR_ARG(row->job), row->refused.msg);
}

/* Of the rows that the backend has answered. */
NODISCARD static struct err settle(struct inbox *in)
{
    for (size_t i = 0; i < in->count; i++) {
        struct row *row = &in->list[i];
        if (row->refused.code == ERR_OK)
            continue;
        TRY(pg_inbox_refuse(in->pg, in->settings.shard, in->settings.epoch, row->number,
                            str_from(row->refused.msg)));
        say_refused(row);
        row->refused = err_none();
        pthread_mutex_lock(&in->lock);
        in->state.refused++;
        pthread_mutex_unlock(&in->lock);
    }
    return err_none();
}

NODISCARD static struct err connect_again(struct inbox *in)
{
    bool any;
    if (in->pg)
        return pg_notified(in->pg, &any);
    TRY(pg_open(&in->settings.pg, &in->pg));
    TRY(pg_listen(in->pg, PG_INBOX_CHANNEL));
    in->asleep = true; /* whatever it was, it is said anew */
    return set_asleep(in, false);
}

/* One look. Between it and the sleep no row may come unnoticed: it is announced before the look. */
NODISCARD static struct err look(struct inbox *in)
{
    struct pg_rows *rows;
    TRY(connect_again(in));
    TRY(settle(in));
    drop_rows(in);
    if (pg_now().ns > pg_after(in->last_row, BUSY_FOR).ns)
        TRY(set_asleep(in, true));
    TRY(pg_inbox_read(in->pg, in->settings.shard, ROWS_MAX, &rows));
    if (pg_rows_count(rows) == 0) {
        pg_rows_free(rows);
        return err_none();
    }
    take_rows(in, rows);
    in->last_row = pg_now();
    return set_asleep(in, false);
}

static void note_failure(struct inbox *in, struct err e)
{
    pthread_mutex_lock(&in->lock);
    bool again = in->state.failure.code == e.code;
    in->state.failure = e;
    pthread_mutex_unlock(&in->lock);
    if (e.code == ERR_OK)
        return;
    pg_close(in->pg);
    in->pg = NULL;
    if (!again)
        log_warn("the inbox in PostgreSQL cannot be read: %s", e.msg);
}

static void await_answers(struct inbox *in)
{
    set_phase(in, READ);
    in->settings.notify(in->settings.ctx);
    while (phase_of(in) != READING && !is_stopping(in))
        rest(in, -1, false);
}

static void *run(void *arg)
{
    struct inbox *in = arg;
    pthread_setname_np(pthread_self(), "inbox");
    while (!is_stopping(in)) {
        struct err e = look(in);
        note_failure(in, e);
        bool any = e.code == ERR_OK && in->count > 0;
        if (any)
            await_answers(in);
        if (e.code != ERR_OK)
            rest(in, FAILURE_MS, false);
        else if (!any || in->postponed)
            rest(in, in->asleep ? ASLEEP_MS : in->postponed ? FAILURE_MS : BUSY_MS, true);
    }
    pg_close(in->pg);
    in->pg = NULL;
    return NULL;
}

/* --- beginning and end --- */

static void fini(struct inbox *in)
{
    drop_rows(in);
    arena_fini(&in->arena);
    close(in->wake);
    pthread_mutex_destroy(&in->lock);
    free(in);
}

NODISCARD static struct err start(struct inbox *in)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int no = pthread_create(&in->thread, NULL, run, in);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return no ? err_make(ERR_IO, "cannot start a thread: %s", strerror(no)) : err_none();
}

struct err inbox_new(const struct inbox_settings *settings, struct inbox **out)
{
    struct inbox *in = ALLOC(struct inbox);
    in->settings = *settings;
    in->settings.pg.purpose = "inbox";
    in->wake = eventfd(0, EFD_CLOEXEC);
    if (in->wake < 0) {
        free(in);
        return err_make(ERR_IO, "cannot make an eventfd: %s", strerror(errno));
    }
    pthread_mutex_init(&in->lock, NULL);
    struct err e = start(in);
    if (e.code == ERR_OK)
        *out = in;
    else
        fini(in);
    return e;
}

void inbox_state(struct inbox *in, struct inbox_state *out)
{
    pthread_mutex_lock(&in->lock);
    *out = in->state;
    pthread_mutex_unlock(&in->lock);
}

void inbox_stop(struct inbox *in)
{
    if (in->joined)
        return;
    pthread_mutex_lock(&in->lock);
    in->stopping = true;
    pthread_mutex_unlock(&in->lock);
    wake_thread(in);
    pthread_join(in->thread, NULL);
    in->joined = true;
}

void inbox_free(struct inbox *in)
{
    if (!in)
        return;
    inbox_stop(in);
    fini(in);
}
