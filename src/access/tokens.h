/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_TOKENS_H
#define ACCESS_TOKENS_H

/* Tokens: who has one may do what its roles allow, in the queues that it is limited to. A token is
 * 256 random bits with a public id; of the bits only a hash is kept. Nothing here is written to
 * disk: token_write and token_read are the form in which whoever keeps tokens does that.
 *
 * One thread adds tokens. Any thread may look one up, without locks: a token that was added stays
 * where it is until tokens_free, and is revoked by a flag. What is revoked takes memory until then,
 * so the number of tokens ever added is limited. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "access/change_note.h"
#include "access/rights.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/units.h"

#define TOKENS_MAX      10000  /* at a time */
#define TOKENS_EVER_MAX 100000 /* since the start, revoked ones included */
#define TOKEN_ID_LEN    16
#define TOKEN_TEXT_LEN  64 /* "tnx_", the id, '_', 43 characters of base64url */
#define TOKEN_HASH_LEN  32
#define TOKEN_NAME_MAX  64

/* What the jobs of a token may be and have at most; 0: no limit. */
struct token_quota {
    uint64_t waiting; /* jobs that it has enqueued and that have not begun */
    uint64_t budgets; /* that those with the same queues make by enqueueing */
    uint64_t keys;    /* unique keys and aliases that its jobs hold */
};
#define TOKEN_QUOTA_MAX 1000000000

/* What a token is to be. */
struct token_spec {
    unsigned roles;           /* bits 1 << enum role */
    bool payloads;            /* a viewer that sees payloads */
    const struct str *queues; /* patterns; none: all queues */
    size_t queue_count;
    struct token_quota quota;
    struct str name;          /* for people; may be empty */
    instant created, expires; /* expires INSTANT_NONE: never */
};

struct token {
    enum actor_kind kind; /* ACTOR_TOKEN: it is one; else it stands in for somebody who is known by
                           * something else: its id is made of these, and it has no hash */
    struct str subject, issuer; /* issuer: of a JSON Web Token, or empty */
    char id[TOKEN_ID_LEN];
    unsigned char hash[TOKEN_HASH_LEN]; /* SHA-256 of its text */
    unsigned roles;
    bool payloads;
    struct rights rights;
    struct token_quota quota;
    struct str name;
    instant created, expires;
    _Atomic int64_t used; /* milliseconds since 1970 when it was last sent; 0: never */
    int64_t used_kept;    /* what is written of that; for who keeps tokens */
    _Atomic bool revoked;
    bool removed;       /* and so it is on the disk; for who keeps tokens */
    struct token *next; /* in its bucket */
    struct arena memory;
};

/* ERR_BAD_VALUE or ERR_TOO_MANY says what is wrong: no role, a bad pattern or name. */
NODISCARD struct err token_check_spec(const struct token_spec *spec);
/* A new token, and its text, which nobody can make again. ERR_IO: there is no chance to be had. */
NODISCARD struct err token_new(const struct token_spec *spec, struct token **out,
                               char text[TOKEN_TEXT_LEN]);
void token_free(struct token *t);
/* What has the rights of a token for somebody who has none; the spec is good. Everything is copied.
 * The same kind, issuer and subject make the same id, after a restart, too. */
struct token *token_stand_in(const struct token_spec *spec, enum actor_kind kind, struct str issuer,
                             struct str subject);
/* Who it is, for the audit. */
struct actor token_actor(const struct token *t);

/* Adds it as JSON, with the hash. */
void token_write(const struct token *t, struct buf *b);
/* ERR_CORRUPT unless it is what token_write wrote. */
NODISCARD struct err token_read(struct str text, struct token **out);

static inline struct str token_id(const struct token *t)
{
    return (struct str){t->id, TOKEN_ID_LEN};
}
/* Its number, by which jobs name their maker; never 0. */
uint64_t token_number(const struct token *t);
static inline bool token_has_quota(const struct token_quota *q)
{
    return q->waiting || q->budgets || q->keys;
}
/* Neither revoked nor expired. */
bool token_is_live(const struct token *t, instant now);

struct tokens;
struct tokens *tokens_new(void);
void tokens_free(struct tokens *t);

/* ERR_TOO_MANY: no room for another one. */
NODISCARD struct err tokens_check_room(const struct tokens *t);
/* Takes the token. There must be room, and none with its id. */
void tokens_add(struct tokens *t, struct token *one);
/* From now on it is wrong, on every thread. */
void tokens_revoke(struct tokens *t, struct token *one);
/* NULL: there is none with that id. Also finds expired ones, but none that is revoked. */
struct token *tokens_find(const struct tokens *t, struct str id);
/* Likewise, and finds what is revoked but not removed yet. For the thread that adds them. */
struct token *tokens_find_kept(const struct tokens *t, struct str id);
/* The next one from place *at on (0: the first), in the order in which they were added, without
 * those that are revoked, and moves *at behind it; NULL: no further one. For the thread that adds
 * them. */
struct token *tokens_next(const struct tokens *t, size_t *at);
size_t tokens_count(const struct tokens *t);
/* Tokens with the role admin, expired ones included. If there is one, requests need credentials. */
size_t tokens_admins(const struct tokens *t);

/* They could not be read: until they are, nobody is let in, whatever he brings. ERR_OK: they are
 * read, as those of a new struct tokens are. */
void tokens_set_unread(struct tokens *t, const struct err *why);
NODISCARD struct err tokens_unread(const struct tokens *t);

/* The token with this text, and notes that it was used. ERR_BAD_CREDENTIALS if there is none, or it
 * has expired; it takes the same time wherever a wrong text differs. */
NODISCARD struct err tokens_check(const struct tokens *t, struct str text, instant now,
                                  struct token **out);

/* The text behind "Bearer " in the value of an Authorization header; false: another scheme. */
bool tokens_bearer(struct str authorization, struct str *text);

#endif
