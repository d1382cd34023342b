/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ACCESS_CHANGE_NOTE_H
#define ACCESS_CHANGE_NOTE_H

/* What the audit says of a request that changes something: who sent it, from where, and what it is
 * about. It has no secrets: only what is given here, each member cut off at a length of its own. */

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* How somebody is known. */
enum actor_kind {
    ACTOR_ANONYMOUS,   /* nobody has to say */
    ACTOR_TOKEN,       /* id: the token's, name: as it was called */
    ACTOR_CERTIFICATE, /* id: its subject, name: of the identity that it stands for */
    ACTOR_JWT,         /* id: its subject, name: of the identity that it stands for */
    ACTOR_HAWK,        /* id: the client's */
    ACTOR_SERVER,      /* id: what had the server do it: a file */
    ACTOR_KINDS
};

struct actor {
    enum actor_kind kind;
    struct str id, name; /* either may be empty */
    struct str issuer;   /* JWT: by whom it is known */
};

struct change_note {
    struct actor actor;
    struct str address;   /* of the peer; empty: not known */
    struct str operation; /* as in access/rights.def */
    struct str path, query;
    struct str body; /* what was to be changed to; empty for what may carry a payload or a secret */
};

/* "token". */
const char *actor_word(enum actor_kind kind);
/* False if there is none of that name. */
bool actor_parse(struct str word, enum actor_kind *kind);

/* Adds it as JSON of at most CHANGE_NOTE_MAX bytes. Texts need not be valid UTF-8. */
#define CHANGE_NOTE_MAX 32768
void change_note_write(const struct change_note *n, struct buf *b);
/* The line of the log that says who asks for the change, without its body. */
void change_note_log(const struct change_note *n);
/* ERR_CORRUPT unless it is what that wrote; members that are not known are passed over. */
NODISCARD struct err change_note_read(struct str text, struct arena *a, struct change_note *n);

#endif
