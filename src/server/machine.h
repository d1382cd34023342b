/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_MACHINE_H
#define SERVER_MACHINE_H

/* What the operating system says of this process. */

#include "api/api.h"

/* Fills in memory, processor time and file descriptors; what cannot be had stays 0. */
void machine_read(struct api_machine *m);
/* Lets the process open as many files as that many connections take, as far as it may be let;
 * returns how many of them there is room for. If that is not all the log says so, as a warning
 * if someone asked for that many. */
int64_t machine_fit_connections(int64_t wanted, bool asked_for);

#endif
