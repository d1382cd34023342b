/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_EXECUTOR_PROCESS_H
#define WORKER_EXECUTOR_PROCESS_H

/* Runs a command for each job: the payload is its standard input, exit status 0 is success, and
 * files named in its environment carry the rest (worker/notes.h). */

#include "worker/executor.h"

/* Where a failing command names the category of its failure: in the last line `category=NAME` or
 * `category=NAME/SUBCATEGORY` of that text. */
enum executor_category { CATEGORY_SERVER, CATEGORY_STDERR, CATEGORY_MESSAGE };

struct executor_process_args {
    char *const *command;
    const char *worker, *url; /* for the command's environment */
    int64_t kill_exit;        /* exit code that kills the job; 0: none */
    int64_t give_back_exit;   /* exit code that gives it back; 0: none */
    enum executor_category category_from;
};

/* The arguments must live as long as the executor. ERR_IO if the folder for its files cannot be
 * created. Free with executor_free. */
NODISCARD struct err executor_process_new(const struct executor_process_args *args,
                                          struct executor **out);

#endif
