/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_API_H
#define API_API_H

/* The Jobs API over HTTP: requests become commands, replies become JSON. The wire
 * format is that of Zizq's HTTP API 0.6.1, so that its clients work unmodified, and what
 * Tenax adds to it (docs/api.md). Runs on the loop thread; keeps no job. */

#include "backend/backend.h"
#include "net/http.h"

struct api;

struct api_settings {
    bool strict; /* refuse fields and parameters that are not known, instead of ignoring them */
};

struct api *api_new(struct backend *backend, const struct api_settings *settings);
/* All exchanges must have ended. */
void api_free(struct api *a);
/* The http_handler; ctx is the api. */
void api_handle(void *ctx, struct http_exchange *x, const struct http_request *req);
/* Sends a blank line on every open stream, so that both sides notice a dead peer. */
void api_heartbeat(struct api *a);

#endif
