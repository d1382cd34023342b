/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_IDENTITY_SET_H
#define SERVER_IDENTITY_SET_H

/* All who may use a server: its tokens, the rules of --identities, the keys of issuers,
 * and who was handed which run. */

#include <uv.h>

#include "access/holders.h"
#include "access/identities.h"
#include "api/api.h"
#include "server/settings.h"

struct issuers;

struct identity_set {
    struct tokens *tokens;
    struct identities *identities;
    struct issuers *issuers;
    struct holders *holders;
};

/* now(NULL) is the time. ERR_USAGE: the file of --identities is wrong. */
NODISCARD struct err identity_set_open(struct identity_set *w, uv_loop_t *loop,
                                       instant (*now)(void *ctx), uint64_t seed,
                                       const struct settings *s);
/* Reads the file again. If it is wrong all stays as it was, and the log says so. */
void identity_set_reload(struct identity_set *w, const struct settings *s, struct api *api);
/* The loop must run once more before it may be closed. Does nothing to what was not opened. */
void identity_set_close(struct identity_set *w);
/* After that, and after the front ends are gone. */
void identity_set_free(struct identity_set *w);

#endif
