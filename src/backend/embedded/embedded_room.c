/* SPDX-License-Identifier: Apache-2.0 */

/* Logs when the disk begins or ceases to have room for jobs, so that operators do not have to hear
 * of it from clients. */

#include "backend/embedded/embedded_internal.h"
#include "base/log.h"

/* An improvement is logged only after this time, so that a disk at the edge of the limit does not
 * fill the log. */
#define QUIET_MS 5000

static enum room room_of(const struct embedded *b)
{
    if (b->health == HEALTH_FAILED)
        return b->blind ? ROOM_BLIND : ROOM_FAILED;
    if (b->free_space < 0 || (uint64_t)b->free_space >= b->settings.min_free_space)
        return ROOM_ENOUGH;
    return (uint64_t)b->free_space >= b->settings.min_free_space / 2 ? ROOM_LOW : ROOM_STARVED;
}

static void log_room(const struct embedded *b, enum room room)
{
    long long left = (long long)(b->free_space >> 20);
    unsigned long long reserve = b->settings.min_free_space >> 20;
    switch (room) {
    case ROOM_ENOUGH:
        log_warn("the disk has %lld MiB left: jobs are accepted again", left);
        return;
    case ROOM_LOW:
        log_warn("the disk has %lld MiB left, and --min-free-space is %llu MiB: new jobs are "
                 "refused, those that are there go on",
                 left, reserve);
        return;
    case ROOM_STARVED:
        log_warn("the disk has %lld MiB left, and half of --min-free-space is %llu MiB: nothing is "
                 "stored and no job is handed out; reading and deleting go on",
                 left, reserve / 2);
        return;
    case ROOM_FAILED:
        log_warn("nothing can be stored, and what was under way was answered with the error; it is "
                 "tried again every second: %s",
                 b->failure.msg);
        return;
    case ROOM_BLIND:
        log_error(
            "nothing can be stored and no job be read, and all requests about jobs are answered "
            "with the error; it is tried again every second: %s",
            b->failure.msg);
        return;
    }
}

void embedded_room_log(struct embedded *b)
{
    enum room room = room_of(b);
    if (room == b->room_logged ||
        (room < b->room_logged && b->now.ms - b->room_logged_at.ms < QUIET_MS))
        return;
    log_room(b, room);
    b->room_logged = room;
    b->room_logged_at = b->now;
}
