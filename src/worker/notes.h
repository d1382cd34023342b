/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_NOTES_H
#define WORKER_NOTES_H

/* The files through which a command and its worker exchange more than the payload and the exit
 * status. Each run has a folder of its own, whose files are named in the command's environment:
 *
 *   TENAX_CHECKPOINT_IN   the checkpoint of an earlier run of the job; empty if there is none
 *   TENAX_CHECKPOINT_OUT  the checkpoint for the next run, should there be one
 *   TENAX_PROGRESS        a number from 0 to 1 and, after a space, a note
 *   TENAX_RESULT          the result that a successful run stores with the job
 *   TENAX_TERMINATION_MESSAGE  the reason of a failure, which rules of retry policies can match
 *   TENAX_READY_AT        when a job that is given back may be handed out again
 *
 * The last five do not exist until the command creates them. They are read when they have changed
 * or, in the case of the last three, at the end. A JSON object, array, number or literal is sent as
 * such; anything else as a string, so that a checkpoint comes back as it was written. */

#include <sys/stat.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/units.h"

#define NOTES_VARIABLES   6
#define NOTES_DIR_MAX     300
#define NOTES_VALUE_MAX   65536 /* bytes of JSON that the server accepts */
#define NOTES_MESSAGE_MAX 4096  /* bytes of a termination message, as in Kubernetes */

enum notes_file { NOTES_PROGRESS, NOTES_CHECKPOINT, NOTES_WATCHED };

struct notes {
    char dir[NOTES_DIR_MAX]; /* empty: closed */
    /* Which version of a file was sent in a request, and which one the server has. */
    struct notes_stamp {
        ino_t file;
        struct timespec changed;
        off_t size;
    } sent[NOTES_WATCHED], taken[NOTES_WATCHED];
};

/* Creates base, a folder for the folders of runs. ERR_IO. */
NODISCARD struct err notes_base(char base[NOTES_DIR_MAX]);
/* checkpoint is JSON, or empty. ERR_IO. */
NODISCARD struct err notes_open(struct notes *n, const char *base, struct str id, int64_t run,
                                struct str checkpoint);
/* "NAME=value" for the command's environment, in the arena. */
void notes_environment(const struct notes *n, struct arena *a, char *env[NOTES_VARIABLES]);
/* Adds `,"progress":…` and `,"checkpoint":…` if they changed since the server last accepted them.
 * Reports on standard error what cannot be sent, and leaves it out. */
void notes_write_news(struct notes *n, struct buf *body);
/* The server has accepted what was last written. */
void notes_taken(struct notes *n);
/* Adds `,"result":…` if the command left one. */
void notes_write_result(const struct notes *n, struct buf *body);
/* Adds `,"termination_message":…` if the command left one; only the beginning of a long one. */
void notes_write_message(const struct notes *n, struct buf *body);
/* Adds its raw text; false if there is none. */
bool notes_read_message(const struct notes *n, struct buf *text);
/* Adds the same as `,"message":…`, why the job is given back. */
void notes_write_why(const struct notes *n, struct buf *body);
/* Adds `,"ready_at":…` if the command left a time, or a duration from now on. */
void notes_write_ready_at(const struct notes *n, instant now, struct buf *body);
/* Removes the folder. */
void notes_close(struct notes *n);

#endif
