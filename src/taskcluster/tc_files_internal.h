/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TASKCLUSTER_TC_FILES_INTERNAL_H
#define TASKCLUSTER_TC_FILES_INTERNAL_H

/* What tc_files.c, which has the folder, shares with the files that write and read in it. */

#include <limits.h>

#include "base/list.h"
#include "taskcluster/tc_files.h"

#define TC_FILE_PART ".part" /* the end of the name of a file that is being written */

struct tc_files {
    struct tc_files_settings settings;
    char dir[PATH_MAX];
    uint64_t used; /* what is reserved for writers included */
    struct rng rng;
    struct strmap unsettled; /* struct tc_file_writer, by name */
    struct list writers;
    int writing;       /* how many those are */
    uint64_t buffered; /* bytes that they hold */
    bool made;         /* the folder, and it is on disk */
    bool stopping;
    int jobs; /* on the thread pool */
    struct sweep *sweep;
    uv_timer_t timer;
};

/* What a file takes of the space: even an empty one takes room in the folder. */
uint64_t tc_files_charge(uint64_t size);
void tc_files_path(const struct tc_files *f, const char *name, const char *ending,
                   char path[PATH_MAX]);
/* With what errno says. */
struct err tc_files_error(const char *what, const char *path);
/* Runs a job on the thread pool; `after` begins with tc_files_ran. */
void tc_files_run(struct tc_files *f, uv_work_t *work, uv_work_cb job, uv_after_work_cb after);
void tc_files_ran(struct tc_files *f);

#endif
