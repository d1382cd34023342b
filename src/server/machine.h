/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

/* What the operating system reports about this process. */

#include "api/api.h"

/* Sets memory, processor time and file descriptors; unavailable values stay 0. */
void machine_read(struct api_machine *m);
/* The number of open files for each part. What the store and its logs need is reserved first. */
struct machine_files {
    int64_t connections; /* of the primary listener */
    int64_t admin_connections;
    int store; /* tables that it keeps open */
};

/* Raises the process's limit of open files as far as that many connections need and the system
 * allows, and distributes them. If there is no room for all connections the log says so, as a
 * warning if the number was requested explicitly. */
struct machine_files machine_share_files(int64_t wanted, bool asked_for);

#endif
