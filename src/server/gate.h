/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_GATE_H
#define SERVER_GATE_H

/* The tokens of a server: read before it listens, and those taken in that were made without it. */

#include "access/identities.h"
#include "api/api.h"
#include "server/settings.h"

/* How to wait for the backend at the start. */
struct gate_loop {
    bool (*turn)(void *ctx); /* the backend has its turn; false: it has failed */
    void (*wait)(void *ctx); /* until the next one is due */
    void *ctx;
};

/* Reads the tokens that the backend keeps, then takes in those of the folder new-tokens. */
NODISCARD struct err gate_open(struct api *api, struct tokens *tokens, const char *root_dir,
                               const struct gate_loop *loop);
/* Where the disk was too full to read them, nobody is let in (tokens_unread): to be called again
 * and again, until it returns false. The struct is zero at first, and there until then. */
struct gate_retry {
    bool begun, busy;
    struct err err;
};
bool gate_retry(struct gate_retry *r, struct api *api, struct tokens *tokens, const char *root_dir);
/* At run time: takes in what is in the folder new-tokens. */
void gate_reload(struct api *api, struct tokens *tokens, const char *root_dir);

/* Whether only this machine can reach the address. */
bool gate_is_loopback(const char *host);
/* ERR_USAGE if other machines can reach a listener and nothing checks who they are: neither
 * certificates nor tokens nor other identities. */
NODISCARD struct err gate_check_hosts(const struct identities *who, const struct tokens *tokens,
                                      const struct settings *s);

#endif
