/* SPDX-License-Identifier: Apache-2.0 */
#include "net/body_memory.h"

#include <stdlib.h>

#include "base/must.h"

/* Accounts: the servers, and of each thread that reads for another one more. */
#define SLOTS 48
/* Of the room there is, what each connection that is woken may be expected to take. */
#define WAKE_STEP ((uint64_t)256 * 1024)

/* What others may see of an account; only its own thread writes. */
struct body_memory_slot {
    _Alignas(64) _Atomic uint64_t held;
    _Atomic uint64_t busy;
    _Atomic bool taken;
};

struct body_memory {
    uint64_t most;
    _Atomic uint32_t waiting; /* connections */
    _Atomic int slots;        /* that were ever taken */
    struct body_memory_slot slot[SLOTS];
};

static uint64_t get(const _Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

static void change(_Atomic uint64_t *n, uint64_t by)
{
    atomic_store_explicit(n, get(n) + by, memory_order_relaxed);
}

struct body_memory *body_memory_new(uint64_t most)
{
    struct body_memory *m = aligned_alloc(64, sizeof *m);
    must(m);
    *m = (struct body_memory){.most = most};
    return m;
}

void body_memory_free(struct body_memory *m)
{
    free(m);
}

static int slots_of(const struct body_memory *m)
{
    return atomic_load_explicit(&m->slots, memory_order_acquire);
}

uint64_t body_memory_held(const struct body_memory *m)
{
    uint64_t sum = 0;
    for (int i = 0; i < slots_of(m); i++)
        sum += get(&m->slot[i].held);
    return sum;
}

static uint64_t busy_of(const struct body_memory *m)
{
    uint64_t sum = 0;
    for (int i = 0; i < slots_of(m); i++)
        sum += get(&m->slot[i].busy);
    return sum;
}

bool body_memory_is_short(const struct body_memory *m)
{
    return atomic_load_explicit(&m->waiting, memory_order_relaxed) > 0;
}

/* --- accounts --- */

static struct body_memory_slot *take_slot(struct body_memory *m)
{
    for (int i = 0; i < SLOTS; i++) {
        bool taken = false;
        if (!atomic_compare_exchange_strong(&m->slot[i].taken, &taken, true))
            continue;
        int n = slots_of(m);
        while (n <= i && !atomic_compare_exchange_weak(&m->slots, &n, i + 1))
            ;
        return &m->slot[i];
    }
    return NULL;
}

void body_memory_open(struct body_memory_account *a, struct body_memory *m,
                      void (*wake)(struct body_memory_share *share))
{
    *a = (struct body_memory_account){.memory = m, .slot = take_slot(m), .wake = wake};
    must(a->slot);
    TAILQ_INIT(&a->waiting);
}

void body_memory_close(struct body_memory_account *a)
{
    must(TAILQ_EMPTY(&a->waiting) && !a->preferred);
    must(get(&a->slot->held) == 0 && get(&a->slot->busy) == 0);
    atomic_store(&a->slot->taken, false);
}

/* --- who may go on --- */

/* Up to here large requests may grow. */
static uint64_t large_most(const struct body_memory *m)
{
    return m->most - m->most / 4;
}

static uint64_t half_sent(const struct body_memory_share *share)
{
    return share->held - share->busy;
}

/* What waits for the server is freed without us. Only if it is not that which fills the memory must
 * somebody be read on, or each request that is read to its end would just be added to it. */
static bool is_stuck(const struct body_memory *m, uint64_t held)
{
    uint64_t busy = busy_of(m);
    return held > busy && held - busy >= large_most(m) / 2;
}

static void wait(struct body_memory_account *a, struct body_memory_share *share)
{
    if (share->waits)
        return;
    share->waits = true;
    share->waited_ms = share->aged ? share->waited_ms : 0;
    if (share->aged)
        TAILQ_INSERT_HEAD(&a->waiting, share, link);
    else
        TAILQ_INSERT_TAIL(&a->waiting, share, link);
    share->aged = true;
    atomic_fetch_add_explicit(&a->memory->waiting, 1, memory_order_relaxed);
}

static void stop_waiting(struct body_memory_account *a, struct body_memory_share *share)
{
    if (!share->waits)
        return;
    share->waits = share->grows = false;
    TAILQ_REMOVE(&a->waiting, share, link);
    atomic_fetch_sub_explicit(&a->memory->waiting, 1, memory_order_relaxed);
}

/* The one that is read on from now on, if one must be; else NULL. */
static struct body_memory_share *prefer_first(struct body_memory_account *a)
{
    struct body_memory_share *first = TAILQ_FIRST(&a->waiting);
    if (a->preferred || !first || !is_stuck(a->memory, body_memory_held(a->memory)))
        return NULL;
    a->preferred = first;
    stop_waiting(a, first);
    return first;
}

static bool has_room(const struct body_memory_account *a, const struct body_memory_share *share,
                     uint64_t held)
{
    return held < large_most(a->memory) || a->preferred == share;
}

static bool pass(struct body_memory_account *a, struct body_memory_share *share)
{
    stop_waiting(a, share);
    return true;
}

static bool queue(struct body_memory_account *a, struct body_memory_share *share)
{
    wait(a, share);
    struct body_memory_share *first = prefer_first(a);
    if (first && first != share)
        a->wake(first);
    return first == share;
}

bool body_memory_may_read(struct body_memory_account *a, struct body_memory_share *share)
{
    uint64_t held = share->held <= BODY_MEMORY_TINY ? 0 : body_memory_held(a->memory);
    if (share->held <= BODY_MEMORY_SMALL && held < a->memory->most)
        return share->grows || pass(a, share);
    return has_room(a, share, held) ? pass(a, share) : queue(a, share);
}

bool body_memory_may_grow(struct body_memory_account *a, struct body_memory_share *share)
{
    if (has_room(a, share, body_memory_held(a->memory)))
        return pass(a, share);
    if (queue(a, share))
        return true;
    share->grows = true;
    return false;
}

void body_memory_retry(struct body_memory_account *a)
{
    struct body_memory_share *share;
    if (TAILQ_EMPTY(&a->waiting))
        return;
    uint64_t held = body_memory_held(a->memory), most = large_most(a->memory);
    for (uint64_t n = held < most ? 1 + (most - held) / WAKE_STEP : 0; n; n--) {
        if (!(share = TAILQ_FIRST(&a->waiting)))
            return;
        stop_waiting(a, share);
        a->wake(share);
    }
    if ((share = prefer_first(a)))
        a->wake(share);
}

/* --- counting --- */

void body_memory_add(struct body_memory_account *a, uint64_t bytes)
{
    change(&a->slot->held, bytes);
    change(&a->slot->busy, bytes);
}

void body_memory_release(struct body_memory_account *a, uint64_t bytes)
{
    must(get(&a->slot->busy) >= bytes);
    change(&a->slot->held, -bytes);
    change(&a->slot->busy, -bytes);
    body_memory_retry(a);
}

void body_memory_count(struct body_memory_account *a, struct body_memory_share *share,
                       uint64_t held, uint64_t busy)
{
    if (held == share->held && busy == share->busy)
        return;
    bool more = held > share->held;
    must(busy <= held);
    change(&a->slot->held, held - share->held);
    change(&a->slot->busy, busy - share->busy);
    share->held = held;
    share->busy = busy;
    if (half_sent(share) <= BODY_MEMORY_TINY) {
        share->aged = false;
        if (a->preferred == share)
            a->preferred = NULL;
    }
    if (held <= BODY_MEMORY_TINY)
        stop_waiting(a, share);
    if (!more)
        body_memory_retry(a);
}

void body_memory_forget(struct body_memory_account *a, struct body_memory_share *share)
{
    stop_waiting(a, share);
    if (a->preferred == share)
        a->preferred = NULL;
    body_memory_count(a, share, 0, 0);
    body_memory_retry(a);
}

enum body_memory_verdict body_memory_judge(const struct body_memory_account *a,
                                           struct body_memory_share *share, uint64_t received,
                                           bool reading, uint64_t ms, uint64_t wait_max)
{
    if (received - share->began >= BODY_MEMORY_ADVANCE) {
        share->began = received;
        share->waited_ms = 0;
    }
    share->waited_ms += share->waits ? ms : 0;
    if (share->waits && share->waited_ms >= wait_max)
        return BODY_MEMORY_WAITED;
    if (share->waits || !reading || !body_memory_is_short(a->memory) ||
        half_sent(share) <= BODY_MEMORY_TINY || received - share->marked >= BODY_MEMORY_PROGRESS) {
        share->marked = received;
        share->idle_ms = 0;
        return BODY_MEMORY_FINE;
    }
    share->idle_ms += ms;
    return share->idle_ms >= BODY_MEMORY_PATIENCE_MS ? BODY_MEMORY_SLOW : BODY_MEMORY_FINE;
}

struct err body_memory_error(enum body_memory_verdict verdict)
{
    if (verdict == BODY_MEMORY_SLOW)
        return err_make(ERR_REQUEST_TIMEOUT, "the request arrives too slowly while others wait for "
                                             "memory");
    return err_make(ERR_BUSY, "requests of other clients take all the memory there is for them");
}
