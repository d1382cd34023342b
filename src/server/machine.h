/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

/* What the operating system says of this process. */

#include "api/api.h"

/* Fills in memory, processor time and file descriptors; what cannot be had stays 0. */
void machine_read(struct api_machine *m);
/* Who may have how many files open. What the store and its logs need is set aside first. */
struct machine_files {
    int64_t connections; /* of the primary listener */
    int64_t admin_connections;
    int store; /* tables that it keeps open */
};

/* Lets the process open as many files as that many connections take, as far as it may be let, and
 * shares them out. If there is no room for all connections the log says so, as a warning if someone
 * asked for that many. */
struct machine_files machine_share_files(int64_t wanted, bool asked_for);

#endif
