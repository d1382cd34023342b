/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_RETRY_SECTION_H
#define SERVER_RETRY_SECTION_H

/* Puts the section retryPolicy of a configuration file into force, by the command that PUT
 * /settings/retry is, with a record of the change.
 *
 * Only a section that has changed since it was last applied takes effect, at a start and on SIGHUP
 * alike: an unchanged section must not undo what someone has set meanwhile, an emergency stop
 * maybe. */

#include "backend/backend.h"

enum retry_section_when { RETRY_SECTION_START, RETRY_SECTION_RELOAD };

/* section is JSON, or empty: the file has none. What comes of it is logged. *busy, if wanted, is
 * true until it is done, and must live so long. */
void retry_section_apply(struct backend *b, const char *file, struct str section,
                         enum retry_section_when when, bool *busy);

#endif
