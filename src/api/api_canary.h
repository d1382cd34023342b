/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_CANARY_H
#define API_API_CANARY_H

/* Retries with canaries: some of the dead jobs that a filter selects are retried, and only if the
 * next run of each of them succeeds, the rest. Each is an entry (core/kv.h) that is durable before
 * its canaries are retried, so it goes on after a restart: what became of them since it began is in
 * the log of events. */

#include "api/api_internal.h"

#define CANARY_JOBS_MAX   100
#define CANARY_ACTIVE_MAX 16  /* that are under way at a time */
#define CANARY_KEPT_MAX   100 /* that are known; the oldest that are over go first */

struct api_canaries;

struct api_canaries *api_canaries_new(struct api *a);
void api_canaries_free(struct api_canaries *h);
/* Goes on with those that met an error. */
void api_canaries_heartbeat(struct api_canaries *h);

/* Answers a request for a retry with that many canaries; p is what it says else, and released by
 * the caller. */
void api_canary_begin(struct api *a, const struct api_request *r, const struct list_params *p,
                      uint32_t jobs);
/* The parameter `canary`: sets *known if it is that. ERR_BAD_VALUE. */
NODISCARD struct err api_canary_param(struct str name, struct str value, struct list_params *p,
                                      bool *known);
/* Completes the filter of a retry: only dead jobs, and canceled ones only if that is asked for. */
NODISCARD struct err api_retry_filter(struct job_filter *f);

/* The handlers of GET and POST. */
void api_canary_list(struct api *a, const struct api_request *r);
void api_canary_read(struct api *a, const struct api_request *r);
void api_canary_stop(struct api *a, const struct api_request *r);

extern const struct shape api_canary_shape, api_canary_list_shape;

#endif
