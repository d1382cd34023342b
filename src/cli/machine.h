/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_MACHINE_H
#define CLI_MACHINE_H

/* What the operating system says of this process. */

#include "api/api.h"

/* Fills in memory, processor time and file descriptors; what cannot be had stays 0. */
void machine_read(struct api_machine *m);

#endif
