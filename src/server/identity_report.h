/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_IDENTITY_REPORT_H
#define SERVER_IDENTITY_REPORT_H

/* Who may do what, for people: `serve --print-access`. Nothing in it is secret. */

#include "server/identity_set.h"

/* Prints it on standard output: listeners, tokens, rules. */
void identity_report(const struct identity_set *who, const struct settings *s, instant now);

#endif
