/* SPDX-License-Identifier: Apache-2.0 */

/* The embedded backend keeps the contract of all backends. */

#include "contract.h"
#include "yard.h"

struct rig {
    struct yard *y;
    struct memory_faults faults;
};

static void *open_rig(const struct backend_settings *settings)
{
    struct rig *r = test_calloc(1, sizeof *r);
    void *yard;
    assert_int_equal(yard_setup(&yard), 0);
    r->y = yard;
    r->y->settings = *settings;
    yard_restart(r->y);
    return r;
}

static void close_rig(void *rig)
{
    struct rig *r = rig;
    void *yard = r->y;
    assert_int_equal(yard_teardown(&yard), 0);
    test_free(r);
}

static struct backend *backend_of(void *rig)
{
    return ((struct rig *)rig)->y->b;
}

static void turn(void *rig)
{
    struct rig *r = rig;
    if (r->faults.fail != ERR_OK)
        yard_faults(r->y, r->faults); /* each fault is for one commit */
    yard_turn(r->y);
}

static instant now(void *rig)
{
    return ((struct rig *)rig)->y->now;
}

static void advance(void *rig, span by)
{
    struct rig *r = rig;
    r->y->now = instant_add(r->y->now, by);
}

static void restart(void *rig)
{
    yard_restart(((struct rig *)rig)->y);
}

static void crash(void *rig)
{
    struct rig *r = rig;
    yard_crash(r->y);
    r->faults = (struct memory_faults){0};
}

static void hold(void *rig, bool on)
{
    struct rig *r = rig;
    r->faults.hold = on;
    yard_faults(r->y, r->faults);
    if (!on)
        memory_release(r->y->store);
}

static void fill(void *rig, bool on)
{
    struct rig *r = rig;
    r->faults.fail = on ? ERR_DISK_FULL : ERR_OK;
    yard_faults(r->y, r->faults);
}

int main(void)
{
    const struct contract_driver driver = {.name = "embedded",
                                           .open = open_rig,
                                           .close = close_rig,
                                           .backend = backend_of,
                                           .turn = turn,
                                           .now = now,
                                           .advance = advance,
                                           .restart = restart,
                                           .crash = crash,
                                           .hold = hold,
                                           .fill = fill};
    return contract_run(&driver);
}
