/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_RETRY_SECTION_H
#define SERVER_RETRY_SECTION_H

/* Puts the section retryPolicy of a configuration file into force, by the command that PUT
 * /settings/retry is, with a record of the change.
 *
 * At a start the settings as someone changed them since go before the file, for they are
 * kept over restarts: an emergency stop must not end with a crash. On SIGHUP the file counts. */

#include "backend/backend.h"

enum retry_section_when { RETRY_SECTION_START, RETRY_SECTION_RELOAD };

/* section is JSON. What comes of it is logged. *busy, if wanted, is true until it is done, and must
 * live so long. */
void retry_section_apply(struct backend *b, const char *file, struct str section,
                         enum retry_section_when when, bool *busy);

#endif
