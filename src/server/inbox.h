/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_INBOX_H
#define SERVER_INBOX_H

/* Takes jobs that applications have enqueued by tenax.enqueue, inside their own transactions, into
 * the backend of the server that owns the shard.
 *
 * A thread with a connection of its own reads some rows; the loop enqueues each as if it had come
 * by POST /jobs, with the id that tenax.enqueue has returned. The batch that has the job deletes
 * the row (store/log_postgres.h), so that both happen or neither. Only when all of them are
 * answered it reads again. A row that is refused for good goes to tenax.inbox_refused, with the
 * reason; one that finds no room, or a store that has failed, stays where it is.
 *
 * While rows come it looks every few milliseconds. Otherwise it says that it sleeps, is woken by
 * NOTIFY, and looks once a second besides. */

#include "api/api.h"
#include "backend/backend.h"
#include "postgres/pg.h"

struct inbox_settings {
    struct pg_settings pg;
    int shard;
    uint64_t epoch; /* of which this server is the owner */
    struct backend *backend;
    const struct api *api;
    void (*notify)(void *ctx); /* there is something for inbox_turn. On the thread; only to wake */
    void *ctx;
};

struct inbox_state {
    uint64_t taken, refused; /* since the start */
    struct err failure;      /* of the last look into PostgreSQL, unless it succeeded */
};

struct inbox;

/* Starts the thread. ERR_IO. */
NODISCARD struct err inbox_new(const struct inbox_settings *settings, struct inbox **out);
/* In each turn of the loop, before the backend's: submits what was read. Cheap if there is nothing.
 */
void inbox_turn(struct inbox *in);
void inbox_state(struct inbox *in, struct inbox_state *out);
/* Submits nothing more, and ends the thread. Before backend_stop; rows that are under way are still
 * answered. */
void inbox_stop(struct inbox *in);
/* After backend_free. NULL is fine. */
void inbox_free(struct inbox *in);

#endif
