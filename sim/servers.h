/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SERVERS_H
#define SIM_SERVERS_H

/* A simulation of several servers on one PostgreSQL. Each has the real member
 * (server/member_step.c), the real log (store/log_postgres.c) and the real backend with its engine,
 * and clocks of its own; PostgreSQL is a double (pg_double.h). Servers are killed, stopped for a
 * while and cut off, their loops hang, connections break, PostgreSQL ends and comes back, or
 * another takes its place that has lost commits. What must hold:
 *
 *   LEASE   a server answers and delivers only within a lease, counted by its own clock from before
 *           it asked for it; where clocks run about alike, never after another has taken the jobs
 *   EPOCH   no commit of an earlier epoch takes effect after a later one was taken
 *   I2      what was acknowledged is there, whoever owns the jobs; what was rolled back never is
 *   I3      a job is completed once, by one run, and stays so
 *   EVENTS  they have no gap, and the same number is always the same event
 *   LOST    where PostgreSQL lacks what a server has acknowledged, that server commits nothing
 * more, answers no longer than a lease, and does not own the jobs again with its copy; nobody takes
 * the jobs amid an alarm; and no server raises one without a reason PROGRESS  nobody renews the
 * lease of a server whose loop does nothing I5      when all is well again, some server owns the
 * jobs and does all of them */

#include <stdbool.h>
#include <stdint.h>

uint64_t servers_simulate(uint64_t seed, uint64_t steps, bool print);

#endif
