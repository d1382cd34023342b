/* SPDX-License-Identifier: Apache-2.0 */
#include "contract_reports.h"

void contract_reports(struct run_ref held, struct id ready, struct command *c)
{
    static struct run_report reports[3]; /* they last until they are answered */
    static struct failure_report failure;
    failure = (struct failure_report){.failure = {.message = {"no", 2}, .run_time = {-1}},
                                      .grace = {-1},
                                      .retry_at = INSTANT_NONE};
    reports[0] = (struct run_report){.kind = CMD_FAIL, .run = held, .failure = &failure};
    reports[1] = reports[0];
    reports[1].same_as = 1;
    reports[2] = (struct run_report){.kind = CMD_SUCCEED, .run = {.id = ready, .token = 1}};
    c->report_many.at = reports;
    c->report_many.count = 3;
}

bool contract_one_left_out(const struct reply *r)
{
    return r->count == 1 && r->renewed[0].code == ERR_NOT_IN_FLIGHT;
}

bool contract_one_reported(const struct reply *r)
{
    return r->count == 3 && r->reported[0].job->state.attempts == 1 &&
           r->reported[1].job == r->reported[0].job && r->reported[2].code == ERR_STALE &&
           r->reported[2].message.len > 0;
}

bool contract_one_renewed(const struct reply *r)
{
    return r->count == 2 && r->renewed[0].code == ERR_OK && r->renewed[0].lease_end.ms > 0 &&
           r->renewed[1].code == ERR_STALE && r->renewed[1].message.len > 0;
}
