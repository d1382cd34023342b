/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lifecycle.h"

#include "base/must.h"

static const struct {
    const char *name, *meaning;
} statuses[STATUS_COUNT] = {
#define STATUS(name, wire, meaning) [STATUS_##name] = {wire, meaning},
#include "core/lifecycle.def"
#undef STATUS
};

static const struct {
    const char *name, *kind, *meaning;
} events[EVENT_COUNT] = {
#define EVENT(name, wire, kind, meaning) [EVENT_##name] = {wire, kind, meaning},
#include "core/lifecycle.def"
#undef EVENT
};

/* One more than the status, so that 0 is "no such move". */
static const unsigned char moves[STATUS_COUNT + 1][EVENT_COUNT] = {
#define MOVE(from, event, to) [STATUS_##from][EVENT_##event] = STATUS_##to + 1,
#include "core/lifecycle.def"
#undef MOVE
};

bool lifecycle_next(enum status from, enum event event, enum status *to)
{
    must(from <= STATUS_GONE && event < EVENT_COUNT);
    unsigned char found = moves[from][event];
    if (!found)
        return false;
    *to = (enum status)(found - 1);
    return true;
}

enum status lifecycle_move(enum status from, enum event event)
{
    enum status to;
    must(lifecycle_next(from, event, &to));
    return to;
}

bool lifecycle_is_terminal(enum status s)
{
    return s == STATUS_COMPLETED || s == STATUS_DEAD;
}

const char *lifecycle_status_name(enum status s)
{
    must(s < STATUS_COUNT);
    return statuses[s].name;
}

const char *lifecycle_status_meaning(enum status s)
{
    must(s < STATUS_COUNT);
    return statuses[s].meaning;
}

const char *lifecycle_event_name(enum event e)
{
    must(e < EVENT_COUNT);
    return events[e].name;
}

const char *lifecycle_event_meaning(enum event e)
{
    must(e < EVENT_COUNT);
    return events[e].meaning;
}

const char *lifecycle_event_kind(enum event e)
{
    must(e < EVENT_COUNT);
    return events[e].kind;
}

bool lifecycle_event_kind_is_known(struct str name)
{
    for (int i = 0; i < EVENT_COUNT; i++)
        if (str_eq(name, str_from(events[i].kind)))
            return true;
    return false;
}

bool lifecycle_status_parse(struct str name, enum status *s)
{
    for (int i = 0; i < STATUS_COUNT; i++) {
        if (str_eq(name, str_from(statuses[i].name))) {
            *s = (enum status)i;
            return true;
        }
    }
    return false;
}
