/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_NOTES_H
#define WORKER_NOTES_H

/* The files through which a command and its worker exchange what goes beyond the payload
 * and the exit status. Each run has a folder of its own, whose files its environment names:
 *
 *   TENAX_CHECKPOINT_IN   what an earlier run of the job left behind; empty if none did
 *   TENAX_CHECKPOINT_OUT  what the next run is to get, should there be one
 *   TENAX_PROGRESS        a number from 0 to 1 and, after a space, a note
 *   TENAX_RESULT          what a successful run is to leave with the job
 *   TENAX_TERMINATION_MESSAGE  why it fails, in words that rules of retry policies look at
 *
 * The last four are not there until the command makes them, and are read when they have
 * changed or, of the last two, at the end. What is a JSON object, array, number or literal is sent
 * as that; anything else as a string, so that a checkpoint comes back as it was written. */

#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define NOTES_VARIABLES   5
#define NOTES_DIR_MAX     300
#define NOTES_VALUE_MAX   65536 /* bytes of JSON that the server accepts */
#define NOTES_MESSAGE_MAX 4096  /* bytes of a termination message, as in Kubernetes */

enum notes_file { NOTES_PROGRESS, NOTES_CHECKPOINT, NOTES_WATCHED };

struct notes {
    char dir[NOTES_DIR_MAX]; /* empty: closed */
    /* Which version of a file was put into a request, and which one the server has. */
    struct notes_stamp {
        ino_t file;
        struct timespec changed;
        off_t size;
    } sent[NOTES_WATCHED], taken[NOTES_WATCHED];
};

/* Makes base, a folder for the folders of runs. ERR_IO. */
NODISCARD struct err notes_base(char base[NOTES_DIR_MAX]);
/* checkpoint is JSON, or empty. ERR_IO. */
NODISCARD struct err notes_open(struct notes *n, const char *base, struct str id, int64_t run,
                                struct str checkpoint);
/* "NAME=value" for its environment, in the arena. */
void notes_environment(const struct notes *n, struct arena *a, char *env[NOTES_VARIABLES]);
/* Adds `,"progress":…` and `,"checkpoint":…`, whatever changed since the server took it. What
 * cannot be sent is said on standard error and passed over. */
void notes_write_news(struct notes *n, struct buf *body);
/* The server took what was written last. */
void notes_taken(struct notes *n);
/* Adds `,"result":…` if the command left one. */
void notes_write_result(const struct notes *n, struct buf *body);
/* Adds `,"termination_message":…` if the command left one; of a long one the beginning. */
void notes_write_message(const struct notes *n, struct buf *body);
/* Adds it as it is; false if there is none. */
bool notes_read_message(const struct notes *n, struct buf *text);
/* Removes the folder. */
void notes_close(struct notes *n);

#endif
