/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_TASK_FILES_H
#define WORKER_TASK_FILES_H

/* The directory of a task: made for each run, removed after it. A task may put anything there,
 * symbolic links to the worker's own files too, and keep changing it: what is published is opened
 * step by step, without following a link. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define TASK_TREE_DEPTH 64

/* Why there is no artifact, in Taskcluster's terms. */
enum task_file_fault {
    TASK_FILE_FINE,
    TASK_FILE_MISSING,    /* file-missing-on-worker */
    TASK_FILE_INVALID,    /* invalid-resource-on-worker: a link, a pipe, a directory … */
    TASK_FILE_UNREADABLE, /* file-not-readable-on-worker */
    TASK_FILE_LARGE,      /* too-large-file-on-worker */
};
const char *task_file_reason(enum task_file_fault fault);
/* The same as a phrase: "there is no such file". */
const char *task_file_words(enum task_file_fault fault);

/* Opens a regular file below dir for reading; path is normalised, as in task_payload.h. */
enum task_file_fault task_file_open(int dir, const char *path, int *fd, int64_t *size);
/* Likewise a directory, also "", dir itself. */
enum task_file_fault task_file_open_directory(int dir, const char *path, int *fd);

/* Calls fn with the path of each file below a directory that was opened so, in the order of their
 * names: "a/b". Links, pipes and the like are reported too, because task_file_open says what is
 * wrong with them. False if it was more than `most`, or too deep; fn was called for some. */
bool task_file_walk(int dir, size_t most, void (*fn)(void *ctx, const char *path), void *ctx);

/* Makes dir/name, for this user only. ERR_IO; ERR_DISK_FULL if there is no room. */
NODISCARD struct err task_files_make(const char *base, const char *name, int *dir);
/* Removes base/name and everything below it, as far as that is possible. */
void task_files_remove(const char *base, const char *name);

#endif
