/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber.h"

#include <stddef.h>
#include <stdlib.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "base/alloc.h"
#include "base/must.h"

#define STACK_BYTES ((size_t)512 << 10)

struct fiber {
    ucontext_t context;
    char *stack;
    void (*fn)(void *ctx);
    void *ctx;
    int64_t wake_at;
    bool ended;
};

static struct {
    struct fiber *running;
    ucontext_t outside;
    void *fake; /* of the sanitizer, for the stack outside */
    const void *bottom;
    size_t size;
} fibers;

/* The sanitizer is told which stack follows. */
static void before_switch(void **fake, const void *bottom, size_t size)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(fake, bottom, size);
#else
    (void)fake;
    (void)bottom;
    (void)size;
#endif
}

static void after_switch(void *fake, const void **bottom, size_t *size)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, bottom, size);
#else
    (void)fake;
    (void)bottom;
    (void)size;
#endif
}

static void begin(void)
{
    struct fiber *f = fibers.running;
    after_switch(NULL, &fibers.bottom, &fibers.size);
    f->fn(f->ctx);
    f->ended = true;
    before_switch(NULL, fibers.bottom, fibers.size);
    swapcontext(&f->context, &fibers.outside);
}

struct fiber *fiber_new(void (*fn)(void *ctx), void *ctx, int64_t wake_at)
{
    struct fiber *f = ALLOC(struct fiber);
    f->fn = fn;
    f->ctx = ctx;
    f->wake_at = wake_at;
    f->stack = alloc_get(STACK_BYTES);
    must(getcontext(&f->context) == 0);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->context, begin, 0);
    return f;
}

void fiber_free(struct fiber *f)
{
    must(f->ended);
    free(f->stack);
    free(f);
}

void fiber_run(struct fiber *f)
{
    must(!fibers.running && !f->ended);
    fibers.running = f;
    f->wake_at = FIBER_NEVER;
    before_switch(&fibers.fake, f->stack, STACK_BYTES);
    must(swapcontext(&fibers.outside, &f->context) == 0);
    after_switch(fibers.fake, NULL, NULL);
    fibers.running = NULL;
}

bool fiber_has_ended(const struct fiber *f)
{
    return f->ended;
}

int64_t fiber_wake_at(const struct fiber *f)
{
    return f->ended ? FIBER_NEVER : f->wake_at;
}

void fiber_wake(struct fiber *f, int64_t at)
{
    if (at < f->wake_at)
        f->wake_at = at;
}

void fiber_sleep(int64_t until)
{
    struct fiber *f = fibers.running;
    void *fake = NULL;
    must(f);
    fiber_wake(f, until);
    before_switch(&fake, fibers.bottom, fibers.size);
    must(swapcontext(&f->context, &fibers.outside) == 0);
    after_switch(fake, &fibers.bottom, &fibers.size);
}

struct fiber *fiber_running(void)
{
    return fibers.running;
}

void *fiber_context(void)
{
    return fibers.running ? fibers.running->ctx : NULL;
}
