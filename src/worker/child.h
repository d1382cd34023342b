/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_CHILD_H
#define WORKER_CHILD_H

/* A command that works on one job: it gets the payload on standard input, its
 * standard error is passed on and its end remembered. It leads a process group
 * of its own, so that Ctrl-C reaches the worker alone, and a signal from the
 * worker reaches everything the command started. Nothing here blocks. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define CHILD_TAIL_MAX 8192

struct child {
    pid_t pid;          /* 0: there is none */
    int in, err;        /* our ends of its pipes; -1: closed */
    struct str payload; /* what is left to write; borrowed */
    struct buf tail;    /* the end of its standard error */
    bool cut;           /* tail is not all of it */
    int status;         /* as of waitpid; valid once child_reap said so */
    mono started, ended;
};

/* A NULL-terminated environment: the worker's own with these "NAME=value"
 * strings, count of them, in place of what has the same name. Free with free(). */
char **child_environment(char *const *extra, size_t count);
/* Whether exec would find the command. */
bool child_can_run(const char *command);

/* ERR_IO with the reason if the command could not be started. */
NODISCARD struct err child_start(struct child *c, char *const *argv, char *const *env,
                                 struct str payload);
/* Moves what can be moved now through the pipes. */
void child_pump(struct child *c);
/* To its whole group. */
void child_signal(struct child *c, int sig);
/* True if it has ended. With sweep, what it left behind in its group is killed:
 * for a command that was told to end. */
bool child_reap(struct child *c, bool sweep);
void child_fini(struct child *c);

#endif
