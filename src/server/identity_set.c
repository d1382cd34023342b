/* SPDX-License-Identifier: Apache-2.0 */
#include "server/identity_set.h"

#include "base/log.h"
#include "server/identities_file.h"
#include "server/issuers.h"

static struct err read_rules(struct identity_set *w, const struct settings *s)
{
    struct identity_rules rules = {0};
    if (s->identities)
        TRY(identities_file_read(s->identities, &rules));
    identities_set_rules(w->identities, &rules);
    issuers_follow(w->issuers, w->identities);
    return err_none();
}

struct err identity_set_open(struct identity_set *w, uv_loop_t *loop, instant (*now)(void *ctx),
                             uint64_t seed, const struct settings *s)
{
    w->tokens = tokens_new();
    w->holders = holders_new();
    w->issuers = issuers_new(loop, now);
    const struct identities_settings settings = {.tokens = w->tokens,
                                                 .wrong_max = (uint32_t)s->wrong_credentials,
                                                 .seed = seed,
                                                 .want_keys = issuers_want,
                                                 .ctx = w->issuers};
    w->identities = identities_new(&settings);
    return read_rules(w, s);
}

void identity_set_reload(struct identity_set *w, const struct settings *s, struct api *api)
{
    if (!s->identities)
        return;
    struct err err = read_rules(w, s);
    if (err.code != ERR_OK) {
        log_error("SIGHUP: identities are those that were there: %s", err.msg);
        return;
    }
    log_info("SIGHUP: %s has been read again", s->identities);
    /* Those who are known no more, or by another rule, lose their streams. */
    api_end_void_streams(api);
}

void identity_set_close(struct identity_set *w)
{
    issuers_close(w->issuers);
}

void identity_set_free(struct identity_set *w)
{
    issuers_free(w->issuers);
    identities_free(w->identities);
    holders_free(w->holders);
    tokens_free(w->tokens);
}
