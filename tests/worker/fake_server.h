/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CLI_FAKE_SERVER_H
#define TESTS_CLI_FAKE_SERVER_H

/* A server whose every answer a test decides: it listens on a free port of loopback, runs one
 * thread per connection, and passes each request to the test's function, one at a time. */

#include "base/buf.h"

enum { FAKE_HANG = -1, FAKE_DROP = -2 };

/* Writes the answer's body and returns the HTTP status; FAKE_HANG never answers,
 * FAKE_DROP closes the connection. path and body end with a NUL. */
typedef int fake_handler(void *context, const char *path, const char *body, struct buf *answer);

struct fake_server;

struct fake_server *fake_server_start(fake_handler *handler, void *context);
/* "http://127.0.0.1:PORT", valid as long as the server. */
const char *fake_server_url(const struct fake_server *s);
void fake_server_stop(struct fake_server *s);

#endif
