/* SPDX-License-Identifier: Apache-2.0 */
#include "server/member.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/must.h"
#include "server/member_internal.h"

/* --- the thread --- */

/* Until the next step, or until there is something to do. */
static void rest(struct member *m)
{
    int64_t ms = member_rest_ms(m);
    struct pollfd on[2] = {{.fd = m->wake, .events = POLLIN},
                           {.fd = m->pg ? pg_fd(m->pg) : -1, .events = POLLIN}};
    int n = poll(on, 2, (int)ms);
    uint64_t drained;
    bool any;
    if (n > 0 && on[0].revents && read(m->wake, &drained, sizeof drained) < 0)
        must(errno == EAGAIN);
    if (n > 0 && on[1].revents && m->pg && pg_notified(m->pg, &any).code != ERR_OK)
        member_disconnect(m);
}

static void *run(void *arg)
{
    struct member *m = arg;
    pthread_setname_np(pthread_self(), "tenax-member");
    while (!atomic_load(&m->stop) && member_role_of(m) != MEMBER_OVER) {
        member_step(m);
        member_compare_clocks(m);
        if (!atomic_load(&m->stop) && member_role_of(m) != MEMBER_OVER)
            rest(m);
    }
    /* Until somebody stops it: the process may do other things first. */
    while (!atomic_load(&m->stop)) {
        struct pollfd on = {.fd = m->wake, .events = POLLIN};
        if (poll(&on, 1, -1) > 0) {
            uint64_t drained;
            if (read(m->wake, &drained, sizeof drained) < 0)
                must(errno == EAGAIN);
        }
    }
    member_say_farewell(m);
    return NULL;
}

/* --- from outside --- */

static void member_free(struct member *m)
{
    if (m->wake >= 0)
        close(m->wake);
    member_fini(m);
    free(m);
}

struct err member_start(const struct member_settings *settings, struct member **out)
{
    struct member *m = ALLOC(struct member);
    member_init(m, settings, (uint64_t)pg_now().ns ^ ((uint64_t)getpid() << 32));
    struct err err = settings->patient ? err_make(ERR_POSTGRES, "PostgreSQL has not been asked yet")
                                       : member_connect(m);
    if (err.code != ERR_OK && !settings->patient) {
        member_free(m);
        return err;
    }
    if (err.code != ERR_OK) {
        m->state.reached = false;
        snprintf(m->state.why, sizeof m->state.why, "%s", err.msg);
    }
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(m->wake >= 0);
    must(pthread_create(&m->thread, NULL, run, m) == 0);
    *out = m;
    return err_none();
}

void member_read(struct member *m, struct member_state *out)
{
    pthread_mutex_lock(&m->lock);
    *out = m->state;
    pthread_mutex_unlock(&m->lock);
    int64_t left = (member_owned_until(m).ns - pg_now().ns) / 1000000;
    out->left = (span){out->role == MEMBER_OWNER && left > 0 ? left : 0};
}

/* How long the server that ends waits for it. */
#define ALARM_MS 5000

struct err member_raise_alarm(struct member *m, const char *why)
{
    struct pg *pg;
    struct pg_settings settings = m->settings.pg;
    const struct pg_seen seen = {.epoch = atomic_load(&m->epoch_had),
                                 .seq = atomic_load(&m->acked)};
    settings.timeout.ms = ALARM_MS;
    settings.purpose = "alarm";
    TRY(pg_open(&settings, &pg));
    pg_until(pg, pg_after(pg_now(), settings.timeout));
    struct err e = pg_alarm_raise(pg, m->settings.shard, m->settings.name, &seen, why);
    pg_close(pg);
    return e;
}

static void wake(struct member *m)
{
    must(write(m->wake, &(uint64_t){1}, sizeof(uint64_t)) == sizeof(uint64_t));
}

void member_release(struct member *m)
{
    atomic_store(&m->release, true);
    wake(m);
    pthread_mutex_lock(&m->lock);
    while (m->state.role == MEMBER_OWNER) {
        mono until = pg_after(pg_now(), m->settings.lease);
        struct timespec at = {until.ns / 1000000000, until.ns % 1000000000};
        if (pthread_cond_timedwait(&m->released, &m->lock, &at) != 0)
            break;
    }
    pthread_mutex_unlock(&m->lock);
}

uint64_t member_look(struct member *m)
{
    uint64_t number = atomic_fetch_add(&m->looks_wanted, 1) + 1;
    wake(m);
    return number;
}

void member_stand_aside(struct member *m)
{
    atomic_store(&m->aside, true);
}

void member_stop(struct member *m)
{
    if (!m)
        return;
    atomic_store(&m->stop, true);
    wake(m);
    pthread_join(m->thread, NULL);
    member_free(m);
}
