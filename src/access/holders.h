/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_HOLDERS_H
#define ACCESS_HOLDERS_H

/* Who was handed which run, over either front end. A worker proves that it holds a run by what only
 * it was given with it: the run's token, or the credentials of a claim of Taskcluster's API.
 * Workers that report without these are known by this table. It is in memory and forgets the oldest
 * hand-outs, so that its size is bounded. Loop thread only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/tokens.h"
#include "base/id.h"

struct holders;

struct holding {
    char holder[TOKEN_ID_LEN]; /* who is known by the same id is the same, after a reload, too */
    uint64_t run_token;        /* of a stream's run; 0: of a claim, whose holder has to give it */
    uint32_t run;              /* its index */
};

#define HOLDERS_GENERATION 100000 /* hand-outs; two generations are kept */

struct holders *holders_new(void);
void holders_free(struct holders *h);

/* The newest run of the job was handed to this one; NULL: to somebody who is not known by a token.
 */
void holders_note(struct holders *h, struct id job, const struct token *holder, uint32_t run,
                  uint64_t run_token);
/* NULL: it is not known who holds the job. Valid until the next holders_note. */
const struct holding *holders_find(const struct holders *h, struct id job);
bool holding_is_of(const struct holding *one, const struct token *who);

#endif
