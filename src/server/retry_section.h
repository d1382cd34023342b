/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_RETRY_SECTION_H
#define SERVER_RETRY_SECTION_H

/* Applies the section retryPolicy of a configuration file, by the same command as PUT
 * /settings/retry, with a record of the change.
 *
 * Only a section that has changed since it was last applied takes effect, at a start and on SIGHUP
 * alike: an unchanged section must not undo what someone has set meanwhile, for example an
 * emergency stop. */

#include "backend/backend.h"

enum retry_section_when { RETRY_SECTION_START, RETRY_SECTION_RELOAD };

/* section is JSON, or empty: the file has none. The result is logged. *busy, if wanted, is true
 * until it is done, and must live that long. */
void retry_section_apply(struct backend *b, const char *file, struct str section,
                         enum retry_section_when when, bool *busy);

/* Logs what stands of retry policies and settings and was most likely not meant. *busy as above. */
void retry_section_warn(struct backend *b, bool *busy);

#endif
