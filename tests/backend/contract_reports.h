/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONTRACT_REPORTS_H
#define TESTS_CONTRACT_REPORTS_H

/* Examples of requests with many reports, and what they are answered. */

#include "core/command.h"

/* A failure of a run that is held, the same again, and a success of a job that nobody holds. */
void contract_reports(struct run_ref held, struct id ready, struct command *c);

bool contract_one_left_out(const struct reply *r);
bool contract_one_renewed(const struct reply *r);
bool contract_one_reported(const struct reply *r);

#endif
