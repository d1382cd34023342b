/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_CHILD_H
#define WORKER_CHILD_H

/* A command that works on one job: it gets the payload on standard input; its standard error is
 * passed on, and the end of it is kept. It leads a process group of its own, so that Ctrl-C reaches
 * only the worker, and a signal from the worker reaches everything that the command started.
 * Nothing here blocks. */

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "base/units.h"

#define CHILD_TAIL_MAX 8192

/* How to start one. */
struct child_setting {
    char *const *argv;
    char *const *env;
    struct str payload;
    int dir; /* with has_dir: the directory to run in, open */
    bool has_dir;
    /* What receives all that it writes, to standard output, too; NULL: standard error is passed on
     * to ours, and standard output is ours. */
    void (*output)(void *ctx, struct str bytes);
    void *ctx;
};

struct child {
    pid_t pid;          /* 0: not running */
    int in, err;        /* our ends of its pipes; -1: closed */
    struct str payload; /* the rest, still to be written; borrowed */
    struct buf tail;    /* the end of its standard error */
    bool cut;           /* tail is not all of it */
    int status;         /* as from waitpid; valid after child_reap returned true */
    mono started, ended;
    int failure; /* errno, if it could not be started */
    void (*output)(void *ctx, struct str bytes);
    void *ctx;
};

/* A NULL-terminated environment: the worker's own, in which these `count` strings "NAME=value"
 * replace variables of the same name, and without its token. Free with free(). */
char **child_environment(char *const *extra, size_t count);
/* Whether exec would find the command. */
bool child_can_run(const char *command);

/* ERR_IO with the reason if the command could not be started. */
NODISCARD struct err child_start(struct child *c, char *const *argv, char *const *env,
                                 struct str payload);
/* The same in other surroundings. */
NODISCARD struct err child_start_as(struct child *c, const struct child_setting *s);
/* Moves data through the pipes as far as possible without blocking. */
void child_pump(struct child *c);
/* Sends the signal to its whole group. */
void child_signal(struct child *c, int sig);
/* True if it has ended. With sweep, processes that it left behind in its group are killed: for a
 * command that was told to end. */
bool child_reap(struct child *c, bool sweep);
void child_fini(struct child *c);

#endif
