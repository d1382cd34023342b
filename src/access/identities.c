/* SPDX-License-Identifier: Apache-2.0 */
#include "access/identities.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"

struct identities {
    struct tokens *tokens;
    struct wrong_tries *tries;
    int64_t warned_at; /* when the log last said that there are too many tries */
};

#define WARN_MS 10000

struct identities *identities_new(const struct identities_settings *settings)
{
    struct identities *i = ALLOC(struct identities);
    i->tokens = settings->tokens;
    i->tries = wrong_tries_new(settings->wrong_max, settings->seed);
    return i;
}

void identities_free(struct identities *i)
{
    if (!i)
        return;
    wrong_tries_free(i->tries);
    free(i);
}

struct err identities_wrong(struct identities *i, struct identity_request *r, instant now,
                            const struct err *err)
{
    if (err->code != ERR_BAD_CREDENTIALS)
        return *err;
    r->wait = wrong_tries_note(i->tries, str_from(r->address), now);
    if (!r->wait)
        return *err;
    if (now.ms - i->warned_at >= WARN_MS || now.ms < i->warned_at) {
        log_warn("access: too many wrong credentials from %s", *r->address ? r->address : "?");
        i->warned_at = now.ms;
    }
    return err_make(ERR_TOO_MANY_TRIES,
                    "too many wrong credentials from this address; try again in %u s", r->wait);
}

struct err identities_check(struct identities *i, struct identity_request *r, instant now,
                            struct token **who)
{
    struct str text;
    *who = NULL;
    if (!tokens_bearer(r->authorization, &text))
        return err_none();
    struct err err = tokens_check(i->tokens, text, now, who);
    return err.code == ERR_OK ? err : identities_wrong(i, r, now, &err);
}

bool identities_guard(const struct identities *i)
{
    return tokens_admins(i->tokens) > 0;
}
