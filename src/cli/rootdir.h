/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_ROOTDIR_H
#define CLI_ROOTDIR_H

/* For commands that are given a root directory: whether it is one, before anything is made or
 * changed there. */

#include "base/err.h"

enum rootdir_kind {
    ROOTDIR_USED, /* a server has kept jobs in it */
    ROOTDIR_ANY,  /* or it is empty, and a server will; or its server keeps them elsewhere */
};

/* ERR_USAGE: there is no such folder, or it is something else. */
NODISCARD struct err rootdir_check(const char *dir, enum rootdir_kind kind);

#endif
