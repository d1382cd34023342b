/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_SIMULATE_H
#define API_API_SIMULATE_H

/* What came of a simulated job, as JSON. */

#include "base/buf.h"
#include "policy/simulate.h"

/* Of `what` the job, its queue and type, and whether it is stored and completed, are looked at. */
void api_simulate_encode(struct buf *b, const struct simulate_job *what,
                         const struct simulate_result *r);

#endif
